"""Open the parts of a run: the version it was opened with, and later ones that have joined it.

    resume(version=) ─join→ RunSettings.joins ─versions→ settings of a part ─→ Schedule, streams
                                                            Planner, or several as a JoinedPlanner

A join says what a run takes of a later version from a step on: records, minings, vectors, recipes
of the sources that came with it, and what a mixture in proportion to anchors means there. All else
stays as the run was opened. Each part is planned by itself: streams begin a new epoch where it
begins, in an order of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.base.sanitize import listed
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records
from duckplets.order.mixture import Mixture
from duckplets.order.schedule import Events
from duckplets.pools.labels import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import to_dict
from duckplets.runs import messages, negative_policy
from duckplets.runs.default_mixture import shares
from duckplets.runs.forecast import unreached
from duckplets.runs.pool_loading import empty_pools
from duckplets.runs.settings import RunSettings, schedule_of_part
from duckplets.samples.joined import JoinedPlanner
from duckplets.samples.plan import Planner
from duckplets.samples.vector_columns import pinned, pinned_again
from duckplets.serving.snapshot import fingerprint

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.recipes.store import Recipe, SourceRecipes
    from duckplets.runs.pool_loading import Left
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.stream import Stream
    from duckplets.samples.vector_columns import Missing, RunVectors

Version: TypeAlias = int | Literal["newest"] | None
Found: TypeAlias = "tuple[list[Stream], list[Left]]"
Read: TypeAlias = Callable[..., Found]


# -- the parts of a run ---------------------------------------------------------------------------


def planned(
    database: Database,
    settings: RunSettings,
    events: Events | None,
    read: Read,
    *,
    position: int,
    skip: bool = False,
    also: Collection[str] = (),
) -> tuple[RunSettings, Planner, list[Left]]:
    """Plan a run: each of its parts, and the joins that are open begin where they may.

    Args:
        database: The corpus.
        settings: Of the run.
        events: Weights that were set during it.
        read: Returns the streams of a version's settings and some sources; with ``skip`` those that
            there are.
        position: Where the run stands.
        skip: Whether what has no anchor is left out of a run without joins.
        also: Sources whose pools are needed although the schedule does not draw from them.

    Returns:
        The settings with what a mixture in proportion means, and the steps of joins; the planner;
        and what was left out of the last version that somebody asked for, and why.

    Raises:
        EmptyPoolError: A source that is drawn from has no anchor.
        SamplerError: Labels that join are numbers of any kind, and those of the run integers.
    """
    planners: list[Planner] = []
    left: list[Left] = []
    graded: list[bool] = []
    for number in range(len(settings.joins) + 1):
        if number and settings.joins[number - 1]["step"] == _open_step(settings):
            step = _all_of(planners).next_change(position)
            settings = _with_join(settings, number, step=step)
        schedule, version = schedule_of_part(settings, number, events), settings.versions[number]
        if settings.joins:
            stops = [*(join["step"] for join in settings.joins), None]
            sure = schedule.drawn_in(schedule.begin, stops[number])
            streams, left = read(version, sorted(schedule.drawn), skip=True)
            there = {stream.source for stream in streams}
            if sure - there:
                raise empty_pools([of for of in left if of.source in sure - there])
        else:
            streams, left = read(version, sorted(schedule.drawn | {*also}), skip=skip)
        if not streams:
            raise empty_pools(left)
        graded.append(_is_graded(database, version))
        if graded[-1] and not graded[0]:
            raise SamplerError(
                f"corpus version {version.corpus_version} has grades, and the labels of run "
                f"{settings.run!r} are integers: open another run"
            )
        planner = Planner(
            streams,
            schedule,
            kind=settings.kind,
            seed=version.seed,
            swap=settings.swap,
            graded=graded[0],
            distinct_batch=settings.global_batch if settings.no_duplicates is True else 0,
            apart_batch=settings.global_batch if settings.no_duplicates == "negatives" else 0,
        )
        planners.append(planner)
        settings = _in_shares(settings, number, planner, events)
        whole = _all_of(planners)
        # Ignore steps here: samples past them may come before, so other steps alter no batch.
        whole.end = replace(settings, steps=None).end(whole.epoch_start)
    return settings, _all_of(planners), left


def _is_graded(database: Database, version: RunSettings) -> bool:
    """Return whether some labels of a run of labelled pairs are neither 0 nor 1."""
    if version.pairs != "labelled":
        return False
    kinds = labels_of(database, version.corpus_version)
    return any(kinds.get(name) == "graded" for name in version.sources)


def _all_of(planners: Sequence[Planner]) -> Planner:
    return planners[0] if len(planners) == 1 else JoinedPlanner(planners)


def _in_shares(
    settings: RunSettings, number: int, planner: Planner, events: Events | None
) -> RunSettings:
    """Return settings that keep what the word of a mixture means for a version of the corpus.

    The planner is told of it.
    """
    mixture = Mixture.from_dict(settings.mixture)
    if not isinstance(mixture.weights, str):
        return settings
    lengths = planner.lengths(settings.versions[number].sources)
    if not number:
        mixture = replace(mixture, lengths=mixture.lengths or lengths)
        settings = replace(settings, mixture=mixture.to_dict())
    elif not settings.joins[number - 1]["lengths"]:
        settings = _with_join(settings, number, lengths=lengths)
    planner.schedule = schedule_of_part(settings, number, events)
    return settings


def _with_join(settings: RunSettings, number: int, **changes: Any) -> RunSettings:
    joins = list(settings.joins)
    joins[number - 1] = {**joins[number - 1], **changes}
    return replace(settings, joins=joins)


def add_source(settings: RunSettings, planner: Planner, read: Read, source: str) -> None:
    """Add the streams of a source from which a run was not drawn so far, of every version.

    Raises:
        EmptyPoolError: The last version has none.
    """
    planners = planner.planners if isinstance(planner, JoinedPlanner) else [planner]
    versions = settings.versions
    for number, (part, version) in enumerate(zip(planners, versions, strict=True)):
        known = {stream.source for stream in part.streams}
        if source in version.sources and source not in known:
            streams, _ = read(version, [source], skip=number + 1 < len(versions))
            if isinstance(planner, JoinedPlanner):
                planner.add(streams, number)
            else:
                planner.add(streams)


# -- a version that joins -------------------------------------------------------------------------


def checked_version(
    database: Database, settings: RunSettings, version: Version, position: int
) -> int | None:
    """Return the number of the version that is to join a run at a position; None for none.

    Raises:
        SamplerError: It is no version of the corpus, or one before those that the run has.
    """
    newest = records.current_version(database)
    if version is None:
        return None
    if version == "newest":
        return newest
    if isinstance(version, str):
        raise SamplerError(f"version={version!r}: give 'newest', a number, or leave it out")
    found, last = integer("version", version, 0, newest), _begun(settings, position).versions[-1]
    if found < last.corpus_version:
        raise SamplerError(
            f"version={found}: run {settings.run!r} draws from corpus version "
            f"{last.corpus_version} where it stands; give one from there to {newest}, or leave it "
            f"out"
        )
    return found


def sources_with(database: Database, settings: RunSettings, version: int | None) -> list[str]:
    """Return the names of the sources of a run, with those of a version that joins it."""
    names = settings.versions[-1].sources
    if version is None:
        return names
    return [*names, *(n for n in recipe_store.sources_of(database, version) if n not in names)]


def with_version(
    database: Database,
    settings: RunSettings,
    version: int,
    *,
    position: int,
    events: Events,
    recipes: Sequence[Recipe | str] | None,
) -> RunSettings:
    """Return settings of a run that takes a later version, from a step on that is left open.

    Joins of which nothing was served yet give way to it.

    Args:
        database: The corpus.
        settings: Of the run.
        version: The same that it has where it stands, or a later one.
        position: Where it stands.
        events: Weights that were set during the run.
        recipes: Given for the sources that came since; else they take what a new run would.

    Raises:
        StateMismatchError: Negatives that the run takes from a mining are not mined for it.
    """
    settings = _begun(settings, position)
    last = settings.versions[-1]
    if version == last.corpus_version:
        return settings
    fresh = _fresh(database, last, version, recipes)
    names = [of_source.source for of_source in fresh]
    found = recipe_store.sources_of(database, version)
    came = {name: found[name] for name in names}
    limits = shares(database, Mixture(), came, split=settings.split, version=version)
    join = {
        "step": _open_step(settings),
        "corpus_version": version,
        "records": fingerprint(database, version),
        "declared_prefixes": _prefixes(database, last, version, names),
        "candidates": {},
        "sources": names,
        "recipes": {s.source: [to_dict(recipe) for recipe in s.recipes] for s in fresh},
        "index": limits.index,
        "vectors": _vectors(database, last),
        "lengths": {},
    }
    made = replace(settings, joins=[*settings.joins, join])
    drawn = dict(negative_policy.drawn_by(last))
    of_fresh = {s.source: [r for r in s.recipes if r.weight] for s in fresh}
    drawn |= negative_policy.with_mined(database, made, of_fresh)
    begins_here = _with_join(made, len(made.joins), step=position // settings.global_batch)
    needed = schedule_of_part(begins_here, len(made.joins), events).planned
    pins = negative_policy.pins(database, made.versions[-1], drawn, needed, allow_stale=False)
    return _with_join(made, len(made.joins), candidates=pins)


def _open_step(settings: RunSettings) -> int:
    return MAX_POSITION // settings.global_batch


def _begun(settings: RunSettings, position: int) -> RunSettings:
    """Return settings without the joins of which nothing comes before a position."""
    joins = [join for join in settings.joins if join["step"] * settings.global_batch < position]
    return replace(settings, joins=joins)


def _fresh(
    database: Database,
    last: RunSettings,
    version: int,
    recipes: Sequence[Recipe | str] | None,
) -> list[SourceRecipes]:
    """Return the recipes of sources that a run does not know."""
    if last.kind == "messages":
        found = messages.resolve(database, Mixture.from_dict(last.mixture), version)
    else:
        tokens = last.chunking["max_tokens"]
        found = negative_policy.resolved(database, recipes, vars(last), version, max_tokens=tokens)
    return [of_source for of_source in found if of_source.source not in last.sources]


def _prefixes(
    database: Database, last: RunSettings, version: int, fresh: Sequence[str]
) -> dict[str, Any]:
    """Return what identifies the prefixes of a version in a run: its sources keep theirs."""
    found = prefix_store.digest(database, version)
    of_fresh = {n: d for n, d in found.get("sources", {}).items() if n in fresh}
    of_sources = last.declared_prefixes.get("sources", {}) | of_fresh
    of_records = {"records": found["records"]} if "records" in found else {}
    return ({"sources": of_sources} if of_sources else {}) | of_records


def _vectors(database: Database, last: RunSettings) -> dict[str, Any]:
    """Return the vectors of a version: those there are now."""
    missing = last.vectors.get("missing")
    return {} if missing is None else pinned(Path(str(database.path)), last.columns, missing)


def prefixes_of(database: Database, settings: RunSettings) -> list[tuple[int, str]]:
    """Return the id and prefix of every source that a run shows one of."""
    first, *later = settings.versions
    found = [(of[0], of[2]) for of in prefix_store.of_sources(database, first.corpus_version)]
    for join, version in zip(settings.joins, later, strict=True):
        all_of = prefix_store.of_sources(database, version.corpus_version)
        found += [(key, definition) for key, name, definition in all_of if name in join["sources"]]
    return found


def as_found(database: Database, settings: RunSettings, missing: Missing | None) -> RunSettings:
    """Return settings of a saved run with what the corpus says of its versions now."""
    path, first = Path(str(database.path)), settings.corpus_version
    now = replace(
        settings,
        records=fingerprint(database, first),
        declared_prefixes=prefix_store.digest(database, first),
        vectors=pinned_again(path, settings, missing),
        joins=[],
    )
    for join, version in zip(settings.joins, settings.versions[1:], strict=True):
        number, names = version.corpus_version, join["sources"]
        found = {
            "records": fingerprint(database, number),
            "declared_prefixes": _prefixes(database, now.versions[-1], number, names),
            "vectors": pinned_again(path, version, missing),
        }
        now = replace(now, joins=[*now.joins, {**join, **found}])
    return now


def vectors_of(settings: RunSettings, newest: RunVectors | None) -> RunVectors | None:
    """Return the vectors of a run, those of the newest version, as it serves them at each step."""
    if newest is not None:
        for version, join in zip(settings.versions, settings.joins, strict=False):
            newest.before(version, join["step"] * settings.global_batch)
    return newest


def refuse_older(database: Database, settings: RunSettings) -> None:
    """Refuse a run that is pinned to a version that the corpus has not reached.

    Raises:
        StateMismatchError: It is.
    """
    pinned_to, newest = settings.versions[-1].corpus_version, records.current_version(database)
    if pinned_to > newest:
        raise StateMismatchError(
            f"run {settings.run!r} is pinned to corpus version {pinned_to}, but "
            f"{database.path} is at {newest}: it is another file"
        )


# -- what is said of it ---------------------------------------------------------------------------


def tell(database: Database, sampler: Sampler, before: RunSettings) -> None:
    """Note what has joined a run, and from which position on its samples may be others.

    Args:
        database: The corpus.
        sampler: Of the run.
        before: Its settings as they were.
    """
    settings = sampler.settings
    for one, other in zip_longest(before.joins, settings.joins):
        if one != other:
            steps = [join["step"] for join in (one, other) if join is not None]
            changed = min(steps) * settings.global_batch
            known = sampler.changed_from
            sampler.changed_from = changed if known is None else min(known, changed)
            break
    else:
        number = settings.versions[-1].corpus_version
        sampler.notes.append(f"run {settings.run!r} has corpus version {number} already")
        return
    if settings.joins and not settings.rank:
        join = settings.joins[-1]
        sampler.notes.append(
            f"from step {join['step']:,} on run {settings.run!r} draws from corpus version "
            f"{join['corpus_version']}, and every recipe of a source begins a new epoch there"
            + "".join(f"; {said}" for said in unreached(sampler._planner))
        )
        sampler.notes += _left_out(settings.versions[-1], sampler._planner)
        if join["sources"]:
            sampler.notes += _told_of_sources(database, settings, join)


def _left_out(version: RunSettings, planner: Planner) -> Iterator[str]:
    """Yield which recipes find no anchor in the version that has joined."""
    last = planner.planners[-1] if isinstance(planner, JoinedPlanner) else planner
    there = {(stream.source, stream.recipe.name) for stream in last.streams}
    for source, recipes in negative_policy.drawn_by(version).items():
        for recipe in recipes:
            if source in last.schedule.drawn and (source, recipe.name) not in there:
                yield (
                    f"source {source!r}, recipe {recipe.name!r} finds no anchor in corpus version "
                    f"{version.corpus_version}, and is left out of it"
                )


def _told_of_sources(
    database: Database, settings: RunSettings, join: dict[str, Any]
) -> Iterator[str]:
    """Yield what a user should know of the sources that came with a version."""
    version, last = join["corpus_version"], settings.versions[-1]
    mixture = Mixture.from_dict(last.mixture)
    weights = mixture.declared(last.sources)
    weighed = listed(
        f"{name!r} {float(weights[name]):g} ({listed(recipe['name'] for recipe in recipes)})"
        for name, recipes in join["recipes"].items()
    )
    yield (
        f"sources that came since, with their weights in the mixture and recipes: {weighed}; give "
        f"other weights with mixture="
    )
    found = recipe_store.sources_of(database, version)
    came = {name: found[name] for name in join["sources"]}
    own = listed(f"{name} {of.weight:g}" for name, of in came.items() if of.weight is not None)
    if own:
        yield f"a saved run keeps its mixture, so weights declared with sources do not hold: {own}"
    yield from shares(database, mixture, came, split=settings.split, version=version).notes
