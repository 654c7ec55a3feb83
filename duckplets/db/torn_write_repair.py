"""Mend a file whose process was killed in the middle of one of DuckDB's writes.

A commit writes the WAL, at its end a mark that a checkpoint begins; rows, to blocks that nothing
uses; blocks of metadata; at last the header, by which all of this counts. Then the WAL goes. A
block of metadata has 64 parts and is written over itself: parts in use stay as they are, free ones
are filled. Linux ends a write between two pages when the process is killed, so such a block may be
the new one up to a page and the old one from there, with a checksum that is of neither, and DuckDB
refuses the file (1.5.5: one of some 1,500 kills during commits).

Nothing else is lost, for the parts that the header in force uses are the same in both. So where
the WAL ends with the mark of a checkpoint that the header does not know, the checksums of metadata
are made to fit what is there. A block that does not fit its checksum anywhere else is damaged.
"""

from __future__ import annotations

import logging
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from duckplets.db.files import wal_of
from duckplets.errors import DamagedFileError

log = logging.getLogger("duckplets")

_PAGE = 4096  # of a header; there are three, and the last two take turns
_HEADER = struct.Struct("<5Q")  # its number, where the catalog and the free list lie, blocks, size
_NOWHERE = (1 << 64) - 1
_PARTS = 64  # of a block of metadata
_TAIL = 128  # bytes of a WAL that hold its last two entries, each after its size and checksum
# A checkpoint, with where its catalog will lie: a number that is left out is 0. Then a flush.
_MARK = re.compile(
    rb"d\0ce\0(?:d\0([\x80-\xff]*[\0-\x7f]))?(?:e\0.{1,5})?\xff{4}.{16}d\0d\xff\xff\Z", re.S
)


def mend(path: Path, name: str) -> None:
    """Make the checksums fit that a killed process left wrong; any other file stays as it is.

    Args:
        path: Of a file that this process does not have open, for that would give up its lock.
        name: Of the file, for messages.

    Raises:
        DamagedFileError: It has to be mended, and may not be written here.
    """
    if not os.path.lexists(wal_of(path)):
        return
    with suppress(OSError), _locked(path) as file:  # what cannot be read is refused on opening
        checksums = _torn(file, wal_of(path))
        if not checksums:
            return
        if not file.writable():
            raise DamagedFileError(
                f"the process that wrote {name} was killed in the middle of a block. Nothing is "
                f"lost: open the file once where it may be written, and it is mended"
            )
        for place, checksum in checksums.items():
            file.seek(place)
            file.write(checksum.to_bytes(8, "little"))
        file.flush()
        os.fsync(file.fileno())
        log.warning("%s: mended after a kill in the middle of a write; nothing is lost", name)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file that no process has, to write it if that is allowed, by the lock of DuckDB."""
    file: BinaryIO
    try:
        file = path.open("r+b")
    except OSError:
        file = path.open("rb")
    with file:
        with suppress(ImportError):  # Windows: who opened a file has it alone
            import fcntl

            fcntl.lockf(file, fcntl.LOCK_NB | (fcntl.LOCK_EX if file.writable() else fcntl.LOCK_SH))
        yield file


def _torn(file: BinaryIO, wal: Path) -> dict[int, int]:
    """Return where a checksum is wrong that a kill explains, and what it should be."""
    found = {}
    with suppress(struct.error, ValueError):  # not the format of DuckDB that we know
        _, catalog, free_list, blocks, size = _header(file)
        if _begun(wal) in (None, catalog):
            return {}
        for number in _metadata(file, free_list, blocks, size):
            place = 3 * _PAGE + number * size
            file.seek(place)
            stored, computed = _checksums(file.read(size))
            if stored != computed:
                found[place] = computed
    return found


def _begun(wal: Path) -> int | None:
    """Return where the catalog will lie by a checkpoint that a WAL ends with; None without one."""
    with wal.open("rb") as file:
        file.seek(max(0, wal.stat().st_size - _TAIL))
        mark = _MARK.search(file.read())
    if mark is None:
        return None
    number: bytes = mark[1] or b""
    return sum((byte & 127) << 7 * i for i, byte in enumerate(number))


def _header(file: BinaryIO) -> tuple[int, ...]:
    """Return the header in force: the later one of those that are whole."""
    found = []
    for place in (_PAGE, 2 * _PAGE):
        file.seek(place)
        page = file.read(_PAGE)
        stored, computed = _checksums(page)
        if stored == computed:
            found.append(_HEADER.unpack_from(page, 8))
    return max(found)


def _metadata(file: BinaryIO, pointer: int, blocks: int, size: int) -> list[int]:
    """Return the numbers of the blocks of metadata, which the list of free blocks ends with.

    Args:
        file: A DuckDB file.
        pointer: To the list: a block, and in the highest byte the part of it.
        blocks: How many the file has.
        size: Of a block, in bytes.
    """
    data, part = b"", (size - 8) // _PARTS // 8 * 8
    while pointer != _NOWHERE and len(data) < blocks * size:
        file.seek(3 * _PAGE + (pointer & ((1 << 56) - 1)) * size + 8 + (pointer >> 56) * part)
        read = file.read(part)
        (pointer,) = struct.unpack_from("<Q", read)
        data += read[8:]
    place = 0
    for width in (8, 12):  # free blocks; and those of several columns, with how many they are
        place += 8 + width * struct.unpack_from("<Q", data, place)[0]
    (count,) = struct.unpack_from("<Q", data, place)
    return [struct.unpack_from("<Q", data, place + 8 + 16 * i)[0] for i in range(count)]


def _checksums(block: bytes) -> tuple[int, int]:
    """Return the checksum that a block begins with, and that of the rest of it."""
    import numpy as np

    words = np.frombuffer(block, "<u8")
    mixed = words[1:] * np.uint64(0xBF58476D1CE4E5B9)
    return int(words[0]), int(np.bitwise_xor.reduce(mixed)) ^ 5381
