"""Passes over a run: a trainer iterates a bounded run once for each of its own epochs.

Pass e begins with nominal epoch ``e * epochs``, or at step ``e * steps``, and has as many epochs or
steps as the first pass. Its first batch begins with its first sample. Batches that are arranged
together (``no_duplicates``, ``batch_by``) stay the same: a batch with samples of two epochs is in
both passes. Pass e of an endless run begins with epoch e.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duckplets.errors import SamplerError

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler
    from duckplets.runs.settings import RunSettings


def bounds(sampler: Sampler, number: int) -> tuple[int, int | None]:
    """Return the first position of a pass, and its end or None."""
    settings, planner = sampler.settings, sampler.planner
    if settings.mixture.stop and number:
        raise SamplerError("a run with stop= has no second pass; open another run")
    if settings.mixture.stop:
        return 0, sampler.reader.end
    steps = None if settings.steps is None else settings.steps * settings.global_batch
    if settings.epochs is None and steps is not None:
        return number * steps, (number + 1) * steps
    start = planner.epoch_start(number * (1 if settings.epochs is None else settings.epochs))
    is_arranged = planner.newest.needs_all or bool(settings.batch_by)
    start -= start % settings.global_batch if is_arranged else 0
    if settings.epochs is None:
        return start, None
    origin = 0 if is_arranged else start
    settings_of_pass = replace(_of_pass(settings, number), steps=None)
    end = settings_of_pass.end(lambda epoch: planner.epoch_start(epoch) - origin) or 0
    return start, origin + end if steps is None else min(origin + end, start + steps)


def update_end(sampler: Sampler) -> None:
    """Set the end of a run to the position where its current weights use up its sources."""
    settings, planner = sampler.settings, sampler.planner
    if settings.mixture.max_epochs or settings.mixture.stop:
        planner.end_at(replace(settings, steps=None).end)
        sampler.reader.end = planner.end(settings.end)


def _of_pass(settings: RunSettings, number: int) -> RunSettings:
    """Return the settings of a run that ends with a pass."""
    return replace(settings, epochs=settings.epochs and (number + 1) * settings.epochs)


def at(sampler: Sampler, position: int) -> int:
    """Return the pass of a position; the end of a pass belongs to it."""
    settings = sampler.settings
    if settings.mixture.stop:
        return 0
    if settings.epochs is None and settings.steps is not None:
        found = position // max(1, settings.steps * settings.global_batch)
    elif settings.epochs is None:
        return sampler.planner.epoch_at(position)
    else:
        found = sampler.planner.epoch_at(position) // max(1, settings.epochs)
    while found and position <= (bounds(sampler, found - 1)[1] or 0):
        found -= 1
    return found


def begin(sampler: Sampler, number: int) -> None:
    """Move a sampler to the start of a pass, and set its end to the end of the pass."""
    start, end = bounds(sampler, number)
    if end != sampler.reader.end or sampler.reader.part.within(start):
        settings, planner = _of_pass(sampler.settings, number), sampler.planner
        planner.end_at(replace(settings, steps=None).end)
        sampler.reader.bound(start, end, settings.padded_from(planner.epoch_start))
    if start != sampler.position:
        sampler.move(start)
