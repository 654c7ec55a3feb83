"""Losses by source, reported where a SamplerDataset is saved."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from adapters.loaders import loader  # noqa: E402
from effort import some  # noqa: E402

import duckplets as dp  # noqa: E402
from duckplets.torch import SamplerDataset  # noqa: E402


@pytest.mark.parametrize("workers", some([2, 0], less=1))
def test_losses_are_saved_by_the_process_that_trains(
    corpus_path: Path, tmp_path: Path, workers: int
) -> None:
    state = tmp_path / "run.state.duckdb"
    dataset = SamplerDataset(corpus_path, batch_size=16, seed=7, state=state)
    told: list[tuple[int, str, float]] = []
    for batch in islice(loader(dataset, workers), 8):
        step, source = batch["step"], batch["source"][0]
        losses = dataset.loss_by_source(batch, torch.full((16,), 2.0 / (step + 1)))
        dataset.report_loss(losses, step=step)
        told += [(step, name.removeprefix("loss/"), loss) for name, loss in losses.items()]
        assert f"loss/{source}" in losses
        if step in (3, 7):
            dataset.save(step=step + 1)
    with dp.resume(corpus_path, state=state) as sampler:
        assert sampler.step == 8
        assert [tuple(row.values()) for row in sampler.losses().to_pylist()] == sorted(told)
    resumed = SamplerDataset.resume(corpus_path, state=state)
    (name,) = {name for _, name, _ in told if name == told[-1][1]}
    resumed.report_loss({name: 9.0}, step=8)
    resumed.save(step=9)
    with dp.resume(corpus_path, state=state) as sampler:
        rows = [tuple(row.values()) for row in sampler.losses().to_pylist()]
        assert rows == [*sorted(told), (8, name, 9.0)]
