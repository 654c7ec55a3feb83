"""Reading: records by number, in any order, block by block.

    order ─take→ numbers ─→ requests ─sql/reading→ columns ─→ table ─slices→ Batch
                                     (the next block meanwhile)

Record k is the k-th record of a version, of one source or split if that is asked for; for a data
index it is the k-th of the source that the entry names. The order is consumed in the thread of the
loop, a block ahead of the one handed out; reading is what the background thread does. Whatever goes
wrong surfaces after the batches that come before it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.checks import integer
from duckplets.base.lookahead import Lookahead
from duckplets.db.database import Database
from duckplets.errors import SamplerError, SplitError, StateMismatchError, nearest
from duckplets.ingest.splits import checked_split, current_splits
from duckplets.order.permute import Integers
from duckplets.records.data_index import DataIndex
from duckplets.records.elements import Elements, Order, Part, elements_of
from duckplets.records.indexed_records import indexed, split_of
from duckplets.sampling.batch import Batch

_PLACES = ("index", "record_key")
_LABELS = ("record_id", "source", "split", "date")
_DETAILS = ("meta", "group_key", "taxonomy", "trust", "created_at", "updated_at")
_ROLES = ("anchor", "context", "rejected")
_TEXTS = ("text", *_ROLES)
_COLUMNS = (*_PLACES, *_LABELS, *_DETAILS, *_TEXTS)
_DEFAULT = (*_PLACES, *_LABELS, "meta", "text")

_FIRST_BLOCK = 256  # records: the first batch comes soon
_GROWTH = 4
_LARGEST_BLOCK = 65_536
_BLOCK_BYTES = 192 << 20  # of a block; there are two of them at a time


def count(
    database: Database, *, split: str | None = None, source: str | None = None, version: int
) -> int:
    """Return how many records of a version there are to read.

    Raises:
        SamplerError, SplitError: There is no such source or split.
    """
    where = _where(database, split, source, version)
    return int(database.table("records/read/keys", where).num_rows)


def read(
    database: Database,
    order: Order,
    *,
    batch_size: int,
    split: str | None = None,
    source: str | None = None,
    version: int,
    columns: Sequence[str] | None = None,
) -> Generator[Batch, None, None]:
    """Return an iterator over the records that an order names, in batches.

    Its steps count from 0, and the position of a batch is the number of records before it. The
    last batch may be shorter. An endless order gives endless batches; a block of elements is
    taken from it ahead of the batches. Closing the iterator ends its thread.

    Args:
        database: The corpus.
        order: An ``IndexSampler``, or anything that yields ``RecordMetadata`` or integers. The
            key of an integer is itself, and its index the number of elements before it. Or a
            ``DataIndex``, whose data sets are sources: entry ``(source, k)`` is the k-th record of
            that source, its key is k, and its index the number of entries before it.
        batch_size: Records a batch.
        split: Number the records of this split only; by default that of a ``DataIndex``.
        source: Number the records of this source only.
        version: Of the corpus.
        columns: ``index`` and ``record_key`` (of the order); ``record_id``, ``source``, ``split``,
            ``date``; ``meta``, ``group_key``, ``taxonomy``, ``trust``, ``created_at``,
            ``updated_at``; ``text``, the texts of all sections but rejected replies, joined by a
            blank line; ``anchor``, ``context`` and ``rejected``, lists of the texts of these roles.
            By default those up to ``date``, ``meta`` and ``text``.

    Raises:
        SamplerError, SplitError: An argument is wrong, at once; or, in the loop, the order names
            a record that is not there.
    """
    batch_size = integer("batch_size", batch_size, 1)
    names = _checked_columns(columns)
    if isinstance(order, DataIndex):
        where = _where(database, split_of(order, split), source, version)
        keys, elements = indexed(database, order, where)
        return _batches(database, keys, names, elements, batch_size)
    where = _where(database, split, source, version)
    keys = database.table("records/read/keys", where)["record_key"].to_numpy()
    return _batches(database, keys, names, elements_of(order, len(keys)), batch_size)


def _where(
    database: Database, split: str | None, source: str | None, version: int
) -> dict[str, Any]:
    """Return the parameters that choose records, if they are right."""
    if split is not None and checked_split(split) and current_splits(database) is None:
        raise SplitError(
            f"split={split!r}: the corpus has no splits yet; call corpus.split(…), or run: "
            f"duckplets split {database.path}"
        )
    sources = dict(database.run("recipes/store/sources", {"version": version}))
    if source is not None and source not in sources:
        raise SamplerError(
            f"no source {source!r}{nearest(str(source), sources)}; there are: "
            f"{', '.join(sources) or 'none'}"
        )
    return {"split": split, "source": source, "version": version}


def _checked_columns(columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(_DEFAULT)
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in _COLUMNS:
            raise SamplerError(
                f"columns: records have no {name!r}{nearest(str(name), _COLUMNS)}; there are "
                f"{', '.join(_COLUMNS)}"
            )
    if not names:
        raise SamplerError(f"columns={columns!r}: name at least one of {', '.join(_COLUMNS)}")
    return list(dict.fromkeys(names))


# -- block by block -----------------------------------------------------------------------------


def _batches(
    database: Database,
    keys: Integers,
    columns: list[str],
    elements: Elements,
    batch_size: int,
) -> Generator[Batch, None, None]:
    blocks = _Blocks(_Fetcher(database.cursor(), keys, columns), elements, batch_size)
    position = 0
    try:
        for table in blocks:
            for start in range(0, table.num_rows, batch_size):
                batch = Batch(table.slice(start, batch_size), position // batch_size, position)
                position += len(batch)
                yield batch
    finally:
        blocks.close()


class _Blocks:
    """Blocks of whole batches, each read while the one before is used."""

    def __init__(self, fetcher: _Fetcher, elements: Elements, batch_size: int) -> None:
        self._fetcher = fetcher
        self._elements = elements
        self._batch_size = batch_size
        self._records = _FIRST_BLOCK  # of the next block, about
        self._coming = Lookahead(self._calls(), "duckplets-read", stop=fetcher.interrupt)

    def __iter__(self) -> Iterator[pa.Table]:
        for table in self._coming:
            self._learn(table)
            yield table

    def close(self) -> None:
        """Stop the block that is being read, and end the thread."""
        self._coming.close()
        self._fetcher.close()

    def _calls(self) -> Iterator[Callable[[], pa.Table]]:
        """Take blocks of elements from the order, and yield what reads their records."""
        is_last = False
        while not is_last:
            size = max(1, self._records // self._batch_size) * self._batch_size
            part = self._elements.take(size)
            taken = len(part.keys)
            is_last = taken < size
            if part.error is not None:  # only the batches before it are whole
                taken -= taken % self._batch_size
            if taken:
                yield partial(self._fetcher.fetch, part.first(taken))
            if part.error is not None:
                raise part.error

    def _learn(self, table: pa.Table) -> None:
        """Let blocks grow, as far as their bytes allow."""
        fitting = max(1, _BLOCK_BYTES // max(1, table.nbytes // table.num_rows))
        self._records = min(self._records * _GROWTH, _LARGEST_BLOCK, fitting)


class _Fetcher:
    """Reads the records of requests, on a connection of its own."""

    def __init__(self, database: Database, keys: Integers, columns: list[str]) -> None:
        self._database = database
        self._keys = keys
        self._columns = columns

    def interrupt(self) -> None:
        """Stop a statement that another thread waits for."""
        self._database.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def fetch(self, part: Part) -> pa.Table:
        """Return the columns of the records that elements name, in their order."""
        found = {"index": pa.array(part.indices), "record_key": pa.array(part.keys)}
        places = part.keys if part.places is None else part.places
        size = len(places)
        request = np.arange(size, dtype=np.int64)
        requests = pa.table({"request": request, "record_key": self._keys[places]})
        with self._database.registered(requests=requests):
            if self._wanted(_LABELS):
                found |= self._rows("records/read/labels", size)
            if self._wanted(_DETAILS):
                found |= self._rows("records/read/details", size)
            if self._wanted(_TEXTS):
                found |= self._texts(size)
        return pa.table({name: found[name] for name in self._columns})

    def _wanted(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name in self._columns]

    def _rows(self, statement: str, size: int) -> dict[str, pa.Array]:
        """Return columns with one row a request, in their order."""
        table = self._database.table(statement).combine_chunks()
        if table.num_rows != size:
            raise StateMismatchError(
                f"{table.num_rows} of {size} records were found; check the corpus with: "
                f"duckplets doctor {self._database.path}"
            )
        places = np.empty(size, dtype=np.int64)
        places[table["request"].to_numpy()] = np.arange(size, dtype=np.int64)
        rows = table.select(self._wanted(tuple(table.column_names[1:]))).take(pa.array(places))
        return {name: rows[name].combine_chunks() for name in rows.column_names}

    def _texts(self, size: int) -> dict[str, pa.Array]:
        wanted = self._wanted(_TEXTS)
        role = wanted[0] if len(wanted) == 1 and wanted[0] in _ROLES else None
        table = self._database.table("records/read/texts", {"role": role})
        request = table["request"].to_numpy()
        order = np.lexsort((table["section_key"].to_numpy(), request))
        request = request[order]
        texts = table["text"].combine_chunks().take(pa.array(order))
        roles = table["role"].combine_chunks().take(pa.array(order))
        found = {}
        for name in wanted:
            of_role = pc.equal(roles, name if name in _ROLES else "rejected")
            of_role = of_role.to_numpy(zero_copy_only=False) ^ (name == "text")
            lists = _lists(request[of_role], texts.filter(pa.array(of_role)), size)
            found[name] = pc.binary_join(lists, "\n\n") if name == "text" else lists
        return found


def _lists(request: Integers, texts: pa.Array, size: int) -> pa.Array:
    """Return a list of texts for every request; the requests ascend, and some have none."""
    offsets = np.searchsorted(request, np.arange(size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), texts)
