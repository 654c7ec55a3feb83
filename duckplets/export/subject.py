"""Choose the subject of an export: a recipe with its minings, or with the pools of its sources."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from duckplets.db.database import Database
from duckplets.errors import RecipeError, StateMismatchError
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import SPLITS, checked_split, need_splits
from duckplets.mining.store import Mining, Minings
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import Kinds, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import Consistent, Mined, Negatives, policy_for, policy_of
from duckplets.recipes.recipes import USUAL, TextRecipe, TripletRecipe


@dataclass(frozen=True, slots=True)
class Subject:
    """The recipe, sources and pools of an export."""

    recipe: TripletRecipe  # as it was mined
    split: str
    sources: list[str]
    pools: list[CompiledPool]  # anchors, positives and documents of each source
    minings: list[Mining]  # of each source; none if no mining is needed
    policy: Mined = field(default_factory=Mined)  # selects candidates
    further: list[CompiledPool] = field(default_factory=list)  # of other splits, for documents

    @property
    def version(self) -> int:
        """Return the corpus version of its records and labels."""
        return int(self.pools[0].parameters["version"])

    def guarded(self) -> list[CompiledPool]:
        """Return the pool of the mining of each source."""
        recipe = replace(self.recipe, by=self.policy)
        return [replace(pool, recipe=recipe) for pool in self.pools]


def mined(
    database: Database,
    recipe: TripletRecipe | str | None,
    *,
    source: str | None,
    split: str,
    negatives: Negatives,
    consistent: Consistent | None,
) -> Subject:
    """Return the minings of a recipe, by default the fullest one, in one source or all."""
    version, split = _checked(database, source, split)
    if recipe is None:
        recipe = _most_mined(database, source, split, version)
    chosen = _triplet(database, recipe, version).filtered(consistent)
    minings, policy = Minings(database), policy_of(chosen.by)
    scorer = next(iter(negatives.ways), policy.scorer if policy else None)
    every = sorted(recipe_store.sources_of(database, version)) if source is None else [source]
    suited = [name for name in every if name in (chosen.sources or every)]
    scorers = {name: minings.serving(chosen, name, split) for name in suited}
    names = [name for name, own in scorers.items() if own and scorer in (None, *own)]
    newest = {name: next(reversed(own), None) for name, own in scorers.items()}
    where: dict[str, Any] = {"split": split, "version": version}
    where["allow_stale"] = negatives.allow_stale
    current = [
        minings.current(chosen, source=name, scorer=scorer or newest.get(name), **where)
        for name in names or [source or recipe_store.first_source(database, chosen, version)]
    ]
    kinds = labels_of(database, version)
    pools = [_pool(minings, kinds, chosen, mining.source, **where) for mining in current]
    scorer = scorer or current[-1].scorer
    selected = negatives.policy(scorer) or policy_for(chosen.by, scorer)
    return Subject(chosen, split, names, pools, current, selected)


def pooled(
    database: Database,
    recipe: TripletRecipe | str | None,
    *,
    source: str | None,
    split: str,
    consistent: Consistent | None = None,
    every: bool = False,
) -> Subject:
    """Return a recipe with its pools in a split; ``every`` adds documents of all splits."""
    version, split = _checked(database, source, split)
    if recipe is None:
        recipe = _usual(database, split, version)
    chosen = _triplet(database, recipe, version).filtered(consistent)
    names = _suited(database, chosen, source, version)
    compiled = partial(_pool, Minings(database), labels_of(database, version), version=version)
    pools = [compiled(chosen, name, split=split) for name in names]
    others = [other for other in SPLITS if every and other != split]
    plain = replace(chosen, consistent=None)  # for documents only
    further = [compiled(plain, name, split=other) for name in names for other in others]
    return Subject(chosen, split, names, pools, [], further=further)


def _checked(database: Database, source: str | None, split: str) -> tuple[int, str]:
    version = current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    need_splits(database)
    return version, checked_split(split)


def _triplet(database: Database, recipe: TripletRecipe | str, version: int) -> TripletRecipe:
    found = recipe_store.find(database, recipe, version)
    if isinstance(found, TextRecipe):
        raise RecipeError(f"recipe {found.name!r} makes texts; only triplets have negatives")
    return found


def _fullest(database: Database, source: str | None, split: str | None, version: int) -> list[str]:
    anchors: Counter[str] = Counter()
    for mining in Minings(database).found(source=source, split=split):
        anchors[mining.recipe] += mining.anchors
    named = anchors.keys() & {*recipe_store.names(database, version)}
    return sorted(named, key=lambda name: (-anchors[name], name))


def _most_mined(database: Database, source: str | None, split: str, version: int) -> str:
    names = _fullest(database, source, split, version)
    if not names:
        if mined := Minings(database).found(source=source, split=split):
            raise RecipeError(
                f"recipe {mined[0].recipe!r} was mined, but is not stored by this name: pass the "
                f"recipe itself, or store it with corpus.add_recipe()"
            )
        where = f"source {source!r}, split {split!r}" if source else f"split {split!r}"
        command = shlex.join(["duckplets", "mine", str(database.path)])
        raise StateMismatchError(
            f"{where}: no negatives are mined; call corpus.mine(), or run: {command}. Plain pairs "
            f"need no mining: negatives=0"
        )
    return names[0]


def _usual(database: Database, split: str, version: int) -> str:
    """Return the fullest mined recipe, otherwise the first recipe that a sampler draws."""
    if names := _fullest(database, None, None, version):
        return names[0]
    resolved = recipe_store.resolve(
        database,
        None,
        kind="triplets",
        split=split,
        version=version,
        max_tokens=chunking_of(database)["max_tokens"],
    )
    found = [recipe.name for source in resolved for recipe in source.recipes]
    if not found:
        raise RecipeError("the corpus has no recipe to draw by; ingest some text first")
    return USUAL if USUAL in found else found[0]


def _suited(
    database: Database, recipe: TripletRecipe, source: str | None, version: int
) -> list[str]:
    """Return ``source``, or all sources a recipe applies to."""
    recipe_store.first_source(database, recipe, version)
    if source is not None:
        if recipe.sources and source not in recipe.sources:
            limits = ", ".join(recipe.sources)
            raise RecipeError(f"recipe {recipe.name!r} is limited to {limits}, not {source!r}")
        return [source]
    every = recipe_store.sources_of(database, version)
    suited = recipe.sources or [name for name, own in every.items() if not own.are_documents]
    return sorted(name for name in every if name in suited)


def _pool(
    minings: Minings,
    kinds: Kinds,
    recipe: TripletRecipe,
    source: str,
    *,
    allow_stale: bool = False,
    **where: Any,
) -> CompiledPool:
    """Compile the lists of anchors, positives and documents, without rules for negatives."""
    ranked = minings.ranks_of(recipe, source=source, allow_stale=allow_stale, **where)
    plain = replace(recipe, strategy="other_record", by=None, when_short="drop")
    return compile_pool(plain, ranked=ranked, source=source, **where, **kinds.of(source))
