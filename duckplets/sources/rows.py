"""From input to the rows that every source opens into: their schema, places, reasons why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from duckplets.base.settings import misfit
from duckplets.errors import SourceError

MAX_ROWS, MAX_BYTES = 40_000, 40 << 20
"""What a batch of rows holds at most, wherever rows are put together."""

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

FURTHER, LEFT_OUT = "further", "left_out"

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


class Look(NamedTuple):
    """What a look at a file says before its rows are read."""

    columns: list[str] | None = None  # None where rows have keys of their own
    rows: int | None = None
    classes: Mapping[str, tuple[str, ...]] = {}


class RowBlock(NamedTuple):
    """Rows as a reader gives them, of bounded size."""

    # dictionaries of plain values; a ``Fault`` in place of one that could not be read, and None for
    # a blank line, which only counts
    rows: list[Any]
    file: str | None = None  # that they are of, as it is told
    # the line that the first row is, where each row is a line; or that of each; 0 where there are
    # no lines
    line: int | Sequence[int] = 0
    raw: Sequence[str] | None = None  # of each row the text it was, where that is known
    at: Any = None  # a place behind the rows to go on from, of the source's own; plain JSON values
    # of a table, whose rows have them all; None for rows with keys of their own
    columns: Sequence[str] | None = None
    left_out: Sequence[str] = ()  # of every row, the columns that its converter does not read

    def after(self, count: int) -> RowBlock:
        """Return the block without its first rows."""
        line = self.line + count if isinstance(self.line, int) and self.line else self.line
        line = line if isinstance(line, int) else line[count:]
        raw = None if self.raw is None else self.raw[count:]
        return self._replace(rows=self.rows[count:], line=line, raw=raw)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between batches that reading can go on from."""

    # ``{"rows": how many come before, "at": a place of the source's own, "of": what it is a place
    # in}``, plain JSON values; given back to ``open`` it yields what comes after
    cursor: Any


_CURSOR = {"rows": range(1 << 63), "at?": object, "of?": object}


def cursor_of(given: Any, where: str, at: Any = object) -> dict[str, Any]:
    """Return a checked cursor; of None that of the beginning."""
    if given is None:
        return {"rows": 0, "at": None, "of": None}
    wrong = misfit(given, _CURSOR)
    if not wrong and at is not object and given.get("at") is not None:
        wrong = misfit(given["at"], at)
    if wrong:
        raise SourceError(
            f"{where}: the place where its unfinished ingest stopped is none: {wrong}; it is "
            f"damaged, or was made by another version; discard it with restart=True (--restart)"
        )
    return {"at": None, "of": None} | dict(given)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an opened source."""

    # batches of ``ROW_SCHEMA``, perhaps with some of ``EXTRA_COLUMNS``, in the order of the input;
    # read once. A resumable source puts a ``Mark`` wherever it could go on: what came before is
    # then stored for good
    batches: Iterator[pa.RecordBatch | Mark]
    # which default recipes suit them: ``roles``, ``text``, ``dated``, ``pairs`` or ``ready`` (roles
    # with ready negatives)
    defaults: str
    total: int | None = None  # how many rows there are, where that is cheap to know
    # after the last batch, counts by reason of input that never became a row. The built-in sources
    # give every bad line or file a row with a ``skip``, so theirs is empty
    rejected: Callable[[], dict[str, int]] = dict
    # after the last batch, sentences on what was found and which choice was made
    notes: Callable[[], list[str]] = list


class Stoppable(Iterator[Any]):
    """Batches whose making can be ended from any thread, also while one is waited for."""

    def __init__(self, batches: Iterator[Any], stop: Callable[[], None]) -> None:
        self._batches, self.stop = batches, stop

    @classmethod
    def of(cls, rows: Rows, stop: Callable[[], None] | None) -> Rows:
        """Return rows that can be stopped, where there is a way."""
        return rows if stop is None else replace(rows, batches=cls(rows.batches, stop))

    def __next__(self) -> Any:
        return next(self._batches)
