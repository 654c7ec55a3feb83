"""The rows that every source opens into: their schema, places and reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from duckplets.base.settings import misfit
from duckplets.errors import SourceError

MAX_BYTES = 40 << 20
"""Approximate size of files that are read together, and of batches of data sets."""

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
        ("trust", pa.float64()),  # of a column or a folder; null: the source's own
        ("created_at", pa.timestamp("us")),
        ("updated_at", pa.timestamp("us")),
        ("skip", pa.string()),  # why this row cannot be a record, or null
    ]
)

# Further columns a batch may have.
EXTRA_COLUMNS = {
    "messages": pa.string(),  # JSON list of messages; of a preference pair the chosen ones
    "rejected_messages": pa.string(),  # JSON list of messages
    "label": pa.float64(),  # label of the pair of anchor and positive
    "prefix": pa.string(),  # JSON definition of the record's own metadata prefix
    "quarantined": pa.string(),  # JSON of the raw row with a skip, for the quarantine
    "complaint": pa.string(),  # details of the skip
    "value": pa.string(),  # the unreadable value of a row with a skip or a note
    "note": pa.string(),  # reason for an unreadable value in a row that is still a record
    "left_out": pa.string(),  # JSON list of unread fields of a converted row
    "further": pa.int64(),  # texts in the list of an anchor after the first
    "unpaired": pa.int64(),  # turns of a conversation that are in no pair of question and reply
    "line": pa.int64(),  # line of the file, from 1, if it has lines
    # And ``file``, a dictionary-encoded text: the file of the row.
}

HASHED = ("key", "content_hash")
"""Columns that are computed from the others."""

FURTHER, LEFT_OUT, UNPAIRED = "further", "left_out", "unpaired"

DROPPED = "dropped by the source"
"""The reason for a row that its source dropped."""

LFS_POINTER = "Git LFS pointer: run git lfs pull"

# Reasons that mean unreadable input rather than an unusable row.
UNREADABLE = frozenset(
    {
        *("ragged row", "ragged row of several lines", "bad quoting", "invalid UTF-8"),
        *("unreadable date", "binary file", LFS_POINTER),
        *("unreadable label", "no text"),
        *("invalid JSON", "not an object", "empty file", "unreadable file", "unreadable folder"),
    }
)


ENCODED = "a file that is not UTF-8 is read with encoding=, such as 'cp1252'"
BAD_QUOTES = "quotes that are text: quote=None; after backslashes: escape='\\\\'"
ADVICE = {
    "invalid UTF-8": ENCODED,
    **dict.fromkeys(("bad quoting", "ragged row of several lines"), BAD_QUOTES),
}
"""Advice for rows of text that fail, by reason."""

_FAILURES = ("invalid ", "not text: ", "sections: ")


def is_failure(reason: str) -> bool:
    """Return whether a reason means an unreadable row rather than an unusable one."""
    return reason in UNREADABLE or reason.startswith(_FAILURES)


class Look(NamedTuple):
    """The facts of a file before its rows are read."""

    columns: list[str] | None = None  # None if rows have keys of their own
    rows: int | None = None
    classes: Mapping[str, tuple[str, ...]] = {}
    dialect: Any = None  # of a CSV file


class RowBlock(NamedTuple):
    """Rows from a reader, of bounded size."""

    # Dictionaries of plain values; a ``Fault`` for an unreadable row, None for a blank line.
    rows: Sequence[Any]
    file: str | None = None  # file shown in messages
    lines: Sequence[int] = ()  # line of each row, if there are lines
    raw: Sequence[str] = ()  # raw text of each row, if known
    at: Any = None  # place after the rows to continue from, as JSON values of the source
    # columns of a table; None for rows with keys of their own
    columns: Sequence[str] | None = None
    counts: Mapping[str, int] = {}  # further counts, for the notes of the source

    def part(self, start: int, stop: int | None = None) -> RowBlock:
        """Return some of the rows."""
        at = slice(start, stop)
        return self._replace(rows=self.rows[at], lines=self.lines[at], raw=self.raw[at])


Blocks = Iterator[RowBlock]


def with_place(blocks: Blocks, at: Any) -> Blocks:
    """Yield blocks, with a place to continue from in the last."""
    last: RowBlock | None = None
    for block in blocks:
        if last is not None:
            yield last
        last = block
    yield RowBlock([], at=at) if last is None else last._replace(at=at)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between batches where reading can continue."""

    # ``{"rows": number of rows before, "at": the source's own place, "of": facts that the place
    # depends on}``, plain JSON values; with it ``open`` returns the rows after the mark
    cursor: Any


_CURSOR = {"rows": range(1 << 63), "at?": object, "of?": object}


def cursor_of(cursor: Any, where: str, at: Any = object) -> dict[str, Any]:
    """Return a checked cursor; None is the beginning."""
    if cursor is None:
        return {"rows": 0, "at": None, "of": None}
    wrong = misfit(cursor, _CURSOR)
    if not wrong and at is not object and cursor.get("at") is not None:
        wrong = misfit(cursor["at"], at)
    if wrong:
        raise SourceError(
            f"{where}: the saved position of its unfinished ingest is wrong: {wrong}; it is "
            f"damaged, or was made by another version; discard it with restart=True (--restart)"
        )
    return {"at": None, "of": None} | dict(cursor)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an opened source."""

    # Batches of ``ROW_SCHEMA``, perhaps with some of ``EXTRA_COLUMNS``, in the order of the input;
    # read once. A resumable source adds a ``Mark`` at each place where it could continue.
    batches: Iterator[pa.RecordBatch | Mark]
    # Default recipes: ``dated``, ``documents``, ``pairs`` or ``roles``; None if the roles tell.
    defaults: str | None = None
    total: int | None = None  # number of rows, if it is known
    notes: Callable[[], list[str]] = list  # after the last batch: sentences on findings and choices
    of: dict[str, Any] | None = None  # facts that the cursors of unmapped blocks depend on


class Stoppable(Iterator[Any]):
    """Batches that any thread can stop, even during a wait for the next."""

    def __init__(self, batches: Iterator[Any], stop: Callable[[], Any]) -> None:
        self._batches, self.stop = batches, stop

    @classmethod
    def of(cls, rows: Rows, stop: Callable[[], Any] | None) -> Rows:
        """Return rows that can be stopped, if there is a way."""
        return rows if stop is None else replace(rows, batches=cls(rows.batches, stop))

    def __next__(self) -> Any:
        return next(self._batches)
