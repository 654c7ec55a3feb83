"""Open a set of vectors to look texts up in: in memory, or a large one in a mapped file."""

# The vector file is the truth; a mapped copy that is missing, damaged or stale is made again.

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
    """The vectors of a set up to a commit."""

    of: VectorSet  # as of that commit
    hashes: Words  # of the texts that have one: ascending, shape (n,)
    order: Integers  # row of each of the hashes: shape (n,)
    matrix: Matrix  # the vectors, as they were added: shape (n, dimension)
    notes: tuple[str, ...] = ()  # what a user should know of how it is opened
    file: tuple[ArrayFile, int] | None = None  # if they are mapped, and their first byte

    def rows(self, hashes: Words) -> Integers:
        """Return the row of each text, or -1 where it has no vector: shape (m,)."""
        ascending = np.argsort(hashes)  # so that neighbours are found near each other
        at = places(self.hashes, hashes[ascending])
        rows = np.empty(len(hashes), np.int64)
        rows[ascending] = np.where(at < 0, -1, self.order[at]) if len(self.order) else at
        return rows

    def take(self, rows: Integers) -> Matrix:
        """Return the vectors of some rows, copied once: shape (m, dimension)."""
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self.matrix)):
            raise damaged(None, f"a vector of {self.of.name!r} would lie beyond its file")
        return self.matrix.take(rows, axis=0)

    def read_ahead(self, rows: Integers, reads: ReadAhead, is_stopped: IsStopped) -> None:
        """Have the vectors of some rows in memory before they are taken."""
        if self.file is not None:
            (file, begin), width, rows = self.file, self.of.width, rows[rows >= 0]
            reads.touch(file, begin + rows * width, np.full_like(rows, width), is_stopped)

    @property
    def hashes_by_row(self) -> Words:
        """The hash of the text of each row: shape (n,)."""
        found = np.empty_like(self.hashes)
        found[self.order] = self.hashes
        return found


def opened(
    corpus_path: Path, name: str, number: int | None = None, folder: Path | None = None
) -> OpenedVectors:
    """Open the vectors of a corpus, up to a commit or the last; map a large set in ``folder``."""
    store = VectorStore(corpus_path)
    now = store.need(name)
    of = now if number is None else now.as_of(number)
    size = of.vectors * of.width
    if size <= _HELD:
        return _held(store, of)
    try:
        return _until(of, _mapped(store, now, _folder(corpus_path, folder)))
    except (OSError, DamagedFileError, ReadOnlyError) as error:
        why = shown(getattr(error, "strerror", None) or str(error), 400)
        note = f"vectors {name!r} are held in memory, {size:,} bytes in each process: {why}"
        return replace(_held(store, of), notes=(note,))


def _held(store: VectorStore, of: VectorSet) -> OpenedVectors:
    """Read a set into memory."""
    hashes = np.zeros(of.vectors, np.uint64)
    matrix = np.zeros((of.vectors, of.dimension), of.numpy_type)
    count = 0
    for some, vectors in store.read(of):
        part = slice(count, count := count + len(some))
        hashes[part], matrix[part] = some, vectors
    order = np.argsort(hashes, kind="stable")
    return OpenedVectors(of, hashes[order], order, matrix)


def _until(of: VectorSet, found: OpenedVectors) -> OpenedVectors:
    """Return what there was at an earlier commit."""
    there = found.order < of.vectors  # rows lie as they were added
    hashes, order = found.hashes[there], found.order[there]
    return replace(found, of=of, hashes=hashes, order=order, matrix=found.matrix[: of.vectors])


# -- in files that are mapped --------------------------------------------------------------------


def _folder(corpus_path: Path, folder: Path | None = None) -> ArtifactFolder:
    within = folder or snapshot.folder_of(corpus_path)
    snapshot.check_own(within)
    path = within / snapshot.VECTORS
    return ArtifactFolder(path, "the vectors of a snapshot", r"(0|[1-9][0-9]{0,18})\.json", _FORMAT)


def _mapped(store: VectorStore, of: VectorSet, folder: ArtifactFolder) -> OpenedVectors:
    """Map a set, which is written first where no whole copy of it is there."""
    found = _found(folder, of)
    if found is None:
        with folder.locked():
            found = _found(folder, of)
            if found is None:
                _write(folder, store, of)
                found = _found(folder, of)
    if found is None:
        raise damaged(folder.path, "what was written is not there")
    return found


def _told(of: VectorSet) -> list[Any]:
    """Return what a copy follows from."""
    return [of.name, of.dimension, of.dtype, of.number, of.digest, of.vectors]


def _found(folder: ArtifactFolder, of: VectorSet) -> OpenedVectors | None:
    """Map the copy of a set; None where there is none, or it is damaged or of another state."""
    try:
        told = folder.read(f"{of.set_id}.json")
        if told is None or told["of"] != _told(of):
            return None
        file = ArrayFile(folder.path, FileEntry(**told["file"]))
        hashes, order = (np.asarray(file.array(column)) for column in told["columns"])
        matrix = file.array(told["numbers"]).reshape(of.vectors, of.dimension)
        return OpenedVectors(of, hashes, order, matrix, file=(file, told["numbers"][1]))
    except DamagedFileError:
        return None


def _write(folder: ArtifactFolder, store: VectorStore, of: VectorSet) -> None:
    """Write a copy of a set, and the manifest that names it."""
    found = []
    with ArrayWriter(folder.path, "vectors") as writer:
        numbers = [of.numpy_type.str, writer.size, of.vectors * of.dimension]
        for hashes, matrix in store.read(of):
            writer.append(np.ascontiguousarray(matrix).reshape(-1).view(np.uint8).data)
            found.append(hashes.copy())
        every = np.concatenate(found)
        order = np.argsort(every, kind="stable")
        columns = [writer.add(array) for array in (every[order], order)]
        file = asdict(writer.finish())
    told = {"of": _told(of), "numbers": numbers, "columns": columns, "file": file}
    folder.write(f"{of.set_id}.json", told)
    folder.sweep()


def clean(corpus_path: Path) -> None:
    """Remove mapped copies of what no set is now."""
    folder = _folder(corpus_path)
    if not folder.path.is_dir():
        return
    there = {f"{of.set_id}.json": of for of in VectorStore(corpus_path).sets()}
    with folder.locked():
        for name in list(folder.manifests()):
            if name not in there or _found(folder, there[name]) is None:
                (folder.path / name).unlink(missing_ok=True)
        folder.sweep()


def verify_mapped(corpus_path: Path) -> Iterator[str]:
    """Yield what is wrong with the bytes of mapped vectors."""
    return _folder(corpus_path).verify()


def having(corpus_path: Path, chunks: pa.ListArray) -> pa.Array | None:
    """Say for lists of hashes how many have a vector of each set, as ``default 2 of 2``."""
    store = VectorStore(corpus_path)
    sets = store.sets()
    if not sets:
        return None
    hashes = chunks.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    owners = pc.list_parent_indices(chunks).to_numpy(zero_copy_only=False)
    every = np.bincount(owners, minlength=len(chunks)).tolist()
    told = []
    for of in sets:
        there = owners[places(store.known(of), hashes) >= 0]
        some = np.bincount(there, minlength=len(chunks)).tolist()
        told.append([f"{of.name} {a} of {b}" for a, b in zip(some, every, strict=True)])
    return text_column([", ".join(words) for words in zip(*told, strict=True)])
