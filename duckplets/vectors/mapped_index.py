"""Write large sets of vectors into files beside the snapshot, and map them.

    packed_vectors_N ─commits that are new→ vectors-*.arrow ┐
                      hashes, ascending   → index-*.arrow   ┴─ N.json names them

They lie in a folder of their own within that of the snapshot. New commits become a file of their
own, which takes in its neighbours while they are small; files are never changed. What is not there
or of another state of the set is made anew, so the folder can always be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.artifacts.mapped_arrays import (
    ArrayWriter,
    FileEntry,
    IpcWriter,
    MappedFile,
    Place,
    buffers_of,
    damaged,
    digest_of,
    entry_of,
    need_own,
    remove_unnamed,
)
from duckplets.base.arrays import Integers, Words
from duckplets.base.atomic import aside_of, sweep
from duckplets.base.locks import lock
from duckplets.base.names import inside
from duckplets.errors import DamagedFileError
from duckplets.serving.snapshot import VECTORS, check_own, folder_of
from duckplets.vectors.sets import Matrix, VectorSet
from duckplets.vectors.store import VectorStore

_FORMAT = 1
_LOCK = "lock"
_MANIFEST = re.compile(r"(0|[1-9][0-9]{0,18})\.json")


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """Rows of vectors that lie in one array, in several runs of rows.

    Attributes:
        first: Number of the first row.
        rows: How many there are.
        flat: The numbers, and maybe others between them: shape (m,).
        dimension: Numbers of a row.
        firsts: First row of every run, counted within the stretch: shape (runs,).
        starts: Where in ``flat`` each run begins: shape (runs,).
        path: The file, for messages; None in memory.
    """

    first: int
    rows: int
    flat: npt.NDArray[np.floating[Any]]
    dimension: int
    firsts: Integers
    starts: Integers
    path: Path | None = None

    @classmethod
    def of(cls, matrix: Matrix) -> Stretch:
        """Return the rows of a matrix in memory."""
        zero = np.zeros(1, np.int64)
        return cls(0, len(matrix), matrix.reshape(-1), matrix.shape[1], zero, zero)

    def take(self, rows: Integers) -> Matrix:
        """Return some of the rows: shape (n, dimension).

        Raises:
            DamagedFileError: There is no such row.
        """
        within = rows - self.first
        if len(within) and (within.min() < 0 or within.max() >= self.rows):
            raise damaged(self.path or Path("memory"), "a vector would lie beyond it")
        if len(within) == 0:
            return np.zeros((0, self.dimension), self.flat.dtype)
        if len(self.firsts) == 1:
            at = within * self.dimension + self.starts[0]
        else:
            run = np.searchsorted(self.firsts, within, side="right") - 1
            at = (within - self.firsts[run]) * self.dimension + self.starts[run]
        # Every place of the array begins a window as wide as a vector; nothing is copied for that.
        windows = np.lib.stride_tricks.sliding_window_view(self.flat, self.dimension)
        return cast(Matrix, windows[at])


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A file of vectors, as the manifest names it.

    Attributes:
        file: The file.
        low: The commit before its first.
        high: Its last commit.
        rows: How many vectors it has.
        runs: Of every batch its rows and its first byte.
    """

    file: FileEntry
    low: int
    high: int
    rows: int
    runs: list[list[int]]


@dataclass(frozen=True, slots=True)
class _Manifest:
    """Which files have a set, and what of it.

    Attributes:
        set_id: Of the set.
        name: Of the set.
        dimension: Of the set.
        dtype: Of the set.
        number: The last commit they have.
        digest: Of that commit.
        vectors: How many they have; fewer are in the set once some were dropped.
        parts: Files of vectors, by commits.
        index: File of hashes, rows and commits.
        places: Of these in it.
    """

    set_id: int
    name: str
    dimension: int
    dtype: str
    number: int
    digest: str
    vectors: int
    parts: list[PartEntry]
    index: FileEntry
    places: list[list[Any]]

    @property
    def files(self) -> list[FileEntry]:
        return [*(part.file for part in self.parts), self.index]


@dataclass(frozen=True, eq=False, slots=True)
class MappedSet:
    """A set that is mapped.

    Attributes:
        hashes: Ascending: shape (n,).
        order: Row of each: shape (n,).
        numbers: Commit of each: shape (n,).
        stretches: The rows.
    """

    hashes: Words
    order: Integers
    numbers: npt.NDArray[np.int32]
    stretches: list[Stretch]


def vectors_folder(corpus_path: Path) -> Path:
    """Return where the mapped vectors of a corpus lie."""
    return folder_of(corpus_path) / VECTORS


def opened(store: VectorStore, of: VectorSet, corpus_path: Path) -> MappedSet:
    """Return a set, mapped; what of it is not in files yet is written first.

    Raises:
        OSError: It cannot be written.
        DamagedFileError: It is not as it was written.
    """
    folder = vectors_folder(corpus_path)
    for again in (True, False):
        manifest = _of_set(folder, store, of)
        if manifest is None:
            check_own(folder.parent)
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(folder):
                manifest = _of_set(folder, store, of) or _write(folder, store, of)
        try:
            return _mapped(folder, manifest)
        except (OSError, ValueError) as error:
            # Who wrote the next one may have removed a file that this one names.
            if not again or _read(folder, of.set_id) == manifest:
                raise damaged(folder / _name(of.set_id), str(error)) from error
    raise damaged(folder / _name(of.set_id), "it was changed meanwhile")


def _of_set(folder: Path, store: VectorStore, of: VectorSet) -> _Manifest | None:
    """Return the manifest of a set if it has all of it."""
    found = _read(folder, of.set_id)
    return found if found and found.number >= of.number and _goes_on(found, store, of) else None


def _goes_on(found: _Manifest, store: VectorStore, of: VectorSet) -> bool:
    """Whether files are of a set as it was at a commit that it still has, with all it had then."""
    if (found.name, found.dimension, found.dtype) != (of.name, of.dimension, of.dtype):
        return False
    commits = store.commits(of)
    there = sum(added - gone for number, _, added, gone in commits if number <= found.number)
    return there == found.vectors and any(
        (number, digest) == (found.number, found.digest) for number, digest, _, _ in commits
    )


def _read(folder: Path, set_id: int) -> _Manifest | None:
    """Return the manifest of a set; None where there is none, or none that can be read."""
    try:
        told = json.loads((folder / _name(set_id)).read_bytes())
        if told.pop("digest_of_all") != _digest(told) or told.pop("format") != _FORMAT:
            return None
        parts = [PartEntry(entry_of(p.pop("file")), **p) for p in told.pop("parts")]
        return _Manifest(parts=parts, index=entry_of(told.pop("index")), **told)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _name(set_id: int) -> str:
    return f"{set_id}.json"


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _mapped(folder: Path, manifest: _Manifest) -> MappedSet:
    index = MappedFile(folder, manifest.index)
    hashes, order, numbers = (index.view(cast(Place, tuple(p))) for p in manifest.places)
    stretches, first = [], 0
    dtype = np.dtype("<f2" if manifest.dtype == "float16" else "<f4")
    for part in manifest.parts:
        file = MappedFile(folder, part.file)
        flat = file.view((dtype.str, 0, file.buffer.size // dtype.itemsize))
        counts, begins = (np.array(values, np.int64) for values in zip(*part.runs, strict=True))
        starts = begins // dtype.itemsize
        ends = starts + counts * manifest.dimension
        if counts.sum() != part.rows or starts.min() < 0 or ends.max() > len(flat):
            raise damaged(file.path, "vectors would end beyond it")
        firsts = np.cumsum(counts) - counts
        stretches.append(
            Stretch(first, part.rows, flat, manifest.dimension, firsts, starts, file.path)
        )
        first += part.rows
    return MappedSet(hashes, order, numbers, stretches)


def _write(folder: Path, store: VectorStore, of: VectorSet) -> _Manifest:
    """Write what is new of a set, and a manifest that names all of it."""
    before = _read(folder, of.set_id)
    if before is not None and (before.number > of.number or not _goes_on(before, store, of)):
        before = None
    parts = [] if before is None else list(before.parts)
    commits = store.commits(of)
    low = parts[-1].high if parts else 0
    count = sum(added - gone for number, _, added, gone in commits if low < number <= of.number)
    while parts and parts[-1].rows <= 2 * count:
        low, count = parts[-1].low, count + parts.pop().rows
    kept = sum(part.rows for part in parts)
    part, fresh, numbers = _write_part(folder, store, of, low)
    parts.append(part)
    rows = np.arange(kept, kept + len(fresh), dtype=np.int64)
    if kept and before is not None:
        known = _mapped(folder, before)
        old = known.order < kept
        fresh = np.concatenate([known.hashes[old], fresh])
        rows = np.concatenate([known.order[old], rows])
        numbers = np.concatenate([known.numbers[old], numbers])
    ascending = np.argsort(fresh, kind="stable")
    arrays: list[np.ndarray[Any, Any]] = [fresh[ascending], rows[ascending], numbers[ascending]]
    with ArrayWriter(folder, "index") as writer:
        which = [writer.add(array) for array in arrays]
        index, begins = writer.finish()
    places = [
        [array.dtype.str, begins[at], len(array)] for array, at in zip(arrays, which, strict=True)
    ]
    manifest = _Manifest(
        *(of.set_id, of.name, of.dimension, of.dtype, of.number, of.digest, len(fresh)),
        *(parts, index, places),
    )
    _put(folder, manifest)
    _sweep(folder)
    return manifest


def _write_part(
    folder: Path, store: VectorStore, of: VectorSet, low: int
) -> tuple[PartEntry, Words, npt.NDArray[np.int32]]:
    """Write the vectors after a commit to a new file; return it, their hashes and commits."""
    of_number = pa.float16() if of.dtype == "float16" else pa.float32()
    kind = pa.list_(of_number, of.dimension)
    hashes: list[Words] = []
    numbers: list[npt.NDArray[np.int32]] = []
    with IpcWriter(folder, "vectors", pa.schema([("vector", kind)])) as writer:
        for some, commits, matrix in store.numbered(of, after=low):
            flat = pa.Array.from_buffers(of_number, matrix.size, [None, pa.py_buffer(matrix)])
            packed = pa.FixedSizeListArray.from_arrays(flat, of.dimension)
            writer.write(pa.RecordBatch.from_arrays([packed], ["vector"]))
            hashes.append(some.copy())
            numbers.append(commits.copy())
        file = writer.finish()
    begins = [batch["vector"][-1] for batch in buffers_of(folder / file.name)]
    runs = [[len(some), begin] for some, begin in zip(hashes, begins, strict=True)]
    count = sum(map(len, hashes))
    every = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
    of_commit = np.concatenate(numbers) if numbers else np.zeros(0, np.int32)
    return PartEntry(file, low, of.number, count, runs), every, of_commit.astype(np.int32)


def _put(folder: Path, manifest: _Manifest) -> None:
    told = json.loads(json.dumps(asdict(manifest) | {"format": _FORMAT}))
    path = folder / _name(manifest.set_id)
    aside = aside_of(path)
    with aside.open("w", encoding="utf-8") as file:
        json.dump(told | {"digest_of_all": _digest(told)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def _manifests(folder: Path) -> Iterator[tuple[Path, _Manifest | None]]:
    for path in sorted(folder.glob("*.json")):
        if _MANIFEST.fullmatch(path.name):
            yield path, _read(folder, int(path.stem))


def _sweep(folder: Path) -> None:
    """Remove the files of a folder that no manifest names."""
    found = dict(_manifests(folder))
    for path in found:
        sweep(path)
    named = {file.name for manifest in found.values() if manifest for file in manifest.files}
    remove_unnamed(folder, named)


def clean(corpus_path: Path, sets: Sequence[VectorSet]) -> None:
    """Remove the files of sets that are there no more."""
    folder = vectors_folder(corpus_path)
    if not folder.is_dir():
        return
    store, there = VectorStore(corpus_path), {of.set_id: of for of in sets}
    with _alone(folder):
        for path, manifest in _manifests(folder):
            of = None if manifest is None else there.get(manifest.set_id)
            if manifest is None or of is None or not _goes_on(manifest, store, of):
                path.unlink(missing_ok=True)
        _sweep(folder)


def verify(corpus_path: Path) -> Iterator[str]:
    """Yield what is wrong with the bytes of mapped vectors."""
    folder = vectors_folder(corpus_path)
    for path, manifest in _manifests(folder) if folder.is_dir() else ():
        if manifest is None:
            yield f"{path} is not as it was written"
            continue
        for file in manifest.files:
            try:
                inside(folder, file.name, DamagedFileError)
                size = (folder / file.name).stat().st_size
                if size != file.size or digest_of(folder / file.name) != file.digest:
                    yield f"{folder / file.name} is not as it was written"
            except DamagedFileError as error:
                yield str(error)
            except OSError as error:
                yield f"{folder / file.name}: {error.strerror or error}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process write in a folder meanwhile.

    Raises:
        ReadOnlyError: It holds somebody else's files, and no manifest.
    """
    if not any(_manifests(folder)):
        need_own(folder, (_LOCK,), "the vectors of a snapshot")
    with (folder / _LOCK).open("ab") as file:
        lock(file, wait=True)
        yield
