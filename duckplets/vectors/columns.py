"""Serve vectors with texts: pin sets to a run, count missing vectors, gather rows."""

# A vector belongs to the bare text of a chunk. A run sees the last commit at its opening, so later
# vectors change nothing.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Words
from duckplets.base.columns import column
from duckplets.base.sanitize import counted, listed, shown
from duckplets.base.settings import check, checked
from duckplets.errors import SamplerError, StateMismatchError, VectorError
from duckplets.vectors.opened import OpenedVectors, opened
from duckplets.vectors.store import VectorSet, VectorStore

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.pools.arrays import Pool

Missing = Literal["error", "drop", "null"]

VECTOR = "_vector"


def vector_slots(columns: Sequence[str]) -> list[str]:
    """Return the slots of vector columns, such as ``anchor`` for ``anchor_vector:NAME``."""
    bases = (name.partition(":")[0] for name in columns)
    return [base.removesuffix(VECTOR) for base in bases if base.endswith(VECTOR)]


@dataclass(frozen=True, slots=True)
class VectorPins:
    """Hold the vectors of a run: handling of missing ones, sets by column, and last commits."""

    missing: Missing = "error"
    columns: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, int] = field(default_factory=dict)  # number of the commit; 0 for none
    digests: Mapping[str, str] = field(default_factory=dict)  # of the commit

    def __post_init__(self) -> None:
        check(self, StateMismatchError, "vectors")

    def __bool__(self) -> bool:
        return bool(self.columns)


def pinned(
    corpus_path: Path,
    columns: Sequence[str],
    missing: Missing | None = None,
    before: VectorPins = VectorPins(),
    run: str = "",
) -> VectorPins:
    """Return the settings of the vectors of a run; nothing without vector columns."""
    # A saved run keeps its sets; a new ``missing`` replaces the saved one.
    missing = checked("missing_vectors", missing, Missing | None, SamplerError)
    by_column, missing = dict(before.columns), missing or before.missing
    new = [name for name in columns if vector_slots([name]) and name not in by_column]
    if not by_column and not new:
        if missing != "error":
            raise SamplerError(
                f"missing_vectors={missing!r}: no column has vectors; add some, as in "
                f"columns=['anchor', 'anchor_vector', …], or remove missing_vectors"
            )
        return VectorPins()
    store = VectorStore(corpus_path)
    sets = {each.name: each for each in store.sets()}
    by_column |= {name: _set_of(store, sets, name) for name in new}
    used = {sets[name].name: sets[name] for name in by_column.values() if name in sets}
    pins = {name: (each.number, each.digest) for name, each in used.items()}
    for name, number in before.sets.items():
        commits = {commit.number: commit.digest for commit in store.need(name).commits}
        if number and commits.get(number) != (digest := before.digests.get(name, "")):
            now = commits.get(number, "no such commit")
            raise StateMismatchError(
                f"vectors {name!r} have changed since run {run!r} was opened: commit {number} had "
                f"digest {digest[:12]}, now {now[:14]}. They were made again, or "
                f"{store.path.name} was replaced; put the file back, or open another run"
            )
        pins[name] = number, before.digests.get(name, "")
    numbers = {name: number for name, (number, _) in sorted(pins.items())}
    digests = {name: digest for name, (_, digest) in sorted(pins.items())}
    return VectorPins(missing, by_column, numbers, digests)


def _set_of(store: VectorStore, sets: Mapping[str, VectorSet], column_name: str) -> str:
    """Return the set of a column: the one in its name, or the only one."""
    _, _, name = column_name.partition(":")
    if name or not sets:
        return store.need(name or "default").name
    if len(sets) > 1:
        raise VectorError(
            f"columns: {column_name!r} names no set of vectors; the sets are {listed(sets)}: "
            f"choose one, as in {f'{column_name}:{next(iter(sets))}'!r}"
        )
    return next(iter(sets))


@dataclass(frozen=True, eq=False, slots=True)
class VectorRows:
    """Gather the vectors of a column of a block on demand."""

    opened: OpenedVectors  # the set
    rows: Integers  # row of every sample, -1 if its text has no vector

    def take(self, low: int, high: int) -> pa.Array:
        """Return vectors as fixed-size lists; missing ones are null and NaN."""
        rows, vector_set, valid = self.rows[low:high], self.opened.vector_set, None
        is_known = rows >= 0
        if is_known.all():
            matrix = self.opened.take(rows)
        else:
            shape = len(rows), vector_set.dimension
            matrix = np.full(shape, np.nan, vector_set.numpy_type)
            matrix[is_known] = self.opened.take(rows[is_known])
            valid = pa.py_buffer(np.packbits(is_known, bitorder="little"))
        return vector_set.lists(matrix, valid)


class RunVectors:
    """Open the sets of a run, as of its pinned commits."""

    def __init__(
        self,
        corpus_path: Path,
        pins: VectorPins,
        columns: Sequence[str],  # columns of the run
        folder: Path | None,
    ) -> None:
        self._path, self._folder = corpus_path, folder
        self._pins, self._columns = pins, columns
        sets = pins.sets.items()
        self._sets = {name: opened(corpus_path, name, number, folder) for name, number in sets}
        self._missing = pins.missing
        self._earlier: list[tuple[int, dict[str, int]]] = []  # position, vectors of each set before
        # With ``drop``: the texts with a vector in each set, ascending.
        self.texts: Words | None = None
        if self._missing == "drop":
            hashes = [each.hashes for each in self._sets.values()]
            self.texts = reduce(partial(np.intersect1d, assume_unique=True), hashes)
        # notes for the user about their opening
        self.notes = [note for each in self._sets.values() for note in each.notes]

    def as_of(self, pins: VectorPins) -> RunVectors:
        """Return the vectors of another version of the run; this object if no commit differs."""
        if pins == self._pins:
            return self
        return RunVectors(self._path, pins, self._columns, self._folder)

    def join(self, earlier: Iterable[tuple[int, VectorPins]]) -> None:
        """Give samples before some positions the vectors of an earlier version, or null."""
        # For other values of ``missing`` both versions agree: the vector of a text never changes.
        for position, pins in earlier:
            if self._missing == "null" and pins.sets != self._pins.sets:
                sets = pins.sets.items()
                then = {name: self._sets[name].vector_set.as_of(at).vectors for name, at in sets}
                self._earlier.append((position, then))

    def _vector_columns(self) -> Iterator[tuple[str, str, str]]:
        """Yield every vector column of the run, with slot and set."""
        for name in self._columns:
            for slot in vector_slots([name]):
                yield name, slot, self._pins.columns[name]

    def rows_of(self, positions: Integers, texts: Mapping[str, Words]) -> dict[str, VectorRows]:
        """Return the vectors of the columns of samples; ``texts`` are the hashes by slot."""
        by_column = {}
        for column_name, slot, name in self._vector_columns():
            hashes, low = texts[slot], 0
            rows = self._sets[name].rows(hashes)
            for position, then in self._earlier:  # later vectors are hidden from these samples
                high = int(np.searchsorted(positions, position))
                rows[low:high][rows[low:high] >= then[name]] = -1
                low = high
            by_column[column_name] = VectorRows(self._sets[name], rows)
        return by_column

    def check(
        self,
        database: Database,
        pools: Sequence[tuple[str, Pool]],
        parts: Mapping[str, Collection[str]],
        where: Mapping[str, Any],
    ) -> None:
        """Refuse or note texts without a vector in the pools of a run."""
        if self.texts is None:
            missing = [*self._missing_texts(pools, parts)]
        else:
            missing = [*self._dropped_chunks(database, self.texts, where)]
        if not missing:
            return
        names = listed(self._sets)
        if self._missing != "error":
            result = "they are skipped" if self._missing == "drop" else "their vectors are null"
            note = f"vectors {names}: {'; '.join(missing)}; {result}"
            self.notes += [] if note in self.notes else [note]
            return
        one = next(iter(self._sets))
        raise VectorError(
            f"vectors {names}: {'; '.join(missing)}. Embed them, with duckplets embed {self._path} "
            f"--name {one} or corpus.embed(…, name={one!r}); or give dp.Options(missing_vectors="
            f"'drop') to skip texts without a vector, or 'null' to serve null"
        )

    def _dropped_chunks(
        self, database: Database, texts: Words, where: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield the number of chunks that ``drop`` skips, by source, as text."""
        table = pa.table({"text_hash": column(texts)})
        with closing(database.cursor()) as reading, reading.registered(kept_texts=table):
            for source, chunks, count in reading.run("vectors/columns/left_out", where):
                yield (
                    f"{counted(chunks, 'chunk')} of source {shown(source)} "
                    f"({counted(count, 'text')}) have none in each set"
                )

    def _missing_texts(
        self, pools: Sequence[tuple[str, Pool]], parts: Mapping[str, Collection[str]]
    ) -> Iterator[str]:
        """Yield the number of texts without a vector, by set and part of a sample, as text."""
        needed = {(name, part) for _, slot, name in self._vector_columns() for part in parts[slot]}
        missing: dict[tuple[str, int], Words] = {}
        by_part: dict[tuple[str, str, str], list[Words]] = defaultdict(list)
        for (name, part), (source, pool) in product(sorted(needed), pools):
            for hashes in _hashes_of(pool, part):
                key = name, id(hashes)
                if key not in missing:  # recipes may share lists
                    missing[key] = hashes[self._sets[name].rows(hashes) < 0]
                by_part[name, source, part].append(missing[key])
        for (name, source, part), found in by_part.items():
            if count := len(np.unique(np.concatenate(found))):
                yield (
                    f"{counted(count, 'text')} of {part} of source {shown(source)} "
                    f"{'has' if count == 1 else 'have'} none in {name!r}"
                )


def _hashes_of(pool: Pool, part: str) -> list[Words]:
    """Return the text hashes that a part of samples is drawn from."""
    if part == "negatives":
        return [each.hashes for each in (pool.negatives, pool.beyond) if each is not None]
    if part == "anchors":
        return [pool.anchors.hashes]
    if pool.positives is None:
        return []
    return [pool.anchors.hashes if pool.compiled.own_positive else pool.positives.hashes]
