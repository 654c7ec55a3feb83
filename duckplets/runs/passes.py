"""Passes over a run: a trainer iterates a bounded run once for each of its own epochs.

Pass e begins with nominal epoch ``e * epochs``, or at step ``e * steps``, and is bounded as the
first one is. Its batches begin with its first sample. Batches that are arranged together
(``no_duplicates``, ``batch_by``) keep their places: the batch where two epochs meet is in both
passes. Pass e of an endless run begins with epoch e.
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
        raise SamplerError("a run with stop= ends for good: it has no second pass")
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
    of = replace(_of_pass(settings, number), steps=None)
    end = of.end(lambda epoch: planner.epoch_start(epoch) - origin) or 0
    return start, origin + end if steps is None else min(origin + end, start + steps)


def end_anew(sampler: Sampler) -> None:
    """Let a run end where its sources are used up by the weights in force."""
    settings, planner = sampler.settings, sampler.planner
    if settings.mixture.max_epochs or settings.mixture.stop:
        planner.end_at(replace(settings, steps=None).end)
        sampler.reader.end = planner.end(settings.end)


def _of_pass(settings: RunSettings, number: int) -> RunSettings:
    """Return the settings of a run that ends where a pass does."""
    return replace(settings, epochs=settings.epochs and (number + 1) * settings.epochs)


def at(sampler: Sampler, position: int) -> int:
    """Return the pass of a position; at its end it is finished, and the next one not begun."""
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
    """Put a sampler at the beginning of a pass, and let it end where the pass does."""
    start, end = bounds(sampler, number)
    if end != sampler.reader.end or sampler.reader.part.within(start):
        of, planner = _of_pass(sampler.settings, number), sampler.planner
        planner.end_at(replace(of, steps=None).end)
        sampler.reader.bound(start, end, of.padded_from(planner.epoch_start))
    if start != sampler.position:
        sampler.move(start)
