"""Blocks ahead: how many, in which thread, what becomes of errors, and what is left behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpora import odd_corpus
from effort import some
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.runs.reader import BlocksAhead

pytestmark = pytest.mark.usefixtures("pools_once")


class Recorder:
    """Prepares blocks that are their own spans, and remembers what was asked of it."""

    def __init__(self, end: int = 1000, fail_at: int = -1) -> None:
        self.end = end
        self.fail_at = fail_at
        self.prepared: list[tuple[int, int]] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()

    def prepare(self, start: int, stop: int, is_stopped: Callable[[], bool]) -> Any:
        self.gate.wait(5)
        self.threads.add(threading.current_thread().name)
        self.prepared.append((start, stop))
        if start == self.fail_at:
            raise dp.StateMismatchError(f"nothing at {start}")
        return start, stop

    def follow(self, start: int) -> tuple[int, int] | None:
        return (start, min(start + 10, self.end)) if start < self.end else None


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_blocks_come_in_order_and_end(depth: int) -> None:
    record = Recorder(end=95)
    ahead = BlocksAhead(record.prepare, record.follow, depth)
    taken: list[Any] = []
    while (block := ahead.take(taken[-1][1] if taken else 0)) is not None:
        taken.append(block)
    assert taken == [(i, min(i + 10, 95)) for i in range(0, 95, 10)]
    assert record.prepared == taken
    ahead.close()
    assert all("prefetch" in name for name in record.threads) == bool(depth)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_no_more_than_depth_blocks_are_ahead(depth: int) -> None:
    record = Recorder()
    ahead = BlocksAhead(record.prepare, record.follow, depth)
    for i in range(5):
        assert ahead.take(i * 10) == (i * 10, i * 10 + 10)
        until(lambda i=i: len(record.prepared) == i + 1 + depth)
    time.sleep(0.02)
    assert len(record.prepared) == 5 + depth
    ahead.close()


def test_an_error_surfaces_where_its_block_is_asked_for() -> None:
    record = Recorder(fail_at=20)
    ahead = BlocksAhead(record.prepare, record.follow, 3)
    assert ahead.take(0) == (0, 10)
    until(lambda: len(record.prepared) >= 3)
    assert ahead.take(10) == (10, 20)
    for _ in range(2):  # asked for again, it is prepared again
        with pytest.raises(dp.StateMismatchError, match="nothing at 20"):
            ahead.take(20)
    assert record.prepared[3:] == [(20, 30)], "nothing is begun behind an error"
    assert ahead.take(30) == (30, 40)
    ahead.close()


def test_a_jump_drops_what_was_prepared() -> None:
    record = Recorder()
    ahead = BlocksAhead(record.prepare, record.follow, 2)
    assert ahead.take(0) == (0, 10)
    assert ahead.take(500) == (500, 510)
    assert ahead.take(510) == (510, 520)
    ahead.close()


def test_closing_waits_for_the_block_at_hand_only() -> None:
    record = Recorder()
    ahead = BlocksAhead(record.prepare, record.follow, 5)
    ahead.take(0)
    record.gate.clear()
    prepared = len(record.prepared)
    threading.Timer(0.05, record.gate.set).start()
    ahead.close()
    assert len(record.prepared) <= prepared + 2
    assert not [t for t in threading.enumerate() if "prefetch" in t.name]


# ---- in a sampler


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "prefetch" in thread.name]


def open_files() -> set[str]:
    folder = Path("/proc/self/fd")
    links = (folder / name for name in os.listdir(folder))
    return {os.readlink(link) for link in links if link.is_symlink() and link.exists()}


LEAVINGS: dict[str, Callable[[dp.Corpus], None]] = {
    "closed": lambda corpus: _taken(corpus).close(),
    "broken out of": lambda corpus: next((None for _ in corpus.sampler()), None),
    "dropped": lambda corpus: [_taken(corpus)].clear(),
    "run out": lambda corpus: [None for _ in corpus.sampler(epochs=1)] and None,
    "in an error": lambda corpus: _interrupted(corpus),
    "with": lambda corpus: _managed(corpus),
}


def _taken(corpus: dp.Corpus) -> dp.Sampler:
    sampler = corpus.sampler(batch_size=4)
    next(sampler)
    return sampler


def _interrupted(corpus: dp.Corpus) -> None:
    def loop() -> None:
        for _ in corpus.sampler():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()


def _managed(corpus: dp.Corpus) -> None:
    with corpus.sampler() as sampler:
        next(sampler)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("leaving", LEAVINGS, ids=str)
def test_leaving_a_run_leaves_no_thread_and_no_file(tmp_path: Path, leaving: str) -> None:
    toy_corpus(tmp_path / "c.duckdb", 60).close()
    before = sorted(path.name for path in tmp_path.iterdir())
    with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus:
        LEAVINGS[leaving](corpus)
        gc.collect()
        until(lambda: not threads())
    assert not [name for name in open_files() if name.startswith(str(tmp_path))]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("prefetch", some([0, 1, 4], less=2))
def test_batches_nobody_took_are_neither_lost_nor_counted(tmp_path: Path, prefetch: int) -> None:
    with toy_corpus(tmp_path / "c.duckdb", 80) as corpus:
        whole = corpus.sampler(batch_size=8)
        expected = [next(whole).table for _ in range(60)]
        path = tmp_path / "c.duckdb"
        corpus.sampler(batch_size=8, prefetch=prefetch).save()
    for stop in some((1, 7, 30, 59), less=3):
        with dp.resume(path) as sampler:
            while sampler.step <= stop:
                step = sampler.step
                assert next(sampler).table.equals(expected[step])
            counted = sum(v for k, v in sampler.metrics().items() if k.endswith("/samples"))
            assert counted == sampler.position == 8 * (stop + 1)
            sampler.save()


def test_waits_for_blocks_are_in_the_metrics(tmp_path: Path) -> None:
    def figures(sampler: dp.Sampler) -> tuple[float, ...]:
        names = ("blocks_ready", "waits", "seconds_waited")
        return tuple(sampler.metrics()[f"prefetch/{name}"] for name in names)

    with toy_corpus(tmp_path / "c.duckdb", 40) as corpus:
        with corpus.sampler(batch_size=64, prefetch=2) as sampler:
            assert figures(sampler) == (0, 0, 0.0)
            next(sampler)
            _, waits, seconds = figures(sampler)
            assert waits == 1
            assert seconds > 0
            until(lambda: figures(sampler)[0] == 2)  # while nobody takes a batch
            for _ in range(4):  # the rest of the first block of 256 samples, and the next one
                next(sampler)
            assert figures(sampler)[1:] == (1, seconds)
            sampler.move(640)  # what was prepared is of no use there
            assert figures(sampler)[0] == 0
            next(sampler)
            assert figures(sampler)[1] == 2
            assert figures(sampler)[2] > seconds
        with corpus.sampler(batch_size=64, prefetch=0) as sampler:
            for _ in range(5):
                next(sampler)
            assert figures(sampler)[:2] == (0, 2)  # none is ever ready


@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors_name_source_and_record(tmp_path: Path, prefetch: int) -> None:
    columns = ["anchor", "anchor_record_id"]
    with odd_corpus(tmp_path / "c.duckdb", 400, 1) as corpus:
        sampler = corpus.sampler(prefetch=prefetch, batch_size=16, columns=columns)
        next(sampler)
        corpus.chunk(dp.Chunking(max_tokens=5, overlap=(0,)))
        with pytest.raises(dp.StateMismatchError, match=r"source '.+: the \w+ of record '.+'"):
            all(next(sampler) for _ in range(500))


@pytest.mark.parametrize("more", [{}, {"world_size": 4, "rank": 1}], ids=str)
def test_weights_at_every_step_prepare_one_batch_and_begin_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    with toy_corpus(tmp_path / "c.duckdb", 400, sources=("a", "b")) as corpus:
        sampler = corpus.sampler(batch_size=8, prefetch=2, **more)
        next(sampler)
        until(lambda: len(threads()) <= 1)
        samples: list[int] = []
        fetch = sampler._reader.fetcher.fetch

        def recorded(plan: Any, *arguments: Any, **named: Any) -> Any:
            samples.append(len(plan))
            return fetch(plan, *arguments, **named)

        monkeypatch.setattr(sampler._reader.fetcher, "fetch", recorded)
        for step in range(1, 30):
            sampler.set_weights({"a": step, "b": 3})
            assert next(sampler).step == step
            if step == 1:
                until(lambda: not threads())
                samples.clear()
            assert not threads()
        assert samples == [8] * 28
        for _ in range(400):  # and without, blocks grow again
            next(sampler)
        assert samples[28:31] == [32, 128, 512]
        assert threads()
        sampler.close()


def test_weights_set_within_a_stretch_leave_what_is_prepared_before_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with toy_corpus(tmp_path / "c.duckdb", 900, sources=("a", "b")) as corpus:
        sampler = corpus.sampler(batch_size=2, prefetch=0, no_duplicates=True)
        other = corpus.sampler(batch_size=2, prefetch=0, no_duplicates=True)
        other.set_weights({"b": 9})
        assert next(sampler).step == 0
        fetched: list[Any] = []
        fetch = sampler._reader.fetcher.fetch

        def recorded(plan: Any, *arguments: Any, **named: Any) -> Any:
            fetched.append(plan.positions[0])
            return fetch(plan, *arguments, **named)

        monkeypatch.setattr(sampler._reader.fetcher, "fetch", recorded)
        before = corpus.sampler(batch_size=2, prefetch=0, no_duplicates=True)
        for step in range(1, 64):
            assert sampler.set_weights({"b": 9}) == 64
            assert next(sampler).to_pydict() == before.batch_at(step).to_pydict()
        assert fetched == []
        assert next(sampler).step == 64
        assert fetched == [128]
