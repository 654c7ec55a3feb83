"""Make rows of lines of JSON: cut lines from a stream, judge them, find the keys of parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.queries import query
from duckplets.sources.base import PARTS, TEXTS, Mapped, match, require_texts, unknown
from duckplets.sources.feed import gather, result_of, run, table_bytes
from duckplets.sources.limits import Limits, limits_of, shallow
from duckplets.sources.origins import Origins, with_broken

if TYPE_CHECKING:
    from duckplets.db.database import Database

_BLOCK = 16 << 20
_BOM = b"\xef\xbb\xbf"


def json_rows(
    reader: Database,
    mapping: Mapped,
    pieces: Iterable[pa.RecordBatch],
    where: str,
    origins: Origins | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of JSON lines, after a look at the first of them.

    Raises:
        SourceError: No text is mapped, or a part's columns are in none of the first lines.
    """
    keys = Keys(reader, mapping, where)
    sound = shallow(pieces, limits_of(reader).depth)
    tables = judged(reader, gather(sound, table_bytes(mapping)), where)
    first = next(tables, None)
    if first is not None:
        keys.learn(first)
    require_texts(mapping, keys.seen, where, type(mapping).__name__)
    keys.check_parts()
    if first is None:
        return iter(())
    values = (keys.values(table) for table in chain([first], tables))
    rows = run(reader, mapping, values, where, origins)
    return chain(rows, keys.check_all())


def judged(reader: Database, tables: Iterable[pa.Table], where: str) -> Iterator[pa.Table]:
    """Yield the tables with a column that says what each line is."""
    for table in tables:
        kinds = result_of(reader, query("sources/lines/kinds"), table, where)
        yield table.append_column("kind", kinds["kind"])


class Keys:
    """The keys met so far, until every name of the mapping has been met.

    Lines need not have the same keys, so a name is matched when a key for it first appears, and
    is an error only when the whole input has none.
    """

    def __init__(self, reader: Database, mapping: Mapped, where: str) -> None:
        self._reader = reader
        self._mapping = mapping
        self._where = where
        self.found: dict[str, str] = {}
        self._fields = _fields(mapping)
        self.seen: list[str] = []

    def learn(self, table: pa.Table) -> None:
        """Look for names not met yet among a table's keys."""
        # A converter's fields need not be in every input: the first lines show how they are spelt.
        if self.seen and all(name in self.found for name in self._mapping.names()):
            return
        limits = limits_of(self._reader)
        most = {"most": limits.columns + 1}
        found = result_of(self._reader, query("sources/lines/keys"), table, self._where, most)
        self.seen = list(dict.fromkeys([*self.seen, *found["key"].to_pylist()]))
        if len(self.seen) > limits.columns:
            raise limits.exceeded(self._where, "its objects have more different keys", "columns")
        for name in (*self._mapping.names(), *self._fields):
            places = match(name, self.seen)
            if places and name not in self.found:
                self.found[name] = self.seen[places[0]]

    def values(self, table: pa.Table) -> pa.Table:
        """Return the values of a table's objects, one column for each name of the mapping."""
        from duckplets.sources.statement import values_statement

        self.learn(table)
        keys = tuple(self.found.get(name, name) for name in self._mapping.names())
        fields = tuple(self.found.get(name, name) for name in self._fields)
        whole = self._mapping.needs_whole_rows()
        statement = values_statement(self._mapping.parts(), keys, fields, whole=whole)
        return with_broken(result_of(self._reader, statement, table, self._where), table)

    def check_parts(self) -> None:
        """Refuse a text or id none of whose columns is there at the start: a slip of the pen."""
        for part in (*TEXTS, "id"):
            names = self._mapping.part(part)
            if self.seen and names and not any(name in self.found for name in names):
                raise unknown(names[0], self.seen, self._where)

    def check_all(self) -> Iterator[pa.RecordBatch]:
        """Refuse a name that nothing in the whole input matched; yields nothing."""
        for part in PARTS:
            for name in self._mapping.part(part):
                if self.seen and name not in self.found:
                    raise unknown(name, self.seen, self._where)
        yield from ()


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
