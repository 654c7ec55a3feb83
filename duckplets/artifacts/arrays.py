"""Write arrays into files, map such files, and store objects made of arrays by key.

arrays ─ArrayWriter→ KIND-XXXX.npy and their places ─ArrayFile→ arrays without a copy
objects ─write_bundle→ a file of arrays, and one of JSON ─Bundle→ the objects

A file is one NumPy array of bytes with arrays end to end. The place of each array is stored outside
the file and checked against its size, so a damaged entry cannot point beyond it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.lib.mixins import NDArrayOperatorsMixin

from duckplets.artifacts.folder import FileEntry, damaged, new_path
from duckplets.artifacts.read_ahead import CAN_ADVISE
from duckplets.base.atomic import naming
from duckplets.base.names import inside
from duckplets.base.sanitize import shown
from duckplets.errors import ChangedFileError, DamagedFileError, DuckpletsError

T = TypeVar("T")
Array = np.ndarray[Any, Any]

_HEAD = 128  # bytes of the file's header
_WORD = 8  # alignment of arrays in the file
_STEP = 1 << 20  # values compared at a time
_SAME, _COUNTED = "same", "counted"


class ArrayWriter:
    """Writes arrays end to end into a new file; as a context it removes an unfinished file."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._path = new_path(folder, kind, ".npy")
        self._file = self._path.open("w+b")
        self.size = _HEAD  # bytes written so far
        self._known: dict[bytes, list[Any]] = {}  # entry of each array written, by digest
        self._scratch = ExitStack()
        self._done = False

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with naming(self._path), self._scratch:
                self._file.close()
        finally:
            if not self._done:
                self._path.unlink(missing_ok=True)

    def append(self, data: Any) -> int:
        """Write bytes at the end of the file and return their offset."""
        begin = self.size
        with naming(self._path):
            self._file.seek(begin)
            self._file.write(data)
        self.size += memoryview(data).nbytes
        return begin

    def scratch(self, dtype: Any) -> GrowingArray:
        """Return an array to append to, in a temporary file."""
        return self._scratch.enter_context(GrowingArray(self._path, dtype))

    def add_column(self, array: Array) -> list[Any]:
        """Write an array, integers in the smallest unsigned type; return its entry."""
        kind = array.dtype
        if kind.kind == "i" and len(array) and array.min() >= 0:
            kind = np.min_scalar_type(array.max())
        if entry := repeated(array):
            return entry
        self.append(bytes(-self.size % _WORD))
        begin = self.size
        for low in range(0, len(array), _STEP):
            self.append(array[low : low + _STEP].astype(kind, copy=False).data)
        return [kind.str, begin, len(array)]

    def add(self, array: Array) -> list[Any]:
        """Write an array, unless the file has an equal one; return its entry."""
        if entry := repeated(array):
            return entry
        array = np.ascontiguousarray(array)
        data = array.reshape(-1).view(np.uint8).data
        digest = hashlib.blake2b(data, digest_size=16).digest() + array.dtype.str.encode()
        if digest not in self._known:
            self.append(bytes(-self.size % _WORD))
            self._known[digest] = [array.dtype.str, self.append(data), len(array)]
        return self._known[digest]

    def finish(self) -> FileEntry:
        """Flush the file to disk and return its manifest entry."""
        size = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({self.size - _HEAD},), }}"
        with naming(self._path):
            self._file.seek(0)
            head = b"\x93NUMPY\x01\x00\x76\x00" + size.ljust(_HEAD - 11).encode() + b"\n"
            self._file.write(head)
            self._file.truncate(self.size)
            self._file.flush()
            os.fsync(self._file.fileno())
        entry = FileEntry.of(self._path)
        self._done = True
        return entry


class GrowingArray:
    """An array that grows at its end, in a temporary file in the folder of a path."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self._path, self._dtype, self._count = path, np.dtype(dtype), 0
        with naming(path):
            self._file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - __exit__ closes

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, values: Array) -> None:
        """Append values, cast to its type."""
        with naming(self._path):
            self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._count += len(values)

    def array(self) -> Array:
        """Return all values, mapped; no value can be appended afterwards."""
        with naming(self._path), self._file:
            self._file.flush()
            if not self._count:
                return np.zeros(0, self._dtype)
            return np.memmap(self._file, self._dtype, "r+", shape=(self._count,))


def repeated(array: Array) -> list[Any] | None:
    """Return the entry of a constant array or of a range, or None for other arrays."""
    if array.ndim != 1 or len(array) < 2:
        return None
    first, last, steps = array[0], array[-1], range(0, len(array), _STEP)
    if last == first and all(np.all(array[at : at + _STEP] == first) for at in steps):
        return [_SAME, array.dtype.str, first.item(), len(array)]
    counts = array.dtype == np.int64 and last - first == len(array) - 1
    if counts and all(np.all(np.diff(array[at : at + _STEP + 1]) == 1) for at in steps):
        return [_COUNTED, len(array), first.item()]
    return None


class MappedFile:
    """A file that is memory-mapped for reading."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        try:
            self.descriptor = os.open(self.path, os.O_RDONLY)
            weakref.finalize(self, os.close, self.descriptor)
            self._map = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise self.damaged(getattr(error, "strerror", None) or str(error)) from error
        self.buffer: pa.Buffer = pa.py_buffer(self._map)
        if self.buffer.size != size:
            raise self.damaged(f"it has {self.buffer.size:,} bytes instead of {size:,}")

    def damaged(self, why: str) -> DuckpletsError:
        """Return the error for a file that has changed."""
        return ChangedFileError(
            f"{shown(self.path)}: {why}. The corpus reads its texts there: restore the file"
        )

    def expect(self, begin: int, end: int) -> None:
        """Advise the system to read a whole region ahead."""
        if CAN_ADVISE:
            os.posix_fadvise(self.descriptor, begin, end - begin, os.POSIX_FADV_WILLNEED)

    def expect_random(self, end: int) -> None:
        """Advise the system to read single pages, up to an offset."""
        if hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM, 0, end)


class ArrayFile(MappedFile):
    """A file of arrays, memory-mapped for reading."""

    def __init__(self, folder: Path, entry: FileEntry) -> None:
        super().__init__(inside(folder, entry.name, DamagedFileError), entry.size)

    def damaged(self, why: str) -> DuckpletsError:
        """Return the error for a damaged file, which can be rebuilt."""
        return damaged(self.path, why)

    def array(self, entry: list[Any]) -> Any:
        """Return the array of an entry, read-only; a range is an object with the same indexes."""
        if entry[0] == _SAME:
            _, kind, value, count = entry
            return np.broadcast_to(np.array(value, np.dtype(kind)), count)
        if entry[0] == _COUNTED:
            return _Counting(*entry[1:])
        kind, begin, count = entry
        dtype = np.dtype(kind)
        if count == 0:
            return np.zeros(0, dtype)
        if dtype.hasobject or begin < _HEAD or count < 0 or begin % dtype.itemsize:
            raise self.damaged(f"no array can be at {entry!r}")
        if begin + count * dtype.itemsize > self.buffer.size:
            raise self.damaged(f"an array would end beyond it, at {entry!r}")
        return np.frombuffer(self.buffer, dtype, count, begin)


class _Counting(NDArrayOperatorsMixin):
    """Consecutive integers; as an array they would take eight bytes each."""

    def __init__(self, count: int, first: int = 0) -> None:
        self._range = range(first, first + count)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice) and rows.step is None:
            part = self._range[rows]
            return _Counting(len(part), part.start)
        at = np.asarray(rows)
        if at.dtype == bool or (at.size and not 0 <= at.min() <= at.max() < len(self)):
            return np.asarray(self)[rows]
        return at + np.int64(self._range.start)

    def searchsorted(self, values: Any, side: str = "left", sorter: None = None) -> Any:
        return np.clip(values - self._range.start + (side == "right"), 0, len(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.arange(self._range.start, self._range.stop, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = (np.asarray(a) if isinstance(a, _Counting) else a for a in inputs)
        return getattr(ufunc, method)(*arrays, **options)


# -- objects by keys ----------------------------------------------------------------------------


def key_of(*values: Any) -> str:
    """Return a short key of plain values; equal values have equal keys."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def write_bundle(folder: Path, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Write objects by key: dataclasses, arrays, plain values, lists and dicts of these."""
    with ArrayWriter(folder, "arrays") as writer:
        entries = {key: _described(value, writer) for key, value in objects.items()}
        arrays = writer.finish()
    path = new_path(folder, "arrays", ".json")
    with naming(path):
        path.write_text(json.dumps(entries), encoding="utf-8")
    return {"arrays": asdict(arrays), "index": asdict(FileEntry.of(path))}


def _described(value: Any, writer: ArrayWriter) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": writer.add(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return {"of": {f.name: _described(getattr(value, f.name), writer) for f in fields(value)}}
    if isinstance(value, list | tuple):
        return {"list": [_described(item, writer) for item in value]}
    return {"plain": value}


class Bundle:
    """Objects written by ``write_bundle``, memory-mapped."""

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        index = FileEntry(**described["index"])
        path = inside(folder, index.name, DamagedFileError)
        self._file = ArrayFile(folder, FileEntry(**described["arrays"]))
        self._file.expect(0, self._file.buffer.size)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise damaged(path, error.strerror or str(error)) from error
        if hashlib.blake2b(data, digest_size=16).hexdigest() != index.digest:
            raise damaged(path, "it is not as it was written")
        self._entries: dict[str, Any] = json.loads(data)

    @property
    def keys(self) -> Iterable[str]:
        """Return the keys of all objects."""
        return self._entries.keys()

    def get(self, key: str, of: type[T]) -> T:
        """Return the object of a key, built as the given type."""
        found: T = self._built(self._entries[key], of)
        return found

    def _built(self, described: Mapping[str, Any], of: Any) -> Any:
        if "plain" in described:
            return described["plain"]
        if "array" in described:
            return self._file.array(described["array"])
        if "list" in described:
            inner = next(iter(get_args(of)), object)
            return [self._built(item, inner) for item in described["list"]]
        kind: Any = next((k for k in get_args(of) if is_dataclass(k)), of)  # for Kind | None
        hints = _hints(kind)
        return kind(**{n: self._built(value, hints[n]) for n, value in described["of"].items()})


_hints = lru_cache(get_type_hints)
