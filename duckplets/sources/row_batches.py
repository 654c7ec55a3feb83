"""Make rows of pieces of input: gather tables of bounded size and run the statement on each.

One statement runs per table of at most 40,000 rows or 40 MB, not one over the whole input: what
DuckDB and Arrow hold at a time then does not depend on the sizes of texts (a thousand texts of a
megabyte made a streamed statement exceed a memory limit of 1 GB), errors of reading are raised
where the reading is done, and no open result occupies the reader. Planning the statement anew
costs about 5 ms a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import shown
from duckplets.db.foreign import MORE_MEMORY
from duckplets.errors import QueryError, SourceError
from duckplets.sources.columns import check_sizes, faults_of, plain, weights
from duckplets.sources.field_paths import KIND, NAME, Paths, is_optional
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.mapping_checks import null_words
from duckplets.sources.row_provenance import BROKEN, Judge, Origins, broken_value
from duckplets.sources.rows import EXTRA_COLUMNS, LEFT_OUT, MAX_BYTES, MAX_ROWS, ROW_SCHEMA

if TYPE_CHECKING:
    from duckplets.db.database import Database

# A table goes to DuckDB in chunks of this many rows, so that several threads find work.
_CHUNK_ROWS = 8_192
# JSON functions set aside a multiple of all the values they see at once: a dozen of them needed
# more than 500 MB for conversations of 12 MB in one chunk.
_CONVERTED_BYTES = 1 << 20
_CHUNKS_AT_ONCE = 32  # such chunks are converted at once
_FAULTS = {"fault": pa.string(), BROKEN: pa.string(), LEFT_OUT: pa.string()}
_OWN = {"row": pa.int64(), "modified": pa.timestamp("us")}


def rows_of(
    reader: Database,
    mapping: Mapped,
    pieces: Iterable[pa.RecordBatch],
    where: str,
    origins: Origins | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of pieces of input, as ``run`` does of tables."""
    tables = gather(pieces, table_bytes(mapping), first_row(reader, origins))
    return run(reader, mapping, tables, where, origins=origins)


def first_row(reader: Database, origins: Origins | None) -> int:
    """Return the number of the first row that is read, after noting it in what counts rows."""
    part = part_of(reader)
    if part is None:
        return 1
    part.origins = origins
    if origins is not None:
        origins.row = part.row - 1
    return part.row


def table_bytes(mapping: Mapped) -> int:
    """Return how large gathered tables are to be: conversion holds texts several times."""
    return MAX_BYTES if mapping.converter is None else MAX_BYTES // 4


def run(
    reader: Database,
    mapping: Mapped,
    tables: Iterable[pa.Table],
    where: str,
    paths: Paths | None = None,
    origins: Origins | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of gathered tables.

    Args:
        reader: An instance to run the statement in.
        mapping: Which column plays which part.
        tables: Columns ``c0, c1, …`` in the order of the mapping's names; where the column
            ``fault`` has a text, that text is the reason to skip the row.
        where: The input's name, for messages.
        paths: Those of the mapping, where they are checked when all tables have been read; else
            these are all.
        origins: Where the rows stand, where that is known.

    Raises:
        SourceError: DuckDB refuses the statement; or a row cannot be used, and that is an error.
    """
    from duckplets.sources.cells import cells_of
    from duckplets.sources.converters.conversion import Conversion, documents_of, source_of
    from duckplets.sources.statement import rows_statement

    conversion = Conversion(mapping) if mapping.converter is not None else None
    names, part = mapping.names(), part_of(reader)
    named: Any = mapping
    if part is not None:
        named, where = part.named(mapping), part.where
        paths = part.paths = part.paths or Paths(names, where)
    judge = Judge(mapping, source_of(named, where), origins or Origins())

    def result(statement: str, table: pa.Table, values: Mapping[str, Any]) -> pa.Table:
        return result_of(reader, statement, table, where, values)

    followed = paths or Paths(names, where)
    for table in _within(tables if conversion is None else _portions(tables), reader, where):
        table = followed.followed(table)
        forms = _forms(mapping, table.schema)
        cells = cells_of(table.schema, len(names), mapping.text_of, forms)
        optional = _optional(mapping, table.schema)
        nulls = null_words(mapping.null_values)
        cells = replace(cells, labels=mapping.label_rules(), nulls=nulls, optional=optional)
        table = judge.before(_with_dates(table, cells.shapes))
        if conversion is None:
            chunks = pa.Table.from_batches(table.to_batches(_CHUNK_ROWS), table.schema)
            rows = result(rows_statement(mapping.parts(), cells), chunks, {})
        else:
            rows = conversion.rows(result, table, cells)
        rows = judge.after(in_shape(rows), table, partial(documents_of, result, mapping))
        yield from rows.combine_chunks().to_batches(max_chunksize=MAX_ROWS)
    if paths is None:
        followed.check()


def _within(tables: Iterable[pa.Table], reader: Database, where: str) -> Iterator[pa.Table]:
    """Yield tables after a look at the sizes of their values."""
    limits = limits_of(reader)
    most = limits.size("field")
    for table in tables:
        if table.nbytes > most:
            for batch in table.to_batches():
                for field, column in zip(table.schema, batch.columns, strict=True):
                    first = batch["row"][0].as_py() - 1 if batch.num_rows else 0
                    check_sizes(weights(column), _name(field), where, limits, first)
        yield table


def _name(field: pa.Field) -> str:
    """Return the name that a column has in the input."""
    return str((field.metadata or {}).get(NAME, field.name.encode()).decode())


def _optional(mapping: Mapped, schema: pa.Schema) -> frozenset[int]:
    """Return the places of contexts that a row may have none of."""
    names = mapping.names()
    places = {names.index(name): name for name in mapping.part("context") if name[-1] == "?"}
    columns = {i: (schema.field(f"c{i}").metadata or {}).get(NAME, b"").decode() for i in places}
    return frozenset(i for i, name in places.items() if is_optional(name, columns[i]))


def _forms(mapping: Mapped, schema: pa.Schema) -> tuple[str, ...]:
    """Return how dates are written, where they are texts."""
    for name in mapping.part("date"):
        if pa.types.is_temporal(schema.field(f"c{mapping.names().index(name)}").type):
            return ()
    return mapping.part("date_format")


def _with_dates(table: pa.Table, shapes: Sequence[str]) -> pa.Table:
    """Return a table with the local dates of its timestamps with a zone, in ``d0, d1, …``."""
    for i, shape in enumerate(shapes):
        if shape == "moment":
            column = table[f"c{i}"]
            try:
                column = pc.local_timestamp(column)
            except pa.ArrowException:  # no such zone: DuckDB and all others take UTC then
                column = column.cast(pa.timestamp(column.type.unit))
            days = pc.utf8_slice_codeunits(column.cast(pa.string()), 0, 10)
            table = table.append_column(f"d{i}", days)
    return table


def in_shape(rows: pa.Table) -> pa.Table:
    """Return rows in order, with the types of ``ROW_SCHEMA``; what they hold besides stays."""
    numbers = rows["row"].to_numpy()
    if (numbers[1:] < numbers[:-1]).any():  # statements that go through lists keep no order
        rows = rows.take(pa.array(np.argsort(numbers, kind="stable")))
    for name in ("prefix", "value", "label"):  # as a rule records have none of these
        if name in rows.schema.names and rows[name].null_count == rows.num_rows:
            rows = rows.drop_columns([name])
    names = [name for name in EXTRA_COLUMNS if name in rows.schema.names]
    extra = [pa.field(name, EXTRA_COLUMNS[name]) for name in names]
    schema = pa.schema([*ROW_SCHEMA, *extra])
    return rows.select(schema.names).cast(schema)


def result_of(
    reader: Database,
    statement: str,
    table: pa.Table,
    where: str,
    values: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Return what a statement, with values for its parameters, makes of a table ``input``.

    Raises:
        SourceError: DuckDB refuses it.
    """
    try:
        with reader.registered(input=table):
            return reader.arrow(statement, values)
    except QueryError as error:
        raise refused(error, where, limits_of(reader)) from error


def refused(error: QueryError, where: str, limits: Limits) -> SourceError:
    """Return the error for a statement that the reader refused; what helps it is its own limit."""
    more = f"the limit of {limits.memory} is the reader's: limits=dp.Limits(memory='2GB'), or "
    return SourceError(f"{where}: {error}".replace(MORE_MEMORY, f"{more}--reader-memory 2GB"))


def gather(
    pieces: Iterable[pa.RecordBatch], most: int = MAX_BYTES, row: int = 1
) -> Iterator[pa.Table]:
    """Yield tables of bounded size, with rows numbered on and valid text, in the pieces' order."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for piece in pieces:
        for part in _slices(_with_fault(piece), most // 4):
            full = rows + part.num_rows > MAX_ROWS or size + part.nbytes > most
            if held and (full or not _alike(held[0], part)):
                yield _numbered(held, row)
                row, held, rows, size = row + rows, [], 0, 0
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if held:
        yield _numbered(held, row)


def _with_fault(piece: pa.RecordBatch) -> pa.RecordBatch:
    """Return a piece with the columns of faults, so that all pieces of a kind look alike."""
    for name, kind in _FAULTS.items():
        if name not in piece.schema.names:
            piece = piece.append_column(name, pa.nulls(piece.num_rows, kind))
    return piece


def _alike(batch: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Return whether batches have the same columns, of the same names in the input."""
    plain = batch.schema.remove_metadata()
    return bool(plain.equals(other.schema.remove_metadata(), check_metadata=True))


def _portions(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables in parts that can be converted at once, in small chunks."""
    for table in tables:
        chunks = [c for batch in table.to_batches() for c in _slices(batch, _CONVERTED_BYTES)]
        for start in range(0, len(chunks), _CHUNKS_AT_ONCE):
            yield pa.Table.from_batches(chunks[start : start + _CHUNKS_AT_ONCE], table.schema)


def _slices(piece: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of at most so many bytes; one row may exceed it."""
    if piece.num_rows > _CHUNK_ROWS or (piece.num_rows > 1 and piece.nbytes > size):
        middle = piece.num_rows // 2
        yield from _slices(piece.slice(0, middle), size)
        yield from _slices(piece.slice(middle), size)
    elif piece.num_rows:
        yield piece


def _numbered(batches: list[pa.RecordBatch], row: int) -> pa.Table:
    table = pa.Table.from_batches([_valid(batch) for batch in batches])
    numbers = pa.array(range(row, row + table.num_rows), pa.int64())
    for name, kind in _OWN.items():
        if name not in table.column_names:
            column = numbers if name == "row" else pa.nulls(table.num_rows, kind)
            table = table.append_column(name, column)
    return table


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Check all values of a batch; rows with text that is not UTF-8, or wrong moments, get a fault.

    Arrow and Parquet files, and lines cut from a stream, are text only by their word, and
    DuckDB stops at the first that is not.
    """
    faults: list[str | None] = []
    broken: list[str | None] = []
    columns = list(batch.columns)
    for i, column in enumerate(columns):
        wrong = faults_of(column)
        if wrong:
            faults = faults or batch.column("fault").to_pylist()
            broken = broken or batch.column(BROKEN).to_pylist()
            for row, reason in wrong.items():
                faults[row] = faults[row] or reason
                broken[row] = broken[row] or broken_value(column, batch.schema.field(i), row)
            columns[i] = _without(column, wrong)
    if not faults:
        return batch
    columns[batch.schema.names.index("fault")] = pa.array(faults, pa.string())
    columns[batch.schema.names.index(BROKEN)] = pa.array(broken, pa.string())
    return pa.record_batch(columns, schema=batch.schema)


def _without(column: pa.Array, rows: Iterable[int]) -> pa.Array:
    """Return a column with null in some rows."""
    places: list[int | None] = list(range(len(column)))
    for row in rows:
        places[row] = None
    return column.take(pa.array(places, pa.int64()))


def pick(batch: pa.RecordBatch, places: Sequence[int], where: str = "records") -> pa.RecordBatch:
    """Return the columns at ``places`` as ``piece`` does.

    Args:
        batch: A portion that is known to be sound.
        places: Of the columns.
        where: The input's name, for messages.

    Raises:
        SourceError: A column is of a type that cannot be read.
    """
    columns: list[pa.Array] = []
    names = [batch.schema.names[place] for place in places]
    kinds: dict[int, bytes] = {}
    for place, name in zip(places, names, strict=True):
        kind = batch.schema.field(place).type
        told = (batch.schema.field(place).metadata or {}).get(KIND)
        if told or isinstance(kind, pa.UuidType):
            kinds[len(columns)] = told or b"uuid"
        try:
            columns.append(plain(batch.columns[place]))
        except (pa.ArrowException, NotImplementedError) as error:
            what = shown(f"{kind}: {error}")
            raise SourceError(f"{where}: column {shown(repr(name))}: cannot read {what}") from error
    return piece(columns, names, kinds)


def piece(
    columns: Sequence[pa.Array], names: Sequence[str], kinds: Mapping[int, bytes] | None = None
) -> pa.RecordBatch:
    """Return columns as ``c0, c1, …``: their own names, kept beside, may differ in case only.

    Args:
        columns: Plain ones.
        names: Of each, in the input.
        kinds: What the texts of some stand for, by their places.
    """

    def told(i: int, name: str) -> dict[bytes, bytes]:
        kind = (kinds or {}).get(i)
        return {NAME: name.encode("utf-8", "replace")} | ({KIND: kind} if kind else {})

    fields = [
        pa.field(f"c{i}", column.type, metadata=told(i, name))
        for i, (column, name) in enumerate(zip(columns, names, strict=True))
    ]
    return pa.record_batch(list(columns), schema=pa.schema(fields))
