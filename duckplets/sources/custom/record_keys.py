"""Make rows of a user's records, dictionaries or Arrow data, by a mapping or the keys they have.

A mapping says which key plays which part. Without one records name their parts themselves,
``{"anchor": …, "positive": …, "meta": {…}}``: each becomes what ``MemorySource`` would make of it
with a column of the same name for each of its keys, and of a dictionary under ``meta`` one key of
metadata for each of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from duckplets.base.documents import Unreadable, from_json
from duckplets.errors import SourceError, nearest
from duckplets.sources.columns import portions
from duckplets.sources.field_paths import Paths
from duckplets.sources.formats.json_keys import Keys, judged
from duckplets.sources.formats.json_records import JsonEncoder, json_line
from duckplets.sources.formats.lines import line_batch
from duckplets.sources.limits import limits_of
from duckplets.sources.mapped_columns import require_texts, resolve, telling
from duckplets.sources.mapping import GIVEN, PARTS, Mapped
from duckplets.sources.row_batches import gather, pick, run
from duckplets.sources.rows import DROPPED, checked_cursor
from duckplets.text.prefix import prefix_of

if TYPE_CHECKING:
    from duckplets.db.database import Database

# What a place to go on from tells: of records with keys of their own, and of mapped ones.
_OWN = {"defaults": (str, None)}
_MAPPED = {"names": {str: str}, "seen": [str], "arrow": bool}
_KIND = "CustomSource"
_SURE = 100  # rows after which a text or id that none of them had is a slip of the pen
_MOST_SEEN = 100  # keys that a cursor carries along, for messages
_CELLS = (
    *("anchor", "positive", "context", "text", "id", "date", "group", "taxonomy", "trust"),
    *("negative", "sections", "created_at", "updated_at", "label"),
)
_KEYS = (*_CELLS, "meta", "prefix")
_META = pa.map_(pa.string(), pa.string())  # values as JSON
_REQUIRED = (
    "id",
    "anchor",
    "positive",
    "context",
    "text",
    "sections",
    "label",
)  # where they are given


class RefusedError(Exception):
    """A record that breaks the rules; its text says which, and the reader says where."""


class Line(NamedTuple):
    """A record as a line of JSON.

    Attributes:
        json: UTF-8 as a rule; None for what is no record.
        fault: Why it is none.
        meta: Metadata beside it, as pairs of key and JSON in the order of the keys.
    """

    json: bytes | None
    fault: str | None = None
    meta: Sequence[tuple[str, str]] | None = ()


class RecordKeys:
    """How the records of a source become pieces of input, in its thread, and these become rows.

    Args:
        reader: An instance to run statements in.
        mapping: Which key plays which part; one without any is for records with keys of their own.
        where: The source, for messages.
        state: Of a place to go on from, or None at the beginning.

    Attributes:
        defaults: Which default recipes suit the rows; None before a record says it.
    """

    def __init__(
        self, reader: Database, mapping: Mapped, where: str, state: dict[str, Any] | None
    ) -> None:
        self._reader = reader
        self._where = where
        self._are_own = not mapping.names() and mapping.converter is None
        own = _OwnKeys(
            text_of=mapping.text_of,
            on_error=mapping.on_error,
            on_bad_date=mapping.on_bad_date,
            date_format=mapping.date_format,
            null_values=mapping.null_values,
        )
        self._mapping = own if self._are_own else mapping
        self._keys = Keys(reader, self._mapping, where)
        self._lines = JsonEncoder(self._mapping)
        self._paths = Paths(self._mapping.names(), where)
        self._arrow = False
        self.defaults: str | None = mapping.defaults()
        checked_cursor(state, _OWN if self._are_own else _MAPPED, where)
        if self._are_own:
            self.defaults = state["defaults"] if state else None
            self._keys.found.update({name: name for name in self._mapping.names()})
            self._keys.seen = list(self._mapping.names())
        elif state:
            self._arrow = bool(state["arrow"])
            self._keys.found.update(state["names"])
            self._keys.seen = list(state["seen"])

    def line(self, record: Any) -> Line:
        """Return a record as a line.

        Raises:
            RefusedError: It breaks the rules.
        """
        if record is None:
            return Line(None, DROPPED)
        if not self._are_own:
            return Line(self._lines.line(record))
        if not isinstance(record, Mapping):
            return Line(None, "not an object")
        values = {key: record[key] for key in _CELLS if key in record}
        values[GIVEN] = self._given(record)
        values["prefix"] = _definition(record.get("prefix"))
        meta = _meta(record.get("meta"))
        return Line(self._lines.line(values), "invalid UTF-8" if meta is None else None, meta)

    def piece(self, lines: Sequence[Line], row: int) -> pa.RecordBatch:
        """Return lines as a piece of input, numbered from ``row``."""
        faults = pa.array([line.fault for line in lines], pa.string())
        texts = pa.array([line.json for line in lines], pa.binary()).view(pa.string())
        piece = line_batch(texts).append_column("fault", faults)
        if self._are_own:
            piece = piece.append_column("meta", pa.array([line.meta for line in lines], _META))
        return _numbered(piece, row)

    def portions(self, batch: pa.RecordBatch, row: int) -> Iterator[pa.RecordBatch]:
        """Yield a batch of Arrow data in parts that can be decoded."""
        return portions(batch, self._where, limits_of(self._reader), row)

    def arrow_piece(self, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Return the columns of Arrow data that are used as a piece of input.

        Raises:
            RefusedError: One is not there, or breaks the rules.
        """
        metas = _values(batch, "meta") if self._are_own else None
        if metas is not None:
            batch = self._complete(batch)
        names = batch.schema.names
        try:
            require_texts(self._mapping, names, "its table", _KIND)
            places = resolve(self._mapping, names, "its table")
        except SourceError as error:
            raise RefusedError(str(error)) from error
        piece = pick(batch, places, "its table")
        if metas is not None:
            piece = piece.append_column("meta", pa.array(map(_meta, metas), _META))
        (piece,) = telling(self._mapping, names, [piece])
        return _numbered(piece, row)

    def rows(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces."""
        for table in gather(pieces):
            if "line" in table.column_names:
                table = self._values(table)
                mapping = self._keys.mapping
            else:
                self._arrow = True
                mapping = self._mapping
            yield from run(self._reader, mapping, [table], self._where, self._paths)

    def _values(self, table: pa.Table) -> pa.Table:
        """Return the values of lines as typed columns."""
        (lines,) = judged(self._reader, [table], self._where)
        if not self._are_own and (not self._keys.seen or "sections" in self._keys.found):
            self._keys.look_for_sections(lines)
        values = self._keys.values(lines)
        require_texts(self._keys.mapping, self._keys.seen, self._where, _KIND)
        return values.append_column("meta", table["meta"]) if self._are_own else values

    def check(self, row: int, *, is_last: bool) -> None:
        """Refuse a text or id that no record had so far, and in the end any name.

        Args:
            row: How many rows there were.
            is_last: Whether that was all.

        Raises:
            SourceError: The mapping does not fit them.
        """
        if is_last:
            self._paths.check()
        if self._arrow or not self._keys.seen:
            return  # the columns of tables were looked up one by one
        if is_last or row >= _SURE:
            self._keys.check_parts()
        if is_last:
            list(self._keys.check_all())

    def state(self) -> dict[str, Any]:
        """Return what must be known to go on after the rows so far, as plain values."""
        if self._are_own:
            return {"defaults": self.defaults}
        found, seen = self._keys.found, self._keys.seen[:_MOST_SEEN]
        return {"names": dict(found), "seen": seen, "arrow": self._arrow}

    def _given(self, record: Mapping[Any, Any]) -> str:
        """Return the parts of a record that must not be blank, and learn what they suit."""
        given = _required(record)
        if self.defaults is None and any(part not in ("id", "label") for part in given):
            roles = _roles(record.get("sections"))
            ready = record.get("negative") is not None or "rejected" in roles
            is_roles = "anchor" in given or "anchor" in roles
            self.defaults = ("ready" if ready else "roles") if is_roles else "text"
        return " ".join(given)

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with all the keys that a record may have, null where it has not."""
        names, count = batch.schema.names, batch.num_rows
        given = self._given(dict.fromkeys(names, ""))
        columns = {name: batch[name] if name in names else pa.nulls(count) for name in _CELLS}
        definitions = [_definition(value) for value in _values(batch, "prefix")]
        columns["prefix"] = pa.array(definitions, pa.string())
        columns[GIVEN] = pa.array([given] * count, pa.string())
        return pa.record_batch(list(columns.values()), list(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnKeys(Mapped):
    """Says that every part has the key of its own name, and ``GIVEN`` lists those there are.

    Metadata stands in a column beside them, for it may have any keys.
    """

    def __post_init__(self) -> None:
        """Accept parts that exclude each other in a mapping: no record has them all."""

    def part(self, part: str) -> tuple[str, ...]:
        """Return the one key of a part."""
        if part == "date_format":
            return Mapped.part(self, part)
        return (part,) if part != "meta" else ()

    def names(self) -> tuple[str, ...]:
        """Return all the keys, in the order of the parts."""
        return tuple(name for _, names in self.parts() for name in names)

    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the key of every part."""
        return tuple((part, self.part(part)) for part in (*PARTS, GIVEN))


def _numbered(piece: pa.RecordBatch, row: int) -> pa.RecordBatch:
    numbers = pa.array(range(row, row + piece.num_rows), pa.int64())
    return piece.append_column("row", numbers)


def _required(record: Mapping[Any, Any]) -> list[str]:
    """Return the parts that must not be blank, after a check that they go together."""
    for key in record:
        if key not in _KEYS:
            raise RefusedError(
                f"unknown key {key!r}{nearest(str(key), _KEYS)}; the keys of a record are "
                f"{', '.join(_KEYS)}; to read others: dp.CustomSource(source, anchor=…)"
            )
    given = [part for part in _REQUIRED if part in record]
    if "text" in given and ("anchor" in given or "positive" in given):
        given = [part for part in given if record[part] is not None]
        if "text" in given and ("anchor" in given or "positive" in given):
            raise RefusedError(
                "'text' is for records of one text: leave out 'anchor' and 'positive'"
            )
    if record.get("negative") is not None and not {"anchor", "sections"} & set(given):
        raise RefusedError("'negative' needs an 'anchor': it is what an anchor is told apart from")
    if "label" in given and not {"positive", "context", "sections"} & set(given):
        raise RefusedError("'label' judges an 'anchor' and its 'positive'; the record has no pair")
    if "positive" in given and "anchor" not in given:
        raise RefusedError("'positive' needs an 'anchor'; for records of one text there is 'text'")
    return given


def _roles(sections: Any) -> set[str]:
    """Return the roles of sections given whole, as far as they are such."""
    given = sections if isinstance(sections, list | tuple) else ()
    return {str(part.get("role")) for part in given if isinstance(part, Mapping)}


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values = batch[name].to_pylist()
    if pa.types.is_map(batch.schema.field(name).type):
        return [None if value is None else dict(value) for value in values]
    return list(values)


def _meta(meta: Any) -> list[tuple[str, str]] | None:
    """Return metadata as pairs of key and JSON, by key; None where it is no valid text."""
    if meta is None:
        return []
    named = meta if isinstance(meta, Mapping) else {"meta": meta}
    values = {str(key): value for key, value in named.items()}
    try:
        return [(key.encode().decode(), json_line(values[key]).decode()) for key in sorted(values)]
    except UnicodeError:
        return None


def _definition(prefix: Any) -> str | None:
    """Return the definition of a record's own prefix as JSON, checked."""
    try:
        if isinstance(prefix, str) and prefix.lstrip().startswith("{"):
            prefix_of(from_json(prefix))
            return prefix
        found = prefix_of(prefix)
    except SourceError as error:
        raise RefusedError(str(error)) from error
    except Unreadable as error:
        raise RefusedError(f"prefix: it {error}") from error
    if found is None:
        return None
    return json_line(prefix if isinstance(prefix, Mapping) else found).decode()
