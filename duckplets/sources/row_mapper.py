"""Map blocks of rows to the columns of records, and find why a row is none.

block ─columns→ a part's texts by kernels, or values one by one → sections, cells, faults → records

A part of the mapping is read from one column at a time. All that is known of a row is decided here;
only ids and hashes of contents are made elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources.columns import TEXT, ArrowColumns, Failed, RowColumns, TooLarge, each
from duckplets.sources.converters.turns import Converted
from duckplets.sources.limits import Limits
from duckplets.sources.mapped_block import BAD_DATE, MappedBlock, PartName, escaped_texts
from duckplets.sources.mapping import PARTS, Mapped, label_number, label_rules, null_words
from duckplets.sources.names import Names, known_fields, left_out_of
from duckplets.sources.rows import DROPPED, RowBlock
from duckplets.sources.typed import ArrowRows
from duckplets.sources.values import (
    Fault,
    Odd,
    cell_text,
    day_of,
    document,
    identifier,
    is_utf8,
    items_of,
    json_text,
    moment_of,
    prefix_of,
    texts_of,
    trust_of,
    unread,
)

Days = Callable[[list[str | None]], list[date | None]]
"""Returns the days that texts spell in a form of the mapping."""

_NOWHERE: Any = object()  # the key of a name that no row has had


class RowMapper:
    """Split rows into texts and further values, and judge them."""

    def __init__(
        self,
        mapping: Mapped,
        names: Names,
        limits: Limits,
        where: str,
        most: tuple[int, int],
        days_of: Days,
    ) -> None:
        (self._most_rows, self._most_size), self._days_of = most, days_of
        self._mapping, self._names, self._limits, self._where = mapping, names, limits, where
        self._as_json = mapping.text_of == "json"
        self.nulls = frozenset(null_words(mapping.null_values))
        self._converter = mapping.conversion()
        self._known = known_fields(mapping)
        self.is_own, self.keeps = mapping.are_own_keys, mapping.handling() == "quarantine"
        self.needs_dates = mapping.on_bad_date == "fail"
        rules = dict(label_rules(mapping.labels))
        typed: dict[str, tuple[Callable[[str], Any], str]] = {
            "created_at": (moment_of, "unreadable created_at"),
            "updated_at": (moment_of, "unreadable updated_at"),
            "trust": (trust_of, "trust outside 0..1"),
            "prefix": (prefix_of, "unreadable prefix"),
            "label": (lambda text: label_number(text, rules), "unreadable label"),
            "date": (day_of, BAD_DATE),
        }
        self.typed = typed
        self.names: dict[str, list[PartName]] = {}
        self.clear()
        self.bind()

    def clear(self) -> None:
        """Forget the rows taken."""
        self._tables: list[pa.Table] = []
        self._count = self._size = 0

    def cut(self, number: int) -> None:
        """Forget the rows after a number."""
        self._tables = [
            of.slice(0, int(np.searchsorted(of["row"].to_numpy(), number, "right")))
            for of in self._tables
        ]

    @property
    def is_full(self) -> bool:
        """Whether the rows taken fill a batch."""
        return self._count >= self._most_rows or self._size >= self._most_size

    def bind(self) -> None:
        """Look up the keys of the mapping's parts, as far as known."""
        for part in PARTS:
            self.names[part] = []
            for name in self._mapping.part(part):
                key, steps = self._names.found.get(name, (_NOWHERE, ()))
                key = name if self.is_own else key
                optional = name.endswith("?") and (bool(steps) or not str(key).endswith("?"))
                self.names[part].append(
                    PartName(name[:-1] if optional else name, key, steps, optional)
                )
        # Columns of a table that a built-in converter does not read.
        self._left_out = left_out_of(self._mapping, self._names.columns or ())
        self._fields = {}
        if self._converter is not None and not self._converter.is_own:
            there = self._names.found
            self._fields = {f: there[f][0] for f in self._converter.fields if f in there}

    def table(self) -> pa.Table | None:
        """Return the records taken; ``has_key`` says whether the content can be a key."""
        if not self._tables:
            return None
        found = pa.concat_tables(self._tables).combine_chunks()
        at = found.column_names.index("file")
        if found["file"].null_count == found.num_rows:
            return found.remove_column(at)
        return found.set_column(at, "file", found["file"].dictionary_encode())

    def take(self, block: RowBlock, number: int) -> int:
        """Take rows of a block; return their number."""
        most = max(1, self._most_rows - self._count)
        block = block.part(0, most) if len(block.rows) > most else block
        try:
            return self._take(block, number)
        except TooLarge:
            if len(block.rows) > 1:
                return self.take(block.part(0, len(block.rows) // 2), number)
            self._check_fields(block.rows[0], number)
            raise self._limits.exceeded(
                f"{self._where}, row {number}", "it is larger", "row"
            ) from None
        except Failed as failed:
            if failed.row:  # what is before it comes first
                return self.take(block.part(0, failed.row), number)
            error = failed.__cause__
            if not isinstance(error, RecursionError):
                said = f"{type(error).__name__}: {error}"
                raise SourceError(f"{self._where}: row {number}: {said}") from error
        # Recursive, or nested too deeply.
        whole = _whole(None, block.raw[0]) if block.raw else None
        rows = [Fault("invalid JSON", whole=whole), *list(block.rows)[1:]]
        return self.take(block._replace(rows=rows), number)

    def _take(self, block: RowBlock, number: int) -> int:
        rows, made = block.rows, None
        columns: RowColumns | ArrowColumns
        if isinstance(rows, ArrowRows) and self._converter is None:
            columns, places = ArrowColumns(rows), np.arange(len(rows))
        else:
            rows = list(rows)
            places = np.array([at for at, row in enumerate(rows) if row is not None], np.intp)
            if self._converter is not None:
                converted = each(self._converted, rows)
                places = np.repeat(np.arange(len(rows)), list(map(len, converted)))
                made = list(chain.from_iterable(converted))
            columns = RowColumns([rows[place] for place in places.tolist()])
        if not len(places):  # blank lines
            return len(rows)
        try:
            table, sizes = MappedBlock(self, columns, len(places)).records(made)
        except Failed as failed:
            raise Failed(int(places[failed.row])) from failed.__cause__
        of_row = np.bincount(places, sizes, len(rows))
        records = np.bincount(places, minlength=len(rows))
        full = int(np.searchsorted(self._size + np.cumsum(of_row), self._most_size))
        full = min(full, int(np.searchsorted(self._count + np.cumsum(records), self._most_rows)))
        taken = min(len(rows), full + 1)
        for at in np.flatnonzero(of_row[:taken] > self._limits.size("field")).tolist():
            self._check_fields(block.rows[at], number + at)
        table = table.slice(0, int(np.searchsorted(places, taken)))
        places = places[: table.num_rows]
        file = block.file and block.file.encode("utf-8", "backslashreplace").decode()
        more = {
            "row": pa.array(places + number),
            "file": pa.repeat(pa.scalar(file, TEXT), len(places)),
        }
        if block.lines:
            more["line"] = pa.array(np.asarray(block.lines)[places])
        if self.keeps:
            more["quarantined"] = self._kept(table["skip"], places, block)
        for name, column in more.items():
            table = table.set_column(table.schema.get_field_index(name), name, column)
        self._tables.append(table)
        self._count += table.num_rows
        self._size += int(of_row[:taken].sum())
        return taken

    def _kept(self, reasons: pa.Array, places: NDArray[np.intp], block: RowBlock) -> pa.Array:
        """Return the rows that are no records, as JSON."""
        found: list[str | None] = [None] * len(places)
        skips = pc.fill_null(pc.not_equal(reasons, DROPPED), False)
        rejected = np.flatnonzero(skips.to_numpy())
        rows: Any = block.rows
        if isinstance(rows, ArrowRows):  # no other row is made
            rows = dict(zip(places[rejected].tolist(), rows.at(places[rejected]), strict=True))
        for at, place in zip(rejected.tolist(), places[rejected].tolist(), strict=True):
            found[at] = _whole(rows[place], block.raw[place] if block.raw else None)
        return escaped_texts(found)

    def _check_fields(self, row: Any, number: int) -> None:
        """Refuse a value above the limit of a field."""
        most = self._limits.size("field")
        for name, value in row.items() if isinstance(row, dict) else ():
            text = value if isinstance(value, str) else json_text(value)
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > most:
                larger = f"column {shown(repr(name))} has a value of {size:,} bytes, larger"
                raise self._limits.exceeded(f"{self._where}, row {number}", larger, "field")

    # -- the values of a part ----------------------------------------------------------------------

    def texts(self, value: Any) -> list[str] | Odd:
        """Return the texts of a value, or what it is instead."""
        found = texts_of(value, as_json=self._as_json)
        if self.nulls and not isinstance(found, Odd):
            return [text for text in found if text.strip(" ") not in self.nulls]
        return found

    def topics(self, value: Any) -> list[str]:
        """Return the categories of a value."""
        return [topic for topic in items_of(value) if topic.strip(" ") not in self.nulls]

    def cell(self, part: str, value: Any) -> str | None:
        """Return a value besides texts as one text."""
        if part in ("id", "group") and type(value) is not str:
            value = identifier(value)
        text = cell_text(value)
        bare = None if text is None else text.strip(" ")
        if text is None or bare in self.nulls:
            return None
        if part in ("date", "created_at", "updated_at") and bare == "NaT":
            return None  # as pandas writes a missing time
        if part == "date" and type(value) is Odd:  # it needs no format
            return Odd(value.day or text, "date")
        return text

    def meanings(self, part: str, texts: Sequence[str | None]) -> list[Any]:
        """Return the typed values of a part's texts; None where a text has none."""
        typed, _ = self.typed[part]
        given: Sequence[Any] = texts
        if part == "date" and self._mapping.date_format is not None:
            days = self._days_of([None if isinstance(text, Odd) else text for text in texts])
            given = [day or text for day, text in zip(days, texts, strict=True)]
        return [None if value is None else typed(value) for value in given]

    def _converted(self, row: Any) -> list[tuple[Converted, str | None]]:
        """Return what a converter makes of a row, with the fields that nobody reads."""
        if not isinstance(row, dict):
            return [] if row is None else [(Converted(), None)]
        converter, found = self._converter, list[tuple[Converted, str | None]]()
        assert converter is not None  # noqa: S101 - only rows for a converter come here
        others = self._left_out or (unread(row, self._known) if self._known else ())
        given = row if converter.is_own else {f: row.get(k) for f, k in self._fields.items()}
        for made in converter.converted(given, each=self._mapping.turns == "each"):
            left_out = None
            if made.reason is not None:
                made = made._replace(reason=f"{converter.name}: {made.reason}")
            elif others or made.left_out:
                of_turns = {path for path in made.left_out if path.lower() not in self._known}
                left_out = json.dumps([*others, *sorted(of_turns)])
            found.append((made, left_out))
        return found


def _whole(row: Any, raw: str | None) -> str | None:
    if isinstance(row, Fault):
        return row.whole
    if raw is not None and is_utf8(raw):
        return raw.strip(" \t\r\n")
    return document(row)
