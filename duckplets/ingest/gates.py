"""What ingest asks of the gates of an intake: which rows are records, and how far it has come.

Gates that judge are made above this room (``quality/intake``). They are called in this order:
``take_up``, ``begin``, then for every batch ``fresh`` and ``judge``, for every commit ``save``, and
in the last transaction ``finish``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from duckplets.db.database import Database
from duckplets.sources import Source

METRICS = "metrics"
"""Column of rows: what gates measured of their texts elsewhere."""


class NothingNew(Exception):  # noqa: N818 - it is no error
    """Raised where a source that was read before has no row after the last one read."""


class Intake(NamedTuple):
    """What an ingest tells its gates of itself."""

    database: Database
    source_id: int
    name: str
    source: Source
    trust: float
    on_conflict: str
    record_key: int  # the next record's
    is_anew: bool  # no part of this ingest is stored yet


class GateMeasures(Protocol):
    """What gates have to know of texts; it can be sent to another process."""

    def measured(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with what is known of their texts, in columns of their own."""


class Gates:
    """Decides what becomes of every row, and notes it in the transaction that stores it.

    These let every row through and note nothing.
    """

    judges = False

    @property
    def is_full(self) -> bool:
        """Whether the source has given as much as it may."""
        return False

    @property
    def notes(self) -> list[str]:
        """Sentences for the report."""
        return []

    @property
    def last_row(self) -> int:
        """The number of the last row that was read before."""
        return 0

    @property
    def measuring(self) -> GateMeasures | None:
        """What can be known of rows before they are judged, and anywhere."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return what must agree for an unfinished ingest to go on, as plain JSON values."""
        return {}

    def take_up(self, database: Database, name: str, source: Source) -> Any:
        """Note what was read of a source before; return the cursor to go on at, or None.

        Raises ``SourceError`` where it was read otherwise, or from elsewhere.
        """

    def begin(self, of: Intake) -> None:
        """Begin an ingest, or go on with it."""

    def fresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that were not read before."""
        return batch

    def judge(self, batch: pa.RecordBatch, record_key: int) -> pa.RecordBatch:
        """Return the rows up to the last that is wanted, each that is no record with a ``skip``.

        Rows are fresh and preprocessed; the first that is a record gets the key.
        """
        return batch

    def nothing_read(self) -> None:
        """Say what it means that there was no fresh row, unless the source is new.

        Raises ``NothingNew`` where the rows that were read before are all there are, and
        ``SourceError`` where they are not what they were.
        """

    def at(self, cursor: Any) -> None:
        """Note the cursor of a mark."""

    def save(self) -> None:
        """Store how far it has come, within the transaction that stores the rows."""

    def finish(self, version: int) -> int:
        """Note the version; return how many of its records others were there before."""
        return 0
