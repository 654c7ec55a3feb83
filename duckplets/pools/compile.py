"""Compile recipes to SQL: for each (recipe, source, split) its pool, one readable statement.

    selectors, strategy ─conditions→ checked text ─┐
    sql/pools, sql/pools/parts ──────steps─────────┴→ one statement, parameterised

The statement is a chain of named steps (``steps``) from the files in ``sql/pools``: those of
``pools/triplets``, and in them those of the law that tells legal negatives, which is written once
for pools that compare nothing (``parts/counted``) and once for all others (``parts/compared``).
The same chain ends in different last parts: the pool's rows, the counts by reason, and the flat
lists a sampler draws from. Compiling is pure: it sees no data and no connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from duckplets.base.sanitize import shown
from duckplets.pools.bindings import (
    Labels,
    check_labels,
    check_nearest,
    facts_of,
    label_flags,
    law_of,
    own_positive,
    positive_parts,
    set_apart_by,
    text_fills,
    triplet_fills,
)
from duckplets.pools.cte_steps import assembled, bound, of_sources
from duckplets.recipes.condition_rules import COLUMNS
from duckplets.recipes.recipes import By, SqlStrategy, TextRecipe, TripletRecipe

Recipe = TripletRecipe | TextRecipe
Guarded = Literal[
    "illegal_texts",
    "mined_anchors",
    "mined_askers",
    "mined_documents",
    "mined_positives",
]
Part = (  # the guarded ones are of mined recipes only
    Literal["pool", "counts", "anchors", "positives", "negatives", "pairs", "sizes"] | Guarded
)

_STAGED = "staged_chunks"
_GUARDED = "guarded_chunks($split, $version)"
_ALWAYS = ("record_key", "text_hash", "source")
_GUARDING = ("section_key", "family", "normalised_hash")


@dataclass(frozen=True, slots=True)
class CompiledPool:
    """The pool of one recipe, source and split, as of a version.

    Attributes:
        recipe: What it was compiled from.
        parameters: Values of the statement's parameters.
        labels: What the labels of its records do to it; None where they have none, or do nothing.
    """

    recipe: Recipe
    parameters: dict[str, Any]
    labels: Labels | None = None

    @property
    def is_given(self) -> bool:
        """Whether its pairs come as they were judged, with nothing drawn beside them."""
        return self.labels == "given"

    @property
    def forbids(self) -> bool:
        """Whether ``pairs`` lists what must not be drawn, rather than what may."""
        return isinstance(self.recipe, TextRecipe) or law_of(_meant(self.recipe)).forbids

    @property
    def own_positive(self) -> bool:
        """Whether the positive is the anchor window itself."""
        return isinstance(self.recipe, TextRecipe) or own_positive(self.recipe)

    @property
    def unbounded(self) -> bool:
        """Whether ``pairs`` compares every class with every bin."""
        return self.pairs_values and law_of(_meant(self.recipe)).unbounded

    @property
    def negatives(self) -> int:
        """How many a sample needs."""
        return int(self.parameters["negatives"])

    @property
    def own_negatives(self) -> bool:
        """Whether negatives are of the anchor's own record."""
        return isinstance(self.recipe, TripletRecipe) and self.recipe.strategy == "same_record"

    @property
    def fills_up(self) -> bool:
        """Whether negatives of other records fill up what the anchor's own record lacks."""
        return isinstance(self.recipe, TripletRecipe) and self.recipe.when_short == "random"

    @property
    def of_split(self) -> bool:
        """Whether negatives may be of all sources of the split."""
        return isinstance(self.recipe, TripletRecipe) and self.recipe.negatives_from == "split"

    @property
    def pairs_values(self) -> bool:
        """Whether a condition pairs values of anchors with values of negatives."""
        return isinstance(getattr(self.recipe, "strategy", None), SqlStrategy)

    def of_source(self) -> CompiledPool:
        """Return the pool whose negatives are of the anchors' source only."""
        recipe = self.recipe
        if isinstance(recipe, TripletRecipe):
            recipe = replace(recipe, negatives_from="source")
        return replace(self, recipe=recipe)

    @property
    def described(self) -> str:
        """What it is, with the conditions that users wrote, for messages."""
        recipe = self.recipe
        found = [s.where for s in recipe.selectors if s.where is not None]
        strategy = getattr(recipe, "strategy", None)
        found += [strategy.sql] if isinstance(strategy, SqlStrategy) else []
        conditions = "".join(f", condition {shown(c, 80)!r}" for c in dict.fromkeys(found))
        source, split = self.parameters["source"], self.parameters["split"]
        return f"recipe {recipe.name!r}, source {source!r}, split {split!r}{conditions}"

    def sql(self, part: Part = "pool", *, staged: bool = False) -> str:
        """Return the statement that yields a part, in DuckDB's dialect.

        A staged one takes the first step, ``members``, from the table ``stage`` makes.
        """
        return _statement(self.recipe, part, self.labels, staged=staged)[0]

    def staged(self, part: Part) -> tuple[str, dict[str, Any]]:
        """Return the staged statement of a part and its parameters."""
        sql, names = _statement(self.recipe, part, self.labels, staged=True)
        return sql, {name: value for name, value in self.parameters.items() if name in names}

    def parameters_of(self, part: Part = "pool", *, staged: bool = False) -> dict[str, Any]:
        """Return the parameters of that statement."""
        names = _statement(self.recipe, part, self.labels, staged=staged)[1]
        return {name: value for name, value in self.parameters.items() if name in names}

    @property
    def alike(self) -> tuple[Recipe, int, Labels | None]:
        """What pools have in common that are read by one statement: all but source and mining."""
        return _meant(self.recipe), self.negatives, self.labels

    def sql_of_many(self, part: Part) -> str:
        """Return the statement that yields a staged part for many sources at once.

        Its parameters are those of ``parameters_of``, but ``sources`` and ``minings`` for those of
        one; its first column, ``number``, tells which of them a row is of.
        """
        return _of_many(_meant(self.recipe), part, self.labels)

    def runnable(self, part: Part = "pool") -> str:
        """Return the statement with its parameters written in, for the duckdb CLI."""
        return bound(self.sql(part), self.parameters) + ";\n"


def compile_pool(
    recipe: Recipe,
    *,
    source: str,
    split: str,
    version: int,
    negatives: int = 1,
    mining: int = 0,
    labels: Labels | None = None,
) -> CompiledPool:
    """Compile a recipe for one source and split.

    Args:
        recipe: What to compile.
        source: Name of the source.
        split: The split.
        version: Of the corpus.
        negatives: How many a sample needs.
        mining: Number of the mining whose dropped anchors are left out, of mined recipes; 0 for
            none.
        labels: ``binary`` or ``graded``, as the source's labels are; ``given`` for its pairs as
            they were judged.

    Raises:
        RecipeError: Selectors and strategy do not go together; or its pairs are none that were
            judged.
    """
    parameters = {"source": source, "split": split, "version": version, "negatives": negatives}
    parameters["mining"] = mining
    if isinstance(recipe, TextRecipe):
        return CompiledPool(recipe, parameters)
    check_nearest(recipe)
    if labels == "given":
        check_labels(recipe)
    return CompiledPool(recipe, parameters, set_apart_by(recipe, labels))


# -- statements -------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _meant(recipe: Recipe) -> Recipe:
    """Return a recipe that has the same pools, and all that they do not depend on left out.

    Many recipes may differ in names and weights only: each is compiled once.
    """
    if isinstance(recipe, TextRecipe):
        return TextRecipe("pool", recipe.selector, per=recipe.per)
    by: By | None = "bm25" if recipe.mined else None
    named = {"name": "pool", "weight": 1.0, "share": None, "instruction": None, "sources": None}
    return replace(recipe, by=by, **named)  # type: ignore[arg-type]


def stage(pools: Iterable[CompiledPool]) -> str:
    """Return the statement that makes a table of what some pools look at."""
    return _stage(frozenset((_meant(pool.recipe), pool.labels) for pool in pools))


@lru_cache(maxsize=64)
def _stage(pools: frozenset[tuple[Recipe, Labels | None]]) -> str:
    needed = set(_ALWAYS)
    for recipe, labels in pools:
        needed |= {*COLUMNS}.intersection(_looked_at(recipe, labels))
    recipes = [recipe for recipe, _ in pools]
    guarded = any(isinstance(recipe, TripletRecipe) and recipe.mined for recipe in recipes)
    needed |= {*_GUARDING} if guarded else set()
    columns = [f"slot.{name}" for name in sorted(needed)]
    facts = sorted({name for recipe in recipes for name in facts_of(recipe)})
    columns += [f"section_facts.{name}" for name in facts]
    chunks = _GUARDED if guarded else ""
    flags = {"facts"} if facts else set()
    return assembled([], "pools/lists/stage", {"slot_columns": columns}, flags, chunks)[0]


@lru_cache(maxsize=4096)
def _looked_at(recipe: Recipe, labels: Labels | None = None) -> frozenset[str]:
    text = _composed(recipe, "pool", labels, staged=True)[0]
    return frozenset(re.findall(r"\bslot\.(\w+)", text))


def compares_texts(recipe: Recipe) -> bool:
    """Whether the staged pool looks at whole texts, beside what is worked out of them before."""
    return "text" in _looked_at(_meant(recipe))


def facts_statement(recipe: Recipe) -> str:
    """Return the statement that works out what the conditions of a recipe ask of texts."""
    columns = [f"{fact.sql} AS {name}" for name, fact in sorted(facts_of(recipe).items())]
    return assembled([], "pools/lists/facts", {"slot_columns": columns})[0]


@lru_cache(maxsize=4096)
def _of_many(recipe: Recipe, part: Part, labels: Labels | None) -> str:
    text = _composed(recipe, part, labels, staged=True)[0]
    columns = {"source": "asked.source", "mining": "asked.mining"}
    return of_sources("pools/lists/of_sources", text, columns)


@lru_cache(maxsize=16_384)
def _statement(
    recipe: Recipe, part: Part, labels: Labels | None, *, staged: bool
) -> tuple[str, frozenset[str]]:
    """Return a statement and the names of its parameters."""
    return _composed(_meant(recipe), part, labels, staged=staged)


@lru_cache(maxsize=4096)
def _composed(
    recipe: Recipe, part: Part, labels: Labels | None, *, staged: bool
) -> tuple[str, frozenset[str]]:
    chunks = _STAGED if staged else ""
    if isinstance(recipe, TextRecipe):
        ends = {"pool": "pools/texts", "counts": "pools/lists/text_counts"}
        last = ends.get(part, "pools/lists/text_anchors")
        return assembled(["pools/texts"], last, text_fills(recipe, staged=staged), chunks=chunks)
    parts = ["pools/triplets", *positive_parts(recipe), *law_of(recipe).parts]
    if recipe.negatives_from == "split":
        parts.append("pools/parts/split_negatives")
    flags = label_flags(recipe, labels)
    if labels == "given":
        parts.append("pools/parts/given")
    if recipe.mined:
        parts.append("pools/parts/guarded")
        flags.add("mined")
        chunks = chunks or _GUARDED
    last = "pools/triplets" if part == "pool" else f"pools/lists/{part}"
    return assembled(parts, last, triplet_fills(recipe, labels, staged=staged), flags, chunks)
