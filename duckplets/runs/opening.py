"""Open runs: from a sampler's arguments, or a saved run, to a sampler.

    arguments ─→ RunSettings ─read→ pools, texts ─→ streams ─→ planner, fetcher ─→ reader ─→ Sampler
    saved run ─┘

Arguments become ``RunSettings``, with everything resolved: recipes of every source, weights, the
corpus version, and for mined negatives the number and digest of the mining that is current. A
saved run keeps them, so resuming resolves nothing anew, and what was ingested, mined or stored as a
recipe since changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from duckplets.db.database import Database
from duckplets.errors import EmptyPoolError, SamplerError, StateMismatchError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.order.mixture import Mixture, differences, mixture_of
from duckplets.order.schedule import Events, Schedule
from duckplets.recipes import store as recipe_store
from duckplets.runs import labelled_pairs, messages, negative_policy, state, versions
from duckplets.runs.default_mixture import shares
from duckplets.runs.fingerprint import differing, refuse_mismatch
from duckplets.runs.forecast import left_alone, oddities, omitted
from duckplets.runs.pool_loading import (
    Named,
    in_words,
    open_streams,
    plan_of,
    with_lengths,
)
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
from duckplets.samples.plan import SINGLE, Planner
from duckplets.samples.prefixes import Prefixes
from duckplets.samples.vector_columns import RunVectors, pinned
from duckplets.serving.segments import Contents
from duckplets.serving.snapshot import fingerprint, serve

Recipe = recipe_store.Recipe

_ALL = Named("error")  # a saved run needs all that it has
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
    run = checked_arguments(kind, {**arguments, "kind": kind, "empty": empty})
    empty, missing = run.pop("empty"), run.pop("vectors", "error")
    notes = unsavable(state_path, asked=not beside)
    split, preset = splits.checked_split(run["split"]), run["preset"]
    split_settings, chunking = splits.need_splits(database), chunking_of(database)
    version = records.current_version(database)
    found = recipe_store.sources_of(database, version)
    given = None if mixture is None else mixture_of(mixture)
    if given is not None and given.omitted is None and preset == "crate":
        given = replace(given, omitted=1.0)
    usual = Mixture("equal" if preset == "crate" else "proportional")
    deal = partial(shares, database, split=split, version=version, usual=usual)

    if kind == "messages":
        if recipes is not None:
            raise SamplerError("recipes: messages have none; leave it out")
        resolved = messages.resolve(database, given or Mixture(), version)
        found = {of_source.source: found[of_source.source] for of_source in resolved}
    else:
        resolved = recipe_store.resolve(
            database,
            recipes,
            kind=kind,
            split=split,
            version=version,
            preset=preset,
            max_tokens=chunking["max_tokens"],
            long_sections=long_sections,
            sources=found,
        )
    if not resolved:
        raise EmptyPoolError(
            f"{database.path} has no sources; ingest some text first: duckplets ingest "
            f"{database.path} FILE"
        )
    if given is not None:
        given.check([*found])
    mixed = deal(given, found)
    if kind == "pairs":
        if run["pairs"] is None:
            drawn = mixed.mixture.drawn([*found])
            run["pairs"] = labelled_pairs.which_pairs(database, drawn, version)
        if run["pairs"] == "labelled":
            labelled_pairs.check_labelled(database, run | {"version": version}, given, found)
            resolved = labelled_pairs.labelled(database, resolved, version)
            found = {of_source.source: found[of_source.source] for of_source in resolved}
            given = given and given.of_known(found)
            mixed = deal(given, found)
    by_source: dict[str, Sequence[Recipe]] = {}
    optional: dict[str, list[str]] = {}
    for of_source in resolved:
        by_source[of_source.source] = of_source.recipes
        if of_source.optional:
            optional[of_source.source] = sorted(of_source.optional)
    sources = sorted(by_source)
    if mixed.mixture is not usual:
        mixed.mixture.check(sources)
    notes += [*mixed.notes, *omitted(mixed.mixture, sources)]
    rejected = kind == "messages" and messages.has_pairs(database, sources, version)
    padded = run["remainder"] == "pad"
    columns = checked_columns(columns, kind, run["negatives"], padded=padded, rejected=rejected)
    settings = RunSettings(
        **run,
        recipes=by_source,
        optional=optional,
        sources=sources,
        mixture=mixed.mixture,
        columns=columns,
        vectors=pinned(Path(str(database.path)), columns, missing),
        corpus_version=version,
        records=fingerprint(database, version),
        splits=split_settings.to_dict(),
        chunking=chunking,
        declared_prefixes=prefix_store.digest(database, version),
        index=mixed.index,
    )
    if kind not in SINGLE:
        drawn_by = negative_policy.with_mined(database, settings, by_source)
        stale = bool(allow_stale)
        pins = negative_policy.pins(
            database, settings, drawn_by, allow_stale=stale, instead=_INSTEAD
        )
        settings = replace(settings, candidates=pins)
        if settings.by is not None:
            notes += negative_policy.notes(database, settings)
    names = {recipe.name for of in by_source.values() for recipe in of} if recipes else ()
    named = Named(empty, given.named if given else (), names)
    return _opened(database, settings, {}, state_path, notes, named=named, snapshot=snapshot)


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
    missing = given.pop("vectors", None)
    saved = state.load(state_path, run, tag)
    before = saved_settings(saved)
    joining = versions.checked_version(database, before, version, saved.position)
    sources = versions.sources_with(database, before, joining)
    settings = overridden(before, _given_anew(database, before, given, sources))
    current = splits.current_splits(database)
    now = replace(
        versions.as_found(database, settings, missing),
        splits=current.to_dict() if current else {},
        chunking=chunking_of(database),
    )
    target, asked = (state_path, False) if save_to is None else (save_to, True)
    notes = unsavable(target, asked=asked)
    edited = edited_in(saved, before, now, allow_drift)
    position, also = saved.position, set[str]()
    if joining is not None:
        recipes = overrides.get("recipes")
        now = versions.with_version(
            database, now, joining, position=position, events=saved.events, recipes=recipes
        )
    if edited and now.no_duplicates and now.epochs:
        also = schedule_of(replace(now, mixture=before.mixture), saved.events).planned
    sampler = _opened(
        database,
        now,
        saved.events,
        target,
        notes,
        position=position,
        also=also,
        snapshot=snapshot,
    )
    was = None
    if edited:
        was = schedule_of(replace(sampler.settings, mixture=before.mixture), saved.events)
    take_up(sampler, saved, was, edited)
    try:
        sampler.unused = negative_policy.unused_minings(database, now, sampler._planner.streams)
        if not now.rank:
            sampler.notes += left_alone(sampler.unused)
        if joining is not None:
            versions.tell(database, sampler, before)
    except BaseException:
        sampler.close()
        raise
    return sampler


def _given_anew(
    database: Database,
    settings: RunSettings,
    overrides: Mapping[str, Any],
    sources: Sequence[str],
) -> dict[str, Any]:
    """Return what is given anew, with recipes and mixture of ``sources`` as settings hold them."""
    unset = ("recipes", "mixture", "swap", "by", "pairs")
    given = {n: v for n, v in overrides.items() if not (n in unset and v is None)}
    if "split" in given:
        given["split"] = splits.checked_split(given["split"])
    if "mixture" in given:
        given["mixture"] = mixture_of(given["mixture"])
        given["mixture"].check(sources)
    if "recipes" in given:
        if settings.kind == "messages":
            raise SamplerError("recipes: messages have none; leave it out")
        also = [recipe for of in settings.recipes.values() for recipe in of]
        version, anew = settings.corpus_version, given["recipes"]
        resolved = labelled_pairs.resolved(database, anew, settings, version, also)
        given["recipes"] = {of_source.source: of_source.recipes for of_source in resolved}
    return given


def edited_in(
    saved: state.Save, before: RunSettings, now: RunSettings, allow_drift: Collection[str]
) -> str:
    """Return in words what differs in the mixture of a saved run's settings of now.

    Raises:
        StateMismatchError: Something else differs that must agree.
    """
    edited = ""
    if now.mixture != before.mixture and "mixture" not in allow_drift:
        # A word that is given anew says the same, and what it means is found when streams are.
        edited = differences(before.mixture, now.mixture) or "what its word means"
    found = now.fingerprint()
    refuse_mismatch(
        saved.fingerprint,
        found,
        allow_drift=allow_drift,
        told={} if found == saved.fingerprint else differing(saved.settings, now.plain()),
        edited={"mixture": edited} if edited else {},
    )
    return edited


def take_up(sampler: Sampler, saved: state.Save, before: Schedule | None, edited: str) -> None:
    """Let a run go on where it was saved, or close it.

    Args:
        sampler: Of the run, just opened.
        saved: The save.
        before: Where its mixture was edited, how it dealt with the one before.
        edited: What differs then.

    Raises:
        StateMismatchError: A sample before its position would be another.
    """
    try:
        if before is not None:
            changed, batch = sampler.first_change(before), sampler.settings.global_batch
            sampler.changed_from, step = changed, -(-saved.position // batch)
            if changed < saved.position:
                raise StateMismatchError(
                    f"this mixture would change samples from step {changed // batch}, but the run "
                    f"is at step {step}; use set_weights or a Phase from step {step}. What "
                    f"differs: {edited}"
                )
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


def _opened(
    database: Database,
    settings: RunSettings,
    events: Events,
    state_path: Path,
    notes: Sequence[str],
    *,
    position: int = 0,
    also: Collection[str] = (),
    named: Named = _ALL,
    snapshot: Path | None = None,
) -> Sampler:
    """Open a run of given settings at its first position, to be saved at ``state_path``.

    Args:
        database: The corpus.
        settings: Of the run.
        events: Weights that were set during it.
        state_path: Where it is saved.
        notes: What a user should know of it.
        position: Where it stands.
        also: Sources whose pools are needed although the schedule does not draw from them.
        named: What must have an anchor; all else that has none is left out, and noted.
        snapshot: Folder of the snapshot, where it is not to lie beside the corpus.
    """
    newest = settings.versions[-1]
    contents: Contents = "conversations" if settings.kind == "messages" else "chunks"
    vectors, path = None, Path(str(database.path))
    if newest.vectors:
        vectors = RunVectors(path, newest, snapshot)
    served = serve(database, newest.corpus_version, contents, settings.chunking, snapshot)
    read = partial(open_streams, database, vectors, served.snapshot)
    with closing(database.cursor()) as reading, ThreadPoolExecutor(1) as beside:
        reads = beside.submit(served.texts, reading, contents, settings.chunking)
        planner: Planner
        if settings.joins:
            settings, planner = versions.planned(database, settings, events, read, position)
        else:
            drawn = settings.mixture.drawn(settings.sources, events)
            streams, empty = read(settings, drawn | {*also})
            settings = with_lengths(settings, streams)
            if empty:
                settings = named.without_empty(settings, streams, empty)
                notes = [*notes, f"what has no anchor is left out: {in_words(empty)}"]
            planner = plan_of(database, settings, streams, schedule_of(settings, events))
        texts = reads.result()
    end = settings.end(planner.epoch_start)
    if settings.no_duplicates:
        _refuse_unfillable(settings, planner, position, end)
    prefixes = None
    if settings.prefixed:
        prefixes = Prefixes(database, versions.prefixes_of(database, settings), settings.seed)
    if settings.joins and vectors is not None:
        vectors.join(settings)
    parse = None
    if contents == "conversations":
        shape = messages.shape_of(database, newest.corpus_version)
        parse = messages.MessageParser(shape, settings.columns)
    fetcher = Fetcher(
        database,
        planner.streams,
        kind=settings.kind,
        negatives=settings.negatives,
        columns=settings.columns,
        texts=texts,
        folder=served.snapshot.folder if served.snapshot else None,
        prefixes=prefixes,
        vectors=vectors,
        parse=parse,
    )
    fetcher.padded_from = settings.padded_from(planner.epoch_start)
    part, prefetch = settings.rank_part(), settings.prefetch
    reader = BatchReader(planner, fetcher, part, end=end, prefetch=prefetch)
    open_source = partial(versions.add_source, settings, planner, read)
    sampler = Sampler(settings, reader, state_path, open_source)
    if not settings.rank:
        saved = []
        if state_path.exists():
            saved = behind(path, settings.run, settings.fingerprint(), state_path, position)
        sampler.notes += [*notes, *saved, *served.notes, *oddities(planner)]
        sampler.notes += [] if vectors is None else vectors.notes
    return sampler


def _refuse_unfillable(
    settings: RunSettings, planner: Planner, position: int, end: int | None
) -> None:
    """Refuse now batches whose texts cannot differ at all.

    Raises:
        RecipeError: What is drawn has too few different texts.
    """
    batch, schedule = settings.global_batch, planner.schedule
    if settings.no_duplicates == "negatives":
        planner.plan(0, batch if planner.end is None else min(planner.end, batch))
    step = position // batch
    later = (change for change, _ in schedule.changes if change > step)
    planner.check(schedule, [step, *later], end)
