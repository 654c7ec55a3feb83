"""From files, statements, data sets and users' own code to rows for ingest, a file a kind.

A source says what it is and opens into ``Rows``: Arrow batches of ``ROW_SCHEMA``, each row a
record or the reason why it cannot be one. Ingest knows nothing else about it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from duckplets.sources.rows import ROW_SCHEMA, Mark, Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.sources.custom.indexed import IndexedSource
    from duckplets.sources.custom.protocol import CustomSource, PagedSource
    from duckplets.sources.dataset import DatasetSource
    from duckplets.sources.formats.columnar import ArrowSource, ParquetSource
    from duckplets.sources.formats.csv_file import CsvSource
    from duckplets.sources.formats.json_file import JsonSource
    from duckplets.sources.formats.text_file import TextFileSource, TextLinesSource
    from duckplets.sources.memory import MemorySource
    from duckplets.sources.sql_query import SqlSource

_HOMES = {
    "ArrowSource": "formats.columnar",
    "CsvSource": "formats.csv_file",
    "CustomSource": "custom.protocol",
    "DatasetSource": "dataset",
    "IndexedSource": "custom.indexed",
    "JsonSource": "formats.json_file",
    "MemorySource": "memory",
    "PagedSource": "custom.protocol",
    "ParquetSource": "formats.columnar",
    "SqlSource": "sql_query",
    "TextFileSource": "formats.text_file",
    "TextLinesSource": "formats.text_file",
}

__all__ = [
    "ROW_SCHEMA",
    "ArrowSource",
    "CsvSource",
    "CustomSource",
    "DatasetSource",
    "IndexedSource",
    "JsonSource",
    "Mark",
    "MemorySource",
    "PagedSource",
    "ParquetSource",
    "Rows",
    "Source",
    "SqlSource",
    "TextFileSource",
    "TextLinesSource",
]


if not TYPE_CHECKING:  # a type checker that saw this would let every misspelt name pass

    def __getattr__(name: str) -> Any:
        """Import a source when it is first used: who only reads a corpus needs none of them."""
        if name not in _HOMES:
            raise AttributeError(f"module 'duckplets.sources' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found


@runtime_checkable
class Source(Protocol):
    """A named origin of records."""

    @property
    def kind(self) -> str:
        """What sort of source it is, such as ``csv``."""

    @property
    def uri(self) -> str | None:
        """Where it reads from, without secrets; None where there is no such place."""

    @property
    def trust(self) -> float | str | None:
        """Trust in the source, from 0 to 1, or the column that says it per row."""

    def default_name(self) -> str:
        """Return the name it goes by when the user gives none."""

    @property
    def in_pieces(self) -> bool:
        """Whether its rows hold a ``Mark`` here and there, and it can go on from any of them.

        What comes before a mark is stored with its cursor; an ingest that stops half-way goes on
        there the next time, exactly once, and its records appear when it has come to its end. Such
        a source has ``settings()``: plain JSON values that must agree for a cursor to mean the
        same place.
        """

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check what can be checked at once, and return the rows.

        Args:
            reader: An instance to run statements in.
            cursor: Of a ``Mark``, or None for the beginning.

        Raises:
            SourceError: It cannot be read, or a column is not there.
        """
