"""Preprocessors: in the settings, at ingest, and when a corpus is cleaned anew."""

import json
import random

import pytest
from effort import some
from prebuilt import empty_corpus

import duckplets as dp
from duckplets.errors import ChunkingError
from duckplets.ingest import chunks
from duckplets.ingest.chunks import cleaned, cleaning
from duckplets.ingest.preprocess import NOTHING_LEFT
from duckplets.text import preprocessors
from duckplets.text.chunking import Chunking
from duckplets.text.denoiser import Denoiser
from duckplets.text.preprocessors import Preprocessor, register_preprocessor

TABLES = ("records", "sections", "chunks", "section_originals", "splits")


@pytest.fixture(autouse=True)
def registry():
    """Leave no function behind that a test has registered."""
    yield
    preprocessors.REGISTRY.clear()


def shout(text):
    return text.upper()


def test_settings_name_their_preprocessors_in_order():
    register_preprocessor("shout", shout, version="7")
    chunking = Chunking(preprocessors=[shout, Denoiser(max_digit_ratio=0.5)])
    stored = chunking.to_json()
    assert stored["preprocessors"] == [
        {"name": "shout", "version": "7"},
        {"name": "denoiser", "max_digit_ratio": 0.5, "strip_markdown": True},
    ]
    assert chunking.fingerprint()["preprocessors"] == stored["preprocessors"]
    preprocessors.REGISTRY.clear()  # reading settings needs no function
    assert Chunking.from_json(json.loads(json.dumps(stored))) == chunking
    assert hash(chunking) == hash(Chunking.from_json(stored))
    short = {"preprocessors": [{"name": "denoiser"}, {"name": "mine"}]}
    assert Chunking.from_json(short).preprocessors == (Denoiser(), Preprocessor(name="mine"))
    plain = Chunking().to_json()  # as before there were any
    assert "preprocessors" not in plain
    assert Chunking.from_json(plain | {"preprocessors": []}) == Chunking(preprocessors=())
    assert Chunking(preprocessors=[]).fingerprint() == plain
    # A function goes by the name it was given last.
    register_preprocessor("one", shout)
    second = register_preprocessor("two", shout, version="b")
    assert Chunking(preprocessors=[shout]).preprocessors == (second,)


GIVEN = [
    (
        Denoiser(),
        r"preprocessors=Denoiser\(.*expected a list, such as \(dp\.plugins\.Denoiser\(\),",
    ),
    ("denoiser", "preprocessors='denoiser': expected a list"),
    (
        ["denoiser"],
        r"'denoiser' is no preprocessor; expected dp\.plugins\.Denoiser\(\), dp\.plugins\.Norm",
    ),
    ([Denoiser], r"Denoiser is a class; write dp\.plugins\.Denoiser\(\)"),
    (
        [str.upper],
        r"function upper has no name .* dp\.plugins\.register_preprocessor\('upper', upper",
    ),
    ([None], "None is no preprocessor"),
]
STORED = [
    ({"name": "denoiser", "max_digits": 1}, "'max_digits' .*did you mean 'max_digit_ratio'"),
    ({"name": "denoiser", "max_digit_ratio": 2}, "max_digit_ratio=2: give a finite number"),
    ({"name": "mine", "strip_markdown": True}, "'mine': unknown key 'strip_markdown'"),
    ({"version": "1"}, "has no name; expected an object such as"),
    ("denoiser", "'denoiser' has no name"),
    ({"name": ""}, "preprocessor: name='': give up to 200 printable characters"),
    ({"name": "mine", "version": 1}, "preprocessor: version=1: give"),
]
REGISTERED = [
    (("denoiser", shout), r"'denoiser' is taken: it is dp\.plugins\.Denoiser"),
    (("x", 3), "preprocessor 'x' is 3: expected a function"),
    (("a\nb", shout), r"preprocessor: name='a\\nb'"),
    (("x", shout, ""), "preprocessor: version=''"),
]


def test_wrong_preprocessors_are_refused():
    for given, told in GIVEN:
        with pytest.raises(ChunkingError, match=told):
            Chunking(preprocessors=given)
    for stored, told in STORED:
        with pytest.raises(ChunkingError, match=told):
            Chunking.from_json({"preprocessors": [stored]})
    for arguments, told in REGISTERED:
        with pytest.raises(ChunkingError, match=told):
            register_preprocessor(*arguments)


WORDS = ["alpha", "beta", "gamma delta", "naïve", "漢字", "x1", "12", "3456", "7", "99999"]


NOISE = ["12 34", "----", "| 1 | 2 |\n|---|---|", "7\n8\n9"]


def text_of(draw, noise):
    if draw.random() < noise:
        return draw.choice(NOISE)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(3)]
    if draw.random() < 0.5:
        lines = [f"| {line} | {draw.choice(WORDS)} |" for line in lines]
    return f"{draw.choice(WORDS[:5])} {draw.random()}\n" + "\n".join(lines)


def rows_of(count, seed):
    """Rows of an anchor, a positive and up to three contexts; some are noise as a whole."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        noise = draw.choice([0.0, 0.3, 0.3, 0.3, 1.0])
        texts = [text_of(draw, noise) for _ in range(draw.randint(3, 5))]
        rows.append({"id": f"r{i}", "anchor": texts[0], "positive": texts[1], "context": texts[2:]})
    return rows


def source_of(rows):
    return dp.sources.MemorySource(
        rows, id="id", anchor="anchor", positive="positive", context="context"
    )


def dump(corpus, *tables):
    """Rows of tables in the order in which they are stored; times of the ingest aside."""
    found = {name: corpus.sql(f"FROM {name}").to_pylist() for name in tables or TABLES}
    for row in found.get("records", []):
        del row["created_at"], row["updated_at"]
    return found


def check(corpus, rows, chunking):
    """Check the stored sections and originals against the rows and the preprocessors."""
    functions = [
        one if isinstance(one, Denoiser) else preprocessors.REGISTRY.find(one.name, one.version)
        for one in chunking.preprocessors
    ]
    stored, kept = (
        {(row["record_id"], row["position"]): row["text"] for row in corpus.sql(query).to_pylist()}
        for query in (
            "SELECT record_id, position, text FROM sections JOIN records USING (record_key)",
            "SELECT record_id, position, o.text FROM section_originals o JOIN records "
            "USING (record_key)",
        )
    )
    ids = {record["record_id"] for record in corpus.sql("FROM records").to_pylist()}
    expected, originals = {}, {}
    for row in rows:
        if f"s/{row['id']}" not in ids:
            continue
        for position, text in enumerate([row["anchor"], row["positive"], *row["context"]]):
            clean = text
            for function in functions:
                clean = None if clean is None else function(clean)
            if clean is not None:
                expected[f"s/{row['id']}", position] = clean
            if clean != text:
                originals[f"s/{row['id']}", position] = text
    assert stored == expected
    assert kept == originals
    places = corpus.sql(
        "SELECT record_key, position FROM sections ORDER BY section_key"
    ).to_pylist()
    assert places == sorted(places, key=lambda row: tuple(row.values()))


DENOISED = Chunking(max_tokens=6, overlap=(2,), summary_tokens=3, preprocessors=[Denoiser()])
PLAIN = Chunking(max_tokens=6, overlap=(2,), summary_tokens=3)


def test_ingest_stores_clean_text_and_what_came(corpus):
    rows = rows_of(60, 1)
    corpus.chunk(DENOISED)
    report = corpus.ingest(source_of(rows), name="s", progress=False)
    noise = [
        row
        for row in rows
        if not any(map(Denoiser(), [row["anchor"], row["positive"], *row["context"]]))
    ]
    assert noise
    assert report.reasons == {NOTHING_LEFT: len(noise)}
    assert report.added == len(rows) - len(noise)
    check(corpus, rows, DENOISED)
    # A token counts where it is stored, not where it came from.
    wrong = "FROM sections WHERE token_count <> len(regexp_extract_all(text, '漢|[^漢\\s]+'))"
    assert corpus.sql(wrong).num_rows == 0
    again = corpus.ingest(source_of(rows), name="s", on_error="quarantine", progress=False)
    assert again.added == 0
    assert len(corpus.sql("FROM quarantine")) == 0  # noise is counted, and not set aside
    assert again.reasons == {"duplicate id, same content": report.added, **report.reasons}


def test_ids_and_hashes_are_those_of_the_original(tmp_path):
    rows = [{k: v for k, v in row.items() if k != "id"} for row in rows_of(30, 2)]
    source = {"anchor": "anchor", "positive": "positive", "context": "context"}
    found = []
    for name, chunking in (("plain", PLAIN), ("clean", DENOISED)):
        with empty_corpus(tmp_path / f"{name}.duckdb") as corpus:
            corpus.chunk(chunking)
            corpus.ingest(dp.sources.MemorySource(rows, **source), name="s", progress=False)
            table = corpus.sql("SELECT record_id, content_hash FROM records")
            found.append({tuple(row.values()) for row in table.to_pylist()})
    assert found[1] < found[0]


@pytest.mark.parametrize(("batch", "count"), some([(7, 40), (1, 12), (4096, 90)], less=1))
def test_there_and_back_gives_the_same_corpus_and_changes_are_counted(
    corpus, monkeypatch, batch, count
):
    monkeypatch.setattr(chunks, "_RECORDS", batch)
    rows = rows_of(count, 3)
    register_preprocessor("shout", shout)
    shouted = Chunking(max_tokens=4, preprocessors=[shout])
    corpus.chunk(PLAIN)
    corpus.ingest(source_of(rows), name="s", progress=False)
    corpus.split(seed=1)
    before, digest = dump(corpus), cleaning(corpus.database)
    assert digest == ""
    digests = []
    for chunking in (DENOISED, shouted, DENOISED):
        assert corpus.chunk(chunking) == len(before["sections"])
        check(corpus, rows, chunking)
        assert corpus.chunk(chunking) == 0
        digests.append(cleaning(corpus.database))
        found = dump(corpus, "records", "splits")
        assert found == {name: before[name] for name in found}
    assert digests[0] == digests[2] != digests[1]
    corpus.chunk(PLAIN)
    after = dump(corpus)
    for row in after["chunks"] + before["chunks"]:
        del row["chunk_key"]  # which count on
    assert after == before
    # What is changed or dropped is counted, but of sources that are gone.
    corpus.ingest(source_of(rows), name="gone", progress=False)
    corpus.remove("gone")
    assert set(cleaned(corpus.database).values()) == {0}
    corpus.chunk(DENOISED)
    assert corpus.count() == len(rows)  # also of records without sections
    texts = [[row["anchor"], row["positive"], *row["context"]] for row in rows]
    results = [[(text, Denoiser()(text)) for text in of_row] for of_row in texts]
    counts = {
        "sections changed": sum(c not in (None, t) for row in results for t, c in row),
        "sections dropped": sum(c is None for row in results for _, c in row),
        "records without sections": sum(all(c is None for _, c in row) for row in results),
    }
    assert cleaned(corpus.database) == counts
    assert counts["records without sections"] > 0
    read = corpus.read(range(len(rows)), batch_size=50)
    assert [text for batch in read for text in batch["text"]] == [
        "\n\n".join(clean for _, clean in row if clean is not None) for row in results
    ]


def test_a_function_that_is_not_registered_is_asked_for(tmp_path):
    rows = rows_of(40, 7)
    register_preprocessor("shout", shout, version="2")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(Chunking(preprocessors=[shout]))
        corpus.ingest(source_of(rows), name="s", progress=False)
        corpus.split(1, 0, 0)
    preprocessors.REGISTRY.clear()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        before = dump(corpus)
        told = r"'shout' is not registered.*register_preprocessor\('shout', function, version='2'"
        with pytest.raises(ChunkingError, match=told):
            corpus.ingest(source_of(rows_of(5, 8)), name="t", progress=False)
        other = Chunking(preprocessors=[Denoiser(), Preprocessor(name="shaut")])
        register_preprocessor("shout", shout)
        with pytest.raises(ChunkingError, match=r"'shaut' is not registered.*mean 'shout'"):
            corpus.chunk(other)
        with pytest.raises(ChunkingError, match="in version '2', and registered in '1'"):
            corpus.ingest(source_of(rows_of(5, 8)), name="t", progress=False)
        assert dump(corpus) == before
        with corpus.sampler("texts", batch_size=4, steps=3) as sampler:
            assert all(text == text.upper() for batch in sampler for text in batch["text"])


def failing(bad):
    return lambda text: bad(text) if "bad" in text else text


def unknown(text):
    raise KeyError(text)


FAULTS = [
    (unknown, "preprocessor 'mine' failed on record {}, section 3: KeyError: 'a bad one'"),
    (lambda text: 7, "'mine' returned int for record {}"),
    (lambda text: b"x", "'mine' returned bytes for record {}"),
    (lambda text: "\ud800", "half a surrogate pair for record {}"),
]


def test_a_failing_function_is_named_and_leaves_the_corpus_as_it_was(corpus):
    rows = rows_of(40, 9)
    rows[33]["context"] = ["fine", "a bad one"]
    corpus.ingest(source_of(rows), name="s", progress=False)
    named = Chunking(preprocessors=[Preprocessor(name="mine")])

    def check_faults(attempt, where):
        before = dump(corpus, *TABLES, "settings", "corpus_versions")
        for bad, told in FAULTS:
            register_preprocessor("mine", failing(bad))
            with pytest.raises(ChunkingError, match=told.format(where)):
                attempt()
        assert dump(corpus, *TABLES, "settings", "corpus_versions") == before

    check_faults(lambda: corpus.chunk(named), "s/r33")
    corpus.remove("s")
    register_preprocessor("mine", str)
    corpus.chunk(named)
    check_faults(lambda: corpus.ingest(source_of(rows), name="t"), r"r33 \(row 34\)")


def test_preprocessors_are_called_in_order_and_keys_of_what_they_drop_stay_free(corpus):
    seen = []

    def note(text):
        seen.append(text)
        return " " if text == "KEPT AS IT IS" else text

    def drop_short(text):
        return text if len(text) > 8 else None

    register_preprocessor("shout", shout)
    register_preprocessor("short", drop_short)
    register_preprocessor("note", note)
    corpus.chunk(Chunking(preprocessors=[drop_short, shout, note, Denoiser()]))
    texts = ["some prose", "tiny", "kept as it is", "12345678901"]
    rows = [{"id": "a", "anchor": texts[1], "positive": texts[0], "context": texts[2:]}]
    report = corpus.ingest(source_of(rows), name="s", progress=False)
    assert seen == ["SOME PROSE", "KEPT AS IT IS", "12345678901"]
    for name in ("short", "note", "denoiser"):
        assert f"1 time: section dropped by {name}" in str(report)
    stored = dump(corpus, "sections")["sections"]
    assert [(row["section_key"], row["text"]) for row in stored] == [(2, "SOME PROSE")]
    # Other windows of clean texts need no function.
    before = dump(corpus, "section_originals")
    preprocessors.REGISTRY.clear()
    named = [Preprocessor(name=name) for name in ("short", "shout", "note")]
    assert corpus.chunk(Chunking(max_tokens=1, preprocessors=[*named, Denoiser()])) == 1
    assert len(corpus.sql("FROM chunks WHERE kind = 'window'")) == 2
    assert dump(corpus, "section_originals") == before
    corpus.chunk(PLAIN)
    corpus.ingest(source_of([rows[0] | {"id": "b"}]), name="s", progress=False)
    keys = [row["section_key"] for row in dump(corpus, "sections")["sections"]]
    assert keys == [1, 2, 3, 4, 5, 6, 7, 8]
