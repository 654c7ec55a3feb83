"""The interface between ingest and gates: which rows become records, and how far it has come.

Gates that judge are in ``quality/intake``. Methods are called in this order: ``take_up``,
``begin``, for every batch ``fresh`` and ``judge``, for every commit ``save``, and in the last
transaction ``finish``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from duckplets.db.database import Database
from duckplets.sources import Source

METRICS = "metrics"
"""Column of rows: what gates measured of their texts elsewhere."""


class NothingNew(Exception):  # noqa: N818 - it is no error
    """Raised if a source read before has no further row."""


class Intake(NamedTuple):
    """Facts of an ingest, for its gates."""

    database: Database
    source_id: int
    name: str
    source: Source
    trust: float
    on_conflict: str
    record_key: int  # key of the next record
    is_anew: bool  # nothing of this ingest is stored yet


class GateMeasures(Protocol):
    """Measurements of texts for gates; can be sent to another process."""

    def measured(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with measurements in columns of their own."""


class Gates:
    """Decide what becomes of every row, and record it in the transaction that stores it.

    This one accepts every row and records nothing.
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
        """Number of the last row read before."""
        return 0

    @property
    def measuring(self) -> GateMeasures | None:
        """Measurements of rows that any process can take beforehand."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return the JSON values that an unfinished ingest depends on."""
        return {}

    def take_up(self, database: Database, name: str, source: Source) -> Any:
        """Look up what was read of a source before; return the cursor to continue at, or None.

        Raises ``SourceError`` if it was read otherwise, or from elsewhere.
        """

    def begin(self, of: Intake) -> None:
        """Begin or continue an ingest."""

    def fresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that were not read before."""
        return batch

    def judge(self, batch: pa.RecordBatch, record_key: int) -> pa.RecordBatch:
        """Return the rows up to the last wanted one, with a ``skip`` for each that is no record.

        Rows are fresh and preprocessed; the first record gets the key.
        """
        return batch

    def nothing_read(self) -> None:
        """Handle a source without fresh rows, unless it is new.

        Raises ``NothingNew`` if the rows read before are all there are, and ``SourceError`` if they
        have changed.
        """

    def at(self, cursor: Any) -> None:
        """Note the cursor of a mark."""

    def save(self) -> None:
        """Store the progress, inside the transaction that stores the rows."""

    def finish(self, version: int) -> int:
        """Note the version; return how many of its records had been added meanwhile."""
        return 0
