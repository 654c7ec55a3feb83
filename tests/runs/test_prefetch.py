"""Blocks ahead: how many, in which thread, what becomes of errors, and what is left behind."""

import gc
import os
import threading
import time
from pathlib import Path

import pytest
from effort import often, some
from prebuilt import toy_corpus

import duckplets as dp

LAST = often(59, less=35)  # step


def until(true):
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def threads():
    return [thread.name for thread in threading.enumerate() if "prefetch" in thread.name]


def open_files():
    folder = Path("/proc/self/fd")
    links = (folder / name for name in os.listdir(folder))
    return {os.readlink(link) for link in links if link.is_symlink() and link.exists()}


LEAVINGS = {
    "closed": lambda corpus: _taken(corpus).close(),
    "broken out of": lambda corpus: next((None for _ in corpus.sampler()), None),
    "dropped": lambda corpus: [_taken(corpus)].clear(),
    "run out": lambda corpus: [None for _ in corpus.sampler(epochs=1)],
    "in an error": lambda corpus: _interrupted(corpus),
}


def _taken(corpus):
    sampler = corpus.sampler(batch_size=4)
    next(sampler)
    return sampler


def _interrupted(corpus):
    def loop():
        for _ in corpus.sampler():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_leaving_a_run_leaves_no_thread_and_no_file(tmp_path):
    toy_corpus(tmp_path / "c.duckdb", 60).close()
    before = sorted(path.name for path in tmp_path.iterdir())
    for leaving in LEAVINGS.values():
        with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus:
            leaving(corpus)
            gc.collect()
            until(lambda: not threads())
        assert not [name for name in open_files() if name.startswith(str(tmp_path))]
        assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("prefetch", some([4, 0, 1], less=1))
def test_batches_nobody_took_are_neither_lost_nor_counted(tmp_path, prefetch):
    with toy_corpus(tmp_path / "c.duckdb", 80) as corpus:
        whole = corpus.sampler(batch_size=8)
        expected = [next(whole).table for _ in range(LAST + 1)]
        path = tmp_path / "c.duckdb"
        corpus.sampler(batch_size=8, options=dp.Options(prefetch=prefetch)).save()
    for stop in sorted(some((7, 1, 30, LAST), less=2)):
        with dp.resume(path) as sampler:
            while sampler.step <= stop:
                step = sampler.step
                assert next(sampler).table.equals(expected[step])
            counted = sum(v for k, v in sampler.metrics().items() if k.endswith("/samples"))
            assert counted == sampler.position == 8 * (stop + 1)
            sampler.save()


def test_waits_for_blocks_are_in_the_metrics(tmp_path):
    def figures(sampler):
        names = ("blocks_ready", "waits", "seconds_waited")
        return tuple(sampler.metrics()[f"prefetch/{name}"] for name in names)

    with toy_corpus(tmp_path / "c.duckdb", 40) as corpus:
        with corpus.sampler(batch_size=64, options=dp.Options(prefetch=2)) as sampler:
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
        with corpus.sampler(batch_size=64, options=dp.Options(prefetch=0)) as sampler:
            for _ in range(5):
                next(sampler)
            assert figures(sampler)[:2] == (0, 2)  # none is ever ready
