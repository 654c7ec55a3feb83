"""Ingests of data sets on a hub, killed at random moments, end as if nothing had happened."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from effort import often, thorough
from hub_data import MOODS, jsonl, parquet, point_to, rows
from hub_server import Hub
from programs import python

import duckplets

KILLS = often(20, less=1)
MUCH = often(5, less=1)  # fives of rows
EARLIEST = often(0, less=30) / 100  # part of the time after which one is killed
LIST = """\
# Parquet with a column of classes, and lines of JSON
hf://org/moods/default/train anchor=question positive=answer meta=mood,tags group=key trust=0.9
hf://org/lines anchor=question context=answer id=key source_id=lines
"""
TABLES = ("sources", "records", "sections", "chunks", "splits")
TIMES = ("created_at", "updated_at", "added_at", "committed_at")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with Hub() as server:
        point_to(server, monkeypatch, tmp_path / "cache")
        shards = [
            parquet(rows(n, n), group=70, labels={"mood": MOODS})
            for n in (42 * MUCH, 7 * MUCH, 32 * MUCH)
        ]
        server.add(
            "org/moods", {f"data/train-{i}.parquet": shard for i, shard in enumerate(shards)}
        )
        server.add(
            "org/lines",
            {"a.jsonl": jsonl(rows(46 * MUCH, 7)), "b.jsonl": jsonl(rows(20 * MUCH, 8))},
        )
        (tmp_path / "sources.txt").write_text(LIST)
        yield server


class Ingesting:
    """The process that ingests; see ``hub_ingesting``."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process, self._errors = process, errors

    def run(self, corpus: Path, kill_after: float | None = None) -> tuple[bool, float]:
        """Ingest into a corpus; returns whether it was killed before its end, and the seconds."""
        started = time.monotonic()
        child = int(self._said(f"{corpus}\n"))
        if kill_after is not None:
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):  # it has come to its end
                os.kill(child, signal.SIGKILL)
        status = int(self._said())
        assert status in (0, -signal.SIGKILL), self._errors.read_text()
        return status != 0, time.monotonic() - started

    def _said(self, line: str = "") -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(line)
        self._process.stdin.flush()
        return self._process.stdout.readline() or self._errors.read_text()


@pytest.fixture
def ingesting(hub: Hub, tmp_path: Path) -> Iterator[Ingesting]:
    script, told = Path(__file__).parent.parent / "hub_ingesting.py", tmp_path / "errors.txt"
    with (
        told.open("w") as errors,
        python(script, tmp_path / "sources.txt", stdin=subprocess.PIPE, stderr=errors) as process,
    ):
        yield Ingesting(process, told)


def contents(path: Path) -> dict[str, Any]:
    """Return everything a corpus holds but the times of day."""
    found: dict[str, Any] = {}
    with duckplets.Corpus(path, read_only=True) as corpus:
        for name in (*TABLES, "corpus_versions"):
            table = corpus.sql(f"SELECT * FROM {name} ORDER BY ALL")
            kept = [c for c in table.column_names if c not in (*TIMES, "report")]
            found[name] = table.select(kept).to_pylist()
        found["listed"] = corpus.sources().to_pylist()
        found["unfinished"] = corpus.sql("SELECT * FROM unfinished_ingests").num_rows
    return found


@thorough
def test_kills_leave_no_trace(ingesting: Ingesting, tmp_path: Path) -> None:
    draw = random.Random(1)
    kills = corpora = between = 0
    whole = tmp_path / "whole.duckdb"
    _, seconds = ingesting.run(whole)
    expected = contents(whole)
    assert len(expected["records"]) > 120 * MUCH
    while kills < KILLS:
        path = tmp_path / f"killed{corpora}.duckdb"
        corpora += 1
        killed = True
        while killed:
            again = kills < KILLS
            killed, _ = ingesting.run(
                path, draw.uniform(EARLIEST, 0.5) * seconds if again else None
            )
            kills += killed
            between += killed and has_unfinished(path)
        found = contents(path)
        for name, table in expected.items():
            assert found[name] == table, f"{name}, after {kills} kills"
    print(f"{kills} kills in {corpora} ingests of {seconds:.1f} s, {between} between two marks")
    assert between >= KILLS // 4, "the kills fell into hardly any ingest"


def has_unfinished(path: Path) -> bool:
    if not path.exists():
        return False
    with duckplets.Corpus(path) as corpus:
        found = corpus.sql("SELECT cursor FROM unfinished_ingests").to_pylist()
    return any(row["cursor"] != "null" for row in found)
