"""Open runs: from a sampler's arguments, or a saved run, to a sampler.

Arguments become ``RunSettings``, with everything resolved: recipes of every source, weights, the
corpus version, and for mined negatives the number and digest of the mining that is current. A
saved run keeps them, so resuming resolves nothing anew, and what was ingested, mined or stored as a
recipe since changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from duckplets.db.database import Database
from duckplets.errors import (
    EmptyPoolError,
    SamplerError,
    StateMismatchError,
    nearest,
)
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import store as mining_store
from duckplets.order.mixture import Mixture, mixture_of
from duckplets.order.permute import ORDER_VERSION
from duckplets.order.ranks import batch_size_of
from duckplets.order.schedule import Events, Schedule
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import PoolReader
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.recipes import TripletRecipe
from duckplets.sampling import candidates, messages, state
from duckplets.sampling.blocks import Reader
from duckplets.sampling.columns import checked_columns, needs_scores
from duckplets.sampling.fetch import Fetcher, chunk_facts
from duckplets.sampling.plan import Planner, samples_per_draw
from duckplets.sampling.prefixes.prefixing import Prefixes
from duckplets.sampling.sampler import Sampler
from duckplets.sampling.settings import Kind, RunSettings, checked_arguments, checked_ranks
from duckplets.sampling.stream import Stream

Recipe = recipe_store.Recipe
Drawn = Mapping[str, Sequence[Recipe]]  # of every source the recipes that samples are drawn by


def open_run(
    database: Database,
    kind: Kind,
    *,
    recipes: Sequence[Recipe | str] | None,
    mixture: Mixture | Mapping[str, float] | None,
    columns: Sequence[str] | None,
    long_sections: bool,
    state_path: Path,
    arguments: Mapping[str, Any],
    allow_stale: bool = False,
) -> Sampler:
    """Open a new run at its first position; see ``Corpus.sampler``."""
    arguments = checked_arguments(kind, arguments)
    split = splits.checked_split(arguments["split"])
    split_settings = splits.need_splits(database)
    version = records.current_version(database)
    chunking = chunking_of(database)
    mixed = mixture_of(mixture)
    if kind == "messages":
        if recipes is not None:
            raise SamplerError("recipes: messages have none; leave it out")
        resolved = messages.resolve(database, mixed, version)
    else:
        resolved = recipe_store.resolve(
            database,
            recipes,
            kind=kind,
            split=split,
            version=version,
            max_tokens=chunking["max_tokens"],
            long_sections=long_sections,
        )
    if not resolved:
        raise EmptyPoolError(
            f"{database.path} has no sources; ingest some text first: duckplets ingest "
            f"{database.path} FILE"
        )
    sources = sorted(of_source.source for of_source in resolved)
    mixed.check(sources)
    negatives, padded = arguments["negatives"], arguments["remainder"] == "pad"
    rejected = kind == "messages" and messages.has_pairs(database, sources, version)
    settings = RunSettings(
        **arguments,
        kind=kind,
        recipes={s.source: [to_dict(r) for r in s.recipes] for s in resolved},
        optional={s.source: sorted(s.optional) for s in resolved if s.optional},
        sources=sources,
        mixture=mixed.to_dict(),
        columns=checked_columns(columns, kind, negatives, padded=padded, rejected=rejected),
        corpus_version=version,
        records=records.fingerprint(database, version),
        splits=asdict(split_settings),
        chunking=chunking,
        declared_prefixes=prefix_store.digest(database, version),
    )
    schedule = _schedule(settings, None)
    drawn = {s.source: [r for r in s.recipes if r.weight] for s in resolved}
    pins = _pins(database, settings, drawn, schedule.drawn, allow_stale=bool(allow_stale))
    return _opened(database, replace(settings, candidates=pins), drawn, schedule, state_path)


def resume_run(
    database: Database,
    run: str,
    tag: str | None,
    state_path: Path,
    *,
    allow_drift: Collection[str],
    overrides: Mapping[str, Any],
) -> Sampler:
    """Open a saved run where it was saved; see ``duckplets.resume``."""
    saved, cursor = state.load(state_path, run, tag)
    if saved.order_version != ORDER_VERSION:
        raise StateMismatchError(
            f"run {run!r} was saved with order version {saved.order_version}; this duckplets "
            f"draws in order version {ORDER_VERSION} and cannot continue it. Finish it with the "
            f"version it was started with"
        )
    settings = _overridden(_settings(saved), overrides)
    if settings.corpus_version > records.current_version(database):
        raise StateMismatchError(
            f"run {run!r} is pinned to corpus version {settings.corpus_version}, but "
            f"{database.path} is at {records.current_version(database)}: it is another file"
        )
    current = splits.current_splits(database)
    now = replace(
        settings,
        records=records.fingerprint(database, settings.corpus_version),
        splits=asdict(current) if current else {},
        chunking=chunking_of(database),
        declared_prefixes=prefix_store.digest(database, settings.corpus_version),
    )
    state.refuse_mismatch(saved.fingerprint, now.fingerprint(), allow_drift=allow_drift)
    sampler = _opened(database, now, _drawn(now), _schedule(now, saved.events), state_path)
    sampler.go_on(cursor.position, saved.events, cursor.counts, drifted_from=saved.fingerprint)
    return sampler


def _opened(
    database: Database, settings: RunSettings, drawn: Drawn, schedule: Schedule, state_path: Path
) -> Sampler:
    """Open a run of given settings at its first position, to be saved at ``state_path``."""
    is_messages = settings.kind == "messages"
    read_facts = messages.conversation_facts if is_messages else chunk_facts
    with closing(database.cursor()) as reading, ThreadPoolExecutor(1) as beside:
        facts = beside.submit(read_facts, reading, settings.chunking)
        streams = open_streams(database, settings, drawn, sorted(schedule.drawn))
    planner = Planner(
        streams,
        schedule,
        kind=settings.kind,
        seed=settings.seed,
        swap=settings.swap,
        distinct_batch=settings.global_batch if settings.no_duplicates else 0,
    )
    prefixes = None
    if settings.prefixed:
        prefixes = Prefixes(database, settings.corpus_version, settings.seed)
    fetcher = (messages.MessageFetcher if is_messages else Fetcher)(
        database,
        planner.streams,
        kind=settings.kind,
        negatives=settings.negatives,
        columns=settings.columns,
        facts=facts.result(),
        prefixes=prefixes,
    )
    # Ignore steps here: rearranging may use samples past them, so other steps alter no batch.
    planner.end = replace(settings, steps=None).end(planner.epoch_length)
    fetcher.padded_from = settings.padded_from(planner.epoch_length)
    end, prefetch = settings.end(planner.epoch_length), settings.prefetch
    reader = Reader(planner, fetcher, settings.rank_part(), end=end, prefetch=prefetch)

    def open_source(name: str) -> list[Stream]:
        return open_streams(database, settings, drawn, [name])

    return Sampler(settings, reader, state_path, open_source)


def open_streams(
    database: Database, settings: RunSettings, drawn: Drawn, sources: Sequence[str]
) -> list[Stream]:
    """Read the pools of all recipes that can be drawn of some sources.

    Raises:
        EmptyPoolError: A source has no recipe, or a recipe no anchor.
        StateMismatchError: Mined negatives are not there, or others than the run is pinned to.
    """
    if settings.kind == "messages":
        return messages.open_streams(database, settings, sources)
    compiled = []
    for source in sources:
        recipes = drawn[source]
        if not recipes:
            raise EmptyPoolError(
                f"source {source!r} has no recipe to draw by; give one for it, or give the "
                f"source weight 0 in mixture="
            )
        compiled += [_compiled(database, settings, source, recipe) for recipe in recipes]
    streams = []
    scores = needs_scores(settings.columns)
    with PoolReader(database, [pool for pool, _ in compiled]) as reader:
        for pool, mining in compiled:
            source = pool.parameters["source"]
            try:
                read = reader.read(pool)
            except EmptyPoolError:
                if pool.recipe.name in settings.optional.get(source, []):
                    continue
                raise
            mined = None
            if mining is not None:
                mined = candidates.read(database, read, mining, scores=scores)
            streams.append(Stream(source, read, settings.seed, settings.negatives, mined))
    return streams


def _pins(
    database: Database,
    settings: RunSettings,
    drawn: Drawn,
    needed: Collection[str],
    *,
    allow_stale: bool,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the number and digest of the mining of every mined recipe, by source.

    Args:
        database: The corpus.
        settings: Of the run.
        drawn: Its recipes.
        needed: Sources that it draws from; of others what is missing or stale is left out.
        allow_stale: Whether to take minings of other records than those of the run.

    Raises:
        StateMismatchError: Negatives were not mined, or are stale.
    """
    pins: dict[str, dict[str, dict[str, Any]]] = {}
    for source in settings.sources:
        for recipe in drawn[source]:
            if not (isinstance(recipe, TripletRecipe) and recipe.mined):
                continue
            try:
                mining = mining_store.current(
                    database,
                    recipe,
                    source=source,
                    split=settings.split,
                    version=settings.corpus_version,
                    allow_stale=allow_stale,
                )
            except StateMismatchError:
                if source in needed:
                    raise
                continue
            found = {"mining": mining.key, "digest": mining.digest}
            pins.setdefault(source, {})[recipe.name] = found
    return pins


def _drawn(settings: RunSettings) -> Drawn:
    """Return the recipes of a saved run."""
    return {
        source: [recipe for recipe in map(from_dict, definitions) if recipe.weight]
        for source, definitions in settings.recipes.items()
    }


def _compiled(
    database: Database, settings: RunSettings, source: str, recipe: Recipe
) -> tuple[CompiledPool, mining_store.Mining | None]:
    mined = isinstance(recipe, TripletRecipe) and recipe.mined
    mining = _pinned(database, settings, source, recipe.name) if mined else None
    pool = compile_pool(
        recipe,
        source=source,
        split=settings.split,
        version=settings.corpus_version,
        negatives=settings.negatives,
        mining=mining.key if mining else 0,
    )
    return pool, mining


def _pinned(
    database: Database, settings: RunSettings, source: str, recipe: str
) -> mining_store.Mining:
    named = settings.candidates.get(source, {}).get(recipe)
    if named is None:
        raise StateMismatchError(
            f"source {source!r}, recipe {recipe!r}: there were no mined negatives when run "
            f"{settings.run!r} was opened; call corpus.mine(), and open another run"
        )
    mining = mining_store.by_key(database, named["mining"])
    if mining.digest != named["digest"]:
        raise StateMismatchError(
            f"source {source!r}, recipe {recipe!r}: the negatives of mining {mining.key} are not "
            f"those run {settings.run!r} was opened with (digest then: {named['digest']}, now: "
            f"{mining.digest}); it is another file"
        )
    return mining


def _schedule(settings: RunSettings, events: Events | None) -> Schedule:
    return Schedule(
        Mixture.from_dict(settings.mixture),
        settings.sources,
        seed=settings.seed,
        batch=settings.global_batch,
        samples_per_draw=samples_per_draw(settings.kind, settings.negatives),
        events=events,
    )


def _settings(saved: state.Run) -> RunSettings:
    try:
        return RunSettings(**saved.settings)
    except TypeError:
        known = {field.name for field in fields(RunSettings)}
        differ = sorted(known.symmetric_difference(saved.settings))
        raise StateMismatchError(
            f"run {saved.name!r} was saved by another version of duckplets, whose settings differ "
            f"in {', '.join(differ)}; finish it with that version, or start a new run"
        ) from None


def _overridden(settings: RunSettings, overrides: Mapping[str, Any]) -> RunSettings:
    known = [field.name for field in fields(RunSettings)]
    for name in overrides:
        if name not in known:
            raise SamplerError(f"resume: no argument {name!r}{nearest(name, known)}")
    overridden = replace(settings, **overrides)
    if "world_size" in overrides and "batch_size" not in overrides:
        checked_ranks(overridden.rank, overridden.world_size)
        size = batch_size_of(settings.global_batch, overridden.world_size)
        overridden = replace(overridden, batch_size=size)
    overridden = replace(overridden, **checked_arguments(overridden.kind, vars(overridden)))
    columns = overridden.columns
    if overrides.get("remainder") == "pad" and "columns" not in overrides:
        columns = [*columns, "padded"]
    columns = checked_columns(columns, overridden.kind, overridden.negatives)
    return replace(overridden, columns=columns)
