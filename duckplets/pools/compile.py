"""Compile recipes to SQL: for each (recipe, source, split) its pool, one readable statement.

    selectors, strategy ─conditions→ checked text ─┐
    sql/pools/law ────────────────────steps────────┴→ one statement, parameterised

The statement is a chain of named steps (``cte_steps``) from ``law/triplets``. A strategy or labels
replace a few steps. Its last part gives the pool's rows, counts by reason, or the flat lists of a
sampler. Compiling is pure.

Selectors become conditions on chunks. A strategy becomes classes of anchors and bins of negatives,
hashed from the terms that it compares. Pairs of class and bin are allowed or forbidden. Text of
users comes from checked trees only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from duckplets.base.sanitize import shown
from duckplets.db.queries import literal, with_parameters
from duckplets.errors import RecipeError
from duckplets.pools.cte_steps import assembled, of_sources
from duckplets.recipes.recipes import Recipe, Selector, SqlStrategy, TextRecipe, TripletRecipe

if TYPE_CHECKING:
    from sqlglot import exp

    from duckplets.conditions.parse import Fact

Labels = Literal["binary", "graded", "given"]
Part = (
    Literal["pool", "counts", "left_out", "anchors", "positives", "negatives", "pairs", "sizes"]
    | Literal["illegal", "known_swapped", "unpaired", "inconsistent", "labelled"]
    | Literal["consistent", "filtered"]
    | Literal["mined_anchors", "mined_documents", "mined_positives"]
)


class Ranked(NamedTuple):
    """Name a mining that ranks positives by its number and files."""

    generation: int = 0
    ranked: tuple[str, ...] = ()


_STAGED = (
    *("record_key", "section_key", "text_hash", "source", "role", "position", "label"),
    *("added_version", "id_hash"),
)
_TRIPLET_COLUMNS = ("family", "question", "writings")
_NEAREST_COLUMNS = ("date", "taxonomy", "record_id")
_NO_TERM = "0::UBIGINT"
_OFFERED = (
    "\n        WHEN is_paired IS NULL AND has_offered THEN 'inconsistent'",
    "\n    LEFT JOIN (SELECT DISTINCT record_key, TRUE AS has_offered FROM offered) "
    "USING (record_key)",
)
_ANY_SOURCE = {" AND source = $source GROUP": " GROUP", " AND source = $source\n": "\n"}


@dataclass(frozen=True, slots=True)
class CompiledPool:
    """Hold the pool of one recipe, source and split, as of a version."""

    recipe: Recipe
    parameters: dict[str, Any]  # values of the statement's parameters
    labels: Labels | None = None  # the effect of labels of its records
    relabelled: bool = False  # labels of pairs affect it
    swaps: bool = False  # samples are swapped: the positive acts as the anchor
    narrow: bool = False  # negatives of a split's recipe are of the anchors' source only
    documents: bool = False  # negatives, and positives by label, are of a source of documents
    negatives: int = field(init=False)  # number per sample
    is_given: bool = field(init=False)  # its pairs are labelled, and nothing is drawn
    own_positive: bool = field(init=False)  # the positive is the anchor window itself
    own_negatives: bool = field(init=False)  # negatives come from the anchor's own record
    fills_up: bool = field(init=False)  # other records fill up own negatives
    of_split: bool = field(init=False)  # negatives may be of all sources of the split
    pairs_values: bool = field(init=False)  # a condition pairs values of anchors and negatives
    is_filtered: bool = field(init=False)  # a consistency filter limits its pairs

    def __post_init__(self) -> None:
        recipe = self.recipe if isinstance(self.recipe, TripletRecipe) else None
        of_split = recipe is not None and recipe.negatives_from == "split" and not self.narrow
        values = {
            "negatives": int(self.parameters["negatives"]),
            "is_given": self.labels == "given",
            "own_positive": recipe is None or recipe.own_positive,
            "own_negatives": recipe is not None and recipe.strategy == "same_record",
            "fills_up": recipe is not None and recipe.when_short == "random",
            "of_split": of_split,
            "pairs_values": recipe is not None and isinstance(recipe.strategy, SqlStrategy),
            "is_filtered": recipe is not None and recipe.consistent is not None,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def forbids(self) -> bool:
        """Whether ``pairs`` lists forbidden pairs instead of allowed ones."""
        return isinstance(self.recipe, TextRecipe) or strategy_of(_unnamed(self.recipe)).forbids

    @property
    def unbounded(self) -> bool:
        """Whether ``pairs`` compares every class with every bin."""
        return self.pairs_values and strategy_of(_unnamed(self.recipe)).unbounded

    @property
    def of_pairs(self) -> bool:
        """Whether each anchor is a pair of a record and a positive."""
        return self.recipe.per == "pair" or (self.is_given and self.documents)

    def of_source(self) -> CompiledPool:
        """Return the pool with negatives of the anchors' source only, under the same law."""
        return replace(self, narrow=True)

    @property
    def described(self) -> str:
        """Name recipe, source, split and conditions, for messages."""
        where = [s.where for s in self.recipe.selectors if s.where is not None]
        if isinstance(strategy := getattr(self.recipe, "strategy", None), SqlStrategy):
            where.append(strategy.sql)
        conditions = "".join(f", condition {shown(c, 80)!r}" for c in dict.fromkeys(where))
        source, split = self.parameters["source"], self.parameters["split"]
        return f"recipe {self.recipe.name!r}, source {source!r}, split {split!r}{conditions}"

    @property
    def law(self) -> tuple[Any, ...]:
        """The same for all pools that one statement can read: everything except the source."""
        return *self._settings, self.negatives, self.parameters.get("documents")

    @property
    def _settings(self) -> tuple[Recipe, Labels | None, bool, bool, bool, bool]:
        flags = self.relabelled, self.swaps, self.narrow, self.documents
        return _unnamed(self.recipe), self.labels, *flags

    def statement(self, part: Part, *, staged: bool = True) -> tuple[str, dict[str, Any]]:
        """Return the statement of a part, over the staged table or not, and its parameters."""
        sql, names = _statement(part, *self._settings, staged=staged)
        return sql, {name: value for name, value in self.parameters.items() if name in names}

    def sql(self, part: Part = "pool", *, staged: bool = False) -> str:
        """Return the statement in DuckDB's dialect."""
        return self.statement(part, staged=staged)[0]

    def sql_of_sources(self, part: Part) -> str:
        """Return the statement of a staged part over several ``sources``, by ``number``."""
        columns = {"source": "asked.source"}
        return of_sources("pools/lists/of_sources", self.sql(part, staged=True), columns)

    def runnable(self, part: Part = "pool") -> str:
        """Return the statement with parameters filled in, for the duckdb CLI."""
        from sqlglot import exp

        values = {n: exp.convert(v).sql(dialect="duckdb") for n, v in self.parameters.items()}
        return with_parameters(self.sql(part), values) + ";\n"


def compile_pool(
    recipe: Recipe,
    *,
    source: str,
    split: str,
    version: int,
    negatives: int = 1,  # negatives of a sample
    labels: Labels | None = None,  # labels of the source; ``given`` for labelled pairs
    relabelled: bool = False,  # labels of pairs affect the pool
    swaps: bool = False,  # samples are swapped
    documents: str | None = None,  # the source of its documents
    ranked: Ranked | None = None,  # ranks of positives, for a consistency filter
) -> CompiledPool:
    """Compile a recipe for one source and split, as of a version of the corpus."""
    parameters: dict[str, Any] = {"source": source, "split": split, "version": version}
    parameters["negatives"] = negatives
    parameters |= {} if documents is None else {"documents": documents}
    if isinstance(recipe, TextRecipe):
        return CompiledPool(recipe, parameters)
    if (rule := recipe.consistent) is not None:
        parameters |= {"within": rule.within, "min_score": rule.min_score}
        parameters |= (ranked or Ranked())._asdict()
    is_given = labels == "given"
    if is_given and (recipe.own_positive or recipe.positive.kind == "near_date"):
        what = "the anchor itself" if recipe.own_positive else "of another record"
        raise RecipeError(
            f"recipe {recipe.name!r}: its positive is {what}, but a label is for the anchor and "
            f"the positive of one record. Limit the recipe to sources without labels"
        )
    if documents is not None and not is_given and recipe.negatives_from == "split":
        raise RecipeError(
            f"recipe {recipe.name!r}, source {source!r}: negatives_from='split': its negatives are "
            f"all documents of {documents!r} already; remove negatives_from"
        )
    return CompiledPool(
        recipe,
        parameters,
        label_effect(recipe, labels),
        relabelled=documents is not None if is_given else relabelled,
        swaps=swaps and not is_given,
        documents=documents is not None,
    )


@dataclass(frozen=True, slots=True)
class Strategy:
    """Hold the changes that a strategy makes to the law."""

    parts: tuple[str, ...] = ()  # statements of pools/law whose steps replace others
    forbids: bool = True  # ``pairs`` lists forbidden pairs instead of allowed ones
    columns: tuple[str, str] = (f"{_NO_TERM} AS class", f"{_NO_TERM} AS bin")
    unbounded: bool = False  # ``pairs`` compares every class with every bin
    fills: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def strategy_of(recipe: TripletRecipe, *, staged: bool = False) -> Strategy:
    """Return the changes of a recipe's strategy; staged ones read facts instead of texts."""
    strategy = recipe.strategy
    if isinstance(strategy, SqlStrategy):
        return _of_condition(strategy, staged=staged)
    if strategy == "other_date":
        # two records without a date have the same date
        same = "anchor.a0 IS NOT DISTINCT FROM negative.n0"
        return _of_terms(("date",), ("date",), same, "forbidden")
    if recipe.negative.kind == "near_date":
        parts: tuple[str, ...] = ("nearest", "own_negatives", "near_negative")
    elif strategy == "same_record":
        parts = ("own_negatives", "same_record" if recipe.when_short == "drop" else "filled")
    else:
        return Strategy()
    columns = ("record_key::UBIGINT AS class", "record_key::UBIGINT AS bin")
    return Strategy(parts, False, columns, fills={"law_keys": "record_key, family, question"})


def _of_condition(strategy: SqlStrategy, *, staged: bool) -> Strategy:
    from sqlglot import exp

    from duckplets.conditions.parse import pair_condition

    condition = pair_condition(strategy.sql)
    forbids = condition.inequality and not condition.equality
    tree = condition.tree.copy()
    if forbids:  # pairs that fail the condition, by a plain equality if possible
        bare = tree.unnest()
        if isinstance(bare, exp.NullSafeNEQ):
            tree = exp.NullSafeEQ(this=bare.this.copy(), expression=bare.expression.copy())
        else:
            tree = exp.func("coalesce", exp.paren(tree), exp.false()).not_()
    anchor, negative = (
        tuple(_sql(term, staged=staged) for term in terms)
        for terms in (condition.anchor_terms, condition.negative_terms)
    )
    parts = ["forbidden" if forbids else "allowed"]
    if forbids and isinstance(condition.tree.unnest(), exp.NEQ):
        parts += ["apart", "narrow"]  # a negative needs a value
    if not (forbids or condition.is_conjunctive):
        parts.append("ample")
    pairs = _sql(exp.paren(tree))
    return _of_terms(anchor, negative, pairs, *parts, unbounded=not condition.equality)


def _of_terms(
    anchor: tuple[str, ...],
    negative: tuple[str, ...],
    condition: str,
    *parts: str,
    unbounded: bool = False,
) -> Strategy:
    """Return a strategy that compares terms, which are named and hashed for each side."""
    forbids = parts[0] == "forbidden"
    fills: dict[str, str | Sequence[str]] = {
        "pair_condition": condition,
        "parts_of_class": "[0, class]" if forbids else "[class]",
        "law_keys": "class, family, question",
    }
    for side, terms, name in (("anchor", anchor, "class"), ("negative", negative, "bin")):
        names = [f"{side[0]}{i}" for i in range(len(terms))]
        whole = f"md5_number_lower(json_array({', '.join(names)}))" if terms else _NO_TERM
        fills[f"{side}_terms"] = (*map("{} AS {}".format, terms, names), f"{whole} AS {name}")
        fills[f"{side}_values"] = names
    return Strategy(("by_class", *parts), forbids, ("class", "bin"), unbounded, fills)


def label_effect(recipe: TripletRecipe, labels: Labels | None) -> Labels | None:
    """Return the effect of labels on a recipe; None if they do not concern its pairs."""
    if labels == "given":
        return labels
    one, other = recipe.anchor, recipe.positive
    is_same = one.role is not None and one.role == other.role
    if is_same or recipe.own_positive or other.kind == "near_date":
        return None
    return None if labels == "graded" and (_reads_label(one) or _reads_label(other)) else labels


def _reads_label(selector: Selector) -> bool:
    if selector.where is None or "label" not in selector.where.lower():
        return False
    from sqlglot import exp

    from duckplets.conditions.parse import where_condition

    columns = where_condition(selector.where).find_all(exp.Column)
    return any(column.name.lower() == "label" for column in columns)


_LABELS: dict[Labels | None, tuple[str, str]] = {  # which anchors a label excludes, and the reason
    None: ("is_paired IS NULL AND is_partial", "'grade without a condition'"),
    "given": ("label IS NULL", "'no label'"),
    "binary": ("is_paired IS NULL AND label = 0", "'labelled negative'"),
    "graded": ("is_paired IS NULL AND label IS NOT NULL", "'grade without a condition'"),
}


def _triplet_fills(
    recipe: TripletRecipe,
    labels: Labels | None,
    strategy: Strategy,
    *,
    documents: bool,
    staged: bool,
) -> dict[str, str | Sequence[str]]:
    """Return the values of the placeholders in ``pools/law`` and ``pools/lists``."""
    anchor, positive, negative = (_condition(s, staged=staged) for s in recipe.selectors)
    promoted = positive if _reads_label(recipe.positive) else f"label >= 1 AND {positive}"
    if labels == "given" and documents:
        promoted = positive
    elif labels == "given":  # other sections are in no labelled pair
        anchor += " AND role = 'anchor'" if recipe.anchor.role != "anchor" else ""
        positive += " AND role = 'context'" if recipe.positive.role != "context" else ""
    elif labels is not None:
        positive += f" AND label {'IS DISTINCT FROM 0' if labels == 'binary' else 'IS NULL'}"
    near = next((x for x in recipe.selectors if x.kind == "near_date"), recipe.positive)
    order = "added_version, id_hash, record_key, chunk_key"
    label_condition, label_text = _LABELS[labels]
    if labels == "given" and documents:
        label_condition = "is_paired IS NULL"
    if labels is None and _reads_label(recipe.positive):
        label_condition = "FALSE"
    class_name, bin_name = strategy.columns
    fills: dict[str, str | Sequence[str]] = {
        "anchor_condition": anchor,
        "positive_condition": positive,
        "negative_condition": negative,
        "promoted_condition": promoted,
        "nearest_condition": negative if near is recipe.negative else positive,
        "nearest_days": str(near.near_date),
        "asks_condition": _slot(recipe.anchor),
        "answers_condition": _slot(recipe.positive),
        "judged_condition": _judged(recipe, staged=staged),
        "anchor_names": [*([class_name] if strategy.parts else []), *(["label"] if labels else [])],
        "positive_names": ["label"] if labels == "given" and documents else [],
        "taken_condition": "TRUE",
        "other_pair": "positives.text_hash <> eligible.text_hash",
        "negative_names": [bin_name] if strategy.parts else [],
        "negative_order": f"bin, {order}" if strategy.parts else order,
        "class_name": class_name,
        "bin_name": bin_name,
        "law_keys": "family, question",
        "positive_keys": "record_key",
        "other_text": "single IS DISTINCT FROM text_hash",
        "other_condition": str(not recipe.allow_same_anchor_positive).upper(),
        "own_condition": str(recipe.strategy == "same_record").upper(),
        "same_text": "'with a single window'"
        if recipe.anchor == recipe.positive
        else "'same text'",
        "label_condition": label_condition,
        "label_text": label_text,
    }
    return {**fills, **strategy.fills, **_unit(recipe)}


def _unit(recipe: Recipe) -> dict[str, str | Sequence[str]]:
    keys = "record_key, record_id, added_version, id_hash"
    if recipe.per == "chunk":
        last = "record_key, anchors"
        return {"unit_key": "chunk_key", "unit_keys": f"{keys}, chunk_key", "last_keys": last}
    return {"unit_key": "record_key", "unit_keys": keys, "last_keys": "record_key"}


def _condition(selector: Selector, *, staged: bool) -> str:
    slot = _slot(selector)
    if selector.where is None:
        return slot
    from duckplets.conditions.parse import where_condition

    return f"{slot} AND ({_sql(where_condition(selector.where), slot, staged=staged)})"


def _judged(recipe: TripletRecipe, *, staged: bool) -> str:
    """Return the condition on labels of answers: above 0, or the recipe's own condition."""
    above = "coalesce(label > 0, TRUE)"
    for selector in (recipe.positive, recipe.anchor):
        if _reads_label(selector):
            return f"({above} OR {_condition(selector, staged=staged).partition(' AND ')[2]})"
    return above


def _slot(selector: Selector) -> str:
    if selector.role is not None:
        return f"role = {literal(selector.role)}"
    if selector.position is not None:
        return f"position = {selector.position}"
    return "role = 'context'" if selector.kind == "near_date" else "role <> 'rejected'"


def _sql(tree: exp.Expression, where: str | None = None, *, staged: bool = False) -> str:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB

    from duckplets.conditions.parse import text_facts

    tree = text_facts(tree, where)[0] if staged else tree.copy()
    for column in tree.find_all(exp.Column):
        if column.table == "slot":
            column.set("table", None)
    return tree.sql(dialect=DuckDB)


@lru_cache(maxsize=4096)
def _inputs(recipe: Recipe) -> tuple[frozenset[str], dict[str, Fact]]:
    """Return the columns of chunks that a recipe's conditions read, and facts of texts by name."""
    strategy, triplets = getattr(recipe, "strategy", None), isinstance(recipe, TripletRecipe)
    near = any(s.kind == "near_date" for s in recipe.selectors)
    columns = {*_TRIPLET_COLUMNS} if triplets else set[str]()
    columns |= {*_NEAREST_COLUMNS} if near else set()
    columns |= {"date"} if strategy == "other_date" else set()
    facts: dict[str, Fact] = {}
    conditions = [(s.where, _slot(s)) for s in recipe.selectors if s.where is not None]
    if conditions or isinstance(strategy, SqlStrategy):
        from sqlglot import exp

        from duckplets.conditions.parse import pair_condition, text_facts, where_condition

        terms = [(where_condition(where), slot) for where, slot in conditions]
        if isinstance(strategy, SqlStrategy):
            pair = pair_condition(strategy.sql)
            terms += [(term, "") for term in (*pair.anchor_terms, *pair.negative_terms)]
        for tree, slot in terms:
            rest, found = text_facts(tree, slot or None)
            facts |= found
            columns |= {column.name for column in rest.find_all(exp.Column)}
    return frozenset(columns - facts.keys()), facts


def facts_of(recipe: Recipe) -> dict[str, Fact]:
    """Return the facts of texts that the conditions of a recipe need, by name."""
    return _inputs(_unnamed(recipe))[1]


@lru_cache(maxsize=4096)
def _unnamed(recipe: Any) -> Any:
    """Return the recipe of a pool, so that recipes with different names are compiled once."""
    return recipe.of_pool()


@lru_cache(maxsize=4096)
def _statement(
    part: Part,
    recipe: Recipe,
    labels: Labels | None,
    relabelled: bool,
    swaps: bool,
    narrow: bool,
    documents: bool,
    *,
    staged: bool,
) -> tuple[str, frozenset[str]]:
    if isinstance(recipe, TextRecipe):
        ends = {"pool": "pools/law/text_pool", "counts": "pools/lists/counts"}
        last = ends.get(part, "pools/lists/text_anchors")
        conditions = [_condition(selector, staged=staged) for selector in recipe.selectors]
        if len(conditions) > 1:
            conditions = [f"({' OR '.join(f'({condition})' for condition in conditions)})"]
        fills = {"anchor_condition": conditions[0], **_unit(recipe)}
        return assembled(["pools/law/texts"], last, fills, _chunks(staged=staged))
    strategy = strategy_of(recipe, staged=staged)
    fills = _triplet_fills(recipe, labels, strategy, documents=documents, staged=staged)
    near = recipe.positive.kind == "near_date"
    last = "pools/law/triplets" if part == "pool" else f"pools/lists/{part}"
    if part == "pool" and (recipe.per == "pair" or (labels == "given" and documents)):
        last = "pools/law/pairs"
    wide = recipe.negatives_from == "split"
    texts = _chunks(wide=wide, drawn=wide and not narrow, beyond=near, staged=staged)
    if documents:
        document_chunks = "chunks_of($documents, $split, $version)"
        if staged:
            document_chunks = "(FROM staged_chunks WHERE source = $documents AND drawn)"
        texts["chunks_of(promotable, $split, $version)"] = document_chunks
        if "own_negatives" not in strategy.parts:
            texts["chunks_of(drawn, $split, $version)"] = document_chunks
        texts |= _ANY_SOURCE
    if recipe.allow_same_anchor_positive:
        texts |= {"other_text\n    AND ": "", "other_text AND ": "", " AND other_pair": ""}
    if recipe.strategy == "same_record":  # a family may draw texts that only it has
        texts["sole IS DISTINCT FROM family"] = "TRUE"
    if relabelled or recipe.consistent:
        fills["positive_keys"] = "record_key, text_hash"
        pairs = "consistent" if recipe.consistent else "paired"
        keys = "(record_key, eligible.text_hash, positives.text_hash)"
        fills["taken_condition"] = f"{keys} IN (FROM {pairs})"
    if not recipe.consistent:
        texts |= dict.fromkeys(_OFFERED, "")
    elif recipe.consistent.min_score is None:
        texts[" AND score >= $min_score"] = ""
    if swaps:
        fills["positive_names"] = ["question"]
    steps = {  # statements whose steps replace earlier ones
        "triplets": True,
        "reasons": True,
        "narrow": narrow,
        "nearest": near,
        "near_positive": near,
        "own_positives": recipe.own_positive,
        "labels": relabelled,
        "documents": documents and relabelled,
        "same_selectors": _slot(recipe.anchor) == _slot(recipe.positive) and not near,
        **dict.fromkeys(strategy.parts, True),
        "consistent": recipe.consistent is not None,
        "consistent_pinned": staged and recipe.consistent is not None,
        "consistent_labelled": relabelled and recipe.consistent is not None,
        "swapped": swaps,
        "given": labels == "given",
        "given_documents": labels == "given" and documents,
    }
    parts = [f"pools/law/{name}" for name, is_used in steps.items() if is_used]
    return assembled(parts, last, fills, texts)


def _chunks(
    *, wide: bool = False, drawn: bool = False, beyond: bool = False, staged: bool
) -> dict[str, str]:
    """Return replacements for tables of chunks, and for conditions on sources."""
    own, whole = (f"chunks_of({source}, $split, $version)" for source in ("$source", "NULL"))
    is_whole = {"reach": wide, "drawn": drawn, "candidates": beyond, "promotable": True}
    texts = {own.replace("$source", name): whole if w else own for name, w in is_whole.items()}
    if staged:
        staged_own = "(FROM staged_chunks WHERE source = $source AND drawn)"
        drawable = {own: staged_own, whole: "(FROM staged_chunks WHERE drawn)"}
        texts = {name: drawable[table] for name, table in texts.items()}
        texts |= {own: staged_own, whole: "staged_chunks"}
    return texts | (_ANY_SOURCE if wide else {})


def stage(pools: Iterable[CompiledPool]) -> str:
    """Return the statement that makes the table shared by several pools."""
    return _stage(frozenset(_unnamed(pool.recipe) for pool in pools))


@lru_cache(maxsize=64)
def _stage(recipes: frozenset[Recipe]) -> str:
    needed, names = {*_STAGED}, set[str]()
    for recipe in recipes:
        columns, facts = _inputs(recipe)
        needed |= columns
        names |= facts.keys()
    selected = [f"slot.{name}" for name in sorted(needed)]
    selected += [f"section_facts.{name}" for name in sorted(names)]
    texts = {} if names else {"\nLEFT JOIN section_facts USING (section_key)": ""}
    if "text" in needed:
        texts["chunks_without_text"] = "chunks_of"
    return assembled([], "pools/lists/stage", {"slot_columns": selected}, texts)[0]


def compares_texts(recipe: Recipe) -> bool:
    """Return whether the staged pool reads whole texts in addition to facts."""
    return "text" in _inputs(_unnamed(recipe))[0]


def facts_statement(recipe: Recipe) -> str:
    """Return the statement that computes the facts of a recipe's conditions."""
    columns = [f"{fact.sql} AS {name}" for name, fact in sorted(facts_of(recipe).items())]
    return assembled([], "pools/lists/facts", {"slot_columns": columns})[0]
