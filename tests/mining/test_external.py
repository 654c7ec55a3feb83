"""Given negatives: guarded, counted, kept and drawn as plain Python says."""

import itertools
import math
import random
import re
from dataclasses import replace

import pyarrow as pa
import pytest
from effort import often, some
from questions import (
    AMONG_ANCHORS,
    OTHER_TOPIC,
    RECIPE,
    SAME_TOPIC,
    SOME_TOPIC,
    Expected,
    build,
    legal_rows,
    random_rows,
    stored,
)

import duckplets as dp
from duckplets.base import tables
from duckplets.mining import external as given
from duckplets.recipes.mined import Mined

RECIPES = {
    "any": RECIPE,
    "same topic": SAME_TOPIC,
    "other topic": OTHER_TOPIC,
    "anchors": AMONG_ANCHORS,
    "some topics": SOME_TOPIC,
}
KNOBS = [
    {"range_max": 3, "absolute_margin": 0.5},
    {},
    {"range_max": 2, "max_score": 2.0, "min_score": -1.0},
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with build(tmp_path_factory.mktemp("given") / "c.duckdb") as opened:
        yield opened


@pytest.fixture(scope="module")
def rows(corpus):
    """Legal rows, and rows of positives."""
    return legal_rows(corpus)


@pytest.mark.parametrize(
    ("name", "seed"), some(itertools.product(RECIPES, range(len(KNOBS))), less=2)
)
def test_rows_are_guarded_counted_and_kept(name, seed, tmp_path):
    plain, knobs = RECIPES[name], KNOBS[seed]
    with build(tmp_path / "c.duckdb", seed) as corpus:
        # With fewer rows some topics have no anchor of a source and split.
        count = 3000 if plain is SOME_TOPIC else often(3000, less=1500)
        rows, policy = random_rows(corpus, seed, count), Mined("given", **knobs)
        recipe = replace(plain, by=policy)
        corpus.add_recipe(recipe)
        report = corpus.add_negatives(rows, name=recipe)
        expected = Expected(corpus, plain)
        kept, counts = expected.kept(rows, policy)
        assert stored(corpus) == {anchor: mine for anchor, mine in kept.items() if mine}
    found = {name: count for name, count in report.counts.items() if count}
    assert found == {name: count for name, count in counts.items() if count}
    assert sum(found.values()) == report.rows == len(rows)
    assert report.anchors == len(expected.anchors)
    reasons = {"unknown anchor", "unknown negative", "positive", "other source or split"}
    reasons |= {"same group", "same text", "duplicate row", "kept"}
    reasons |= {"range"} if knobs else set()
    reasons |= {"strategy"} if "topic" in name and plain is not SOME_TOPIC else set()
    if plain is SOME_TOPIC:
        reasons |= {"not an anchor of the recipe", "not a negative of the recipe"}
    assert reasons <= found.keys()


def test_a_record_means_all_its_sections_that_fit(tmp_path):
    records = [
        {"id": f"r{i}", "q": f"question {i}", "a": f"answer {i}", "b": f"another answer {i}"}
        for i in range(8)
    ]
    rows = [
        {"anchor_id": f"s/r{i}", "negative_id": f"s/r{j}", "score": float(j)}
        for i in range(8)
        for j in (1, 4, 6)
    ]
    with dp.Corpus(tmp_path / "lists.duckdb") as corpus:
        corpus.ingest(records, name="s", id="id", anchor="q", context=["a", "b"])
        corpus.split(1, 0, 0)
        report = corpus.add_negatives(rows, name=RECIPE)
        assert report.counts["positive"] == 3
        assert report.counts["kept"] == 2 * (len(rows) - 3)
        found = corpus.sql(
            """
            SELECT negative, rank FROM hard_negatives WHERE anchor_record_id = 's/r0' ORDER BY rank
            """
        )
        texts = [f"{kind} {j}" for j in (6, 4, 1) for kind in ("answer", "another answer")]
        assert found["negative"].to_pylist() == texts


def test_an_interrupted_call_changes_nothing(corpus, rows, monkeypatch):
    corpus.add_negatives(rows, name=RECIPE)
    before = corpus.sql("SELECT * FROM negatives ORDER BY ALL")

    def failing():
        yield from rows
        raise KeyboardInterrupt

    def interrupt(done, total):
        raise KeyboardInterrupt

    turned = [row | {"score": -row["score"]} for row in rows]
    with monkeypatch.context() as patch:
        patch.setattr(given, "_BLOCK_ROWS", 1)
        for table, progress in ((failing(), False), (turned, interrupt)):
            with pytest.raises(KeyboardInterrupt):
                corpus.add_negatives(table, name=RECIPE, progress=progress)
    assert corpus.sql("SELECT * FROM negatives ORDER BY ALL").equals(before)
    assert not corpus.sql("SELECT * FROM duckdb_tables() WHERE temporary").num_rows
    corpus.add_negatives(turned, name=RECIPE)
    expected, _ = Expected(corpus, RECIPE).kept(turned, Mined())
    assert stored(corpus) == expected, "nothing of the interrupted one is left in it"


class OnlyStream:
    """A minimal data frame."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def cast(table, **types):
    for name, kind in types.items():
        column = table[name]
        column = column.dictionary_encode() if kind is pa.dictionary else column.cast(kind)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def as_lists(table):
    """An anchor a row, as LightOn and RLHN have it."""
    lists = table.group_by("anchor_id").aggregate([("negative_id", "list"), ("score", "list")])
    return lists.select(["anchor_id", "negative_id_list", "score_list"]).rename_columns(
        ["query_id", "document_ids", "scores"]
    )


FORMS = {
    "a table in pieces": lambda table: pa.concat_tables([table[:7], table[7:7], table[7:]]),
    "a record batch": lambda table: table.to_batches()[0],
    "a reader": lambda table: table.to_reader(max_chunksize=11),
    "a stream": OnlyStream,
    "a generator of dicts": lambda table: (row for row in table.to_pylist()),
    "with other columns": lambda table: table.append_column("rank", pa.nulls(len(table))),
    "integers": lambda table: cast(table, score=pa.int16()),
    "large strings": lambda table: cast(table, anchor_id=pa.large_string()),
    "dictionaries": lambda table: cast(table, anchor_id=pa.dictionary, negative_id=pa.dictionary),
    "lists": lambda table: as_lists(table),
    "columns": lambda table: {name: table[name].to_pylist() for name in table.column_names},
    "rows shuffled": lambda table: random.Random(1).sample(table.to_pylist(), len(table)),
}


def test_the_form_of_a_table_changes_nothing(corpus, rows, monkeypatch):
    expected, _ = Expected(corpus, RECIPE).kept(rows, Mined())
    for form, size in zip(some(FORMS, less=3), itertools.cycle((1 << 20, 97, 9)), strict=False):
        monkeypatch.setattr(tables, "_ROWS", size)
        monkeypatch.setattr(given, "_BLOCK_ROWS", size)
        report = corpus.add_negatives(FORMS[form](pa.Table.from_pylist(rows)), name=RECIPE)
        assert report.rows == len(rows), form
        assert stored(corpus) == expected, form


GOOD = {"anchor_id": "one/r1", "negative_id": "one/r2", "score": 0.5}


WRONG = [
    ([], "no rows"),
    ("scores.parquet", "'scores.parquet' cannot be read"),
    (7, "7 is no table"),
    (["a", "b"], "a row is no dict: 'a'"),
    ({"anchor_id": ["one/r1"]}, "the table has the columns 'anchor_id'; give 'anchor_id' with"),
    (
        [{"query_id": "one/r1", "document_ids": ["one/r2"], "scores": [0.5, 0.4]}],
        "row 0 has 1 document_ids and 2 scores",
    ),
    (
        [{"query_id": "one/r1", "document_ids": "one/r2", "scores": [0.5]}],
        "document_ids is of type string; give lists",
    ),
    ([{"anchor_id": "a", "negativ_id": "b", "score": 0.5}], "did you mean 'negative_id'"),
    ([GOOD | {"query_id": "a", "document_ids": ["b"], "scores": [1.0]}], "not both"),
    ([GOOD | {"score": True}], "score is of type bool; give numbers"),
    ([GOOD | {"anchor_id": "r1"}] * 3, "3 unknown anchor"),
    ([GOOD | {"negative_id": "one/r1"}] * 3, "3 positive"),
    *(
        ([GOOD, GOOD | {name: value}], said)
        for name, value, said in [
            ("score", None, "row 1 has no score, but null"),
            ("score", math.nan, "row 1: score nan is not finite"),
            ("score", 1e305, "row 1: score 1e+305 is not finite"),
            ("anchor_id", None, "row 1 has no anchor_id, but null"),
            ("negative_id", 7, "negative_id cannot be read"),
        ]
    ),
]


def test_a_wrong_table_is_refused(corpus, rows):
    before = corpus.sql("FROM minings")
    for table, message in WRONG:
        with pytest.raises(dp.RecipeError, match=re.escape(message)):
            corpus.add_negatives(table, name=RECIPE)
    assert corpus.sql("FROM minings").equals(before)
    with pytest.raises(TypeError, match="unexpected keyword argument 'scope'"):
        corpus.add_negatives(rows, name=RECIPE, scope="shard")
    for name in ("bm25", "random"):  # of candidates they mean something else
        with pytest.raises(dp.RecipeError, match=f"scorer='{name}': by='{name}' is reserved"):
            corpus.add_negatives(rows, name=RECIPE, scorer=name)
        with pytest.raises(dp.RecipeError, match=f"dense: name='{name}'"):
            dp.Dense("v", name=name)
