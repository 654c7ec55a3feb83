"""Sources: from files, statements, data sets and users' own code to rows for ingest.

A source describes itself and opens into ``Rows``: Arrow batches of ``ROW_SCHEMA``, each row a
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
        """Kind of source, such as ``csv``."""

    @property
    def uri(self) -> str | None:
        """Where it reads from, without secrets; None if there is no such place."""

    @property
    def trust(self) -> float | str | None:
        """Trust in the source, from 0 to 1, or the column with the trust of each row."""

    def default_name(self) -> str:
        """Return the name of the source if the user gives none."""

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
