"""Preprocessors: in the settings, at ingest, and when a corpus is cleaned anew."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from effort import some

import duckplets as dp
from duckplets.db.database import Database
from duckplets.errors import ChunkingError
from duckplets.ingest import chunks
from duckplets.ingest.append import Appending
from duckplets.ingest.chunks import cleaned, cleaning
from duckplets.ingest.preprocess import NOTHING_LEFT, preprocess
from duckplets.sources.rows import ROW_SCHEMA
from duckplets.text import preprocessors
from duckplets.text.chunking import Chunking
from duckplets.text.denoiser import Denoiser
from duckplets.text.preprocessors import Preprocessor, register_preprocessor

TABLES = ("records", "sections", "chunks", "section_originals", "splits")


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Leave no function behind that a test has registered."""
    yield
    preprocessors.REGISTRY.clear()


def shout(text: str) -> str | None:
    return text.upper()


def drop_short(text: str) -> str | None:
    return text if len(text) > 8 else None


# ---- settings


def test_without_preprocessors_the_settings_are_what_they_were() -> None:
    expected = {
        "max_tokens": 1024,
        "overlap": [64],
        "summary_tokens": 512,
        "summary_weight": 0.35,
        "weight_floor": 0.1,
        "position_weight": "window",
        "tokenizer": None,
    }
    assert Chunking().to_json() == expected
    assert Chunking(preprocessors=[]).fingerprint() == expected
    assert Chunking(preprocessors=()) == Chunking.from_json(expected)
    assert Chunking.from_json(expected | {"preprocessors": []}) == Chunking()


def test_settings_name_their_preprocessors_in_order() -> None:
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


def test_a_function_goes_by_the_name_it_was_given_last() -> None:
    first = register_preprocessor("one", shout)
    assert Chunking(preprocessors=[shout]).preprocessors == (first,)
    second = register_preprocessor("two", shout, version="b")
    assert Chunking(preprocessors=[shout]).preprocessors == (second,)
    assert second == Preprocessor(name="two", version="b")
    third = register_preprocessor("two", shout, 3)
    assert third == Preprocessor(name="two", version="3")
    register_preprocessor("one", shout)
    assert Chunking(preprocessors=(shout, second)).preprocessors == (first, second)


WRONG_SETTINGS: list[tuple[Any, str]] = [
    (Denoiser(), r"preprocessors=Denoiser\(.*expected several, such as \(dp\.Denoiser\(\),\)"),
    ("denoiser", "preprocessors='denoiser': expected several"),
    (
        ["denoiser"],
        r"'denoiser' is no preprocessor; expected dp\.Denoiser\(\), dp\.Normaliser\(\) or a",
    ),
    ([Denoiser], r"Denoiser is a class; write dp\.Denoiser\(\)"),
    ([str.upper], r"function upper has no name .* dp\.register_preprocessor\('upper', upper"),
    ([None], "None is no preprocessor"),
]


@pytest.mark.parametrize(
    ("given", "told"), WRONG_SETTINGS, ids=[told for _, told in WRONG_SETTINGS]
)
def test_wrong_preprocessors_are_refused(given: Any, told: str) -> None:
    with pytest.raises(ChunkingError, match=told):
        Chunking(preprocessors=given)


WRONG_JSON: list[tuple[Any, str]] = [
    ({"name": "denoiser", "max_digits": 1}, "'max_digits' .*did you mean 'max_digit_ratio'"),
    (
        {"name": "denoiser", "max_digit_ratio": 2},
        "max_digit_ratio=2: give a finite number from 0 to 1",
    ),
    ({"name": "mine", "strip_markdown": True}, "preprocessor 'mine': unknown key 'strip_markdown'"),
    ({"version": "1"}, "has no name; expected an object such as"),
    ("denoiser", "'denoiser' has no name"),
    ({"name": ""}, "preprocessor name '': give up to 200 printable characters"),
    ({"name": "mine", "version": 1}, "preprocessor version 1: give"),
]


@pytest.mark.parametrize(("given", "told"), WRONG_JSON, ids=[told for _, told in WRONG_JSON])
def test_wrong_settings_in_a_file_are_refused(given: Any, told: str) -> None:
    with pytest.raises(ChunkingError, match=told):
        Chunking.from_json({"preprocessors": [given]})


def test_wrong_registrations_are_refused() -> None:
    with pytest.raises(ChunkingError, match=r"'denoiser' is taken: that is dp\.Denoiser\(\)"):
        register_preprocessor("denoiser", shout)
    with pytest.raises(ChunkingError, match="preprocessor 'x' is 3: expected a function"):
        register_preprocessor("x", 3)  # type: ignore[arg-type]
    with pytest.raises(ChunkingError, match=r"preprocessor name 'a\\nb'"):
        register_preprocessor("a\nb", shout)
    with pytest.raises(ChunkingError, match="preprocessor version ''"):
        register_preprocessor("x", shout, version="")


# ---- a batch of rows


def batch_of(rows: list[tuple[list[str] | None, str | None]]) -> pa.RecordBatch:
    """Rows of texts and a reason to skip them."""
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in ROW_SCHEMA.names}
    columns["row"] = list(range(1, len(rows) + 1))
    columns["key"] = [f"k{i}" for i in range(len(rows))]
    columns["content_hash"] = list(range(len(rows)))
    columns["sections"] = [
        None
        if texts is None
        else [
            {"role": "context" if i else "anchor", "heading": f"h{i}", "text": text}
            for i, text in enumerate(texts)
        ]
        for texts, _ in rows
    ]
    columns["skip"] = [skip for _, skip in rows]
    return pa.record_batch(list(columns.values()), names=ROW_SCHEMA.names).cast(ROW_SCHEMA)


ROWS: list[tuple[list[str] | None, str | None]] = [
    (["a title", "some prose\n12 34"], None),
    (["12", "kept", "| x | y |"], None),
    (["12", "---"], None),
    (["12", "kept"], "no text"),
    (None, "invalid JSON"),
    (["only"], None),
]


def test_preprocessors_are_called_in_order_and_counted_by_name() -> None:
    seen: list[str] = []

    def note(text: str) -> str | None:
        seen.append(text)
        return {"KEPT AS IT IS": " ", "SOME PROSE": "some prose\n12"}.get(text, text)

    register_preprocessor("shout", shout)
    register_preprocessor("short", drop_short)
    register_preprocessor("note", note)
    batch = batch_of([(["some prose", "tiny", "kept as it is", "12345678901"], None)])
    chunking = Chunking(preprocessors=[drop_short, shout, note, Denoiser()])
    found, dropped = preprocess(batch, chunking)
    sections = found["sections"][0].as_py()
    assert [section["text"] for section in sections] == ["some prose", None, None, None]
    assert seen == ["SOME PROSE", "KEPT AS IT IS", "12345678901"]
    assert dropped == {
        "section dropped by short": 1,
        "section dropped by note": 1,  # blank
        "section dropped by denoiser": 1,
    }
    # What comes back as it was has no original.
    assert [section["original"] for section in sections] == [
        None,
        "tiny",
        "kept as it is",
        "12345678901",
    ]


def fail(text: str) -> str | None:
    if "bad" in text:
        raise KeyError(text)
    return text


FAULTS: list[tuple[Any, str]] = [
    (fail, r"preprocessor 'mine' failed on record k2 \(row 3\), section 1: KeyError: 'a bad one'"),
    (lambda text: 7 if "bad" in text else text, "'mine' returned int for record k2"),
    (lambda text: b"x" if "bad" in text else text, "'mine' returned bytes for record k2"),
    (lambda text: "\ud800" if "bad" in text else text, "half a surrogate pair for record k2"),
]


@pytest.mark.parametrize(("function", "told"), FAULTS, ids=[told for _, told in FAULTS])
def test_a_function_that_fails_is_named_with_its_record(function: Any, told: str) -> None:
    chunking = Chunking(preprocessors=[register_preprocessor("mine", function)])
    rows: list[tuple[list[str] | None, str | None]]
    rows = [(["good"], None), (["a bad one"], "skipped"), (["good", "a bad one"], None)]
    with pytest.raises(ChunkingError, match=told):
        preprocess(batch_of(rows), chunking)


# ---- a corpus


WORDS = ["alpha", "beta", "gamma delta", "naïve", "漢字", "x1", "12", "3456", "7", "99999"]


NOISE = ["12 34", "----", "| 1 | 2 |\n|---|---|", "7\n8\n9"]


def text_of(draw: random.Random, noise: float) -> str:
    if draw.random() < noise:
        return draw.choice(NOISE)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(3)]
    if draw.random() < 0.5:
        lines = [f"| {line} | {draw.choice(WORDS)} |" for line in lines]
    return f"{draw.choice(WORDS[:5])} {draw.random()}\n" + "\n".join(lines)


def rows_of(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows of an anchor, a positive and up to three contexts; some are noise as a whole."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        noise = draw.choice([0.0, 0.3, 0.3, 0.3, 1.0])
        texts = [text_of(draw, noise) for _ in range(draw.randint(3, 5))]
        rows.append({"id": f"r{i}", "anchor": texts[0], "positive": texts[1], "context": texts[2:]})
    return rows


def source_of(rows: list[dict[str, Any]]) -> dp.MemorySource:
    return dp.MemorySource(rows, id="id", anchor="anchor", positive="positive", context="context")


def dump(corpus: dp.Corpus, *tables: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of tables in the order in which they are stored; times of the ingest aside."""
    found = {name: corpus.sql(f"FROM {name}").to_pylist() for name in tables or TABLES}
    for row in found.get("records", []):
        del row["created_at"], row["updated_at"]
    return found


def check(corpus: dp.Corpus, rows: list[dict[str, Any]], chunking: Chunking) -> None:
    """Check the stored sections and originals against the rows and the preprocessors."""
    functions = [
        one if isinstance(one, Denoiser) else preprocessors.REGISTRY.find(one.name, one.version)
        for one in chunking.preprocessors
    ]
    stored = {
        (row["record_id"], row["position"]): row["text"]
        for row in corpus.sql(
            "SELECT record_id, position, text FROM sections JOIN records USING (record_key)"
        ).to_pylist()
    }
    kept = {
        (row["record_id"], row["position"]): row["text"]
        for row in corpus.sql(
            "SELECT record_id, position, o.text FROM section_originals o JOIN records "
            "USING (record_key)"
        ).to_pylist()
    }
    ids = {record["record_id"] for record in corpus.sql("FROM records").to_pylist()}
    expected, originals = {}, {}
    for row in rows:
        if f"s/{row['id']}" not in ids:
            continue
        for position, text in enumerate([row["anchor"], row["positive"], *row["context"]]):
            clean: str | None = text
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
    keys = [row["section_key"] for row in corpus.sql("FROM sections").to_pylist()]
    assert keys == sorted(set(keys))
    spans = corpus.sql("SELECT chunk_key FROM chunks").to_pylist()
    assert [row["chunk_key"] for row in spans] == sorted({row["chunk_key"] for row in spans})


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        yield corpus


DENOISED = Chunking(max_tokens=6, overlap=(2,), summary_tokens=3, preprocessors=[Denoiser()])
PLAIN = Chunking(max_tokens=6, overlap=(2,), summary_tokens=3)


def test_ingest_stores_clean_text_and_what_came(corpus: dp.Corpus) -> None:
    rows = rows_of(120, 1)
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
    wrong = "FROM sections WHERE token_count <> len(regexp_extract_all(text, '\\S+'))"
    assert corpus.sql(wrong).num_rows == 0
    again = corpus.ingest(source_of(rows), name="s", progress=False)
    assert again.added == 0
    assert again.reasons == {"duplicate id, same content": report.added, **report.reasons}


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_rows_of_noise_are_counted_and_not_set_aside(
    corpus: dp.Corpus, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.sources.row_batches.MAX_ROWS", batch)
    rows = [{"id": str(i), "a": f"Question {i} of all.", "b": "An answer."} for i in range(4)]
    rows[1] |= {"a": "1 2 3 4 5 6", "b": "7 8 9 10 11"}  # mostly digits
    rows[2] |= {"a": None}
    corpus.chunk(DENOISED)
    source = dp.MemorySource(rows, id="id", anchor="a", positive="b", on_error="quarantine")
    report = corpus.ingest(source, name="s", progress=False)
    assert report.reasons == {NOTHING_LEFT: 1, "no anchor": 1}
    found = corpus.sql('SELECT "row", reason, document FROM quarantine').to_pylist()
    assert [(row["row"], row["reason"]) for row in found] == [(3, "no anchor")]
    assert json.loads(found[0]["document"]) == rows[2]


def test_ids_and_hashes_are_those_of_the_original(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "id"} for row in rows_of(60, 2)]
    source = {"anchor": "anchor", "positive": "positive", "context": "context"}
    found = []
    for name, chunking in (("plain", PLAIN), ("clean", DENOISED)):
        with dp.Corpus(tmp_path / f"{name}.duckdb") as corpus:
            corpus.chunk(chunking)
            corpus.ingest(dp.MemorySource(rows, **source), name="s", progress=False)
            table = corpus.sql("SELECT record_id, content_hash FROM records")
            found.append({tuple(row.values()) for row in table.to_pylist()})
    assert found[1] < found[0]


@pytest.mark.parametrize(("batch", "count"), some([(1, 12), (4096, 90), (7, 40)], less=2))
def test_there_and_back_gives_the_same_corpus(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch, batch: int, count: int
) -> None:
    monkeypatch.setattr(chunks, "_RECORDS", batch)
    rows = rows_of(count, 3)
    register_preprocessor("shout", shout)
    shouted = Chunking(max_tokens=4, preprocessors=[shout])
    corpus.chunk(PLAIN)
    corpus.ingest(source_of(rows), name="s", progress=False)
    corpus.split(seed=1)
    before, digest = dump(corpus), cleaning(corpus.database)
    assert digest == ""
    sections = len(before["sections"])
    digests = []
    for chunking in (DENOISED, shouted, DENOISED):
        assert corpus.chunk(chunking) == sections
        check(corpus, rows, chunking)
        assert corpus.chunk(chunking) == 0
        digests.append(cleaning(corpus.database))
        found = dump(corpus, "records", "splits")
        assert found == {name: before[name] for name in found}
    assert digests[0] == digests[2] != digests[1]
    corpus.chunk(PLAIN)
    after = dump(corpus)
    for name in TABLES:
        if name == "chunks":  # their keys count on
            for row in after[name] + before[name]:
                del row["chunk_key"]
        assert after[name] == before[name], name


def test_a_corpus_cleaned_later_is_that_cleaned_at_ingest(tmp_path: Path) -> None:
    rows = [row for row in rows_of(80, 4) if Denoiser()(row["positive"])]
    found = []
    for name, first in (("before", DENOISED), ("after", PLAIN)):
        with dp.Corpus(tmp_path / f"{name}.duckdb") as corpus:
            corpus.chunk(first)
            corpus.ingest(source_of(rows), name="s", progress=False)
            corpus.ingest(source_of(rows[:30]), name="t", progress=False)
            corpus.chunk(DENOISED)
            # Keys of new sections go on after those of dropped ones.
            corpus.ingest(source_of(rows[30:]), name="t", progress=False)
            found.append(dump(corpus))
    for tables in found:
        for row in tables["chunks"]:
            del row["chunk_key"]
    assert found[0] == found[1]


def test_other_windows_of_clean_text_need_no_function(corpus: dp.Corpus) -> None:
    rows = rows_of(30, 5)
    register_preprocessor("shout", shout)
    corpus.chunk(Chunking(preprocessors=[shout]))
    corpus.ingest(source_of(rows), name="s", progress=False)
    texts = dump(corpus, "section_originals")
    preprocessors.REGISTRY.clear()
    again = Chunking(max_tokens=3, preprocessors=[Preprocessor(name="shout")])
    assert corpus.chunk(again) == len(corpus.sql("FROM sections"))
    assert dump(corpus, "section_originals") == texts
    long = "FROM chunks WHERE token_count > 3 AND kind = 'window'"
    assert corpus.sql(long).num_rows == 0


def test_records_without_sections_stay_and_are_counted(corpus: dp.Corpus) -> None:
    rows = rows_of(120, 6)
    corpus.ingest(source_of(rows), name="s", progress=False)
    corpus.ingest(source_of(rows), name="gone", progress=False)
    corpus.remove("gone")
    assert set(cleaned(corpus.database).values()) == {0}
    corpus.chunk(DENOISED)
    assert corpus.count() == len(rows)
    texts = [[row["anchor"], row["positive"], *row["context"]] for row in rows]
    results = [[(text, Denoiser()(text)) for text in of_row] for of_row in texts]
    assert cleaned(corpus.database) == {
        "sections changed": sum(c not in (None, t) for row in results for t, c in row),
        "sections dropped": sum(c is None for row in results for _, c in row),
        "records without sections": sum(all(c is None for _, c in row) for row in results),
    }
    assert cleaned(corpus.database)["records without sections"] > 0
    order = range(len(rows))
    read = itertools.chain.from_iterable(b.to_pylist() for b in corpus.read(order, batch_size=50))
    assert [row["text"] for row in read] == [
        "\n\n".join(clean for _, clean in row if clean is not None) for row in results
    ]


def test_a_function_that_is_not_registered_is_asked_for(tmp_path: Path) -> None:
    rows = rows_of(40, 7)
    register_preprocessor("shout", shout, version="2")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(Chunking(preprocessors=[shout]))
        corpus.ingest(source_of(rows), name="s", progress=False)
        corpus.split(1, 0, 0)
    preprocessors.REGISTRY.clear()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        before = dump(corpus)
        told = (
            r"'shout' is not registered.*dp\.register_preprocessor\('shout', function, version='2'"
        )
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


def test_a_function_is_asked_for_before_anything_is_stored(corpus: dp.Corpus) -> None:
    with pytest.raises(ChunkingError, match="'later' is not registered"):
        corpus.chunk(Chunking(preprocessors=[Preprocessor(name="later")]))
    assert chunks.current_chunking(corpus.database) == Chunking()


@pytest.mark.parametrize("verb", ["ingest", "chunk"])
def test_a_failing_function_leaves_the_corpus_as_it_was(corpus: dp.Corpus, verb: str) -> None:
    rows = rows_of(40, 9)
    rows[33]["context"] = ["fine", "a bad one"]
    chunking = Chunking(preprocessors=[register_preprocessor("mine", fail)])
    corpus.ingest(source_of(rows), name="s", progress=False)
    if verb == "ingest":
        corpus.remove("s")
        corpus.chunk(Chunking(preprocessors=[register_preprocessor("id", str)]))
        register_preprocessor("id", fail)
    before = dump(corpus, *TABLES, "settings", "corpus_versions")
    what = {
        "ingest": lambda: corpus.ingest(source_of(rows), name="t", progress=False),
        "chunk": lambda: corpus.chunk(chunking),
    }
    where = {"ingest": r"record r33 \(row 34\)", "chunk": "record s/r33"}
    with pytest.raises(ChunkingError, match=f"failed on {where[verb]}, section 3: KeyError"):
        what[verb]()
    assert dump(corpus, *TABLES, "settings", "corpus_versions") == before


def test_a_run_is_not_resumed_over_other_texts(corpus: dp.Corpus) -> None:
    rows = rows_of(60, 10)
    corpus.chunk(PLAIN)
    corpus.ingest(source_of(rows), name="s", progress=False)
    corpus.split(1, 0, 0)
    with corpus.sampler("texts", batch_size=4) as sampler:
        next(sampler)
        sampler.save()
    corpus.chunk(DENOISED)
    with pytest.raises(dp.StateMismatchError, match="chunking"):
        corpus.resume()
    corpus.chunk(PLAIN)
    with corpus.resume() as sampler:
        assert next(sampler).step == 1


def test_next_keys_stay_free_of_dropped_sections(corpus: dp.Corpus) -> None:
    corpus.chunk(DENOISED)
    rows = [{"id": "a", "anchor": "12", "positive": "kept", "context": ["13", "14"]}]
    corpus.ingest(source_of(rows), name="s", progress=False)
    database: Database = corpus.database
    assert [row["section_key"] for row in dump(corpus, "sections")["sections"]] == [2]
    assert chunks.next_keys(database)["section"] == 5
    corpus.chunk(PLAIN)
    assert chunks.next_keys(database)["section"] == 5
    corpus.chunk(Chunking(preprocessors=[register_preprocessor("none", lambda text: None)]))
    assert dump(corpus, "sections", "chunks") == {"sections": [], "chunks": []}
    assert chunks.next_keys(database)["section"] == 5
    corpus.chunk(PLAIN)
    assert [row["section_key"] for row in dump(corpus, "sections")["sections"]] == [1, 2, 3, 4]


def test_every_batch_of_an_ingest_leaves_keys_for_what_it_drops(corpus: dp.Corpus) -> None:
    database: Database = corpus.database
    writer = Appending(database, 1, 1, None, 0.5, PLAIN)
    with database.transaction():
        for key, texts in ("1", ["12", "kept", "13"]), ("2", ["kept", "14"]), ("3", ["a", "b"]):
            batch, _ = preprocess(batch_of([(texts, None)]), DENOISED)
            writer.append(batch, pa.array([key]))
    stored = "SELECT section_key, record_key, position, role, heading, text FROM sections"
    assert [tuple(row.values()) for row in corpus.sql(stored).to_pylist()] == [
        (2, 1, 1, "context", "h1", "kept"),
        (4, 2, 0, "anchor", "h0", "kept"),
        (6, 3, 0, "anchor", "h0", "a"),
        (7, 3, 1, "context", "h1", "b"),
    ]
    assert [tuple(row.values()) for row in corpus.sql("FROM section_originals").to_pylist()] == [
        (1, 0, "anchor", "h0", "12"),
        (1, 2, "context", "h2", "13"),
        (2, 1, "context", "h1", "14"),
    ]
