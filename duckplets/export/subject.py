"""Subjects: what an export is of, a recipe with its minings or with the pools of its sources."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

from duckplets.base.shown import listed
from duckplets.db.database import Database
from duckplets.errors import RecipeError, StateMismatchError
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import SPLITS, checked_split, need_splits
from duckplets.mining import store as mining_store
from duckplets.mining.store import Mining
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.labels import Kinds, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.recipes import TextRecipe, TripletRecipe


@dataclass(frozen=True, slots=True)
class Subject:
    """What is exported.

    Attributes:
        recipe: As it was mined.
        split: The split.
        sources: Names, in order.
        pools: Of each source: where anchors, positives and documents are.
        further: Where documents are besides: pools of other splits.
        minings: Numbers of the minings of each source; none for an evaluation set.
    """

    recipe: TripletRecipe
    split: str
    sources: list[str]
    pools: list[CompiledPool]
    minings: list[int]
    further: list[CompiledPool] = field(default_factory=list)

    def guarded(self) -> list[CompiledPool]:
        """Return of each source the pool that its negatives were mined in."""
        recipe = replace(self.recipe, by="bm25")
        return [replace(pool, recipe=recipe) for pool in self.pools]


def mined(
    database: Database,
    recipe: TripletRecipe | str | None,
    *,
    source: str | None,
    split: str,
    stale: bool,
) -> Subject:
    """Return what was mined for a recipe, by default the only one, in one source or in all.

    Raises:
        RecipeError, SplitError: There is no such recipe, source or split.
        StateMismatchError: Nothing was mined, or it is stale.
    """
    version, split = _checked(database, source, split)
    if recipe is None:
        recipe = _only_mined(database, source, split)
    chosen = _triplet(database, recipe, version)
    found = mining_store.found(database, chosen.name, source=source, split=split)
    names = sorted({mining.source for mining in found})
    current = [
        mining_store.current(
            database, chosen, source=name, split=split, version=version, allow_stale=stale
        )
        for name in names or [source or recipe_store.first_source(database, chosen, version)]
    ]
    chosen = _as_mined(chosen, current)
    # Records and positives are those of the version that the mining saw.
    kinds = {m.corpus_version: labels_of(database, m.corpus_version) for m in current}
    pools = [
        _pool(chosen, m.source, split, m.corpus_version, kinds[m.corpus_version]) for m in current
    ]
    return Subject(chosen, split, names, pools, [mining.key for mining in current])


def pooled(
    database: Database,
    recipe: TripletRecipe | str | None,
    *,
    source: str | None,
    split: str,
    every: bool = False,
) -> Subject:
    """Return a recipe with its pools in a split, mined or not; ``every``: documents of all splits.

    Raises:
        RecipeError, SplitError: There is no such recipe, source or split.
    """
    version, split = _checked(database, source, split)
    if recipe is None:
        recipe = _only_known(database)
    chosen = _triplet(database, recipe, version)
    names = _suited(database, chosen, source, version)
    kinds = labels_of(database, version)
    pools = [_pool(chosen, name, split, version, kinds) for name in names]
    others = [other for other in SPLITS if every and other != split]
    further = [_pool(chosen, name, other, version, kinds) for name in names for other in others]
    return Subject(chosen, split, names, pools, [], further)


def _checked(database: Database, source: str | None, split: str) -> tuple[int, str]:
    version = current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    need_splits(database)
    return version, checked_split(split)


def _triplet(database: Database, recipe: TripletRecipe | str, version: int) -> TripletRecipe:
    if isinstance(recipe, str):
        found = recipe_store.find(database, recipe, version)
    elif isinstance(recipe, TripletRecipe | TextRecipe):
        found = recipe
    else:
        raise RecipeError(f"recipe={recipe!r}: give a triplet recipe or the name of one")
    if isinstance(found, TextRecipe):
        raise RecipeError(f"recipe {found.name!r} makes texts; only triplets have negatives")
    return found


def _only_mined(database: Database, source: str | None, split: str) -> str:
    names = {m.recipe for m in mining_store.found(database, None, source=source, split=split)}
    if not names:
        where = f"source {source!r}, split {split!r}" if source else f"split {split!r}"
        raise StateMismatchError(
            f"{where}: no negatives have been mined yet; call corpus.mine(), or run: "
            f"duckplets mine {database.path}"
        )
    return _only(names, "negatives were mined for")


def _only_known(database: Database) -> str:
    """Return the name of the only recipe that was mined, or else that is stored."""
    names = {m.recipe for m in mining_store.found(database)}
    stored = {r.name for r in recipe_store.stored(database) if isinstance(r, TripletRecipe)}
    if not (names or stored):
        raise RecipeError(
            "recipe=None: the corpus stores none, so name one of the defaults of its sources, "
            f"as duckplets recipe list {database.path} shows them"
        )
    return _only(names or stored, "there are")


def _only(names: set[str], what: str) -> str:
    if len(names) > 1:
        raise RecipeError(f"recipe=None: {what} {listed(sorted(names))}; name one of them")
    return names.pop()


def _suited(
    database: Database, recipe: TripletRecipe, source: str | None, version: int
) -> list[str]:
    """Return the sources that a recipe is for: all, or those it names; of them one if asked."""
    recipe_store.first_source(database, recipe, version)
    if source is not None:
        if recipe.sources and source not in recipe.sources:
            limits = ", ".join(recipe.sources)
            raise RecipeError(f"recipe {recipe.name!r} is limited to {limits}, not {source!r}")
        return [source]
    every = recipe_store.sources_of(database, version)
    return sorted(name for name in every if recipe.sources is None or name in recipe.sources)


def _as_mined(recipe: TripletRecipe, found: list[Mining]) -> TripletRecipe:
    """Return the recipe as it was when its negatives were mined."""
    if all(mining.definition == mining_store.definition_of(recipe) for mining in found):
        return recipe
    if any(mining.definition != found[0].definition for mining in found):
        raise StateMismatchError(
            f"recipe {recipe.name!r}: its sources were mined with different versions of it; "
            f"export them one by one with source=…"
        )
    return cast("TripletRecipe", from_dict(to_dict(recipe) | found[0].definition))


def _pool(
    recipe: TripletRecipe, source: str, split: str, version: int, kinds: Kinds
) -> CompiledPool:
    """Compile what lists anchors, positives and documents; who is a legal negative is settled."""
    plain = replace(recipe, strategy="other_record", by=None, when_short="drop")
    where: dict[str, Any] = {"source": source, "split": split, "version": version}
    return compile_pool(plain, **where, labels=kinds.get(source))
