"""Columns, of Arrow data or of dictionaries, become the batches that their rows become."""

from __future__ import annotations

import datetime
from contextlib import closing

import pyarrow as pa
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.sources import Mark, memory, row_batches, typed
from duckplets.sources.columns import ArrowColumns, RowColumns
from duckplets.sources.limits import FileReader, Limits

BLANK = "\n\t\x1c\x7f\0\x85\xa0\u1680\u2003\u2028\u205f\u3000"
FIRST = st.sampled_from(["", " ", *BLANK, *"aé«「か漢“\ufeff😀ß"])
TEXTS = st.builds(
    lambda first, rest: first + rest, FIRST, st.sampled_from(["", " ", "b", "x" * 99])
)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 4)
REALS = st.floats(width=32) | st.sampled_from([0.5, 1.0, 0.0, -0.0, 1e-5, 1e17])
ISO = st.sampled_from(["2020-02-30", "2020-02-28", "NaT", " 1999-01-01 ", "1600000000", "5.3.2001"])
LABELS = st.sampled_from(["yes", "No", "2", "maybe", " ", "NaT"])
DAYS = st.dates() | st.just(datetime.date(1, 1, 1))
TIMES = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
KINDS = {
    "text": (TEXTS, pa.string()),
    "large": (TEXTS, pa.large_string()),
    "view": (TEXTS, pa.string_view()),
    "shared": (TEXTS, pa.dictionary(pa.int8(), pa.string())),
    "list": (st.lists(TEXTS | st.none(), max_size=3), pa.list_(pa.string())),
    "number": (NUMBERS, pa.int64()),
    "natural": (st.integers(0, 2**64 - 1), pa.uint64()),
    "short": (st.integers(-3, 3), pa.int8()),
    "real": (REALS, pa.float64()),
    "single": (REALS, pa.float32()),
    "truth": (st.booleans(), pa.bool_()),
    "exact": (st.decimals(-99, 99, places=2), pa.decimal128(9, 2)),
    "day": (DAYS, pa.date32()),
    "moment": (TIMES, pa.timestamp("us")),
    "zone": (TIMES, pa.timestamp("ns", "Asia/Tokyo")),
    "iso": (ISO, pa.string()),
    "judged": (LABELS, pa.string()),
    "nothing": (st.none(), pa.null()),
    "bytes": (st.binary(max_size=3), pa.binary()),
    "broken": (st.sampled_from([b"a", b"\xff", "é".encode()]), pa.binary()),
    "nested": (st.fixed_dictionaries({"a": TEXTS}), pa.struct([("a", pa.string())])),
}
TEXT_KINDS = ["text"] * 4 + ["large", "view", "shared", "list", "broken"]
PARTS = {
    "positive": TEXT_KINDS,
    "context": TEXT_KINDS,
    "negative": ["list", *TEXT_KINDS],
    "id": ["text", "number", "natural", "short", "real", "shared", "exact"],
    "group": ["text", "number", "truth", "real", "day"],
    "date": ["day", "moment", "zone", "iso", "number", "nothing"],
    "created_at": ["moment", "iso", "zone"],
    "updated_at": ["moment", "iso"],
    "label": ["judged", "short", "real", "truth", "text"],
    "trust": ["real", "single", "short"],
    "meta": ["text", "number", "real", "day", "list", "moment", "exact", "truth"],
    "taxonomy": ["text", "list", "number", "shared"],
}


@st.composite
def tables(draw):
    """A table, the mapping of a source over it, and the classes of its columns."""
    count = draw(st.integers(1, 12))
    columns, mapping = {}, {}

    def column(kinds, name):
        kind = draw(
            st.sampled_from([*kinds, *(["nothing"] if draw(st.integers(0, 20)) == 0 else ())])
        )
        values, to = KINDS[kind]
        some = st.none() | values if draw(st.booleans()) else values
        made = pa.array(draw(st.lists(some, min_size=count, max_size=count)), to)
        columns[name] = made.view(pa.string()) if kind == "broken" else made

    for part in ["anchor", *draw(st.lists(st.sampled_from([*PARTS]), unique=True, max_size=5))]:
        names = [f"{part}{i}" for i in range(draw(st.integers(1, 2)))]
        if part not in ("anchor", "positive", "context", "negative", "meta", "taxonomy"):
            names = names[:1]
        for name in names:
            column(PARTS.get(part, TEXT_KINDS), name)
        if part == "context" and draw(st.booleans()):
            names = [f"{name}?" for name in names]
        mapping[part] = names[0] if len(names) == 1 else names
    if "positive" not in mapping and "context" not in mapping:
        mapping.pop("label", None)
    if "date" in mapping:
        mapping["date_format"] = draw(st.sampled_from([None, ["%d.%m.%Y"]]))
        mapping["on_bad_date"] = draw(st.sampled_from(["null", "fail"]))
    mapping["text_of"] = draw(st.sampled_from([None, "json"]))
    mapping["on_error"] = draw(st.sampled_from(["skip", "quarantine", "skip", "raise"]))
    return pa.table(columns), mapping


VALUES = TEXTS | st.none() | st.integers(-2, 3) | st.sampled_from([0.5, True, "\ud800", b"x", [1]])
VALUES |= st.lists(TEXTS | st.none(), max_size=2) | st.fixed_dictionaries({"b": TEXTS}) | DAYS


@st.composite
def objects(draw):
    """Dictionaries, mostly of texts, the mapping of a source over them, and other rows."""
    mapping = {part: part[0] for part in ("anchor", "positive")}
    for part in draw(st.lists(st.sampled_from([*PARTS][1:]), unique=True, max_size=4)):
        mapping[part] = draw(st.sampled_from([part, f"{part}.b", f"{part}[0]"]))
    mapping["on_error"] = draw(st.sampled_from(["skip", "quarantine", "raise"]))
    usual = TEXTS if draw(st.booleans()) else st.just("text")
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        value = VALUES if draw(st.integers(0, 3)) == 0 else usual
        rows.append({key: draw(value) for key in ("a", "p", *mapping) if draw(st.integers(0, 9))})
    rows += draw(st.lists(st.sampled_from([None, "no object", {}]), max_size=2))
    return draw(st.permutations(rows)), mapping


def batches(records, mapping, limits):
    """Everything that a source over records opens into, and what ended it."""
    found = []
    try:
        with closing(FileReader.within(limits)) as reader:
            for item in dp.sources.MemorySource(records, **mapping).open(reader).batches:
                found.append(item if isinstance(item, Mark) else (item.schema, item.to_pylist()))
                if not isinstance(item, Mark):
                    item.validate(full=True)
    except SourceError as error:
        found.append(str(error))
    return found


@pytest.fixture(scope="module")
def small():
    """Small blocks and batches, of which any part may be odd."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed, "BLOCK_ROWS", 5)
        patch.setattr(memory, "_MEMORY_ROWS", 5)
        patch.setattr(row_batches, "MAX_ROWS", 4)
        patch.setattr(row_batches, "MAX_BYTES", 400)
        yield


@settings(max_examples=often(800, less=50), deadline=None)
@given(made=tables() | objects(), field=st.sampled_from(["64MB", 170]))
def test_columns_become_what_their_rows_become(small, made, field):
    records, mapping = made
    limits = Limits(field=field)
    found = batches(records, mapping, limits)
    with pytest.MonkeyPatch.context() as patch:
        for columns in (ArrowColumns, RowColumns):
            patch.setattr(columns, "column", columns.values)
        assert found == batches(records, mapping, limits)


def hashes(table, mapping, monkeypatch, longest):
    monkeypatch.setattr(row_batches, "_LONG", longest)
    return batches(table, mapping, Limits())


@settings(max_examples=often(300, less=25), deadline=None)
@given(made=tables())
def test_both_ways_of_hashing_agree(made):
    table, mapping = made
    with pytest.MonkeyPatch.context() as patch:
        found = [hashes(table, mapping, patch, longest) for longest in (-1, 1 << 40)]
    assert found[0] == found[1]


def test_only_rows_that_are_kept_are_made(monkeypatch):
    seen = []
    at = typed.ArrowRows.at

    def noted(self, places):
        seen.extend(at(self, places))
        return at(self, places)

    monkeypatch.setattr(typed.ArrowRows, "at", noted)
    rows = [{"q": f"{'aé漢'[i % 3]}{i}", "a": "b" if i % 50 else None} for i in range(200)]
    source = {"anchor": "q", "positive": "a", "on_error": "quarantine"}
    found = batches(pa.Table.from_pylist(rows), source, Limits())
    assert seen == rows[::50]
    numbers = [row["row"] for _, batch in found for row in batch if row["skip"] is not None]
    assert numbers == [1, 51, 101, 151]


class Refusing:
    def __str__(self):
        raise ValueError("no text")


def test_an_object_without_a_text_is_named_by_its_row():
    rows = [{"q": "a", "id": str(i)} for i in range(30)]
    rows[7]["id"] = Refusing()
    found = batches(rows, {"anchor": "q", "id": "id"}, Limits())
    assert "row 8: ValueError: no text" in found[-1]
