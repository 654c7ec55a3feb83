"""Read the records of an order block by block, and yield them as batches.

order ─take→ numbers ─→ requests ─sql/records/read→ columns ─→ table ─slices→ Batch

Record k is the k-th record of a version, a source or a split; in a data index the k-th record of
the entry's source. The caller's thread reads the order, one block ahead. A background thread reads
the records, with texts from a snapshot if one exists.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.base.arrays import Integers
from duckplets.base.block_size import BlockSize
from duckplets.base.checks import integer
from duckplets.base.columns import shaped_type
from duckplets.base.fork_guard import HomeLock
from duckplets.base.prefetch import Lookahead
from duckplets.base.sanitize import listed
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.errors import (
    DamagedFileError,
    QueryError,
    SamplerError,
    StateMismatchError,
    nearest,
)
from duckplets.ingest.splits import checked_split, need_splits
from duckplets.records.data_index import DataIndex
from duckplets.records.order_reader import Order, OrderPart, Take, elements_of, indexed_elements
from duckplets.runs.messages import shape_of
from duckplets.samples.batch import Batch, Block
from duckplets.serving.snapshot import folder_of, opened, sound
from duckplets.serving.texts import ROLES, ChunkTexts

log = logging.getLogger("duckplets")

_PLACES = ("index", "record_key")
_LABELS = ("record_id", "source", "split", "date")
_DETAILS = ("meta", "group_key", "taxonomy", "trust", "created_at", "updated_at", "label")
_ROLES = ROLES
_TEXTS = ("text", *_ROLES)
_MESSAGES = ("messages", "rejected_messages")
_OF_INDEX = '"type":"text","value":'  # the text key of messages read by a DataIndex
_COLUMNS = (*_PLACES, *_LABELS, *_DETAILS, *_TEXTS, *_MESSAGES)
_DEFAULT = (*_PLACES, *_LABELS, "meta", "text")

_LARGEST_BLOCK = 65_536
_BLOCK_BYTES = 192 << 20  # bytes of a block; two are in memory
_Gather = Callable[[Integers], pa.Array]


def count(corpus: CorpusFile, /, *, split: str | None = None, source: str | None = None) -> int:
    """Return the number of records."""
    return len(_keys(corpus.database, _where(corpus.database, split, source, corpus.version)))


def read(
    corpus: CorpusFile,
    /,
    order: Order,
    *,
    batch_size: int = 128,
    split: str | None = None,
    source: str | None = None,
    columns: Sequence[str] | None = None,
) -> Records:
    """Read records in any order, in batches.

    Args:
        order: An ``IndexSampler`` over ``count()`` records, a ``DataIndex``, or an iterable of
            ``RecordMetadata`` or integers; it may be endless. Numbers count from 0 in the order of
            arrival, in a ``DataIndex`` within each source.
        batch_size: Records a batch; the last may have fewer.
        split: Number the records of this split only.
        source: Number the records of this source only.
        columns: ``index`` and ``record_key`` (of the order); ``record_id``, ``source``,
            ``split``, ``date``; ``meta``, ``group_key``, ``taxonomy``, ``trust``,
            ``created_at``, ``updated_at``, ``label``. ``text`` joins the texts of all sections
            except rejected replies by a blank line. ``anchor``, ``context`` and ``rejected`` are
            lists of the texts of a role. Default: the columns up to ``date``, ``meta``, ``text``.

    Raises:
        SamplerError, SplitError: An argument is wrong; or, while iterating, the order names a
            record that does not exist.
    """
    database, version = corpus.database, corpus.version
    batch_size = integer("batch_size", batch_size, 1)
    names = _checked_columns(columns)
    if isinstance(order, DataIndex):
        where = _where(database, _split_of(order, split), source, version)
        keys, take = _indexed(database, order, where)
    else:
        keys = _keys(database, _where(database, split, source, version))
        take = elements_of(order, len(keys))
    wants_texts = any(name in _TEXTS for name in names)
    texts = _mapped_texts(database, version) if wants_texts else None
    shape = shape_of(database, version, "value" if isinstance(order, DataIndex) else "text")
    batches = Records(_batches(database, keys, names, take, batch_size, texts, shape))
    corpus.opened.add(batches)
    return batches


# -- numbers of records -------------------------------------------------------------------------


def _split_of(index: DataIndex, split: str | None) -> str | None:
    if index.split is not None and split not in (None, index.split):
        raise SamplerError(f"split={split!r}: the index numbers the rows of {index.split!r}")
    return split if index.split is None else index.split


def _where(
    database: Database, split: str | None, source: str | None, version: int
) -> dict[str, Any]:
    """Return the checked parameters that select records."""
    if split is not None and checked_split(split):
        need_splits(database, f"split={split!r}: ")
    known = dict(database.run("recipes/store/sources", {"version": version}))
    if source is not None and source not in known:
        raise SamplerError(
            f"no source {source!r}{nearest(str(source), known)}; known: {listed(known) or 'none'}"
        )
    sources = None if source is None else [source]
    return {"split": split, "sources": sources, "version": version}


def _keys(database: Database, where: dict[str, Any], *, by_source: bool = False) -> Integers:
    table = database.table("records/read/keys", where | {"by_source": by_source})
    keys: Integers = table["record_key"].to_numpy()
    return keys


def _indexed(database: Database, index: DataIndex, where: dict[str, Any]) -> tuple[Integers, Take]:
    """Return the records of an index's sources, one source after the other, and its reader."""
    split, sources = where["split"], where["sources"]
    known = database.run("records/controls/sources", {"split": split, "version": where["version"]})
    sizes = {
        name: records
        for name, _, records, *_ in sorted(known, key=lambda row: row[1])
        if sources is None or name in sources
    }
    take = indexed_elements(index, sizes, f"split {split!r}" if split else "the corpus")
    named = [name for name in index.names if name in sizes]
    return _keys(database, where | {"sources": named}, by_source=True), take


def _checked_columns(columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(_DEFAULT)
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in _COLUMNS:
            raise SamplerError(
                f"columns: records have no {name!r}{nearest(str(name), _COLUMNS)}; they have "
                f"{listed(_COLUMNS, 12)}"
            )
    if not names:
        raise SamplerError(f"columns={columns!r}: name at least one of {', '.join(_COLUMNS)}")
    return list(dict.fromkeys(names))


# -- block by block -----------------------------------------------------------------------------


def _batches(
    database: Database,
    keys: Integers,
    columns: list[str],
    take: Take,
    batch_size: int,
    texts: ChunkTexts | None,
    shape: list[Any],
) -> Generator[Batch, None, None]:
    """Yield batches, and read the next block at the same time."""
    fetcher = _Fetcher(database.cursor(), keys, columns, texts, shape)
    pace = BlockSize(_LARGEST_BLOCK, _BLOCK_BYTES)
    calls = _calls(fetcher, take, pace, batch_size)
    blocks = Lookahead(calls, "duckplets-read", stop=fetcher.database.interrupt)
    position = 0
    try:
        for table in blocks:
            rows = table.num_rows
            pace.learn(rows, table.nbytes)
            made = {name: table[name].combine_chunks() for name in table.column_names}
            block = Block(position, position + rows, rows, made, table.nbytes)
            for low in range(0, rows, batch_size):
                high, step = min(low + batch_size, rows), position // batch_size
                yield block.batch(low, high, position=position, step=step, sources=())
                position += high - low
    finally:
        blocks.close()
        fetcher.database.close()


def _calls(
    fetcher: _Fetcher, take: Take, pace: BlockSize, batch_size: int
) -> Iterator[Callable[[], pa.Table]]:
    """Take whole batches from the order and yield the calls that fetch them."""
    taken, is_last = 0, False
    while not is_last:
        size = max(1, pace.rows // batch_size) * batch_size
        part = take(taken, taken + size)
        found = len(part.keys)
        taken += found
        is_last = found < size
        if found:
            yield partial(fetcher.fetch, part)


class Records(Iterator[Batch]):
    """Iterate over batches of records, from any thread."""

    def __init__(self, batches: Generator[Batch, None, None]) -> None:
        self._batches = batches
        self._alone = HomeLock("this iterator of records", "read them again in this process")
        self._is_closed = False

    def __next__(self) -> Batch:
        with self._alone:
            if self._is_closed:
                raise QueryError("the corpus of these records is closed; open it and read again")
            return next(self._batches)

    def close(self) -> None:
        """Stop reading; a further ``next`` raises ``QueryError``."""
        if not self._alone.home.is_left:
            with self._alone:
                self._is_closed = True
                self._batches.close()


class _Fetcher:
    def __init__(
        self,
        database: Database,
        keys: Integers,
        columns: list[str],
        texts: ChunkTexts | None,
        shape: list[Any],
    ) -> None:
        self.database = database
        self._shape = shape
        self._keys = keys
        self._columns = columns
        self._mapped, self._reads = texts, ReadAhead()

    def fetch(self, part: OrderPart) -> pa.Table:
        """Return the columns of the named records, in order."""
        found = {"index": pa.array(part.indices), "record_key": pa.array(part.keys)}
        size = len(part.keys)
        request = np.arange(size, dtype=np.int64)
        requests = pa.table({"request": request, "record_key": self._keys[part.places]})
        with self.database.registered(requests=requests):
            if self._requested(_LABELS):
                found |= self._rows("records/read/labels", size)
            if self._requested(_DETAILS):
                found |= self._rows("records/read/details", size)
            if self._requested(_TEXTS):
                found |= self._texts(part, size)
        if columns := self._requested(_MESSAGES):
            found |= self._messages(columns, self._keys[part.places])
        return pa.table({name: found[name] for name in self._columns})

    def _requested(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name in self._columns]

    def _rows(self, statement: str, size: int) -> dict[str, pa.Array]:
        """Return columns of one row per request, in order."""
        table = self.database.table(statement).combine_chunks()
        if table.num_rows != size:
            raise StateMismatchError(
                f"the corpus lacks {size - table.num_rows} of {size} records; check it with: "
                f"duckplets doctor {self.database.path}"
            )
        places = np.empty(size, dtype=np.int64)
        places[table["request"].to_numpy()] = np.arange(size, dtype=np.int64)
        rows = table.select(self._requested(tuple(table.column_names[1:]))).take(pa.array(places))
        return {name: rows[name].combine_chunks() for name in rows.column_names}

    def _messages(self, columns: list[str], keys: Integers) -> dict[str, pa.Array]:
        request = np.arange(len(keys), dtype=np.int64)
        requests = pa.table({"request": request, "record_key": keys})
        parameters: dict[str, Any] = {
            "chosen": _MESSAGES[0] in columns,
            "rejected": _MESSAGES[1] in columns,
            "chosen_json": False,
            "rejected_json": False,
            "shape": json.dumps(self._shape),
        }
        with self.database.registered(requested_messages=requests):
            stored = self.database.table("runs/messages/stored")
        if "value" in self._shape[0]["content"][0]:
            text = pc.replace_substring(stored["text"], '"type":"text","text":', _OF_INDEX)
            stored = stored.set_column(1, "text", text)
        with self.database.registered(stored_messages=stored):
            rows = self.database.table("runs/messages/parsed", parameters).combine_chunks()
        places = np.full(len(keys), -1, dtype=np.int64)
        places[rows["request"].to_numpy()] = np.arange(rows.num_rows)
        order, kind = pa.array(places, mask=places < 0), shaped_type(self._shape)
        return {name: rows[name].combine_chunks().take(order).cast(kind) for name in columns}

    def _texts(self, part: OrderPart, size: int) -> dict[str, pa.Array]:
        columns = self._requested(_TEXTS)
        role = columns[0] if len(columns) == 1 and columns[0] in _ROLES else None
        request, roles, texts = self._sections(part, role)
        found = {}
        for name in columns:
            is_role = roles == _ROLES.index(name if name in _ROLES else "rejected")
            of_role = np.flatnonzero(~is_role if name == "text" else is_role)
            lists = _lists(request[of_role], texts(of_role), size)
            found[name] = pc.binary_join(lists, "\n\n") if name == "text" else lists
        return found

    def _sections(self, part: OrderPart, role: str | None) -> tuple[Integers, Integers, _Gather]:
        """Return request and role of sections in order, and the reader of their texts."""
        if self._mapped is not None:
            with sound(folder_of(Path(str(self.database.path)))):
                request, roles, spans = self._mapped.of_records(self._keys[part.places])
            return request, roles, spans.read_ahead(self._reads).take
        table = self.database.table("records/read/texts", {"role": role, "roles": _ROLES})
        request, roles = table["request"].to_numpy(), table["role"].to_numpy()
        order = np.lexsort((table["section_key"].to_numpy(), request))
        texts = table["text"].combine_chunks()
        return request[order], roles[order], lambda rows: texts.take(pa.array(order[rows]))


def _lists(request: Integers, texts: pa.Array, size: int) -> pa.Array:
    offsets = np.searchsorted(request, np.arange(size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), texts)


def _mapped_texts(database: Database, version: int) -> ChunkTexts | None:
    """Return the texts of a snapshot that is valid for a version, or None."""
    try:
        found = opened(database, version)
    except DamagedFileError as error:
        log.warning("texts come from the corpus itself, which is slower: %s", error)
        return None
    return None if found is None else found.texts
