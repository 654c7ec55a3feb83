"""Open runs: from a sampler's arguments, or a saved run, to a sampler.

Arguments become ``RunSettings``, with everything resolved: recipes of every source, weights, the
corpus version, and for mined negatives the number and digest of the mining that is current. A
saved run keeps them, so resuming resolves nothing anew, and what was ingested, mined or stored as a
recipe since changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from duckplets.base.arrays import Words
from duckplets.db.database import Database
from duckplets.errors import EmptyPoolError, SamplerError, StateMismatchError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.order.mixture import Mixture, differences, mixture_of
from duckplets.order.schedule import Events, Schedule
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import to_dict
from duckplets.runs import messages, negative_policy, state, versions
from duckplets.runs.default_mixture import Shares, shares
from duckplets.runs.fingerprint import differing, refuse_mismatch
from duckplets.runs.forecast import left_alone, oddities, omitted
from duckplets.runs.negative_policy import Drawn
from duckplets.runs.pool_loading import Left, Named, empty_pools, read_streams, without_empty
from duckplets.runs.reader import BatchReader
from duckplets.runs.sampler import Sampler
from duckplets.runs.settings import (
    Empty,
    Kind,
    RunSettings,
    check_overrides,
    checked_arguments,
    overridden,
    saved_settings,
    schedule_of,
)
from duckplets.runs.state import behind, unsavable
from duckplets.samples.columns import checked_columns
from duckplets.samples.fetch import Fetcher
from duckplets.samples.plan import SINGLE
from duckplets.samples.prefixes.prefixing import Prefixes
from duckplets.samples.stream import Stream
from duckplets.samples.vector_columns import RunVectors, checked_missing, pinned
from duckplets.serving.segments import Contents
from duckplets.serving.snapshot import Snapshot, fingerprint, serve

Recipe = recipe_store.Recipe
Found = tuple[list[Stream], list[Left]]
AnySampler = TypeVar("AnySampler", bound=Sampler)
# What else can be done about stale minings than to mine again.
_INSTEAD = (
    "; or draw at random instead, with by='random', or from these all the same, with "
    "allow_stale=True"
)


def open_run(
    database: Database,
    kind: Kind,
    *,
    recipes: Sequence[Recipe | str] | None,
    mixture: Mixture | Mapping[str, float] | str | Path | None,
    columns: Sequence[str] | None,
    long_sections: bool,
    state_path: Path,
    beside: bool,
    arguments: Mapping[str, Any],
    allow_stale: bool = False,
    empty: Empty | None = None,
    snapshot: Path | None = None,
) -> Sampler:
    """Open a new run at its first position; see ``Corpus.sampler``.

    ``beside``: whether its state file is the one beside the corpus, which nobody asked for.
    """
    arguments = checked_arguments(kind, {**arguments, "empty": empty})
    del arguments["empty"]
    missing = checked_missing(arguments.pop("vectors", "error"))
    notes = unsavable(state_path, asked=not beside)
    split = splits.checked_split(arguments["split"])
    split_settings = splits.need_splits(database)
    version = records.current_version(database)
    chunking = chunking_of(database)
    given, preset = None if mixture is None else mixture_of(mixture), arguments["preset"]
    if given is not None and given.omitted is None and preset == "crate":
        given = replace(given, omitted=1.0)
    if kind == "messages":
        if recipes is not None:
            raise SamplerError("recipes: messages have none; leave it out")
        resolved = messages.resolve(database, given or Mixture(), version)
    else:
        tokens = {"max_tokens": chunking["max_tokens"], "long_sections": long_sections}
        run = arguments | {"kind": kind}
        resolved = negative_policy.resolved(database, recipes, run, version, **tokens)
    if not resolved and arguments["pairs"] != "labelled":
        raise EmptyPoolError(
            f"{database.path} has no sources; ingest some text first: duckplets ingest "
            f"{database.path} FILE"
        )
    found = recipe_store.sources_of(database, version)
    usual = Mixture("equal" if preset == "crate" else "proportional")

    def mixed(given: Mixture | None) -> Shares:
        brought = {of_source.source: found[of_source.source] for of_source in resolved}
        if given is not None:
            given.check(sorted(brought))
        return shares(database, given, brought, split=split, version=version, usual=usual)

    if kind == "pairs" and arguments["pairs"] is None:
        drawn_from = Schedule(mixed(given).mixture, [*found], seed=0, batch=1).planned
        run["pairs"] = arguments["pairs"] = negative_policy.which_pairs(
            database, drawn_from, version
        )
        if run["pairs"] == "labelled":
            resolved = negative_policy.resolved(database, recipes, run, version, **tokens)
    if arguments["pairs"] == "labelled":
        negative_policy.check_labelled(database, arguments, given, version)
        given = given and given.of_known({of_source.source for of_source in resolved})
    drawn_by, sources = mixed(given), sorted(of_source.source for of_source in resolved)
    drawn_by.mixture.check(sources)
    notes += [*drawn_by.notes, *omitted(drawn_by.mixture, sources)]
    negatives, padded = arguments["negatives"], arguments["remainder"] == "pad"
    rejected = kind == "messages" and messages.has_pairs(database, sources, version)
    served = checked_columns(columns, kind, negatives, padded=padded, rejected=rejected)
    settings = RunSettings(
        **arguments,
        kind=kind,
        recipes={s.source: [to_dict(r) for r in s.recipes] for s in resolved},
        optional={s.source: sorted(s.optional) for s in resolved if s.optional},
        sources=sources,
        mixture=drawn_by.mixture.to_dict(),
        columns=served,
        vectors=pinned(Path(str(database.path)), served, missing),
        corpus_version=version,
        records=fingerprint(database, version),
        splits=split_settings.to_dict(),
        chunking=chunking,
        declared_prefixes=prefix_store.digest(database, version),
        index=drawn_by.index,
    )
    schedule = schedule_of(settings, None)
    drawn = negative_policy.with_mined(
        database, settings, {s.source: [r for r in s.recipes if r.weight] for s in resolved}
    )
    needed, stale = schedule.drawn, bool(allow_stale)
    pins = negative_policy.pins(
        database, settings, drawn, needed, allow_stale=stale, instead=_INSTEAD
    )
    settings = replace(settings, candidates=pins)
    notes += [] if kind in SINGLE else negative_policy.notes(database, settings, needed)
    given_recipes = {r.name for s in resolved for r in s.recipes} if recipes else set[str]()
    named = Named(empty, given.named if given else set(), given_recipes)
    return _opened(database, settings, None, state_path, notes, named=named, snapshot=snapshot)


def resume_run(
    database: Database,
    run: str,
    tag: str | None,
    state_path: Path,
    *,
    save_to: Path | None,
    allow_drift: Collection[str],
    overrides: Mapping[str, Any],
    version: versions.Version = None,
    snapshot: Path | None = None,
) -> Sampler:
    """Open a saved run where it was saved; see ``duckplets.resume``."""
    check_overrides(overrides)
    given = dict(overrides)
    missing = checked_missing(given.pop("vectors")) if "vectors" in given else None
    saved = state.load(state_path, run, tag)
    before = saved_settings(saved)
    versions.refuse_older(database, before)
    joining = versions.checked_version(database, before, version, saved.position)
    sources = versions.sources_with(database, before, joining)
    settings = overridden(before, negative_policy.given_anew(database, before, given, sources))
    current = splits.current_splits(database)
    now = replace(
        versions.as_found(database, settings, missing),
        splits=current.to_dict() if current else {},
        chunking=chunking_of(database),
    )
    target, asked = (state_path, False) if save_to is None else (save_to, True)
    notes = unsavable(target, asked=asked)

    def opened(*, edited: bool) -> Sampler:
        run, also = now, set[str]()
        if joining is not None:
            recipes, position = overrides.get("recipes"), saved.position
            run = versions.with_version(
                database, now, joining, position=position, events=saved.events, recipes=recipes
            )
        if edited and run.no_duplicates and run.epochs:
            was = replace(run, mixture=before.mixture)
            also = schedule_of(was, saved.events).planned
        return _opened(
            database,
            run,
            saved.events,
            target,
            notes,
            position=saved.position,
            also=also,
            snapshot=snapshot,
        )

    def joined(sampler: Sampler) -> None:
        if joining is not None:
            versions.tell(database, sampler, before)

    return resumed(
        saved,
        before,
        now,
        opened,
        lambda settings: schedule_of(settings, saved.events),
        allow_drift=allow_drift,
        joined=joined,
    )


def resumed(
    saved: state.Save,
    before: RunSettings,
    now: RunSettings,
    opened: Callable[..., AnySampler],
    dealt: Callable[[RunSettings], Schedule],
    *,
    allow_drift: Collection[str],
    joined: Callable[[AnySampler], None] | None = None,
) -> AnySampler:
    """Open a saved run with settings of now, where they deal all samples so far as it did.

    Args:
        saved: The save.
        before: Its settings.
        now: Those that it is to go on with.
        opened: Opens the run; ``edited``: whether its mixture is another.
        dealt: Returns how settings deal, with the weights that were set.
        allow_drift: Names of fingerprint fields that may differ.
        joined: Notes what has joined the run.

    Raises:
        StateMismatchError: Something differs that must agree.
    """
    edited: dict[str, str] = {}
    if now.mixture != before.mixture and "mixture" not in allow_drift:
        mixtures = (Mixture.from_dict(settings.mixture) for settings in (before, now))
        edited = {"mixture": differences(*mixtures)}
    found = now.fingerprint()
    told = {} if found == saved.fingerprint else differing(saved.settings, vars(now))
    refuse_mismatch(saved.fingerprint, found, allow_drift=allow_drift, told=told, edited=edited)
    sampler = opened(edited=bool(edited))
    try:
        if edited:
            was = replace(sampler.settings, mixture=before.mixture)
            _accept_edited(sampler, dealt(was), saved.position, edited["mixture"])
        if joined is not None:
            joined(sampler)
        sampler.go_on(
            saved.position,
            saved.events,
            saved.counts,
            drifted_from=saved.fingerprint,
            losses=saved.losses,
        )
    except BaseException:
        sampler.close()
        raise
    return sampler


def _accept_edited(sampler: Sampler, before: Schedule, position: int, told: str) -> None:
    """Accept the mixture of a run for that of the schedule before, from a position on."""
    changed, batch = sampler.first_change(before), sampler.settings.global_batch
    sampler.changed_from = changed
    if changed < position:
        raise StateMismatchError(
            f"this mixture would change samples from step {changed // batch}, but the run is at "
            f"step {-(-position // batch)}; use set_weights or a Phase from step "
            f"{-(-position // batch)}. What differs: {told}"
        )


def _opened(
    database: Database,
    settings: RunSettings,
    events: Events | None,
    state_path: Path,
    notes: Sequence[str],
    *,
    position: int = 0,
    also: Collection[str] = (),
    named: Named | None = None,
    snapshot: Path | None = None,
) -> Sampler:
    """Open a run of given settings at its first position, to be saved at ``state_path``.

    Args:
        database: The corpus.
        settings: Of the run.
        events: Weights that were set during it.
        state_path: Where it is saved.
        notes: What a user should know of it.
        position: Where it stands; a join whose step is open begins as soon after as it may.
        also: Sources whose pools are needed although the schedule does not draw from them.
        named: What a user has named of a new run; all else that has no anchor is left out of it,
            and noted.
        snapshot: Folder of the snapshot, where it is not to lie beside the corpus.
    """
    newest = settings.versions[-1]
    contents: Contents = "conversations" if settings.kind == "messages" else "chunks"
    vectors = RunVectors.of(database, newest, folder=snapshot)
    served = serve(database, newest.corpus_version, contents, settings.chunking, snapshot)
    kept, skip = served.snapshot, named is not None and named.empty != "error"

    def read(of: RunSettings, sources: Sequence[str], *, skip: bool = False) -> Found:
        own = vectors
        if of.vectors != newest.vectors:
            own = RunVectors.of(database, of, folder=snapshot)
        drawn = negative_policy.drawn_by(of)
        return _streams(database, own, of, drawn, sources, skip=skip, snapshot=kept)

    with closing(database.cursor()) as reading, ThreadPoolExecutor(1) as beside:
        reads = beside.submit(served.texts, reading, contents, settings.chunking)
        settings, planner, empty = versions.planned(
            database, settings, events, read, position=position, skip=skip, also=also
        )
    texts = reads.result()
    if named is not None and empty:
        if refused := named.refused(empty, planner.streams):
            raise empty_pools(refused)
        needed = sorted(planner.schedule.drawn)
        settings, notes = without_empty(settings, planner.streams, needed, notes, empty)
        planner.schedule = schedule_of(settings, None)
    # Refuse now what cannot be served at all.
    most, schedule = settings.global_batch, planner.schedule
    if settings.no_duplicates == "negatives":
        planner.plan(0, most if planner.end is None else min(planner.end, most))
    step = position // most
    later = (change for change, _ in schedule.changes if change > step)
    planner.check(schedule, [step, *later], settings.end(planner.epoch_start))
    prefixes = None
    if settings.prefixed:
        prefixes = Prefixes(database, versions.prefixes_of(database, settings), settings.seed)
    fetcher = (messages.MessageFetcher if contents == "conversations" else Fetcher)(
        database,
        planner.streams,
        kind=settings.kind,
        negatives=settings.negatives,
        columns=settings.columns,
        texts=texts,
        folder=kept.folder if kept else None,
        prefixes=prefixes,
        vectors=versions.vectors_of(settings, vectors),
    )
    if isinstance(fetcher, messages.MessageFetcher):
        fetcher.shape = messages.shape_of(database, newest.corpus_version)
    fetcher.padded_from = settings.padded_from(planner.epoch_start)
    end, prefetch = settings.end(planner.epoch_start), settings.prefetch
    reader = BatchReader(planner, fetcher, settings.rank_part(), end=end, prefetch=prefetch)
    open_source = partial(versions.add_source, settings, planner, read)
    sampler = Sampler(settings, reader, state_path, open_source)
    sampler.unused = negative_policy.unused_minings(database, settings, planner.streams)
    odd = [*left_alone(sampler.unused), *oddities(planner)]
    odd += [] if vectors is None else vectors.notes
    if not settings.rank:
        saved = behind(
            Path(str(database.path)), settings.run, settings.fingerprint(), state_path, position
        )
        sampler.notes += [*notes, *saved, *served.notes, *odd]
    return sampler


def _streams(database: Database, vectors: RunVectors | None, *of_run: Any, **how: Any) -> Found:
    """Read streams as ``open_streams`` does, and count the vectors that they lack."""
    if vectors is not None and vectors.texts is not None:
        how = {**how, "texts": vectors.texts}
    streams, empty = open_streams(database, *of_run, **how)
    if vectors is not None:
        vectors.check(database, streams)
    return streams, empty


def open_streams(
    database: Database,
    settings: RunSettings,
    drawn: Drawn,
    sources: Sequence[str],
    *,
    skip: bool = False,
    snapshot: Snapshot | None = None,
    texts: Words | None = None,
) -> Found:
    """Read the pools of all recipes that can be drawn of some sources.

    Args:
        database: The corpus.
        settings: Of the run.
        drawn: Its recipes.
        sources: Names of the sources.
        skip: Whether to leave out what is empty.
        snapshot: Keeps pools.
        texts: Hashes of those that samples may be of, ascending; None for all.

    Returns:
        The streams, and which recipes and sources were left out that somebody asked for, and why.

    Raises:
        EmptyPoolError: Sources have no recipe, or recipes no anchor: it names them all.
        StateMismatchError: Mined negatives are not there, or others than the run is pinned to.
    """
    if settings.kind == "messages":
        streams, empty = messages.open_streams(database, settings, sources, snapshot)
    else:
        none = [s for s in sources if not drawn[s]]
        empty = [Left(s, None, f"source {s!r} has no recipe to draw by") for s in none]
        named = [(source, recipe) for source in sources for recipe in drawn[source]]
        streams = read_streams(database, settings, named, empty, snapshot, texts) if named else []
    told = {stream.source for stream in streams} | {left.source for left in empty}
    none = [name for name in sources if name not in told]
    empty += [Left(n, None, f"no recipe of source {n!r} finds an anchor") for n in none]
    if empty and not skip:
        raise empty_pools(empty)
    return streams, empty
