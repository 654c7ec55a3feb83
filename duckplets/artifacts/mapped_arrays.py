"""Write arrays and tables as Arrow IPC files, and view parts of such files in memory.

    arrays ─by batches→ NAME.arrow ─addresses of its buffers→ places
    places + the mapped file ─within its bounds→ arrays without a copy

A file is written once, under a name that no other ever has, and is never changed: who has mapped
it goes on with it whatever takes its place. The reader does not parse Arrow: where in the file an
array lies was noted when it was written, so nothing that is damaged can lead outside of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.names import inside
from duckplets.errors import DamagedFileError, ReadOnlyError

_STEP = 1 << 20  # bytes that are read at once for a digest
_BATCH = 1 << 18  # bytes of small arrays that go into one batch
_WORD = 8
_KINDS = ("texts", "sections", "chunks", "column", "arrays", "vectors", "index")
_FILE = re.compile(rf"({'|'.join(_KINDS)})-[0-9a-f]{{16}}\.(arrow|json|new)")
_ASIDE = re.compile(r"\.\w+\.\d+-\d+\.new\.json")  # a manifest on its way, see ``aside_of``

Place = tuple[str, int, int]  # type, first byte in the file, number of values


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a snapshot, as its manifest names it.

    Attributes:
        name: In the folder.
        size: In bytes.
        digest: Of all its bytes, in hexadecimal.
    """

    name: str
    size: int
    digest: str


class MappedFile:
    """A file that is mapped to be read.

    Args:
        folder: Where it lies.
        entry: What it should be.

    Raises:
        DamagedFileError: It is not there, or has another size.
    """

    def __init__(self, folder: Path, entry: FileEntry) -> None:
        self.path = inside(folder, entry.name, DamagedFileError)
        try:
            with pa.memory_map(str(self.path)) as file:
                self.buffer: pa.Buffer = file.read_buffer()
        except OSError as error:
            raise damaged(self.path, error.strerror or str(error)) from error
        if self.buffer.size != entry.size:
            raise damaged(self.path, f"it has {self.buffer.size:,} bytes instead of {entry.size:,}")

    def view(self, place: Place) -> np.ndarray[Any, Any]:
        """Return an array of the file; it cannot be written to."""
        kind, start, count = place
        dtype = np.dtype(kind)
        if count == 0:
            return np.zeros(0, dtype)
        if dtype.hasobject or start < 0 or count < 0 or start % dtype.itemsize:
            raise damaged(self.path, f"no array can lie at {place!r}")
        if start + count * dtype.itemsize > self.buffer.size:
            raise damaged(self.path, f"an array would end beyond it, at {place!r}")
        return np.frombuffer(self.buffer, dtype, count, start)


def damaged(path: Path, why: str) -> DamagedFileError:
    """Return the error for a file of a snapshot that is not as it was written."""
    return DamagedFileError(
        f"{path}: {why}. A snapshot can always be made anew: delete the folder {path.parent}; the "
        f"corpus itself is not concerned"
    )


def digest_of(path: Path) -> str:
    """Return the digest of all bytes of a file."""
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while part := file.read(_STEP):
            found.update(part)
    return found.hexdigest()


def new_name(what: str) -> str:
    """Return a name that no file has had yet, without its suffix; ``what`` is of ``_KINDS``."""
    return f"{what}-{uuid.uuid4().hex[:16]}"


def remove_unnamed(folder: Path, named: Collection[str]) -> None:
    """Remove the files of a folder whose names are of ``new_name``, but for some."""
    for path in folder.iterdir():
        if _FILE.fullmatch(path.name) and path.name not in named:
            with suppress(OSError):  # Windows keeps what somebody has mapped
                path.unlink()


def need_own(folder: Path, own: Collection[str], what: str) -> None:
    """Refuse to write to a folder that has other things in it than were written here.

    Args:
        folder: Maybe not there.
        own: Names of what else may be in it.
        what: What is to be written, with its article.

    Raises:
        ReadOnlyError: It has.
    """
    if not folder.is_dir():
        return
    for name in sorted(os.listdir(folder)):
        if name not in own and not _FILE.fullmatch(name) and not _ASIDE.fullmatch(name):
            raise ReadOnlyError(
                f"{folder} has {name!r} in it, which is not of {what}, and no manifest of one; "
                f"move that elsewhere, and it is made here"
            )


class IpcWriter:
    """Writes record batches to a new Arrow IPC file, uncompressed.

    Used with ``with``: a file that is not finished is removed.

    Args:
        folder: Where it is to lie.
        what: What it is, the first part of its name.
        schema: Of the batches.

    Attributes:
        batches: How many were written.
    """

    def __init__(self, folder: Path, what: str, schema: pa.Schema) -> None:
        self._path = folder / f"{new_name(what)}.arrow"
        self._sink = pa.OSFile(str(self._path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)
        self._done = False
        self.batches = 0

    def __enter__(self) -> IpcWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._done:
            self._sink.close()
            self._path.unlink(missing_ok=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        self._writer.write_batch(batch)
        self.batches += 1

    def finish(self) -> FileEntry:
        """Bring the file to the disk, and return what it is."""
        self._writer.close()
        self._sink.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        entry = FileEntry(self._path.name, self._path.stat().st_size, digest_of(self._path))
        self._done = True
        return entry


def buffers_of(path: Path) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield for every batch of a file where the buffers of each column begin, in bytes."""
    with pa.memory_map(str(path)) as file:
        whole = file.read_buffer()
    reader = pa.ipc.open_file(pa.BufferReader(whole))
    names = reader.schema.names
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        yield {
            name: tuple(
                buffer.address - whole.address for buffer in column.buffers() if buffer is not None
            )
            for name, column in zip(names, batch.columns, strict=True)
        }


class ArrayWriter:
    """Writes arrays of any lengths to one new file, as columns of words; equal ones once.

    Used with ``with``, as ``IpcWriter``.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._file = IpcWriter(folder, what, pa.schema([("word", pa.int64())]))
        self._known: dict[bytes, int] = {}  # digest of an array: its number
        self._places: list[tuple[int, int]] = []  # of every array its batch, and the first byte
        self._small: list[bytes] = []
        self._held = 0

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.__exit__()

    def add(self, array: np.ndarray[Any, Any]) -> int:
        """Add an array; return its number."""
        array = np.ascontiguousarray(array)
        seen = hashlib.blake2b(_bytes_of(array), digest_size=16)
        number = self._known.setdefault(seen.digest(), len(self._places))
        if number < len(self._places):
            return number
        if array.nbytes + self._held > _BATCH:
            self._flush()
        if array.nbytes > _BATCH:
            self._places.append((self._file.batches, 0))
            self._write([_bytes_of(array)], array.nbytes)
            return number
        self._places.append((self._file.batches, self._held))
        self._small.append(array.tobytes() + bytes(-array.nbytes % _WORD))
        self._held += len(self._small[-1])
        return number

    def _flush(self) -> None:
        if self._small:
            self._write(self._small, self._held)
            self._small, self._held = [], 0

    def _write(self, parts: list[Any], size: int) -> None:
        if len(parts) == 1 and size % _WORD == 0:
            words = np.frombuffer(parts[0], np.int64)
        else:
            words = np.frombuffer(b"".join(parts) + bytes(-size % _WORD), np.int64)
        column = pa.Array.from_buffers(pa.int64(), len(words), [None, pa.py_buffer(words)])
        self._file.write(pa.RecordBatch.from_arrays([column], ["word"]))

    def finish(self) -> tuple[FileEntry, list[int]]:
        """Return the file, and where in it each array begins, by number."""
        self._flush()
        entry = self._file.finish()
        starts = [
            of["word"][-1] if of["word"] else 0 for of in buffers_of(self._folder / entry.name)
        ]
        return entry, [starts[batch] + first if starts else 0 for batch, first in self._places]


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of an array without a copy."""
    return array.reshape(-1).view(np.uint8).data


def entry_of(value: Mapping[str, Any]) -> FileEntry:
    """Return a file as a manifest tells of it.

    Raises:
        ValueError: Its name is none that ``new_name`` makes.
    """
    if not _FILE.fullmatch(value["name"]):
        raise ValueError(f"{value['name']!r} is no name of a file of a snapshot")
    return FileEntry(str(value["name"]), int(value["size"]), str(value["digest"]))
