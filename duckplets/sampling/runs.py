"""Runs: from a sampler's arguments, or a saved run, to a sampler.

Arguments become ``RunSettings``, plain values with everything resolved: recipes of every source,
weights, the corpus version. A saved run keeps them, so resuming resolves nothing anew and what
was ingested since, or stored as a recipe, changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_args

from duckplets.base.checks import integer
from duckplets.db.database import Database
from duckplets.errors import (
    EmptyPoolError,
    SamplerError,
    SplitError,
    StateMismatchError,
    nearest,
)
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.order.mixture import Mixture, mixture_of
from duckplets.order.permute import ORDER_VERSION
from duckplets.order.ranks import batch_size_of
from duckplets.order.schedule import Events, Schedule
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import to_dict
from duckplets.sampling import messages, state
from duckplets.sampling.blocks import Reader
from duckplets.sampling.columns import checked_columns
from duckplets.sampling.fetch import Facts, Fetcher, chunk_facts
from duckplets.sampling.plan import SINGLE, Planner, samples_per_draw
from duckplets.sampling.prefixes.prefixing import Prefixes
from duckplets.sampling.sampler import Sampler
from duckplets.sampling.settings import Kind, Remainder, RunSettings
from duckplets.sampling.stream import Stream
from duckplets.sampling.streams import open_streams, pin

Recipe = recipe_store.Recipe


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
    arguments = _checked(kind, arguments)
    split = splits.checked_split(arguments["split"])
    split_settings = splits.current_splits(database)
    if split_settings is None:
        raise SplitError(
            f"the corpus has no splits yet; call corpus.split(…), or run: "
            f"duckplets split {database.path}"
        )
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
    drawn = _schedule(settings, None).drawn
    pins = pin(database, settings, drawn, allow_stale=bool(allow_stale))
    return open_settings(database, replace(settings, candidates=pins), state_path)


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
    sampler = open_settings(database, now, state_path, events=saved.events)
    sampler.go_on(cursor.position, saved.events, cursor.counts, drifted_from=saved.fingerprint)
    return sampler


def open_settings(
    database: Database,
    settings: RunSettings,
    state_path: Path,
    *,
    events: Events | None = None,
) -> Sampler:
    """Open a run of given settings at its first position.

    Args:
        database: The corpus.
        settings: All of them.
        state_path: Where the run is saved.
        events: Weights that were set during the run.
    """
    with ThreadPoolExecutor(1) as beside:
        facts = beside.submit(_facts, database.cursor(), settings)
        schedule = _schedule(settings, events)
        streams = _streams(database, settings, sorted(schedule.drawn))
    planner = Planner(
        streams,
        schedule,
        kind=settings.kind,
        seed=settings.seed,
        swap=settings.swap,
        distinct_batch=settings.global_batch if settings.no_duplicates else 0,
    )
    fetcher = (messages.MessageFetcher if settings.kind == "messages" else Fetcher)(
        database,
        planner.streams,
        kind=settings.kind,
        negatives=settings.negatives,
        columns=settings.columns,
        facts=facts.result(),
        prefixes=_prefixes(database, settings),
    )
    # What lies beyond a number of steps may be mixed in: so they change no batch before.
    planner.end = replace(settings, steps=None).end(planner.epoch_length)
    fetcher.padded_from = settings.padded_from(planner.epoch_length)
    end, prefetch = settings.end(planner.epoch_length), settings.prefetch
    reader = Reader(planner, fetcher, settings.rank_part(), end=end, prefetch=prefetch)

    def open_source(name: str) -> list[Stream]:
        return _streams(database, settings, [name])

    return Sampler(settings, reader, state_path, open_source)


def _streams(database: Database, settings: RunSettings, sources: Sequence[str]) -> list[Stream]:
    opened = messages.open_streams if settings.kind == "messages" else open_streams
    return opened(database, settings, sources)


def _facts(database: Database, settings: RunSettings) -> Facts:
    read = messages.conversation_facts if settings.kind == "messages" else chunk_facts
    return read(database, settings.chunking)


def _prefixes(database: Database, settings: RunSettings) -> Prefixes | None:
    if not settings.prefixed:
        return None
    return Prefixes(database, settings.corpus_version, settings.seed)


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
        _checked_ranks(overridden.rank, overridden.world_size)
        size = batch_size_of(settings.global_batch, overridden.world_size)
        overridden = replace(overridden, batch_size=size)
    overridden = replace(overridden, **_checked(overridden.kind, asdict(overridden)))
    columns = overridden.columns
    if overrides.get("remainder") == "pad" and "columns" not in overrides:
        columns = [*columns, "padded"]
    columns = checked_columns(columns, overridden.kind, overridden.negatives)
    return replace(overridden, columns=columns)


def _checked(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with plain integers, if all of them are right."""
    if kind not in get_args(Kind):
        raise SamplerError(
            f"kind={kind!r}{nearest(str(kind), get_args(Kind))}: give one of "
            f"{', '.join(get_args(Kind))}"
        )
    least = {"batch_size": 1, "negatives": 1, "prefetch": 0, "steps": 0, "epochs": 0, "seed": None}
    plain = {
        name: integer(name, arguments[name], low)
        for name, low in least.items()
        if arguments[name] is not None or name not in ("steps", "epochs")
    }
    plain |= _checked_ranks(arguments["rank"], arguments["world_size"])
    if arguments["remainder"] not in get_args(Remainder):
        raise SamplerError(
            f"remainder={arguments['remainder']!r}: give one of {', '.join(get_args(Remainder))}"
        )
    if kind in SINGLE and arguments["negatives"] != 1:
        raise SamplerError(f"negatives: {kind} have none; leave it at 1")
    if not isinstance(arguments.get("prefixes", True), bool):
        raise SamplerError(f"prefixes={arguments['prefixes']!r}: give True or False")
    run = arguments["run"]
    if not isinstance(run, str) or not run.strip() or not run.isprintable():
        raise SamplerError(f"run={run!r}: give a printable name")
    return dict(arguments) | plain | {"log": _checked_log(arguments["log"])}


def _checked_log(log: Any) -> str | None:
    if log is not None and not (isinstance(log, str | Path) and str(log)):
        raise SamplerError(f"log={log!r}: give the path of a folder")
    return None if log is None else str(log)


def _checked_ranks(rank: Any, world_size: Any) -> dict[str, int]:
    world_size, rank = integer("world_size", world_size, 1), integer("rank", rank, 0)
    if rank >= world_size:
        raise SamplerError(
            f"rank={rank}: with world_size={world_size} give one from 0 to {world_size - 1}"
        )
    return {"rank": rank, "world_size": world_size}
