"""Read the streams of a run: the pools of its recipes, with anchors of the listed records only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.errors import EmptyPoolError
from duckplets.mining import store as mining_store
from duckplets.order.copies import listing
from duckplets.order.mixture import Mixture
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import NoAnchorError, PoolReader
from duckplets.recipes.recipes import TripletRecipe
from duckplets.sampling import candidates, choosing, minings
from duckplets.sampling.columns import needs_scores
from duckplets.sampling.shares import counted
from duckplets.sampling.stream import Stream

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.recipes.store import Recipe
    from duckplets.sampling.settings import RunSettings


_SHOWN = 50  # pools without an anchor that a message names


class Anchored:
    """The records of each source that a run may take anchors from.

    Args:
        database: The corpus.
        settings: Of the run.
    """

    def __init__(self, database: Database, settings: RunSettings) -> None:
        self._database = database
        self._split, self._version = settings.split, settings.corpus_version
        self._index = settings.index
        self._counts: dict[str, int] | None = None
        self._keys: dict[str, Integers] = {}

    def count(self, source: str) -> int:
        """Return how many records of a source they are."""
        keys = self.keys(source)
        if keys is not None:
            return len(keys)
        if self._counts is None:
            found = counted(self._database, self._split, self._version)
            self._counts = {name: records for name, (records, _) in found.items()}
        return self._counts[source]

    def keys(self, source: str) -> Integers | None:
        """Return the keys of those records, ascending; None for all of the split."""
        control = self._index.get(source)
        if control is None:
            return None
        if source not in self._keys:
            where = {"split": self._split, "version": self._version, "sources": [source]}
            rows = self._database.table("records/read/keys", where | {"by_source": False})
            keys = rows["record_key"].to_numpy()
            self._keys[source] = np.asarray(keys[listing(source, len(keys), **control).rows])
        return self._keys[source]


def read_streams(
    database: Database,
    settings: RunSettings,
    named: Sequence[tuple[str, Recipe]],
    empty: list[str],
) -> list[Stream]:
    """Read the pools of recipes of sources.

    What is said of empty ones that are not optional is added to ``empty``.
    """
    compiled = [_compiled(database, settings, source, recipe) for source, recipe in named]
    streams = []
    scores, anchored = needs_scores(settings.columns), Anchored(database, settings)
    with PoolReader(database, [pool for pool, _ in compiled]) as reader:
        for pool, mining in compiled:
            source, recipe = pool.parameters["source"], pool.recipe
            try:
                spare = settings.no_duplicates == "negatives"
                read = reader.read(pool, anchored.keys(source), spare=spare)
            except NoAnchorError as error:
                if recipe.name not in settings.optional.get(source, []):
                    empty.append(str(error))
                continue
            mined = None
            if mining is not None:
                mined = candidates.read(database, read, mining, scores=scores)
            by_anchors = isinstance(recipe, TripletRecipe) and recipe.share == "anchors"
            streams.append(
                Stream(
                    source,
                    read,
                    settings.seed,
                    settings.negatives,
                    mined,
                    of_records=anchored.count(source) if by_anchors else None,
                    shares=choosing.shares_of(settings, source, recipe.name),
                )
            )
    return streams


def _compiled(
    database: Database, settings: RunSettings, source: str, recipe: Recipe
) -> tuple[CompiledPool, mining_store.Mining | None]:
    mined = isinstance(recipe, TripletRecipe) and recipe.mined
    mining = minings.pinned(database, settings, source, recipe.name) if mined else None
    pool = compile_pool(
        recipe,
        source=source,
        split=settings.split,
        version=settings.corpus_version,
        negatives=settings.negatives,
        mining=mining.key if mining else 0,
    )
    return pool, mining


def without_empty(
    settings: RunSettings,
    streams: Sequence[Stream],
    needed: Sequence[str],
    notes: Sequence[str],
    empty: Sequence[str],
) -> tuple[RunSettings, list[str]]:
    """Return the settings of a run that draws nothing of what is empty, and notes that say so.

    Raises:
        EmptyPoolError: Nothing is left.
    """
    if not streams:
        raise empty_pools(empty)
    left = {stream.source for stream in streams}
    missing = [name for name in needed if name not in left]
    mixture = Mixture.from_dict(settings.mixture)
    if missing:
        mixture = mixture.without(missing)
        mixture.check(settings.sources)
    every = {name: sorted(d["name"] for d in of) for name, of in settings.recipes.items()}
    told = [*notes, f"empty='skip' leaves out what has no anchor: {_told(empty)}"]
    return replace(settings, mixture=mixture.to_dict(), optional=every), told


def empty_pools(found: Sequence[str]) -> EmptyPoolError:
    """Return the error for all that is empty."""
    return EmptyPoolError(
        f"{_told(found)}. Limit a recipe with sources=(…), give a "
        f"source weight 0 in mixture=, change the recipe, or leave out what is empty with "
        f"empty='skip'"
    )


def _told(found: Sequence[str]) -> str:
    """Return all that is empty; of very many the first."""
    more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more
