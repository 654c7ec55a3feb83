"""Sources: from files, statements, data sets and users' own code to rows for ingest.

A source describes itself and opens into ``Rows``: Arrow batches of ``ROW_SCHEMA``. Each row is a
record, or the reason why it cannot be one. Ingest knows nothing else about it. ``dp.Source``
chooses a reader by path and type; the readers are names of this module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from duckplets.sources.rows import ROW_SCHEMA, Mark, Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.sources.custom import CustomSource as CustomSource
    from duckplets.sources.custom import IndexedSource as IndexedSource
    from duckplets.sources.custom import PagedSource as PagedSource
    from duckplets.sources.formats.columnar import ArrowSource as ArrowSource
    from duckplets.sources.formats.columnar import ParquetSource as ParquetSource
    from duckplets.sources.formats.csv_file import CsvSource as CsvSource
    from duckplets.sources.formats.json_file import JsonSource as JsonSource
    from duckplets.sources.formats.text_file import TextFileSource as TextFileSource
    from duckplets.sources.formats.text_file import TextLinesSource as TextLinesSource
    from duckplets.sources.limits import Limits as Limits
    from duckplets.sources.memory import DatasetSource as DatasetSource
    from duckplets.sources.memory import MemorySource as MemorySource
    from duckplets.sources.memory import SqlSource as SqlSource
    from duckplets.sources.remote.hub import HubSource as HubSource

_HOMES = {
    "custom": "CustomSource IndexedSource PagedSource",
    "formats.columnar": "ArrowSource ParquetSource",
    "formats.csv_file": "CsvSource",
    "formats.json_file": "JsonSource",
    "formats.text_file": "TextFileSource TextLinesSource",
    "limits": "Limits",
    "memory": "DatasetSource MemorySource SqlSource",
    "remote.hub": "HubSource",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["ROW_SCHEMA", "Mark", "Rows", "Source", *_HOME_OF]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a reader when it is first used."""
        if name not in _HOME_OF:
            raise AttributeError(f"module 'duckplets.sources' has no attribute {name!r}")
        value = getattr(import_module(f"duckplets.sources.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


@runtime_checkable
class Source(Protocol):
    """A named origin of records."""

    @property
    def kind(self) -> str:
        """Kind of source, such as ``csv``."""

    @property
    def uri(self) -> str | None:
        """Address without secrets, or None."""

    @property
    def trust(self) -> float | str | None:
        """Trust in the source, from 0 to 1, or the column with the trust of each row."""

    def default_name(self) -> str:
        """Return the name of the source if the user gives none."""

    @property
    def in_pieces(self) -> bool:
        """Whether its rows contain a ``Mark`` now and then, from which it can continue.

        Rows before a mark are stored with its cursor. An interrupted ingest continues there,
        exactly once, and its records appear when it ends. Such a source has ``settings()``: plain
        JSON values that must agree for a cursor to mean the same place.
        """

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Check the source, and return its rows.

        Args:
            reader: An instance to run statements in.
            cursor: The cursor of a ``Mark``, or None for the beginning.

        Raises:
            SourceError: It cannot be read, or lacks a column.
        """
