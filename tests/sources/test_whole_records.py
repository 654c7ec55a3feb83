"""Paths into nested columns, sections given whole, times of records: in every kind of source."""

import datetime
import json
from random import Random

import pyarrow as pa
import pyarrow.feather
import pytest
from effort import often, some
from source_rows import ALL, Paged, every_source, rows_of, texts

from duckplets import CsvSource, CustomSource, JsonSource, MemorySource
from duckplets.errors import SourceError
from duckplets.sources.custom.protocol import adapted


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
    names = {"a": "anchor", "c": "context", "r": "rejected"}
    for roles, suited in {"ac": "roles", "acr": "ready", "c": "text", "cr": "text"}.items():
        sections = [{"role": names[role], "text": role} for role in roles]
        for source in (MemorySource([{"sections": sections}]), Paged([{"sections": sections}])):
            assert adapted(source).open(reader).defaults == suited, "recipes"


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
    for wrong in ("soon", "2024-13-01", "0000-01-01", "2024-01-01T25:00", "2024-01-02+02:00"):
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
