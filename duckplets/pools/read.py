"""Run the statements of pools and return their lists as flat arrays.

pools of one recipe ─portions→ a statement for many sources ─split→ lists of each → arrays

The statement decides legality once, in SQL. Its flat lists (anchor chunks, positives, negatives,
bins of each class) become NumPy arrays (``arrays``). Lists shared by several recipes are read once.
Small sources share a statement, because each statement has a fixed cost of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Words
from duckplets.base.columns import column
from duckplets.conditions.costs import SHORT
from duckplets.db.database import Database
from duckplets.errors import DeadlineError, EmptyPoolError, RecipeError
from duckplets.pools import arrays, plain
from duckplets.pools.arrays import Filtered, Guarded, Pool, PoolNegatives, Rows, rows_of, some_rows
from duckplets.pools.compile import (
    CompiledPool,
    Part,
    compares_texts,
    facts_of,
    facts_statement,
    stage,
)
from duckplets.recipes.recipes import TextRecipe

# A strategy without an equality compares every class with every bin; beyond these limits it would
# run for minutes or fill the memory.
_MOST_COMPARISONS = 1_000_000_000
_MOST_PAIRS = 20_000_000

NO_RECORDS = "the split has no records"
_GRADES = "grade without a condition"  # the reason, as in compile.py

_TOGETHER = 200_000  # chunks of a statement for several small sources

_FEW = 8  # pools that are read by arithmetic

# Limits on texts used by conditions:
_VECTOR = 2048  # sections of a vector, as stored
_AT_ONCE = 20_000_000  # characters that a statement reads and produces, per vector
_MOST_COPIED = 60_000_000  # characters that it produces from one text
_COMPARED = 50_000  # characters of a text that is compared, and so copied, window by window


class Kinds(dict[str, Literal["binary", "graded"]]):
    """Map sources with labels to their kind: ``graded`` if some labels are neither 0 nor 1."""

    relabelled = False  # labels of pairs exist
    documents: Mapping[str, str] = MappingProxyType({})  # by source, the source of its documents

    @property
    def judged(self) -> set[str]:
        """The sources that ``labelled_pairs`` serves."""
        return {*self} | ({*self.documents} if self.relabelled else set())

    def is_graded(self, source: str) -> bool:
        """Return whether the labels of a source are floats."""
        return self.get(source) == "graded" or source in self.documents

    def of(self, source: str) -> dict[str, Any]:
        """Return the arguments of ``compile_pool`` for a source."""
        documents = self.documents.get(source)
        return {"labels": self.get(source), "relabelled": self.relabelled, "documents": documents}


class NoAnchorError(EmptyPoolError):
    """Raised for a pool without anchors; the message names it and the reason."""


def labels_of(database: Database, version: int) -> Kinds:
    """Return the kinds of the sources with labels at a version."""
    rows = database.run("pools/lists/labels", {"version": version})
    kinds = Kinds({name: "graded" if graded else "binary" for name, graded in rows if name})
    kinds.relabelled = len(kinds) < len(rows)
    kinds.documents = dict(database.run("pools/lists/documents", {"version": version}))
    return kinds


class PoolReader:
    """Read the pools of one split and version, restricted to ``texts`` if hashes are given."""

    def __init__(
        self, database: Database, pools: Sequence[CompiledPool], texts: Words | None = None
    ) -> None:
        self._database = database.cursor()
        self._lists: dict[tuple[str, tuple[Any, ...]], Rows] = {}  # by statement and parameters
        self._of_all: dict[tuple[int, str], PoolNegatives] = {}  # by their list and unit
        self._pools, self._texts = pools, texts
        self._portions: dict[Any, Sequence[CompiledPool]] | None = None  # once staged
        # arithmetic reads all columns for each pool; more pools share the staged table instead
        self._plain = texts is None and len(pools) <= _FEW

    def __enter__(self) -> PoolReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._portions is not None:
            self._database.run("pools/lists/unstage")
        self._database.close()

    def _stage(self) -> dict[Any, Sequence[CompiledPool]]:
        """Stage the chunks of all pools, once; return the pools read together."""
        if self._portions is not None:
            return self._portions
        pools = self._pools
        where = {name: pools[0].parameters[name] for name in ("split", "version")}
        facts = _section_facts(self._database, pools, where)
        with self._database.registered(**({} if facts is None else {"section_facts": facts})):
            self._database.rows(stage(pools), where)
        if self._texts is not None:
            texts = pa.table({"text_hash": column(self._texts)})
            with self._database.registered(kept_texts=texts):
                self._database.run("pools/lists/keep_texts")
        self._portions = self._together(pools)
        return self._portions

    def read(
        self,
        compiled: CompiledPool,
        records: Integers | None = None,  # keys of the anchors' records, ascending; None for all
        *,
        spare: bool = False,  # read fallback negatives even if no anchor needs them
        without: Integers | None = None,  # sections that a policy removes as anchors
    ) -> Pool:
        """Read a pool; raises ``NoAnchorError`` if it has no anchor."""
        if compiled.unbounded:
            self._refuse_unbounded(compiled)
        if self._plain and self._portions is None and plain.is_plain(compiled):
            with self._database.deadline(compiled.described):
                for part, table in (plain.lists_of(self._database, compiled) or {}).items():
                    sql, parameters = compiled.statement(part)
                    self._lists[sql, tuple(parameters.values())] = rows_of(table)
        rows, recipe = self._rows(compiled, "anchors"), compiled.recipe
        if len(rows["record_key"]) == 0:
            raise NoAnchorError(self.why_empty(compiled))
        if records is not None:
            rows = some_rows(rows, np.isin(rows["record_key"], records))
            if len(rows["record_key"]) == 0:
                raise NoAnchorError(
                    f"{_what(compiled)}: index controls list {len(records)} of its records, and "
                    f"none of them is an anchor"
                )
        if without is not None:
            rows = some_rows(rows, ~np.isin(rows["section_key"], without))
            if len(rows["record_key"]) == 0:
                raise NoAnchorError(f"{_what(compiled)}: the policy cuts all candidates")
        words = rows.get("class", np.zeros(len(rows["record_key"]), np.uint64))
        classes, index = arrays.classes_of(words)
        anchors = arrays.anchors_of(rows, index, recipe.per)
        if isinstance(recipe, TextRecipe):
            return Pool(compiled, anchors, None, None)
        listed = self._rows(compiled, "positives")
        distinct = not (recipe.allow_same_anchor_positive or compiled.is_given)
        unpaired, filtered = None, None
        if compiled.is_filtered:
            unpaired = self._rows(compiled, "inconsistent")
            counts = self._database.rows(*compiled.statement("filtered"))[0]
            filtered = Filtered(str(recipe.consistent), *counts)
        elif compiled.relabelled:
            unpaired = self._rows(compiled, "unpaired")
        positives = arrays.positives_of(anchors, listed, distinct=distinct, unpaired=unpaired)
        if compiled.of_pairs:
            if (count := int((np.diff(anchors.starts) * positives.counts).sum())) > _MOST_PAIRS:
                raise RecipeError(
                    f"{compiled.described}: {count:,} pairs of windows of anchors and positives, "
                    f"the limit is {_MOST_PAIRS:,}; give larger windows, or per='record'"
                )
            at, anchors, positives = arrays.paired(anchors, positives)
            rows = some_rows(rows, at)
        if compiled.is_given:
            labels = (
                listed["label"][positives.starts]
                if compiled.documents
                else rows["label"][anchors.starts[:-1]]
            )
            return Pool(compiled, anchors, positives, None, labels=labels)
        of_source = compiled.of_source() if compiled.of_split else compiled
        negatives = self._negatives(of_source, classes)
        beyond = short = guarded = None
        if compiled.of_split:
            short = ~np.isin(anchors.chunks, self._rows(of_source, "anchors")["chunk_key"])
            if spare or short.any():
                beyond = self._shared(compiled, self._negatives(compiled, classes))
        elif compiled.fills_up:
            least = negatives.counts().min()
            if spare or least < compiled.negatives or len(negatives.known):
                beyond = self._negatives(compiled, classes[:1], of_others=True)
        if recipe.mined:
            guarded = Guarded(
                sections=rows["section_key"],
                words=arrays.pair_hashes(rows["position"], rows["id_hash"]),
                negative_sections=self._rows(compiled, "negatives")["section_key"],
            )
        questions, shared = self.illegal(compiled)[1][0], 0
        if len(questions):
            anchors = replace(anchors, questions=rows["question"])
            is_shared = np.isin(rows["question"], questions)
            shared = int(np.logical_or.reduceat(is_shared, anchors.starts[:-1]).sum())
        if len(negatives.known_swapped):
            positives = replace(positives, questions=listed["question"])
        return Pool(
            *(compiled, anchors, positives, negatives, guarded, beyond, short),
            shared=shared,
            filtered=filtered,
        )

    def count(self, compiled: CompiledPool) -> dict[str | None, int]:
        """Return the number of excluded records (or chunks) by reason; None: in the pool."""
        rows = self._rows(compiled, "counts")
        return dict(zip(rows["reason"].tolist(), rows["anchors"].tolist(), strict=True))

    def list(self, compiled: CompiledPool, part: Part) -> pa.Table:
        """Return the rows of a part of a pool, in the order of its statement."""
        self._stage()
        with self._database.deadline(compiled.described):
            return self._database.arrow(*compiled.statement(part, staged=part != "pool"))

    def _rows(self, compiled: CompiledPool, part: Part) -> Rows:
        """Return the rows of a part, read once if several pools share them."""
        sql, parameters = compiled.statement(part)
        key = (sql, tuple(parameters.values()))
        if key not in self._lists:
            portion = self._stage().get(_place(compiled), ())
            if len(portion) < 2 or "source" not in parameters or not self._read_all(portion, part):
                with self._database.deadline(compiled.described):
                    self._lists[key] = rows_of(self._database.arrow(sql, parameters))
        return self._lists[key]

    def _read_all(self, portion: Sequence[CompiledPool], part: Part) -> bool:
        """Read a part of several pools together; return whether it finished in time."""
        first = portion[0]
        sql, parameters = first.statement(part)
        values = {name: value for name, value in parameters.items() if name != "source"}
        values["sources"] = [pool.parameters["source"] for pool in portion]
        try:
            with self._database.deadline(first.described):
                table = self._database.arrow(first.sql_of_sources(part), values)
        except DeadlineError:
            return False
        rows = rows_of(table.drop_columns(["number"]))
        ends = np.searchsorted(table["number"].to_numpy(), np.arange(len(portion) + 1)).tolist()
        for pool, span in zip(portion, pairwise(ends), strict=True):
            key = tuple(pool.parameters[name] for name in parameters)
            self._lists[sql, key] = some_rows(rows, slice(*span))
        return True

    def _together(self, pools: Sequence[CompiledPool]) -> dict[Any, Sequence[CompiledPool]]:
        """Return for each pool's place the pools that are read with it."""
        by_law: dict[Any, dict[Any, CompiledPool]] = {}
        for pool in pools:
            for own in (pool, pool.of_source()) if pool.of_split else (pool,):
                if not (own.unbounded or own.is_filtered):
                    by_law.setdefault(own.law, {})[_place(own)] = own
        several = [list(places.values()) for places in by_law.values() if len(places) > 1]
        chunks = dict(self._database.run("pools/lists/staged")) if several else {}
        portions = (portion for pools in several for portion in _portions(pools, chunks))
        return {_place(pool): portion for portion in portions for pool in portion}

    def _negatives(
        self, compiled: CompiledPool, classes: Words, *, of_others: bool = False
    ) -> PoolNegatives:
        """Return the negatives of a pool, or fallback negatives of other records."""
        listed, pairs = self._rows(compiled, "negatives"), self._rows(compiled, "pairs")
        if (count := len(pairs["class"])) > _MOST_PAIRS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy pairs {count:,} values; compare by "
                f"equality, or round the values"
            )
        excluded, known = (np.unique(arrays.pair_hashes(*pair)) for pair in self.illegal(compiled))
        swapped = np.zeros(0, np.uint64)
        if compiled.swaps:
            rows = self._rows(compiled, "known_swapped")
            swapped = np.unique(arrays.pair_hashes(rows["question"], rows["text_hash"]))
        if own := compiled.own_negatives and not of_others:
            listed = arrays.own_of(listed, excluded)
        elif of_others:
            pairs = some_rows(pairs, slice(0))
        return arrays.negatives_of(
            classes,
            listed,
            pairs,
            per=compiled.recipe.per,
            forbids=compiled.forbids or of_others,
            illegal=(excluded, known, swapped),
            own=own,
        )

    def illegal(self, compiled: CompiledPool) -> tuple[tuple[Any, Words], tuple[Words, Words]]:
        """Return families with their forbidden texts, and questions with their known answers."""
        rows = self._rows(compiled, "illegal")
        answers, texts = rows["is_answer"], rows["text_hash"]
        return (
            (rows["family"][~answers], texts[~answers]),
            (rows["question"][answers], texts[answers]),
        )

    def _shared(self, compiled: CompiledPool, beyond: PoolNegatives) -> PoolNegatives:
        """Return negatives of the split whose arrays many pools share."""
        key = id(self._rows(compiled, "negatives")), compiled.recipe.per
        first = self._of_all.setdefault(key, beyond)
        shared = {name: getattr(first, name) for name in ("chunks", "hashes", "families", "starts")}
        return replace(beyond, **shared)

    def _refuse_unbounded(self, compiled: CompiledPool) -> None:
        self._stage()
        with self._database.deadline(compiled.described):
            classes, bins = self._database.rows(*compiled.statement("sizes"))[0]
        if classes * bins > _MOST_COMPARISONS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy would compare {classes:,} values "
                f"of anchors with {bins:,} of negatives; add an equality, or round the values"
            )

    def why_empty(self, compiled: CompiledPool) -> str:
        """Describe an empty pool, with counts by reason."""
        reasons = {k: n for k, n in self.count(compiled).items() if k}
        grades = reasons.pop(_GRADES, 0)
        counts = [f"{n:,} {reason}" for reason, n in reasons.items()]
        if grades:
            counts.append(
                f"{grades:,} pairs have grades; give the least grade of a positive, as in "
                f"positive=role('context', where='label >= 0.5'); in a file for --recipes, "
                f'positive = {{ role = "context", where = "label >= 0.5" }}'
            )
        reason = f"{_what(compiled)}: {', '.join(counts) or NO_RECORDS}"
        if compiled.documents and not counts:
            reason += "; if its queries came with other splits: split(reassign=True, given=False)"
        if compiled.documents and reasons.keys() == {"no positive"}:
            where = {"source": compiled.parameters["source"]}
            if not self._database.run("pools/lists/is_labelled", where)[0][0]:
                reason += ": no label names a query of it"
        if "one family" in reasons:
            reason += "; the column of group= has one value: ingest again with group=None"
        if "no negative" in reasons and compiled.negatives > 1:
            reason += f" for negatives={compiled.negatives}; give fewer"
        return reason


def _place(compiled: CompiledPool) -> tuple[Any, ...]:
    return compiled.law, compiled.parameters["source"]


def _what(compiled: CompiledPool) -> str:
    source, split = compiled.parameters["source"], compiled.parameters["split"]
    return f"recipe {compiled.recipe.name!r} finds no anchor in source {source!r}, split {split!r}"


def _portions(
    pools: Sequence[CompiledPool], chunks: Mapping[str, int]
) -> Iterator[Sequence[CompiledPool]]:
    """Split the pools of a recipe so that no statement reads too much."""
    whole, size = sum(chunks.values()), 0
    portion: list[CompiledPool] = []
    for pool in pools:
        own = sum(chunks.get(pool.parameters.get(n, ""), 0) for n in ("source", "documents"))
        # each draws from the whole split; a condition compares each pair of values at most
        own = whole if pool.of_split else own * own if pool.pairs_values else own
        most = _MOST_PAIRS if pool.of_split or pool.pairs_values else _TOGETHER
        if portion and size + own > most:
            yield portion
            portion, size = [], 0
        portion.append(pool)
        size += own
    yield portion


def _section_facts(
    database: Database, pools: Sequence[CompiledPool], where: Mapping[str, Any]
) -> pa.Table | None:
    """Compute the facts of section texts that conditions of pools need; None without any."""
    distinct = {pool.law: pool for pool in reversed(pools)}.values()
    statements = {facts_statement(pool.recipe): pool for pool in distinct if facts_of(pool.recipe)}
    comparing = [pool for pool in distinct if compares_texts(pool.recipe)]
    if not statements and not comparing:
        return None
    # nearest-by-date records, promoted positives, split-wide negatives can be of another source
    beyond = any(
        pool.of_split
        or pool.relabelled
        or pool.documents
        or any(s.kind == "near_date" for s in pool.recipe.selectors)
        for pool in distinct
    )
    sources = None if beyond else sorted({pool.parameters["source"] for pool in pools})
    copies = {
        sql: sum(fact.copies for fact in facts_of(pool.recipe).values())
        for sql, pool in statements.items()
    }
    values, most = {**where, "sources": sources}, _AT_ONCE // (1 + max(copies.values(), default=0))
    limits = {"most": max(1, most), "long": most // _VECTOR}
    portions = database.run("pools/lists/text_portions", values | limits)
    longest = max((size for _, _, size in portions), default=0)
    if comparing and longest > _COMPARED:
        raise RecipeError(
            f"{comparing[-1].described}: it compares whole texts window by window, and the longest "
            f"has {longest:,} characters, the limit is {_COMPARED:,}; compare text[:{SHORT}] or "
            f"md5(text)"
        )
    columns: dict[str, Any] = {}
    for sql, pool in statements.items():
        if longest * copies[sql] > _MOST_COPIED:
            raise RecipeError(
                f"{pool.described}: it copies a text up to {copies[sql]} times, and the longest "
                f"text has {longest} characters; use its beginning, as in text[:{SHORT}]"
            )
        tables = []
        for low, high, _ in portions or [(0, 0, 0)]:
            with database.deadline(pool.described):
                tables.append(database.arrow(sql, {**values, "low": low, "high": high}))
        table = pa.concat_tables(tables)
        columns |= {name: table[name] for name in table.column_names}
    return pa.table(columns) if columns else None
