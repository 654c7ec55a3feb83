"""Prefixing: from the chunks of a block, the lines in front of their texts, which give way.

    record of a chunk ─holders→ definition ─Draws→ line ─fetch→ line + newline + text

Opened only where the pinned version has prefixes, so that other runs pay nothing. What a record
has of its own, and the columns a prefix shows, are read for each block, for the texts that need
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers
from duckplets.ingest.chunks import current_chunking
from duckplets.samples.prefixes.draws import Catalog, Draws, catalog_of, own_catalog
from duckplets.samples.prefixes.values import Columns, TextLists
from duckplets.text.chunking import Chunking
from duckplets.text.windows import windows

if TYPE_CHECKING:
    from duckplets.db.database import Database

META_TYPE = pa.map_(pa.string(), pa.list_(pa.string()))
_NONE, _OWN = -1, -2  # in place of a definition


@dataclass
class Prefixed:
    """The prefixes of the texts of a block.

    Attributes:
        lines: Of every text, null for none.
        meta: Of every text its declared keys and values; None unless asked for.
        exceeding: Which texts may be too long with their line.
        chunking: What a window holds.
    """

    lines: pa.Array
    meta: pa.Array | None
    exceeding: Integers
    chunking: Chunking

    def fitted(self, requests: Integers, texts: pa.Array) -> pa.Array:
        """Cut what is too long of texts with their lines in front; so are lines, if need be.

        Args:
            requests: Which text each of them is: shape (n,).
            texts: In any order.
        """
        is_long = np.zeros(len(texts), dtype=bool)
        is_long[self.exceeding] = True
        at = np.flatnonzero(is_long[requests])
        if len(at) == 0:
            return texts
        before = texts.take(pa.array(at))
        after = _fitted(before, self.chunking)
        if after.equals(before):
            return texts
        self._shorten(requests[at], after)
        mask = np.zeros(len(texts), dtype=bool)
        mask[at] = True
        return pc.replace_with_mask(texts, pa.array(mask), after)

    def _shorten(self, requests: Integers, texts: pa.Array) -> None:
        """Cut lines of which nothing but a part is served."""
        lines = self.lines.take(pa.array(requests))
        shorter = pc.less(pc.binary_length(texts), pc.binary_length(lines))
        shorter = shorter.to_numpy(zero_copy_only=False)
        if not shorter.any():
            return
        mask = np.zeros(len(self.lines), dtype=bool)
        mask[requests[shorter]] = True
        order = np.argsort(requests[shorter])
        cut = texts.take(pa.array(np.flatnonzero(shorter)[order]))
        self.lines = pc.replace_with_mask(self.lines, pa.array(mask), cut)


def nothing(size: int, *, meta: bool) -> Prefixed:
    """Return the prefixes of so many texts without any."""
    declared = pa.array([[]], META_TYPE).take(pa.array(np.zeros(size, np.int64))) if meta else None
    return Prefixed(pa.nulls(size, pa.string()), declared, np.zeros(0, np.int64), Chunking())


class Prefixes:
    """The prefixes of one run.

    Args:
        database: The corpus.
        sources: Id and prefix, as JSON, of every source that has one.
        seed: Of the run.
    """

    def __init__(self, database: Database, sources: Sequence[tuple[int, str]], seed: int) -> None:
        self._catalog = catalog_of(database, [definition for _, definition in sources])
        self._definitions = _by_record(database, [source for source, _ in sources])
        self._draws = Draws(seed)
        self._columns = Columns(database, self._catalog.names)
        self._chunking = current_chunking(database)

    def of(
        self,
        database: Database,
        positions: Integers,
        *,
        record_key: Integers,
        tokens: Integers,
        meta: bool,
    ) -> Prefixed:
        """Return the prefixes of the texts of a block.

        Args:
            database: The corpus, on the connection to read with.
            positions: Of the samples.
            record_key: Of every chunk, slot by slot.
            tokens: Of every chunk.
            meta: Whether keys and values are asked for.
        """
        records = record_key
        definitions = self._definitions[records].astype(np.int64)
        having = np.flatnonzero(definitions != _NONE)
        catalog, definitions = self._own(database, records[having], definitions[having])
        slots = len(records) // max(1, len(positions))
        slot, sample = np.divmod(having, max(1, len(positions)))
        cells = positions[sample] * slots + slot
        shown = self._draws.shown(catalog, definitions, cells)
        needed = np.arange(len(having)) if meta else shown
        columns = self._columns.of(database, records[having[needed]], catalog.names)
        of_shown = [lists.part(shown) for lists in columns] if meta else columns
        drawn = self._draws.lines(catalog, definitions[shown], cells[shown], of_shown)
        texts = having[shown]
        there = texts[drawn.is_valid().to_numpy(zero_copy_only=False)]
        exceeding = there[_may_exceed(drawn.drop_null(), tokens[there], self._chunking)]
        declared = None
        if meta:
            found = _declared(catalog, definitions, records[having], columns)
            declared = _spread(found, having, len(records), pa.array([[]], META_TYPE))
        lines = _spread(drawn, texts, len(records))
        return Prefixed(lines, declared, exceeding, self._chunking)

    def _own(
        self, database: Database, records: Integers, definitions: Integers
    ) -> tuple[Catalog, Integers]:
        """Add the definitions of records that have one of their own."""
        own = definitions == _OWN
        if not own.any():
            return self._catalog, definitions
        keys, inverse = np.unique(records[own], return_inverse=True)
        definitions = definitions.copy()
        definitions[own] = len(self._catalog) + inverse
        return self._catalog + own_catalog(database, keys), definitions


def _by_record(database: Database, sources: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return the number of the definition of every record, by its key."""
    rows = database.table("samples/prefixes/holders")
    keys, of = rows["record_key"].to_numpy(), rows["source_id"].to_numpy()
    numbers = np.full(int(of.max(initial=0)) + 1, _NONE, np.int32)
    for number, source in enumerate(sources):
        if source < len(numbers):
            numbers[source] = number
    found = np.full(int(keys.max(initial=0)) + 1, _NONE, np.int32)
    own = rows["own"].combine_chunks().to_numpy(zero_copy_only=False)
    found[keys] = np.where(own, _OWN, numbers[of])
    return found


def _spread(
    values: pa.Array, places: Integers, size: int, other: pa.Array | None = None
) -> pa.Array:
    """Return values at their places among so many, and null elsewhere, or the one other."""
    at = np.full(size, len(values), np.int64)
    at[places] = np.arange(len(places))
    if other is None:
        return values.take(pa.array(at, mask=at == len(values)))
    return pa.concat_arrays([values, other]).take(pa.array(at))


def _declared(
    catalog: Catalog, definitions: Integers, records: Integers, columns: Sequence[TextLists]
) -> pa.Array:
    """Return all keys of each text's definition with all their values."""
    known: dict[tuple[int, int], list[tuple[str, list[str]]]] = {}
    found = []
    fields = {number: catalog.declared(number) for number in np.unique(definitions).tolist()}
    lists = {name: of.to_pylist() for name, of in zip(catalog.names, columns, strict=True)}
    for row, pair in enumerate(zip(definitions.tolist(), records.tolist(), strict=True)):
        if pair not in known:
            merged: dict[str, list[str]] = {}
            for key, values, column in fields[pair[0]]:
                shown = values if column is None else lists[column][row]
                merged.setdefault(key, []).extend(shown)
            known[pair] = [(k, list(dict.fromkeys(v))) for k, v in merged.items() if v]
        found.append(known[pair])
    return pa.array(found, META_TYPE)


# -- what fits into a window ---------------------------------------------------------------------


def _may_exceed(lines: pa.Array, tokens: Integers, chunking: Chunking) -> Integers:
    """Return which lines may be too long together with texts of so many tokens.

    With words that is exact. The tokens of a line and a text together are not those of each:
    a tokenizer file may cut both anew where they meet, so whatever comes within a quarter of the
    limit (and 16 tokens) is counted as it is served. A line has no more tokens than bytes.
    """
    size = pc.binary_length(lines).to_numpy(zero_copy_only=False)
    if chunking.tokenizer is not None:
        return np.flatnonzero(tokens * 5 // 4 + 16 + size > chunking.max_tokens)
    near = np.flatnonzero(tokens + (size + 1) // 2 > chunking.max_tokens)  # a word and a blank
    words = windows(lines.take(pa.array(near)), _single(chunking))[0] if len(near) else near
    return near[words + tokens[near] > chunking.max_tokens]


def _fitted(texts: pa.Array, chunking: Chunking) -> pa.Array:
    """Cut what is too long after the last token that fits.

    With a tokenizer file, what was cut is counted again, and cut further while it is too long.
    """
    over, cut = _beginnings(texts, chunking.max_tokens, chunking)
    if len(over) == 0:
        return texts
    kept = texts.to_pylist()
    _put(kept, over, cut)
    for limit in range(chunking.max_tokens - 1, -1, -1):
        over = over[_too_long(kept, over, chunking)]
        if len(over) == 0:
            break
        part = texts.take(pa.array(over))
        _put(kept, over, _beginnings(part, limit, chunking)[1] if limit else [""] * len(over))
    return pa.array(kept, texts.type)


def _too_long(texts: list[str], rows: Integers, chunking: Chunking) -> np.ndarray[Any, Any]:
    """Return which of some texts are still too long: of words none, for they stay what they are."""
    if chunking.tokenizer is None:
        return np.zeros(len(rows), dtype=bool)
    again = pa.array([texts[row] for row in rows.tolist()], pa.string())
    return windows(again, _single(chunking))[0] > chunking.max_tokens


def _put(kept: list[str], rows: Integers, texts: list[str]) -> None:
    for row, text in zip(rows.tolist(), texts, strict=True):
        kept[row] = text


def _beginnings(texts: pa.Array, tokens: int, chunking: Chunking) -> tuple[Integers, list[str]]:
    """Return which texts have more than so many tokens, and the first of each of them."""
    counts, found = windows(texts, replace(_single(chunking), max_tokens=tokens))
    long = np.flatnonzero(counts > tokens)
    first = np.searchsorted(found.section, long)
    ends = (found.start[first] + found.length[first]).tolist()
    whole = texts.take(pa.array(long)).to_pylist()
    return long, [text[:end] for text, end in zip(whole, ends, strict=True)]


def _single(chunking: Chunking) -> Chunking:
    return replace(chunking, overlap=(0,), summary_tokens=0)
