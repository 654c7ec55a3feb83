"""Data sets for the tests of the hub source, and ways to read them."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_server import Hub

from duckplets.db.database import Database
from duckplets.sources import Mark, Rows, Source

MOODS = ("neutral", "bullish", "bearish")


def point_to(hub: Hub, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Make a hub the one that is asked, by nobody in particular."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    # The stand-in keeps large files as LFS does, not in the store of Xet.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    # The login of who runs the tests.
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(cache / "no-token"))


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows with texts of several lengths, some of them blank."""
    draw = random.Random(seed)
    return [
        {
            "key": f"k{seed}-{i}",
            "question": "" if draw.random() < 0.05 else f"question {seed} {i} " + "é" * (i % 9),
            "answer": None if draw.random() < 0.05 else f"answer {draw.randrange(10**6)}",
            "mood": draw.choice([0, 1, 2, -1, None]),
            "tags": [f"t{n}" for n in range(i % 3)],
        }
        for i in range(count)
    ]


def features(labels: dict[str, Sequence[str]]) -> bytes:
    """Return the metadata with which ``datasets`` says which columns are labels."""
    found = {name: {"names": list(names), "_type": "ClassLabel"} for name, names in labels.items()}
    return json.dumps({"info": {"features": found}}).encode()


def parquet(
    data: list[dict[str, Any]], group: int = 100, labels: dict[str, Sequence[str]] | None = None
) -> bytes:
    """Return rows as a Parquet file, with the names of classes where there are any."""
    table = pa.Table.from_pylist(data)
    if labels:
        table = table.replace_schema_metadata({b"huggingface": features(labels)})
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=group)
    return out.getvalue()


def jsonl(data: list[dict[str, Any]]) -> bytes:
    """Return rows as lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in data).encode()


def opened(source: Source, cursor: Any = None) -> Rows:
    reader = Database.reader()
    return source.open(reader, cursor)


def read(source: Source, cursor: Any = None) -> list[dict[str, Any]]:
    """Return all rows of a source, from a cursor on."""
    return [
        row for item in items(source, cursor) if not isinstance(item, Mark) for row in flat(item)
    ]


def items(source: Source, cursor: Any = None) -> Iterator[pa.RecordBatch | Mark]:
    return opened(source, cursor).batches


def flat(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows with their lines, which are those of a file on disk; not so the file."""
    rows = [row | {"line": row.get("line")} for row in batch.to_pylist()]
    nothing = ("value", "note", "line")
    return [
        {k: v for k, v in row.items() if k != "file" and not (k in nothing and v is None)}
        for row in rows
    ]
