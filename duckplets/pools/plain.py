"""Compute the lists of a default pool by arithmetic: the law of ``sql/pools/law.sql`` in arrays.

A record loses its own texts, and those that are written like them. Records with groups use the
statement, and so do pools with hardly enough texts. A test compares both. Ten million records whose
texts repeat take a third of the statement's time, and fit into the usual memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Array, Flags, Integers, Words
from duckplets.base.columns import column
from duckplets.db.database import Database
from duckplets.pools.compile import CompiledPool, Part
from duckplets.recipes.recipes import TripletRecipe, role

_ANCHOR, _CONTEXT = role("anchor"), role("context")
_COLUMNS: Mapping[Part, tuple[str, ...]] = {
    "anchors": (
        *("record_key", "chunk_key", "text_hash", "family", "question", "section_key"),
        "position",
    ),
    "negatives": ("record_key", "chunk_key", "text_hash", "family", "section_key"),
    "positives": ("record_key", "chunk_key", "text_hash"),
}
_ORDER = ("added_version", "id_hash")
_AT_ONCE = 1 << 20  # sections that are joined at a time
_MOST = 50_000_000  # pairs of a record and a text that others have
_LAST = np.uint64(2**64 - 1)
_PAIRS = pa.schema([("class", pa.uint64()), ("bin", pa.uint64())])
_ILLEGAL = pa.schema(
    [
        ("is_answer", pa.bool_()),
        ("family", pa.int64()),
        ("question", pa.uint64()),
        ("text_hash", pa.uint64()),
    ]
)


def is_plain(pool: CompiledPool) -> bool:
    """Return whether a pool is the default one, without conditions and labels."""
    recipe = pool.recipe
    if not isinstance(recipe, TripletRecipe):
        return False
    usual = TripletRecipe("usual", _ANCHOR, _CONTEXT, _CONTEXT)
    is_changed = pool.labels or pool.relabelled or pool.swaps or pool.narrow or pool.documents
    return recipe.of_pool() == usual.of_pool() and not is_changed


def lists_of(database: Database, pool: CompiledPool) -> dict[Part, pa.Table] | None:
    """Return the lists of a plain pool; None where the statement has to decide."""
    rows = _rows(database, pool)
    if rows is None:
        return None
    is_context = ~rows["is_anchor"]
    repeated = _Repeated(rows, is_context)
    if repeated.is_any and not rows["answers"].all():
        return None
    illegal = repeated.illegal()
    if illegal is None:
        return None
    most_lost = sum(int(np.unique(of, return_counts=True)[1].max(initial=0)) for of, _ in illegal)
    room = repeated.texts - most_lost - pool.negatives
    is_anchor = _anchors(rows, is_context, room, repeated.is_any)
    if is_anchor is None or not is_anchor.any():
        return None
    # Those of a record stay together, in their order.
    order = np.argsort(rows["id_hash"], kind="stable")
    order = order[np.argsort(rows["added_version"][order], kind="stable")]
    places: dict[Part, Integers] = {
        "anchors": order[is_anchor[order]],
        "negatives": order[is_context[order]],
        "positives": np.flatnonzero(is_context),
    }
    lists = {
        part: pa.table({name: column(rows[name][at]) for name in (*_COLUMNS[part], *_ORDER)})
        for part, at in places.items()
    }
    return {**lists, "pairs": _PAIRS.empty_table(), "illegal": _illegal(*illegal)}


def _anchors(rows: dict[str, Array], is_context: Flags, room: int, is_least: bool) -> Flags | None:
    """Return which chunks are anchors: with a positive of another text and enough negatives.

    A record may lose so many own texts as there is ``room`` for. None if one loses more and the
    room is only the least there may be.
    """
    records, texts = rows["record_key"], rows["text_hash"]
    starts = np.flatnonzero(np.diff(records, prepend=-1))
    sizes = np.diff(starts, append=len(records))
    own = np.add.reduceat(is_context, starts, dtype=np.int64)
    if is_least and own.max() > room:
        return None
    least = np.minimum.reduceat(np.where(is_context, texts, _LAST), starts)
    most = np.maximum.reduceat(np.where(is_context, texts, np.uint64(0)), starts)
    is_anchor = ~is_context & np.repeat((own > 0) & (own <= room), sizes)
    is_anchor &= np.repeat(least != most, sizes) | (np.repeat(least, sizes) != texts)
    return is_anchor


class _Repeated:
    """What occurs more than once among the texts of chunks and the questions of sections."""

    def __init__(self, rows: dict[str, Array], is_context: Flags) -> None:
        self._rows, self._is_context = rows, is_context
        texts, questions = rows["text_hash"], rows["question"] ^ np.uint64(1)
        is_first = np.diff(rows["section_key"], prepend=-1) != 0  # chunks of a section are together
        writings = np.sort(np.concatenate([texts, questions[is_first]]))
        repeated = np.unique(writings[1:][writings[1:] == writings[:-1]])
        self.is_any = len(repeated) > 0
        # Of each chunk that is written like another one: its place, and the writing they share.
        at = [np.flatnonzero(_within(repeated, words)) for words in (texts, questions)]
        self._at = np.concatenate(at)
        self._writing = np.concatenate([texts[at[0]], questions[at[1]]])
        often = texts[at[0]][is_context[at[0]]]
        self.texts = int(is_context.sum()) - len(often) + len(np.unique(often))  # distinct

    def illegal(self) -> tuple[tuple[Integers, Words], tuple[Words, Words]] | None:
        """Return the texts that records, and that questions of several records, must not draw.

        Texts of one record need no entry. None if there are too many.
        """
        records, texts = self._rows["record_key"], self._rows["text_hash"]
        of_context = self._is_context[self._at]
        written = _distinct(self._writing[of_context], texts[self._at[of_context]])
        own = _joined(*_distinct(self._writing, records[self._at]), *written)
        answers = self._answers(written)
        if own is None or answers is None:
            return None
        at = np.unique(self._at[of_context])
        drawn, place = np.unique(texts[at], return_inverse=True)
        first, last = np.full(len(drawn), len(records), np.int64), np.full(len(drawn), -1, np.int64)
        np.minimum.at(first, place, at)  # places are in the order of records
        np.maximum.at(last, place, at)
        of = np.searchsorted(drawn, own[1])
        is_sole = (records[first[of]] == own[0]) & (records[last[of]] == own[0])
        asked = _within(records[~self._is_context], own[0])
        return (own[0][~is_sole & asked], own[1][~is_sole & asked]), answers

    def _answers(self, written: tuple[Words, Words]) -> tuple[Words, Words] | None:
        """Return the questions that several records ask, each with its known answers."""
        records, texts = self._rows["record_key"], self._rows["text_hash"]
        asking = self._at[~self._is_context[self._at]]
        questions, askers = _distinct(self._rows["question"][asking], records[asking])
        several = questions[1:][questions[1:] == questions[:-1]]
        is_shared = _within(np.unique(several), questions)
        questions, askers = questions[is_shared], askers[is_shared]
        at = np.flatnonzero(self._is_context & _within(np.unique(askers), records))
        by_record = np.argsort(askers, kind="stable")
        asked = askers[by_record].astype(np.uint64), questions[by_record]
        own = _joined(records[at].astype(np.uint64), texts[at], *asked)
        is_like = _within(at, self._at)
        like = (records[self._at[is_like]].astype(np.uint64), self._writing[is_like])
        others = _joined(*like, *asked)
        if own is None or others is None:
            return None
        more = _joined(*others, *written)
        if more is None:
            return None
        return _distinct(np.concatenate([own[1], more[0]]), np.concatenate([own[0], more[1]]))


def _within(values: Array, those: Array) -> Flags:
    """Return which of those are among ascending values."""
    if not len(values):
        return np.zeros(len(those), np.bool_)
    at = np.minimum(np.searchsorted(values, those), len(values) - 1)
    found: Flags = values[at] == those
    return found


def _distinct(first: Array, second: Array) -> tuple[Array, Array]:
    """Return distinct pairs, by first and second."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[is_new], second[is_new]


def _joined(keys: Array, values: Array, by: Array, others: Array) -> tuple[Array, Array] | None:
    """Join on keys, ``by`` ascending: return distinct pairs of values; None for too many."""
    low, high = np.searchsorted(by, keys, "left"), np.searchsorted(by, keys, "right")
    counts = high - low
    if (total := int(counts.sum())) > _MOST:
        return None
    at = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(total)
    return _distinct(np.repeat(values, counts), others[at])


def _illegal(pairs: tuple[Integers, Words], answers: tuple[Words, Words]) -> pa.Table:
    count, more = len(pairs[0]), len(answers[0])
    columns = (
        np.repeat([False, True], [count, more]),
        np.concatenate([pairs[0], np.zeros(more, np.int64)]),
        np.concatenate([np.zeros(count, np.uint64), answers[0]]),
        np.concatenate([pairs[1], answers[1]]),
    )
    return pa.table([column(values) for values in columns], schema=_ILLEGAL)


def _rows(database: Database, pool: CompiledPool) -> dict[str, Array] | None:
    """Return the chunks of a pool by record; None if records have groups, or keys in no order."""
    where = {name: pool.parameters[name] for name in ("source", "split", "version")}
    found = dict[str, list[Array]]()
    spans = database.table("pools/lists/ranges", {"source": where["source"], "most": _AT_ONCE})
    for span in spans.to_pylist():
        rows = database.table("pools/lists/plain", where | span)
        if not rows["record_key"].equals(rows["family"]):
            return None
        for name in rows.drop_columns(["family"]).column_names:
            # A copy: a column of DuckDB has the memory of all others.
            found.setdefault(name, []).append(np.array(rows[name].to_numpy()))
    if not found:
        return None
    # One column after the other, so that not all are there twice.
    made = {name: np.concatenate(found.pop(name)) for name in [*found]}
    made["family"] = made["record_key"]
    return made if (np.diff(made["record_key"]) >= 0).all() else None
