"""The normaliser: one form, reached once, and nothing touched that means something as it is."""

import random

import pyarrow as pa
import pytest
from commands import cli, ok, usage
from effort import often
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.errors import ChunkingError
from duckplets.text.preprocessors import from_json

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
MODES = [
    dp.Normaliser(),
    dp.Normaliser(white_space="all"),
    dp.Normaliser(white_space=None),
    dp.Normaliser(nfc=False, controls=False),
    dp.Normaliser(punctuation=False, quotes=False),
    dp.Normaliser(code=True),
]


@pytest.mark.parametrize("mode", MODES)
def test_twice_is_once_and_settings_come_back(mode):
    settings = dp.Chunking(preprocessors=(dp.Denoiser(), mode)).to_json()
    assert dp.Chunking.from_json(settings).preprocessors == (dp.Denoiser(), mode)
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
        assert dp.Normaliser()(text) == " ".join(tokens)


OFF = [
    ({"nfc": False}, "e\u0301"),
    ({"white_space": None}, " a \t b \r\n"),
    ({"controls": False}, "a\x07b\u200bc"),
    ({"quotes": False}, "“a”—b"),
    ({"punctuation": False}, "a , b,c ( d )"),
]
CODE = [
    ("def f( x ):\r\n\treturn x , 1\r\n", "def f( x ):\n\treturn x , 1"),
    ("a\0 = “b” \n  \n\n\t\n", "a = “b” "),
    ("  a\rb\n\n\nc", "  a\nb\n\n\nc"),
    ("\n  a\n", "\n  a"),
    ("\r\n \0\n", None),
]


def test_each_part_can_be_left_out_and_code_keeps_its_lines():
    for off, text in OFF:
        assert dp.Normaliser(**off)(text) == text
        assert dp.Normaliser()(text) != text
    for code, expected in CODE:
        assert dp.Normaliser(code=True)(code) == expected


def test_texts_in_one_form_one_by_one_and_many_at_once():
    for text, expected in CASES.items():
        assert dp.Normaliser()(text) == expected
    for kind in (pa.string(), pa.large_string()):
        texts = pa.array([*CASES, None], kind)
        found = dp.Normaliser().apply(texts)
        assert found.type == kind
        assert found.to_pylist() == [*CASES.values(), None]
    assert dp.Normaliser(white_space="all")("a\n\n b\u2028c ") == "a b c"


def test_wrong_settings_and_uses_are_refused():
    wrong = [
        ({"nfc": 1}, "nfc=1: give True or False"),
        ({"white_space": "line"}, "white_space='line': give 'lines', 'all' or None"),
        ({"white_space": True}, "white_space=True"),
        ({"code": True, "quotes": False}, "quotes=False: with code=True leave it out"),
    ]
    for given, told in wrong:
        with pytest.raises(ChunkingError, match=told):
            dp.Normaliser(**given)
    with pytest.raises(ChunkingError, match="a text to normalise is bytes"):
        dp.Normaliser()(b"a")
    with pytest.raises(ChunkingError, match=r"Normaliser is a class; write dp\.Normaliser\(\)"):
        dp.Chunking(preprocessors=(dp.Normaliser,))
    with pytest.raises(ChunkingError, match=r"'normaliser': unknown key 'nfd' \(did you mean"):
        from_json({"name": "normaliser", "nfd": True})


def test_a_corpus_is_normalised_or_denoised_and_keeps_what_came_and_its_settings(tmp_path):
    noise = "Chapter one\n1234 5678\n| a | b |\n|---|---|\n| 1 | cell |\nThe end"
    rows = [{"id": "a", "text": "Hello , world ."}, {"id": "b", "text": noise}]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:

        def texts():
            found = corpus.sql("SELECT text FROM section_texts ORDER BY record_id")
            return [str(text) for text in found["text"].to_pylist()]

        corpus.chunk(dp.Chunking(max_tokens=5, overlap=(1,)))
        source = dp.MemorySource(rows, id="id", text="text")
        corpus.ingest(source, name="s", progress=False)
        assert corpus.normalise() == 2
        assert texts() == ["Hello, world.", noise]
        kept = corpus.sql("SELECT text FROM section_originals")["text"].to_pylist()
        assert kept == ["Hello , world ."]
        assert corpus.normalise() == 0
        assert corpus.ingest(source, name="s", progress=False).skipped == 2  # ids are of what came
        corpus.chunk(corpus.chunking(preprocessors=()))
        assert texts() == ["Hello , world .", noise]
        assert corpus.denoise() == 2
        assert texts() == ["Hello , world .", "Chapter one\na b\n1 cell\nThe end"]
        assert corpus.status()["chunking"]["max_tokens"] == 5
        assert corpus.status()["cleaned"]["sections changed"] == 1
        assert corpus.denoise(dp.Denoiser(strip_markdown=False)) == 2
        assert "| a | b |" in texts()[1]


def test_the_commands(tmp_path):
    path = tmp_path / "c.duckdb"
    toy_corpus(path, 4).close()
    told = cli("chunk", path, "--normalise", "text").stderr
    assert "'name': 'normaliser'" in told
    told = cli("chunk", path, "--denoise", "--keep-tables").stderr  # what is not named stays
    assert told.index("'denoiser'") < told.index("'normaliser'")
    assert "--denoise" in usage("chunk", path, "--keep-tables")
    told = cli("chunk", path, "--normalise", "code", "--defaults").stderr
    assert "'code': True" in told
    assert "denoiser" not in told
    (tmp_path / "t.csv").write_text("id,body,more\na,one  two,12 34\n")
    columns = ("--text", "body", "--context", "more")
    how = ("--normalise", "text", "--denoise")
    said = ok("ingest", tmp_path / "d.duckdb", tmp_path / "t.csv", *columns, *how)
    assert "1 section dropped by denoiser" in said
    assert "cleaned   " in ok("status", tmp_path / "d.duckdb")
    with dp.Corpus(tmp_path / "d.duckdb", read_only=True) as corpus:
        assert corpus.sql("SELECT text FROM sections")["text"].to_pylist() == ["one two"]
