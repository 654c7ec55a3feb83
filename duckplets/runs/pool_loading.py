"""Read the streams of a run: the pools of its recipes, with anchors of the listed records only."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckplets.artifacts.arrays import key_of
from duckplets.base.arrays import Flags, Floats, Integers, Words
from duckplets.errors import EmptyPoolError
from duckplets.mining import store as mining_store
from duckplets.order.copies import listing
from duckplets.order.mixture import Mixture
from duckplets.pools.arrays import Anchors, Guarded, Negatives, Pool, Positives
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.labels import Kinds, labels_of
from duckplets.pools.read import NoAnchorError, PoolReader
from duckplets.recipes.files import to_dict
from duckplets.recipes.recipes import TripletRecipe
from duckplets.runs import negative_policy
from duckplets.runs.default_mixture import counted
from duckplets.samples import candidates
from duckplets.samples.candidates import Candidates
from duckplets.samples.columns import needs_scores
from duckplets.samples.stream import Stream

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.recipes.store import Recipe
    from duckplets.runs.settings import Empty, RunSettings
    from duckplets.serving.snapshot import Snapshot

log = logging.getLogger("duckplets")

_SHOWN = 50  # pools without an anchor that a message names


class Left(NamedTuple):
    """A recipe of a source without an anchor, or a source without any, and why in words."""

    source: str
    recipe: Recipe | None
    why: str


class Named(NamedTuple):
    """What a user has named of a new run, so that it must not be empty.

    Attributes:
        empty: What was said of that: ``error``, ``skip``, or nothing.
        sources: Those that the mixture names.
        recipes: Names of those that were given.
    """

    empty: Empty | None
    sources: set[str]
    recipes: set[str]

    def refused(self, empty: Sequence[Left], streams: Sequence[Stream]) -> list[Left]:
        """Return what must not be left out of all that is empty."""
        if self.empty == "skip":
            return []
        there = {stream.source for stream in streams}
        found = {stream.recipe.name for stream in streams}
        return [
            left
            for left in empty
            if (left.source in self.sources and left.source not in there)
            or (left.recipe is not None and self._is_named(left.source, left.recipe, found))
        ]

    def _is_named(self, source: str, recipe: Recipe, found: set[str]) -> bool:
        given = recipe.name in self.recipes and recipe.name not in found
        return given or source in (recipe.sources or ())


class AnchorRecords:
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


@dataclass(frozen=True, slots=True)
class KeptPool:
    """A pool as a snapshot keeps it, with the mined negatives that its anchors draw.

    Attributes:
        empty: Why there is no anchor; None if there is one. The others are those of ``Pool``.
        candidates: Of a mined recipe.
    """

    empty: str | None = None
    anchors: Anchors | None = None
    positives: Positives | None = None
    negatives: Negatives | None = None
    guarded: Guarded | None = None
    beyond: Negatives | None = None
    short: Flags | None = None
    candidates: Candidates | None = None
    labels: Floats | None = None


def read_streams(
    database: Database,
    settings: RunSettings,
    named: Sequence[tuple[str, Recipe]],
    empty: list[Left],
    snapshot: Snapshot | None = None,
    texts: Words | None = None,
) -> list[Stream]:
    """Read the pools of recipes of sources, those that a snapshot keeps from there.

    What is said of empty ones that are not optional is added to ``empty``. With ``texts`` they are
    of chunks with these hashes only.
    """
    anchored = AnchorRecords(database, settings)
    kinds = labels_of(database, settings.corpus_version)
    wanted = [_compiled(database, settings, source, recipe, kinds) for source, recipe in named]
    keys = [_key(settings, pool, mining) for pool, mining in wanted]
    at_hand: dict[str, KeptPool] = {}
    if snapshot is not None:
        found = snapshot.find(keys)
        at_hand = {key: bundle.get(key, KeptPool) for key, bundle in found.items()}
    missing = [i for i, key in enumerate(keys) if key not in at_hand]
    if missing:
        pools = [wanted[i] for i in missing]
        found_pools = _read(database, settings, pools, texts)
        read = dict(zip([keys[i] for i in missing], found_pools, strict=True))
        if snapshot is not None and (why := snapshot.keep(settings.corpus_version, read)):
            log.warning("pools cannot be kept in %s: %s", snapshot.folder, why)
        elif snapshot is not None:  # from now on they are shared with other processes
            read = {key: of.get(key, KeptPool) for key, of in snapshot.find([*read]).items()}
        at_hand |= read
    streams = []
    for (compiled, _), key in zip(wanted, keys, strict=True):
        found_pool, source, recipe = at_hand[key], compiled.parameters["source"], compiled.recipe
        if found_pool.anchors is None:
            if recipe.name not in settings.optional.get(source, []):
                empty.append(Left(source, recipe, str(found_pool.empty)))
            continue
        parts = {f.name: getattr(found_pool, f.name) for f in fields(Pool) if f.name != "compiled"}
        by_anchors = isinstance(recipe, TripletRecipe) and recipe.share == "anchors"
        streams.append(
            Stream(
                source,
                Pool(compiled, **parts),
                settings.seed,
                0 if compiled.is_given else settings.negatives,
                found_pool.candidates,
                of_records=anchored.count(source) if by_anchors else None,
                shares=negative_policy.shares_of(settings, source, recipe.name),
                graded=compiled.is_given and kinds.get(source) == "graded",
            )
        )
    return streams


def _key(settings: RunSettings, pool: CompiledPool, mining: mining_store.Mining | None) -> str:
    """Return what a pool is kept by: all that it follows from, beside the corpus's own state."""
    scores = needs_scores(settings.columns) if mining else False
    dropping = settings.vectors.get("missing") == "drop"
    return key_of(
        to_dict(pool.recipe),
        pool.parameters,
        settings.index.get(pool.parameters["source"]),
        settings.no_duplicates == "negatives",
        [mining.digest, scores] if mining else None,
        *([pool.labels] if pool.labels else []),
        *([settings.vectors["sets"]] if dropping else []),
    )


def _read(
    database: Database,
    settings: RunSettings,
    pools: Sequence[tuple[CompiledPool, mining_store.Mining | None]],
    texts: Words | None,
) -> list[KeptPool]:
    """Read pools from the corpus."""
    anchored, spare = AnchorRecords(database, settings), settings.no_duplicates == "negatives"
    scores, found = needs_scores(settings.columns), []
    with PoolReader(database, [pool for pool, _ in pools], texts) as reader:
        for compiled, mining in pools:
            keys = anchored.keys(compiled.parameters["source"])
            try:
                pool = reader.read(compiled, keys, spare=spare)
            except NoAnchorError as error:
                found.append(KeptPool(empty=str(error)))
                continue
            mined = None
            if mining is not None:
                mined = candidates.read(database, pool, mining, scores=scores)
            parts = {f.name: getattr(pool, f.name) for f in fields(pool) if f.name != "compiled"}
            found.append(KeptPool(candidates=mined, **parts))
    return found


def _compiled(
    database: Database, settings: RunSettings, source: str, recipe: Recipe, kinds: Kinds
) -> tuple[CompiledPool, mining_store.Mining | None]:
    mined = isinstance(recipe, TripletRecipe) and recipe.mined
    mining = (
        negative_policy.pinned_mining(database, settings, source, recipe.name) if mined else None
    )
    pool = compile_pool(
        recipe,
        source=source,
        split=settings.split,
        version=settings.corpus_version,
        negatives=settings.negatives,
        mining=mining.key if mining else 0,
        labels=negative_policy.labels_for(settings, kinds.get(source)),
    )
    return pool, mining


def without_empty(
    settings: RunSettings,
    streams: Sequence[Stream],
    needed: Sequence[str],
    notes: Sequence[str],
    empty: Sequence[Left],
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
    told = [*notes, f"what has no anchor is left out: {in_words(empty)}"]
    return replace(settings, mixture=mixture.to_dict(), optional=every), told


def empty_pools(found: Sequence[Left]) -> EmptyPoolError:
    """Return the error for all that is empty."""
    return EmptyPoolError(
        f"{in_words(found)}. Limit a recipe with sources=(…), leave a source out of mixture=, "
        f"change the recipe, or leave out what is empty with empty='skip'"
    )


def in_words(found: Sequence[Left]) -> str:
    """Return all that is empty; of very many the first."""
    more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return "; ".join(left.why for left in found[:_SHOWN]) + more
