"""Faults that were found in another sampler of triplets by running it, and that ours must not have.

Each is a property over several sizes and seeds: of weights, resuming, ids, caches, negatives,
splits and small corpora.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from effort import often, some
from hub_data import jsonl, point_to
from hub_server import Hub
from prebuilt import prebuilt

import duckplets as dp
from duckplets.db.database import Database
from duckplets.ingest import ingest
from duckplets.runs import reader as blocks
from duckplets.sources import row_batches
from duckplets.sources.remote.hub import HubSource
from duckplets.sources.rows import Mark
from duckplets.testing import assert_resumes_everywhere

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture
def reader() -> Iterator[Database]:
    database = Database.reader()
    yield database
    database.close()


# ---- weights


# ---- no row is lost

AROUND = [*(2**k + 1 for k in range(11)), 4097, 10_000]


def test_every_number_is_read_once_with_a_cursor_saved_after_every_page() -> None:
    for n in some(AROUND[: often(len(AROUND), less=10)], less=4):
        draw = random.Random(n)
        seen: list[int] = []
        cursor: Any = None
        while cursor is None or cursor["done"] < n:
            source = dp.IndexedSource(name="n", get=lambda i: i, size=n, seed=n)
            with closing(source._batches(n)(cursor)) as pages:
                taken = list(islice(pages, draw.randint(1, 9)))
            seen += [number for numbers, _ in taken for number in numbers]
            cursor = json.loads(json.dumps(taken[-1][1]))
        assert sorted(seen) == list(range(n))


class Pages:
    """Rows in pages, of which one fails now and then."""

    name = "pages"

    def __init__(self, rows: int, page: int, fails: bool) -> None:
        self.rows, self.page, self.fails = rows, page, fails

    def batches(self, cursor: Any) -> Iterator[tuple[Any, Any]]:
        for start in range(cursor or 0, self.rows, self.page):
            stop = min(start + self.page, self.rows)
            yield [{"id": f"r{i}", "text": f"text {i}"} for i in range(start, stop)], stop
            if self.fails and stop < self.rows:
                raise ConnectionError("the page after it is not there")


@pytest.mark.parametrize("rows", some([9, 17, 33, 65], less=1))
def test_an_ingest_that_stops_after_every_page_loses_no_row(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_batches, "MAX_ROWS", 1)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 1)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)
    failures = 0
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        while not corpus.count():
            try:
                corpus.ingest(Pages(rows, rows // 4, fails=True), progress=False)
            except dp.SourceError:
                failures += 1
        ids = corpus.sql("SELECT record_id FROM records")["record_id"].to_pylist()
    assert failures >= 3
    assert sorted(ids) == sorted(f"pages/r{i}" for i in range(rows))


def test_pages_of_the_hub_are_read_once_from_every_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_ROWS", "_CHUNK_ROWS"):
        monkeypatch.setattr(row_batches, name, 16)
    with Hub() as hub:
        point_to(hub, monkeypatch, tmp_path / "cache")
        for n in some([17, 33, 65, 129], less=1):
            rows = [{"key": f"k{i}", "question": f"question {i}"} for i in range(n)]
            hub.add(
                f"org/data{n}", {"a.jsonl": jsonl(rows[: n // 2]), "b.jsonl": jsonl(rows[n // 2 :])}
            )
            source = HubSource(f"hf://org/data{n} text=question id=key")
            seen: list[str] = []
            cursor: Any = None
            while True:
                batches, mark = until_mark(source, cursor)
                seen += [row["key"] for batch in batches for row in batch.to_pylist()]
                if mark is None:
                    break
                cursor = json.loads(json.dumps(mark.cursor))
            assert seen == [row["key"] for row in rows]


def until_mark(source: HubSource, cursor: Any) -> tuple[list[pa.RecordBatch], Mark | None]:
    reader = Database.reader()
    try:
        rows = source.open(reader, cursor)
        found: list[pa.RecordBatch] = []
        for item in rows.batches:
            if isinstance(item, Mark):
                return found, item
            found.append(item)
        return found, None
    finally:
        reader.close()


# ---- ids and splits are of the record, not of its place


def test_a_file_that_sorts_first_changes_no_id_and_no_split(tmp_path: Path) -> None:
    folder, tables = tmp_path / "texts", tmp_path / "tables"
    folder.mkdir()
    tables.mkdir()
    for i in range(40):
        (folder / f"m{i:02}.txt").write_text(f"text {i}")
    (tables / "m.csv").write_text("text\n" + "".join(f"row {i}\n" for i in range(60)))
    sources = {
        "folder": dp.TextFileSource(folder),
        "table": dp.CsvSource(f"{tables}/*.csv", text="text"),
    }
    splits = "SELECT record_id, split FROM live_records ORDER BY ALL"
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.split(train=0.5, validation=0.3, test=0.2, seed=3)
        for name, source in sources.items():
            corpus.ingest(source, name=name, progress=False)
        before = corpus.sql(splits).to_pylist()
        (folder / "a.txt").write_text("a text")
        (tables / "a.csv").write_text("text\n" + "".join(f"new {i}\n" for i in range(7)))
        added = [corpus.ingest(s, name=n, progress=False).added for n, s in sources.items()]
        after = corpus.sql(splits).to_pylist()
    assert added == [1, 7]
    assert len(before) == 100
    assert len({row["record_id"] for row in after}) == len(after) == 108
    assert [row for row in after if row in before] == before


# ---- nothing is remembered by its path alone


# ---- resuming


@prebuilt
def long_corpus(path: Path, records: int, seed: int) -> dp.Corpus:
    """Make a corpus with conversations, and texts of several windows."""
    draw = random.Random(seed)
    rows = [
        {
            "id": f"r{i}",
            "instruction": f"question {i} of {draw.random()}",
            "output": " ".join(f"w{draw.randrange(99)}" for _ in range(draw.randint(3, 30))),
        }
        for i in range(records)
    ]
    corpus = dp.Corpus(path)
    corpus.chunk(dp.Chunking(max_tokens=12, overlap=(2,), summary_tokens=5))
    corpus.ingest(dp.MemorySource(rows, converter="alpaca", id="id"), name="s", progress=False)
    corpus.split(0.8, 0.1, 0.1, seed)
    return corpus


KINDS = ["triplets", "pairs", "texts", "messages"]


@pytest.mark.parametrize("kind", some(KINDS, less=2))
def test_resuming_goes_on_while_the_corpus_is_larger_than_any_buffer(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = blocks.BlockMaker.follow

    def short(self: Any, start: int) -> tuple[int, int] | None:
        self._target = 16  # samples, instead of thousands
        return follow(self, start)

    monkeypatch.setattr(blocks.BlockMaker, "follow", short)
    path = tmp_path / "c.duckdb"
    for seed in range(often(3, less=1)):
        path.unlink(missing_ok=True)
        with long_corpus(path, 80, seed) as corpus:
            sampler = corpus.sampler(kind, batch_size=10, seed=seed, run=f"run {seed}")
            for _ in range(5):
                next(sampler)
            sampler.save()
            expected = [next(sampler).table for _ in range(6)]
        with dp.resume(path, f"run {seed}") as sampler:
            assert [next(sampler).table for _ in range(6)] == expected
            sampler.move(0)
            assert_resumes_everywhere(sampler, often(20, less=3))


# ---- small corpora


# ---- splits


# ---- negatives
