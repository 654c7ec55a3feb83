"""Recipes to SQL: one pool for every (recipe, source, split), composed as a tree.

    selectors, strategy ─conditions→ checked trees ─┐
    sql/pools/*.sql ──────────────parts─────────────┴→ one statement, parameterised

The statement is assembled by ``sqlglot`` from the parts in ``sql/pools``: names such as
``anchor_condition`` stand for what the recipe says, and a part such as ``pairs`` takes the place
of the default of that name. The same chain of parts ends in different last steps: the pool's
rows, the counts by reason, and the flat lists a sampler draws from. Compiling is pure: it sees
no data and no connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from duckplets.conditions import pair_condition, where_condition
from duckplets.errors import RecipeError
from duckplets.queries import query
from duckplets.recipes import Selector, SqlStrategy, TextRecipe, TripletRecipe

if TYPE_CHECKING:
    from sqlglot import exp

Recipe = TripletRecipe | TextRecipe
Part = Literal["pool", "counts", "anchors", "positives", "negatives", "pairs", "same", "sizes"]

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

    def sql(self, part: Part = "pool", *, staged: bool = False) -> str:
        """Return the statement that yields a part, in DuckDB's dialect.

        A staged one takes the first step, ``members``, from the table ``stage`` makes.
        """
        return _statement(self.recipe, part, staged=staged)

    def parameters_of(self, part: Part = "pool", *, staged: bool = False) -> dict[str, Any]:
        """Return the parameters of that statement."""
        return bound(self.sql(part, staged=staged), self.parameters)

    def runnable(self, part: Part = "pool") -> str:
        """Return the statement with its parameters written in, for the duckdb CLI."""
        from sqlglot import exp, parse_one

        def bound(node: Any) -> Any:
            is_parameter = isinstance(node, exp.Placeholder)
            return _literal(self.parameters[node.name]) if is_parameter else node

        tree = parse_one(self.sql(part), dialect="duckdb").transform(bound)
        statement: str = tree.sql(dialect="duckdb", pretty=True)
        return statement + ";\n"


def compile_pool(
    recipe: Recipe, *, source: str, split: str, version: int, negatives: int = 1
) -> CompiledPool:
    """Compile a recipe for one source and split; ``negatives`` is how many a sample needs.

    Raises:
        RecipeError: A condition is refused, or selectors and strategy do not go together.
    """
    parameters = {"source": source, "split": split, "version": version, "negatives": negatives}
    if isinstance(recipe, TextRecipe):
        return CompiledPool(recipe, parameters, forbids=True, own_positive=True, unbounded=False)
    comparison = _comparison(recipe)
    return CompiledPool(
        recipe,
        parameters,
        forbids=comparison.forbids,
        own_positive=_own_positive(recipe),
        unbounded=comparison.unbounded,
    )


# -- assembling -------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _parameters(sql: str) -> frozenset[str]:
    from sqlglot import exp, parse_one

    return frozenset(p.name for p in parse_one(sql, dialect="duckdb").find_all(exp.Placeholder))


def stage(recipes: Iterable[Recipe]) -> str:
    """Return the statement that makes a table of what the pools of some recipes look at."""
    from sqlglot import exp

    needed = {"chunk_key", "record_key", "text_hash", "source"}
    for recipe in recipes:
        tree = _tree(recipe, "pool", staged=True)
        needed |= {c.name for c in tree.find_all(exp.Column) if c.table == "slot"}
    members = _parsed("pools/members").ctes[0].this
    members.set("expressions", [e for e in members.expressions if e.alias_or_name in needed])
    table = _parsed("pools/stage")
    table.set("expression", members)
    statement: str = table.sql(dialect="duckdb", pretty=True)
    return statement


def bound(sql: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the parameters that a statement has."""
    return {name: value for name, value in parameters.items() if name in _parameters(sql)}


@lru_cache(maxsize=512)
def _statement(recipe: Recipe, part: Part, *, staged: bool) -> str:
    statement: str = _tree(recipe, part, staged=staged).sql(dialect="duckdb", pretty=True)
    return statement


def _tree(recipe: Recipe, part: Part, *, staged: bool) -> exp.Expression:
    if isinstance(recipe, TextRecipe):
        fills = {
            "anchor_condition": _selector(recipe.selector),
            "unit_key": _column("chunk_key" if recipe.per == "chunk" else "record_key"),
        }
        ends = {"counts": "pools/text_counts", "anchors": "pools/text_anchors"}
        return _assemble("pools/texts", [], fills, ends.get(part), staged=staged)
    comparison = _comparison(recipe)
    parts = [*_positive_parts(recipe), *comparison.parts]
    fills = _triplet_fills(recipe) | comparison.fills
    end = None if part == "pool" else f"pools/{part}"
    return _assemble("pools/triplets", parts, fills, end, staged=staged)


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
    members = [] if staged else _parsed("pools/members").ctes
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

    for column in list(tree.find_all(exp.Column)):
        fill = fills.get(column.name) if not column.table else None
        if isinstance(fill, list):
            parent = column.parent
            if parent is None:
                raise AssertionError(column.name)
            kept = [e for e in parent.expressions if e is not column]
            parent.set("expressions", [*kept, *(f.copy() for f in fill)])
        elif fill is not None:
            column.replace(fill.copy())
    return tree


def _parsed(name: str) -> Any:
    from sqlglot import parse_one

    return parse_one(query(name), dialect="duckdb")


# -- what a recipe fills in -------------------------------------------------------------------


def _triplet_fills(recipe: TripletRecipe) -> dict[str, Any]:
    fills: dict[str, Any] = {
        "anchor_condition": _selector(recipe.anchor),
        "positive_condition": _selector(recipe.positive),
        "negative_condition": _selector(recipe.negative),
        "same_condition": _expression("FALSE" if recipe.allow_same_anchor_positive else "TRUE"),
        "unit_key": _column("chunk_key" if recipe.per == "chunk" else "record_key"),
        "anchor_columns": [],
        "negative_columns": [],
    }
    for selector in (recipe.positive, recipe.negative):
        if selector.kind == "near_date":
            fills["nearest_days"] = _expression(str(selector.days))
            fills["nearest_condition"] = _selector(selector)
    if recipe.negative.kind == "near_date":
        # Negatives never leave their source, so the nearest record must not either.
        own = _expression("slot.source = $source")
        fills["nearest_condition"] = _both(own, fills["nearest_condition"])
    return fills


def _positive_parts(recipe: TripletRecipe) -> list[str]:
    if recipe.positive.kind == "near_date":
        return ["pools/nearest", "pools/nearest_positives"]
    return ["pools/own_positives"] if _own_positive(recipe) else []


def _own_positive(recipe: TripletRecipe) -> bool:
    """Whether anchor and positive are one window: the same text twice, as SimCSE wants it."""
    return recipe.allow_same_anchor_positive and recipe.anchor == recipe.positive


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How a strategy tells legal negatives: parts of the statement, fills, and their sense."""

    parts: list[str]
    fills: dict[str, Any]
    forbids: bool
    unbounded: bool = False


def _comparison(recipe: TripletRecipe) -> _Comparison:
    if recipe.negative.kind == "near_date":
        return _nearest_comparison(recipe)
    if isinstance(recipe.strategy, SqlStrategy):
        return _sql_comparison(recipe.strategy)
    if recipe.strategy == "other_date":
        return _date_comparison()
    if recipe.strategy == "question_answer_mismatch":
        fills = {
            "anchor_terms": _expression("slot.text_hash"),
            "negative_terms": _expression("slot.record_key::UBIGINT"),
        }
        parts = ["pools/same_question", "pools/forbidden"]
        return _Comparison(parts, fills, forbids=True)
    nothing = {name: _expression("0::UBIGINT") for name in ("anchor_terms", "negative_terms")}
    return _Comparison(["pools/forbidden"], nothing, forbids=True)


def _nearest_comparison(recipe: TripletRecipe) -> _Comparison:
    if recipe.strategy != "other_record":
        raise RecipeError(
            f"recipe {recipe.name!r}: a near_date negative is chosen by its date already; "
            f"leave the strategy at 'other_record'"
        )
    if recipe.positive.kind == "near_date":
        raise RecipeError(
            f"recipe {recipe.name!r}: only one of positive and negative can be near_date"
        )
    fills = {
        name: _expression("slot.record_key::UBIGINT") for name in ("anchor_terms", "negative_terms")
    }
    parts = ["pools/nearest", "pools/nearest_pairs", "pools/allowed"]
    return _Comparison(parts, fills, forbids=False)


def _date_comparison() -> _Comparison:
    # Two records without a date are not of different dates: NULL is a date like another here.
    fills = _term_fills([_column("date", "slot")], [_column("date", "slot")])
    fills["pair_condition"] = _expression("anchor.a0 IS NOT DISTINCT FROM negative.n0")
    return _Comparison(["pools/compared", "pools/forbidden"], fills, forbids=True)


def _sql_comparison(strategy: SqlStrategy) -> _Comparison:
    from sqlglot import exp

    condition = pair_condition(strategy.condition)
    fills = _term_fills(list(condition.anchor_terms), list(condition.negative_terms))
    forbids = condition.inequality and not condition.equality
    tree = condition.tree.copy()
    if forbids:
        tree = _refuted(tree)
    fills["pair_condition"] = exp.paren(tree)
    parts = ["pools/compared", "pools/forbidden" if forbids else "pools/allowed"]
    return _Comparison(parts, fills, forbids, unbounded=not condition.equality)


def _refuted(tree: exp.Expression) -> exp.Expression:
    """Return the condition that this one is not true, kept a plain equality where it can be."""
    from sqlglot import exp

    bare = tree.unnest()
    if isinstance(bare, exp.NullSafeNEQ):
        return exp.NullSafeEQ(this=bare.this.copy(), expression=bare.expression.copy())
    refuted: exp.Expression = exp.func("coalesce", exp.paren(tree), exp.false()).not_()
    return refuted


def _term_fills(anchor: list[Any], negative: list[Any]) -> dict[str, Any]:
    """Name the terms each side contributes, and hash them to a class and a group."""
    from sqlglot import exp

    def columns(terms: list[Any], letter: str) -> list[Any]:
        return [exp.alias_(term.copy(), f"{letter}{i}") for i, term in enumerate(terms)]

    def hashed(terms: list[Any]) -> Any:
        if not terms:
            return _expression("0::UBIGINT")
        call = exp.func("json_array", *(term.copy() for term in terms))
        return exp.func("md5_number_lower", call)

    return {
        "anchor_terms": hashed(anchor),
        "negative_terms": hashed(negative),
        "anchor_values": [_column(f"a{i}") for i in range(len(anchor))],
        "negative_values": [_column(f"n{i}") for i in range(len(negative))],
        "anchor_columns": columns(anchor, "a"),
        "negative_columns": columns(negative, "n"),
    }


def _selector(selector: Selector) -> Any:
    """Return the condition on ``slot`` that a selector stands for."""
    from sqlglot import exp

    slot = _expression("TRUE")
    if selector.kind == "role":
        slot = _column("role", "slot").eq(exp.Literal.string(selector.role))
    elif selector.kind == "near_date":
        slot = _column("role", "slot").eq(exp.Literal.string("context"))
    elif selector.kind == "position":
        slot = _column("position", "slot").eq(exp.Literal.number(selector.index))
    return slot if selector.where is None else _both(slot, where_condition(selector.where))


def _both(first: Any, second: Any) -> Any:
    from sqlglot import exp

    return exp.and_(first.copy(), second.copy())


def _expression(text: str) -> Any:
    from sqlglot import parse_one

    return parse_one(text, dialect="duckdb")


def _column(name: str, table: str | None = None) -> Any:
    from sqlglot import exp

    return exp.column(name, table=table)


def _literal(value: Any) -> Any:
    from sqlglot import exp

    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(value)
