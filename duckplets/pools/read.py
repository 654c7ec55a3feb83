"""Read pools: run their statements, and return what these list as flat arrays.

    pools of one recipe ─portions→ a statement for many sources ─cut→ lists of each → arrays

The pool's statement decides validity once, in SQL. Its flat lists (anchor chunks, positives,
negatives, which bins suit which class) are read into NumPy (``arrays``). Lists that several
recipes share, such as the same negatives, are read once; those of small sources together, for a
statement takes its milliseconds however little it finds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Words
from duckplets.base.columns import column
from duckplets.db.database import Database
from duckplets.errors import DeadlineError, EmptyPoolError, RecipeError
from duckplets.pools.arrays import (
    Guarded,
    Negatives,
    Pool,
    Rows,
    anchors_of,
    classes_of,
    negatives_of,
    pair_hashes,
    positives_of,
    rows_of,
    some_rows,
)
from duckplets.pools.compile import CompiledPool, Part, stage
from duckplets.pools.facts import section_facts
from duckplets.pools.legality import several_texts, usable_of_own
from duckplets.recipes.recipes import TextRecipe, TripletRecipe

# A strategy without an equality compares every class with every bin; beyond this it would
# run for minutes or fill the memory.
_MOST_COMPARISONS = 1_000_000_000
_MOST_PAIRS = 20_000_000

NO_RECORDS = "the split has no records"
_GRADES = "grade without a condition"  # the reason, as pools/triplets.sql has it

# How many chunks, of all its sources, a statement for many of them looks at: enough that what a
# statement costs by itself is little, and few beside what one for a large source takes.
_TOGETHER = 200_000


Kinds = dict[str, Literal["binary", "graded"]]
"""By the name of each source with labels: ``graded`` where some are neither 0 nor 1."""


class NoAnchorError(EmptyPoolError):
    """A pool has no anchor; the message says which, and why."""


def labels_of(database: Database, version: int) -> Kinds:
    """Return the sources that have labels at a version, and of which kind these are."""
    found = database.run("pools/lists/labels", {"version": version})
    return {source: "graded" if graded else "binary" for source, graded in found}


class PoolReader:
    """Reads the pools of one split and version, keeping lists that come again.

    Args:
        database: The corpus.
        pools: All that will be read: what they look at is joined once, for all of them, and lists
            of small sources are read together.
        texts: Hashes of the texts that pools are of; None for all.
    """

    def __init__(
        self, database: Database, pools: Sequence[CompiledPool], texts: Words | None = None
    ) -> None:
        self._database = database.cursor()
        self._lists: dict[tuple[str, tuple[Any, ...]], Rows] = {}  # by statement and parameters
        self._of_all: dict[tuple[int, str], Negatives] = {}  # by their list and unit
        where = {name: pools[0].parameters[name] for name in ("split", "version")}
        facts = section_facts(self._database, pools, where)
        found = {} if facts is None else {"section_facts": facts}
        with self._database.registered(**found):
            self._database.rows(stage(pools), where)
        if texts is not None:
            with self._database.registered(kept_texts=pa.table({"text_hash": column(texts)})):
                self._database.run("pools/lists/keep_texts")
        self._portions = self._together(pools)

    def __enter__(self) -> PoolReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.run("pools/lists/unstage")
        self._database.close()

    def read(
        self, compiled: CompiledPool, of: Integers | None = None, *, spare: bool = False
    ) -> Pool:
        """Read a pool.

        Args:
            compiled: Which one.
            of: Keys of the records that anchors may be of, ascending; None for all.
            spare: Whether to read also what lies beyond where no anchor has too few.

        Raises:
            NoAnchorError: It has no anchor.
            RecipeError: Its strategy compares too many values.
        """
        if compiled.unbounded:
            self._refuse_unbounded(compiled)
        rows, recipe = self._rows(compiled, "anchors"), compiled.recipe
        if len(rows["record_key"]) == 0:
            raise NoAnchorError(self.why_empty(compiled))
        if of is not None:
            rows = some_rows(rows, np.isin(rows["record_key"], of))
            if len(rows["record_key"]) == 0:
                raise NoAnchorError(
                    f"{_what(compiled)}: index controls list {len(of)} of its records, and none of "
                    f"them is an anchor"
                )
        words = rows.get("class", np.zeros(len(rows["record_key"]), np.uint64))
        classes, index = classes_of(words)
        anchors = anchors_of(rows, index, recipe.per)
        if isinstance(recipe, TextRecipe):
            return Pool(compiled, anchors, None, None)
        listed = self._rows(compiled, "positives")
        distinct = not (recipe.allow_same_anchor_positive or compiled.is_given)
        positives = positives_of(anchors, listed, distinct=distinct)
        if compiled.is_given:
            labels = rows["label"][anchors.starts[:-1]]
            return Pool(compiled, anchors, positives, None, labels=labels)
        of_source = compiled.of_source() if compiled.of_split else compiled
        negatives = self._negatives(of_source, classes, rows, listed)
        pool = Pool(compiled, anchors, positives, negatives)
        if compiled.of_split:
            return self._of_split(pool, of_source, classes, rows, listed, spare=spare)
        if compiled.fills_up and (spare or negatives.counts().min() < compiled.negatives):
            return replace(pool, beyond=self._of_others(compiled, rows, listed))
        if not recipe.mined:
            return pool
        guarded = Guarded(
            families=rows["family"][anchors.starts[:-1]],
            normalised_hashes=rows["normalised_hash"],
            sections=rows["section_key"],
            negative_sections=self._rows(compiled, "negatives")["section_key"],
        )
        return replace(pool, guarded=guarded)

    def count(self, compiled: CompiledPool) -> dict[str | None, int]:
        """Return how many records (or chunks) have which reason not to be in the pool."""
        rows = self._rows(compiled, "counts")
        return dict(zip(rows["reason"].tolist(), rows["anchors"].tolist(), strict=True))

    def list(self, compiled: CompiledPool, part: Part) -> pa.Table:
        """Return the rows of a part of a pool as its statement yields them."""
        with self._database.deadline(compiled.described):
            return self._database.arrow(*compiled.statement(part))

    def _rows(self, compiled: CompiledPool, part: Part) -> Rows:
        """Return the rows of a part; those that several pools share are read once."""
        sql, parameters = compiled.statement(part)
        name = (sql, tuple(parameters.values()))
        if name not in self._lists:
            portion = self._portions.get(_place(compiled), ())
            if len(portion) < 2 or "source" not in parameters or not self._cut(portion, part):
                with self._database.deadline(compiled.described):
                    self._lists[name] = rows_of(self._database.arrow(sql, parameters))
        return self._lists[name]

    def _cut(self, portion: Sequence[CompiledPool], part: Part) -> bool:
        """Read a part of several pools at once; returns whether that came to an end in time."""
        first = portion[0]
        sql, parameters = first.statement(part)
        others = {n: value for n, value in parameters.items() if n not in ("source", "mining")}
        several = {f"{n}s": [pool.parameters[n] for pool in portion] for n in ("source", "mining")}
        try:
            with self._database.deadline(first.described):
                found = self._database.arrow(first.sql_of_many(part), others | several)
        except DeadlineError:
            return False
        rows = rows_of(found.drop_columns(["number"]))
        ends = np.searchsorted(found["number"].to_numpy(), np.arange(len(portion) + 1)).tolist()
        for pool, low, high in zip(portion, ends, ends[1:], strict=False):
            values = tuple(pool.parameters[name] for name in parameters)
            self._lists[sql, values] = some_rows(rows, slice(low, high))
        return True

    def _together(self, pools: Sequence[CompiledPool]) -> dict[Any, Sequence[CompiledPool]]:
        """Return which pools are read with each, by their places."""
        if len(pools) < 2:
            return {}
        alike: dict[Any, dict[Any, CompiledPool]] = {}
        for pool in pools:
            for own in (pool, pool.of_source()) if pool.of_split else (pool,):
                if not own.unbounded:
                    alike.setdefault(own.alike, {})[_place(own)] = own
        found: dict[Any, Sequence[CompiledPool]] = {}
        if all(len(places) < 2 for places in alike.values()):
            return found
        chunks = dict(self._database.run("pools/lists/staged"))
        for places in alike.values():
            for portion in _portions(list(places.values()), chunks):
                found.update(dict.fromkeys(map(_place, portion), portion))
        return found

    def _negatives(
        self, compiled: CompiledPool, classes: Words, rows: Rows, positives: Rows
    ) -> Negatives:
        listed, pairs = self._rows(compiled, "negatives"), self._rows(compiled, "pairs")
        if (many := len(pairs["class"])) > _MOST_PAIRS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy pairs {many} values; compare by "
                f"equality, or round the values it compares"
            )
        known = None
        if compiled.own_negatives:
            listed = usable_of_own(rows, positives, listed)
            illegal = np.zeros(0, np.uint64)
        elif isinstance(compiled.recipe, TripletRecipe) and compiled.recipe.mined:
            texts = self._rows(compiled, "illegal_texts")
            words, is_known = pair_hashes(texts["owner"], texts["text_hash"]), texts["known"]
            illegal, known = np.unique(words[~is_known]), np.unique(words[is_known])
        else:
            illegal = several_texts(rows, positives)
        return negatives_of(
            classes,
            listed,
            pairs,
            per=compiled.recipe.per,
            forbids=compiled.forbids,
            illegal=illegal,
            known=known,
        )

    def _of_split(
        self,
        pool: Pool,
        of_source: CompiledPool,
        classes: Words,
        rows: Rows,
        listed: Rows,
        *,
        spare: bool,
    ) -> Pool:
        """Return a pool whose anchors draw from their source, those with too few from all."""
        enough = self._rows(of_source, "anchors")["chunk_key"]
        short = ~np.isin(pool.anchors.chunks, enough)
        if not (spare or short.any()):
            return pool
        beyond = self._negatives(pool.compiled, classes, rows, listed)
        # Many small sources may need it: what is the same for all of them is kept once.
        which = id(self._rows(pool.compiled, "negatives")), pool.compiled.recipe.per
        first = self._of_all.setdefault(which, beyond)
        shared = {name: getattr(first, name) for name in ("chunks", "hashes", "kins", "starts")}
        return replace(pool, beyond=replace(beyond, **shared), short=short)

    def _of_others(self, compiled: CompiledPool, rows: Rows, positives: Rows) -> Negatives:
        """Return what fills up records with too few negatives of their own: those of all."""
        none = some_rows(self._rows(compiled, "pairs"), slice(0))
        return negatives_of(
            np.zeros(1, np.uint64),
            self._rows(compiled, "negatives"),
            none,
            per=compiled.recipe.per,
            forbids=True,
            illegal=several_texts(rows, positives),
        )

    def _refuse_unbounded(self, compiled: CompiledPool) -> None:
        with self._database.deadline(compiled.described):
            classes, bins = self._database.rows(*compiled.statement("sizes"))[0]
        if classes * bins > _MOST_COMPARISONS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy would compare {classes} values "
                f"of anchors with {bins} of negatives; add an equality between the two, or "
                f"round the values it compares"
            )

    def why_empty(self, compiled: CompiledPool) -> str:
        """Return what is empty, with counts by reason, and how many negatives there would be."""
        reasons = {k: n for k, n in self.count(compiled).items() if k}
        grades = reasons.pop(_GRADES, 0)
        counts = [f"{n:,} {reason}" for reason, n in reasons.items()]
        if grades:
            name, path = compiled.recipe.name, self._database.path
            shown = shlex.join(["duckplets", "recipe", "show", str(path), name])
            counts.append(
                f"{grades:,} pairs have grades; give the least grade that counts as positive, as "
                f"in positive=role('context', where='label >= 0.5'); from the shell: {shown} > "
                f'graded.toml, add where = "label >= 0.5" to positive there, and give '
                f"--recipes graded.toml"
            )
        told = f"{_what(compiled)}: {', '.join(counts) or NO_RECORDS}"
        most = compiled.parameters["negatives"]
        if "no negative" not in reasons or most == 1:
            return told
        least = 0  # so many each of some anchor can have, and it cannot have ``most``
        while most - least > 1:
            half = (least + most) // 2
            fewer = replace(compiled, parameters=compiled.parameters | {"negatives": half})
            least, most = (half, most) if self.count(fewer).get(None) else (least, half)
        asked = compiled.parameters["negatives"]
        return (
            f"{told} (negatives={asked} are asked for, and no anchor has more than {least} legal)"
        )


def _place(compiled: CompiledPool) -> tuple[Any, ...]:
    """Return what tells a pool from the others that one reader reads."""
    return compiled.alike, compiled.parameters["source"], compiled.parameters["mining"]


def _portions(
    pools: Sequence[CompiledPool], chunks: Mapping[str, int]
) -> Iterator[Sequence[CompiledPool]]:
    """Cut the pools of a recipe where their statement would look at too much at once."""
    whole, size = sum(chunks.values()), 0
    portion: list[CompiledPool] = []
    for pool in pools:
        own = chunks.get(pool.parameters["source"], 0)
        # Each draws from all of the split; a condition pairs values, at most each with each.
        own = whole if pool.of_split else own * own if pool.pairs_values else own
        most = _MOST_PAIRS if pool.of_split or pool.pairs_values else _TOGETHER
        if portion and size + own > most:
            yield portion
            portion, size = [], 0
        portion.append(pool)
        size += own
    yield portion


def _what(compiled: CompiledPool) -> str:
    source, split = compiled.parameters["source"], compiled.parameters["split"]
    return f"recipe {compiled.recipe.name!r} finds no anchor in source {source!r}, split {split!r}"
