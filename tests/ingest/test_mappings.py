"""One source has one mapping: another is refused, or takes the place of what was read before."""

import gzip
import json
import random
import re
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import often
from prebuilt import empty_corpus
from source_rows import read
from source_rows import texts as sections_of

import duckplets as dp
from duckplets.sources.by_path import given_source, source_of

ROWS = [{"q": f"q {i}", "a": f"a {i}", "c": f"c {i}", "d": "2024-01-01"} for i in range(6)]


def memory(rows=ROWS, **mapping):
    return dp.sources.MemorySource(rows, **mapping)


def texts(corpus, source="%"):
    live = corpus.sql(
        "SELECT text FROM section_texts WHERE source LIKE $s ORDER BY record_id, position",
        {"s": source},
    )
    return [str(text) for text in live["text"].to_pylist()]


SAME = [
    ({"anchor": "q"}, {"anchor": ["q"]}),
    ({"anchor": "q", "positive": "a"}, {"positive": ["a"], "anchor": "q", "trust": 0.9}),
    ({"anchor": "q", "context": "c"}, {"anchor": "q", "context": "c", "on_error": "quarantine"}),
    ({"text": "q"}, {"text": "q", "on_bad_date": "fail"}),
]
OTHERS = [
    ({"anchor": "q"}, {"anchor": "a"}),
    ({"anchor": "q"}, {"anchor": ["q", "a"]}),
    ({"anchor": "q", "positive": "a"}, {"anchor": "q", "context": "a"}),
    ({"anchor": "q"}, {"text": "q"}),
    ({"anchor": "q"}, {"anchor": "q", "date": "d"}),
    ({"anchor": "q"}, {"anchor": "q", "id": "q"}),
    ({"anchor": "q"}, {"anchor": "q", "meta": ["c"]}),
]


def test_another_mapping_is_refused_with_both_shown(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as corpus, empty_corpus(tmp_path / "d.duckdb") as new:
        for n, (before, now) in enumerate(SAME[:: often(1, less=2)]):
            corpus.ingest(memory(ROWS[:4], **before), name=f"same{n}")
            report = corpus.ingest(memory(**now), name=f"same{n}")
            assert (report.added, report.skipped) == (2, 4)
        for n, (before, now) in enumerate(OTHERS[:: often(1, less=4)]):
            corpus.ingest(memory(**before), name=f"s{n}")
            found, version = texts(corpus), corpus.version
            with pytest.raises(dp.SourceError) as raised:
                corpus.ingest(memory(**now), name=f"s{n}")
            said = str(raised.value)
            assert "known with another mapping" in said
            assert "remap=True" in said
            for reading in (before, now):
                for part in reading:
                    assert f"{part}: " in said
            assert (texts(corpus), corpus.version) == (found, version)
            corpus.ingest(memory(**now), name=f"s{n}", remap=True)
            assert corpus.version == version + 1
            new.ingest(memory(**now), name=f"s{n}")
            assert texts(corpus, f"s{n}") == texts(new, f"s{n}")
            assert corpus.ingest(memory(**now), name=f"s{n}").added == 0


def test_a_remapped_source_is_that_of_the_new_reading_whatever_was_there(tmp_path):
    generator = random.Random(5)
    for case in range(often(12, less=2)):
        before = [{"k": str(i), "q": f"q {generator.randint(0, 2)}"} for i in range(8)]
        now = [{"k": str(i), "q": f"q {generator.randint(0, 2)}"} for i in range(3, 11)]
        generator.shuffle(now)
        with empty_corpus(tmp_path / f"{case}.duckdb") as corpus:
            corpus.ingest(memory(before, anchor="q", id="k"))
            corpus.ingest(memory([{"q": "other"}], anchor="q"), name="other")
            corpus.split(1, 0, 0)
            pinned = corpus.sampler("texts", batch_size=9, epochs=1)
            first = pinned.batch_at(0).to_pydict()
            report = corpus.ingest(memory(now, anchor=["q", "k"], id="k"), remap=True)
            assert pinned.batch_at(0).to_pydict() == first
            live = "SELECT record_id, text FROM section_texts WHERE source = 'memory'"
            found = {row["record_id"]: row["text"] for row in corpus.sql(live).to_pylist()}
            assert found == {f"memory/{row['k']}": row["q"] for row in now}
            assert report.removed == 3
            same = sum(row["q"] == before[int(row["k"])]["q"] for row in now if int(row["k"]) < 8)
            assert report.skipped == same  # they hash alike, and stay
            old = corpus.sql("SELECT count(*) AS n FROM records WHERE added_version = 1")["n"]
            assert old.to_pylist() == [8]


def test_a_source_that_has_changed_is_read_anew_or_its_old_records_are_counted(corpus, tmp_path):
    texts = tmp_path / "docs"
    texts.mkdir()
    for name in "abcd":
        (texts / f"{name}.txt").write_text(f"text {name}")
    how = {"progress": False}
    corpus.ingest(texts, **how)
    for name in "ab":
        (texts / f"{name}.txt").unlink()
    (texts / "c.txt").write_text("text c, changed")
    (texts / "e.txt").write_text("text e")
    with pytest.raises(
        dp.SourceError, match="To read a changed source again: remap=True"
    ) as raised:
        corpus.ingest(texts, **how)
    assert len(str(raised.value)) <= 240
    report = corpus.ingest(texts, on_conflict="replace", **how)
    assert (report.added, report.replaced, report.skipped, report.removed) == (2, 1, 1, 0)
    stale = "look: 2 records of the source not in what was read, and kept; remap=True (--remap)"
    assert any(note.startswith(stale) for note in report.notes)
    report = corpus.ingest(texts, remap=True, **how)
    assert (report.added, report.removed, report.skipped) == (0, 2, 3)
    report = corpus.ingest(texts, on_conflict="replace", **how)
    assert not any("not in what was read" in note for note in report.notes)


def test_rows_set_aside_are_those_of_the_reading_in_force(corpus):
    def aside():
        rows = corpus.sql("SELECT source, version, row FROM quarantine ORDER BY ALL").to_pylist()
        return [(row["source"], row["version"], row["row"]) for row in rows]

    rows = [{"q": "one", "a": None}, {"q": None, "a": "two"}, {"q": "three", "a": "3"}]
    how = {"on_error": "quarantine", "progress": False}
    corpus.ingest(memory(rows, anchor="q", positive="a"), **how)
    corpus.ingest(memory(rows, anchor="a"), name="other", **how)
    assert aside() == [("memory", 1, 1), ("memory", 1, 2), ("other", 2, 1)]
    report = corpus.ingest(memory(rows, anchor="q"), remap=True, **how)
    assert aside() == [("memory", 3, 2), ("other", 2, 1)]
    assert "gone from the table quarantine: 2 rows of earlier versions" in report.notes


def test_another_place_is_allowed_and_said(corpus, tmp_path):
    for month in ("may", "june"):
        (tmp_path / f"{month}.csv").write_text(f"q,a\n{month} q,{month} a\n")
    corpus.ingest(dp.sources.CsvSource(tmp_path / "may.csv", anchor="q"), name="dump")
    report = corpus.ingest(dp.sources.CsvSource(tmp_path / "june.csv", anchor="q"), name="dump")
    assert report.added == 1
    (note,) = [note for note in report.notes if "now, before" in note]
    assert "june.csv (csv)" in note
    assert "may.csv (csv)" in note
    again = corpus.ingest(dp.sources.CsvSource(tmp_path / "june.csv", anchor="q"), name="dump")
    assert not any("now, before" in note for note in again.notes)


# ---- what is given to ``ingest``: a path, read as the command line reads it, or Arrow data


PAIR = {"anchor": "q", "positive": "a"}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "files"
    (place / "docs").mkdir(parents=True)
    (place / "faq.csv").write_text("q,a\none,first\ntwo,second\n")
    (place / "more.csv.gz").write_bytes(gzip.compress(b"q;a\none;first\ntwo;second\n"))
    (place / "~nobody.csv").write_text("q,a\none,first\ntwo,second\n")
    (place / "faq.tab").write_text("q\ta\none\tfirst\ntwo\tsecond\n")
    rows = [{"q": "one", "a": "first"}, {"q": "two", "a": "second"}]
    (place / "faq.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "faq.json").write_text(json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), place / "faq.parquet")
    (place / "faq.data").write_text("q,a\none,first\ntwo,second\n")
    for name, text in (("one", "first"), ("two", "second")):
        (place / "docs" / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    (place / "faq.zip").write_text("PK")
    (place / "sets.yaml").write_text("a: 1\n")
    return place


GIVEN = [
    ("faq.csv", PAIR),
    ("more.csv.gz", PAIR | {"delimiter": ";"}),
    ("f*.csv", PAIR),
    ("faq.tab", PAIR),
    ("faq.ndjson", PAIR),
    ("faq.json", PAIR),
    ("faq.parquet", PAIR),
    ("faq.data", PAIR | {"format": "csv"}),
    ("docs", {"pattern": "*.md"}),
    ("docs", {"pattern": ["*.md"], "by_heading": True}),
    ("docs/*.md", {}),
    ("~nobody.csv", PAIR),
]


def test_a_path_is_a_source(folder, corpus, reader, monkeypatch):
    monkeypatch.chdir(folder)
    for path, arguments in GIVEN:
        rows = read(source_of(path, **arguments), reader)
        found = sorted([text for _, text in sections_of(row)] for row in rows)
        assert found == [["one", "first"], ["two", "second"]], path
    assert corpus.ingest(str(folder / "faq.csv"), **PAIR).added == 2
    assert corpus.ingest(folder / "docs", pattern="*.md", name="given", trust=0.9).added == 2
    found = {row["name"]: row["trust"] for row in corpus.sources().to_pylist()}
    assert found == {"faq": 0.5, "given": 0.9}
    hub = source_of("hf://org/faq/default/train", anchor="question", positive="answer")
    assert (hub.kind, hub.default_name()) == ("hub", "org--faq--default--train")


REFUSED = [
    ("none.csv", {}, "none.csv does not exist"),
    ("none*.csv", {}, "matches no file"),
    ("faq.zip", {"format": "csv"}, "unpack others"),
    ("faq.[cp]*", {}, "several formats"),
    ("faq.data", {}, "give format= (--format): one of csv"),
    ("faq.csv", {"format": "cvs"}, "format='cvs' (did you mean 'csv'?)"),
    ("faq.csv", {"anchr": "q"}, "takes no anchr= (did you mean 'anchor'?)"),
    ("faq.csv", {"by_heading": True}, "is csv: by_heading= is for files of text"),
    ("faq.json", {"delimiter": ";"}, "is json: delimiter= is for CSV files"),
    ("faq.json", {"quote": None}, "is json: quote=None is for CSV files"),
    ("faq.parquet", {"encoding": "latin-1"}, "encoding= is for files of text"),
    ("docs", {"pattern": "*.md", "anchor": "q"}, "is text: anchor= is for files with columns"),
    ("sets.yaml", {"anchor": "q"}, "says the columns of its sources itself"),
    (
        dp.sources.CsvSource("faq.csv", **PAIR),
        {"anchor": "q"},
        "the source: CsvSource(…, anchor=…)",
    ),
]


def test_faults(folder, corpus):
    for path, arguments, said in REFUSED:
        with pytest.raises(dp.SourceError) as raised:
            corpus.ingest(folder / path if isinstance(path, str) else path, **arguments)
        assert said in str(raised.value)


def test_the_texts_of_a_folder_are_of_the_one_kind_there_is(tmp_path):
    for name in ("a.md", "b/c.md", "picture.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n\nwhat {name} says")
    with dp.Corpus(tmp_path / "x.duckdb") as corpus:
        assert corpus.ingest(tmp_path, name="one").added == 2
        (tmp_path / "d.rst").write_text("words")  # two kinds, and none of them is .txt
        with pytest.raises(dp.SourceError, match=r"no file that matches '\*\.txt'; it has .*\.rst"):
            corpus.ingest(tmp_path, name="two")


# ---- anything that gives Arrow data

TABLE = pa.table(
    {
        "title": ["one", "two", None],
        "body": ["first text", "second text", "third text"],
        "id": ["a", "b", "c"],
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)
VIEWS = TABLE.set_column(1, "body", TABLE["body"].cast(pa.string_view()))


class Stream:
    """Has nothing but the protocol."""

    def __arrow_c_stream__(self, requested_schema=None):
        return VIEWS.__arrow_c_stream__(requested_schema)


def relation():
    connection = duckdb.connect()
    connection.register("given", TABLE)
    return connection.sql("SELECT * FROM given ORDER BY id")


GIVERS = {
    "polars": lambda: import_module("polars").from_arrow(TABLE),
    "pandas": TABLE.to_pandas,
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "relation": relation,
    "protocol": Stream,
}


def test_data_is_ingested_by_its_columns_and_taken_by_others(corpus, reader):
    mapping = {"anchor": "title", "positive": "body", "id": "id", "meta": "kind"}
    expected = read(dp.sources.MemorySource(TABLE.to_pylist(), **mapping), reader)
    for giver, give in GIVERS.items():
        if giver not in ("polars", "pandas") or find_spec(giver):
            assert read(given_source(give(), mapping), reader) == expected, giver
    assert [[text for _, text in sections_of(row)] for row in expected[:2]] == [
        ["one", "first text"],
        ["two", "second text"],
    ]
    report = corpus.ingest(Stream(), name="s", on_conflict="skip", **mapping)
    assert (report.read, report.added) == (3, 2)
    assert corpus.ingest(dp.sources.MemorySource(Stream(), **mapping), name="s").added == 0
    with pytest.raises(dp.SourceError, match="no column 'titel'"):
        corpus.ingest(Stream(), anchor="titel")
    corpus.split(1.0, 0.0, 0.0)
    with corpus.sampler("texts", batch_size=2) as sampler:
        for given in (corpus.sql("SELECT record_id AS x FROM records"), next(sampler)):
            assert pa.RecordBatchReader.from_stream(given).read_all().num_rows == len(given)


# ---- records as a notebook has them

RECORDS = [{"q": "one", "a": "1", "sure": 0.25}, {"q": "two", "a": "2", "sure": 0.75}]
NOTEBOOK = {
    "list": lambda: RECORDS,
    "tuple": lambda: tuple(RECORDS),
    "generator": lambda: (row for row in RECORDS),
    "views": lambda: [MappingProxyType(row) for row in RECORDS],
    "datasets": lambda: import_module("datasets").Dataset.from_list(RECORDS),
}


def test_dictionaries_are_ingested_with_column_arguments(corpus):
    mapping = {"anchor": "q", "positive": "a", "trust": "sure"}
    for giver, give in NOTEBOOK.items():
        if giver != "datasets" or find_spec(giver):
            assert corpus.ingest(give(), name=giver, progress=False, **mapping).added == 2
            found = corpus.sql(
                "SELECT trust FROM records WHERE starts_with(record_id, $s) ORDER BY trust",
                {"s": f"{giver}/"},
            )
            assert found["trust"].to_pylist() == [0.25, 0.75], giver


def failing():
    yield RECORDS[0]
    raise LookupError("page 7 is gone")


REFUSED_RECORDS = [
    (lambda: {"q": 1}, "int has no batches()"),
    (lambda: ["a.csv"], "a.csv does not exist"),
    (
        lambda: dp.sources.MemorySource(RECORDS, text="q"),
        "text= is for a path or data; give it to the sour",
    ),
    (failing, "records, after row 0: LookupError: page 7 is gone"),
    (lambda: 5, "int has no batches(): a source has a name"),
]


@pytest.mark.parametrize(("give", "message"), REFUSED_RECORDS)
def test_records_that_are_refused(corpus, give, message):
    with pytest.raises(dp.SourceError, match=re.escape(message)):
        corpus.ingest(give(), text="q", progress=False)
