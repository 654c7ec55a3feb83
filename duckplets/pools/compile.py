"""Compile recipes to SQL: for each (recipe, source, split) its pool, one readable statement.

    selectors, strategy ─conditions→ checked text ─┐
    sql/pools, sql/pools/parts ──────steps─────────┴→ one statement, parameterised

The statement is a chain of named steps (``cte_steps``) from the files in ``sql/pools``: those of
``pools/triplets``, and the law that tells legal negatives, which is written once for pools that
compare nothing (``parts/counted``) and once for all others (``parts/compared``). It ends in the
pool's rows, in counts by reason, or in the flat lists a sampler draws from. Compiling is pure.

Selectors become conditions on ``slot``, a chunk with its section and record. A strategy becomes
classes of anchors and bins of negatives, hashed from the terms it compares, and the pairs of
them that may, or must not, be drawn together. What users wrote comes from checked trees only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from duckplets.base.sanitize import shown
from duckplets.conditions.allowed import COLUMNS
from duckplets.db.queries import bound, literal
from duckplets.errors import RecipeError
from duckplets.pools.cte_steps import assembled, of_sources
from duckplets.recipes.recipes import Recipe, Selector, SqlStrategy, TextRecipe, TripletRecipe

if TYPE_CHECKING:
    from sqlglot import exp

    from duckplets.conditions.parse import Fact

Labels = Literal["binary", "graded", "given"]
Part = (
    Literal["pool", "counts", "anchors", "positives", "negatives", "pairs", "sizes", "relabelled"]
    | Literal["illegal_texts", "mined_anchors", "mined_askers"]  # for mined recipes only
    | Literal["mined_documents", "mined_positives"]
)

_STAGED = "staged_chunks"
_GUARDED = "guarded_chunks($split, $version)"
_ALWAYS = ("record_key", "text_hash", "source")
_GUARDING = ("section_key", "position", "family", "normalised_hash")
_ALLOWED = ("pools/parts/compared", "pools/parts/allowed")
_FORBIDDEN = ("pools/parts/compared", "pools/parts/forbidden")
_RECORD = "record_key::UBIGINT"
_NO_TERM = "0::UBIGINT"
_FACTS: dict[str, Fact] = {}  # of all compiled statements: a name is a digest of the fact


@dataclass(frozen=True, slots=True)
class CompiledPool:
    """The pool of one recipe, source and split, as of a version."""

    recipe: Recipe
    parameters: dict[str, Any]  # values of the statement's parameters
    labels: Labels | None = None  # how labels of its records affect it, or None
    relabelled: bool = False  # whether verdicts on pairs of texts affect it
    negatives: int = field(init=False)  # negatives a sample needs
    is_given: bool = field(init=False)  # its pairs come labelled, with nothing drawn
    own_positive: bool = field(init=False)  # the positive is the anchor window itself
    own_negatives: bool = field(init=False)  # negatives come from the anchor's own record
    fills_up: bool = field(init=False)  # other records fill up what the own one lacks
    of_split: bool = field(init=False)  # negatives may be of all sources of the split
    pairs_values: bool = field(init=False)  # a condition pairs values of anchors and negatives

    def __post_init__(self) -> None:
        recipe = self.recipe if isinstance(self.recipe, TripletRecipe) else None
        found = {
            "negatives": int(self.parameters["negatives"]),
            "is_given": self.labels == "given",
            "own_positive": recipe is None or recipe.own_positive,
            "own_negatives": recipe is not None and recipe.strategy == "same_record",
            "fills_up": recipe is not None and recipe.when_short == "random",
            "of_split": recipe is not None and recipe.negatives_from == "split",
            "pairs_values": recipe is not None and isinstance(recipe.strategy, SqlStrategy),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def forbids(self) -> bool:
        """Whether ``pairs`` lists what must not be drawn, rather than what may."""
        return isinstance(self.recipe, TextRecipe) or law_of(_meant(self.recipe)).forbids

    @property
    def unbounded(self) -> bool:
        """Whether ``pairs`` compares every class with every bin."""
        return self.pairs_values and law_of(_meant(self.recipe)).unbounded

    def of_source(self) -> CompiledPool:
        """Return the pool whose negatives are of the anchors' source only."""
        recipe = cast("TripletRecipe", self.recipe)
        return replace(self, recipe=replace(recipe, negatives_from="source"))

    @property
    def described(self) -> str:
        """Name recipe, source, split and conditions, for messages."""
        found = [s.where for s in self.recipe.selectors if s.where is not None]
        if isinstance(strategy := getattr(self.recipe, "strategy", None), SqlStrategy):
            found.append(strategy.sql)
        conditions = "".join(f", condition {shown(c, 80)!r}" for c in dict.fromkeys(found))
        source, split = self.parameters["source"], self.parameters["split"]
        return f"recipe {self.recipe.name!r}, source {source!r}, split {split!r}{conditions}"

    @property
    def alike(self) -> tuple[Recipe, int, Labels | None, bool]:
        """What pools read by one statement have in common: all but the source."""
        return _meant(self.recipe), self.negatives, self.labels, self.relabelled

    def statement(self, part: Part, *, staged: bool = True) -> tuple[str, dict[str, Any]]:
        """Return the statement of a part, over the staged table or not, and its parameters."""
        asked = _meant(self.recipe), part, self.labels, self.relabelled
        sql, names = _statement(*asked, staged=staged)
        return sql, {name: value for name, value in self.parameters.items() if name in names}

    def sql(self, part: Part = "pool", *, staged: bool = False) -> str:
        """Return the statement in DuckDB's dialect."""
        return self.statement(part, staged=staged)[0]

    def sql_of_many(self, part: Part) -> str:
        """Return the statement of a staged part over several ``sources``, by ``number``."""
        columns = {"source": "asked.source"}
        return of_sources("pools/lists/of_sources", self.sql(part, staged=True), columns)

    def runnable(self, part: Part = "pool") -> str:
        """Return the statement with parameters filled in, for the duckdb CLI."""
        return bound(self.sql(part), self.parameters) + ";\n"


def compile_pool(
    recipe: Recipe,
    *,
    source: str,
    split: str,
    version: int,
    negatives: int = 1,  # negatives of a sample
    labels: Labels | None = None,  # labels of the source; ``given`` for labelled pairs
    relabelled: bool = False,  # whether to heed verdicts on pairs of texts
) -> CompiledPool:
    """Compile a recipe for one source and split, as of a version of the corpus."""
    parameters = {"source": source, "split": split, "version": version, "negatives": negatives}
    if isinstance(recipe, TextRecipe):
        return CompiledPool(recipe, parameters)
    if labels == "given" and (recipe.own_positive or recipe.positive.kind == "near_date"):
        what = "the anchor itself" if recipe.own_positive else "of another record"
        raise RecipeError(
            f"recipe {recipe.name!r}: its positive is {what}, and a label judges the anchor and "
            f"the positive of one record; limit the recipe to sources without labels"
        )
    relabelled = relabelled and labels != "given"  # these come as they were judged
    return CompiledPool(recipe, parameters, set_apart_by(recipe, labels), relabelled)


@dataclass(frozen=True, slots=True)
class Law:
    """How a recipe tells legal negatives."""

    parts: tuple[str, ...]  # files whose steps replace those of pools/triplets
    forbids: bool  # whether ``pairs`` lists what must not be drawn, rather than what may
    anchor_columns: tuple[str, ...] = ()  # columns read of anchors, ``class`` last
    negative_columns: tuple[str, ...] = ()  # columns read of negatives, ``bin`` last
    unbounded: bool = False  # whether ``pairs`` compares every class with every bin
    fills: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def law_of(recipe: TripletRecipe, *, staged: bool = False) -> Law:
    """Return the law of legal negatives of a recipe; staged, it reads facts instead of texts."""
    strategy, own_class, own_bin = recipe.strategy, f"{_RECORD} AS class", f"{_RECORD} AS bin"
    if isinstance(strategy, SqlStrategy):
        return _law_of_condition(strategy, staged=staged)
    if strategy == "other_date":
        # NULL is a date like any other here: two records without a date have the same one
        same = "anchor.a0 IS NOT DISTINCT FROM negative.n0"
        return _law_of_terms(["slot.date"], ["slot.date"], same, forbids=True)
    if recipe.negative.kind == "near_date":
        parts = (*_ALLOWED, "pools/parts/nearest", "pools/parts/nearest_pairs")
        return Law(parts, False, (own_class,), (own_bin,))
    if strategy == "same_record":
        filled = ("pools/parts/filled_negatives",) if recipe.when_short == "random" else ()
        return Law(("pools/parts/own_negatives", *filled), False, (own_class,), (own_bin,))
    if strategy == "question_answer_mismatch":
        of_split = recipe.negatives_from == "split"
        asked = "pools/parts/split_question" if of_split else "pools/parts/same_question"
        return Law((*_FORBIDDEN, asked), True, ("text_hash AS class",), (own_bin,))
    if recipe.mined:
        every = (f"{_NO_TERM} AS class",), (f"{_NO_TERM} AS bin",)
        return Law(("pools/parts/compared",), True, *every)
    return Law(("pools/parts/counted",), True)


def _law_of_condition(strategy: SqlStrategy, *, staged: bool) -> Law:
    from sqlglot import exp

    from duckplets.conditions.parse import pair_condition

    condition = pair_condition(strategy.sql)
    forbids = condition.inequality and not condition.equality
    tree = condition.tree.copy()
    if forbids:  # pairs for which it is not true, by a plain equality if possible
        bare = tree.unnest()
        if isinstance(bare, exp.NullSafeNEQ):
            tree = exp.NullSafeEQ(this=bare.this.copy(), expression=bare.expression.copy())
        else:
            tree = exp.func("coalesce", exp.paren(tree), exp.false()).not_()
    return _law_of_terms(
        [_sql(term, staged=staged) for term in condition.anchor_terms],
        [_sql(term, staged=staged) for term in condition.negative_terms],
        _sql(exp.paren(tree)),
        forbids=forbids,
        unbounded=not condition.equality,
    )


def _law_of_terms(
    anchor: list[str],
    negative: list[str],
    condition: str,
    *,
    forbids: bool,
    unbounded: bool = False,
) -> Law:
    """Return a law that compares terms, named and hashed for each side."""
    columns, values = [], []
    for terms, letter, name in ((anchor, "a", "class"), (negative, "n", "bin")):
        names = [f"{letter}{i}" for i in range(len(terms))]
        whole = f"md5_number_lower(json_array({', '.join(names)}))" if terms else _NO_TERM
        columns.append((*map("{} AS {}".format, terms, names), f"{whole} AS {name}"))
        values.append(names)
    parts = (*(_FORBIDDEN if forbids else _ALLOWED), "pools/parts/terms")
    fills = {"anchor_values": values[0], "negative_values": values[1], "pair_condition": condition}
    return Law(parts, forbids, columns[0], columns[1], unbounded, fills)


def set_apart_by(recipe: TripletRecipe, labels: Labels | None) -> Labels | None:
    """Return how labels affect a recipe; None if its pair is not the labelled one."""
    if labels == "given":
        return labels
    one, other = recipe.anchor, recipe.positive
    alike = one.role is not None and one.role == other.role
    if alike or recipe.own_positive or other.kind == "near_date":
        return None
    return None if labels == "graded" and (_asks_label(one) or _asks_label(other)) else labels


def _asks_label(selector: Selector) -> bool:
    if selector.where is None or "label" not in selector.where.lower():
        return False
    from sqlglot import exp

    from duckplets.conditions.parse import where_condition

    columns = where_condition(selector.where).find_all(exp.Column)
    return any(column.name.lower() == "label" for column in columns)


def _triplet_fills(
    recipe: TripletRecipe, labels: Labels | None, *, staged: bool
) -> dict[str, str | Sequence[str]]:
    """Return the values of the placeholders in ``pools/triplets`` and its parts."""
    law = law_of(recipe, staged=staged)
    compares = bool(law.anchor_columns)  # anchors have classes and negatives have bins
    guarded = ["section_key", "normalised_hash"] if recipe.mined else []
    placed = [*guarded, "position"] if recipe.mined else []
    families = ["family"] if recipe.mined else []
    label, classes = ["label"] if labels else [], ["class"] if compares else []
    anchor, positive, negative = (_condition(s, staged=staged) for s in recipe.selectors)
    if labels == "given":  # other sections belong to no labelled pair
        anchor += " AND slot.role = 'anchor'" if recipe.anchor.role != "anchor" else ""
        positive += " AND slot.role = 'context'" if recipe.positive.role != "context" else ""
    elif labels is not None:
        only = "IS DISTINCT FROM 0" if labels == "binary" else "IS NULL"
        positive += f" AND slot.label {only}"
    same_text = "'same text'"
    if recipe.anchor == recipe.positive:  # the only positive may be the anchor itself
        same_text = f"if(positives = 1, 'with a single window', {same_text})"
    law_keys = "record_key"  # key of anchors with different legal negatives
    if compares and recipe.strategy != "same_record":
        law_keys += ", class, normalised_hash" if recipe.mined else ", class"
    fills: dict[str, str | Sequence[str]] = {
        "anchor_condition": anchor,
        "positive_condition": positive,
        "negative_condition": negative,
        "anchor_columns": [*placed, *families, *map("slot.{}".format, label), *law.anchor_columns],
        "anchor_names": [*classes, *placed, *families, *(label if labels == "given" else [])],
        "positive_columns": guarded,
        "positive_names": guarded,
        "negative_columns": [*guarded, *families, *law.negative_columns],
        "negative_names": [*(["bin"] if compares else []), *guarded[:1], *families],
        "negative_order": ("bin, " if compares else "")
        + "added_version, id_hash, record_key, chunk_key",
        "kin_key": "family" if recipe.mined else "record_key",
        "law_keys": law_keys,
        "same_text": same_text,
        "scope_keys": "scope, question" if recipe.mined else "scope",
        "class_scopes": f"[{_NO_TERM}, class]"
        if "pools/parts/forbidden" in law.parts
        else "[class]",
    }
    for selector, condition in ((recipe.positive, positive), (recipe.negative, negative)):
        if selector.kind == "near_date":
            fills["nearest_days"] = str(selector.near_date)
            fills["nearest_condition"] = condition
    if recipe.negative.kind == "near_date":
        # negatives stay in their source, so the nearest record must too
        fills["nearest_condition"] = f"slot.source = $source AND {negative}"
    return {**fills, **law.fills, **_unit(recipe)}


def _unit(recipe: Recipe) -> dict[str, str | Sequence[str]]:
    if recipe.per == "chunk":
        return {"unit_key": "chunk_key", "unit_columns": ["chunk_key"]}
    return {"unit_key": "record_key", "unit_columns": []}


def _condition(selector: Selector, *, staged: bool) -> str:
    slot = _slot(selector)
    if selector.where is None:
        return slot
    from duckplets.conditions.parse import where_condition

    return f"{slot} AND ({_sql(where_condition(selector.where), slot, staged=staged)})"


def _slot(selector: Selector) -> str:
    if selector.role is not None:
        return f"slot.role = {literal(selector.role)}"
    if selector.position is not None:
        return f"slot.position = {selector.position}"
    return "slot.role = 'context'" if selector.kind == "near_date" else "slot.role <> 'rejected'"


def _sql(tree: exp.Expression, where: str | None = None, *, staged: bool = False) -> str:
    from sqlglot.dialects.duckdb import DuckDB

    from duckplets.conditions.parse import text_facts

    if staged:
        tree, facts = text_facts(tree, where)
        _FACTS.update(facts)
    return tree.sql(dialect=DuckDB)


def facts_of(recipe: Recipe) -> dict[str, Fact]:
    """Return the facts of texts that the conditions of a recipe need, by name."""
    return {name: _FACTS[name] for name in _looked_at(_meant(recipe)) if name in _FACTS}


@lru_cache(maxsize=4096)
def _meant(recipe: Any) -> Any:
    """Return a recipe with the same pool: recipes that differ in names are compiled once."""
    return recipe.of_pool()


@lru_cache(maxsize=4096)
def _statement(
    recipe: Recipe, part: Part, labels: Labels | None, relabelled: bool = False, *, staged: bool
) -> tuple[str, frozenset[str]]:
    chunks = {"chunks": _STAGED} if staged else {}
    if isinstance(recipe, TextRecipe):
        ends = {"pool": "pools/texts", "counts": "pools/lists/text_counts"}
        last = ends.get(part, "pools/lists/text_anchors")
        conditions = [_condition(selector, staged=staged) for selector in recipe.selectors]
        if len(conditions) > 1:
            conditions = [f"({' OR '.join(f'({condition})' for condition in conditions)})"]
        fills = {"anchor_condition": conditions[0], **_unit(recipe)}
        return assembled(["pools/texts"], last, fills, **chunks)
    parts = ["pools/triplets"]
    if relabelled:
        parts.append("pools/parts/relabelled")
    if recipe.positive.kind == "near_date":
        parts += ["pools/parts/nearest", "pools/parts/nearest_positives"]
    elif recipe.own_positive:
        parts.append("pools/parts/own_positives")
    parts += law_of(recipe).parts
    flags = {str(labels)} | (set() if recipe.allow_same_anchor_positive else {"distinct"})
    flags |= {"relabelled"} if relabelled else set()
    if recipe.negatives_from == "split":
        parts.append("pools/parts/split_negatives")
    if labels == "given":
        parts.append("pools/parts/given")
    if recipe.mined:
        parts.append("pools/parts/guarded")
        flags.add("mined")
        chunks = chunks or {"chunks": _GUARDED}
    last = "pools/triplets" if part == "pool" else f"pools/lists/{part}"
    return assembled(parts, last, _triplet_fills(recipe, labels, staged=staged), flags, **chunks)


def stage(pools: Iterable[CompiledPool]) -> str:
    """Return the statement that makes the table shared by several pools."""
    return _stage(frozenset((_meant(pool.recipe), pool.labels) for pool in pools))


@lru_cache(maxsize=64)
def _stage(pools: frozenset[tuple[Recipe, Labels | None]]) -> str:
    needed, names, guarded = set(_ALWAYS), set[str](), False
    for recipe, labels in pools:
        needed |= {*COLUMNS} & _looked_at(recipe, labels)
        names |= facts_of(recipe).keys()
        guarded |= isinstance(recipe, TripletRecipe) and recipe.mined
    needed |= {*_GUARDING} if guarded else set()
    facts = sorted(names)
    columns = [f"slot.{name}" for name in sorted(needed)]
    columns += [f"section_facts.{name}" for name in facts]
    chunks = {"chunks": _GUARDED} if guarded else {}
    flags = {"facts"} if facts else set()
    return assembled([], "pools/lists/stage", {"slot_columns": columns}, flags, **chunks)[0]


@lru_cache(maxsize=4096)
def _looked_at(recipe: Recipe, labels: Labels | None = None) -> frozenset[str]:
    text = _statement(recipe, "pool", labels, staged=True)[0]
    return frozenset(re.findall(r"\bslot\.(\w+)", text))


def compares_texts(recipe: Recipe) -> bool:
    """Return whether the staged pool reads whole texts, besides precomputed facts."""
    return "text" in _looked_at(_meant(recipe))


def facts_statement(recipe: Recipe) -> str:
    """Return the statement that computes the facts of a recipe's conditions."""
    columns = [f"{fact.sql} AS {name}" for name, fact in sorted(facts_of(recipe).items())]
    return assembled([], "pools/lists/facts", {"slot_columns": columns})[0]
