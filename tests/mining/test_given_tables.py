"""Given negatives: whatever table they come in is read, or refused by name."""

from __future__ import annotations

import math
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from effort import often, some, thorough
from questions import RECIPE, Expected, build, legal_rows, random_rows, stored

import duckplets as dp
from duckplets.mining import external as given
from duckplets.recipes.mined import Mined


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus to copy: building one takes longer than what is tested."""
    path = tmp_path_factory.mktemp("tables") / "faq.duckdb"
    build(path).close()
    return path


@pytest.fixture
def corpus(made: Path, tmp_path: Path) -> Iterator[dp.Corpus]:
    with dp.Corpus(shutil.copy(made, tmp_path)) as copied:
        yield copied


class OnlyStream:
    """What any data frame is to us."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def cast(table: pa.Table, **types: pa.DataType) -> pa.Table:
    for name, kind in types.items():
        column = table[name]
        column = column.dictionary_encode() if kind is pa.dictionary else column.cast(kind)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def as_lists(table: pa.Table) -> pa.Table:
    """An anchor a row, as LightOn and RLHN have it."""
    lists = table.group_by("anchor_id").aggregate([("negative_id", "list"), ("score", "list")])
    return lists.select(["anchor_id", "negative_id_list", "score_list"]).rename_columns(
        ["query_id", "document_ids", "scores"]
    )


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "a table": lambda table: table,
    "a table in pieces": lambda table: pa.concat_tables([table[:7], table[7:7], table[7:]]),
    "a record batch": lambda table: table.to_batches()[0],
    "a reader": lambda table: table.to_reader(max_chunksize=11),
    "a stream": OnlyStream,
    "dicts": lambda table: table.to_pylist(),
    "a generator of dicts": lambda table: (row for row in table.to_pylist()),
    "with other columns": lambda table: table.append_column("rank", pa.nulls(len(table))),
    "in another order": lambda table: table.select(["score", "negative_id", "anchor_id"]),
    "float32": lambda table: cast(table, score=pa.float32()),
    "integers": lambda table: cast(table, score=pa.int16()),
    "large strings": lambda table: cast(table, anchor_id=pa.large_string()),
    "dictionaries": lambda table: cast(table, anchor_id=pa.dictionary, negative_id=pa.dictionary),
    "lists": lambda table: as_lists(table),
    "rows shuffled": lambda table: random.Random(1).sample(table.to_pylist(), len(table)),
}


@pytest.mark.parametrize("form", some(FORMS, less=2))
def test_the_form_of_a_table_changes_nothing(form: str, corpus: dp.Corpus) -> None:
    rows = legal_rows(corpus)
    report = corpus.add_negatives(FORMS[form](pa.Table.from_pylist(rows)), name=RECIPE)
    assert report.rows == len(rows)
    expected, _ = Expected(corpus, RECIPE).kept(rows, Mined())
    assert stored(corpus) == expected


@thorough
def test_batches_and_blocks_change_nothing(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, found = random_rows(corpus, 5, often(1500, less=150)), []
    for size in (1 << 20, 97, 9):
        monkeypatch.setattr(given, "_ROWS", 16 * size)
        monkeypatch.setattr(given, "_DICTS", size)
        monkeypatch.setattr(given, "_BLOCK_ROWS", size)
        report = corpus.add_negatives(rows, name=RECIPE, depth=3)
        kept = corpus.sql("SELECT * EXCLUDE (generation) FROM candidates ORDER BY ALL")
        found.append((report.counts, kept.to_pylist()))
    assert found[0] == found[1] == found[2]


GOOD = {"anchor_id": "one/r1", "negative_id": "one/r2", "score": 0.5}
WRONG: list[tuple[str, Any, str]] = [
    ("no rows", [], "no rows"),
    ("no rows of a table", pa.Table.from_pylist([GOOD])[:0], "no rows"),
    ("a path", "scores.parquet", "iterable of dicts, not str"),
    ("columns in a dict", {"anchor_id": ["one/r1"]}, "iterable of dicts, not dict"),
    ("a number", 5, "iterable of dicts, not int"),
    ("tuples", [("one/r1", "one/r2", 0.5)], "a row of negatives is a dict, not tuple"),
    ("a tuple later", [GOOD, ("one/r1",)], "a row of negatives is a dict, not tuple"),
    (
        "lists of other lengths",
        [{"query_id": "one/r1", "document_ids": ["one/r2"], "scores": [0.5, 0.4]}],
        "row 0 of the negatives has 1 document_ids and 2 scores",
    ),
    (
        "no lists",
        [{"query_id": "one/r1", "document_ids": "one/r2", "scores": [0.5]}],
        "'document_ids' of the negatives holds string, not lists",
    ),
    ("no score", [{"anchor_id": "a", "negative_id": "b"}], "needs a column 'score'; it has"),
    *(
        (f"{name}: {value!r}", [GOOD, GOOD | {name: value}], f"{name!r} of the negatives {holds}")
        for name, value, holds in [
            ("score", None, "holds null in row 1"),
            ("score", math.nan, "holds nan in row 1"),
            ("score", -math.inf, "holds -inf in row 1"),
            ("score", 1e305, "holds 1e+305 in row 1"),
            ("score", "high", "holds"),
            ("anchor_id", None, "holds null in row 1"),
            ("negative_id", 7, "holds"),
            ("negative_id", b"x", "holds"),
        ]
    ),
]


@pytest.mark.parametrize("case", WRONG, ids=[case[0] for case in WRONG])
def test_a_wrong_table_is_refused(case: tuple[str, Any, str], corpus: dp.Corpus) -> None:
    _, table, message = case
    with pytest.raises(dp.RecipeError, match=re.escape(message)):
        corpus.add_negatives(table, name=RECIPE)
    assert len(corpus.sql("SELECT * FROM minings")) == 0


def test_columns_are_named_when_they_are_wrong(corpus: dp.Corpus) -> None:
    row = {"anchor_id": "one/r1", "negativ_id": "one/r2", "score": 0.5}
    with pytest.raises(dp.RecipeError, match=r"'negative_id' or .*did you mean 'negative_id'"):
        corpus.add_negatives([row], name=RECIPE)
    row = {"anchor_id": "one/r1", "anchor_section_key": 1, "negative_id": "one/r2", "score": 0.5}
    with pytest.raises(dp.RecipeError, match="anchor_id or anchor_section_key, not both"):
        corpus.add_negatives([row], name=RECIPE)
    row = {"anchor_id": "one/r1", "negative_id": "one/r2", "score": True}
    with pytest.raises(dp.RecipeError, match="'score' of the negatives holds bool"):
        corpus.add_negatives([row], name=RECIPE)
    row = {"anchor_section_key": 1 << 63, "negative_id": "one/r2", "score": 0.5}
    with pytest.raises(dp.RecipeError, match="'anchor_section_key' of the negatives"):
        corpus.add_negatives([row], name=RECIPE)


@pytest.mark.parametrize("knob", [{"query_tokens": 5}, {"scope": "shard"}, {"top_k": 9}])
def test_knobs_of_searching_are_refused(knob: dict[str, Any], corpus: dp.Corpus) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(knob))}'"):
        corpus.add_negatives(legal_rows(corpus), name=RECIPE, **knob)


def test_rows_that_name_nothing_are_an_error(corpus: dp.Corpus) -> None:
    rows = [{"anchor_id": "r1", "negative_id": "r2", "score": 0.5}] * 3
    with pytest.raises(dp.RecipeError, match=r"'asked': no row .*: 3 unknown anchor.*source/key"):
        corpus.add_negatives(rows, name=RECIPE)
    rows = [{"anchor_id": "one/r1", "negative_id": "one/r1", "score": 0.5}] * 3
    with pytest.raises(dp.RecipeError, match="3 positive"):
        corpus.add_negatives(rows, name=RECIPE)
    assert len(corpus.sql("SELECT * FROM minings")) == 0


def test_a_corpus_without_splits_says_so(tmp_path: Path) -> None:
    with dp.Corpus(tmp_path / "new.duckdb") as new:
        source = dp.MemorySource([{"id": "a", "q": "x", "a": "y"}], id="id", anchor="q")
        new.ingest(source, name="one", progress=False)
        with pytest.raises(dp.SplitError, match="no splits yet"):
            new.add_negatives([], name=RECIPE)
