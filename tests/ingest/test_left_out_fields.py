"""Fields that a converter does not read: the report says which they are, and in how many rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from commands import lines, ok
from effort import some
from source_rows import every_source

import duckplets as dp
from duckplets.sources.converters import registry

ROWS: list[dict[str, Any]] = [
    {
        "instruction": f"Do {i}.",
        "output": f"Done {i}.",
        "history": [["Before?", "Yes."]] if i % 3 == 0 else None,
        "Tools/~'s": "[]" if i < 4 else None,
        "page": i,
        "nothing": None,
    }
    for i in range(12)
]
EVERY = {"Tools/~'s": 12, "history": 12, "nothing": 12}
WITH_VALUES = {"Tools/~'s": 4, "history": 4}
KINDS = ("records", "parquet", "jsonl", "csv", "feather", "table", "json", "sql")


def test_fields_that_no_converter_reads_are_counted_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mine(row: dict[str, Any]) -> dict[str, Any]:
        said = [("user", row["instruction"]), ("assistant", row["output"])]
        return {"messages": [{"role": role, "content": text} for role, text in said]}

    monkeypatch.setattr(registry, "_OWN", {})
    dp.register_converter("mine", mine)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        kinds = tuple(some(KINDS, less=4))
        for kind, source in every_source(
            tmp_path, ROWS, kinds, converter="alpaca", meta=["page"]
        ).items():
            report = corpus.ingest(source, name=kind)
            assert report.added == 12, kind
            expected = WITH_VALUES if kind in ("records", "jsonl", "json") else EVERY
            assert report.left_out == expected, kind
        told = "  left out, as the converter does not read them: Tools/~'s (12 rows), history (12"
        assert told in str(report)
        # Rows that are no records are not counted.
        rows = [*ROWS, {"instruction": "no reply", "history": [["a", "b"]]}, {"tools": "x"}]
        source = dp.MemorySource(rows, converter="alpaca", meta="page", on_error="skip")
        report = corpus.ingest(source, name="some")
        assert (report.read, report.added, report.left_out) == (14, 12, WITH_VALUES)
        wholes = {
            "all are read": dp.MemorySource([ROWS[5] | {"page": None}], converter="alpaca"),
            "mapped": dp.MemorySource(ROWS, anchor="instruction", positive="output"),
            "by a function": dp.MemorySource(ROWS, converter="mine"),
        }
        for name, whole in wholes.items():
            report = corpus.ingest(whole, name=name)
            assert report.left_out == {}, name
            assert "left out" not in str(report)


def test_an_ingest_in_pieces_counts_over_all_of_them(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.Table.from_pylist(ROWS * 4), tmp_path / "r.parquet", row_group_size=5)
    (tmp_path / "sets.yaml").write_text(
        "faq: {file_name: r.parquet, converter: alpaca, streaming: true}"
    )
    out = ok("ingest", tmp_path / "c.duckdb", tmp_path / "sets.yaml", "--json")
    (report,) = lines(out)
    assert report["left_out"] == {"Tools/~'s": 48, "history": 48, "nothing": 48, "page": 48}
    with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus:
        (stored,) = corpus.sql("SELECT report FROM corpus_versions WHERE what = 'ingest'")["report"]
        assert json.loads(str(stored))["left_out"] == report["left_out"]
