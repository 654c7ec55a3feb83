"""Stream what one SELECT of the user's gives into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID, uuid4

import pyarrow as pa

from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.names import known_fields, require_texts, resolve
from duckplets.sources.row_batches import opened, refused
from duckplets.sources.rows import Rows
from duckplets.sources.typed import blocks_of

if TYPE_CHECKING:
    from duckplets.db.database import Database

_STREAM_ROWS = 512
_UUIDS = ("UUID", "UUID[]")


@dataclass(frozen=True, slots=True)
class SqlSource(Mapped):
    """What one SELECT gives, over a DuckDB file, Parquet files, or anything DuckDB reads."""

    query: str
    """One SELECT in DuckDB's SQL."""
    database: str | PathLike[str] | None = field(default=None, kw_only=True)
    """DuckDB file whose tables the statement names; opened read-only."""

    kind: ClassVar[str] = "sql"
    in_pieces: ClassVar[bool] = False

    @property
    def uri(self) -> str | None:
        """The database's path: a statement may hold secrets."""
        return None if self.database is None else str(self.database)

    def default_name(self) -> str:
        """Return ``sql``."""
        return "sql"

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the statement and its columns, then stream its rows."""
        scan = _Scan(reader, self.database, self.query)
        try:
            names = scan.columns()
            require_texts(self, names, "query", type(self).__name__)
            used, known = resolve(self, names, "query"), known_fields(self)
        except BaseException:
            scan.close()
            raise
        others = [name for name in names if name.lower() not in known] if known else []
        found = blocks_of(scan.batches(limits_of(reader)), "query", columns=used)
        blocks = (block._replace(columns=names, left_out=others) for block in found)
        return opened(reader, self, blocks, "query", marks=False)


class _Scan:
    """A connection of its own: its result is open while the reader runs other statements."""

    def __init__(self, reader: Database, database: str | PathLike[str] | None, text: str) -> None:
        self._connection = reader.cursor()
        self._text, self._uuids = text, set[str]()
        self._name = f"attached_{uuid4().hex}" if database is not None else None
        if database is not None:
            self._attach(Path(database).expanduser())

    def columns(self) -> list[str]:
        """Return the names of the statement's columns; DuckDB accepts one SELECT only."""
        values = {"query": self._text}
        try:
            found = self._connection.arrow(query("sources/sql_query/columns"), values)
        except QueryError as error:
            raise SourceError(f"query: {error}") from error
        kinds = self._connection.rows(query("sources/sql_query/types"), values)
        self._uuids = {name for name, kind, *_ in kinds if kind in _UUIDS}
        return list(found.schema.names)

    def batches(self, limits: Limits) -> Iterator[pa.RecordBatch]:
        """Yield the statement's rows, then close."""
        values = {"query": self._text}
        try:
            for batch in self._connection.stream(
                query("sources/sql_query/query"), values, rows=_STREAM_ROWS
            ):
                yield _with_uuids(batch, self._uuids)
        except QueryError as error:
            raise refused(error, "query", limits) from error
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection; the attached file is let go of."""
        if self._name is not None:
            self._connection.run("sources/sql_query/home")
            self._connection.rows(_named("sources/sql_query/detach", self._name))
        self._connection.close()

    def _attach(self, path: Path) -> None:
        if not path.is_file():
            raise SourceError(f"{path} is not a file")
        name = self._name or ""
        try:
            self._connection.rows(_named("sources/sql_query/attach", name, path))
            self._connection.rows(_named("sources/sql_query/use", name))
        except QueryError as error:
            raise SourceError(f"{path} cannot be opened: {error}") from error


def _with_uuids(batch: pa.RecordBatch, names: set[str]) -> pa.RecordBatch:
    """Return a batch with the UUIDs of columns that Arrow has texts for."""
    for at, name in enumerate(batch.schema.names):
        if name in names:
            column = batch.column(at)
            is_list = pa.types.is_list(column.type)
            each = [v and UUID(v).bytes for v in (column.values if is_list else column).to_pylist()]
            ids = pa.array(each, pa.binary(16)).cast(pa.uuid())
            if is_list:
                ids = pa.ListArray.from_arrays(column.offsets, ids)
            batch = batch.set_column(at, name, ids)
    return batch


def _named(statement: str, name: str, path: Path | None = None) -> str:
    """Return a statement about an attached database with its name and path in place."""
    from sqlglot import exp, parse_one
    from sqlglot.dialects.duckdb import DuckDB

    tree = parse_one(query(statement), dialect=DuckDB)
    for node in list(tree.find_all(exp.Identifier, exp.Var, exp.Literal)):
        if isinstance(node, exp.Literal):
            node.replace(exp.Literal.string(str(path)))
        elif node.name == "attached":
            node.replace(exp.to_identifier(name, quoted=True))
    return tree.sql(dialect=DuckDB, comments=False)
