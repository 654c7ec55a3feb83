"""Open a set of vectors to look texts up in: in memory, or a large one in files that are mapped.

    packed_vectors_N ─commits that are new→ vectors-*.npy ┐
                      hashes, ascending   → index-*.npy   ┴─ N.json ─mapped→ OpenedVectors
    text hashes ─among the ascending ones→ rows ─one copy→ (n, dimension)

The vector file is the truth. Mapped copies lie in the folder of the snapshot: new commits become a
file of their own, which takes in its neighbours while they are small. What is not there, or of
another state of the set, is made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.artifacts.arrays import ArrayFile, ArrayWriter
from duckplets.artifacts.folder import ArtifactFolder, FileEntry, damaged
from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.base.arrays import Integers, Words, places
from duckplets.base.columns import text_column
from duckplets.base.prefetch import IsStopped
from duckplets.base.sanitize import shown
from duckplets.errors import DamagedFileError, ReadOnlyError, VectorError
from duckplets.serving import snapshot
from duckplets.vectors.store import Matrix, VectorSet, VectorStore

_HELD = 64 << 20  # bytes of vectors: smaller sets are read into memory
_BLOCK = 16 << 20  # bytes that ``blocks`` yields at once
_FORMAT = 3


@dataclass(frozen=True, eq=False)
class OpenedVectors:
    """The vectors of a set up to a commit."""

    of: VectorSet  # as of that commit
    hashes: Words  # of the texts that have one: ascending, shape (n,)
    order: Integers  # row of each of the hashes: shape (n,)
    parts: list[Matrix]  # the vectors, row after row; if mapped, perhaps those of later commits too
    notes: tuple[str, ...] = ()  # what a user should know of how it is opened
    files: tuple[tuple[ArrayFile, int], ...] = ()  # of each part that is mapped, its first byte

    def rows(self, hashes: Words) -> Integers:
        """Return the row of each text, or -1 where it has no vector: shape (m,)."""
        ascending = np.argsort(hashes)  # so that neighbours are found near each other
        at = places(self.hashes, hashes[ascending])
        rows = np.empty(len(hashes), np.int64)
        rows[ascending] = np.where(at < 0, -1, self.order[at]) if len(self.order) else at
        return rows

    def take(self, rows: Integers) -> Matrix:
        """Return the vectors of some rows, copied once: shape (m, dimension).

        Raises:
            DamagedFileError: A row lies beyond what there is.
        """
        if len(rows) and (rows.min() < 0 or rows.max() >= sum(map(len, self.parts))):
            raise damaged(None, f"a vector of {self.of.name!r} would lie beyond its files")
        if len(self.parts) == 1:
            return self.parts[0].take(rows, axis=0)
        made = np.empty((len(rows), self.of.dimension), self.of.numpy_type)
        first = 0
        for part in self.parts:
            at = np.flatnonzero((rows >= first) & (rows < first + len(part)))
            made[at] = part.take(rows[at] - first, axis=0)
            first += len(part)
        return made

    def read_ahead(self, rows: Integers, reads: ReadAhead, is_stopped: IsStopped) -> None:
        """Have the vectors of some rows in memory before they are taken."""
        first, width = 0, self.of.width
        for (file, begin), part in zip(self.files, self.parts, strict=False):
            within = rows[(rows >= first) & (rows < first + len(part))] - first
            reads.touch(file, begin + within * width, np.full_like(within, width), is_stopped)
            first += len(part)

    def blocks(self) -> Iterator[tuple[Words, Matrix]]:
        """Yield all vectors with their hashes, in the order of their rows, in blocks."""
        of_rows = np.argsort(self.order, kind="stable")
        step = max(1, _BLOCK // self.of.width)
        for low in range(0, len(of_rows), step):
            at = of_rows[low : low + step]
            yield self.hashes[at], self.take(self.order[at])


def opened(
    corpus_path: Path, name: str, number: int | None = None, folder: Path | None = None
) -> OpenedVectors:
    """Open the vectors of a corpus, up to a commit or the last.

    A large set is mapped in the folder of the snapshot, by default that beside the corpus.

    Raises:
        VectorError: There is no such set or commit, or the file is not as it was written.
    """
    store = VectorStore(corpus_path)
    now = store.need(name)
    of = now if number is None else now.as_of(number)
    size = of.vectors * of.width
    if size <= _HELD:
        return _held(store, of)
    try:
        return _mapped(store, now, of, _folder(corpus_path, folder))
    except (OSError, DamagedFileError, ReadOnlyError) as error:
        why = shown(getattr(error, "strerror", None) or str(error), 400)
        note = f"vectors {name!r} are held in memory, {size:,} bytes in each process: {why}"
        return replace(_held(store, of), notes=(note,))


def _held(store: VectorStore, of: VectorSet) -> OpenedVectors:
    """Read a set into memory."""
    hashes = np.zeros(of.vectors, np.uint64)
    matrix = np.zeros((of.vectors, of.dimension), of.numpy_type)
    count = 0
    for some, _, vectors in store.read(of):
        if count + len(some) <= of.vectors:
            hashes[count : count + len(some)], matrix[count : count + len(some)] = some, vectors
        count += len(some)
    if count != of.vectors:
        raise VectorError(
            f"{store.path} is damaged: vectors {of.name!r} should be {of.vectors:,} up to commit "
            f"{of.number}, and others are there; put a copy of the file in its place"
        )
    order = np.argsort(hashes, kind="stable")
    return OpenedVectors(of, hashes[order], order, [matrix])


# -- in files that are mapped --------------------------------------------------------------------


def _folder(corpus_path: Path, folder: Path | None = None) -> ArtifactFolder:
    within = folder or snapshot.folder_of(corpus_path)
    snapshot.check_own(within)
    path = within / snapshot.VECTORS
    return ArtifactFolder(path, "the vectors of a snapshot", r"(0|[1-9][0-9]{0,18})\.json", _FORMAT)


def _mapped(
    store: VectorStore, now: VectorSet, of: VectorSet, folder: ArtifactFolder
) -> OpenedVectors:
    """Map a set up to a commit; what is new is written first."""
    for again in (True, False):
        manifest = _of_set(folder, now)
        if manifest is None:
            with folder.locked():
                manifest = _of_set(folder, now) or _write(folder, store, now)
        try:
            hashes, order, parts, files = _arrays(folder.path, manifest)
        except DamagedFileError:
            # Who wrote the next one may have removed a file that this one names.
            if not again or _read(folder, now.set_id) == manifest:
                raise
            continue
        if of.vectors < len(hashes):  # rows lie as they were added
            hashes, order = hashes[order < of.vectors], order[order < of.vectors]
        return OpenedVectors(of, hashes, order, parts, files=tuple(files))
    raise AssertionError


def _read(folder: ArtifactFolder, set_id: int) -> dict[str, Any] | None:
    """Return the manifest of a set; None where there is none, or none that can be read."""
    try:
        return folder.read(f"{set_id}.json")
    except DamagedFileError:
        return None


def _of_set(folder: ArtifactFolder, of: VectorSet) -> dict[str, Any] | None:
    """Return the manifest of a set if it has all of it."""
    found = _read(folder, of.set_id)
    return found if found and found["number"] >= of.number and _goes_on(found, of) else None


def _goes_on(found: dict[str, Any], of: VectorSet) -> bool:
    """Whether files are of a set as it was at a commit that it still has, with all it had then."""
    try:
        then = of.as_of(found["number"])
    except VectorError:
        return False
    told = [[then.name, then.dimension, then.dtype], then.digest, then.vectors]
    return told == [found["of"], found["digest"], found["vectors"]]


def _arrays(
    folder: Path, manifest: dict[str, Any]
) -> tuple[Words, Integers, list[Matrix], list[tuple[ArrayFile, int]]]:
    """Map the hashes of a set, their rows, its vectors, and where these lie."""
    index = ArrayFile(folder, FileEntry(**manifest["index"]))
    hashes, order = (np.asarray(index.array(told)) for told in manifest["columns"])
    parts, files = [], []
    for part in manifest["parts"]:
        file = ArrayFile(folder, FileEntry(**part["file"]))
        files.append((file, int(part["numbers"][1])))
        parts.append(file.array(part["numbers"]).reshape(part["rows"], manifest["of"][1]))
    return hashes, order, parts, files


def _write(folder: ArtifactFolder, store: VectorStore, of: VectorSet) -> dict[str, Any]:
    """Write what is new of a set, and a manifest that names all of it."""
    before = _read(folder, of.set_id)
    if before is not None and (before["number"] > of.number or not _goes_on(before, of)):
        before = None
    parts, low, kept = [], 0, 0
    if before is not None:
        parts, low, kept = list(before["parts"]), before["number"], before["vectors"]
    while parts and parts[-1]["rows"] <= 2 * (of.vectors - kept):
        low, kept = parts[-1]["after"], kept - parts.pop()["rows"]
    found, begin = [np.zeros(0, np.uint64)], 0
    with ArrayWriter(folder.path, "vectors") as writer:
        for hashes, _, matrix in store.read(of, after=low):
            begin = begin or writer.append(b"")
            writer.append(np.ascontiguousarray(matrix).reshape(-1).view(np.uint8).data)
            found.append(hashes.copy())
        hashes = np.concatenate(found)
        told = [of.numpy_type.str, begin, len(hashes) * of.dimension]
        file = asdict(writer.finish())
    parts.append({"after": low, "rows": len(hashes), "numbers": told, "file": file})
    rows = np.arange(kept, kept + len(hashes), dtype=np.int64)
    if kept and before is not None:
        old_hashes, old_rows, *_ = _arrays(folder.path, before)
        stay = old_rows < kept
        hashes = np.concatenate([old_hashes[stay], hashes])
        rows = np.concatenate([old_rows[stay], rows])
    order = np.argsort(hashes, kind="stable")
    with ArrayWriter(folder.path, "index") as writer:
        columns = [writer.add(array[order]) for array in (hashes, rows)]
        index = asdict(writer.finish())
    manifest = {
        "of": [of.name, of.dimension, of.dtype],
        "number": of.number,
        "digest": of.digest,
        "vectors": len(hashes),
        "parts": parts,
        "index": index,
        "columns": columns,
    }
    folder.write(f"{of.set_id}.json", manifest)
    folder.sweep()
    return manifest


def clean(corpus_path: Path) -> None:
    """Remove mapped copies of sets that are there no more."""
    folder = _folder(corpus_path)
    if not folder.path.is_dir():
        return
    store = VectorStore(corpus_path)
    there = {of.set_id: of for of in store.sets()}
    with folder.locked():
        for name in list(folder.manifests()):
            found, of = _read(folder, int(Path(name).stem)), there.get(int(Path(name).stem))
            if found is None or of is None or not _goes_on(found, of):
                (folder.path / name).unlink(missing_ok=True)
        folder.sweep()


def verify_mapped(corpus_path: Path) -> Iterator[str]:
    """Yield what is wrong with the bytes of mapped vectors."""
    return _folder(corpus_path).verify()


def having(corpus_path: Path, chunks: pa.ListArray) -> pa.Array | None:
    """Return in words, for lists of hashes, how many have a vector of each set; None without sets.

    Such as ``default 2 of 2``.
    """
    store = VectorStore(corpus_path)
    sets = store.sets()
    if not sets:
        return None
    hashes = chunks.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    counts = pc.fill_null(pc.list_value_length(chunks), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(counts)
    told: list[list[str]] = [[] for _ in ends]
    for of in sets:
        found = np.concatenate([[0], np.cumsum(places(store.known(of), hashes) >= 0)])
        there = found[ends] - found[ends - counts]
        for words, some, every in zip(told, there.tolist(), counts.tolist(), strict=True):
            words.append(f"{of.name} {some} of {every}")
    return text_column([", ".join(words) for words in told])
