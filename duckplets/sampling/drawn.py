"""Say what a run draws from: sources in which shares, which of their records, and what streams.

Index controls (size and weight of a source) say what ``Corpus.data_index`` lists of it. A sampler
takes its anchors from the listed records only, and draws sources in the ratio of their entries;
what is given as a mixture, or was declared with the sources, takes the place of these shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.base.shown import listed
from duckplets.errors import EmptyPoolError
from duckplets.mining import store as mining_store
from duckplets.order.copies import listing
from duckplets.order.mixture import Mixture
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import NoAnchorError, PoolReader
from duckplets.recipes.recipes import TripletRecipe
from duckplets.sampling import candidates
from duckplets.sampling.columns import needs_scores
from duckplets.sampling.stream import Stream

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.recipes.store import Recipe
    from duckplets.sampling.settings import RunSettings

Control = dict[str, Any]  # size, size_mode, weight and seed, as ``listing`` takes them


@dataclass(frozen=True, slots=True)
class Shares:
    """How the sources of a run are drawn.

    Attributes:
        mixture: Their weights.
        index: What limits their records, by source; see ``RunSettings.index``.
        notes: What a user should know of that, a sentence each.
    """

    mixture: Mixture
    index: dict[str, Control]
    notes: list[str]


def shares(
    database: Database,
    given: Mixture | None,
    declared: Mapping[str, float | None],
    *,
    split: str,
    version: int,
) -> Shares:
    """Return how sources are drawn.

    Args:
        database: The corpus.
        given: The mixture that was asked for, or None.
        declared: The sources of the run, each with its weight in the corpus's own mixture.
        split: The split.
        version: Of the corpus.
    """
    found = {n: c for n, c in _counted(database, split, version).items() if n in declared}
    controls = {name: control for name, (_, control) in found.items() if control is not None}
    entries = {n: listing(n, count, **(c or {})).entries for n, (count, c) in found.items()}
    own = {name: weight for name, weight in declared.items() if weight is not None}
    if given is None and not own and controls:
        told = ", ".join(f"{n} {e:,}{'' if e else ' (never)'}" for n, e in entries.items())
        note = (
            f"no mixture= is given, so sources are drawn in the ratio of what their index controls "
            f"list, and anchors are of the listed records: {told}"
        )
        return Shares(Mixture({n: float(e) for n, e in entries.items()}), controls, [note])
    notes = []
    sizes = {n: {**c, "weight": 1.0} for n, c in controls.items() if c["size"] is not None}
    if controls:
        what = "mixture=" if given is not None else "the mixture declared with the sources"
        note = f"{what} takes the place of the shares that index controls give"
        if sizes:
            sized = [
                f"{n} {len(listing(n, found[n][0], **c).rows):,} of {found[n][0]:,}"
                for n, c in sizes.items()
            ]
            note += f"; their sizes hold, so anchors are of the listed records: {', '.join(sized)}"
        notes.append(note)
    if given is not None:
        return Shares(given, sizes, notes)
    if own:
        told = ", ".join(f"{name} {weight:g}" for name, weight in own.items())
        notes.append(f"no mixture= is given, so the one declared with the sources holds: {told}")
    return Shares(Mixture(own), sizes, notes)


def unnamed(mixture: Mixture, sources: Sequence[str]) -> list[str]:
    """Return a note on the sources that a mixture names nowhere while it names others."""
    named = mixture.named
    others = [name for name in sources if name not in named]
    if not others or not named:
        return []
    weigh = f"{mixture.omitted:g}" if mixture.omitted else "0: they are never drawn"
    return [
        f"the mixture names {listed(sorted(named))} and not {listed(others)}, which "
        f"{'weighs' if len(others) == 1 else 'weigh'} {weigh}"
    ]


class Anchored:
    """The records of each source that a run may take anchors from.

    Args:
        database: The corpus.
        settings: Of the run.
    """

    def __init__(self, database: Database, settings: RunSettings) -> None:
        self._database = database
        self._where = {"split": settings.split, "version": settings.corpus_version}
        self._index = settings.index
        self._counts: dict[str, int] | None = None
        self._keys: dict[str, Integers] = {}

    def count(self, source: str) -> int:
        """Return how many records of a source they are."""
        keys = self.keys(source)
        if keys is not None:
            return len(keys)
        if self._counts is None:
            counted = _counted(self._database, **self._where)
            self._counts = {name: records for name, (records, _) in counted.items()}
        return self._counts[source]

    def keys(self, source: str) -> Integers | None:
        """Return the keys of those records, ascending; None for all of the split."""
        control = self._index.get(source)
        if control is None:
            return None
        if source not in self._keys:
            where = {**self._where, "sources": [source], "by_source": False}
            keys = self._database.table("records/read/keys", where)["record_key"].to_numpy()
            self._keys[source] = np.asarray(keys[listing(source, len(keys), **control).rows])
        return self._keys[source]


def _counted(database: Database, split: str, version: int) -> dict[str, tuple[int, Control | None]]:
    """Return of every source how many records a split has, and what was said about its index."""
    rows = database.run("records/controls/sources", {"split": split, "version": version})
    return {
        name: (records, None if size_mode is None else _control(size, size_mode, weight, seed))
        for name, _, records, size, size_mode, weight, seed in rows
    }


def _control(size: int | None, size_mode: str, weight: float, seed: int) -> Control:
    return {"size": size, "size_mode": size_mode, "weight": weight, "seed": seed}


# -- streams --------------------------------------------------------------------------------


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
                read = reader.read(pool, anchored.keys(source))
            except NoAnchorError as error:
                if recipe.name not in settings.optional.get(source, []):
                    empty.append(str(error))
                continue
            mined = None
            if mining is not None:
                mined = candidates.read(database, read, mining, scores=scores)
            by_anchors = isinstance(recipe, TripletRecipe) and recipe.share == "anchors"
            of = anchored.count(source) if by_anchors else None
            streams.append(Stream(source, read, settings.seed, settings.negatives, mined, of))
    return streams


def _compiled(
    database: Database, settings: RunSettings, source: str, recipe: Recipe
) -> tuple[CompiledPool, mining_store.Mining | None]:
    mined = isinstance(recipe, TripletRecipe) and recipe.mined
    mining = candidates.pinned(database, settings, source, recipe.name) if mined else None
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
    told = [*notes, f"empty='skip' leaves out what has no anchor: {'; '.join(empty)}"]
    return replace(settings, mixture=mixture.to_dict(), optional=every), told


def empty_pools(found: Sequence[str]) -> EmptyPoolError:
    """Return the error for all that is empty."""
    return EmptyPoolError(
        f"{'; '.join(found) or 'every recipe is empty'}. Limit a recipe with sources=(…), give a "
        f"source weight 0 in mixture=, change the recipe, or leave out what is empty with "
        f"empty='skip'"
    )
