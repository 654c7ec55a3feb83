"""Serve vectors beside texts: pin sets to a run, count missing vectors, gather rows."""

# A vector belongs to the bare text of a chunk. A run sees its sets as of their last commit when it
# was opened, so later vectors change nothing.

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
    """Return the slots whose vectors columns have, such as ``anchor`` of ``anchor_vector:NAME``."""
    bases = (name.partition(":")[0] for name in columns)
    return [base.removesuffix(VECTOR) for base in bases if base.endswith(VECTOR)]


@dataclass(frozen=True, slots=True)
class VectorPins:
    """The vectors of a run: handling of missing ones, the set of each column, and last commits."""

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
    """Return the settings of the vectors of a run; nothing if no column has any."""
    # A saved run keeps its sets as they were, and ``missing`` unless it is given.
    missing = checked("missing_vectors", missing, Missing | None, SamplerError)
    which, missing = dict(before.columns), missing or before.missing
    fresh = [name for name in columns if vector_slots([name]) and name not in which]
    if not which and not fresh:
        if missing != "error":
            raise SamplerError(
                f"missing_vectors={missing!r}: no column has vectors; ask for some, as in "
                f"columns=['anchor', 'anchor_vector', …], or leave it out"
            )
        return VectorPins()
    store = VectorStore(corpus_path)
    sets = {of.name: of for of in store.sets()}
    which |= {asked: _set_of(store, sets, asked) for asked in fresh}
    pins = {of.name: (of.number, of.digest) for of in sets.values() if of.name in which.values()}
    for name, number in before.sets.items():
        commits = {commit.number: commit.digest for commit in store.need(name).commits}
        if number and commits.get(number) != (digest := before.digests.get(name, "")):
            now = commits.get(number, "no such commit")
            raise StateMismatchError(
                f"vectors {name!r} are not those run {run!r} was opened with: commit "
                f"{number} had digest {digest[:12]} then, and now it is {now[:14]}. They were "
                f"removed and made anew, or another {store.path.name} lies there; put the file "
                f"back, or open another run"
            )
        pins[name] = number, before.digests.get(name, "")
    numbers, digests = ({n: of[at] for n, of in sorted(pins.items())} for at in (0, 1))
    return VectorPins(missing, which, numbers, digests)  # type: ignore[arg-type]


def _set_of(store: VectorStore, sets: Mapping[str, VectorSet], asked: str) -> str:
    """Return the set of a column: the one it names, or the only one."""
    _, _, name = asked.partition(":")
    if name or not sets:
        return store.need(name or "default").name
    if len(sets) > 1:
        raise VectorError(
            f"columns: {asked!r} leaves open which vectors it is of; there are {listed(sets)}: "
            f"say which, as in {f'{asked}:{next(iter(sets))}'!r}"
        )
    return next(iter(sets))


@dataclass(frozen=True, eq=False, slots=True)
class VectorRows:
    """The vectors of a column of a block, gathered on demand."""

    opened: OpenedVectors  # the set
    rows: Integers  # row of every sample, -1 if its text has no vector

    def take(self, low: int, high: int) -> pa.Array:
        """Return vectors as fixed-size lists; missing ones are null and NaN."""
        rows, of, valid = self.rows[low:high], self.opened.of, None
        there = np.flatnonzero(rows >= 0)
        if len(there) == len(rows):
            matrix = self.opened.take(rows)
        else:
            matrix = np.full((len(rows), of.dimension), np.nan, of.numpy_type)
            matrix[there] = self.opened.take(rows[there])
            valid = pa.py_buffer(np.packbits(rows >= 0, bitorder="little"))
        return of.lists(matrix, valid)


class RunVectors:
    """The sets of a run, opened as of the commits it is pinned to."""

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
        # Texts of a run with ``drop``: those with a vector in each set, ascending.
        self.texts: Words | None = None
        if self._missing == "drop":
            hashes = [of.hashes for of in self._sets.values()]
            self.texts = reduce(partial(np.intersect1d, assume_unique=True), hashes)
        # notes on how they are opened
        self.notes = [note for of in self._sets.values() for note in of.notes]

    def as_of(self, pins: VectorPins) -> RunVectors:
        """Return the vectors of another version of the run; this object if no commit differs."""
        if pins == self._pins:
            return self
        return RunVectors(self._path, pins, self._columns, self._folder)

    def join(self, earlier: Iterable[tuple[int, VectorPins]]) -> None:
        """Let samples before positions have the vectors of an earlier version, else null."""
        # For other values of ``missing`` both are the same: a text has one vector for good.
        for position, pins in earlier:
            if self._missing == "null" and pins.sets != self._pins.sets:
                sets = pins.sets.items()
                then = {name: self._sets[name].of.as_of(at).vectors for name, at in sets}
                self._earlier.append((position, then))

    def _asked(self) -> Iterator[tuple[str, str, str]]:
        """Yield every vector column of the run, with slot and set."""
        for asked in self._columns:
            for slot in vector_slots([asked]):
                yield asked, slot, self._pins.columns[asked]

    def rows_of(self, positions: Integers, texts: Mapping[str, Words]) -> dict[str, VectorRows]:
        """Return the vectors of the columns of samples; ``texts`` are the hashes by slot."""
        found = {}
        for asked, slot, name in self._asked():
            hashes, low = texts[slot], 0
            rows = self._sets[name].rows(hashes)
            for position, then in self._earlier:  # texts without a vector then have none
                high = int(np.searchsorted(positions, position))
                rows[low:high][rows[low:high] >= then[name]] = -1
                low = high
            found[asked] = VectorRows(self._sets[name], rows)
        return found

    def check(
        self,
        database: Database,
        pools: Sequence[tuple[str, Pool]],
        parts: Mapping[str, Collection[str]],
        where: Mapping[str, Any],
    ) -> None:
        """Note texts without a vector in the pools of a run, or refuse them."""
        if self.texts is None:
            missing = [*self._lacking(pools, parts)]
        else:
            missing = [*self._left_out(database, self.texts, where)]
        if not missing:
            return
        names = listed(self._sets)
        if self._missing != "error":
            what = "those are left out" if self._missing == "drop" else "their vectors are null"
            note = f"vectors {names}: {'; '.join(missing)}; {what}"
            self.notes += [] if note in self.notes else [note]
            return
        one = next(iter(self._sets))
        raise VectorError(
            f"vectors {names}: {'; '.join(missing)}. Embed them, with duckplets embed {self._path} "
            f"--name {one} or corpus.embed(…, name={one!r}); or give dp.Options(missing_vectors="
            f"'drop') to leave out texts without a vector, or 'null' to serve null"
        )

    def _left_out(
        self, database: Database, texts: Words, where: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield in words how many chunks a run with ``drop`` leaves out, by source."""
        kept = pa.table({"text_hash": column(texts)})
        with closing(database.cursor()) as reading, reading.registered(kept_texts=kept):
            for source, chunks, many in reading.run("vectors/columns/left_out", where):
                yield (
                    f"{counted(chunks, 'chunk')} of source {shown(source)} "
                    f"({counted(many, 'text')}) have none in each set"
                )

    def _lacking(
        self, pools: Sequence[tuple[str, Pool]], parts: Mapping[str, Collection[str]]
    ) -> Iterator[str]:
        """Yield in words how many texts lack a vector, by set and part of a sample."""
        needed = {(name, part) for _, slot, name in self._asked() for part in parts[slot]}
        seen: dict[tuple[str, int], Words] = {}
        by_part: dict[tuple[str, str, str], list[Words]] = defaultdict(list)
        for (name, part), (source, pool) in product(sorted(needed), pools):
            for hashes in _hashes_of(pool, part):
                among = name, id(hashes)
                if among not in seen:  # recipes may share lists
                    seen[among] = hashes[self._sets[name].rows(hashes) < 0]
                by_part[name, source, part].append(seen[among])
        for (name, source, part), found in by_part.items():
            lacking = len(np.unique(np.concatenate(found)))
            if lacking:
                yield (
                    f"{counted(lacking, 'text')} of {part} of source {shown(source)} "
                    f"{'has' if lacking == 1 else 'have'} none in {name!r}"
                )


def _hashes_of(pool: Pool, part: str) -> list[Words]:
    """Return the text hashes that a part of samples is drawn from."""
    if part == "negatives":
        return [of.hashes for of in (pool.negatives, pool.beyond) if of is not None]
    if part == "anchors":
        return [pool.anchors.hashes]
    if pool.positives is None:
        return []
    return [pool.anchors.hashes if pool.compiled.own_positive else pool.positives.hashes]
