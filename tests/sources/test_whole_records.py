"""Paths into nested columns, sections given whole, times of records: in every kind of source."""

import datetime
import json
import tempfile
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as parquet
import pytest
from effort import often, some
from prebuilt import empty_corpus
from source_rows import ALL, Paged, every_source, read, rows_of, texts, write_csv

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.ingest.preview import preview
from duckplets.sources import CsvSource, CustomSource, JsonSource, MemorySource


def every_kind(folder, records, **mapping):
    return list(every_source(folder, records, ALL, **mapping).values())


# -- paths


def nested(draw):
    pos = draw.choice([["p"], ["p", "q"], [], None, [None, "r"]])
    inner = {"query": draw.choice(["a", "b", None, " "]), "pos": pos, "lang": "en"}
    return {"set": draw.choice([inner, inner, inner, None]), "n": [{"t": "n"}, {"t": None}]}


def follow(record, *steps):
    value = record
    for step in steps:
        there = value is not None and (not isinstance(step, int) or step < len(value))
        value = value[step] if there else None
    return value


@pytest.mark.parametrize("seed", range(often(10, less=1)))
def test_paths_lead_into_objects_and_lists(tmp_path, reader, seed):
    draw = Random(seed)
    full = {"set": {"query": "a", "pos": ["p", "q"], "lang": "en"}, "n": [{"t": "n"}, {"t": "m"}]}
    records = [full, *(nested(draw) for _ in range(60))]
    mapping = {"anchor": "set.query", "positive": ["set.pos[1]", "set.pos"]}
    mapping |= {"negative": ["n[0].t", "n[1].t"], "meta": "set.lang", "group": "set.query"}
    wanted = []
    for record in records:
        anchor, several = follow(record, "set", "query"), follow(record, "set", "pos") or []
        second = follow(record, "set", "pos", 1)
        positives = [second] if second else [text for text in several if text]
        negatives = [record["n"][0]["t"], *filter(None, [record["n"][1]["t"]])]
        if not (anchor or "").strip() or not positives:
            wanted.append("no positive" if (anchor or "").strip() else "no anchor")
            continue
        sections = [("anchor", anchor), *(("context", text) for text in positives)]
        wanted.append((sections + [("rejected", text) for text in negatives], "en", anchor))
    for source in every_kind(tmp_path, records, **mapping):
        rows = rows_of(source, reader)
        found = [
            row["skip"] or (texts(row), dict(row["meta"])["set.lang"], row["group_key"])
            for row in rows
        ]
        assert found == wanted, source


def test_a_path_that_no_row_has_lists_the_fields_there_are(tmp_path, reader):
    records = [{"set": {"query": "a", "pos": ["p"]}, "t": "x"}]
    for source in some(every_kind(tmp_path, records, text="set.quer"), less=4):
        with pytest.raises(SourceError) as caught:
            rows_of(source, reader)
        message = str(caught.value)
        assert "no row has 'set.quer' (did you mean 'query'?)" in message
        assert "the fields of column 'set' are:" in message
        assert "query" in message.split("are:")[1]
        assert "pos" in message.split("are:")[1]
    for wrong in ("set.pos[4]", "set.pos.x", "set[0]", "t.x"):
        kinds = some(ALL, less=2)
        for source in every_source(tmp_path, records, kinds, text="t", meta=wrong).values():
            with pytest.raises(SourceError, match="no row has"):
                rows_of(source, reader)
    both = [{"set.query": "column", "set": {"query": "field"}}]
    (row,) = rows_of(MemorySource(both, text="set.query"), reader)
    assert texts(row) == [("context", "column")], "a column of that very name is no path"
    (tmp_path / "c.csv").write_text("set,t\na,b\n")
    with pytest.raises(SourceError, match=r"no row has 'set\.query'; column 'set' has no fields"):
        rows_of(CsvSource(tmp_path / "c.csv", text="set.query"), reader)
    with pytest.raises(SourceError, match=r"no column 'other\.x'; its columns are: set, t"):
        rows_of(CsvSource(tmp_path / "c.csv", text="other.x"), reader)


def test_a_key_of_a_map_is_a_field(reader):
    kind = pa.map_(pa.string(), pa.string())
    table = pa.table({"m": pa.array([[("k", "x")], [("j", "y")], None], kind)})
    rows = rows_of(MemorySource(table, text="m.k"), reader)
    assert [row["skip"] or texts(row) for row in rows] == [
        *([("context", "x")], "no text", "no text")
    ]
    with pytest.raises(SourceError, match=r"no row has 'm\.z'"):
        rows_of(MemorySource(table, text=["m.k", "m.z"]), reader)


# -- sections given whole

GIVEN = [
    {"role": "anchor", "heading": "Top", "text": "t"},
    {"role": "context", "text": "c"},
    {"role": "context", "heading": None, "text": " "},
    {"role": "rejected", "heading": "No", "text": "n"},
]
MADE = [
    {"role": "anchor", "heading": "Top", "text": "t"},
    {"role": "context", "heading": None, "text": "c"},
    {"role": "rejected", "heading": "No", "text": "n"},
]


def test_records_bring_sections_besides_columns_or_instead(tmp_path, reader):
    records = [{"id": "1", "q": "Q", "sections": GIVEN}]
    (tmp_path / "s.jsonl").write_text(json.dumps(records[0]))
    for source in (
        MemorySource(records, id="id"),
        JsonSource(tmp_path / "s.jsonl", id="id"),
        CustomSource(Paged(records), id="id"),
        MemorySource(pa.Table.from_pylist(records), sections="sections", id="id"),
    ):
        (row,) = rows_of(source, reader)
        assert (row["sections"], row["key"], row["skip"]) == (MADE, "1", None)
    asked = {"role": "anchor", "heading": "q", "text": "Q"}
    for source in (
        MemorySource(records, anchor="q"),
        CustomSource(Paged(records), anchor="q"),
        JsonSource(tmp_path / "s.jsonl", anchor="q", sections="sections"),
    ):
        (row,) = rows_of(source, reader)
        assert row["sections"] == [asked, *MADE]
    own = [{"anchor": "Q", "sections": GIVEN}, {"sections": GIVEN[:1]}, {"sections": []}]
    rows = rows_of(Paged(own), reader)
    assert rows[0]["sections"] == [asked | {"heading": "anchor"}, *MADE]
    assert rows[1]["sections"] == MADE[:1]
    assert rows[2]["skip"] == "no text"


def test_the_roles_of_records_say_which_recipes_suit(tmp_path):
    names = {"a": "anchor", "c": "context", "r": "rejected"}
    with empty_corpus(tmp_path / "c.duckdb") as corpus:

        def suited(source, **asked):
            corpus.ingest(source, name="s", progress=False, **asked)
            return corpus.sources()["defaults"].to_pylist()

        for roles, defaults in {"ac": "roles", "acr": "ready", "c": "text", "cr": "text"}.items():
            sections = [{"role": names[role], "text": role} for role in roles]
            for source in (MemorySource([{"sections": sections}]), Paged([{"sections": sections}])):
                assert suited(source, remap=True) == [defaults]
        rows = [{"text": "t"}, {"anchor": "a", "positive": "p"}]
        assert suited(Paged(rows[:1]), restart=True) == ["text"]
        assert suited(Paged(rows)) == ["roles"]
        assert suited(Paged([{"text": "u"}])) == ["roles"], "it has anchors"
        pair = {"anchor": "q", "positive": "p", "negative": "n"}
        for negative, defaults in (("x", "ready"), (None, "roles")):
            source = MemorySource([{"q": "a", "p": "b", "n": negative}], **pair)
            assert suited(source, remap=True) == [defaults]


NO_ROLE = "a role that is not anchor, context or rejected"


def test_sections_are_checked_row_by_row(reader):
    good = {"id": "g", "sections": GIVEN}
    wrong = [
        ("no", "not a list of sections", "no"),
        ({"role": "anchor"}, "not a list of sections", '{"role":"anchor"}'),
        (["x"], NO_ROLE, "section 1, role: missing"),
        ([GIVEN[0], {"role": "title", "text": "x"}], NO_ROLE, 'section 2, role: "title"'),
        ([{"role": "anchor", "text": 5}], "a text that is not text", "section 1, text: 5"),
        (
            [{"role": "anchor", "text": "x", "heading": 5}],
            "a heading that is not text",
            "section 1, heading: 5",
        ),
    ]
    for sections, reason, shown in wrong:
        records = [good, {"id": "b", "sections": sections}]
        for source in (MemorySource(records, id="id"), Paged(records)):
            first, second = rows_of(source, reader)
            assert first["skip"] is None
            assert (second["skip"], second["value"]) == (f"sections: {reason}", shown)
    # A key of that name that holds something else is left alone.
    records = [{"q": "Q", "sections": ["a", "b"]}, {"q": "R", "sections": 3}]
    rows = rows_of(MemorySource(records, anchor="q"), reader)
    assert [texts(row) for row in rows] == [[("anchor", "Q")], [("anchor", "R")]]
    with pytest.raises(SourceError, match="say which columns hold the text"):
        rows_of(MemorySource(records), reader)


# -- times


def test_times_of_records_are_utc(tmp_path, reader):
    written = {
        "2024-01-02": "2024-01-02 00:00:00",
        "2024-01-02T03:04": "2024-01-02 03:04:00",
        "2024-01-02 03:04:05,5": "2024-01-02 03:04:05.500000",
        "2024-01-02T03:04:05Z": "2024-01-02 03:04:05",
        "2024-01-02T03:04+02:00": "2024-01-02 01:04:00",
        "2024-01-02T03:04:05.25-0130": "2024-01-02 04:34:05.250000",
        "2024-01-01T23:00:00 -12": "2024-01-02 11:00:00",
        "2024-01-01T24:00": "2024-01-02 00:00:00",
    }
    records = [{"t": "x", "m": text, "u": "1999-12-31"} for text in written]
    for source in some(
        every_kind(tmp_path, records, text="t", created_at="m", updated_at="u"), less=4
    ):
        rows = rows_of(source, reader)
        assert [str(row["created_at"]) for row in rows] == list(written.values())
        assert {str(row["updated_at"]) for row in rows} == {"1999-12-31 00:00:00"}
    own = [{"text": "x", "created_at": text} for text in written]
    rows = rows_of(Paged(own), reader)
    assert [str(row["created_at"]) for row in rows] == list(written.values())
    beyond = ("0001-01-01T01:00+02:00", "9999-12-31T23:00-02:00", "2024-01-01T24:00:01")
    hours = ("2024-01-01T25:00", "2024-01-01T10:60", "2024-01-02+02:00")
    for wrong in ("soon", "2024-13-01", "0000-01-01", *hours, *beyond):
        (row,) = rows_of(MemorySource([{"t": "x", "m": wrong}], text="t", created_at="m"), reader)
        assert row["skip"] == "unreadable created_at", wrong


def test_typed_times_are_taken_as_they_are(reader):
    instant = datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC)
    columns = {"t": ["x"], "z": pa.array([instant], pa.timestamp("us", "Asia/Tokyo"))}
    columns |= {"n": pa.array([instant.replace(tzinfo=None)], pa.timestamp("ns"))}
    table = pa.table(columns | {"d": pa.array([datetime.date(2024, 1, 2)])})
    for column in "zn":
        (row,) = rows_of(MemorySource(table, text="t", created_at=column), reader)
        assert row["created_at"] == instant.replace(tzinfo=None)
    (row,) = rows_of(MemorySource(table, text="t", updated_at="d"), reader)
    assert (row["updated_at"], row["created_at"]) == (datetime.datetime(2024, 1, 2), None)


# ---- how names of a mapping fit columns: spaces around them, a ? behind, and what is refused


KINDS = some(("csv", "jsonl", "parquet", "records", "table"), less=3)

NAMES = [
    ([{" q ": "x", "a": "y"}], "q", "x"),
    ([{"q": "x", "a": "y"}], " q ", "x"),
    ([{" q ": "x", "q": "z", "a": "y"}], "q", "z"),
    ([{" q ": "x", "q": "z", "a": "y"}], " q ", "x"),
    ([{"Q": "x", " q": "z", "a": "y"}], "q", "x"),
    ([{"q?": "x", "q": "z", "a": "y"}], "q?", "x"),
    ([{"Q": "z", "q": "x", "a": "y"}], "q", "x"),
]
WRONG = [
    ([{" q": "x", "q ": "z"}], {"text": "q"}, "column 'q' could be any of ' q', 'q '"),
    ([{"Text": "x", "text": "z"}], {"text": "TEXT"}, "could be any of 'Text', 'text'"),
    ([{" Q ": "x"}], {"text": "q"}, "no column 'q'"),
    ([{"q": "x"}], {"text": "q?"}, "marks an optional column of context="),
    ([{"q": "x"}], {"anchor": "q", "id": "q?"}, "marks an optional column of context="),
    ([{"q": "x", "a": "y"}], {"anchor": "q", "context": "b?"}, "no column 'b?'"),
]


def found(folder, reader, kind, rows, **mapping):
    with tempfile.TemporaryDirectory(dir=folder) as new:  # DuckDB remembers a path it has read
        return read(every_source(Path(new), rows, (kind,), **mapping)[kind], reader)


@pytest.mark.parametrize("kind", KINDS)
def test_names_fit_exactly_else_but_for_spaces(tmp_path, reader, kind):
    for rows, name, text in NAMES:
        (row,) = found(tmp_path, reader, kind, rows, anchor=name, positive="a")
        assert texts(row) == [("anchor", text), ("context", "y")], (rows, name)
    for rows, how, said in WRONG:
        with pytest.raises(SourceError) as raised:
            found(tmp_path, reader, kind, rows, **how)
        assert said in str(raised.value)


SOME = [
    {"q": "one", "a": "first", "e": "like this"},
    {"q": "two", "a": "second", "e": None},
    {"q": "three", "a": None, "e": "alone"},
    {"q": "four", "a": None, "e": None},
]
NESTED = [{"q": "one", "set": {"e": each}} for each in (["x", "y"], [], None)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_that_may_lack(tmp_path, reader, kind):
    make = partial(found, tmp_path, reader, kind, anchor="q")
    rows = make(SOME, context=["a", "e?"])
    assert [row["skip"] for row in rows] == [None, None, "no context: a", "no context: a"]
    assert [texts(row)[1:] for row in rows[:2]] == [
        [("context", "first"), ("context", "like this")],
        [("context", "second")],
    ]
    assert [part["heading"] for part in rows[0]["sections"]] == ["q", "a", "e"]
    rows = make(SOME, context=["a?", "e?"])
    assert [len(texts(row)) for row in rows] == [3, 2, 2, 1]
    assert not any(row["skip"] for row in rows)
    rows = make([{"q": "one", "e?": "x"}, {"q": "two", "e?": None}], context="e?")
    assert [row["skip"] for row in rows] == [None, "no context: e?"], "a column of that very name"
    for text_of in (None, "json") if kind != "csv" else ():
        rows = make(NESTED, context="set.e?", text_of=text_of)
        assert [[text for _, text in texts(row)[1:]] for row in rows] == [["x", "y"], [], []]


def test_texts_left_in_place_may_lack(tmp_path):
    every_source(tmp_path, SOME, ("parquet",), anchor="q")
    source = dp.sources.ParquetSource(
        tmp_path / "r.parquet", anchor=" q", positive="a", context="e?"
    )
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        report = corpus.ingest(source, options=dp.IngestOptions(in_place=True))
        assert (report.added, report.skipped + report.failed) == (2, 2)
        query = "SELECT heading, text FROM section_texts ORDER BY record_id, position"
        stored = {tuple(row.values()) for row in corpus.sql(query).to_pylist()}
    assert {("e", "like this"), ("a", "second")} < stored
    assert len(stored) == 5


# ---- words for no value are none in every kind of source; without any they are texts


WORDED = [
    {"id": "1", "q": "one", "a": "first", "d": "2024-01-01", "m": "N/A"},
    {"id": "2", "q": "two", "a": "N/A", "d": "NaT", "m": "v"},
    {"id": "3", "q": "three", "a": " nan ", "d": "NULL", "m": "w"},
    {"id": "4", "q": "NULL", "a": "fourth", "d": None, "m": "x"},
    {"id": "nan", "q": "five", "a": "fifth", "d": None, "m": "y"},
    {"id": "6", "q": "six", "a": "Null, nan", "d": "NULL", "m": "nan"},
]
MAPPING = {"id": "id", "anchor": "q", "positive": "a", "date": "d", "meta": ["m"]}
WORDS = ("N/A", "nan", "NULL")
OTHERS = ("custom", "tables", "indexed", "reader")
FORMATS = some(["csv", *(kind for kind in ALL if kind not in OTHERS)], less=5)


def test_words_for_no_value_are_null_in_any_source(tmp_path):
    plain_sources = every_source(tmp_path, WORDED, FORMATS, **MAPPING)
    for kind, source in every_source(
        tmp_path, WORDED, FORMATS, **MAPPING, null_values=WORDS
    ).items():
        rows = preview(source, 6).rows
        skips = [row["skip"] for row in rows]
        assert skips == [None, *["no positive"] * 2, "no anchor", "no id", None], kind
        assert [row["key"] for row in rows[::5]] == ["1", "6"], kind
        plain = preview(plain_sources[kind], 6).rows
        # NaT is no date that could not be read; NULL is one, until it is said to be a word.
        wrong = [row["value"] for row in plain if row["value"] is not None]
        assert [row["skip"] for row in plain] == [None] * 6, kind
        assert wrong == ["NULL", "NULL"], kind


def test_metadata_and_lists_have_no_such_words(tmp_path):
    rows = [{**row, "l": ["x", "NULL", " "]} for row in WORDED[:1]]
    mapping = {**MAPPING, "context": "l", "null_values": "NULL"}
    sections = preview(dp.sources.MemorySource(rows, **mapping)).rows[0]["sections"]
    assert [section["text"] for section in sections] == ["one", "first", "x"]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        source = dp.sources.MemorySource(WORDED, **MAPPING, null_values=["N/A", "nan"])
        corpus.ingest(source, name="s", progress=False)
        found = corpus.sql("SELECT record_id, meta FROM records ORDER BY record_id").to_pylist()
        assert [dict(row["meta"]) for row in found] == [{}, {"m": "x"}, {}]
        with pytest.raises(SourceError, match="null_values"):  # another mapping
            corpus.ingest(dp.sources.MemorySource(WORDED, **MAPPING), name="s", progress=False)


def test_what_is_no_word_or_cannot_be_one_is_refused(tmp_path):
    for given, told in (
        (None, r"null_values=None: give words, as in \('N/A', 'NULL'\)"),
        ({"N/A": 1}, "give words"),
        ([1], "null_values: 1 is no word"),
        (["a", " "], "null_values: ' ' is no word.*blank is no value anyway"),
    ):
        wrong = given
        with pytest.raises(SourceError, match=told):
            dp.sources.MemorySource(WORDED, **MAPPING, null_values=wrong)
    parquet.write_table(pa.table({"q": ["a"], "l": [["b", "NULL"]]}), tmp_path / "l.parquet")
    source = dp.sources.ParquetSource(
        tmp_path / "l.parquet", anchor="q", positive="l", null_values="NULL"
    )
    refused = pytest.raises(SourceError, match="'l' has lists, and null_values= is set")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus, refused:
        corpus.ingest(source, progress=False, options=dp.IngestOptions(in_place=True))


def test_the_preview_counts_such_words_and_says_the_option(tmp_path):
    path = write_csv(tmp_path / "rows.csv", WORDED)
    (flag,) = preview(dp.sources.CsvSource(path, **MAPPING)).flags
    assert flag == (
        "3 of 12 texts look like no value: N/A (1), NULL (1), nan (1); null_values=['N/A', "
        "'NULL', 'nan'] takes them for none"
    )
    flags = preview(dp.sources.CsvSource(path, **MAPPING, null_values=WORDS)).flags
    assert flags == ["4 of the first 6 rows cannot become records"]
    line = dp.sources.HubSource(
        "hf://org/name/config/split anchor=q positive=a null_values=N/A,NULL"
    )
    assert line.null_values == ("N/A", "NULL")
