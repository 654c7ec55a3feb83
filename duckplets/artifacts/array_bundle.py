"""Keep what was worked out of a corpus, such as pools, by keys: arrays in a file, the rest as JSON.

    objects ─taken apart→ arrays → NAME.arrow, plain values and places → NAME.json
    key → plain values and views of the mapped file ─put together→ the object

A dataclass is taken apart field by field, whatever it holds in turn. An array of one value, and
one that counts from 0, are told instead of stored; equal arrays of a file are stored once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from duckplets.artifacts.mapped_arrays import ArrayWriter, FileEntry, MappedFile, damaged, entry_of
from duckplets.base.arrays import Integers
from duckplets.base.names import inside
from duckplets.errors import DamagedFileError

T = TypeVar("T")
_ALL_SAME, _COUNTED = "same", "counted"


def key_of(*what: Any) -> str:
    """Return a short name of plain values: equal ones have equal names."""
    text = json.dumps(what, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Two files with what was kept at once, as a manifest names them.

    Attributes:
        arrays: The arrays.
        index: What is where in them, as JSON.
        version: Of the corpus, at which they were made.
    """

    arrays: FileEntry
    index: FileEntry
    version: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Bundle:
        """Return one as a manifest tells of it."""
        return cls(entry_of(value["arrays"]), entry_of(value["index"]), int(value["version"]))


def write(folder: Path, version: int, objects: Mapping[str, Any]) -> Bundle:
    """Write objects by their keys: dataclasses, arrays, plain values, lists and dicts of these."""
    longest = 0
    with ArrayWriter(folder, "arrays") as writer:

        def apart(value: Any) -> Any:
            nonlocal longest
            if isinstance(value, np.ndarray):
                told = _told(value)
                if told is not None and told[0] == _COUNTED:
                    longest = max(longest, len(value))
                return {"array": told or [value.dtype.str, writer.add(value), len(value)]}
            if is_dataclass(value) and not isinstance(value, type):
                return {"of": {f.name: apart(getattr(value, f.name)) for f in fields(value)}}
            if isinstance(value, list | tuple):
                return {"list": [apart(item) for item in value]}
            return {"plain": value}

        entries = {key: apart(value) for key, value in objects.items()}
        counted = writer.add(np.arange(longest, dtype=np.int64))
        arrays, starts = writer.finish()
    index = {"entries": entries, "starts": starts, "counted": [counted, longest]}
    path = folder / arrays.name.replace(".arrow", ".json")
    data = json.dumps(index).encode()
    path.write_bytes(data)
    named = FileEntry(path.name, len(data), hashlib.blake2b(data, digest_size=16).hexdigest())
    return Bundle(arrays, named, version)


def _told(array: np.ndarray[Any, Any]) -> list[Any] | None:
    """Return what stands for an array that need not be stored."""
    if array.ndim != 1 or len(array) < 2:
        return None
    first = array[0]
    if array[-1] == first and not np.any(array != first):
        return [_ALL_SAME, array.dtype.str, first.item(), len(array)]
    is_counted = array.dtype == np.int64 and first == 0 and array[-1] == len(array) - 1
    if is_counted and not np.any(np.diff(array) != 1):
        return [_COUNTED, len(array)]
    return None


class Opened:
    """A bundle that is mapped, from which objects are put together.

    Args:
        folder: Where its files lie.
        bundle: What they should be.

    Raises:
        DamagedFileError: They are not there, or not as they were written.
    """

    def __init__(self, folder: Path, bundle: Bundle) -> None:
        self._path = inside(folder, bundle.index.name, DamagedFileError)
        self._file = MappedFile(folder, bundle.arrays)
        try:
            data = self._path.read_bytes()
        except OSError as error:
            raise damaged(self._path, error.strerror or str(error)) from error
        if hashlib.blake2b(data, digest_size=16).hexdigest() != bundle.index.digest:
            raise damaged(self._path, "it is not as it was written")
        index = json.loads(data)
        self._entries: dict[str, Any] = index["entries"]
        self._starts: list[int] = index["starts"]
        number, count = index["counted"]
        self._counted: Integers = self._file.view(("<i8", self._starts[number], count))

    @property
    def keys(self) -> frozenset[str]:
        """Of all it holds."""
        return frozenset(self._entries)

    def get(self, key: str, of: type[T]) -> T:
        """Return the object of a key, of a type."""
        found: T = self._together(self._entries[key], of)
        return found

    def _together(self, told: Mapping[str, Any], of: Any) -> Any:
        if "plain" in told:
            return told["plain"]
        if "array" in told:
            return self._array(told["array"])
        if "list" in told:
            return [self._together(item, object) for item in told["list"]]
        kind = _class_of(of)
        hints = _hints(kind)
        return kind(**{n: self._together(value, hints[n]) for n, value in told["of"].items()})

    def _array(self, told: list[Any]) -> np.ndarray[Any, Any]:
        if told[0] == _COUNTED:
            return self._counted[: told[1]]
        if told[0] == _ALL_SAME:
            _, kind, value, count = told
            return np.broadcast_to(np.array(value, np.dtype(kind)), count)
        kind, number, count = told
        return self._file.view((kind, self._starts[number], count))


@lru_cache
def _hints(of: type) -> dict[str, Any]:
    return get_type_hints(of)


def _class_of(of: Any) -> Any:
    """Return the dataclass that a type is, or that it is if it is not None."""
    if get_origin(of) is UnionType or type(None) in get_args(of):
        return next(kind for kind in get_args(of) if is_dataclass(kind))
    return of
