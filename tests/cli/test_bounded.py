"""Statements of others: a child process with limits on memory and time; every type answered."""

import json
from datetime import date
from pathlib import Path

import pytest
from commands import error
from prebuilt import kept

import duckplets as dp
from duckplets import mcp
from duckplets.cli import bounded
from duckplets.testing import toy_corpus

ENDLESS = "SELECT count(*) FROM range(100000) AS a, range(1000000) AS b"

ENDED = {
    # The memory limit of DuckDB leaves out what a function makes.
    "memory": (
        "SELECT repeat('x', 2000000000)",
        {"memory": 5 << 28},
        dp.errors.QueryError,
        "memory",
    ),
    "clock": (ENDLESS, {"seconds": 0.4}, dp.errors.DeadlineError, "ran longer than 0.5 seconds"),
}


@pytest.fixture(scope="module")
def path() -> Path:
    return kept(toy_corpus, 20)


@pytest.mark.parametrize("case", ENDED)
def test_a_child_process_ends_at_its_limit(path, case):
    query, limits, kind, said = ENDED[case]
    with pytest.raises(kind, match=said) as raised:
        list(bounded.lines("mcp:sql_rows", path, {"query": query}, **limits))
    assert type(raised.value) is kind
    assert len(str(raised.value)) <= 240


def test_the_error_of_a_child_is_that_of_its_function(path):
    assert "nonsense" in error("sql", path, "SELECT nonsense")


ANSWERS = {
    "SELECT 1 AS a, 2 AS a": {"a": 1, "a_1": 2},
    "SELECT 'nan'::DOUBLE AS a, ['-inf'::FLOAT] AS b": {"a": "NaN", "b": ["-Infinity"]},
    "SELECT row(1, 2) AS a": {"a": [1, 2]},
    "SELECT 'infinity'::DATE AS a, '290309-12-22 (BC)'::DATE AS b": {
        "a": "infinity",
        "b": "290309-12-22 (BC)",
    },
    "SELECT repeat('9', 200)::BIGNUM AS a": {"a": "9" * 200},
    "SELECT {'a': 1}::VARIANT AS a": {"a": "{'a': 1}"},
    r"SELECT '\xAA'::BLOB AS a": {"a": r"\xAA"},
    "SELECT repeat('x', 5000) AS a": {"a": f"{'x' * 1000}… (5,000 characters)"},
    "SELECT range(60) AS a": {"a": [*range(50)]},
}


def test_every_type_is_answered_in_json(path):
    with dp.Corpus(path, read_only=True) as corpus:
        for query, answer in ANSWERS.items():
            (line,) = mcp.sql_rows(corpus, query)
            assert json.loads(line) == answer, query
        every = "SELECT * FROM test_all_types()"
        first, second, empty = map(json.loads, mcp.sql_rows(corpus, every))
        assert set(first) == set(second) == set(corpus.sql(every).column_names)
        assert not any(empty.values())
        json.dumps([first, second], allow_nan=False)
        deep = "SELECT (repeat('[', 900) || repeat(']', 900))::JSON AS a"
        with pytest.raises(dp.errors.QueryError, match="nested too deeply"):
            mcp.sql_rows(corpus, deep)
        with pytest.raises(dp.errors.QueryError, match="VARIANT"):  # which Arrow does not have
            corpus.sql("SELECT 1::VARIANT")
        assert corpus.sql("SELECT DATE '2020-01-01' AS d").to_pylist() == [{"d": date(2020, 1, 1)}]


def test_sql_has_a_deadline_fetching_included(path):
    with dp.Corpus(path, read_only=True, statement_timeout=0.2) as corpus:
        for query in (ENDLESS, "SELECT i FROM range(2000000000) AS t(i)"):
            with pytest.raises(dp.errors.DeadlineError, match="sql: its statement ran longer"):
                corpus.sql(query)
        assert corpus.sql("SELECT 1 AS a").to_pylist() == [{"a": 1}]
