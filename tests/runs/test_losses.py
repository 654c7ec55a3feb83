"""Losses that a loop reports: checked, saved with the run, exact wherever it is resumed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from effort import often
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.runs.state import reset

Rows = dict[tuple[int, str], float]
SOURCES = ("a", "b", "c")
TEXTS: dict[str, Any] = {"kind": "texts", "batch_size": 4, "seed": 7}


@pytest.fixture
def corpus(tmp_path: Path, pools_once: None) -> Iterator[dp.Corpus]:
    with toy_corpus(tmp_path / "toy.duckdb", 12, sources=SOURCES) as opened:
        yield opened


def rows(sampler: dp.Sampler) -> Rows:
    table = sampler.losses()
    found = {(row["step"], row["source"]): row["loss"] for row in table.to_pylist()}
    assert len(found) == table.num_rows, "one a step and source"
    assert list(found) == sorted(found)
    return found


def stored(path: Path, run: str = "default") -> Rows:
    with duckdb.connect(path, read_only=True) as state:
        found = state.execute(
            "SELECT step, source, loss FROM losses WHERE run = $run", {"run": run}
        ).fetchall()
    assert len({row[:2] for row in found}) == len(found)
    return {(step, source): loss for step, source, loss in found}


def test_losses_are_of_the_batch_taken_last_and_saved_with_it(corpus: dp.Corpus) -> None:
    sampler = corpus.sampler(**TEXTS)
    with pytest.raises(dp.SamplerError, match="no batch was taken yet"):
        sampler.report_loss({"a": 1.0})
    for batch in islice(sampler, 3):
        sampler.report_loss({"a": np.float32(batch.step), "b": 0.1})
        sampler.report_loss(sampler.loss_by_source(batch, [2.0] * 4))  # of some source, or of all
    sampler.report_loss({"c": 5}, step=0)
    told = rows(sampler)
    assert told[0, "c"] == 5.0
    assert {step for step, _ in told} == {0, 1, 2}
    for losses in WRONG:
        with pytest.raises(dp.SamplerError, match="report_loss"):
            sampler.report_loss(losses)
    for step in (-1, 3, 1.5):
        with pytest.raises(dp.SamplerError, match="step="):
            sampler.report_loss({"a": 1.0}, step=step)  # type: ignore[arg-type]
    assert rows(sampler) == told
    path = sampler.save()
    assert stored(path) == told
    sampler.report_loss({"a": 7.0})  # after the save, of a step before it
    sampler.save()
    assert stored(path) == told | {(2, "a"): 7.0}
    assert rows(corpus.resume()) == stored(path)


WRONG: list[Any] = [
    *({"nothing": 1.0}, {"a": math.nan}, {"a": math.inf}, {"a": "1"}, {"a": None}),
    *({"a": True}, [1.0], {1: 1.0}, {"a": 10**400}, {"b": 1.0, "loss/x": 2.0}),
]


def test_losses_are_exact_wherever_a_run_is_resumed(corpus: dp.Corpus) -> None:
    """Whatever is saved and resumed, in whatever order: the last pass over a step counts.

    What a file is to hold is told by plain dictionaries here: what the run knew when it saved, and
    of farther checkpoints what was there.
    """
    draw = random.Random(5)
    path = corpus.path.with_name("toy.state.duckdb")
    for case in range(often(12, less=2)):
        run, known, held, cursors = f"r{case}", Rows(), Rows(), dict[str | None, int]()
        sampler, passes = corpus.sampler(**TEXTS, run=run), 0
        for _ in range(14):
            what = draw.choice(["take", "take", "take", "save", "tag", "resume", "back"])
            if what == "take":
                for batch in islice(sampler, draw.randint(1, 6)):
                    told = dict.fromkeys(draw.sample(SOURCES, 2), passes + batch.step / 8)
                    if draw.random() < 0.7:
                        sampler.report_loss(told)
                        known |= {(batch.step, name): loss for name, loss in told.items()}
            elif what in ("save", "tag"):
                tag = None if what == "save" else f"t{len(cursors)}"
                sampler.save(tag)
                cursors[tag] = sampler.step
                farther = {k: v for k, v in held.items() if sampler.step <= k[0]}
                held = {k: v for k, v in known.items() if k[0] < sampler.step}
                held |= {k: v for k, v in farther.items() if k[0] <= max(cursors.values())}
                assert stored(path, run) == held
            elif what == "resume" and cursors:
                sampler.close()
                tag = draw.choice(list(cursors))
                sampler, passes = corpus.resume(run, tag), passes + 1
                known = {k: v for k, v in held.items() if k[0] < sampler.step}
            elif what == "back":  # in the same sampler: what it goes through anew is replaced
                sampler.move(4 * draw.randint(0, sampler.step))
                passes += 1
            expected = {k: v for k, v in known.items() if k[0] < sampler.step}
            assert rows(sampler) == expected
        sampler.close()


def test_every_file_of_a_run_has_its_losses(corpus: dp.Corpus, tmp_path: Path) -> None:
    sampler = corpus.sampler(**TEXTS)
    for batch in islice(sampler, 4):
        sampler.report_loss({"a": batch.step})
    before, state = stored(sampler.save()), sampler.state_dict()
    next(sampler)
    sampler.report_loss({"b": 1.0})
    copy = sampler.save(path=tmp_path / "checkpoint" / "sampler.state.duckdb", step=4)
    assert len(stored(copy)) == 4  # of the step after it nothing yet
    other = corpus.sampler(**TEXTS)  # as a trainer does that keeps states in its own checkpoints
    other.load_state_dict(state)
    next(other)
    other.report_loss({"b": 50.0})
    assert stored(other.save()) == before | {(4, "b"): 50.0}
    with corpus.resume(state=copy, save_to=tmp_path / "new.state.duckdb") as resumed:
        next(resumed)
        resumed.report_loss({"c": 2.0})
        assert len(stored(resumed.save())) == 5


def test_a_run_that_is_forgotten_leaves_no_losses(corpus: dp.Corpus) -> None:
    sampler = corpus.sampler(**TEXTS)
    for tag in ("one", "two"):
        for batch in islice(sampler, 3):
            sampler.report_loss({"a": batch.step})
        path = sampler.save(tag)
    reset(path, "default", after=3)
    assert max(stored(path))[0] <= 3
    reset(path, "default")
    assert stored(path) == {}
