"""Frames and tables of any types: only columns of the mapping are read, mixed ones row by row."""

import datetime
import decimal
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from effort import some
from source_rows import read, texts

import duckplets as dp
from duckplets.sources.by_path import given_source

ASKED, ANSWERS = ["q1", "q2", "q3"], ["a1", "a2", "a3"]
PAIRS, PAIR = [*zip(ASKED, ANSWERS, strict=True)], {"anchor": "q", "positive": "a"}
_CODES = pa.array([0, 1, 0], pa.int8())
_MIXED = pa.UnionArray.from_sparse(_CODES, [pa.array(["x", "y", "z"]), pa.array([1, 2, 3])])
_BAD = [b"a", b"\xff", None]
_OF_STORAGE = pa.ExtensionArray.from_storage

ARROW = {
    "mixed": _MIXED,
    "dense": pa.UnionArray.from_dense(
        _CODES, pa.array([0, 0, 1], pa.int32()), [pa.array(["x", "y"]), pa.array([1])]
    ),
    "unions": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), _MIXED),
    "moments of a union": pa.UnionArray.from_sparse(
        _CODES, [pa.array([2**60] * 3, pa.timestamp("s")), pa.array([1, 2, 3])]
    ),
    "long durations": pa.array([2**62, 2, None], pa.duration("s")),
    "intervals": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    "decimals": pa.array([1, 2, None], pa.decimal256(50, 2)),
    "halves": pa.array(np.array([1, 2, 3], np.float16)),
    "list views": pa.array([["a"], [], None], pa.list_view(pa.string())),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"])),
    "dictionary of lists": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int8()), pa.array([["a"], ["b"]])
    ),
    "no UTF-8": pa.array(_BAD).view(pa.string()),
    "lists of no UTF-8": pa.array([[text] for text in _BAD]).view(pa.list_(pa.string())),
    "binary views": pa.array(_BAD, pa.binary_view()),
    "map to nulls": pa.array([[("a", None)], [], None], pa.map_(pa.string(), pa.null())),
    "nulls in lists": pa.array(
        [[{"a": None, "b": "x"}], [], None],
        pa.list_(pa.struct([("a", pa.null()), ("b", pa.string())])),
    ),
    "no fields": pa.array([{}, {}, None], pa.struct([])),
    "a name twice": pa.StructArray.from_arrays([pa.array([1, 2, 3])] * 2, names=["x", "x"]),
    "nulls": pa.nulls(3),
    "uuid": pa.array([b"0" * 16, b"\xff" * 16, None], pa.binary(16)).cast(pa.uuid()),
    "json": _OF_STORAGE(pa.json_(), pa.array(["1", "{}", None])),
    "bool8": _OF_STORAGE(pa.bool8(), pa.array([1, 0, None], pa.int8())),
    "far": pa.array([2**62, 2, None], pa.timestamp("s", "Mars/X")),
}
OBJECTS = {
    "mixed": ["x", 1, None],
    "objects": [object()] * 3,
    "lists": [["x"], [1], None],
    "arrays": [np.array(["x"]), np.array([1]), None],
    "maps": [{"a": 1}, {"a": "x"}, None],
    "days": [datetime.date(2020, 1, 1), "x", None],
    "large": [2**70, 1, None],
    "surrogates": ["\ud800", "x", None],
    "complex": np.array([1j, 2, 3]),
    "long doubles": np.array([1, 2, 3], np.longdouble),
    "decimals": [decimal.Decimal("1.5"), decimal.Decimal("NaN"), None],
}
ROLES = (
    {"positive": "z", "id": "z", "meta": "z", "taxonomy": "z", "date": "z", "group": "z"},
    {"label": "z", "created_at": "z", "trust": "z", "prefix": "z", "positive": "a"},
    {"sections": "z"},
    {"positive": "z", "text_of": "json"},
)


def tables():
    for name, column in ARROW.items():
        yield name, partial(pa.table, {"q": ASKED, "a": ANSWERS, "z": column})
    connection = duckdb.connect()
    for name in connection.sql("SELECT * FROM test_all_types()").columns:
        statement = f"""
            SELECT 'q' || row_number() OVER () AS q, 'a' || row_number() OVER () AS a, "{name}" AS z
            FROM test_all_types()
        """
        yield f"duckdb {name}", partial(connection.sql, statement)


def pandas_frames():
    pandas = pytest.importorskip("pandas")
    columns = {name: pandas.Series(values, dtype=object) for name, values in OBJECTS.items()}
    columns |= {
        "categories": pandas.Categorical(["x", 1, None]),
        "sparse": pandas.arrays.SparseArray([1, 0, 0]),
        "complex numbers": OBJECTS["complex"],
    }
    for name, values in columns.items():
        yield name, partial(pandas.DataFrame, {"q": ASKED, "a": ANSWERS, "z": values})


def polars_frames():
    polars = pytest.importorskip("polars")
    columns = {
        name: polars.Series(values=list(values), dtype=polars.Object)
        for name, values in OBJECTS.items()
    }
    columns |= {
        "large": polars.Series([1, 2, 3], dtype=polars.Int128),
        "categories": polars.Series(["x", "y", None], dtype=polars.Categorical),
    }
    for name, values in columns.items():
        frame = polars.DataFrame({"q": ASKED, "a": ANSWERS}).with_columns(values.alias("z"))
        yield name, partial(frame.clone)


def refusal(call):
    """Return the message of a SourceError, and what came without one."""
    try:
        return "", call()
    except dp.SourceError as error:
        return str(error), []


@pytest.mark.parametrize("given", [tables, pandas_frames, polars_frames])
def test_only_columns_of_the_mapping_are_read_and_no_type_is_a_foreign_error(reader, given):
    whole = read(dp.sources.MemorySource([{"q": q, "a": a} for q, a in PAIRS], **PAIR), reader)
    for name, make in given():
        assert read(given_source(make(), PAIR), reader) == whole, name
        for role in some(ROLES, less=2):
            how = {"anchor": "q", "on_error": "quarantine"} | role
            refused, found = refusal(partial(read, given_source(make(), how), reader))
            assert len(found) == 3 or "column 'z'" in refused, name
            assert len(refused) <= 240


@pytest.mark.parametrize("given", [tables, pandas_frames, polars_frames])
def test_a_mixed_column_fails_row_by_row(reader, given):
    frame = dict(given())["mixed"]()
    rows = read(given_source(frame, {"anchor": "q", "positive": "z"}), reader)
    last = None if given is tables else "no positive"
    assert [row["skip"] for row in rows] == [None, "not text: number", last]
    assert texts(rows[0]) == [("anchor", "q1"), ("context", "x")]


def test_names_of_pandas_columns(reader):
    pandas = pytest.importorskip("pandas")
    rows = [["q1", "a1", 1, 2], ["q2", "a2", 3, 4]]
    frame = pandas.DataFrame(rows, columns=["q", "a", "z", "z"])
    assert len(read(given_source(frame, PAIR), reader)) == 2
    with pytest.raises(dp.SourceError, match="column 'z' could be any of 'z', 'z'; rename one"):
        read(given_source(frame, PAIR | {"id": "z"}), reader)
    frame = pandas.DataFrame(rows, columns=["q", "a", 5, ("x", "y")], index=[7, 8])
    frame.index.name = "key"
    mapping = PAIR | {"id": "key", "meta": ["5", "('x', 'y')"]}
    found = read(given_source(frame, mapping), reader)
    assert [row["key"] for row in found] == ["7", "8"]
    assert dict(found[1]["meta"]) == {"5": "3", "('x', 'y')": "4"}


def test_what_is_no_table_is_refused(reader):
    relation = duckdb.connect().sql("SELECT 'q' AS q, error('broken') AS a")
    with pytest.raises(dp.SourceError, match=r"DuckDBPyRelation records cannot be .*: broken"):
        read(given_source(relation, {"text": "q"}), reader)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(dp.SourceError, match="Series records cannot be read as a table"):
        read(given_source(pandas.Series(["a"], name="q"), {"text": "q"}), reader)


# ---- ids


def whole_numbers():
    nan = float("nan")
    yield [{"q": "q", "id": value} for value in (1.0, None, 3.0, 0.5, -0.0, 1e16, nan)]
    yield pa.table({"q": ["q"] * 7, "id": [1.0, None, 3.0, 0.5, -0.0, 1e16, nan]})
    numbers = ("1.00", None, "3", "0.50", "-0.0", "1E+16", "NaN")
    yield [{"q": "q", "id": number and decimal.Decimal(number)} for number in numbers]


def test_whole_numbers_are_integers_in_ids_and_groups(reader):
    for records in whole_numbers():
        rows = read(given_source(records, {"text": "q", "id": "id"}), reader)
        keys = [row["key"] for row in rows[:6]]
        half = "0.50" if "0.50" in str(records) else "0.5"
        assert keys == ["1", None, "3", half, "0", "10000000000000000"]
    rows = [{"q": "a", "g": 1.0}, {"q": "b", "g": 1}, {"q": "c", "g": "1.0"}]
    found = read(dp.sources.MemorySource(rows, text="q", group="g", meta="g"), reader)
    assert [row["group_key"] for row in found] == ["1", "1", "1.0"], "a text stays as it is"
    assert [dict(row["meta"])["g"] for row in found] == ["1.0", "1", "1.0"], "and metadata"
