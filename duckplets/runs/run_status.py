"""Tell where a run stood at a save, from its state file alone: nothing is drawn, no pool is read.

    Run, Cursor, times of saves ─schedule→ Standing

Samples of sources follow from the position in closed form; tokens were counted by the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from duckplets.order.schedule import Schedule
    from duckplets.runs.state import Save as Saved

Save = tuple[datetime, int]  # when, and the step it is to go on with


@dataclass(frozen=True, kw_only=True, slots=True)
class OfSource:
    """What a run has drawn of a source.

    Attributes:
        name: Its name.
        samples: Up to the position, by all ranks.
        share: Of all samples.
        declared: Its share from the position on.
        tokens: Of these, by the mean of those that the run has counted; None where it has none.
        loss: The one that was reported last, or None.
    """

    name: str
    samples: int
    share: float
    declared: float
    tokens: int | None
    loss: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where a run stood at a save.

    Attributes:
        run: Its name.
        what: Kind and split.
        tag: Of the save, or None.
        saved_at: When that was, in UTC.
        position: First position not yet taken.
        step: First step not yet taken.
        epoch: Nominal epoch of the position.
        steps: Where the run ends, or None.
        epochs: The same in nominal epochs.
        phase: Which phase of the mixture is in force there, from 0.
        phases: How many come after the first one.
        lr_scale: Factor for the learning rate.
        since: Step of the last change of shares.
        until: Step of the next, or None.
        rate: Steps a second between this save and the last one before it that was of an earlier
            step, pauses included; None where none is known.
        batch: Samples a step.
        loss_step: The last step of which a loss was reported, or None.
        sources: Those that are drawn from at some step, the largest share first.
    """

    run: str
    what: str
    tag: str | None
    saved_at: datetime
    position: int
    step: int
    epoch: int
    steps: int | None
    epochs: int | None
    phase: int
    phases: int
    lr_scale: float
    since: int
    until: int | None
    rate: float | None
    batch: int
    loss_step: int | None
    sources: list[OfSource]


def standing(
    saved: Saved, schedule: Schedule, saved_at: datetime, saves: Iterable[Save]
) -> Standing:
    """Return where a run stood.

    Args:
        saved: The save.
        schedule: Of the run, with the weights that were set during it.
        saved_at: When the save was made.
        saves: Others of the run.
    """
    settings, step, mixture = saved.settings, saved.step, schedule.mixture
    changes = [at for at, _ in schedule.changes]
    ends = [settings.get(name) for name in ("steps", "epochs")]
    return Standing(
        run=saved.run,
        what=f"{saved.kind} of {settings.get('split')}",
        tag=saved.tag,
        saved_at=saved_at,
        position=saved.position,
        step=step,
        epoch=saved.epoch,
        steps=ends[0],
        epochs=ends[1],
        phase=mixture.phase(step),
        phases=len(mixture.phases) or int(mixture.anneal is not None),
        lr_scale=mixture.lr_scale(step),
        since=max(at for at in changes if at <= step),
        until=min((at for at in changes if at > step), default=None),
        rate=_rate((saved_at, step), saves),
        batch=schedule.batch,
        loss_step=_last_step(saved),
        sources=_of_sources(saved, schedule),
    )


def _of_sources(saved: Saved, schedule: Schedule) -> list[OfSource]:
    declared, losses = schedule.shares_at(saved.step), _last_losses(saved)
    counted, counts = saved.counts
    samples, before = (
        dict(zip(schedule.sources, schedule.samples(position), strict=True))
        for position in (saved.position, counted)
    )
    tokens = {name: [*counts.get(name, ()), 0][0] for name in samples}
    is_counted = bool(counted) or not saved.position
    found = [
        OfSource(
            name=name,
            samples=samples[name],
            share=samples[name] / max(saved.position, 1),
            declared=declared[name],
            tokens=tokens[name] * samples[name] // max(before[name], 1) if is_counted else None,
            loss=losses.get(name),
        )
        for name in schedule.drawn
    ]
    return sorted(found, key=lambda of: (-max(of.share, of.declared), of.name))


def _last_losses(saved: Saved) -> dict[str, float]:
    """Return the loss of every source that was reported last."""
    if saved.losses is None or not saved.losses.num_rows:
        return {}
    names = saved.losses["source"].combine_chunks().dictionary_encode()
    numbers, backwards = np.unique(names.indices.to_numpy()[::-1], return_index=True)
    last = saved.losses["loss"].to_numpy()[len(names) - 1 - backwards]
    told = [names.dictionary[number].as_py() for number in numbers.tolist()]
    return dict(zip(told, last.tolist(), strict=True))


def _last_step(saved: Saved) -> int | None:
    if saved.losses is None or not saved.losses.num_rows:
        return None
    return int(saved.losses["step"][-1].as_py())


def _rate(last: Save, saves: Iterable[Save]) -> float | None:
    """Return the steps a second up to a save, from the last one before it at an earlier step."""
    before = max((save for save in saves if save[0] < last[0] and save[1] < last[1]), default=None)
    if before is None:
        return None
    return (last[1] - before[1]) / (last[0] - before[0]).total_seconds()
