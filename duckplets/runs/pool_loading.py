"""Read the streams of a run: the pools of its recipes, with anchors of the listed records only.

recipes of sources ─compile→ pools ─kept in the snapshot, or read→ arrays ─→ streams
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckplets.artifacts.arrays import key_of
from duckplets.base.arrays import Integers, Words
from duckplets.errors import EmptyPoolError
from duckplets.order.copies import listing
from duckplets.pools.arrays import Pool
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import Kinds, NoAnchorError, PoolReader, labels_of
from duckplets.recipes.files import to_dict
from duckplets.recipes.recipes import TripletRecipe
from duckplets.runs import messages
from duckplets.runs.negative_policy import drawn_by, pinned_mining, shares_of
from duckplets.runs.settings import RunSettings, every_recipe
from duckplets.runs.sources import counted
from duckplets.samples import candidates
from duckplets.samples.candidates import Candidates
from duckplets.samples.columns import needs_scores
from duckplets.samples.planned import samples_per_draw
from duckplets.samples.stream import Stream

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.mining.store import Mining
    from duckplets.recipes.store import Recipe
    from duckplets.runs.settings import Empty
    from duckplets.samples.vector_columns import RunVectors
    from duckplets.serving.snapshot import Snapshot

log = logging.getLogger("duckplets")

_SHOWN = 50  # pools without an anchor that a message names

Keys = Mapping[str, Integers]  # of the listed records of sources with index controls, ascending


class Left(NamedTuple):
    """A recipe of a source without an anchor, or a source without any, and why in words."""

    source: str
    recipe: Recipe | None
    why: str

    def is_named(self, recipes: Collection[str]) -> bool:
        """Whether it is of one of these recipes, or of one that is limited to its source."""
        of = self.recipe
        return of is not None and (of.name in recipes or self.source in (of.sources or ()))


@dataclass(frozen=True, slots=True)
class FoundPool:
    """A pool with the mined negatives that its anchors draw; or why it has no anchor."""

    pool: Pool | None
    candidates: Candidates | None = None
    empty: str | None = None

    def of(self, compiled: CompiledPool | None) -> FoundPool:
        """Return it as what a recipe compiles to; None as a snapshot keeps it."""
        pool: Any = self.pool and replace(self.pool, compiled=compiled)  # type: ignore[arg-type]
        return replace(self, pool=pool)


def open_streams(
    database: Database,
    vectors: RunVectors | None,
    snapshot: Snapshot | None,
    settings: RunSettings,
    sources: Collection[str],
) -> tuple[list[Stream], list[Left]]:
    """Read the pools of all recipes that can be drawn of some sources at a version of a run.

    Where texts without vectors are dropped, pools are of the others only; a snapshot keeps pools.

    Returns:
        The streams, and which recipes and sources were left out that somebody asked for, and why.

    Raises:
        StateMismatchError: Mined negatives are not there, or others than the run is pinned to.
        VectorError: Texts lack a vector, and that is an error.
    """
    kinds, drawn = labels_of(database, settings.corpus_version), drawn_by(settings)
    sources = sorted(sources)
    wanted = [
        _compiled(database, settings, source, recipe, kinds)
        for source in sources
        for recipe in drawn[source]
    ]
    listed = _listed(database, settings, sources) if settings.index else {}
    texts: Words | None = None
    if vectors is not None:
        vectors = vectors.as_of(settings)
        texts = vectors.texts
    pools: Sequence[FoundPool] = []
    if wanted and snapshot is None:
        pools = _read(database, settings, wanted, listed, texts)
    elif wanted and snapshot is not None:
        pools = _kept(database, settings, wanted, listed, snapshot, texts)
    streams, empty, told = list[Stream](), list[Left](), set[str]()
    records: dict[str, int] = {}
    for (compiled, _), found_pool in zip(wanted, pools, strict=True):
        source, recipe = compiled.parameters["source"], compiled.recipe
        if found_pool.pool is None:
            if recipe.name not in settings.optional.get(source, []):
                empty.append(Left(source, recipe, str(found_pool.empty)))
                told.add(source)
            continue
        by_anchors = isinstance(recipe, TripletRecipe) and recipe.share == "anchors"
        if by_anchors and not records:
            found = counted(database, settings.split, settings.corpus_version)
            records = {name: count for name, (count, _) in found.items()}
            records |= {name: len(keys) for name, keys in listed.items()}
        is_mixed = isinstance(settings.by, dict)
        told.add(source)
        streams.append(
            Stream(
                source,
                found_pool.pool,
                settings.seed,
                0 if compiled.is_given else settings.negatives,
                found_pool.candidates,
                of_records=records[source] if by_anchors else None,
                shares=shares_of(settings, source, recipe.name) if is_mixed else None,
                graded=compiled.is_given and kinds.get(source) == "graded",
            )
        )
    for source in sources:
        if source not in told:
            why = (
                "has no recipe that finds an anchor"
                if drawn[source]
                else "has no recipe to draw by"
            )
            empty.append(Left(source, None, f"source {source!r} {why}"))
    if vectors is not None:
        vectors.check(database, streams)
    return streams, empty


def _compiled(
    database: Database, settings: RunSettings, source: str, recipe: Recipe, kinds: Kinds
) -> tuple[CompiledPool, Mining | None]:
    mined = isinstance(recipe, TripletRecipe) and recipe.mined
    mining = pinned_mining(database, settings, source, recipe.name) if mined else None
    labels = kinds.get(source)
    compiled = compile_pool(
        recipe,
        source=source,
        split=settings.split,
        version=settings.corpus_version,
        negatives=settings.negatives,
        mining=mining.key if mining else 0,
        labels="given" if labels and settings.pairs == "labelled" else labels,
    )
    return compiled, mining


def _listed(database: Database, settings: RunSettings, sources: Sequence[str]) -> Keys:
    """Return the keys of the records that index controls list, by source."""
    found = {}
    for source in sources:
        if control := settings.index.get(source):
            where = {"split": settings.split, "version": settings.corpus_version}
            where |= {"sources": [source], "by_source": False}
            keys = database.table("records/read/keys", where)["record_key"].to_numpy()
            found[source] = np.asarray(keys[listing(source, len(keys), **control).rows])
    return found


def _kept(
    database: Database,
    settings: RunSettings,
    wanted: Sequence[tuple[CompiledPool, Mining | None]],
    listed: Keys,
    snapshot: Snapshot,
    texts: Words | None,
) -> list[FoundPool]:
    """Return pools from a snapshot; those that it lacks are read, and it keeps them from now on."""
    keys = [_key(settings, *of) for of in wanted]
    kept = {key: bundle.get(key, FoundPool) for key, bundle in snapshot.find(keys).items()}
    missing = {key: of for key, of in zip(keys, wanted, strict=True) if key not in kept}
    if missing:
        pools = _read(database, settings, [*missing.values()], listed, texts)
        read = {key: found.of(None) for key, found in zip(missing, pools, strict=True)}
        if why := snapshot.keep(settings.corpus_version, read):
            log.warning("pools cannot be kept in %s: %s", snapshot.folder, why)
        else:  # from now on they are shared with other processes
            read = {key: of.get(key, FoundPool) for key, of in snapshot.find([*read]).items()}
        kept |= read
    return [kept[key].of(compiled) for key, (compiled, _) in zip(keys, wanted, strict=True)]


def _key(settings: RunSettings, pool: CompiledPool, mining: Mining | None) -> str:
    """Return what a pool is kept by: all that it follows from, beside the corpus's own state."""
    of_run: list[Any] = [settings.kind == "messages", settings.no_duplicates == "negatives"]
    if settings.kind == "messages":
        of_run += [bool(settings.no_duplicates)]
    if mining is not None:
        of_run += [mining.digest, needs_scores(settings.columns)]
    if settings.vectors.get("missing") == "drop":
        of_run += [settings.vectors["sets"]]
    control = settings.index.get(pool.parameters["source"])
    return key_of(to_dict(pool.recipe), pool.parameters, pool.labels, control, of_run)


def _read(
    database: Database,
    settings: RunSettings,
    pools: Sequence[tuple[CompiledPool, Mining | None]],
    listed: Keys,
    texts: Words | None,
) -> list[FoundPool]:
    """Read pools from the corpus."""
    if settings.kind == "messages":
        return [_conversations(database, settings, compiled, listed) for compiled, _ in pools]
    spare, found = settings.no_duplicates == "negatives", []
    with PoolReader(database, [compiled for compiled, _ in pools], texts) as reader:
        for compiled, mining in pools:
            of = listed.get(compiled.parameters["source"])
            try:
                pool = reader.read(compiled, of, spare=spare)
            except NoAnchorError as error:
                found.append(FoundPool(None, empty=str(error)))
                continue
            mined = None
            if mining is not None:
                scores = needs_scores(settings.columns)
                mined = candidates.read(database, pool, mining, scores=scores)
            found.append(FoundPool(pool, mined))
    return found


def _conversations(
    database: Database, settings: RunSettings, compiled: CompiledPool, listed: Keys
) -> FoundPool:
    source = compiled.parameters["source"]
    hashed = bool(settings.no_duplicates)
    anchors = messages.anchors(database, compiled, listed.get(source), hashed=hashed)
    if len(anchors):
        return FoundPool(Pool(compiled, anchors, None, None))
    which = " that its index controls list" if source in listed else ""
    why = f"source {source!r} has no conversation in split {settings.split!r}{which}"
    return FoundPool(None, empty=why)


# -- from streams to a planner --------------------------------------------------------------------


def with_lengths(settings: RunSettings, streams: Sequence[Stream]) -> RunSettings:
    """Return settings that keep what the word of a mixture means: the epochs of its sources."""
    mixture = settings.mixture
    if mixture.lengths or not isinstance(mixture.weights, str):
        return settings
    per_draw = samples_per_draw(settings.kind, settings.pairs, settings.negatives)
    lengths = dict.fromkeys(settings.sources, 0)
    for stream in streams:
        lengths[stream.source] += len(stream) * per_draw
    return replace(settings, mixture=replace(mixture, lengths=lengths))


# -- what has no anchor ---------------------------------------------------------------------------


class Named(NamedTuple):
    """What a user has named of a new run, so that it must not be empty.

    Attributes:
        empty: What was said of all of it: ``error``, ``skip``, or nothing.
        sources: Those that the mixture names.
        recipes: Names of those that were given.
    """

    empty: Empty | None
    sources: Collection[str] = ()
    recipes: Collection[str] = ()

    def without_empty(
        self, settings: RunSettings, streams: Sequence[Stream], empty: Sequence[Left]
    ) -> RunSettings:
        """Return the settings of a run that draws nothing of what is empty.

        Raises:
            EmptyPoolError: Nothing is left, or something of it was named.
        """
        there = {stream.source for stream in streams}
        if self.empty == "error" or not streams:
            raise empty_pools(empty)
        if self.empty is None:
            sources = {*self.sources} - there
            recipes = {*self.recipes} - {stream.recipe.name for stream in streams}
            named = [of for of in empty if of.source in sources or of.is_named(recipes)]
            if named:
                raise empty_pools(named)
        mixture = settings.mixture
        if missing := mixture.drawn(settings.sources) - there:
            mixture = mixture.without(missing)
            mixture.check(settings.sources)
        return replace(settings, mixture=mixture, optional=every_recipe(settings.recipes))


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
