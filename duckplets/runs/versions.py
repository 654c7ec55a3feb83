"""Let later versions of the corpus, and later minings, join a run, each from a step on.

    resume(version=) ─join→ RunSettings.joins ─versions→ settings of a part ─→ Schedule, streams
    take_minings() ─pins→ streams of the same anchors ─────→ PartPlanner ─→ Planner

A join describes a later version from a step on: its records, minings, vectors and new sources, and
the shares of a proportional mixture. Other settings stay. Each part is planned separately: its
streams begin a new epoch at its first step, in their own order.

Later minings change candidates but not anchors. Such a part continues the epochs of the part before
it, so nothing is repeated or skipped, and a cursor still needs only a position.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np

from duckplets.base.checks import MAX_POSITION
from duckplets.base.fork_guard import alone
from duckplets.base.sanitize import listed
from duckplets.base.settings import Bounds, checked
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records
from duckplets.order.mixture import Mixture
from duckplets.order.schedule import Events, Schedule
from duckplets.pools.read import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import Negatives, policy_of
from duckplets.runs import sources
from duckplets.runs.forecast import unreached
from duckplets.runs.pool_loading import empty_pools, with_lengths
from duckplets.runs.settings import Join, RunSettings, schedule_of_part
from duckplets.runs.values import with_values
from duckplets.samples.no_duplicates import PLANNERS, NoDuplicatesPlanner
from duckplets.samples.plan import PartPlanner, Planner
from duckplets.serving.snapshot import fingerprint
from duckplets.vectors.columns import pinned

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.ingest.prefixes import DeclaredPrefixes
    from duckplets.mining.pins import Pins
    from duckplets.pools.arrays import Pool
    from duckplets.recipes.store import Recipe
    from duckplets.runs.pool_loading import EmptyPool, NamedByUser
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.stream import Stream
    from duckplets.vectors.columns import Missing

Version: TypeAlias = int | Literal["newest"] | None
Read: TypeAlias = Callable[[RunSettings, Collection[str]], "tuple[list[Stream], list[EmptyPool]]"]


def planned(
    database: Database,
    settings: RunSettings,
    events: Events,
    read: Read,
    position: int,
    *,
    also: Collection[str],
    named: NamedByUser,
) -> tuple[RunSettings, Planner, list[EmptyPool]]:
    """Plan each part of a run, and set the steps of open joins; return the empty pools too."""
    planners: list[PartPlanner] = []
    outside: list[EmptyPool] = []
    end_of = replace(settings, steps=None).end  # steps= changes no batch before the end
    graded: bool | None = None
    for number in range(len(settings.joins) + 1):
        is_open = (
            number and settings.joins[number - 1].step == MAX_POSITION // settings.global_batch
        )
        if is_open:
            step = Planner(planners, end_of).next_change(position)
            settings = _with_join(settings, number, step=step)
        version, schedule = _part(settings, number, events)
        streams, empty = read(version, schedule.drawn | {*also} & {*version.names})
        there, came = {s.name for s in streams}, settings.joins[number - 1 :]
        out = {pool.source for pool in empty if is_open and pool.source in came[0].sources}
        if out := out - there - version.mixture.named:
            settings = _with_join(settings, number, came[0].without(out))
            outside += [pool for pool in empty if pool.source in out]
            version, schedule = _part(settings, number, events)
        if settings.joins:
            stops = [*(join.step for join in settings.joins), MAX_POSITION]
            stop = max(stops[number], schedule.begin + 1)
            steps = (at for at in schedule.changes if at < stop)
            if lacking := {name for at in steps for name in schedule.names_at(at)} - there:
                raise empty_pools([pool for pool in empty if pool.source in lacking])
        complete = with_lengths(version, streams)
        if empty and not settings.joins:
            complete = named.without_empty(complete, streams, empty)
        if complete is not version:
            if number:
                settings = _with_join(settings, number, lengths=dict(complete.mixture.lengths))
            else:
                settings = replace(settings, mixture=complete.mixture, optional=complete.optional)
            version, schedule = _part(settings, number, events)
        has_grades = False
        if settings.pairs == "labelled":
            kinds = labels_of(database, version.corpus_version)
            has_grades = any(map(kinds.is_graded, version.sources))
        if graded is False and has_grades:
            raise SamplerError(
                f"corpus version {version.corpus_version} has grades, and the labels of run "
                f"{settings.run!r} are integers: open another run"
            )
        graded = has_grades if graded is None else graded
        planners.append(planner_of(version, streams, schedule, graded=graded))
    return settings, Planner(planners, end_of), outside if settings.joins else empty


def planner_of(
    version: RunSettings, streams: Sequence[Stream], schedule: Schedule, *, graded: bool
) -> PartPlanner:
    """Return the planner of a part of a run."""
    return PLANNERS.get(version.no_duplicates, NoDuplicatesPlanner)(
        streams,
        schedule,
        kind=version.kind,
        seed=version.seed,
        swap=version.swap,
        graded=graded,
        batch_by=version.batch_by,
    )


def _with_join(
    settings: RunSettings, number: int, join: Join | None = None, **changes: Any
) -> RunSettings:
    joins = [*settings.joins]
    joins[number - 1] = replace(join or joins[number - 1], **changes)
    return replace(settings, joins=tuple(joins))


def _part(settings: RunSettings, number: int, events: Events) -> tuple[RunSettings, Schedule]:
    return settings.versions[number], schedule_of_part(settings, number, events)


def add_source(settings: RunSettings, planner: Planner, read: Read, source: str) -> None:
    """Add the streams of a source that was not drawn before, for every version."""
    versions, version = iter(settings.versions), settings
    for part in planner.parts:
        version = (
            next(versions) if part.minings is None else replace(version, candidates=part.minings)
        )
        if source in version.names and source not in {stream.name for stream in part.streams}:
            streams, empty = read(version, [source])
            if empty and part is planner.newest:
                raise empty_pools(empty)
            planner.add(part, streams)


def checked_version(
    database: Database, settings: RunSettings, version: Version, position: int
) -> int | None:
    """Return the version that joins a run at a position, or None."""
    pinned_to, newest = settings.versions[-1].corpus_version, records.current_version(database)
    if pinned_to > newest:
        raise StateMismatchError(
            f"run {settings.run!r} is pinned to corpus version {pinned_to}, but "
            f"{database.path} is at {newest}: it is another file"
        )
    kind = Literal["newest"] | Annotated[int, Bounds(0, newest)] | None
    found = checked("version", version, kind, SamplerError)
    if not isinstance(found, int):
        return found and newest
    last = _begun(settings, position).versions[-1]
    if found < last.corpus_version:
        raise SamplerError(
            f"version={found}: run {settings.run!r} already draws from corpus version "
            f"{last.corpus_version}; give a version from there to {newest}, or leave it out"
        )
    return found


def with_version(
    database: Database,
    settings: RunSettings,
    version: int,
    *,
    position: int,
    events: Events,
    recipes: Sequence[Recipe | str] | None,
    negatives: Negatives | None = None,
) -> RunSettings:
    """Return settings with a later version or other negatives; the step is set later."""
    settings = _begun(settings, position)
    last = settings.versions[-1]
    negatives = last.negatives if negatives is None else negatives
    is_same = negatives.chosen == last.negatives.chosen
    if version == last.corpus_version and is_same:
        return settings
    of_version = sources.resolved(database, recipes, vars(last), version)
    fresh = {s.source: s.recipes for s in of_version if s.source not in last.sources}
    offers = recipe_store.sources_of(database, version)
    came = {name: offers[name] for name in fresh}
    vectors = last.vectors
    if vectors:
        vectors = pinned(Path(str(database.path)), last.columns, vectors.missing)
    where: dict[str, Any] = {"split": settings.split, "version": version}
    join = Join(
        step=MAX_POSITION // settings.global_batch,  # open: ``planned`` sets it
        corpus_version=version,
        records=fingerprint(database, version),
        declared_prefixes=_prefixes(database, last, version, fresh),
        negatives=negatives,
        candidates=last.candidates,
        ranked=last.ranked,
        consistent=last.consistent,
        in_batch=last.in_batch,
        sources=[*fresh],
        recipes=fresh,
        index=sources.shares(database, Mixture(), came, **where).index,
        vectors=vectors,
        lengths={},
        values=with_values(database, last.mixture, where)[0].values,
    )
    made, number = replace(settings, joins=(*settings.joins, join)), len(settings.joins) + 1
    begins_here = _with_join(made, number, step=position // settings.global_batch)
    needed = schedule_of_part(begins_here, number, events).planned
    needed = {*made.versions[-1].sources} if last.mixture.columns else needed
    at_random = set[tuple[str, str]]()
    if is_same:  # later minings are for new runs
        pairs = (
            (source, recipe) for source, recipes_of in last.recipes.items() for recipe in recipes_of
        )
        at_random = {(s, r.name) for s, r in pairs if not last.candidates.of(s, r.name)}
    stale = version == last.corpus_version
    found = sources.pins(
        database, made.versions[-1], needed, at_random=at_random, allow_stale=stale
    )
    made = _with_join(made, number, candidates=found)
    ranked = sources.ranked_pins(database, made.versions[-1], allow_stale=stale)
    made = _with_join(made, number, ranked=ranked)
    if last.in_batch:
        in_batch = sources.near_pins(database, made.versions[-1], allow_stale=stale)
        made = _with_join(made, number, in_batch=in_batch)
    if not is_same and negatives.by is not None:
        sources.notes_on_mined(database, made.versions[-1])
    return made


def _begun(settings: RunSettings, position: int) -> RunSettings:
    """Return settings without joins that begin at a position or later."""
    joins = [join for join in settings.joins if join.step * settings.global_batch < position]
    return replace(settings, joins=tuple(joins))


def _prefixes(
    database: Database, last: RunSettings, version: int, fresh: Collection[str]
) -> DeclaredPrefixes:
    """Return the prefixes of a version in a run; sources of the run keep their prefixes."""
    found = prefix_store.declared(database, version)
    of_fresh = {name: prefixes for name, prefixes in found.sources.items() if name in fresh}
    return replace(found, sources={**last.declared_prefixes.sources, **of_fresh})


def prefixes_of(database: Database, settings: RunSettings) -> list[tuple[int, str]]:
    """Return id and prefix of every source with a prefix in a run."""
    first, *later = settings.versions
    found = prefix_store.of_sources(database, first.corpus_version)
    for join, version in zip(settings.joins, later, strict=True):
        of_version = prefix_store.of_sources(database, version.corpus_version)
        found += [prefix for prefix in of_version if prefix[1] in join.sources]
    return [(key, definition) for key, _, definition in found]


def as_found(database: Database, settings: RunSettings, missing: Missing | None) -> RunSettings:
    """Return settings of a saved run with current facts about its versions."""
    path = Path(str(database.path))
    now = replace(
        settings,
        records=fingerprint(database, settings.corpus_version),
        declared_prefixes=prefix_store.declared(database, settings.corpus_version),
        vectors=pinned(path, settings.columns, missing, settings.vectors, settings.run),
        joins=(),
    )
    for join, version in zip(settings.joins, settings.versions[1:], strict=True):
        number = version.corpus_version
        found = replace(
            join,
            records=fingerprint(database, number),
            declared_prefixes=_prefixes(database, now.versions[-1], number, join.sources),
            vectors=pinned(path, version.columns, missing, version.vectors, version.run),
        )
        now = replace(now, joins=(*now.joins, found))
    return now


def note_joins(database: Database, sampler: Sampler, before: RunSettings) -> None:
    """Note the versions that joined a run, and the first position that may differ."""
    settings, joins = sampler.settings, sampler.settings.joins
    newest = settings.versions[-1]
    if joins == before.joins:
        number = newest.corpus_version
        sampler.notes.append(f"run {settings.run!r} already has corpus version {number}")
        return
    pairs = zip_longest(before.joins, joins)
    steps = [
        join_of.step
        for pair in pairs
        if pair[0] != pair[1]
        for join_of in pair
        if join_of is not None
    ]
    changed, known = min(steps) * settings.global_batch, sampler.changed_from
    sampler.changed_from = changed if known is None else min(changed, known)
    if joins and not settings.rank:
        join = joins[-1]
        sampler.notes.append(
            f"from step {join.step:,} on, run {settings.run!r} draws from corpus version "
            f"{join.corpus_version}, and every recipe of a source begins a new epoch there"
            + "".join(f"; {note}" for note in unreached(sampler.planner))
        )
        sampler.notes += _left_out(newest, sampler.planner)
        if join.sources and not newest.mixture.columns:
            weights = newest.mixture.declared(newest.sources)
            weighed = listed(
                f"{name!r} {float(weights[name]):g} ({listed(recipe.name for recipe in recipes)})"
                for name, recipes in join.recipes.items()
            )
            sampler.notes.append(
                f"new sources, with their weights in the mixture and their recipes: {weighed}; "
                f"give other weights with mixture="
            )


def _left_out(version: RunSettings, planner: Planner) -> Iterator[str]:
    """Yield recipes without anchors in the version that joined."""
    last = planner.newest
    there = {(stream.source, stream.recipe.name) for stream in last.streams}
    for source, recipes in sources.drawn_by(version).items():
        for recipe in recipes:
            drawn = last.schedule.drawn
            if (version.mixture.columns or source in drawn) and (source, recipe.name) not in there:
                yield (
                    f"source {source!r}, recipe {recipe.name!r} has no anchor in corpus version "
                    f"{version.corpus_version}, and is left out from there"
                )


@alone
def take_minings(sampler: Sampler) -> int | None:
    """Draw negatives from the newest minings, from the next step on.

    During a run, mine again with vectors of the current model, and call this. Candidates change;
    anchors, their order and epochs stay. An anchor without a candidate draws at random, and is
    counted. Every rank must call it at the same step, after mining is done. A save stores it.

    Returns:
        The first step with the new minings, as for ``set_weights``; None if there are none.

    Raises:
        SamplerError: The run has no mined negatives, or its policy drops short anchors.
        StateMismatchError: The minings are stale or have other anchors, or a later checkpoint
            exists.
    """
    step = sampler.planner.next_change(sampler.position)
    mined = (stream.generation for stream in sampler.planner.newest.streams)
    if sampler.read_minings is None or not any(mined):
        raise SamplerError(
            "take_minings: this run was opened without mined negatives; mine, and open another run"
        )
    found = sampler.read_minings(sampler, step, None)
    if found is None:
        return None
    sampler.check_checkpoints(step)
    part, minings = found
    sampler.planner.continue_with(part)
    earlier = (taken for taken in sampler.minings if taken[0] < step)
    sampler.minings = (*earlier, (step, minings))
    sampler.reader.change_schedule(sampler.planner.schedule, step * sampler.settings.global_batch)
    return step


def restore_minings(sampler: Sampler, minings: Sequence[tuple[int, Pins]]) -> None:
    """Use the minings that a saved run took, instead of the run's own."""
    sampler.planner.without_later()
    sampler.minings = ()
    for step, pins_of in minings:
        if sampler.read_minings is None:
            raise StateMismatchError("this state has minings, and a run of tokens has none")
        part, _ = sampler.read_minings(sampler, step, pins_of)
        sampler.planner.continue_with(part)
        sampler.minings = (*sampler.minings, (step, pins_of))


def read_minings(
    database: Database, load: Read, sampler: Sampler, step: int, minings: Pins | None
) -> tuple[PartPlanner, Pins] | None:
    """Return a part of a run from a step on with minings, and the minings.

    Without ``minings``, take the newest; None if the run already uses them.
    """
    settings, before = sampler.settings, sampler.planner.at(step * sampler.settings.global_batch)
    begun = [join for join in settings.joins if join.step <= step]
    version = settings.versions[len(begun)]
    earlier = [minings for at, minings in sampler.minings if at <= step]
    last = earlier[-1] if earlier else version.candidates
    if minings is None:
        minings = last.renewed(sources.pins(database, version, allow_stale=False))
        if minings == last:
            return None
    now = replace(version, candidates=minings)
    for source, recipe in ((s, r) for s, some in sources.drawn_by(now).items() for r in some):
        policy = policy_of(getattr(recipe, "by", None))
        if source in minings.by_source and policy is not None and policy.when_short == "drop":
            raise SamplerError(
                f"take_minings: recipe {recipe.name!r} drops anchors with too few candidates "
                f"(when_short='drop'), and the anchors of a run cannot change. Open the run with "
                f"when_short='random'"
            )
    found, _ = load(now, {stream.name for stream in before.streams})
    streams: list[Stream] = []
    for one, other in zip_longest(before.streams, found):
        if one is None or other is None or not _alike(one.pool, other.pool):
            known = one or other
            raise StateMismatchError(
                f"take_minings: source {known.source!r}, recipe {known.recipe.name!r} has other "
                f"anchors with these minings than run {settings.run!r}; open another run"
            )
        # a run that mines often shares the unchanged arrays
        shared = replace(one.pool, compiled=other.pool.compiled)
        streams.append(replace(other, pool=shared))
    schedule = before.schedule.since(step)
    part = planner_of(now, streams, schedule, graded=before.is_graded)
    part.minings = minings
    return part, minings


def _alike(one: Pool, other: Pool) -> bool:
    pairs: list[Any] = [(one.anchors, other.anchors), (one.negatives, other.negatives)]
    return all(np.array_equal(a.chunks, b.chunks) for a, b in pairs if a is not None)
