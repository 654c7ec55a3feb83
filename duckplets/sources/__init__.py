"""From files, statements, data sets and users' own code to rows for ingest, a file a kind.

A source says what it is and opens into ``Rows``: Arrow batches of ``ROW_SCHEMA``, each row a
record or the reason why it cannot be one. Ingest knows nothing else about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from duckplets.sources.rows import ROW_SCHEMA, Mark, Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database

__all__ = ["ROW_SCHEMA", "Mark", "Rows", "Source"]


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
