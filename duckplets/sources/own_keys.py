"""Records that name their parts themselves: ``{"anchor": …, "positive": …, "meta": {…}}``.

Each record is mapped by the keys it has: it becomes what ``MemorySource`` would make of it with
a column of the same name for each of them. A dictionary under ``meta`` gives one key of metadata
for each of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckplets.errors import SourceError, nearest
from duckplets.sources.feed import gather, in_shape, pick, result_of
from duckplets.sources.lines import judged
from duckplets.sources.memory import json_line
from duckplets.sources.named_keys import DROPPED, Line, RefusedError, line_piece, numbered
from duckplets.sources.rows import MAX_ROWS
from duckplets.text.prefix import prefix_of

if TYPE_CHECKING:
    from duckplets.db.database import Database

_CELLS = (
    *("anchor", "positive", "context", "text"),
    *("id", "date", "group", "taxonomy", "trust"),
)
KEYS = (*_CELLS, "meta", "prefix")

_PARTS = tuple((part, (part,)) for part in _CELLS)
_REQUIRED = ("id", "anchor", "positive", "context", "text")  # where they are given
_BESIDE = {
    "given": pa.list_(pa.string()),
    "meta": pa.map_(pa.string(), pa.string()),  # values as JSON, by key
    "prefix": pa.string(),
}


class OwnKeys:
    """The form of such records.

    Args:
        reader: An instance to run statements in.
        where: The source, for messages.
        state: Of a place to go on from, or None at the beginning.

    Attributes:
        defaults: Which default recipes suit them: ``roles`` if the first record has an anchor.
    """

    def __init__(self, reader: Database, where: str, state: dict[str, Any] | None) -> None:
        self._reader = reader
        self._where = where
        self.defaults: str | None = state["defaults"] if state else None

    def line(self, record: Any) -> Line:
        """Return a record as a line, and beside it what MemorySource has no column for."""
        if record is None:
            return Line(None, DROPPED)
        if not isinstance(record, Mapping):
            return Line(None, "not an object")
        given = _given(record)
        self._learn(given)
        meta = _pairs(record.get("meta"))
        prefix = _definition(record.get("prefix"))
        line = json_line({key: record[key] for key in _CELLS if key in record})
        fault = "invalid UTF-8" if meta is None else None
        return Line(line, fault, (given, meta, prefix))

    def piece(self, lines: Sequence[Line], row: int) -> pa.RecordBatch:
        """Return lines as a piece of input."""
        nothing: tuple[Any, ...] = ([], None, None)
        columns = zip(*(line.beside or nothing for line in lines), strict=True)
        return _with(line_piece(lines, row), columns)

    def arrow_piece(self, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Return the columns as a piece of input; nulls for those that are not there."""
        count, names = batch.num_rows, batch.schema.names
        given = _given(dict.fromkeys(names, ""))
        self._learn(given)
        none = pa.nulls(count, pa.string())
        cells = [batch[name] if name in names else none for name in _CELLS]
        piece = pick(pa.record_batch(cells, list(_CELLS)), list(range(len(_CELLS))))
        metas = _values(batch, "meta")
        prefixes = _values(batch, "prefix")
        pairs = [_pairs(meta) for meta in metas]
        return _with(
            numbered(piece, row), ([given] * count, pairs, [_definition(p) for p in prefixes])
        )

    def rows(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces."""
        from duckplets.sources.own_keys_statement import own_keys_statement

        for table in gather(pieces, self._where):
            values = self._values(table) if "line" in table.column_names else table
            text = own_keys_statement(_CELLS, values.schema)
            result = result_of(self._reader, text, values, self._where)
            if result["prefix"].null_count == result.num_rows:
                result = result.drop_columns(["prefix"])
            yield from in_shape(result).combine_chunks().to_batches(max_chunksize=MAX_ROWS)

    def check(self, row: int, *, is_last: bool) -> None:
        """Accept: every record says itself what it has."""

    def state(self) -> dict[str, Any]:
        """Return which recipes suit the records: only the first one says."""
        return {"defaults": self.defaults}

    def _values(self, table: pa.Table) -> pa.Table:
        from duckplets.sources.json_values import values_statement

        (lines,) = judged(self._reader, [table], self._where)
        text = values_statement(_PARTS, _CELLS)
        values = result_of(self._reader, text, lines, self._where)
        for name in _BESIDE:
            values = values.append_column(name, table[name])
        return values

    def _learn(self, given: Sequence[str]) -> None:
        if self.defaults is None and any(part != "id" for part in given):
            self.defaults = "roles" if "anchor" in given else "text"


def _with(piece: pa.RecordBatch, columns: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    for (name, kind), values in zip(_BESIDE.items(), columns, strict=True):
        piece = piece.append_column(name, pa.array(values, kind))
    return piece


def _given(record: Mapping[Any, Any]) -> list[str]:
    """Return the parts that must not be blank, after a check that they go together."""
    for key in record:
        if key not in KEYS:
            raise RefusedError(
                f"unknown key {key!r}{nearest(str(key), KEYS)}; the keys of a record are "
                f"{', '.join(KEYS)}; to read others: dp.CustomSource(source, anchor=…)"
            )
    given = [part for part in _REQUIRED if part in record]
    if "text" in given and ("anchor" in given or "positive" in given):
        given = [part for part in given if record[part] is not None]
        if "text" in given and ("anchor" in given or "positive" in given):
            raise RefusedError(
                "'text' is for records of one text: leave out 'anchor' and 'positive'"
            )
    if "positive" in given and "anchor" not in given:
        raise RefusedError("'positive' needs an 'anchor'; for records of one text there is 'text'")
    return given


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values = batch[name].to_pylist()
    if pa.types.is_map(batch.schema.field(name).type):
        return [None if value is None else dict(value) for value in values]
    return list(values)


def _pairs(meta: Any) -> list[tuple[str, str]] | None:
    """Return metadata as pairs of key and JSON, by key; None where it is no valid text."""
    if meta is None:
        return []
    named = meta if isinstance(meta, Mapping) else {"meta": meta}
    values = {str(key): value for key, value in named.items()}
    try:
        return [(key.encode().decode(), json_line(values[key]).decode()) for key in sorted(values)]
    except UnicodeError:
        return None


def _definition(prefix: Any) -> str | None:
    """Return the definition of a record's own prefix as JSON, checked."""
    try:
        if isinstance(prefix, str) and prefix.lstrip().startswith("{"):
            prefix_of(json.loads(prefix))
            return prefix
        found = prefix_of(prefix)
    except (SourceError, json.JSONDecodeError) as error:
        raise RefusedError(str(error)) from error
    if found is None:
        return None
    return json_line(prefix if isinstance(prefix, Mapping) else found).decode()
