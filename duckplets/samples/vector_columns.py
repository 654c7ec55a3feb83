"""Serve vectors beside texts: pin a run to sets as they are, count what is missing, gather rows.

    "anchor_vector" ─pinned→ set, commit, digest ─opened→ rows of a block's texts ─take→ (n, d)

A vector is that of the bare text of the chunk in its slot, found by the chunk's own hash: that of
another window, of the section, or of a text with a prefix is another. A run sees its sets as of
the commit that was the last when it was opened, so vectors that come later change nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Words
from duckplets.base.columns import column
from duckplets.base.sanitize import counted, listed, shown
from duckplets.errors import SamplerError, StateMismatchError, VectorError, nearest
from duckplets.samples.columns import slot_names, vector_slots
from duckplets.vectors.opened import OpenedVectors, opened
from duckplets.vectors.store import VectorSet, VectorStore

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.planned import Plan
    from duckplets.samples.stream import Stream

Missing = Literal["error", "drop", "null"]


def checked_missing(missing: Any) -> Missing:
    """Return what becomes of texts without a vector.

    Raises:
        SamplerError: It is something else.
    """
    if missing not in get_args(Missing):
        hint = nearest(missing, get_args(Missing)) if isinstance(missing, str) else ""
        raise SamplerError(
            f"vectors={shown(repr(missing))}{hint}: give 'error', 'drop' or 'null', what becomes "
            f"of texts without a vector; which are served is said by columns="
        )
    found: Missing = missing
    return found


def pinned(corpus_path: Path, columns: Sequence[str], missing: Missing) -> dict[str, Any]:
    """Return what settings keep of the vectors of a run; nothing where no column has any.

    Args:
        corpus_path: The corpus.
        columns: Of the run.
        missing: What becomes of texts without a vector.

    Raises:
        VectorError: There is no such set, or a column leaves open which of several.
        SamplerError: No column has vectors, and ``missing`` was given.
    """
    wanted = [name for name in columns if vector_slots([name])]
    if not wanted:
        if missing != "error":
            raise SamplerError(
                f"vectors={missing!r}: no column has vectors; ask for some, as in "
                f"columns=['anchor', 'anchor_vector', …], or leave it out"
            )
        return {}
    store = VectorStore(corpus_path)
    sets = {of.name: of for of in store.sets()}
    which = {asked: _set_of(store, sets, asked) for asked in wanted}
    return {
        "missing": missing,
        "columns": which,
        "sets": {name: _pin(sets[name]) for name in sorted(set(which.values()))},
    }


def _pin(of: VectorSet) -> list[Any]:
    return [of.number, of.digest]


def _set_of(store: VectorStore, sets: Mapping[str, VectorSet], asked: str) -> str:
    """Return the set that a column is of: the one it names, else the only one."""
    _, _, name = asked.partition(":")
    if name or not sets:
        return store.need(name or "default").name
    if len(sets) > 1:
        raise VectorError(
            f"columns: {asked!r} leaves open which vectors it is of; there are {listed(sets)}: "
            f"say which, as in {f'{asked}:{next(iter(sets))}'!r}"
        )
    return next(iter(sets))


def pinned_again(
    corpus_path: Path, settings: RunSettings, missing: Missing | None = None
) -> dict[str, Any]:
    """Return what settings keep of the vectors of a saved run, from the sets as they are now.

    Columns that were not asked for before are pinned to the newest commit.

    Args:
        corpus_path: The corpus.
        settings: Of the saved run, with the columns that are asked for now.
        missing: As given anew, or None.

    Raises:
        VectorError: The vector file, or a set, is not there any more.
        StateMismatchError: A set has another history than the run was pinned to.
    """
    saved = settings.vectors
    fresh = [name for name in settings.columns if name not in saved.get("columns", {})]
    how = missing or saved.get("missing", "error")
    if not saved:
        return pinned(corpus_path, fresh, how)
    added = pinned(corpus_path, fresh, how) if vector_slots(fresh) else {}
    store = VectorStore(corpus_path)
    sets = dict(added.get("sets", {}))
    for name, (number, digest) in saved["sets"].items():
        commits = {commit: found for commit, found, _, _ in store.commits(store.need(name))}
        if number and commits.get(number) != digest:
            now = commits.get(number, "no such commit")
            raise StateMismatchError(
                f"vectors {name!r} are not those run {settings.run!r} was opened with: commit "
                f"{number} had digest {digest[:12]} then, and now it is {now[:14]}. They were "
                f"removed and made anew, or another {store.path.name} lies there; put the file "
                f"back, or open another run"
            )
        sets[name] = [number, digest]
    return {
        "missing": how,
        "columns": {**saved["columns"], **added.get("columns", {})},
        "sets": dict(sorted(sets.items())),
    }


@dataclass(frozen=True, eq=False, slots=True)
class VectorRows:
    """The vectors of a column of a block, to be gathered when they are asked for.

    Attributes:
        opened: The set.
        rows: Of every sample, -1 where its text has no vector: shape (samples,).
    """

    opened: OpenedVectors
    rows: Integers

    @property
    def row_bytes(self) -> int:
        """Bytes of one vector."""
        return self.opened.of.dimension * self.opened.of.numpy_type.itemsize

    def take(self, low: int, high: int) -> pa.Array:
        """Return the vectors of some samples, fixed-size lists; null and NaN where there is none.

        Raises:
            DamagedFileError: A row lies beyond what there is.
        """
        rows, of = self.rows[low:high], self.opened.of
        lacking = np.flatnonzero(rows < 0)
        if len(lacking) == 0:
            matrix = self.opened.take(rows)
        else:
            matrix = np.full((len(rows), of.dimension), np.nan, of.numpy_type)
            there = np.flatnonzero(rows >= 0)
            matrix[there] = self.opened.take(rows[there])
        kind = pa.float16() if of.dtype == "float16" else pa.float32()
        flat = pa.Array.from_buffers(kind, matrix.size, [None, pa.py_buffer(matrix)])
        valid = None
        if len(lacking):
            valid = pa.py_buffer(np.packbits(rows >= 0, bitorder="little"))
        whole = pa.list_(kind, of.dimension)
        return pa.Array.from_buffers(whole, len(rows), [valid], children=[flat])


class RunVectors:
    """The sets of a run, opened as of the commits it is pinned to.

    Args:
        corpus_path: The corpus.
        settings: Of the run; some column of it has vectors.
        folder: Of the snapshot, beside which large sets are mapped; None for the usual one.

    Attributes:
        notes: What a user should know of how they are opened.
    """

    def __init__(self, corpus_path: Path, settings: RunSettings, folder: Path | None) -> None:
        self._path = corpus_path
        self._settings = settings
        self.missing: Missing = settings.vectors["missing"]
        self._columns: dict[str, str] = settings.vectors["columns"]
        self._sets = {
            name: opened(corpus_path, name, number, folder)
            for name, (number, _) in settings.vectors["sets"].items()
        }
        self.notes = [note for found in self._sets.values() for note in found.notes]
        self._folder = folder
        self._before: list[tuple[int, dict[str, OpenedVectors]]] = []

    @classmethod
    def of(
        cls, database: Database, settings: RunSettings, *, folder: Path | None = None
    ) -> RunVectors | None:
        """Return those of a run; None where no column has any."""
        if not settings.vectors or database.path is None:
            return None
        return cls(Path(str(database.path)), settings, folder)

    def as_of(self, settings: RunSettings) -> RunVectors:
        """Return those of another version of the run: these, where it has the same commits."""
        if settings.vectors == self._settings.vectors:
            return self
        return RunVectors(self._path, settings, self._folder)

    def before(self, settings: RunSettings, position: int) -> None:
        """Let samples before a position have the vectors of an earlier version, else null.

        Where texts without a vector are left out, or are an error, these are the same: a text has
        one vector for good.

        Args:
            settings: Of that version.
            position: From which on a later one has joined.
        """
        if self.missing == "null" and settings.vectors["sets"] != self._settings.vectors["sets"]:
            found = {
                name: opened(self._path, name, number, self._folder)
                for name, (number, _) in settings.vectors["sets"].items()
            }
            self._before.append((position, found))

    def _rows(self, name: str, plan: Plan, hashes: Words) -> Integers:
        """Return the rows of texts in a set, -1 where they have no vector, or had none then."""
        rows = self._sets[name].rows(hashes)
        low = 0
        for position, sets in self._before:
            high = int(np.searchsorted(plan.positions, position))
            if low < high:
                rows[low:high][sets[name].rows(hashes[low:high]) < 0] = -1
            low = max(low, high)
        return rows

    def rows_of(self, plan: Plan, slots: Sequence[str]) -> dict[str, VectorRows]:
        """Return the vectors of the columns of a plan's samples."""
        found: dict[str, VectorRows] = {}
        known: dict[tuple[str, str], VectorRows] = {}
        for asked in self._settings.columns:
            for slot in vector_slots([asked]):
                name = self._columns[asked]
                if (slot, name) not in known:
                    of = self._sets[name]
                    hashes = plan.hashes[slots.index(slot)]
                    known[slot, name] = VectorRows(of, self._rows(name, plan, hashes))
                found[asked] = known[slot, name]
        return found

    @property
    def texts(self) -> Words | None:
        """Texts that a run with ``drop`` is of: those with a vector in each set, ascending."""
        return self._texts if self.missing == "drop" else None

    @cached_property
    def _texts(self) -> Words:
        first, *others = (found.hashes for found in self._sets.values())
        for other in others:
            first = np.intersect1d(first, other, assume_unique=True)
        return first

    def check(self, database: Database, streams: Sequence[Stream]) -> None:
        """Count what is missing in the pools of a run, and note it.

        Raises:
            VectorError: Something is, and that is an error.
        """
        told = list(self._lacking(streams) if self.missing != "drop" else self._left_out(database))
        if not told:
            return
        names = listed(self._sets)
        if self.missing != "error":
            what = "those are left out" if self.missing == "drop" else "their vectors are null"
            note = f"vectors {names}: {'; '.join(told)}; {what}"
            self.notes += [] if note in self.notes else [note]
            return
        one = next(iter(self._sets))
        raise VectorError(
            f"vectors {names}: {'; '.join(told)}. Embed them, with duckplets embed {self._path} "
            f"--name {one} or corpus.embed(…, name={one!r}); or give vectors='drop' to leave out "
            f"texts without a vector, or vectors='null' to serve null for it"
        )

    def _left_out(self, database: Database) -> Iterator[str]:
        """Yield in words how many chunks a run with ``drop`` is without, by source."""
        settings = self._settings
        where = {"split": settings.split, "version": settings.corpus_version}
        reading = database.cursor()
        texts = pa.table({"text_hash": column(self._texts)})
        with closing(reading), reading.registered(kept_texts=texts):
            found = {"sources": settings.sources}
            for source, chunks, many in reading.run(
                "samples/vector_columns/left_out", where | found
            ):
                yield (
                    f"{counted(chunks, 'chunk')} of source {shown(source)} "
                    f"({counted(many, 'text')}) have none in each set"
                )

    def _lacking(self, streams: Sequence[Stream]) -> Iterator[str]:
        """Yield in words how many texts lack a vector, by set and part of a sample."""
        parts = self._parts()
        for name in sorted({name for name, _ in parts}):
            of = self._sets[name]
            seen: dict[int, Words] = {}
            by_part: dict[tuple[str, str], list[Words]] = defaultdict(list)
            for stream in streams:
                for part, hashes in _hashes_of(stream):
                    if (name, part) not in parts:
                        continue
                    if id(hashes) not in seen:  # several recipes share their lists
                        seen[id(hashes)] = hashes[of.rows(hashes) < 0]
                    by_part[stream.source, part].append(seen[id(hashes)])
            for (source, part), found in by_part.items():
                lacking = len(np.unique(np.concatenate(found)))
                if lacking:
                    yield (
                        f"{counted(lacking, 'text')} of {part} of source {shown(source)} "
                        f"{'has' if lacking == 1 else 'have'} none in {name!r}"
                    )

    def _parts(self) -> set[tuple[str, str]]:
        """Return which parts of samples need vectors, each with the set."""
        settings, found = self._settings, set()
        slots = slot_names(settings.kind, settings.negatives)
        for asked, name in self._columns.items():
            for slot in vector_slots([asked]):
                at = slots.index(slot)
                parts = {"anchors"} if at == 0 else {"positives"} if at == 1 else {"negatives"}
                if settings.kind == "pairs" and at == 1:
                    parts = {"positives", "negatives"}
                if settings.swap and at < 2 and len(slots) > 1:  # they change places
                    parts |= {"anchors", "positives"}
                found |= {(name, part) for part in parts}
        return found


def _hashes_of(stream: Stream) -> Iterator[tuple[str, Words]]:
    """Yield the texts that a stream draws from, by the part of a sample."""
    pool = stream.pool
    yield "anchors", pool.anchors.hashes
    if pool.positives is not None:
        own = pool.compiled.own_positive
        yield "positives", pool.anchors.hashes if own else pool.positives.hashes
    for negatives in (pool.negatives, pool.beyond):
        if negatives is not None:
            yield "negatives", negatives.hashes
