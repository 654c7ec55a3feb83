"""Read of files of Parquet and Arrow what says how much memory decompressing them takes.

A page of Parquet and a batch of Arrow are decompressed as a whole. What is set aside for a page is
what its own header says; the metadata at the file's end may say anything, and where it is damaged,
PyArrow (26.0) ends the process when asked for a column's. So both are read here, structures in
Thrift's compact protocol; and of Arrow's messages, in FlatBuffers, where the buffers lie, each of
which says by its first eight bytes to how much it decompresses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from duckplets.base.sanitize import shown
from duckplets.sources.limits import Limits

# -- pages of Parquet -----------------------------------------------------------------------------

_HEADER = 64 << 10  # bytes of a page's header, with its statistics, at most
_UNCOMPRESSED, _COMPRESSED = 2, 3  # numbers of the fields of a header
_TEXT = 6  # the physical type of texts and bytes
_DELTA_BYTE_ARRAY = 7  # the encoding in which a value's beginning may be that of another


@dataclass(frozen=True, slots=True)
class Chunk:
    """The pages of one column, or part of a nested one, in a row group.

    Attributes:
        path: Of the column, with points.
        is_text: Whether it has texts or bytes.
        has_dictionary: Whether values may stand for those of a dictionary.
        shares: Whether values may share their beginnings.
        size: Of all pages once decompressed, as it is said.
        start: Where the first page is.
        length: Of all pages as they are.
    """

    path: str
    is_text: bool
    has_dictionary: bool
    shares: bool
    size: int
    start: int
    length: int


def chunks_of(file: Path) -> list[list[Chunk]]:
    """Return the columns of every row group of a file; none of what cannot be read."""
    with file.open("rb") as stream:
        end = stream.seek(-8, 2)
        size = int.from_bytes(stream.read(4), "little")
        stream.seek(max(end - size, 0))
        footer = stream.read(size)
    try:
        groups = _Thrift(footer).structure()[4]
        return [[_chunk(column[3]) for column in group[1]] for group in groups]
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError):
        return []  # encrypted, or damaged: then Arrow says what is wrong


def _chunk(facts: dict[int, Any]) -> Chunk:
    first, dictionary = int(facts[9]), int(facts.get(11, 0))
    return Chunk(
        path=".".join(part.decode("utf-8", "replace") for part in facts[3]),
        is_text=facts[1] == _TEXT,
        has_dictionary=dictionary > 0 or bool({2, 8} & set(facts[2])),
        shares=_DELTA_BYTE_ARRAY in facts[2],
        size=int(facts[6]),
        start=min(first, dictionary) if dictionary > 0 else first,
        length=int(facts[7]),
    )


def check_pages(file: Path, group: int, chunks: Sequence[Chunk], limits: Limits) -> int:
    """Refuse a page that takes more memory than reading may: it is decompressed as a whole.

    Args:
        file: Where it is.
        group: Number of the row group.
        chunks: Of the columns that are read.
        limits: Of these that of memory counts.

    Returns:
        The size of the largest page of columns in which values share their beginnings.

    Raises:
        SourceError: One takes more; the message names file, row group and column.
    """
    largest = 0
    with file.open("rb") as stream:
        for chunk in chunks:
            most = max(_page_sizes(stream, chunk), default=0)
            if 2 * most > limits.size("memory"):  # the page, and its values
                where = f"{file}, row group {group + 1}, column {shown(repr(chunk.path))}"
                raise limits.exceeded(where, f"a page of {most:,} bytes takes more", "memory")
            if chunk.shares:
                largest = max(largest, most)
    return largest


def _page_sizes(stream: BinaryIO, chunk: Chunk) -> Iterator[int]:
    """Yield the sizes of a column's pages once decompressed, as far as headers can be read."""
    place, end = chunk.start, chunk.start + chunk.length
    while 0 <= place < end:
        stream.seek(place)
        header = _Thrift(stream.read(_HEADER))
        try:
            sizes = header.structure()
        except (IndexError, RecursionError):
            return  # Arrow says what is wrong with it
        step = sizes.get(_COMPRESSED)
        if not isinstance(step, int) or step < 0:
            return
        found = sizes.get(_UNCOMPRESSED)
        yield found if isinstance(found, int) else 0
        place += header.place + step


class _Thrift:
    """Reads a structure of Thrift's compact protocol.

    Args:
        data: That begins with it.

    Attributes:
        place: Of what comes next.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def structure(self) -> dict[int, Any]:
        """Return the values of a structure by the numbers of their fields.

        Raises:
            IndexError: The data ends before it does, or is none.
        """
        found: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            kind, step = byte & 15, byte >> 4
            number = number + step if step else self._zigzag()
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind in (7, 8):
            size = 8 if kind == 7 else self._varint()
            self.place += size
            if self.place > len(self._data):
                raise IndexError("it ends within a value")
            return self._data[self.place - size : self.place]
        if kind in (9, 10):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15) for _ in range(count)]
        if kind == 12:
            return self.structure()
        raise IndexError(f"there is no kind {kind} of value")

    def _byte(self) -> int:
        self.place += 1
        return self._data[self.place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


# -- batches of Arrow -----------------------------------------------------------------------------

_DICTIONARY, _BATCH = 2, 3  # kinds of messages
_MOST = 1 << 24  # messages, and buffers of one: no file has more


def check_batches(data: memoryview, where: str, limits: Limits) -> None:
    """Refuse a file with a batch that takes more memory than reading may.

    Args:
        data: All of the file.
        where: The file, for messages.
        limits: Of these that of memory counts.

    Raises:
        SourceError: A batch takes more.
    """
    try:
        for number, (table, kind, body) in enumerate(_messages(data), 1):
            size = _decompressed(data, table.table(1) if kind == _DICTIONARY else table, body)
            if 2 * size > limits.size("memory"):
                larger = f"a batch that decompresses to {size:,} bytes takes more"
                raise limits.exceeded(f"{where}, message {number}", larger, "memory")
    except struct.error:
        return  # Arrow says what is wrong there


def _decompressed(data: memoryview, batch: _Table | None, body: int) -> int:
    """Return how many bytes the buffers of a batch take, 0 where it is mapped and not read."""
    if batch is None or not batch.place(3):
        return 0
    return sum(
        max(int(struct.unpack_from("<q", data, body + start)[0]), 0)
        for start, length in batch.buffers(2)
        if length >= 8 and start >= 0
    )


class _Table:
    """A table of FlatBuffers, which begins with the distance back to the places of its fields.

    Args:
        data: That holds it.
        at: Where it begins.
    """

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - int(struct.unpack_from("<i", data, at)[0])

    def place(self, field: int) -> int:
        """Return where a field lies, or 0."""
        size = struct.unpack_from("<H", self._data, self._fields)[0]
        if 4 + 2 * field + 2 > size:
            return 0
        offset = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * field)[0]
        return self._at + int(offset) if offset else 0

    def integer(self, field: int, form: str) -> int:
        """Return a number, 0 where there is none."""
        place = self.place(field)
        return int(struct.unpack_from(form, self._data, place)[0]) if place else 0

    def table(self, field: int) -> _Table | None:
        """Return a table within it."""
        place = self.place(field)
        return _Table(self._data, _follow(self._data, place)) if place else None

    def buffers(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the starts and lengths of buffers."""
        place = self.place(field)
        if place:
            start = _follow(self._data, place)
            count = min(int(struct.unpack_from("<I", self._data, start)[0]), _MOST)
            yield from struct.iter_unpack("<qq", self._data[start + 4 : start + 4 + 16 * count])


def _follow(data: memoryview, place: int) -> int:
    return place + int(struct.unpack_from("<I", data, place)[0])


def _messages(data: memoryview) -> Iterator[tuple[_Table, int, int]]:
    """Yield the batches of a file or stream one after the other: table, kind, place of the body."""
    at = 8 if bytes(data[:6]) == b"ARROW1" else 0
    for _ in range(_MOST):
        marked, size = struct.unpack_from("<Ii", data, at)
        if marked != 0xFFFFFFFF or size <= 0:
            return
        message = _Table(data, _follow(data, at + 8))
        body = at + 8 + size
        kind, table = message.integer(1, "<B"), message.table(2)
        if kind in (_DICTIONARY, _BATCH) and table is not None:
            yield table, kind, body
        length = message.integer(3, "<q")
        if length < 0:
            return
        at = body + length
