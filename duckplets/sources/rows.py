"""From input to the rows that every source opens into: their schema, places, reasons why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeVar

import pyarrow as pa

from duckplets.base.settings import misfit
from duckplets.errors import SourceError

T = TypeVar("T")

# A batch holds at most this much. 40 MB of text keeps reading a file of any size, hashing
# included, within a reader of 1 GB.
MAX_ROWS = 40_000
MAX_BYTES = 40 << 20

ROW_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),  # from 1, counted over all the files of the source
        ("key", pa.string()),  # the id column, else 16 hex digits of the content's SHA-256
        ("content_hash", pa.uint64()),  # the first 64 bits of the content's SHA-256
        (
            "sections",
            pa.list_(
                pa.struct([("role", pa.string()), ("heading", pa.string()), ("text", pa.string())])
            ),
        ),
        ("date", pa.date32()),
        ("group_key", pa.string()),
        ("taxonomy", pa.list_(pa.string())),
        ("meta", pa.map_(pa.string(), pa.string())),
        ("trust", pa.float64()),  # of a column or a folder; null where the source's own holds
        ("created_at", pa.timestamp("us")),
        ("updated_at", pa.timestamp("us")),
        ("skip", pa.string()),  # why this row cannot be a record
    ]
)

# What a batch may hold besides.
EXTRA_COLUMNS = {
    "messages": pa.string(),  # JSON list of messages; of a preference pair the chosen ones
    "rejected_messages": pa.string(),  # JSON list of messages
    "label": pa.float64(),  # how the pair of anchor and positive is judged
    "prefix": pa.string(),  # JSON definition of the record's own metadata prefix
    "quarantined": pa.string(),  # of a row with a skip: the row as JSON, to be set aside
    "complaint": pa.string(),  # of such a row: what is wrong, in more words than the skip has
    "value": pa.string(),  # of such a row, or of one with a note: what could not be read
    "note": pa.string(),  # what could not be read of a row that is a record without it
    "left_out": pa.string(),  # of a converted row: JSON list of its fields that nobody reads
    "further": pa.int64(),  # texts after the first in the list of an anchor, which has one
    "line": pa.int64(),  # of the file, from 1, where it has lines
    # And a dictionary of texts, ``file``: where the row stands.
}

FURTHER = "further"
"""Column of rows: how many texts of an anchor's list are no section."""

LEFT_OUT = "left_out"
"""Column of a piece, and of rows: which fields of each row its converter does not read."""

DROPPED = "dropped by the source"
"""The reason for a row that its source itself left out."""

# The reasons for a skip that mean the input could not be read, rather than not be used.
UNREADABLE = frozenset(
    {
        *("ragged row", "bad quoting", "invalid UTF-8", "unreadable date", "binary file"),
        *("unreadable label", "no text"),
        *("invalid JSON", "not an object", "empty file", "unreadable file", "unreadable folder"),
    }
)


_FAILURES = ("invalid ", "not text: ", "sections: ")


def is_failure(reason: str) -> bool:
    """Return whether a reason means that a row could not be read, rather than not be used."""
    return reason in UNREADABLE or reason.startswith(_FAILURES)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between batches that reading can go on from.

    Attributes:
        cursor: Plain JSON values; given back to ``open_at`` it yields what comes after.
    """

    cursor: Any


def checked_cursor(cursor: Any, shape: Any, where: str) -> Any:
    """Return the cursor of a mark, None for the beginning, if it has the shape of its source's.

    Raises:
        SourceError: It was damaged, or made by another version.
    """
    wrong = "" if cursor is None else misfit(cursor, shape)
    if wrong:
        raise SourceError(
            f"{where}: the place where its unfinished ingest stopped is none: {wrong}; it is "
            f"damaged, or was made by another version; discard it with restart=True (--restart)"
        )
    return cursor


def _nothing() -> dict[str, int]:
    return {}


def _no_notes() -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an opened source.

    Attributes:
        batches: Batches of ``ROW_SCHEMA``, perhaps with some of ``EXTRA_COLUMNS``, in the order
            of the input; read once. A resumable source puts a ``Mark`` wherever it could go on:
            what came before is then stored for good.
        defaults: Which default recipes suit them: ``roles``, ``text``, ``dated``, ``pairs`` or
            ``ready`` (roles with ready negatives).
        total: How many rows there are, where that is cheap to know.
        rejected: After the last batch, counts by reason of input that never became a row. The
            built-in sources give every bad line or file a row with a ``skip``, so theirs is empty.
        notes: After the last batch, sentences on what was found and which choice was made.
    """

    batches: Iterator[pa.RecordBatch | Mark]
    defaults: str
    total: int | None = None
    rejected: Callable[[], dict[str, int]] = field(default=_nothing)
    notes: Callable[[], list[str]] = field(default=_no_notes)


class Begun(Iterator[T]):
    """Items after a look at the first of them: what is wrong from the start is said now.

    Args:
        items: Made one by one.
        stop: Makes the one that is waited for come to its end, for who needs no more of them.
    """

    def __init__(self, items: Iterator[T], stop: Callable[[], None]) -> None:
        self._items = chain(list(islice(items, 1)), items)
        self.stop = stop

    def __next__(self) -> T:
        return next(self._items)
