"""What a recipe fills into the statement of its pool: conditions, terms and parts.

Selectors become conditions on ``slot``, a window with its section and record. A strategy becomes
classes of anchors and groups of negatives, hashed from the terms it compares, and the pairs of
them that may, or must not, be drawn together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckplets.errors import RecipeError
from duckplets.recipes.conditions import pair_condition, where_condition
from duckplets.recipes.recipes import Selector, SqlStrategy, TripletRecipe

if TYPE_CHECKING:
    from sqlglot import exp


def triplet_fills(recipe: TripletRecipe) -> dict[str, Any]:
    """Return what stands for each name in ``pools/triplets``, but for the strategy's."""
    fills: dict[str, Any] = {
        "anchor_condition": selector_condition(recipe.anchor),
        "positive_condition": selector_condition(recipe.positive),
        "negative_condition": selector_condition(recipe.negative),
        "same_condition": _expression("FALSE" if recipe.allow_same_anchor_positive else "TRUE"),
        "unit_key": column("chunk_key" if recipe.per == "chunk" else "record_key"),
        "anchor_columns": [],
        "positive_columns": [column("section_key"), column("normal")] if recipe.mined else [],
        "negative_columns": [],
    }
    for selector in (recipe.positive, recipe.negative):
        if selector.kind == "near_date":
            fills["nearest_days"] = _expression(str(selector.days))
            fills["nearest_condition"] = selector_condition(selector)
    if recipe.negative.kind == "near_date":
        # Negatives never leave their source, so the nearest record must not either.
        own = _expression("slot.source = $source")
        fills["nearest_condition"] = _both(own, fills["nearest_condition"])
    return fills


def positive_parts(recipe: TripletRecipe) -> list[str]:
    """Return the statements whose parts say where positives come from, if not the record."""
    if recipe.positive.kind == "near_date":
        return ["pools/nearest", "pools/nearest_positives"]
    return ["pools/own_positives"] if own_positive(recipe) else []


def own_positive(recipe: TripletRecipe) -> bool:
    """Whether anchor and positive are one window: the same text twice, as SimCSE wants it."""
    return recipe.allow_same_anchor_positive and recipe.anchor == recipe.positive


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a strategy tells legal negatives: parts of the statement, fills, and their sense."""

    parts: list[str]
    fills: dict[str, Any]
    forbids: bool
    unbounded: bool = False


def comparison_of(recipe: TripletRecipe) -> Comparison:
    """Return how a recipe's strategy tells legal negatives."""
    if recipe.negative.kind == "near_date":
        return _nearest_comparison(recipe)
    if isinstance(recipe.strategy, SqlStrategy):
        return _sql_comparison(recipe.strategy)
    if recipe.strategy == "other_date":
        return _date_comparison()
    if recipe.strategy == "same_record":
        return Comparison(["pools/same_record"], _by_record(), forbids=False)
    if recipe.strategy == "question_answer_mismatch":
        fills = {
            "anchor_terms": _expression("slot.text_hash"),
            "negative_terms": _expression("slot.record_key::UBIGINT"),
        }
        parts = ["pools/same_question", "pools/forbidden"]
        return Comparison(parts, fills, forbids=True)
    nothing = {name: _expression("0::UBIGINT") for name in ("anchor_terms", "negative_terms")}
    return Comparison(["pools/one_group", "pools/forbidden"], nothing, forbids=True)


def _nearest_comparison(recipe: TripletRecipe) -> Comparison:
    if recipe.strategy != "other_record":
        raise RecipeError(
            f"recipe {recipe.name!r}: a near_date negative is chosen by its date already; "
            f"leave the strategy at 'other_record'"
        )
    if recipe.positive.kind == "near_date":
        raise RecipeError(
            f"recipe {recipe.name!r}: only one of positive and negative can be near_date"
        )
    parts = ["pools/nearest", "pools/nearest_pairs", "pools/allowed"]
    return Comparison(parts, _by_record(), forbids=False)


def _by_record() -> dict[str, Any]:
    """Make each record a class of anchors and a group of negatives."""
    names = ("anchor_terms", "negative_terms")
    return {name: _expression("slot.record_key::UBIGINT") for name in names}


def _date_comparison() -> Comparison:
    # Two records without a date are not of different dates: NULL is a date like another here.
    fills = _term_fills([column("date", "slot")], [column("date", "slot")])
    fills["pair_condition"] = _expression("anchor.a0 IS NOT DISTINCT FROM negative.n0")
    return Comparison(["pools/compared", "pools/forbidden"], fills, forbids=True)


def _sql_comparison(strategy: SqlStrategy) -> Comparison:
    from sqlglot import exp

    condition = pair_condition(strategy.condition)
    fills = _term_fills(list(condition.anchor_terms), list(condition.negative_terms))
    forbids = condition.inequality and not condition.equality
    tree = condition.tree.copy()
    if forbids:
        tree = _refuted(tree)
    fills["pair_condition"] = exp.paren(tree)
    parts = ["pools/compared", "pools/forbidden" if forbids else "pools/allowed"]
    return Comparison(parts, fills, forbids, unbounded=not condition.equality)


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
        "anchor_values": [column(f"a{i}") for i in range(len(anchor))],
        "negative_values": [column(f"n{i}") for i in range(len(negative))],
        "anchor_columns": columns(anchor, "a"),
        "negative_columns": columns(negative, "n"),
    }


def selector_condition(selector: Selector) -> Any:
    """Return the condition on ``slot`` that a selector stands for."""
    from sqlglot import exp

    slot = _expression("slot.role <> 'rejected'")
    if selector.kind == "role":
        slot = column("role", "slot").eq(exp.Literal.string(selector.role))
    elif selector.kind == "near_date":
        slot = column("role", "slot").eq(exp.Literal.string("context"))
    elif selector.kind == "position":
        slot = column("position", "slot").eq(exp.Literal.number(selector.index))
    return slot if selector.where is None else _both(slot, where_condition(selector.where))


def _both(first: Any, second: Any) -> Any:
    from sqlglot import exp

    return exp.and_(first.copy(), second.copy())


def _expression(text: str) -> Any:
    from sqlglot import parse_one

    return parse_one(text, dialect="duckdb")


def column(name: str, table: str | None = None) -> Any:
    """Return a column as a tree."""
    from sqlglot import exp

    return exp.column(name, table=table)


def literal(value: Any) -> Any:
    """Return a number or a string as a tree."""
    from sqlglot import exp

    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(value)
