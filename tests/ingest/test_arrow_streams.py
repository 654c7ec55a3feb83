"""Text comes from anything that gives Arrow data, and goes to anything that takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from prebuilt import empty_corpus

import duckplets as dp

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

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return VIEWS.__arrow_c_stream__(requested_schema)


def relation() -> Any:
    connection = duckdb.connect()
    connection.register("given", TABLE)
    return connection.sql("SELECT * FROM given ORDER BY id")


GIVERS: dict[str, Callable[[], Any]] = {
    "polars": lambda: pytest.importorskip("polars").from_arrow(TABLE),
    "pandas": lambda: pytest.importorskip("pandas") and TABLE.to_pandas(),
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "relation": relation,
    "protocol": Stream,
}


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with empty_corpus(tmp_path / "c.duckdb") as opened:
        yield opened


@pytest.mark.parametrize("giver", GIVERS)
def test_data_is_ingested_by_its_columns(corpus: dp.Corpus, giver: str) -> None:
    mapping: dict[str, Any] = {"anchor": "title", "positive": "body", "id": "id", "meta": "kind"}
    given = GIVERS[giver]()
    report = corpus.ingest(given, name="s", on_conflict="skip", progress=False, **mapping)
    assert (report.read, report.added) == (3, 2)
    texts = corpus.sql("SELECT record_id, role, text FROM section_texts ORDER BY ALL").to_pylist()
    assert [tuple(row.values()) for row in texts] == [
        ("s/a", "anchor", "one"),
        ("s/a", "context", "first text"),
        ("s/b", "anchor", "two"),
        ("s/b", "context", "second text"),
    ]
    again = dp.MemorySource(GIVERS[giver](), **mapping)
    assert corpus.ingest(again, name="s", progress=False).added == 0
    with pytest.raises(dp.SourceError, match="no column 'titel'"):
        corpus.ingest(GIVERS[giver](), anchor="titel", progress=False)


def test_results_and_batches_are_taken_by_others(corpus: dp.Corpus) -> None:
    corpus.ingest(TABLE, text="body", id="id", progress=False)
    corpus.split(1.0, 0.0, 0.0)
    with corpus.sampler("texts", batch_size=2) as sampler:
        for given in (corpus.sql("SELECT record_id AS x FROM records"), next(sampler)):
            assert pa.RecordBatchReader.from_stream(given).read_all().num_rows == len(given)
