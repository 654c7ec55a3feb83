"""From pieces of input to rows: gather them into tables of bounded size, run the statement.

One statement runs per table of at most 65,536 rows or 64 MB, not one over the whole input: what
DuckDB and Arrow hold at a time then does not depend on the sizes of texts (a thousand texts of a
megabyte made a streamed statement exceed a memory limit of 1 GB), errors of reading are raised
where the reading is done, and no open result occupies the reader. Planning the statement anew
costs about 5 ms a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from duckplets.errors import QueryError, SourceError
from duckplets.sources.mapping import Mapped
from duckplets.sources.rows import MAX_BYTES, MAX_ROWS, ROW_SCHEMA

if TYPE_CHECKING:
    from duckplets.database import Database

# A table goes to DuckDB in chunks of this many rows, so that several threads find work.
_CHUNK_ROWS = 8_192
_OWN = {"row": pa.int64(), "fault": pa.string(), "modified": pa.timestamp("us")}


def rows_of(
    reader: Database, mapping: Mapped, pieces: Iterable[pa.RecordBatch], where: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of pieces of input, as ``run`` does of tables."""
    return run(reader, mapping, gather(pieces, where), where)


def run(
    reader: Database, mapping: Mapped, tables: Iterable[pa.Table], where: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of gathered tables.

    Args:
        reader: An instance to run the statement in.
        mapping: Which column plays which part.
        tables: Columns ``c0, c1, …`` in the order of the mapping's names; where the column
            ``fault`` has a text, that text is the reason to skip the row.
        where: The input's name, for messages.
    """
    from duckplets.sources.statement import Cells, rows_statement

    for table in tables:
        shapes = _shapes(table.schema)
        result = result_of(reader, rows_statement(mapping.parts(), Cells(shapes)), table, where)
        yield from result.cast(ROW_SCHEMA).combine_chunks().to_batches(max_chunksize=MAX_ROWS)


def result_of(reader: Database, statement: str, table: pa.Table, where: str) -> pa.Table:
    """Return what a statement makes of a table named ``input``.

    Raises:
        SourceError: DuckDB refuses it.
    """
    try:
        with reader.registered(input=table):
            return reader.arrow(statement)
    except QueryError as error:
        raise SourceError(f"{where}: {error}") from error


def _shapes(schema: pa.Schema) -> tuple[str, ...]:
    """Return how the columns c0, c1, … are to be read."""
    kinds = {field.name: field.type for field in schema}
    places = range(sum(name.startswith("c") for name in kinds))
    return tuple("both" if f"l{i}" in kinds else _shape(kinds[f"c{i}"]) for i in places)


def gather(pieces: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.Table]:
    """Yield tables of bounded size, with numbered rows and valid text, in the pieces' order."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    row = 1
    for piece in pieces:
        for part in _slices(_with_fault(piece)):
            full = rows + part.num_rows > MAX_ROWS or size + part.nbytes > MAX_BYTES
            if held and (full or _names_and_types(held[0]) != _names_and_types(part)):
                yield _numbered(held, row, where)
                row, held, rows, size = row + rows, [], 0, 0
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if held:
        yield _numbered(held, row, where)


def _with_fault(piece: pa.RecordBatch) -> pa.RecordBatch:
    """Return a piece with the column of faults, so that all pieces of a kind look alike."""
    if "fault" in piece.schema.names:
        return piece
    return piece.append_column("fault", pa.nulls(piece.num_rows, pa.string()))


def _names_and_types(batch: pa.RecordBatch) -> pa.Schema:
    return batch.schema.remove_metadata()


def _slices(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of bounded size; one row may exceed it."""
    if piece.num_rows > _CHUNK_ROWS or (piece.num_rows > 1 and piece.nbytes > MAX_BYTES // 4):
        middle = piece.num_rows // 2
        yield from _slices(piece.slice(0, middle))
        yield from _slices(piece.slice(middle))
    elif piece.num_rows:
        yield piece


def _numbered(batches: list[pa.RecordBatch], row: int, where: str) -> pa.Table:
    table = pa.Table.from_batches([_valid(batch, where) for batch in batches])
    numbers = pa.array(range(row, row + table.num_rows), pa.int64())
    for name, kind in _OWN.items():
        if name not in table.column_names:
            column = numbers if name == "row" else pa.nulls(table.num_rows, kind)
            table = table.append_column(name, column)
    return table


def _valid(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """Check all values of a batch; rows whose text is not UTF-8 get a fault.

    Arrow and Parquet files, and lines cut from a stream, are text only by their word, and
    DuckDB stops at the first that is not.
    """
    faults: list[str | None] = []
    columns = list(batch.columns)
    for i, column in enumerate(columns):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                raise SourceError(f"{where}: {error}") from error
            faults = faults or batch.column("fault").to_pylist()
            columns[i] = _decoded(column, faults)
    if not faults:
        return batch
    named = dict(zip(batch.schema.names, columns, strict=True))
    return pa.record_batch(named | {"fault": pa.array(faults, pa.string())})


def _decoded(column: pa.Array, faults: list[str | None]) -> pa.Array:
    large = pa.types.is_large_string(column.type)
    texts: list[str | None] = []
    for i, data in enumerate(column.view(pa.large_binary() if large else pa.binary()).to_pylist()):
        try:
            texts.append(None if data is None else data.decode("utf-8"))
        except UnicodeDecodeError:
            texts.append(None)
            faults[i] = faults[i] or "invalid UTF-8"
    return pa.array(texts, column.type)


def _shape(kind: pa.DataType) -> str:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        plain = _shape(kind.value_type) == "text"
        return "list" if plain else "nested list"
    if pa.types.is_nested(kind):
        return "nested"
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return "binary" if is_binary or pa.types.is_fixed_size_binary(kind) else "text"


def pick(batch: pa.RecordBatch, places: list[int]) -> pa.RecordBatch:
    """Return the columns at ``places`` as ``c0, c1, …``: names may differ in case only."""
    columns = [_plain(batch.columns[place]) for place in places]
    return pa.record_batch(columns, [f"c{i}" for i in range(len(places))])


def _plain(column: pa.Array) -> pa.Array:
    """Return a column in a type DuckDB takes; what has none becomes text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    return column
