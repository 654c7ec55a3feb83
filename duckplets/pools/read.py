"""Read pools: run their statements, and return what these list as flat arrays.

The pool's statement decides validity once, in SQL. Its flat lists (anchor chunks, positives,
negatives, which bins suit which class) are read into NumPy (``arrays``). Lists that several
recipes share, such as the same negatives, are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Words
from duckplets.db.database import Database
from duckplets.errors import EmptyPoolError, RecipeError
from duckplets.pools.arrays import (
    Anchors,
    Guarded,
    Negatives,
    Pool,
    anchors_of,
    classes_of,
    keys_of,
    negatives_of,
    pair_hashes,
    positives_of,
    words_if_any,
    words_of,
)
from duckplets.pools.compile import CompiledPool, Part, compares_texts, facts_statement, stage
from duckplets.pools.fills import facts_of
from duckplets.pools.legality import several_texts, usable_of_own
from duckplets.recipes.condition_costs import SHORT
from duckplets.recipes.recipes import TextRecipe

# A strategy without an equality compares every class with every bin; beyond this it would
# run for minutes or fill the memory.
_MOST_COMPARISONS = 1_000_000_000
_MOST_PAIRS = 20_000_000

_VECTOR = 2048  # sections of a vector, as they are stored
_AT_ONCE = 20_000_000  # characters that a statement reads and makes of texts, in a vector
_MOST_COPIED = 60_000_000  # that it makes of one text
_COMPARED = 50_000  # of a text that windows are compared by: it goes with each of them


class NoAnchorError(EmptyPoolError):
    """A pool has no anchor; the message says which, and why."""


class PoolReader:
    """Reads the pools of one split and version, keeping lists that come again.

    Args:
        database: The corpus.
        pools: All that will be read: what they look at is joined once, for all of them.
    """

    def __init__(self, database: Database, pools: Sequence[CompiledPool]) -> None:
        self._database = database.cursor()
        self._lists: dict[tuple[str, str], pa.Table] = {}
        self._of_all: dict[tuple[int, str], Negatives] = {}  # by their list and unit
        where = {name: pools[0].parameters[name] for name in ("split", "version")}
        facts = self._facts(pools, where)
        found = {} if facts is None else {"section_facts": facts}
        with self._database.registered(**found):
            self._database.rows(stage(pool.recipe for pool in pools), where)

    def __enter__(self) -> PoolReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.run("pools/lists/unstage")
        self._database.close()

    def _facts(self, pools: Sequence[CompiledPool], where: Mapping[str, Any]) -> pa.Table | None:
        """Return what conditions ask of the texts of sections, if they ask anything."""
        statements, compared = {}, ""
        for pool in pools:
            if facts := facts_of(pool.recipe):
                copies = sum(fact.copies for fact in facts.values())
                sql = facts_statement(pool.recipe)
                statements[sql] = (sql, copies, pool.described)
            if compares_texts(pool.recipe):
                compared = pool.described
        # Only the nearest by date and negatives of a split can be of another source.
        nearest = any("nearest" in pool.sql(staged=True) for pool in pools)
        beyond = nearest or any(pool.of_split for pool in pools)
        sources = None if beyond else sorted({pool.parameters["source"] for pool in pools})
        wanted = {**where, "sources": sources}
        return _told_facts(self._database, statements, wanted, compared=compared)

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
        rows = self.list(compiled, "anchors")
        if rows.num_rows == 0:
            raise NoAnchorError(self._why_empty(compiled))
        if of is not None:
            rows = rows.filter(pa.array(np.isin(keys_of(rows, "record_key"), of)))
            if rows.num_rows == 0:
                raise NoAnchorError(
                    f"{_what(compiled)}: index controls list {len(of)} of its records, and none of "
                    f"them is an anchor"
                )
        recipe = compiled.recipe
        if isinstance(recipe, TextRecipe):
            anchors = anchors_of(rows, np.zeros(rows.num_rows, np.int64), recipe.per)
            return Pool(compiled, anchors, None, None)
        classes, index = classes_of(words_if_any(rows, "class"))
        anchors = anchors_of(rows, index, recipe.per)
        listed = self.list(compiled, "positives")
        distinct = not recipe.allow_same_anchor_positive
        positives = positives_of(anchors, listed, distinct=distinct)
        if compiled.of_split:
            pool = Pool(compiled, anchors, positives, None)
            return self._of_split(pool, classes, rows, listed, spare=spare)
        negatives = self._negatives(compiled, classes, rows, listed)
        if compiled.own_negatives:
            beyond = None
            if compiled.fills_up and (spare or negatives.counts().min() < compiled.negatives):
                beyond = self._of_others(compiled, rows, listed)
            return Pool(compiled, anchors, positives, negatives, beyond=beyond)
        if not recipe.mined:
            return Pool(compiled, anchors, positives, negatives)
        guarded = _guarded(anchors, rows, self.list(compiled, "negatives"))
        return Pool(compiled, anchors, positives, negatives, guarded)

    def count(self, compiled: CompiledPool) -> dict[str | None, int]:
        """Return how many records (or chunks) have which reason not to be in the pool."""
        parameters = compiled.parameters_of("counts", staged=True)
        with self._database.deadline(compiled.described):
            return dict(self._database.rows(compiled.sql("counts", staged=True), parameters))

    def list(self, compiled: CompiledPool, part: Part) -> pa.Table:
        """Return the rows of a part of a pool; those that several pools share are read once."""
        sql = compiled.sql(part, staged=True)
        parameters = compiled.parameters_of(part, staged=True)
        name = (sql, repr(sorted(parameters.items())))
        if name not in self._lists:
            with self._database.deadline(compiled.described):
                self._lists[name] = self._database.arrow(sql, parameters)
        return self._lists[name]

    def _negatives(
        self, compiled: CompiledPool, classes: Words, rows: pa.Table, positives: pa.Table
    ) -> Negatives:
        listed, pairs = self.list(compiled, "negatives"), self.list(compiled, "pairs")
        if pairs.num_rows > _MOST_PAIRS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy pairs {pairs.num_rows} values; "
                f"compare by equality, or round the values it compares"
            )
        if compiled.own_negatives:
            listed = usable_of_own(rows, positives, listed)
            return negatives_of(compiled, classes, listed, pairs, illegal=np.zeros(0, np.uint64))
        if isinstance(compiled.recipe, TextRecipe) or not compiled.recipe.mined:
            illegal = several_texts(rows, positives)
            return negatives_of(compiled, classes, listed, pairs, illegal=illegal)
        texts = self.list(compiled, "illegal_texts")
        illegal = _pairs(texts.filter(pc.invert(texts["known"])))
        known = _pairs(texts.filter(texts["known"]))
        return negatives_of(compiled, classes, listed, pairs, illegal=illegal, known=known)

    def _of_split(
        self, pool: Pool, classes: Words, rows: pa.Table, listed: pa.Table, *, spare: bool
    ) -> Pool:
        """Return a pool whose anchors draw from their source, those with too few from all."""
        inner = pool.compiled.of_source()
        enough = keys_of(self.list(inner, "anchors"), "chunk_key")
        short = ~np.isin(pool.anchors.chunks, enough)
        pool = replace(pool, negatives=self._negatives(inner, classes, rows, listed))
        if not (spare or short.any()):
            return pool
        beyond = self._negatives(pool.compiled, classes, rows, listed)
        # Many small sources may need it: what is the same for all of them is kept once.
        which = id(self.list(pool.compiled, "negatives")), pool.compiled.recipe.per
        first = self._of_all.setdefault(which, beyond)
        shared = {name: getattr(first, name) for name in ("chunks", "hashes", "kins", "starts")}
        return replace(pool, beyond=replace(beyond, **shared), short=short)

    def _of_others(self, compiled: CompiledPool, rows: pa.Table, positives: pa.Table) -> Negatives:
        """Return what fills up records with too few negatives of their own: those of all."""
        listed, none = self.list(compiled, "negatives"), self.list(compiled, "pairs").slice(0, 0)
        every, one = replace(compiled, forbids=True), np.zeros(1, np.uint64)
        illegal = several_texts(rows, positives)
        return negatives_of(every, one, listed, none, illegal=illegal)

    def _refuse_unbounded(self, compiled: CompiledPool) -> None:
        sql, parameters = (
            compiled.sql("sizes", staged=True),
            compiled.parameters_of("sizes", staged=True),
        )
        with self._database.deadline(compiled.described):
            classes, bins = self._database.rows(sql, parameters)[0]
        if classes * bins > _MOST_COMPARISONS:
            raise RecipeError(
                f"recipe {compiled.recipe.name!r}: its strategy would compare {classes} values "
                f"of anchors with {bins} of negatives; add an equality between the two, or "
                f"round the values it compares"
            )

    def _why_empty(self, compiled: CompiledPool) -> str:
        """Return what is empty, with counts by reason, and how many negatives there would be."""
        reasons = {k or "": n for k, n in self.count(compiled).items()}
        counts = ", ".join(f"{n} {reason}" for reason, n in reasons.items() if reason)
        told = f"{_what(compiled)}: {counts or 'the split has no records'}"
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


def _what(compiled: CompiledPool) -> str:
    source, split = compiled.parameters["source"], compiled.parameters["split"]
    return f"recipe {compiled.recipe.name!r} finds no anchor in source {source!r}, split {split!r}"


def _guarded(anchors: Anchors, rows: pa.Table, negatives: pa.Table) -> Guarded:
    """Return what else is known of anchor chunks and negatives, where they are mined."""
    return Guarded(
        families=keys_of(rows, "family")[anchors.starts[:-1]],
        normalised_hashes=words_of(rows, "normalised_hash"),
        sections=keys_of(rows, "section_key"),
        negative_sections=keys_of(negatives, "section_key"),
    )


def _pairs(texts: pa.Table) -> Words:
    """Return illegal texts, each with its owner, as sorted hashes."""
    return np.unique(pair_hashes(words_of(texts, "owner"), words_of(texts, "text_hash")))


# -- facts -----------------------------------------------------------------------------------------


def _told_facts(
    database: Database,
    statements: Mapping[str, tuple[str, int, str]],
    where: Mapping[str, Any],
    *,
    compared: str = "",
) -> pa.Table | None:
    """Return the facts of all sections; None where there are none to tell.

    Args:
        database: The corpus.
        statements: For each recipe its statement, how many times that makes a text, and what
            the recipe is, for messages.
        where: ``split``, ``version``, and ``sources``, None for all.
        compared: What looks at whole texts besides, window by window, if anything does.

    Raises:
        RecipeError: A text is too long for what a condition makes of it.
        DeadlineError: It took too long.
    """
    if not statements and not compared:
        return None
    parts = _sizes(database, where, _VECTOR, 0, 2**62)
    longest = max((part[3] for part in parts), default=0)
    if compared and longest > _COMPARED:
        raise RecipeError(
            f"{compared}: it compares whole texts window by window, and the longest has {longest} "
            f"characters, of {_COMPARED} that are allowed; compare text[:{SHORT}] or md5(text)"
        )
    columns: dict[str, Any] = {}
    for sql, copies, what in statements.values():
        if longest * copies > _MOST_COPIED:
            raise RecipeError(
                f"{what}: it makes up to {copies} times a text, and the longest text has {longest} "
                f"characters; look at its beginning, as in text[:{SHORT}]"
            )
        found = []
        for low, high in _portions(database, where, parts, _AT_ONCE // (1 + copies)):
            with database.deadline(what):
                found.append(database.arrow(sql, {**where, "low": low, "high": high}))
        table = pa.concat_tables(found)
        columns |= {name: table[name] for name in table.column_names}
    return pa.table(columns) if columns else None


Stretch = tuple[
    int, int, int, int
]  # the first and the last section, characters, those of the longest


def _sizes(
    database: Database, where: Mapping[str, Any], keys: int, low: int, high: int
) -> list[Stretch]:
    given = {**where, "keys": keys, "low": low, "high": high}
    return database.run("pools/lists/text_sizes", given)


def _portions(
    database: Database, where: Mapping[str, Any], parts: list[Stretch], most: int
) -> Iterator[tuple[int, int]]:
    """Yield ranges of sections whose vectors have no more characters, or that are one section."""
    low, last = 0, 0
    for part in parts:
        if part[2] <= most:
            last = part[1]
            continue
        if last >= low:
            yield low, part[0] - 1
        low, size = part[0], 0
        for key, _, own, _ in _sizes(database, where, 1, part[0], part[1]):
            if size and size + own > most:
                yield low, key - 1
                low, size = key, 0
            size += own
        yield low, part[1]
        low, last = part[1] + 1, part[1]
    yield low, 2**62
