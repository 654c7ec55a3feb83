"""Repair a file whose process was killed in the middle of a DuckDB write."""

# A commit overwrites metadata blocks in place, and Linux ends a write between two pages of a killed
# process. Then the checksum fits neither version, but the parts in use are the same in both. So the
# checksums are recomputed where the WAL ends with the mark of a checkpoint that the header lacks.

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

_PAGE = 4096  # bytes of a header; there are three, and the last two alternate
_HEADER = struct.Struct("<5Q")  # number, catalog, free list, blocks, block size
_NOWHERE = (1 << 64) - 1
_PARTS = 64  # parts of a metadata block
_TAIL = 128  # bytes of the last two WAL entries, each after its size and checksum
# A checkpoint entry with the pointer to its catalog (a zero is left out), then a flush.
_MARK = re.compile(
    rb"d\0ce\0(?:d\0([\x80-\xff]*[\0-\x7f]))?(?:e\0.{1,5})?\xff{4}.{16}d\0d\xff\xff\Z", re.S
)


def mend(path: Path, name: str) -> None:
    """Recompute checksums that a kill left wrong; any other file stays as it is."""
    # This process must not have the file open, or it would lose its lock.
    if not os.path.lexists(wal_of(path)):
        return
    with suppress(OSError), _locked(path) as file:  # unreadable files are refused on opening
        checksums = _torn(file, wal_of(path))
        if not checksums:
            return
        if not file.writable():
            raise DamagedFileError(
                f"the process that wrote {name} was killed in the middle of a block. Nothing is "
                f"lost: open the file once with write permission, which repairs it"
            )
        for place, checksum in checksums.items():
            file.seek(place)
            file.write(checksum.to_bytes(8, "little"))
        file.flush()
        os.fsync(file.fileno())
        log.warning("%s: mended after a kill in the middle of a write; nothing is lost", name)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file under DuckDB's lock, for writing if allowed."""
    file: BinaryIO
    try:
        file = path.open("r+b")
    except OSError:
        file = path.open("rb")
    with file:
        with suppress(ImportError):  # Windows: whoever opened a file has it alone
            import fcntl

            fcntl.lockf(file, fcntl.LOCK_NB | (fcntl.LOCK_EX if file.writable() else fcntl.LOCK_SH))
        yield file


def _torn(file: BinaryIO, wal: Path) -> dict[int, int]:
    """Return the position of a checksum that a kill left wrong, and the right one."""
    found = {}
    with suppress(struct.error, ValueError):  # not a DuckDB format known here
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
    """Return the catalog pointer of a checkpoint that a WAL ends with, or None."""
    with wal.open("rb") as file:
        file.seek(max(0, wal.stat().st_size - _TAIL))
        mark = _MARK.search(file.read())
    if mark is None:
        return None
    number: bytes = mark[1] or b""
    return sum((byte & 127) << 7 * i for i, byte in enumerate(number))


def _header(file: BinaryIO) -> tuple[int, ...]:
    """Return the header in force: the later of the intact ones."""
    found = []
    for place in (_PAGE, 2 * _PAGE):
        file.seek(place)
        page = file.read(_PAGE)
        stored, computed = _checksums(page)
        if stored == computed:
            found.append(_HEADER.unpack_from(page, 8))
    return max(found)


def _metadata(file: BinaryIO, pointer: int, blocks: int, size: int) -> list[int]:
    """Return the numbers of the metadata blocks, listed after the free blocks."""
    data, part = b"", (size - 8) // _PARTS // 8 * 8
    while pointer != _NOWHERE and len(data) < blocks * size:
        file.seek(3 * _PAGE + (pointer & ((1 << 56) - 1)) * size + 8 + (pointer >> 56) * part)
        read = file.read(part)
        (pointer,) = struct.unpack_from("<Q", read)
        data += read[8:]
    place = 0
    for width in (8, 12):  # free blocks, then blocks of several columns with their counts
        place += 8 + width * struct.unpack_from("<Q", data, place)[0]
    (count,) = struct.unpack_from("<Q", data, place)
    return [struct.unpack_from("<Q", data, place + 8 + 16 * i)[0] for i in range(count)]


def _checksums(block: bytes) -> tuple[int, int]:
    """Return the checksum stored in a block, and the one of its content."""
    import numpy as np

    words = np.frombuffer(block, "<u8")
    mixed = words[1:] * np.uint64(0xBF58476D1CE4E5B9)
    return int(words[0]), int(np.bitwise_xor.reduce(mixed)) ^ 5381
