"""Turn a recipe's selectors and strategy into what the statement of its pool is filled with.

Selectors become conditions on ``slot``, a chunk with its section and record. A strategy becomes
classes of anchors and bins of negatives, hashed from the terms it compares, and the pairs of
them that may, or must not, be drawn together. What users wrote comes from checked trees only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from duckplets.errors import RecipeError
from duckplets.pools.cte_steps import literal
from duckplets.pools.facts import Fact, told
from duckplets.recipes.conditions import pair_condition, where_condition
from duckplets.recipes.recipes import SqlStrategy, TextRecipe, TripletRecipe
from duckplets.recipes.selectors import Selector

if TYPE_CHECKING:
    from sqlglot import exp

Labels = Literal["binary", "graded", "given"]

_ALLOWED = ("pools/parts/compared", "pools/parts/allowed")
_FORBIDDEN = ("pools/parts/compared", "pools/parts/forbidden")
_RECORD = "record_key::UBIGINT"
_NO_TERM = "0::UBIGINT"


@dataclass(frozen=True, slots=True)
class Law:
    """How a recipe tells legal negatives.

    Attributes:
        parts: Files whose steps say so, in the place of those of ``pools/triplets``.
        forbids: Whether ``pairs`` lists what must not be drawn, rather than what may.
        compares: Whether anchors have classes and negatives bins.
        unbounded: Whether ``pairs`` compares every class with every bin.
        anchor_columns: Columns of anchors that it looks at, ``class`` the last of them.
        negative_columns: Columns of negatives, ``bin`` the last of them.
        fills: What else it fills in.
    """

    parts: tuple[str, ...]
    forbids: bool
    compares: bool = True
    unbounded: bool = False
    anchor_columns: tuple[str, ...] = ()
    negative_columns: tuple[str, ...] = ()
    fills: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def law_of(recipe: TripletRecipe, *, staged: bool = False) -> Law:
    """Return how a recipe tells legal negatives; staged, it looks at facts in place of texts."""
    if recipe.negative.kind == "near_date":
        nearest = ("pools/parts/nearest", "pools/parts/nearest_pairs")
        return _by_hash((*_ALLOWED, *nearest), _RECORD, _RECORD, forbids=False)
    if isinstance(recipe.strategy, SqlStrategy):
        return _of_condition(recipe.strategy, staged=staged)
    if recipe.strategy == "other_date":
        # Two records without a date are not of different dates: NULL is a date like another here.
        same = "anchor.a0 IS NOT DISTINCT FROM negative.n0"
        return _of_terms(["slot.date"], ["slot.date"], same, forbids=True)
    if recipe.strategy == "same_record":
        filled = ("pools/parts/filled_negatives",) if recipe.when_short == "random" else ()
        parts = ("pools/parts/own_negatives", *filled)
        return _by_hash(parts, _RECORD, _RECORD, forbids=False)
    if recipe.strategy == "question_answer_mismatch":
        whole = recipe.negatives_from == "split"
        question = "pools/parts/split_question" if whole else "pools/parts/same_question"
        return _by_hash((*_FORBIDDEN, question), "text_hash", _RECORD, forbids=True)
    if recipe.mined:
        return _by_hash(("pools/parts/compared",), _NO_TERM, _NO_TERM, forbids=True)
    return Law(("pools/parts/counted",), forbids=True, compares=False)


def check_nearest(recipe: TripletRecipe) -> None:
    """Refuse a recipe of a near_date negative whose other parts do not go with it.

    Raises:
        RecipeError: They do not.
    """
    if recipe.negative.kind != "near_date":
        return
    if recipe.strategy != "other_record":
        raise RecipeError(
            f"recipe {recipe.name!r}: a near_date negative is chosen by its date already; "
            f"leave the strategy at 'other_record'"
        )
    if recipe.positive.kind == "near_date":
        raise RecipeError(
            f"recipe {recipe.name!r}: only one of positive and negative can be near_date"
        )


def _by_hash(parts: tuple[str, ...], anchor: str, negative: str, *, forbids: bool) -> Law:
    """Return a law whose classes and bins are hashes or keys already."""
    return Law(
        parts,
        forbids,
        anchor_columns=(f"{anchor} AS class",),
        negative_columns=(f"{negative} AS bin",),
    )


def _of_condition(strategy: SqlStrategy, *, staged: bool) -> Law:
    from sqlglot import exp

    condition = pair_condition(strategy.sql)
    forbids = condition.inequality and not condition.equality
    tree = condition.tree.copy()
    if forbids:
        tree = _refuted(tree)
    return _of_terms(
        [_sql(term, staged=staged) for term in condition.anchor_terms],
        [_sql(term, staged=staged) for term in condition.negative_terms],
        _sql(exp.paren(tree)),
        forbids=forbids,
        unbounded=not condition.equality,
    )


def _refuted(tree: exp.Expression) -> exp.Expression:
    """Return the condition that this one is not true, kept a plain equality where it can be."""
    from sqlglot import exp

    bare = tree.unnest()
    if isinstance(bare, exp.NullSafeNEQ):
        return exp.NullSafeEQ(this=bare.this.copy(), expression=bare.expression.copy())
    refuted: exp.Expression = exp.func("coalesce", exp.paren(tree), exp.false()).not_()
    return refuted


def _of_terms(
    anchor: list[str],
    negative: list[str],
    condition: str,
    *,
    forbids: bool,
    unbounded: bool = False,
) -> Law:
    """Return a law that compares terms: it names those of each side, and hashes them."""

    def columns(terms: list[str], letter: str, name: str) -> tuple[str, ...]:
        names = [f"{letter}{i}" for i in range(len(terms))]
        whole = f"md5_number_lower(json_array({', '.join(names)}))" if terms else _NO_TERM
        return (*map("{} AS {}".format, terms, names), f"{whole} AS {name}")

    return Law(
        (*(_FORBIDDEN if forbids else _ALLOWED), "pools/parts/terms"),
        forbids,
        unbounded=unbounded,
        anchor_columns=columns(anchor, "a", "class"),
        negative_columns=columns(negative, "n", "bin"),
        fills={
            "anchor_values": [f"a{i}" for i in range(len(anchor))],
            "negative_values": [f"n{i}" for i in range(len(negative))],
            "pair_condition": condition,
        },
    )


def set_apart_by(recipe: TripletRecipe, labels: Labels | None) -> Labels | None:
    """Return what labels do to a recipe: nothing where no pair of its is the one they judge.

    A label judges anchor and positive of one record. Of grades only a condition over ``label``
    can tell which are good enough; where one of the two has it, that decides.
    """
    if labels == "given":
        return labels
    one, other = recipe.anchor, recipe.positive
    alike = one.kind == other.kind == "role" and one.role == other.role
    if alike or own_positive(recipe) or other.kind == "near_date":
        return None
    return None if labels == "graded" and (_asks_label(one) or _asks_label(other)) else labels


def check_labels(recipe: TripletRecipe) -> None:
    """Refuse a recipe whose pairs are none that a label judges.

    Raises:
        RecipeError: Its positive is the anchor itself, or of another record.
    """
    if own_positive(recipe) or recipe.positive.kind == "near_date":
        what = "the anchor itself" if own_positive(recipe) else "of another record"
        raise RecipeError(
            f"recipe {recipe.name!r}: its positive is {what}, and a label judges the anchor and "
            f"the positive of one record; limit the recipe to sources without labels"
        )


def label_flags(recipe: TripletRecipe, labels: Labels | None) -> set[str]:
    """Return of which lines the statement of a pool has those that end with ``-- if NAME``.

    A pair that was judged comes as it stands, also one of equal texts.
    """
    if labels == "given":
        return {"judged"}
    distinct = set() if recipe.allow_same_anchor_positive else {"distinct"}
    return distinct | ({labels} if labels else set())


def _asks_label(selector: Selector) -> bool:
    from sqlglot import exp

    if selector.where is None or "label" not in selector.where.lower():
        return False
    columns = where_condition(selector.where).find_all(exp.Column)
    return any(column.name.lower() == "label" for column in columns)


def positive_parts(recipe: TripletRecipe) -> tuple[str, ...]:
    """Return the files whose steps say where positives come from, if not the record."""
    if recipe.positive.kind == "near_date":
        return ("pools/parts/nearest", "pools/parts/nearest_positives")
    return ("pools/parts/own_positives",) if own_positive(recipe) else ()


def own_positive(recipe: TripletRecipe) -> bool:
    """Whether anchor and positive are one chunk: the same text twice, as SimCSE wants it."""
    return recipe.allow_same_anchor_positive and recipe.anchor == recipe.positive


def text_fills(recipe: TextRecipe, *, staged: bool = False) -> dict[str, str | Sequence[str]]:
    """Return what stands for each name in ``pools/texts``."""
    conditions = [selector_condition(s, staged=staged) for s in recipe.selectors]
    if len(conditions) > 1:
        conditions = [f"({' OR '.join(f'({condition})' for condition in conditions)})"]
    return {"anchor_condition": conditions[0]} | _unit(recipe)


def triplet_fills(
    recipe: TripletRecipe, labels: Labels | None = None, *, staged: bool = False
) -> dict[str, str | Sequence[str]]:
    """Return what stands for each name in ``pools/triplets`` and its parts."""
    law = law_of(recipe, staged=staged)
    guarded = ["section_key", "normalised_hash"] if recipe.mined else []
    families = ["family"] if recipe.mined else []
    label, classes = ["label"] if labels else [], ["class"] if law.compares else []
    judged = labels == "given"
    anchor, positive = (selector_condition(s, staged=staged) for s in recipe.selectors[:2])
    if judged:  # other sections are of no pair that the label judges
        anchor += " AND slot.role = 'anchor'" if recipe.anchor.role != "anchor" else ""
        positive += " AND slot.role = 'context'" if recipe.positive.role != "context" else ""
    elif labels is not None:
        only = "IS DISTINCT FROM 0" if labels == "binary" else "IS NULL"
        positive += f" AND slot.label {only}"
    fills: dict[str, str | Sequence[str]] = {
        "anchor_condition": anchor,
        "positive_condition": positive,
        "negative_condition": selector_condition(recipe.negative, staged=staged),
        "anchor_columns": [*guarded, *families, *map("slot.{}".format, label), *law.anchor_columns],
        "anchor_names": [*classes, *guarded, *families, *(label if judged else [])],
        "positive_columns": guarded,
        "positive_names": guarded,
        "negative_columns": [*guarded, *families, *law.negative_columns],
        "negative_names": [*(["bin"] if law.compares else []), *guarded[:1], *families],
        "negative_order": ("bin, " if law.compares else "") + "record_key, chunk_key",
        "kin_key": "family" if recipe.mined else "record_key",
        "law_keys": _law_keys(recipe, law),
        "same_text": _same_text(recipe),
        "scope_keys": "scope, question" if recipe.mined else "scope",
        "class_scopes": "[0::UBIGINT, class]" if _FORBIDDEN[1] in law.parts else "[class]",
    }
    for selector in (recipe.positive, recipe.negative):
        if selector.kind == "near_date":
            fills["nearest_days"] = str(selector.near_date)
            fills["nearest_condition"] = selector_condition(selector, staged=staged)
    if recipe.negative.kind == "near_date":
        # Negatives never leave their source, so the nearest record must not either.
        fills["nearest_condition"] = f"slot.source = $source AND {fills['nearest_condition']}"
    return {**fills, **law.fills, **_unit(recipe)}


def _law_keys(recipe: TripletRecipe, law: Law) -> str:
    """Return what tells two anchors apart for which different negatives are legal."""
    if not law.compares or recipe.strategy == "same_record":
        return "record_key"
    return "record_key, class, normalised_hash" if recipe.mined else "record_key, class"


def _same_text(recipe: TripletRecipe) -> str:
    """Return why an anchor is left out that has the text of each of its positives."""
    if recipe.anchor == recipe.positive:  # the only one may be the anchor itself
        return "if(positives = 1, 'with a single window', 'same text')"
    return "'same text'"


def _unit(recipe: TripletRecipe | TextRecipe) -> dict[str, str | Sequence[str]]:
    if recipe.per == "chunk":
        return {"unit_key": "chunk_key", "unit_columns": ["chunk_key"]}
    return {"unit_key": "record_key", "unit_columns": []}


def selector_condition(selector: Selector, *, staged: bool = False) -> str:
    """Return the condition on ``slot`` that a selector stands for."""
    slot = _slot(selector)
    if selector.where is None:
        return slot
    return f"{slot} AND ({_sql(where_condition(selector.where), where=slot, staged=staged)})"


def _slot(selector: Selector) -> str:
    if selector.kind == "role" and selector.role is not None:
        return f"slot.role = {literal(selector.role)}"
    if selector.kind == "near_date":
        return "slot.role = 'context'"
    if selector.kind == "position":
        return f"slot.position = {selector.position}"
    return "slot.role <> 'rejected'"


@lru_cache(maxsize=4096)
def facts_of(recipe: TripletRecipe | TextRecipe) -> Mapping[str, Fact]:
    """Return by name what the conditions of a recipe ask of texts."""
    found: dict[str, Fact] = {}
    for selector in recipe.selectors:
        if selector.where is not None:
            found |= told(where_condition(selector.where), _slot(selector))[1]
    if isinstance(recipe, TripletRecipe) and isinstance(recipe.strategy, SqlStrategy):
        condition = pair_condition(recipe.strategy.sql)
        for term in (*condition.anchor_terms, *condition.negative_terms):
            found |= told(term)[1]
    return found


def _sql(tree: exp.Expression, where: str | None = None, *, staged: bool = False) -> str:
    from sqlglot.dialects.duckdb import DuckDB

    return (told(tree, where)[0] if staged else tree).sql(dialect=DuckDB)
