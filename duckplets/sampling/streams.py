"""Streams of a run: the pools of its recipes, and the mined negatives it is pinned to.

A new run draws from the mining that is current; its number and digest are settings of the run, so
that a resumed one draws from the same, however often negatives were mined since.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from duckplets.db.database import Database
from duckplets.errors import EmptyPoolError, StateMismatchError
from duckplets.mining import minings
from duckplets.mining.minings import Mining
from duckplets.pools.arrays import Pool
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import PoolReader
from duckplets.recipes.files import from_dict
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.sampling import candidates
from duckplets.sampling.columns import needs_scores
from duckplets.sampling.settings import RunSettings
from duckplets.sampling.stream import Stream

Pins = dict[str, dict[str, dict[str, Any]]]


def open_streams(database: Database, settings: RunSettings, sources: Sequence[str]) -> list[Stream]:
    """Read the pools of all recipes that can be drawn of some sources.

    Raises:
        EmptyPoolError: A source has no recipe, or a recipe no anchor.
        StateMismatchError: Mined negatives are not there, or others than the run is pinned to.
    """
    compiled = []
    for source in sources:
        recipes = _drawn(settings, source)
        if not recipes:
            raise EmptyPoolError(
                f"source {source!r} has no recipe to draw by; give one for it, or give the "
                f"source weight 0 in mixture="
            )
        compiled += [_compiled(database, settings, source, recipe) for recipe in recipes]
    streams = []
    with PoolReader(database, [pool for pool, _ in compiled]) as reader:
        for pool, mining in compiled:
            source = pool.parameters["source"]
            try:
                read = reader.read(pool)
            except EmptyPoolError:
                if pool.recipe.name in settings.optional.get(source, []):
                    continue
                raise
            read = _with_candidates(database, settings, read, mining)
            streams.append(Stream(source, read, settings.seed, settings.negatives))
    return streams


def pin(
    database: Database, settings: RunSettings, needed: Collection[str], *, allow_stale: bool
) -> Pins:
    """Return the number and digest of the mining of every mined recipe, by source.

    Args:
        database: The corpus.
        settings: Of the run.
        needed: Sources that it draws from; of others what is missing or stale is left out.
        allow_stale: Whether to take minings of other records than those of the run.

    Raises:
        StateMismatchError: Negatives were not mined, or are stale.
    """
    pins: Pins = {}
    for source in settings.sources:
        for recipe in _drawn(settings, source):
            if isinstance(recipe, TextRecipe) or not recipe.mined:
                continue
            try:
                mining = minings.current(
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
            named = {"mining": mining.key, "digest": mining.digest}
            pins.setdefault(source, {})[recipe.name] = named
    return pins


def _drawn(settings: RunSettings, source: str) -> list[TripletRecipe | TextRecipe]:
    recipes = [from_dict(d) for d in settings.recipes[source]]
    return [recipe for recipe in recipes if recipe.weight]


def _compiled(
    database: Database, settings: RunSettings, source: str, recipe: TripletRecipe | TextRecipe
) -> tuple[CompiledPool, Mining | None]:
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


def _pinned(database: Database, settings: RunSettings, source: str, recipe: str) -> Mining:
    named = settings.candidates.get(source, {}).get(recipe)
    if named is None:
        raise StateMismatchError(
            f"source {source!r}, recipe {recipe!r}: there were no mined negatives when run "
            f"{settings.run!r} was opened; call corpus.mine(), and open another run"
        )
    mining = minings.by_key(database, named["mining"])
    if mining.digest != named["digest"]:
        raise StateMismatchError(
            f"source {source!r}, recipe {recipe!r}: the negatives of mining {mining.key} are not "
            f"those run {settings.run!r} was opened with (digest then: {named['digest']}, now: "
            f"{mining.digest}); it is another file"
        )
    return mining


def _with_candidates(
    database: Database, settings: RunSettings, pool: Pool, mining: Mining | None
) -> Pool:
    if mining is None:
        return pool
    scores = needs_scores(settings.columns)
    return replace(pool, candidates=candidates.read(database, pool, mining, scores=scores))
