"""What is not in memory is read ahead of the batches, and they are the same to the byte."""

from __future__ import annotations

import os
import re
import threading
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from effort import often, some
from token_shards import lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.artifacts import read_ahead
from duckplets.serving import snapshot

pytestmark = pytest.mark.skipif(
    not read_ahead.CAN_ADVISE, reason="this system cannot be asked to read ahead"
)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything taken for cold: whether pages are there is the system's to say."""
    monkeypatch.setattr(read_ahead, "cold_share", lambda *_: 1.0)


@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize("prefetch", some([3, 0, 1], less=1))
def test_what_lies_ready_is_bounded(snapshot_corpus: Path, prefetch: int) -> None:
    with (
        dp.Corpus(snapshot_corpus, read_only=True) as corpus,
        corpus.sampler(
            batch_size=16, options=dp.Options(memory_mb=1, prefetch=prefetch)
        ) as sampler,
    ):
        largest = 0
        for _ in range(400):
            next(sampler)
            blocks = [sampler.reader._block, *sampler.reader._blocks.waiting]
            largest = max(largest, sum(block.read_bytes for block in blocks if block))
        assert (1 << 20) // 8 < largest <= 1 << 20


def failing(*_: object) -> int:
    raise OSError(5, "Input/output error")


BATCHES = often(60, less=20)
RUNS: dict[str, dict[str, Any]] = {
    "triplets": {"negatives": 2, "options": dp.Options(prefetch=3)},
    "pairs": {"kind": "labelled_pairs"},
    "texts": {"kind": "texts"},
    "messages": {"kind": "messages"},
    "no_duplicates": {"no_duplicates": True, "options": dp.Options(prefetch=3)},
    "in memory_mb": {"options": dp.Options(memory_mb=1, prefetch=1)},
}


@pytest.fixture(scope="session")
def snapshot_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("read_ahead") / "corpus.duckdb"
    rows = [
        {"id": f"r{i}", "title": f"title {i} " * 3, "body": f"body {i}, and more of it. " * 40}
        for i in range(600)
    ]
    talk = [(f"c{i}", f"question {i}? " * 9, f"answer {i}. " * 90) for i in range(200)]
    chats = [
        {"id": c, "messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}
        for c, q, a in talk
    ]
    with dp.Corpus(path) as corpus:
        corpus.ingest(
            dp.sources.MemorySource(rows, anchor="title", positive="body", id="id"), name="s"
        )
        corpus.ingest(dp.sources.MemorySource(chats, converter="openai", id="id"), name="chats")
        corpus.set_prefix("s", "source")
        corpus.split()
        corpus.prepare()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot, "LARGE", 0)
            corpus.sampler("messages").close()  # lays them down, as a large corpus does
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
            return [next(sampler).to_pydict() for _ in range(BATCHES)], sampler.metrics()

    expected, before = batches()
    monkeypatch.setattr(read_ahead, "cold_share", lambda *_: 1.0)
    found, metrics = batches()
    assert found == expected
    assert not any(key.startswith("read_ahead/") for key in before)
    assert metrics["read_ahead/reads"] >= BATCHES * 16
    assert metrics["read_ahead/bytes_dropped"] == 0


@pytest.mark.usefixtures("cold")
def test_what_a_jump_makes_useless_is_counted(snapshot_corpus: Path) -> None:
    with (
        dp.Corpus(snapshot_corpus, read_only=True) as corpus,
        corpus.sampler(batch_size=16, options=dp.Options(prefetch=3)) as sampler,
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
        corpus.sampler(batch_size=16, options=dp.Options(prefetch=1)) as sampler,
    ):
        next(sampler)
        monkeypatch.setattr(os, "preadv", failing)
        with pytest.raises(dp.errors.DamagedFileError, match="Input/output error"):
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
        sampler = corpus.sampler(batch_size=256, options=dp.Options(prefetch=3))
        monkeypatch.setattr(os, "preadv", slow)
        next(sampler)
        assert reading.wait(20)
        begun = time.monotonic()
        sampler.close()
        assert time.monotonic() - begun < 2, "the block at hand has thousands of reads"


def test_records_and_rows_of_tokens_are_the_same(
    snapshot_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_shards(tmp_path / "shards", {"train": {"a": numbered(lengths_of(200, 1))}})
    how: dict[str, Any] = {"seq_length": 24, "epochs": 2, "memory_mb": 1}

    def records() -> list[Any]:
        with dp.Corpus(snapshot_corpus, read_only=True) as corpus:
            order = dp.index.IndexSampler(600, shuffle=True, num_epochs=1, seed=3)
            batches = corpus.read(order, batch_size=50, columns=["record_id", "text", "anchor"])
            return [batch.to_pydict() for batch in batches]

    def rows(pack: bool) -> tuple[list[Any], dict[str, float]]:
        with dp.TokenShards(folder) as shards, shards.sampler(pack=pack, **how) as sampler:
            return [batch["input_ids"].tolist() for batch in sampler], sampler.metrics()

    expected, packed, single = records(), rows(True)[0], rows(False)[0]
    asked = []
    monkeypatch.setattr(read_ahead, "cold_share", lambda *_: asked.append(1.0) or 1.0)
    assert records() == expected
    assert asked
    for pack, wanted in ((True, packed), (False, single)):
        found, metrics = rows(pack)
        assert found == wanted
        assert metrics["read_ahead/reads"] > 0


FITS: list[tuple[int | None, int | None, str]] = [
    (None, None, "not known"),
    (1 << 40, None, "it fits into the"),
    (1, 7000, r"does not fit .*: texts are read ahead, [\d,]+ a second .* triplets"),
    (1, None, "does not fit .* cannot be asked to read ahead"),
]


def test_prepare_and_status_say_whether_a_snapshot_fits(
    snapshot_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "cold_share", lambda *_: 1.0)
    for command, (room, rate, said) in zip(cycle(["status", "prepare"]), FITS, strict=False):
        monkeypatch.setattr("duckplets.base.memory.available", lambda room=room: room)
        monkeypatch.setattr(read_ahead, "CAN_ADVISE", rate is not None)
        found = cli(command, snapshot_corpus)
        assert re.search(said, found.output.replace("\n", " ")), command
