"""Runs: from a sampler's arguments, or a saved run, to a sampler.

Arguments become ``RunSettings``, plain values with everything resolved: recipes of every source,
weights, the corpus version. A saved run keeps them, so resuming resolves nothing anew and what
was ingested since, or stored as a recipe, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_args

from duckplets import recipe_store, records, splits, state
from duckplets.chunks import fingerprint as chunking_of
from duckplets.compile import compile_pool
from duckplets.database import Database
from duckplets.draw import Stream
from duckplets.errors import (
    EmptyPoolError,
    MixtureError,
    SamplerError,
    SplitError,
    StateMismatchError,
    nearest,
)
from duckplets.fetch import ChunkIndex, Fetcher, checked_columns
from duckplets.order import ORDER_VERSION
from duckplets.plan import Planner
from duckplets.pools import PoolReader
from duckplets.recipe_files import from_dict, to_dict
from duckplets.run_settings import Kind, Remainder, RunSettings
from duckplets.sampler import Sampler

Recipe = recipe_store.Recipe


def open_run(
    database: Database,
    kind: Kind,
    *,
    recipes: Sequence[Recipe | str] | None,
    mixture: Mapping[str, float] | None,
    columns: Sequence[str] | None,
    long_sections: bool,
    state_path: Path,
    arguments: Mapping[str, Any],
) -> Sampler:
    """Open a new run at its first position; see ``Corpus.sampler``."""
    _check(kind, arguments)
    split = splits.checked_split(arguments["split"])
    split_settings = splits.current_splits(database)
    if split_settings is None:
        raise SplitError(
            f"the corpus has no splits yet; call corpus.split(…), or run: "
            f"duckplets split {database.path}"
        )
    version = records.current_version(database)
    chunking = chunking_of(database)
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
    weights = _weights(mixture, [of_source.source for of_source in resolved])
    settings = RunSettings(
        **arguments,
        kind=kind,
        recipes={s.source: [to_dict(r) for r in s.recipes] for s in resolved},
        weights=weights,
        columns=checked_columns(
            columns, kind, arguments["negatives"], padded=arguments["remainder"] == "pad"
        ),
        corpus_version=version,
        records=records.fingerprint(database, version),
        splits=asdict(split_settings),
        chunking=chunking,
    )
    optional = {(s.source, name) for s in resolved for name in s.optional}
    return _sampler(database, settings, state_path, optional)


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
    settings = _overridden(RunSettings(**saved.settings), overrides)
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
    )
    state.refuse_mismatch(saved.fingerprint, now.fingerprint(), allow_drift=allow_drift)
    sampler = _sampler(database, now, state_path, set())
    sampler.drifted_from = saved.fingerprint
    sampler.move(cursor.position)
    return sampler


def _sampler(
    database: Database, settings: RunSettings, state_path: Path, optional: set[tuple[str, str]]
) -> Sampler:
    with ThreadPoolExecutor(1) as beside:
        index = beside.submit(ChunkIndex, database.cursor(), settings.chunking)
        streams = _streams(database, settings, optional)
    drawn = {
        name: [to_dict(s.recipe) for s in streams if s.source == name] for name in settings.recipes
    }
    settings = replace(settings, recipes=drawn)
    planner = Planner(
        streams,
        settings.weights,
        kind=settings.kind,
        seed=settings.seed,
        swap=settings.swap,
        distinct_batch=settings.batch_size if settings.no_duplicates else 0,
    )
    fetcher = Fetcher(
        database,
        streams,
        kind=settings.kind,
        negatives=settings.negatives,
        columns=settings.columns,
        index=index.result(),
    )
    return Sampler(settings, planner, fetcher, state_path)


def _streams(
    database: Database, settings: RunSettings, optional: set[tuple[str, str]]
) -> list[Stream]:
    """Read the pools of all recipes that can be drawn."""
    compiled = []
    for source, weight in settings.weights.items():
        recipes = [from_dict(d) for d in settings.recipes[source]] if weight else []
        recipes = [recipe for recipe in recipes if recipe.weight]
        if weight and not recipes:
            raise EmptyPoolError(
                f"source {source!r} has no recipe to draw by; give one for it, or give the "
                f"source weight 0 in mixture="
            )
        compiled += [
            compile_pool(
                recipe,
                source=source,
                split=settings.split,
                version=settings.corpus_version,
                negatives=settings.negatives,
            )
            for recipe in recipes
        ]
    streams = []
    with PoolReader(database, compiled) as reader:
        for pool in compiled:
            source = pool.parameters["source"]
            try:
                read = reader.read(pool)
            except EmptyPoolError:
                if (source, pool.recipe.name) in optional:
                    continue
                raise
            streams.append(Stream(source, read, settings.seed, settings.negatives))
    return streams


def _overridden(settings: RunSettings, overrides: Mapping[str, Any]) -> RunSettings:
    known = [field.name for field in fields(RunSettings)]
    for name in overrides:
        if name not in known:
            raise SamplerError(f"resume: no argument {name!r}{nearest(name, known)}")
    overridden = replace(settings, **overrides)
    _check(overridden.kind, asdict(overridden))
    columns = checked_columns(overridden.columns, overridden.kind, overridden.negatives)
    return replace(overridden, columns=columns)


def _weights(mixture: Mapping[str, float] | None, sources: Sequence[str]) -> dict[str, float]:
    """Return the weight of every source: 1 where none is given."""
    if mixture is not None and not isinstance(mixture, Mapping):
        raise MixtureError(
            f"mixture={mixture!r}: give a weight for each name, as in {{'web': 0.7}}"
        )
    for name, weight in (mixture or {}).items():
        if name not in sources:
            raise MixtureError(
                f"mixture: no source {name!r}{nearest(name, sources)}; there are: "
                f"{', '.join(sources)}"
            )
        wrong = isinstance(weight, bool) or not isinstance(weight, int | float)
        if wrong or not math.isfinite(weight) or weight < 0:
            raise MixtureError(f"mixture: source {name!r} has weight {weight!r}; give 0 or more")
    weights = {name: float((mixture or {}).get(name, 1)) for name in sources}
    if not any(weights.values()):
        raise MixtureError("mixture: every source has weight 0; give at least one more than that")
    return weights


def _check(kind: str, arguments: Mapping[str, Any]) -> None:
    if kind not in get_args(Kind):
        raise SamplerError(
            f"kind={kind!r}{nearest(str(kind), get_args(Kind))}: give one of "
            f"{', '.join(get_args(Kind))}"
        )
    least = {"batch_size": 1, "negatives": 1, "prefetch": 0, "steps": 0, "epochs": 0, "seed": None}
    for name, low in least.items():
        value = arguments[name]
        if value is None and name in ("steps", "epochs"):
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise SamplerError(f"{name}={value!r}: give an integer")
        if low is not None and value < low:
            raise SamplerError(f"{name}={value}: give an integer from {low}")
    if arguments["remainder"] not in get_args(Remainder):
        raise SamplerError(
            f"remainder={arguments['remainder']!r}: give one of {', '.join(get_args(Remainder))}"
        )
    if kind == "texts" and arguments["negatives"] != 1:
        raise SamplerError("negatives: texts have none; leave it at 1")
    run = arguments["run"]
    if not isinstance(run, str) or not run.strip() or not run.isprintable():
        raise SamplerError(f"run={run!r}: give a printable name")
