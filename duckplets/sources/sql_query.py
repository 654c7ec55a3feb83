"""Stream what one SELECT of the user's gives into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

import pyarrow as pa

from duckplets.db.queries import query
from duckplets.errors import QueryError, SourceError
from duckplets.sources.columns import portions
from duckplets.sources.field_paths import KIND
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.mapped_columns import require_texts, resolve, telling
from duckplets.sources.mapping import Mapped
from duckplets.sources.row_batches import pick, refused, rows_of
from duckplets.sources.rows import Rows

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

    @property
    def uri(self) -> str | None:
        """The database's path: a statement may hold secrets."""
        return None if self.database is None else str(self.database)

    def default_name(self) -> str:
        """Return ``sql``."""
        return "sql"

    def open(self, reader: Database) -> Rows:
        """Check the statement and its columns, then stream its rows."""
        scan = _Scan(reader, self.database)
        try:
            names = scan.columns(self.query)
            require_texts(self, names, "query", type(self).__name__)
            places = resolve(self, names, "query")
        except BaseException:
            scan.close()
            raise
        pieces = telling(self, names, scan.pieces(self.query, places, limits_of(reader)))
        return Rows(rows_of(reader, self, pieces, "query"), self.defaults())


class _Scan:
    """A connection of its own: its result is open while the reader runs other statements."""

    def __init__(self, reader: Database, database: str | PathLike[str] | None) -> None:
        self._connection = reader.cursor()
        self._uuids: dict[str, str] = {}
        self._name = f"attached_{uuid4().hex}" if database is not None else None
        if database is not None:
            self._attach(Path(database).expanduser())

    def columns(self, text: str) -> list[str]:
        """Return the names of a statement's columns; DuckDB accepts one SELECT only."""
        try:
            found = self._connection.arrow(query("sources/sql_query/columns"), {"query": text})
        except QueryError as error:
            raise SourceError(f"query: {error}") from error
        kinds = self._connection.rows(query("sources/sql_query/types"), {"query": text})
        # Arrow has texts for them.
        self._uuids = {name: kind.lower() for name, kind, *_ in kinds if kind in _UUIDS}
        return list(found.schema.names)

    def pieces(self, text: str, places: list[int], limits: Limits) -> Iterator[pa.RecordBatch]:
        """Yield the used columns of a statement's rows, then close."""
        values, row = {"query": text}, 0
        try:
            for batch in self._connection.stream(
                query("sources/sql_query/query"), values, rows=_STREAM_ROWS
            ):
                told = _told(batch.select(places), self._uuids)
                for part in portions(told, "query", limits, row):
                    yield pick(part, range(len(places)), "query")
                row += batch.num_rows
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


def _told(batch: pa.RecordBatch, uuids: dict[str, str]) -> pa.RecordBatch:
    """Return a batch in whose schema it stands which texts are UUIDs."""
    fields = [
        part.with_metadata({KIND: uuids[part.name].encode()}) if part.name in uuids else part
        for part in batch.schema
    ]
    return pa.record_batch(batch.columns, schema=pa.schema(fields))


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
