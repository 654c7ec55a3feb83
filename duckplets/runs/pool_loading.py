"""Load the streams of a run: the pools of its recipes, restricted to the listed records.

recipes of sources ─compile→ pools ─from the snapshot, or read→ arrays ─→ streams
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from duckplets.artifacts.arrays import key_of
from duckplets.base.arrays import Integers, Words
from duckplets.base.settings import to_plain
from duckplets.errors import EmptyPoolError
from duckplets.ingest.families import Families
from duckplets.mining import near
from duckplets.mining.near import NearTexts
from duckplets.mining.store import Minings
from duckplets.order.blocks import KeyedOrder
from duckplets.order.permute import key
from duckplets.pools.arrays import Pool
from duckplets.pools.batch_keys import BatchKeys
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import NoAnchorError, PoolReader, labels_of
from duckplets.recipes.files import to_dict
from duckplets.recipes.recipes import TripletRecipe
from duckplets.runs import messages
from duckplets.runs.settings import RunSettings, every_recipe
from duckplets.runs.sources import counted, drawn_by, pinned_mining, pinned_minings, shares_of
from duckplets.runs.values import Difficulty, Values
from duckplets.samples import candidates
from duckplets.samples.candidates import Candidates
from duckplets.samples.columns import needs_scores, parts_of
from duckplets.samples.stream import Stream
from duckplets.vectors.columns import vector_slots

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.mining.store import Mining
    from duckplets.recipes.mined import Mined
    from duckplets.recipes.store import Recipe
    from duckplets.runs.request import Empty
    from duckplets.serving.snapshot import Snapshot
    from duckplets.vectors.columns import RunVectors

Wanted: TypeAlias = "tuple[CompiledPool, list[tuple[Mining, Mined]]]"

log = logging.getLogger("duckplets")

_SHOWN = 50  # empty pools named in a message


class EmptyPool(NamedTuple):
    """A recipe of a source, or a source, that has no anchor."""

    source: str
    recipe: Recipe | None
    why: str

    def is_named(self, recipes: Collection[str]) -> bool:
        """Return whether its recipe has one of these names, or is limited to its source."""
        own = self.recipe
        return own is not None and (own.name in recipes or self.source in (own.sources or ()))


@dataclass(frozen=True, slots=True)
class FoundPool:
    """A pool with its mined candidates, or why it has no anchor."""

    pool: Pool | None
    candidates: Sequence[Candidates] = ()
    empty: str | None = None

    def of(self, compiled: CompiledPool | None) -> FoundPool:
        """Return it with a compiled pool; a snapshot stores it with None."""
        pool: Any = self.pool and replace(self.pool, compiled=compiled)  # type: ignore[arg-type]
        return replace(self, pool=pool)


def open_streams(
    database: Database,
    vectors: RunVectors | None,
    snapshot: Snapshot | None,
    settings: RunSettings,
    sources: Collection[str],
) -> tuple[list[Stream], list[EmptyPool]]:
    """Return the streams of some sources, and their empty pools, except optional ones."""
    names, mixture, drawn = sorted(sources), settings.mixture, drawn_by(settings)
    sources = sorted(settings.sources) if mixture.columns else names
    if vectors is not None:
        vectors = vectors.as_of(settings.vectors)
    # texts without a vector may be dropped
    loading = _Loading(database, settings, sources, None if vectors is None else vectors.texts)
    wanted = [loading.compiled(source, recipe) for source in sources for recipe in drawn[source]]
    pools: Sequence[FoundPool] = []
    if wanted:
        pools = loading.from_snapshot(wanted, snapshot) if snapshot else loading.read(wanted)
    families, unique = None, settings.no_duplicates
    if isinstance(unique, str) and unique != "negatives":
        families = Families(database, unique, loading.where)
    keys = None
    if settings.batch_by not in (None, "source", "recipe"):
        keys = BatchKeys(database, str(settings.batch_by), loading.where)
    streams, empty = list[Stream](), list[EmptyPool]()
    is_mixed = isinstance(settings.negatives.by, Mapping)
    reasons: dict[str, str] = {}  # by source the reason of its first empty recipe
    for (compiled, mined), found in zip(wanted, pools, strict=True):
        source, recipe = compiled.parameters["source"], compiled.recipe
        if found.pool is None:
            reasons.setdefault(source, str(found.empty))
            if recipe.name not in settings.optional.get(source, []):
                empty.append(EmptyPool(source, recipe, str(found.empty)))
            continue
        by_anchors = isinstance(recipe, TripletRecipe) and recipe.share == "anchors"
        keyed = None
        if keys is not None:
            purpose = key(settings.seed, source, recipe.name, "keyed order")
            size = settings.global_batch // settings.samples_per_draw
            keyed = KeyedOrder(keys.of(found.pool.anchors), size, purpose)
        streams.append(
            Stream(
                source,
                found.pool,
                settings.seed,
                0 if compiled.is_given else settings.num,
                tuple(found.candidates),
                of_records=loading.records[source] if by_anchors else None,
                shares=shares_of(settings, source, recipe.name) if is_mixed else None,
                graded=compiled.is_given and loading.kinds.is_graded(source),
                families=None if families is None else families.of(found.pool.anchors.records),
                near=loading.near(source, found.pool) if settings.in_batch else None,
                listed=settings.num if settings.kind == "lists" else 0,
                ranked=loading.ranked(mined) if settings.kind == "lists" else (),
                keyed=keyed,
                generation=max(mining.key for mining, _ in mined) if mined else None,
            )
        )
    seen = {*map(attrgetter("source"), [*streams, *empty])}
    for source in sources:
        if source not in seen:
            why = reasons.get(source, f"source {source!r} has no recipe")
            empty.append(EmptyPool(source, None, why))
    if mixture.columns:
        divided = [*map(Values(database, mixture, loading.where).divided, streams)]
        streams = [parts[name] for name in names for parts in divided if name in parts]
        there = {stream.name for stream in streams}
        why = f"no anchor has the value {{!r}} of {mixture.column!r}"
        empty += [EmptyPool(name, None, why.format(name)) for name in names if name not in there]
    if mixture.order_by is not None:
        streams = [*map(Difficulty(database, mixture, loading.where).ordered, streams)]
    if vectors is not None:
        kind, negatives, swap = settings.kind, settings.num, settings.swap
        slots = vector_slots(settings.columns)
        parts = {slot: parts_of(slot, kind, negatives, swap=swap) for slot in slots}
        where = {"split": settings.split, "version": settings.corpus_version}
        pools_of = [(stream.source, stream.pool) for stream in streams]
        vectors.check(database, pools_of, parts, where | {"sources": settings.sources})
    return streams, empty


class _Loading:
    """Read the pools of a run at one version, restricted to ``texts`` if given."""

    def __init__(
        self, database: Database, settings: RunSettings, sources: Sequence[str], texts: Words | None
    ) -> None:
        self._database, self._settings, self._texts = database, settings, texts
        self.where: dict[str, Any] = {"split": settings.split, "version": settings.corpus_version}
        pinned = settings.candidates or settings.in_batch or settings.ranked
        self._minings = Minings(database) if pinned else None
        self.kinds = labels_of(database, settings.corpus_version)
        self._listed: dict[str, Integers] = {}  # ascending record keys by source
        for source in sources:
            if control := settings.index.get(source):
                where = {**self.where, "sources": [source], "by_source": False}
                keys = database.table("records/read/keys", where)["record_key"].to_numpy()
                self._listed[source] = keys[control.listing(source, len(keys)).rows]

    @cached_property
    def records(self) -> dict[str, int]:
        """Number of listed records of each source."""
        found = counted(self._database, **self.where)
        listed = {name: len(keys) for name, keys in self._listed.items()}
        return {name: count for name, (count, _) in found.items()} | listed

    def near(self, source: str, pool: Pool) -> NearTexts:
        """Return the texts that a pool's anchors exclude from their batches."""
        in_batch, name = self._settings.in_batch, pool.compiled.recipe.name
        assert in_batch is not None  # noqa: S101 - for the type checker
        named = in_batch.minings.of(source, name).get(in_batch.scorer)
        mining = None
        if named and self._minings is not None:
            mining = pinned_mining(self._minings, self._settings, named, name)
        return near.read(self._database, pool, mining, in_batch.margin)

    def ranked(self, mined: Sequence[tuple[Mining, Mined]]) -> list[Sequence[str]]:
        if self._minings is None:
            return []
        return [self._minings.ranks(mining).ranked for mining, _ in mined]

    def compiled(self, source: str, recipe: Recipe) -> Wanted:
        facts, mined = self.kinds.of(source), list[Any]()
        if self._settings.pairs == "labelled":
            facts["labels"] = "given"
        if isinstance(recipe, TripletRecipe) and recipe.mined:
            mined = pinned_minings(self._minings, self._settings, source, recipe)
        ranked = None
        named = next(iter(self._settings.ranked.of(source, recipe.name).values()), None)
        if named and self._minings is not None:
            mining = pinned_mining(self._minings, self._settings, named, recipe.name)
            ranked = self._minings.ranks(mining)
        pool = compile_pool(
            recipe,
            ranked=ranked,
            source=source,
            negatives=self._settings.num,
            **facts,
            swaps=self._settings.swap,
            **self.where,
        )
        return pool, mined

    def from_snapshot(self, wanted: Sequence[Wanted], snapshot: Snapshot) -> list[FoundPool]:
        """Return pools from a snapshot, and add the missing ones to it."""
        keys = [self._key(*pool) for pool in wanted]
        found = {key: bundle.get(key, FoundPool) for key, bundle in snapshot.find(keys).items()}
        if missing := {
            key: pool for key, pool in zip(keys, wanted, strict=True) if key not in found
        }:
            pools = self.read([*missing.values()])
            read = {key: pool.of(None) for key, pool in zip(missing, pools, strict=True)}
            if why := snapshot.keep(self._settings.corpus_version, read):
                log.warning("pools cannot be stored in %s: %s", snapshot.folder, why)
            else:  # other processes share them now
                stored = snapshot.find([*read]).items()
                read = {key: bundle.get(key, FoundPool) for key, bundle in stored}
            found |= read
        return [found[key].of(compiled) for key, (compiled, _) in zip(keys, wanted, strict=True)]

    def _key(self, pool: CompiledPool, mined: Sequence[tuple[Mining, Mined]]) -> str:
        """Return the key of a pool: all it depends on except the state of the corpus."""
        settings = self._settings
        of_run: list[Any] = [settings.kind == "messages", settings.no_duplicates == "negatives"]
        of_run += [settings.swap, settings.kind == "pairs"]
        if settings.kind == "messages":
            of_run += [bool(settings.no_duplicates)]
        for mining, policy in mined:
            of_run += [mining.digest, policy.to_dict(), needs_scores(settings.columns)]
        if settings.vectors.missing == "drop":
            of_run += [to_plain(settings.vectors.digests)]
        control = to_plain(settings.index.get(pool.parameters["source"]))
        return key_of(to_dict(pool.recipe), pool.parameters, pool.labels, control, of_run)

    def read(self, wanted: Sequence[Wanted]) -> list[FoundPool]:
        if self._settings.kind == "messages":
            return [self._conversations(compiled) for compiled, _ in wanted]
        spare, found = self._settings.no_duplicates == "negatives", list[FoundPool]()
        with PoolReader(self._database, [listed for listed, _ in wanted], self._texts) as reader:
            for compiled, mined in wanted:
                listed = self._listed.get(compiled.parameters["source"])
                read = partial(reader.read, compiled, listed, spare=spare)
                try:
                    pool = read()
                    some, short = self._candidates(pool, mined) if mined else ([], None)
                    if short is not None and len(short):
                        pool = read(without=short)
                        some = [each.of(pool) for each in some]
                except NoAnchorError as error:
                    found.append(FoundPool(None, empty=str(error)))
                    continue
                if self._settings.kind == "pairs":
                    pool = replace(pool, negatives=None, beyond=None, short=None)
                found.append(FoundPool(pool, some))
        return found

    def _candidates(
        self, pool: Pool, mined: Sequence[tuple[Mining, Mined]]
    ) -> tuple[list[Candidates], Integers]:
        """Return the candidates that remain after policies, and the sections of dropped anchors."""
        scores, found = needs_scores(self._settings.columns), list[Candidates]()
        short, first = np.zeros(0, np.int64), 0
        for mining, policy in mined:
            one = candidates.read(self._database, pool, mining, policy, scores=scores)
            found.append(replace(one, first=first))
            first += len(one)
            if policy.when_short == "drop":
                short = np.union1d(short, one.short(self._settings.num))
        return found, short

    def _conversations(self, compiled: CompiledPool) -> FoundPool:
        source, hashed = compiled.parameters["source"], bool(self._settings.no_duplicates)
        listed = self._listed.get(source)
        anchors = messages.anchors(self._database, compiled, listed, hashed=hashed)
        if len(anchors):
            return FoundPool(Pool(compiled, anchors, None, None))
        where = f"split {self._settings.split!r}"
        where += "" if listed is None else " that its index controls list"
        return FoundPool(None, empty=f"source {source!r} has no conversation in {where}")


def with_lengths(settings: RunSettings, streams: Sequence[Stream]) -> RunSettings:
    """Return settings with the epoch lengths of sources, if the mixture is a word."""
    mixture = settings.mixture
    if mixture.lengths or not isinstance(mixture.weights, str):
        return settings
    lengths = dict.fromkeys(settings.names, 0)
    for stream in streams:
        lengths[stream.name] += len(stream) * settings.samples_per_draw
    for source in {*map(attrgetter("name"), streams)} if mixture.unit == "tokens" else ():
        of_source = [stream for stream in streams if stream.name == source]
        tokens = sum(each.share * each.tape.mean for each in of_source if each.tape)
        mean = tokens / sum(each.share for each in of_source)
        lengths[source] = round(lengths[source] * mean)  # tokens of a mean epoch
    return replace(settings, mixture=replace(mixture, lengths=lengths))


class NamedByUser(NamedTuple):
    """The sources and recipes that a user named for a new run: they must not be empty."""

    empty: Empty | None  # the argument ``empty``
    sources: Collection[str] = ()  # sources named by the mixture
    recipes: Collection[str] = ()  # names of the recipes given

    def without_empty(
        self, settings: RunSettings, streams: Sequence[Stream], empty: Sequence[EmptyPool]
    ) -> RunSettings:
        """Return settings without empty pools; refuse empty pools that were named."""
        there = {stream.name for stream in streams}
        if self.empty == "error" or not streams:
            raise empty_pools(empty)
        if self.empty is None:
            sources = {*self.sources} - there
            recipes = {*self.recipes} - {stream.recipe.name for stream in streams}
            named = [pool for pool in empty if pool.source in sources or pool.is_named(recipes)]
            if named:
                raise empty_pools(named)
        mixture = settings.mixture
        if missing := mixture.drawn(settings.names) - there:
            mixture = mixture.without(missing)
            mixture.check(settings.names)
        return replace(settings, mixture=mixture, optional=every_recipe(settings.recipes))


def empty_pools(found: Sequence[EmptyPool]) -> EmptyPoolError:
    """Return the error for empty pools."""
    return EmptyPoolError(
        f"{in_words(found)}. Limit a recipe with sources=(…), leave a source out of mixture=, "
        f"change the recipe, or leave out empty ones with options=dp.Options(empty='skip')"
    )


def in_words(found: Sequence[EmptyPool]) -> str:
    """Return the reasons of empty pools; the first ones of a long list."""
    more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return "; ".join(pool.why for pool in found[:_SHOWN]) + more
