"""What is not in memory is read ahead of the batches, and they are the same to the byte."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import cli
from hypothesis import given, settings
from hypothesis import strategies as st
from token_shards import lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.artifacts import read_ahead
from duckplets.artifacts.arrays import ArrayFile, ArrayWriter
from duckplets.artifacts.read_ahead import ReadAhead, is_cold
from duckplets.base.prefetch import StoppedError

pytestmark = pytest.mark.skipif(
    not read_ahead.CAN_ADVISE, reason="this system cannot be asked to read ahead"
)
BYTES = np.arange(300_000, dtype=np.uint32).astype(np.uint8)


def written(folder: Path, data: np.ndarray = BYTES) -> tuple[ArrayFile, int]:
    folder.mkdir(exist_ok=True)
    with ArrayWriter(folder, "texts") as writer:
        begin = writer.append(data.data)
        entry = writer.finish()
    return ArrayFile(folder, entry), begin


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArrayFile, int]:
    return written(tmp_path_factory.mktemp("read") / "ahead")


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything taken for cold: whether pages are there is the system's to say."""
    monkeypatch.setattr(read_ahead, "is_cold", lambda *_: True)


SPANS = st.lists(
    st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 20_000)), min_size=1, max_size=60
)


@settings(max_examples=60, deadline=None)
@given(SPANS)
def test_spans_are_the_bytes_of_the_file_in_the_order_asked_for(
    file: tuple[ArrayFile, int], spans: list[tuple[int, int]]
) -> None:
    of, begin = file
    starts = np.array([start for start, _ in spans], np.int64)
    lengths = np.array([min(n, len(BYTES) - start) for start, n in spans], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "is_cold", lambda *_: True)
        reads = ReadAhead()
        found = reads.spans(of, begin + starts, lengths)
        reads.touch(of, begin + starts, lengths)
    assert found is not None
    for start, size, place in zip(starts, lengths, found[1], strict=True):
        assert bytes(found[0][place : place + size]) == bytes(BYTES[start : start + size])
    assert (reads.reads, reads.bytes) == (2 * len(spans), 2 * lengths.sum())


@settings(max_examples=60, deadline=None)
@given(SPANS)
def test_every_page_is_asked_for_once_and_before_it_is_read(
    spans: list[tuple[int, int]],
) -> None:
    spans = sorted((start, max(1, size)) for start, size in spans)
    starts, lengths = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    asked: set[int] = set()
    for start, size, at, many in zip(
        starts, lengths, *read_ahead._advised(starts, lengths), strict=True
    ):
        new = {*range(at // 4096, -(-(at + many) // 4096))} if many else set()
        assert not new & (asked - {at // 4096})
        asked |= new
        assert {*range(start // 4096, (start + size - 1) // 4096 + 1)} <= asked
    wanted = {p for s, n in spans for p in range(s // 4096, (s + n - 1) // 4096 + 1)}
    assert asked == wanted, "no page is read that nobody wants"


def test_the_kernel_says_what_is_in_memory(tmp_path: Path) -> None:
    data = np.zeros(8 << 20, np.uint8)
    of, begin = written(tmp_path / "folder", data)
    starts = begin + np.arange(0, len(data) - 4096, 40_000)
    lengths = np.full_like(starts, 600)
    os.pread(of.descriptor, begin + len(data), 0)
    assert not is_cold(of, starts, lengths)
    assert ReadAhead().spans(of, starts, lengths) is None
    os.sync()
    os.posix_fadvise(of.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if not is_cold(of, starts, lengths):
        pytest.skip("this file system keeps all pages")
    reads = ReadAhead()
    reads.touch(of, starts, lengths)
    assert reads.reads == len(starts)
    assert not is_cold(of, starts, lengths), "what was touched is there"


def test_where_the_kernel_does_not_say_reads_are_timed(
    file: tuple[ArrayFile, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    of, begin = file
    starts, lengths = begin + np.arange(0, 200_000, 1000), np.full(200, 100)
    read, delay = os.preadv, [0.0]

    def refusing(number: int, buffers: Any, at: int, flags: int = 0) -> int:
        if flags:
            raise OSError(95, "Operation not supported")
        if delay[0]:
            time.sleep(delay[0])
        return read(number, buffers, at)

    monkeypatch.setattr(os, "preadv", refusing)
    assert not is_cold(of, starts, lengths)
    delay[0] = 0.002
    assert is_cold(of, starts, lengths)


def test_an_error_of_the_disk_while_it_is_asked_is_a_damaged_file(
    file: tuple[ArrayFile, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    of, begin = file
    where = begin + np.array([0, 5]), np.array([5, 5])
    monkeypatch.setattr(os, "preadv", failing(OSError(5, "Input/output error")))
    for at_once in (read_ahead._AT_ONCE, None):  # and where the kernel does not say
        monkeypatch.setattr(read_ahead, "_AT_ONCE", at_once)
        with pytest.raises(dp.DamagedFileError, match="Input/output error"):
            is_cold(of, *where)


@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_what_lies_ready_is_bounded(snapshot_corpus: Path, prefetch: int) -> None:
    with (
        dp.Corpus(snapshot_corpus, read_only=True) as corpus,
        corpus.sampler(batch_size=16, memory_mb=1, prefetch=prefetch) as sampler,
    ):
        largest = 0
        for _ in range(400):
            next(sampler)
            blocks = [sampler._reader._block, *sampler._reader._blocks.waiting]
            largest = max(largest, sum(block.read_bytes for block in blocks if block))
        assert (1 << 20) // 8 < largest <= 1 << 20


@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize("how", ["shorter", "unreadable"])
def test_a_file_that_fails_meanwhile_is_damaged(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, begin = written(tmp_path / "folder")
    if how == "shorter":
        os.truncate(of.path, begin + 100)
    else:
        monkeypatch.setattr(os, "preadv", failing(OSError(5, "Input/output error")))
    what = {"shorter": "shorter than it was", "unreadable": "Input/output error"}[how]
    with pytest.raises(dp.DamagedFileError, match=f"{of.path.name}: .*{what}"):
        ReadAhead().spans(of, begin + np.array([0, 50_000]), np.array([100, 100]))


def failing(error: Exception) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise error

    return fail


@pytest.mark.usefixtures("cold")
def test_a_read_that_nobody_wants_ends(file: tuple[ArrayFile, int]) -> None:
    of, begin = file
    asked = []

    def is_stopped() -> bool:
        asked.append(True)
        return len(asked) > 2

    starts = begin + np.arange(5000)
    with pytest.raises(StoppedError):
        ReadAhead().spans(of, starts, np.full(5000, 10), is_stopped)
    assert len(asked) == 3


# -- runs ------------------------------------------------------------------------------------------

RUNS: dict[str, dict[str, Any]] = {
    "triplets": {"negatives": 2, "prefetch": 3},
    "pairs": {"kind": "pairs"},
    "texts": {"kind": "texts"},
    "no_duplicates": {"no_duplicates": True, "prefetch": 3},
    "in memory_mb": {"memory_mb": 1, "prefetch": 1},
    "one at a time": {"prefetch": 0},
    "one of two": {"world_size": 2, "rank": 1},
}


@pytest.fixture(scope="session")
def snapshot_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("read_ahead") / "corpus.duckdb"
    rows = pa.table(
        {
            "id": [f"r{i}" for i in range(600)],
            "title": [f"title {i} " * 3 for i in range(600)],
            "body": [f"body {i}, and more of it. " * 40 for i in range(600)],
        }
    )
    with dp.Corpus(path) as corpus:
        corpus.ingest(dp.MemorySource(rows, anchor="title", positive="body", id="id"), name="s")
        corpus.split()
        corpus.prepare()
    return path


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_the_same_with_what_is_read_ahead(
    name: str, snapshot_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def batches() -> tuple[list[Any], dict[str, float]]:
        with (
            dp.Corpus(snapshot_corpus, read_only=True) as corpus,
            corpus.sampler(batch_size=16, columns=None, **RUNS[name]) as sampler,
        ):
            return [next(sampler).to_pydict() for _ in range(60)], sampler.metrics()

    expected, before = batches()
    monkeypatch.setattr(read_ahead, "is_cold", lambda *_: True)
    found, metrics = batches()
    assert found == expected
    assert not any(key.startswith("read_ahead/") for key in before)
    assert metrics["read_ahead/reads"] >= 60 * 16
    assert metrics["read_ahead/bytes_dropped"] == 0


@pytest.mark.usefixtures("cold")
def test_what_a_jump_makes_useless_is_counted(snapshot_corpus: Path) -> None:
    with (
        dp.Corpus(snapshot_corpus, read_only=True) as corpus,
        corpus.sampler(batch_size=16, prefetch=3) as sampler,
    ):
        start = sampler.state_dict()
        next(sampler)
        deadline = time.monotonic() + 20
        while sampler.metrics()["prefetch/blocks_ready"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sampler.metrics()["read_ahead/bytes_dropped"] == 0
        sampler.load_state_dict(start)
        next(sampler)
        metrics = sampler.metrics()
        assert 0 < metrics["read_ahead/bytes_dropped"] < metrics["read_ahead/bytes"]


@pytest.mark.usefixtures("cold")
def test_a_snapshot_that_fails_meanwhile_is_told_at_the_batch_that_needs_it(
    snapshot_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        dp.Corpus(snapshot_corpus, read_only=True) as corpus,
        corpus.sampler(batch_size=16, prefetch=1) as sampler,
    ):
        next(sampler)
        monkeypatch.setattr(os, "preadv", failing(OSError(5, "Input/output error")))
        with pytest.raises(dp.DamagedFileError, match="Input/output error"):
            list(islice(sampler, 400))


@pytest.mark.usefixtures("cold")
def test_closing_does_not_wait_for_what_is_being_read(
    snapshot_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, read = threading.Event(), os.preadv

    def slow(*args: Any) -> int:
        if threading.current_thread() is not threading.main_thread():
            reading.set()
            time.sleep(0.001)
        return read(*args)

    with dp.Corpus(snapshot_corpus, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=256, prefetch=3)
        monkeypatch.setattr(os, "preadv", slow)
        next(sampler)
        assert reading.wait(20)
        begun = time.monotonic()
        sampler.close()
        assert time.monotonic() - begun < 2, "the block at hand has thousands of reads"


def test_records_are_the_same(snapshot_corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def records() -> list[Any]:
        with dp.Corpus(snapshot_corpus, read_only=True) as corpus:
            order = dp.IndexSampler(600, shuffle=True, num_epochs=1, seed=3)
            batches = corpus.read(order, batch_size=50, columns=["record_id", "text", "anchor"])
            return [batch.to_pydict() for batch in batches]

    expected = records()
    asked = []
    monkeypatch.setattr(read_ahead, "is_cold", lambda *_: not asked.append(True))
    assert records() == expected
    assert asked


@pytest.mark.parametrize("pack", [False, True])
def test_rows_of_tokens_are_the_same(
    pack: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_shards(tmp_path / "shards", {"train": {"a": numbered(lengths_of(200, 1))}})

    def rows() -> tuple[list[Any], dict[str, float]]:
        with (
            dp.TokenShards(folder) as shards,
            shards.sampler(seq_length=24, pack=pack, memory_mb=1, epochs=2) as sampler,
        ):
            return [batch["input_ids"].tolist() for batch in sampler], sampler.metrics()

    expected, _ = rows()
    monkeypatch.setattr(read_ahead, "is_cold", lambda *_: True)
    found, metrics = rows()
    assert found == expected
    assert metrics["read_ahead/reads"] > 0


# -- what is said before training ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "rate", "said"),
    [
        (None, None, "not known"),
        (1 << 40, None, "it fits into the"),
        (1, 7000, r"does not fit .*: texts are read ahead, [\d,]+ a second .* triplets"),
        (1, None, "does not fit .* cannot be asked to read ahead"),
    ],
)
def test_prepare_and_status_say_whether_a_snapshot_fits(
    room: int | None,
    rate: int | None,
    said: str,
    snapshot_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duckplets.base.memory.available", lambda: room)
    monkeypatch.setattr(read_ahead, "CAN_ADVISE", rate is not None)
    monkeypatch.setattr(read_ahead, "is_cold", lambda *_: True)
    for command in ("status", "prepare"):
        found = cli(command, snapshot_corpus)
        assert re.search(said, found.output.replace("\n", " ")), command
