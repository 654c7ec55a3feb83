"""Make rows of lines of JSON: cut lines from a stream, judge them, find the keys of parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.queries import query
from duckplets.errors import SourceError
from duckplets.sources.base import PARTS, TEXTS, Mapped, Rows, require_texts, unknown
from duckplets.sources.feed import gather, result_of, run, table_bytes
from duckplets.sources.field_paths import Steps, match, no_such_field, path_of, pointer, steps_of
from duckplets.sources.limits import Limits, limits_of, shallow
from duckplets.sources.origins import Origins, with_broken

if TYPE_CHECKING:
    from duckplets.db.database import Database

_BLOCK = 16 << 20
_MOST_LISTED = 100  # fields that a message may choose from
_BOM = b"\xef\xbb\xbf"


def json_rows(
    reader: Database,
    mapping: Mapped,
    pieces: Iterable[pa.RecordBatch],
    where: str,
    total: int | None = None,
    origins: Origins | None = None,
) -> Rows:
    """Return the rows of JSON lines, after a look at the first of them.

    Raises:
        SourceError: No text is mapped, or a part's columns are in none of the first lines.
    """
    keys = Keys(reader, mapping, where)
    sound = shallow(pieces, limits_of(reader).depth)
    tables = judged(reader, gather(sound, table_bytes(mapping)), where)
    first = next(tables, None)
    if first is not None:
        keys.look_for_sections(first)
        keys.learn(first)
    require_texts(keys.mapping, keys.seen, where, type(mapping).__name__)
    keys.check_parts()
    if first is None:
        return Rows(iter(()), mapping.defaults(), total)
    values = (keys.values(table) for table in chain([first], tables))
    rows = run(reader, keys.mapping, values, where, origins=origins)
    suited = keys.mapping.defaults()
    if keys.mapping.part("sections"):
        begun = list(islice(rows, 1))
        suited, rows = suited_to(keys.mapping, begun), chain(begun, rows)
    return Rows(chain(rows, keys.check_all()), suited, total)


def suited_to(mapping: Mapped, rows: Iterable[pa.RecordBatch]) -> str:
    """Return which default recipes suit rows that bring sections, by the roles they have."""
    roles = {role for batch in rows for role in _roles(batch)}
    if "rejected" in roles and "anchor" in roles:
        return "ready"
    return mapping.defaults() if mapping.part("anchor") or "anchor" in roles else "text"


def _roles(batch: pa.RecordBatch) -> list[str | None]:
    usable = batch.filter(pc.is_null(batch["skip"]))
    return list(pc.unique(pc.struct_field(usable["sections"].flatten(), "role")).to_pylist())


def judged(reader: Database, tables: Iterable[pa.Table], where: str) -> Iterator[pa.Table]:
    """Yield the tables with a column that says what each line is."""
    for table in tables:
        kinds = result_of(reader, query("sources/lines/kinds"), table, where)
        yield table.append_column("kind", kinds["kind"])


class Keys:
    """The keys met so far, until every name of the mapping has been met.

    Lines need not have the same keys, so a name is matched when a key for it first appears, and
    is an error only when the whole input has none. A path is met when a row has what it leads to.

    Attributes:
        mapping: Which key plays which part; with the key ``sections`` where that was found.
        found: The key of each name met; of a path, that which it begins with.
        seen: All keys.
    """

    def __init__(self, reader: Database, mapping: Mapped, where: str) -> None:
        self._reader = reader
        self.mapping = mapping
        self._where = where
        self.found: dict[str, str] = {}
        self._fields = _fields(mapping)
        self.seen: list[str] = []
        self._nested: dict[str, list[str]] = {}  # of paths not met, the fields where they go astray

    def look_for_sections(self, table: pa.Table) -> None:
        """Take a key ``sections`` that holds sections given whole, where the mapping is silent."""
        mapping = self.mapping
        if mapping.converter is None and not mapping.part("sections"):
            values = {"pointers": ["/sections/0/role", "/sections/0/text"]}
            (there,) = self._ask("sources/lines/have", table, values)["found"].to_pylist()
            if there:
                given = {part.name: getattr(mapping, part.name) for part in fields(Mapped)}
                self.mapping = Mapped(**given | {"sections": "sections"})

    def learn(self, table: pa.Table) -> None:
        """Look for names not met yet among a table's keys."""
        # A converter's fields need not be in every input: the first lines show how they are spelt.
        if self.seen and all(name in self.found for name in self.mapping.names()):
            return
        limits = limits_of(self._reader)
        found = self._ask("sources/lines/keys", table, {"most": limits.columns + 1})
        self.seen = list(dict.fromkeys([*self.seen, *found["key"].to_pylist()]))
        if len(self.seen) > limits.columns:
            raise limits.exceeded(self._where, "its objects have more different keys", "columns")
        for name in (*self.mapping.names(), *self._fields):
            places = match(name, self.seen)
            if places and name not in self.found:
                self.found[name] = self.seen[places[0]]
            elif name not in self.found and (path := path_of(name, self.seen)):
                self._learn_path(name, self.seen[path[0]], path[1], table)

    def values(self, table: pa.Table) -> pa.Table:
        """Return the values of a table's objects, one column for each name of the mapping."""
        from duckplets.sources.statement import elements_statement, text_places, values_statement

        self.learn(table)
        parts, text_of = self.mapping.parts(), self.mapping.text_of
        pointers = tuple(self._pointer(name) for name in self.mapping.names())
        converted = tuple(self._pointer(name) for name in self._fields)
        whole = self.mapping.needs_whole_rows()
        statement = values_statement(parts, pointers, converted, whole=whole, text_of=text_of)
        values = with_broken(result_of(self._reader, statement, table, self._where), table)
        arrays = []
        for place in text_places(parts, text_of):
            kinds = values[f"k{place}"]
            if kinds.null_count == len(kinds):
                values = values.drop_columns([f"k{place}"])
            else:
                arrays.append(place)
        if not arrays:
            return values
        # A statement of its own again, and only where there is anything but texts.
        return result_of(self._reader, elements_statement(tuple(arrays)), values, self._where)

    def check_parts(self) -> None:
        """Refuse a text or id none of whose columns is there at the start: a slip of the pen."""
        for part in (*TEXTS, "id"):
            names = self.mapping.part(part)
            if self.seen and names and not any(name in self.found for name in names):
                raise self._unknown(names[0])

    def check_all(self) -> Iterator[pa.RecordBatch]:
        """Refuse a name that nothing in the whole input matched; yields nothing."""
        for part in PARTS:
            for name in self.mapping.part(part):
                if self.seen and name not in self.found:
                    raise self._unknown(name)
        yield from ()

    def _learn_path(self, name: str, key: str, steps: Steps, table: pa.Table) -> None:
        """Find whether a row has what a path leads to, else which fields there are instead."""
        at = {"pointers": [pointer(key, steps)]}
        (is_there,) = self._ask("sources/lines/have", table, at)["found"].to_pylist()
        if is_there:
            self.found[name] = key
            return
        for length in range(len(steps) - 1, -1, -1):
            if not self._nested.get(name):
                above = {"pointer": pointer(key, steps[:length]), "most": _MOST_LISTED}
                there = self._ask("sources/lines/fields", table, above)["key"]
                self._nested[name] = there.to_pylist()

    def _pointer(self, name: str) -> str:
        key = self.found.get(name, name)
        return pointer(key, steps_of(name, key))

    def _unknown(self, name: str) -> SourceError:
        path = path_of(name, self.seen)
        if path is None:
            return unknown(name, self.seen, self._where)
        key = self.seen[path[0]]
        return no_such_field(name, self._nested.get(name, []), self._where, f"column {key!r}")

    def _ask(self, name: str, table: pa.Table, values: dict[str, Any]) -> pa.Table:
        return result_of(self._reader, query(name), table, self._where, values)


def _fields(mapping: Mapped) -> tuple[str, ...]:
    """Return the keys that a mapping's converter reads; a function reads whole objects."""
    converter = mapping.conversion()
    return () if converter is None or converter.function else tuple(converter.fields)


def line_pieces(stream: BinaryIO, where: str, limits: Limits) -> Iterator[pa.RecordBatch]:
    r"""Yield a stream's lines, cut at ``\n`` only, in blocks of about 16 MB or one line.

    Texts may hold any other separator (U+2028 too), so nothing else is a line's end. The bytes
    are not looked at otherwise: that they are UTF-8 is checked with all other text.

    Args:
        stream: Read to its end.
        where: The file, for messages.
        limits: Of these that of a row is what a line may be long.

    Raises:
        SourceError: A line is longer.
    """
    held: list[bytes] = []
    size = count = 0
    start = True
    while block := stream.read(_BLOCK):
        if start:
            block, start = block.removeprefix(_BOM), False
        first = block.find(b"\n")
        size += first if first >= 0 else len(block)
        if size > limits.size("row"):
            raise limits.exceeded(f"{where}, line {count + 1}", "it is longer", "row")
        cut = block.rfind(b"\n") + 1
        if cut:
            lines = _lines(b"".join([*held, block[:cut]]))
            check_lengths(lines, f"{where}, line", limits, count)
            held, size, count = [], len(block) - cut, count + lines.num_rows
            yield lines
            del lines
        held.append(block[cut:])
    if rest := b"".join(held):
        lines = _lines(rest + b"\n")
        check_lengths(lines, f"{where}, line", limits, count)
        yield lines


def check_lengths(lines: pa.RecordBatch, what: str, limits: Limits, count: int) -> None:
    """Refuse a line that is longer than a row may be.

    Args:
        lines: To look at.
        what: The file, and what is counted in it, for messages.
        limits: Of these that of a row counts.
        count: How many came before.

    Raises:
        SourceError: One is longer.
    """
    if lines.nbytes > limits.size("row"):
        lengths = pc.binary_length(lines.column(0)).to_numpy(zero_copy_only=False)
        longest = int(lengths.argmax())
        if lengths[longest] > limits.size("row"):
            raise limits.exceeded(f"{what} {count + longest + 1}", "it is longer", "row")


def _lines(data: bytes) -> pa.RecordBatch:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return line_batch(pa.Array.from_buffers(pa.string(), len(ends), buffers))


def line_batch(lines: pa.Array) -> pa.RecordBatch:
    """Return a piece of input of JSON lines."""
    return pa.record_batch([lines], ["line"])
