"""Open a set of vectors to look up texts: in memory, or a large one in a mapped file."""

# The vector file is the truth; a missing, damaged or stale mapped copy is written again.

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
from duckplets.errors import DamagedFileError, ReadOnlyError
from duckplets.serving import snapshot
from duckplets.vectors.store import Matrix, VectorSet, VectorStore

_HELD = 64 << 20  # bytes of vectors: smaller sets are read into memory
_FORMAT = 4


@dataclass(frozen=True, eq=False)
class OpenedVectors:
    """Hold the vectors of a set up to a commit."""

    vector_set: VectorSet  # as of that commit
    hashes: Words  # of texts with a vector: ascending, shape (n,)
    order: Integers  # row of each of the hashes: shape (n,)
    matrix: Matrix  # the vectors, in the order of their addition: shape (n, dimension)
    notes: tuple[str, ...] = ()  # for the user
    file: tuple[ArrayFile, int] | None = None  # a mapped file, and the first byte of vectors

    def rows(self, hashes: Words) -> Integers:
        """Return the row of each text, or -1 without a vector: shape (m,)."""
        ascending = np.argsort(hashes)  # lookups of neighbours are near each other
        at = places(self.hashes, hashes[ascending])
        rows = np.empty(len(hashes), np.int64)
        rows[ascending] = np.where(at < 0, -1, self.order[at]) if len(self.order) else at
        return rows

    def take(self, rows: Integers) -> Matrix:
        """Return the vectors of some rows, copied once: shape (m, dimension)."""
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self.matrix)):
            raise damaged(None, f"a vector of {self.vector_set.name!r} is beyond the end of it")
        return self.matrix.take(rows, axis=0)

    def read_ahead(self, rows: Integers, reads: ReadAhead, is_stopped: IsStopped) -> None:
        """Read the vectors of some rows into memory ahead of ``take``."""
        if self.file is not None:
            (file, begin), width, rows = self.file, self.vector_set.width, rows[rows >= 0]
            reads.touch(file, begin + rows * width, np.full_like(rows, width), is_stopped)


def opened(
    corpus_path: Path, name: str, number: int | None = None, folder: Path | None = None
) -> OpenedVectors:
    """Open the vectors of a corpus, up to a commit or the last; map a large set in ``folder``."""
    store = VectorStore(corpus_path)
    newest = store.need(name)
    wanted = newest if number is None else newest.as_of(number)
    size = wanted.vectors * wanted.width
    if size <= _HELD:
        return _in_memory(store, wanted)
    try:
        found = _mapped(store, newest, _folder(corpus_path, folder))
    except (OSError, DamagedFileError, ReadOnlyError) as error:
        why = shown(getattr(error, "strerror", None) or str(error), 400)
        note = f"vectors {name!r} are held in memory, {size:,} bytes in each process: {why}"
        return replace(_in_memory(store, wanted), notes=(note,))
    earlier = found.order < wanted.vectors  # rows are in the order of their addition
    return replace(
        found,
        vector_set=wanted,
        hashes=found.hashes[earlier],
        order=found.order[earlier],
        matrix=found.matrix[: wanted.vectors],
    )


def _in_memory(store: VectorStore, vector_set: VectorSet) -> OpenedVectors:
    hashes = np.zeros(vector_set.vectors, np.uint64)
    matrix = np.zeros((vector_set.vectors, vector_set.dimension), vector_set.numpy_type)
    count = 0
    for some, vectors in store.read(vector_set):
        part = slice(count, count := count + len(some))
        hashes[part], matrix[part] = some, vectors
    order = np.argsort(hashes, kind="stable")
    return OpenedVectors(vector_set, hashes[order], order, matrix)


# -- mapped files --------------------------------------------------------------------------------


def _folder(corpus_path: Path, folder: Path | None = None) -> ArtifactFolder:
    within = folder or snapshot.folder_of(corpus_path)
    snapshot.check_own(within)
    path = within / snapshot.VECTORS
    return ArtifactFolder(path, "the vectors of a snapshot", r"(0|[1-9][0-9]{0,18})\.json", _FORMAT)


def _mapped(store: VectorStore, vector_set: VectorSet, folder: ArtifactFolder) -> OpenedVectors:
    """Map a set; write the copy first if it is missing."""
    found = _copy(folder, vector_set)
    if found is None:
        with folder.locked():
            found = _copy(folder, vector_set)
            if found is None:
                _write(folder, store, vector_set)
                found = _copy(folder, vector_set)
    if found is None:
        raise damaged(folder.path, "the copy that was written is missing")
    return found


def _inputs(vector_set: VectorSet) -> list[Any]:
    """Return everything that determines a copy."""
    s = vector_set
    return [s.name, s.dimension, s.dtype, s.number, s.digest, s.vectors]


def _copy(folder: ArtifactFolder, vector_set: VectorSet) -> OpenedVectors | None:
    """Map the copy of a set; None if it is missing, damaged or of another state."""
    try:
        manifest = folder.read(f"{vector_set.set_id}.json")
        if manifest is None or manifest["of"] != _inputs(vector_set):
            return None
        file = ArrayFile(folder.path, FileEntry(**manifest["file"]))
        hashes, order = (np.asarray(file.array(column)) for column in manifest["columns"])
        matrix = file.array(manifest["numbers"])
        matrix = matrix.reshape(vector_set.vectors, vector_set.dimension)
        place = file, manifest["numbers"][1]
        return OpenedVectors(vector_set, hashes, order, matrix, file=place)
    except DamagedFileError:
        return None


def _write(folder: ArtifactFolder, store: VectorStore, vector_set: VectorSet) -> None:
    """Write a copy of a set, and the manifest that names it."""
    parts = []
    with ArrayWriter(folder.path, "vectors") as writer:
        count = vector_set.vectors * vector_set.dimension
        numbers = [vector_set.numpy_type.str, writer.size, count]
        for some, matrix in store.read(vector_set):
            writer.append(np.ascontiguousarray(matrix).reshape(-1).view(np.uint8).data)
            parts.append(some.copy())
        hashes = np.concatenate(parts)
        order = np.argsort(hashes, kind="stable")
        columns = [writer.add(array) for array in (hashes[order], order)]
        file = asdict(writer.finish())
    manifest = {"of": _inputs(vector_set), "numbers": numbers, "columns": columns, "file": file}
    folder.write(f"{vector_set.set_id}.json", manifest)
    folder.sweep()


def clean(corpus_path: Path) -> None:
    """Remove mapped copies that no set needs now."""
    folder = _folder(corpus_path)
    if not folder.path.is_dir():
        return
    sets = {f"{each.set_id}.json": each for each in VectorStore(corpus_path).sets()}
    with folder.locked():
        for name in list(folder.manifests()):
            if name not in sets or _copy(folder, sets[name]) is None:
                (folder.path / name).unlink(missing_ok=True)
        folder.sweep()


def verify_mapped(corpus_path: Path) -> Iterator[str]:
    """Yield the faults in the bytes of mapped vectors."""
    return _folder(corpus_path).verify()


def having(corpus_path: Path, chunks: pa.ListArray) -> pa.Array | None:
    """Return for lists of hashes the number with a vector of each set, as ``default 2 of 2``."""
    store = VectorStore(corpus_path)
    sets = store.sets()
    if not sets:
        return None
    hashes = chunks.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    owners = pc.list_parent_indices(chunks).to_numpy(zero_copy_only=False)
    totals = np.bincount(owners, minlength=len(chunks)).tolist()
    by_set = []
    for each in sets:
        with_vector = owners[places(store.known(each), hashes) >= 0]
        counts = np.bincount(with_vector, minlength=len(chunks)).tolist()
        by_set.append([f"{each.name} {a} of {b}" for a, b in zip(counts, totals, strict=True)])
    return text_column([", ".join(words) for words in zip(*by_set, strict=True)])
