"""Metadata prefixes: what a user writes, and what a corpus keeps of it."""

import datetime
import itertools
import json
import random

import numpy as np
import pyarrow as pa
import pytest
from effort import often
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.errors import ChunkingError, SourceError
from duckplets.ingest import prefixes as prefix_store
from duckplets.text.prefix import Field, Prefix, date_renderings, prefix_of
from duckplets.text.preprocessors import from_json

SOURCE = Field("source", "wiki")


def test_what_is_written_is_one_form_and_comes_back():
    assert Field("k", "one").values == ("one",)
    odd = Field(" two  words ", ["b", " a\n c ", "", "b", " "], 0.5)
    assert odd == Field("two words", ("b", "a c"), 0.5)
    assert Field.from_column(" meta.date ") == Field("date", column="meta.date")
    listed = Prefix.from_columns(["source", "date", "topic"], 0.5)
    assert Prefix.from_columns("source, date,topic") == listed
    assert listed.columns == ("source", "date", "topic")
    assert prefix_of("source") == Prefix(0.5, [[Field.from_column("source")]])
    assert prefix_of(None) is None
    dates = Field("date", ["2024", "'24"], 0.5)
    prefix = Prefix(0.25, [[SOURCE, dates], [Field.from_column("trust", 0.1)]])
    again = Prefix.from_dict(json.loads(json.dumps(prefix.to_dict())))
    assert again == prefix_of(prefix) == prefix_of(prefix.to_dict()) == prefix
    assert hash(again) == hash(prefix)


def plain(**given):
    return lambda: Prefix.from_dict({"probability": 1, **given})


WRONG = [
    (lambda: Field("", "v"), "prefix field '': key='': give up to 200 printable characters"),
    (lambda: Field("a\nb", "v"), "prefix field 'a\\nb': key='a\\nb': give up to 200 printable"),
    (lambda: Field("a=b", "v"), "a key has no '=' and no '|'"),
    (lambda: Field("k", []), "prefix field 'k': values=() has no text"),
    (lambda: Field("k", [1]), "prefix field 'k': values[0]=1: give text"),
    (
        lambda: Field("k", "v", 1.5),
        "prefix field 'k': presence=1.5: give a finite number from 0 to 1",
    ),
    (lambda: Field("k", "v", column="date"), "give values or column, not both"),
    (lambda: Field("k", column=" "), "column=' ': give the name of a column"),
    (
        lambda: Prefix(-0.1, [[SOURCE]]),
        "prefix: probability=-0.1: give a finite number from 0 to 1",
    ),
    (lambda: Prefix(1, []), "prefix: variants=(): give at least one list, with at least"),
    (lambda: Prefix(1, [[]]), "prefix: variants=((),): give at least one list, with at least"),
    (lambda: Prefix(1, [SOURCE]), "prefix: variants[0]=Field(key='source', "),
    (lambda: Prefix(1, [["k"]]), "prefix: variants[0][0]='k': give Field(…)"),
    (lambda: Prefix(1, [[SOURCE, SOURCE]]), "a variant has the key 'source' twice"),
    (lambda: Prefix.from_columns("source,,date"), "prefix='source,,date': a name is empty"),
    (lambda: Prefix.from_columns(7), "prefix=7: give a list of texts"),
    (plain(), "prefix: variants is missing"),
    (plain(variant=[]), "prefix: unknown key 'variant' (did you mean 'variants'?)"),
    (plain(variants={}), "prefix: variants={}: give a list of a list of Field"),
    (
        plain(variants=[[{"key": "k", "value": "v"}]]),
        "prefix: variants[0][0]: unknown key 'value' (did you mean 'values'?)",
    ),
    (plain(variants=[["k"]]), "prefix: variants[0][0]='k': give Field(…)"),
]


def test_what_is_wrong_is_said():
    for make, said in WRONG:
        with pytest.raises(SourceError) as caught:
            make()
        assert said in str(caught.value)


def test_a_date_has_six_renderings():
    assert date_renderings(datetime.date(2024, 10, 5)) == [
        *("2024-10-05", "Oct. 5, 2024", "October 5, 2024"),
        *("05.10.2024", "10/05/2024", "Oct 5, 2024"),
    ]
    for i in range(366):
        day = datetime.date(1, 1, 1) + datetime.timedelta(days=9973 * i)
        found = date_renderings(day)
        assert len(found) == len(set(found)) == (5 if day.month == 5 else 6)
        assert found[0] == day.isoformat()


def test_what_a_corpus_keeps(tmp_path):
    with toy_corpus(tmp_path / "toy.duckdb", 30, sources=("a", "b")) as corpus:
        database = corpus.database
        # The digest that a run is pinned to tells prefixes apart.
        assert prefix_store.declared(database, corpus.version) == prefix_store.DeclaredPrefixes()
        found = [prefix_store.DeclaredPrefixes()]
        for prefix in (Prefix.from_columns("source"), Prefix.from_columns("source", 0.4)):
            with database.transaction():
                prefix_store.set_source(database, 1, 1, prefix)
            found.append(prefix_store.declared(database, corpus.version))
        own = json.dumps(Prefix(1, [[SOURCE]]).to_dict())
        for key in (3, 4):
            prefix_store.append(database, np.array([key]), pa.array([own]))
            found.append(prefix_store.declared(database, corpus.version))
        assert not [pair for pair in itertools.combinations(found, 2) if pair[0] == pair[1]]


# ---- the normaliser: one form, reached once, and nothing touched that means something as it is


CASES = {
    "Hello , world .": "Hello, world.",
    "one,two;three": "one, two; three",
    "Was ist das ? Ja : nein !": "Was ist das? Ja: nein!",
    "a ( b ) [ c ]": "a (b) [c]",
    "“Hi” – it’s ‘so’ — 5−3": "\"Hi\" - it's 'so' - 5-3",
    "  a \t b\u00a0c  ": "a b c",
    "a\r\nb\rc\n\n \n\nd\u2028e\x85f": "a\nb\nc\n\nd\ne\nf",
    "a\x00b\x07c\u200bd\ufeffe\u00adf": "abcdef",
    "e\u0301 A\u030a": "é Å",
    "می\u200cخواهم 👩\u200d🔬": "می\u200cخواهم 👩\u200d🔬",
    "sad :( and glad :) or ;)": "sad :( and glad :) or ;)",
    "wait ... what .NET .5": "wait ... what .NET .5",
    "see http://a.b . End": "see http://a.b . End",
    "": None,
    " \n\x00\u200b": None,
}

KEPT = [
    *("3.14", "1,000.5", "10:30", "-5", "1e-9", "192.168.0.1", "2024-01-02", "3/4", "50%", "..."),
    *("https://a.b/c,d;e?f=g,h!i", "http://x.y:80/z_(w)", "www.a.b/c,d", "me,you@a.b", "C:\\a,b"),
    *("e.g.", "i.e.", "U.S.A.", "a.m.", "Ph.D.", "z.B.", "don't", "well-known", "?!"),
]
SIGNS = " ab1.,;:!?()[]{}\"'/@-\n\r\t\0\u0301“’—\u00a0\u2028\u200bé\x85東"
PIECES = [*KEPT, *SIGNS, " \n ", "  ", "word"]
MODES = [dp.plugins.Normaliser(), dp.plugins.Normaliser(code=True)]


@pytest.mark.parametrize("mode", MODES)
def test_twice_is_once_and_settings_come_back(mode):
    settings = dp.Chunking(preprocessors=(dp.plugins.Denoiser(), mode)).to_json()
    assert dp.Chunking.from_json(settings).preprocessors == (dp.plugins.Denoiser(), mode)
    draw = random.Random(7)
    for _ in range(often(20_000, less=1_500)):
        text = "".join(draw.choices(PIECES, k=draw.randint(1, 20)))
        once = mode(text)
        assert once is None or mode(once) == once, repr(text)


def test_tokens_that_mean_something_stay():
    draw = random.Random(8)
    for _ in range(often(5_000, less=500)):
        tokens = draw.choices([*KEPT, "word", "Word"], k=draw.randint(1, 8))
        gaps = draw.choices([" ", "  ", "\t", "\u00a0"], k=len(tokens))
        text = "".join(gap + token for gap, token in zip(gaps, tokens, strict=True))
        assert dp.plugins.Normaliser()(text) == " ".join(tokens)


CODE = [
    ("def f( x ):\r\n\treturn x , 1\r\n", "def f( x ):\n\treturn x , 1"),
    ("a\0 = “b” \n  \n\n\t\n", "a = “b” "),
    ("  a\rb\n\n\nc", "  a\nb\n\n\nc"),
    ("\n  a\n", "\n  a"),
    ("\r\n \0\n", None),
]


def test_code_keeps_its_lines():
    for code, expected in CODE:
        assert dp.plugins.Normaliser(code=True)(code) == expected


def test_texts_in_one_form_one_by_one_and_many_at_once():
    for text, expected in CASES.items():
        assert dp.plugins.Normaliser()(text) == expected
    for kind in (pa.string(), pa.large_string()):
        texts = pa.array([*CASES, None], kind)
        found = dp.plugins.Normaliser().apply(texts)
        assert found.type == kind
        assert found.to_pylist() == [*CASES.values(), None]


def test_wrong_settings_and_uses_are_refused():
    with pytest.raises(ChunkingError, match="code=1: give True or False"):
        dp.plugins.Normaliser(code=1)
    with pytest.raises(ChunkingError, match="a text to normalise is bytes"):
        dp.plugins.Normaliser()(b"a")
    with pytest.raises(ChunkingError, match=r"is a class; write dp\.plugins\.Normaliser\(\)"):
        dp.Chunking(preprocessors=(dp.plugins.Normaliser,))
    with pytest.raises(ChunkingError, match=r"'normaliser': unknown key 'cod' \(did you mean"):
        from_json({"name": "normaliser", "cod": True})


def test_a_corpus_is_normalised_or_denoised_and_keeps_what_came_and_its_settings(tmp_path):
    noise = "Chapter one\n1234 5678\n| a | b |\n|---|---|\n| 1 | cell |\nThe end"
    rows = [{"id": "a", "text": "Hello , world ."}, {"id": "b", "text": noise}]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:

        def texts():
            found = corpus.sql("SELECT text FROM section_texts ORDER BY record_id")
            return [str(text) for text in found["text"].to_pylist()]

        corpus.chunk(dp.Chunking(max_tokens=5, overlap=(1,)))
        source = dp.sources.MemorySource(rows, id="id", text="text")
        corpus.ingest(source, name="s")
        assert corpus.chunk(normalise=True) == 2
        assert texts() == ["Hello, world.", noise]
        kept = corpus.sql("SELECT text FROM section_originals")["text"].to_pylist()
        assert kept == ["Hello , world ."]
        assert corpus.chunk(normalise=True) == 0
        assert corpus.ingest(source, name="s", progress=False).skipped == 2  # ids are of what came
        corpus.chunk(preprocessors=())
        assert texts() == ["Hello , world .", noise]
        assert corpus.chunk(denoise=True) == 2
        assert texts() == ["Hello , world .", "Chapter one\na b\n1 cell\nThe end"]
        assert corpus.status()["chunking"]["max_tokens"] == 5
        assert corpus.status()["cleaned"]["sections changed"] == 1
        assert corpus.chunk(denoise=dp.plugins.Denoiser(strip_markdown=False)) == 2
        assert "| a | b |" in texts()[1]
        assert corpus.chunk(normalise=True) == 2
        assert corpus.chunk(denoise=False) == 2  # the normaliser stays
        assert texts() == ["Hello, world.", noise]
        assert corpus.chunk(denoise=False) == 0
        assert corpus.chunk(normalise=False) == 2
        assert texts() == ["Hello , world .", noise]
