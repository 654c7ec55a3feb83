"""Let later minings join a run from a step on, where its epochs go on.

    newest minings ─pins→ read ─→ streams of the same anchors ─→ a part of the run
    saved run ────────────┘

Candidates change and anchors do not, so a part with other candidates counts from where the part
before it does: nothing is repeated or skipped, and a position still is all that a cursor has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.fork_guard import alone
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.recipes.mined import policy_of
from duckplets.runs.sources import Candidates, drawn_by, pins
from duckplets.runs.versions import Read, planner_of

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.pools.arrays import Pool
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.plan import PartPlanner
    from duckplets.samples.stream import Stream


@alone
def take_minings(sampler: Sampler) -> int | None:
    """Draw negatives from the newest minings from the next step on, as epochs go on.

    Mine again while the run goes on, with vectors of the model as it is by now, and call this:
    candidates are others, anchors and their order stay. An anchor that the policy leaves none
    draws at random, counted. Every rank has to take them at the same step, after mining is
    done. A save keeps it with the run.

    Returns:
        The step from which on they are in force, as of ``set_weights``; None where nothing was
        mined since.

    Raises:
        SamplerError: The run has no mined negatives, or its policy drops short anchors.
        StateMismatchError: The minings are stale or of other anchors, or a checkpoint lies
            beyond.
    """
    step = sampler._planner.next_change(sampler._position)
    mined = (stream.generation for stream in sampler._planner.newest.streams)
    if sampler.read_minings is None or not any(mined):
        raise SamplerError(
            "take_minings: this run was opened without mined negatives; mine, and open another"
        )
    found = sampler.read_minings(sampler, step, None)
    if found is None:
        return None
    sampler.check_checkpoints(step)
    part, minings = found
    sampler._planner.go_on_by(part)
    earlier = (of for of in sampler.minings if of[0] < step)
    sampler.minings = (*earlier, (step, minings))
    sampler._reader.go_on_with(sampler._planner.schedule, step * sampler._batch)
    return step


def take_up(sampler: Sampler, minings: Sequence[tuple[int, Candidates]]) -> None:
    """Go on with the minings that a saved run took, instead of its own."""
    sampler._planner.without_later()
    sampler.minings = ()
    for step, of in minings:
        if sampler.read_minings is None:
            raise StateMismatchError("this state took minings, and a run of tokens has none")
        part, _ = sampler.read_minings(sampler, step, of)
        sampler._planner.go_on_by(part)
        sampler.minings = (*sampler.minings, (step, of))


def read(
    database: Database, load: Read, sampler: Sampler, step: int, given: Candidates | None
) -> tuple[PartPlanner, Candidates] | None:
    """Return a run's part with the minings given, or the newest, from a step on, and these.

    None where the newest are those in force.

    Raises:
        SamplerError: A policy leaves out anchors that a mining has too little for.
        StateMismatchError: It is of other anchors, or stale.
    """
    settings, before = sampler.settings, sampler._planner.at(step * sampler.settings.global_batch)
    begun = [join for join in settings.joins if join["step"] <= step]
    version = settings.versions[len(begun)]
    earlier = [minings for at, minings in sampler.minings if at <= step]
    last = earlier[-1] if earlier else version.candidates
    if given is None:
        newest = pins(database, version, allow_stale=False)
        given = {
            source: {name: newest.get(source, {}).get(name, of) for name, of in recipes.items()}
            for source, recipes in last.items()
        }
        if given == last:
            return None
    now = replace(version, candidates=given)
    for source, recipe in ((s, r) for s, of in drawn_by(now).items() for r in of):
        policy = policy_of(getattr(recipe, "by", None))
        if source in given and policy is not None and policy.when_short == "drop":
            raise SamplerError(
                f"take_minings: recipe {recipe.name!r} leaves out anchors with too few candidates "
                f"(when_short='drop'), and anchors stay as they are; give its policy "
                f"when_short='random' when the run is opened"
            )
    found, _ = load(now, {stream.source for stream in before.streams})
    streams: list[Stream] = []
    for one, other in zip_longest(before.streams, found):
        of = one or other
        if one is None or other is None or not _alike(one.pool, other.pool):
            raise StateMismatchError(
                f"take_minings: source {of.source!r}, recipe {of.recipe.name!r} has other anchors "
                f"with these minings than run {settings.run!r}; open another run"
            )
        # a run that mines often shares what does not change
        shared = replace(one.pool, compiled=other.pool.compiled)
        streams.append(replace(other, pool=shared))
    schedule = before.schedule.since(step)
    part = planner_of(now, streams, schedule, graded=before.is_graded)
    part.minings = given
    return part, given


def _alike(one: Pool, other: Pool) -> bool:
    """Return whether pools have the same anchors and negatives."""
    pairs: list[Any] = [(one.anchors, other.anchors), (one.negatives, other.negatives)]
    return all(np.array_equal(a.chunks, b.chunks) for a, b in pairs if a is not None)
