"""Recipes to SQL: one pool for every (recipe, source, split), composed as a tree.

    selectors, strategy ─conditions→ checked trees ─┐
    sql/pools/*.sql ──────────────parts─────────────┴→ one statement, parameterised

The statement is assembled by ``sqlglot`` from the parts in ``sql/pools``: names such as
``anchor_condition`` stand for what the recipe says, and a part such as ``pairs`` takes the place
of the default of that name. The same chain of parts ends in different last steps: the pool's
rows, the counts by reason, and the flat lists a sampler draws from. A recipe whose negatives are
mined has a chain of its own (``pools/guarded``), with guards against false negatives. Compiling
is pure: it sees no data and no connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from duckplets.db.queries import query
from duckplets.pools.fills import (
    column,
    comparison_of,
    literal,
    own_positive,
    positive_parts,
    selector_condition,
    triplet_fills,
)
from duckplets.recipes.recipes import TextRecipe, TripletRecipe

if TYPE_CHECKING:
    from sqlglot import exp

Recipe = TripletRecipe | TextRecipe
Guarded = Literal[
    "illegal_texts",
    "mined_anchors",
    "mined_askers",
    "mined_documents",
    "mined_positives",
]
Part = (  # the guarded ones are of mined recipes only
    Literal["pool", "counts", "anchors", "positives", "negatives", "pairs", "same", "sizes"]
    | Guarded
)

_Fills = Mapping[str, "exp.Expression | list[exp.Expression]"]


@dataclass(frozen=True, slots=True)
class CompiledPool:
    """The pool of one recipe, source and split, as of a version.

    Attributes:
        recipe: What it was compiled from.
        parameters: Values of the statement's parameters.
        forbids: Whether ``pairs`` lists what must not be drawn, rather than what may.
        own_positive: Whether the positive is the anchor window itself.
        unbounded: Whether ``pairs`` compares every class with every group.
    """

    recipe: Recipe
    parameters: dict[str, Any]
    forbids: bool
    own_positive: bool
    unbounded: bool

    @property
    def own_negatives(self) -> bool:
        """Whether negatives are of the anchor's own record."""
        return isinstance(self.recipe, TripletRecipe) and self.recipe.strategy == "same_record"

    def sql(self, part: Part = "pool", *, staged: bool = False) -> str:
        """Return the statement that yields a part, in DuckDB's dialect.

        A staged one takes the first step, ``members``, from the table ``stage`` makes.
        """
        return _statement(self.recipe, part, staged=staged)[0]

    def parameters_of(self, part: Part = "pool", *, staged: bool = False) -> dict[str, Any]:
        """Return the parameters of that statement."""
        names = _statement(self.recipe, part, staged=staged)[1]
        return {name: value for name, value in self.parameters.items() if name in names}

    def runnable(self, part: Part = "pool") -> str:
        """Return the statement with its parameters written in, for the duckdb CLI."""
        from sqlglot import exp, parse_one

        def bound(node: Any) -> Any:
            is_parameter = isinstance(node, exp.Placeholder)
            return literal(self.parameters[node.name]) if is_parameter else node

        tree = parse_one(self.sql(part), dialect="duckdb").transform(bound)
        statement: str = tree.sql(dialect="duckdb", pretty=True)
        return statement + ";\n"


def compile_pool(
    recipe: Recipe,
    *,
    source: str,
    split: str,
    version: int,
    negatives: int = 1,
    mining: int = 0,
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

    Raises:
        RecipeError: A condition is refused, or selectors and strategy do not go together.
    """
    parameters = {"source": source, "split": split, "version": version, "negatives": negatives}
    parameters["mining"] = mining
    if isinstance(recipe, TextRecipe):
        return CompiledPool(recipe, parameters, forbids=True, own_positive=True, unbounded=False)
    comparison = comparison_of(recipe)
    return CompiledPool(
        recipe,
        parameters,
        forbids=comparison.forbids,
        own_positive=own_positive(recipe),
        unbounded=comparison.unbounded,
    )


# -- assembling -------------------------------------------------------------------------------


def stage(recipes: Iterable[Recipe]) -> str:
    """Return the statement that makes a table of what the pools of some recipes look at."""
    from sqlglot import exp

    needed = {"chunk_key", "record_key", "text_hash", "source"}
    first = "pools/members"
    for recipe in recipes:
        tree = _tree(recipe, "pool", staged=True)
        needed |= {c.name for c in tree.find_all(exp.Column) if c.table == "slot"}
        if isinstance(recipe, TripletRecipe) and recipe.mined:
            first = "pools/guarded_members"
    *others, last = _parsed(first).ctes
    members = last.this
    members.set("expressions", [e for e in members.expressions if e.alias_or_name in needed])
    if others:
        members.set("with_", exp.With(expressions=others))
    table = _parsed("pools/stage")
    table.set("expression", members)
    statement: str = table.sql(dialect="duckdb", pretty=True)
    return statement


@lru_cache(maxsize=512)
def _statement(recipe: Recipe, part: Part, *, staged: bool) -> tuple[str, frozenset[str]]:
    """Return a statement and the names of its parameters."""
    from sqlglot import exp

    tree = _tree(recipe, part, staged=staged)
    names = frozenset(node.name for node in tree.find_all(exp.Placeholder))
    return tree.sql(dialect="duckdb", pretty=True), names


def _tree(recipe: Recipe, part: Part, *, staged: bool) -> exp.Expression:
    if isinstance(recipe, TextRecipe):
        fills = {
            "anchor_condition": selector_condition(recipe.selector),
            "unit_key": column("chunk_key" if recipe.per == "chunk" else "record_key"),
        }
        ends = {"counts": "pools/text_counts", "anchors": "pools/text_anchors"}
        return _assemble("pools/texts", [], fills, ends.get(part), staged=staged)
    comparison = comparison_of(recipe)
    parts = [*positive_parts(recipe), *comparison.parts]
    fills = triplet_fills(recipe) | comparison.fills
    end = None if part == "pool" else f"pools/{part}"
    if not recipe.mined:
        return _assemble("pools/triplets", parts, fills, end, staged=staged)
    # Any number of texts can be illegal for an anchor, so a few rows do not tell enough.
    closer = {
        "pools/forbidden": "pools/guarded_forbidden",
        "pools/allowed": "pools/guarded_allowed",
    }
    parts = [name for name in parts if name != "pools/one_group"]
    parts += [closer[name] for name in parts if name in closer]
    ends = {"anchors": "pools/guarded_anchors", "negatives": "pools/guarded_negatives"}
    return _assemble("pools/guarded", parts, fills, ends.get(part, end), staged=staged)


def _assemble(
    base: str, parts: Iterable[str], fills: _Fills, end: str | None, *, staged: bool
) -> exp.Expression:
    """Chain members, the base and the parts, swap the last step and fill in the names."""
    from sqlglot import exp

    tree = _parsed(base)
    chain = {cte.alias: cte for cte in tree.ctes}
    order = [cte.alias for cte in tree.ctes]
    for name in parts:
        fresh = [cte.alias for cte in _parsed(name).ctes]
        order[1:1] = [alias for alias in fresh if alias not in chain]
        chain |= {cte.alias: cte for cte in _parsed(name).ctes}
    if end is not None:
        tree = _parsed(end)
    first = "pools/guarded_members" if base == "pools/guarded" else "pools/members"
    members = [] if staged else _parsed(first).ctes
    ctes = [*members, *(chain[alias] for alias in order)]
    used = _used(tree, ctes)
    tree.set("with_", exp.With(expressions=[cte for cte in ctes if cte.alias in used]))
    return _filled(tree, fills)


def _used(tree: exp.Expression, ctes: list[Any]) -> set[str]:
    """Return the names of the parts that the last step needs, directly or not."""
    from sqlglot import exp

    bodies: dict[str, exp.Expression] = {cte.alias: cte.this for cte in ctes}
    used: set[str] = set()
    waiting = [tree.copy()]
    waiting[0].set("with_", None)
    while waiting:
        names = {table.name for table in waiting.pop().find_all(exp.Table)}
        fresh = (names & bodies.keys()) - used
        used |= fresh
        waiting += [bodies[name] for name in fresh]
    return used


def _filled(tree: exp.Expression, fills: _Fills) -> exp.Expression:
    from sqlglot import exp

    for name in list(tree.find_all(exp.Column)):
        fill = fills.get(name.name) if not name.table else None
        if isinstance(fill, list):
            parent = name.parent
            if parent is None:
                raise AssertionError(name.name)
            kept = [e for e in parent.expressions if e is not name]
            parent.set("expressions", [*kept, *(f.copy() for f in fill)])
        elif fill is not None:
            name.replace(fill.copy())
    return tree


def _parsed(name: str) -> Any:
    return _parsed_once(name).copy()


@lru_cache
def _parsed_once(name: str) -> Any:
    from sqlglot import parse_one

    return parse_one(query(name), dialect="duckdb")
