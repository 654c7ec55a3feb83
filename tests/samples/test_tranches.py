"""Batches as slices of tranches: what is gathered and when, what a kept batch holds, damage."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from effort import some
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.samples.batch import Batch, Block, SlotTexts
from duckplets.samples.fetch import Fetcher

pytestmark = pytest.mark.usefixtures("pools_once")

SIZE = 20_000


class Recorder:
    """Texts that remember what was taken of them."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        self.taken: list[int] = []

    @property
    def nbytes(self) -> int:
        return int(self.texts.nbytes)

    def take(self, places: Any) -> pa.Array:
        self.taken.append(len(places))
        return self.texts.take(places)


def block(texts: Any, samples: int = SIZE) -> Block:
    draw = np.random.default_rng(samples)
    places = {n: draw.integers(0, 1000, samples) for n in ("anchor", "positive")}
    meta = pa.array([[(str(i), "x")] for i in range(samples)], pa.map_(pa.string(), pa.string()))
    columns: dict[str, Any] = {name: SlotTexts(texts, of) for name, of in places.items()}
    columns |= {"weight": pa.array(np.arange(samples) / 8), "anchor_meta": meta}
    return Block(0, samples, samples, columns, texts.nbytes)


def sliced(of: Block, size: int) -> list[Batch]:
    batches, tranche = [], None
    for low in range(0, of.size, size):
        if tranche is None or not tranche.is_of(of, low):
            tranche = of.tranche(low, size)
        high = min(low + size, of.size)
        batches.append(tranche.batch(low, high, position=low, step=low // size, sources=()))
    return batches


TEXTS = pa.array([f"text {i} ünd" for i in range(1000)])


@pytest.mark.parametrize("size", some([1, 7, 32, 4095, 4097, 30_000], less=3))
def test_a_batch_is_its_samples_however_many_are_gathered_at_once(size: int) -> None:
    of = block(Recorder(TEXTS), SIZE if size > 5 else 300)
    whole = {n: c if isinstance(c, pa.Array) else c.take(0, of.size) for n, c in of.columns.items()}
    expected = pa.table(whole)
    low = 0
    for batch in sliced(of, size):
        part = expected.slice(low, len(batch))
        assert batch.table.equals(part)
        assert batch.to_pydict() == part.to_pydict()
        if size > 1000 or low < 100:
            assert batch.to_pylist() == list(batch) == part.to_pylist()
            assert batch[0] == part.slice(0, 1).to_pylist()[0]
            assert batch[1:4] == part.to_pylist()[1:4]
        low += len(batch)
    assert low == of.size


def test_lists_are_fresh_and_so_is_what_is_in_them() -> None:
    batch, other = sliced(block(TEXTS), 64)[3:5]
    expected = batch.to_pydict()
    following = other.to_pydict()
    for name in batch.keys():  # noqa: SIM118 # a batch's own
        found = batch[name]
        if name == "anchor_meta":
            found[0].append(("more", "y"))
        found[1] = None
        batch.to_pydict()[name].clear()
    assert batch.to_pydict() == expected
    assert other.to_pydict() == following


@pytest.mark.parametrize(
    "made", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy, copy.copy]
)
def test_another_process_gets_the_samples_of_one_batch(made: Any) -> None:
    batch = sliced(block(TEXTS), 16)[2]
    batch["anchor"]
    again = made(batch)
    assert again.table.equals(batch.table)
    assert again.table.schema == batch.table.schema
    assert (again.step, again.position, again.sources) == (2, 32, ())
    assert again.to_pylist() == batch.to_pylist()
    assert len(pickle.dumps(batch)) < 6000


def test_damaged_texts_are_an_error_that_says_what_to_do() -> None:
    buffers = [None, pa.py_buffer(np.arange(1001, dtype=np.int32)), pa.py_buffer(b"\xff" * 1000)]
    batch = sliced(block(pa.Array.from_buffers(pa.string(), 1000, buffers), 100), 8)[0]
    for use in (
        *(lambda: batch["anchor"], lambda: batch[0], lambda: batch[:2], batch.to_pylist),
        *(batch.to_pydict, lambda: list(batch), lambda: repr(batch)),
    ):
        with pytest.raises(dp.DamagedFileError, match=r"column 'anchor'.*duckplets doctor"):
            use()
    assert batch["weight"] == [i / 8 for i in range(8)]


def test_a_batch_that_is_kept_holds_its_tranche_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[Any] = []
    fetch = Fetcher.fetch

    def recorded(self: Fetcher, *arguments: Any, **named: Any) -> Block:
        of = fetch(self, *arguments, **named)
        slots = {n: c for n, c in of.columns.items() if isinstance(c, SlotTexts)}
        held = Recorder(slots["anchor"].texts)  # of all slots
        fetched.append((weakref.ref(held), held.taken))
        lazy = {name: SlotTexts(held, slot.places) for name, slot in slots.items()}
        return replace(of, columns={**of.columns, **lazy})

    monkeypatch.setattr(Fetcher, "fetch", recorded)
    with toy_corpus(tmp_path / "c.duckdb", 200) as corpus:
        sampler = corpus.sampler(batch_size=64, prefetch=0)
        kept = next(sampler)
        expected = corpus.sampler(batch_size=64).batch_at(0).to_pylist()
        del fetched[1:]
        for _ in range(4):  # the first block has four batches
            batch = next(sampler)
        assert fetched[0][1] == [], "somebody may still ask"
        batch = next(sampler)
        gc.collect()
        assert fetched[0][0]() is None
        assert kept.to_pylist() == expected
        for batch in islice(sampler, 40):
            assert len(batch) == 64
        taken = [len(of) for _, of in fetched[1:]]
        assert taken == [0] * len(taken), "nobody asked"
        sampler.close()
        assert batch.step == 45
        assert len(batch["anchor"]) == 64
