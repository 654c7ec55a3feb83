"""Open a set of vectors to look texts up in: in memory, or large ones from files mapped into it.

    text hashes ─Lookup→ rows ─one copy→ (n, dimension)

A large set is written once into the folder of the snapshot (``mapped_sets``), so that opening it
reads no vector, and processes share its pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers, Words
from duckplets.base.sanitize import shown
from duckplets.errors import DamagedFileError, ReadOnlyError, VectorError
from duckplets.vectors import mapped_index
from duckplets.vectors.mapped_index import Stretch
from duckplets.vectors.sets import Matrix, VectorSet
from duckplets.vectors.store import VectorStore

_HELD = 64 << 20  # bytes of vectors: smaller sets are read into memory
_BLOCK = 16 << 20  # bytes that ``blocks`` yields at once
_CROWDED = 24  # hashes with the same first bits, of which there are about two: these are no hashes


class HashLookup:
    """Places of hashes among ascending ones.

    Hashes are spread evenly, so a table of where each beginning of a hash begins leads to about
    two of them. Among a million that takes a fifth of the time of a binary search.

    Args:
        ascending: No two equal: shape (n,).
    """

    def __init__(self, ascending: Words) -> None:
        self._hashes = ascending
        bits = min(max(len(ascending).bit_length() - 1, 1), 28)
        self._shift = np.uint64(64 - bits)
        counts = np.bincount((ascending >> self._shift).astype(np.int64), minlength=1 << bits)
        self._starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self._starts[1:])
        self._most = int(counts.max()) if len(ascending) else 0

    def places(self, hashes: Words) -> Integers:
        """Return where each hash stands, or -1: shape (m,)."""
        if not len(self._hashes):
            return np.full(len(hashes), -1, np.int64)
        if self._most > _CROWDED:
            at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
            return cast(Integers, np.where(self._hashes[at] == hashes, at, -1))
        bucket = (hashes >> self._shift).astype(np.int64)
        at, end = self._starts[bucket], self._starts[bucket + 1]
        last = len(self._hashes) - 1
        found = np.where(self._hashes[np.minimum(at, last)] == hashes, at, -1)
        found[at >= end] = -1
        left = np.flatnonzero((found < 0) & (at + 1 < end))
        for step in range(1, self._most):
            if not len(left):
                break
            further = at[left] + step
            same = self._hashes[further] == hashes[left]
            found[left[same]] = further[same]
            left = left[~same & (further + 1 < end[left])]
        return found


@dataclass(frozen=True, eq=False)
class OpenedVectors:
    """The vectors of a set up to a commit.

    Attributes:
        of: The set, as of that commit.
        hashes: Of the texts that have one: ascending, shape (n,).
        order: Row of each of the hashes: shape (n,).
        stretches: Where the rows lie.
        notes: What a user should know of how it is opened.
    """

    of: VectorSet
    hashes: Words
    order: Integers
    stretches: list[Stretch]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def _lookup(self) -> HashLookup:
        return HashLookup(self.hashes)

    def rows(self, hashes: Words) -> Integers:
        """Return the row of each text, or -1 where it has no vector: shape (m,)."""
        at = self._lookup.places(hashes)
        if not len(self.order):
            return at
        return cast(Integers, np.where(at < 0, -1, self.order[at]))

    def take(self, rows: Integers) -> Matrix:
        """Return the vectors of some rows, copied once: shape (m, dimension).

        Raises:
            DamagedFileError: A row lies beyond what there is.
        """
        if len(self.stretches) == 1:
            return self.stretches[0].take(rows)
        made = np.empty((len(rows), self.of.dimension), self.of.numpy_type)
        firsts = np.array([stretch.first for stretch in self.stretches], np.int64)
        numbers = np.searchsorted(firsts, rows, side="right") - 1
        for number, stretch in enumerate(self.stretches):
            at = np.flatnonzero(numbers == number)
            if len(at):
                made[at] = stretch.take(rows[at])
        return made

    def blocks(self) -> Iterator[tuple[Words, Matrix]]:
        """Yield all vectors with their hashes, in the order of their rows, in blocks."""
        of_rows = np.argsort(self.order, kind="stable")
        width = self.of.dimension * self.of.numpy_type.itemsize
        step = max(1, _BLOCK // width)
        for low in range(0, len(of_rows), step):
            at = of_rows[low : low + step]
            yield self.hashes[at], self.take(self.order[at])

    @cached_property
    def norms(self) -> npt.NDArray[np.float32]:
        """The length of each vector, in the order of ``blocks``: shape (n,)."""
        found = [np.linalg.norm(m.astype(np.float32, copy=False), axis=1) for _, m in self.blocks()]
        return np.concatenate(found) if found else np.zeros(0, np.float32)


def opened(
    corpus_path: Path, name: str, number: int | None = None, *, mapped: bool = True
) -> OpenedVectors:
    """Open the vectors of a corpus.

    Args:
        corpus_path: The corpus.
        name: Of the set.
        number: The commit up to which they are wanted; by default the last.
        mapped: Whether a large set may be read from, and written to, files that are mapped.

    Raises:
        VectorError: There is no such set or commit, or the file is not as it was written.
    """
    store = VectorStore(corpus_path)
    now = store.need(name)
    of = now if number is None else as_of(store, now, number)
    size = of.vectors * of.dimension * of.numpy_type.itemsize
    notes: tuple[str, ...] = ()
    if mapped and size > _HELD:
        try:
            found = mapped_index.opened(store, now, corpus_path)
            keep = found.numbers <= of.number
            if keep.all():
                return OpenedVectors(of, found.hashes, found.order, found.stretches)
            return OpenedVectors(of, found.hashes[keep], found.order[keep], found.stretches)
        except (OSError, DamagedFileError, ReadOnlyError) as error:
            why = getattr(error, "strerror", None) or str(error)
            notes = (
                f"vectors {name!r} are held in memory, {size:,} bytes in each process: "
                f"{shown(why, 400)}",
            )
    return _held(store, of, notes)


def as_of(store: VectorStore, now: VectorSet, number: int) -> VectorSet:
    """Return a set as of one of its commits.

    Raises:
        VectorError: It has no such commit.
    """
    commits = store.commits(now)
    if number == 0:
        return replace(now, number=0, digest="", vectors=0)
    for commit, digest, _, _ in commits:
        if commit == number:
            vectors = sum(added - gone for at, _, added, gone in commits if at <= number)
            return replace(now, number=number, digest=digest, vectors=vectors)
    raise VectorError(
        f"vectors {now.name!r} have {len(commits)} commits in {store.path}, and none has the "
        f"number {number}: the set was made anew, or an older copy of the file was put there"
    )


def _held(store: VectorStore, of: VectorSet, notes: tuple[str, ...]) -> OpenedVectors:
    """Read a set into memory, in the order of its hashes."""
    hashes = np.empty(of.vectors, np.uint64)
    matrix = np.empty((of.vectors, of.dimension), of.numpy_type)
    low = 0
    for some, vectors in store.read(of):
        high = low + len(some)
        if high > of.vectors:
            break
        hashes[low:high], matrix[low:high] = some, vectors
        low = high
    if low != of.vectors:
        raise VectorError(
            f"{store.path} is damaged: vectors {of.name!r} should be {of.vectors:,} up to commit "
            f"{of.number}, and others are there; put a copy of the file in its place"
        )
    ascending = np.argsort(hashes, kind="stable")
    order = ascending.astype(np.int64)
    return OpenedVectors(of, hashes[ascending], order, [Stretch.of(matrix)], notes)
