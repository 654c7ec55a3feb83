"""Fetch the texts and details of a plan as a block.

plan (chunk keys) ─ChunkTexts→ columns, spans ─→ Block ─slices→ texts, when they are asked for
                      └─sql/samples/fetch/details→ what else a user wants to know of a record
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.artifacts.folder import damaged
from duckplets.base.arrays import Integers
from duckplets.base.columns import column, text_column
from duckplets.base.fork_guard import HomeLock
from duckplets.db.database import Database
from duckplets.errors import StateMismatchError
from duckplets.recipes.recipes import SqlStrategy, TripletRecipe
from duckplets.samples.batch import Block
from duckplets.samples.columns import DETAILS, fallbacks, negative_values, slot_names
from duckplets.samples.expectation import mean_tokens
from duckplets.samples.planned import Plan, without_negative
from duckplets.samples.prefixes.prefixing import Prefixed, Prefixes, nothing
from duckplets.samples.stream import Stream
from duckplets.samples.vector_columns import RunVectors
from duckplets.serving.snapshot import MANIFEST, is_of, sound
from duckplets.serving.texts import ChunkTexts, TextSpans

NEEDED = ("weight", "section_key", "window_index")


class Fetcher:
    """Turn plans into blocks, on a connection of its own.

    Args:
        database: The corpus.
        streams: Those the plans refer to.
        kind: ``triplets``, ``pairs``, ``texts`` or ``messages``.
        negatives: How many a triplet has.
        columns: From ``checked_columns``.
        texts: Of all chunks of the corpus.
        folder: Of the snapshot that texts and pools are of, if they are of one.
        prefixes: What stands before texts; None where the version has no prefixes.
        vectors: Of the run; None where no column has any.

    Attributes:
        slots: The text columns of this kind of sample, in order.
        padded_from: Position from which samples only fill up the last batch, or None.
    """

    def __init__(
        self,
        database: Database,
        streams: Sequence[Stream],
        *,
        kind: str,
        negatives: int,
        columns: Sequence[str],
        texts: ChunkTexts,
        folder: Path | None = None,
        prefixes: Prefixes | None = None,
        vectors: RunVectors | None = None,
    ) -> None:
        self._database = database.cursor()
        self._lock = HomeLock("what reads for this run", "open a run in each process")
        self._streams = streams
        self.slots = slot_names(kind, negatives)
        self._columns = list(columns)
        self._texts = texts
        self._folder = folder
        self._prefixes = prefixes
        self._vectors = vectors
        self.padded_from: int | None = None

    def close(self) -> None:
        """Close the connection."""
        if not self._lock.home.is_left:
            with self._lock:
                self._database.close()

    def drop(self) -> None:
        """Close the connection also while it is used: that ends in an error."""
        self._database.close()

    def sound(self) -> AbstractContextManager[None]:
        """Tell what cannot be where the snapshot that the run is served from is sound."""
        return sound(self._folder)

    def fetch(self, plan: Plan, *, start: int, stop: int) -> Block:
        """Return the samples of a plan as the block of batches from ``start`` to ``stop``."""
        size = len(plan)
        keys = np.concatenate(plan.chunks)
        chunks = self._texts.columns(NEEDED, keys)
        prefixed = self._prefixed(plan, keys)
        order = np.arange(len(keys), dtype=np.int64)
        with self._lock:  # refuses a forked process, as reading from the corpus does
            texts: TextSpans | pa.Array = self._texts.spans(keys)
        if prefixed is not None:
            bare = texts.take(order)
            lines = pc.binary_join_element_wise(prefixed.lines, bare, "\n")
            texts = prefixed.fitted(order, pc.coalesce(lines, bare))
        found = self._basics(plan, chunks) | self._details(plan, keys, self._columns)
        found |= negative_values(plan, self._streams, self._columns)
        found |= self._prefix_columns(prefixed, len(keys))
        vectors = {} if self._vectors is None else self._vectors.rows_of(plan, self.slots)
        lazy = {*self.slots, *vectors}
        columns = {c: None if c in lazy else as_array(found[c]) for c in self._columns}
        parts = {slot: order[i * size : (i + 1) * size] for i, slot in enumerate(self.slots)}
        return Block(start, stop, columns, texts, parts, vectors, self._folder)

    def count(self, plan: Plan, sources: Integers, size: int) -> Integers:
        """Return tokens, fallbacks and displaced samples of a plan by source: shape (size, 3).

        Args:
            plan: Of some positions.
            sources: Number of the source of every stream.
            size: Number of all sources.
        """
        found, of_samples = np.zeros((size, 3), np.int64), sources[plan.streams]
        # As integers: bincount adds weights up as floats.
        for chunks in plan.chunks:
            np.add.at(found[:, 0], of_samples, self._texts.tokens(chunks))
        np.add.at(found[:, 1], of_samples, fallbacks(plan, self._streams))
        if plan.displaced is not None:
            gave = plan.displaced[plan.displaced >= 0]
            found[:, 2] = np.bincount(sources[gave], minlength=size)
        return found

    def mean_tokens(self, stream: Stream, per_draw: int, *, swaps: bool) -> float:
        """Return the tokens that a sample of a stream is expected to have, without prefixes."""
        return mean_tokens(stream, self._texts.tokens, per_draw, swaps=swaps)

    def identities(self, plan: Plan, batch: int) -> pa.Table:
        """Return what a plan's samples are, without their texts; ``batch`` positions a step.

        Columns: ``step``, ``position``, ``source``, ``recipe``, ``version`` where the run has taken
        later ones, ``displaced`` where no text may come twice in a batch, ``swapped`` where there
        is a positive, for pairs ``label``, and of every slot ``SLOT_record_id``, ``SLOT_section``
        and ``SLOT_window``; of messages ``record_id``.
        """
        keys = np.concatenate(plan.chunks)
        basics = self._basics(plan, self._texts.columns(NEEDED, keys))
        versions = [stream.version for stream in self._streams]
        basics["version"] = np.array(versions)[plan.streams]
        told = ["version"] if len({*versions}) > 1 else []
        if plan.displaced is not None:
            sources = [None, *(stream.source for stream in self._streams)]
            basics["displaced"] = _named(plan.displaced + 1, sources)
            told.append("displaced")
        names = [
            "position",
            "source",
            "recipe",
            *told,
            *(["swapped"] if len(self.slots) > 1 else []),
        ]
        names += ["label"] if "label" in basics else []
        found = {"step": plan.positions // batch} | {name: basics[name] for name in names}
        found |= self._details(plan, keys, self._identifying)
        return pa.table({name: as_array(values) for name, values in found.items()})

    @property
    def _identifying(self) -> list[str]:
        """The columns that say what a sample is."""
        return [f"{slot}_{d}" for slot in self.slots for d in ("record_id", "section", "window")]

    def _table(self, name: str, **asked: pa.Table) -> pa.Table:
        """Run a statement of ``sql/samples/fetch`` over requests that are given to it."""
        with self._lock, self._database.registered(**asked):
            return self._database.table(f"samples/fetch/{name}")

    def _prefixed(self, plan: Plan, keys: Integers) -> Prefixed | None:
        """Return what stands before the texts of all slots."""
        if self._prefixes is None or len(plan) == 0:
            return None
        columns, meta = self._texts.columns(["record_key", "tokens"], keys), self._shows_meta
        with self._lock:
            return self._prefixes.of(self._database, plan.positions, meta=meta, **columns)

    @property
    def _shows_meta(self) -> bool:
        return any(f"{slot}_prefix_meta" in self._columns for slot in self.slots)

    def _prefix_columns(self, prefixed: Prefixed | None, size: int) -> dict[str, pa.Array]:
        """Return the columns that tell of prefixes."""
        if prefixed is None:
            prefixed = nothing(size, meta=self._shows_meta)
        samples = size // len(self.slots)
        found = {}
        for start, slot in zip(range(0, size, samples or 1), self.slots, strict=False):
            found[f"{slot}_prefix"] = prefixed.lines.slice(start, samples)
            if prefixed.meta is not None:
                found[f"{slot}_prefix_meta"] = prefixed.meta.slice(start, samples)
        return found

    def _details(self, plan: Plan, keys: Integers, columns: Sequence[str]) -> dict[str, Any]:
        """Return those of the columns that are details of a slot."""
        wanted = {column: found for column in columns if (found := self._detail(column))}
        if not wanted:
            return {}
        size = len(plan)
        order = np.arange(len(keys), dtype=np.int64)
        details = self._table("details", asked=pa.table({"request": order, "chunk_key": keys}))
        if details.num_rows != len(keys):
            self._refuse(plan, keys, order)
        return {
            column: details[detail].combine_chunks().slice(self.slots.index(slot) * size, size)
            for column, (slot, detail) in wanted.items()
        }

    def _refuse(self, plan: Plan, keys: Integers, missing: Integers) -> NoReturn:
        slot, row = divmod(int(missing[0]), len(plan))
        stream = self._streams[int(plan.streams[row])]
        section = int(self._texts.columns(["section_key"], keys[missing[:1]])["section_key"][0])
        with self._lock:
            found = self._database.run("samples/fetch/record_of", {"section_key": section})
            if self._folder is not None and is_of(self._database, self._folder):
                raise damaged(self._folder / MANIFEST, "its chunks are not those of the corpus")
        record = f"record {found[0][0]!r}" if found else f"section key {section}, which is gone"
        raise StateMismatchError(
            f"the corpus was chunked anew since this sampler was opened; open another one. "
            f"Position {int(plan.positions[row])}, source {stream.source!r}, recipe "
            f"{stream.recipe.name!r}: the {self.slots[slot]} of {record} is not what it was"
        )

    def _detail(self, column: str) -> tuple[str, str] | None:
        """Split a column such as ``anchor_record_id`` into slot and detail."""
        every = ((slot, detail) for slot in self.slots for detail in DETAILS)
        return next((pair for pair in every if "_".join(pair) == column), None)

    def _basics(self, plan: Plan, chunks: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        recipes = [stream.recipe for stream in self._streams]
        position, last = plan.positions, self.padded_from
        basics: dict[str, Any] = {
            "position": position,
            "padded": position >= (np.inf if last is None else last),
            "weight": self._weights(plan, chunks),
            "instruction": _named(plan.streams, [r.instruction for r in recipes]),
            "recipe": _named(plan.streams, [r.name for r in recipes]),
            "source": _named(plan.streams, [s.source for s in self._streams]),
            "swapped": plan.swapped,
        }
        if plan.labels is not None:
            reasons = [None, *("given" if plan.given else _reason(r) for r in recipes)]
            which = np.where(without_negative(plan) & (not plan.given), 0, plan.streams + 1)
            basics["label"], basics["reason"] = plan.labels, _named(which, reasons)
        return basics

    def proximity(self, plan: Plan) -> list[float | None]:
        """Return 1/distance of the windows of anchor and positive, None for other sections."""
        if len(self.slots) == 1:
            return [None] * len(plan)
        near, factor = self._proximity(
            self._texts.columns(NEEDED, np.concatenate(plan.chunks)), len(plan)
        )
        return [f if is_near else None for f, is_near in zip(factor, near, strict=True)]

    def _weights(self, plan: Plan, chunks: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """Recipe weight × the mean over slots of trust × position (× proximity), as specified."""
        weights = chunks["weight"].reshape(len(self.slots), len(plan))
        if len(self.slots) > 1:
            weights[:2] *= self._proximity(chunks, len(plan))[1]
        by_recipe = np.array([stream.recipe.weight for stream in self._streams])
        product: np.ndarray[Any, Any] = weights.mean(axis=0) * by_recipe[plan.streams]
        return product

    def _proximity(self, chunks: dict[str, np.ndarray[Any, Any]], size: int) -> tuple[Any, Any]:
        """Return whether the first two slots are windows of one section, and 1/distance if so."""
        sections, windows = (
            chunks[name].reshape(len(self.slots), size) for name in ("section_key", "window_index")
        )
        near = (sections[0] == sections[1]) & (windows[0] >= 0) & (windows[1] >= 0)
        apart = np.maximum(np.abs(windows[0] - windows[1]), 1)
        return near, np.where(near, 1 / apart, 1.0)


def as_array(values: Any) -> pa.Array:
    """Return a column as Arrow has it."""
    return values if isinstance(values, pa.Array) else column(values)


def _named(which: Integers, names: list[str | None]) -> pa.Array:
    return text_column(names).take(column(which))


def _reason(recipe: Any) -> str:
    if isinstance(recipe, TripletRecipe):
        return "sql" if isinstance(recipe.strategy, SqlStrategy) else str(recipe.strategy)
    return ""
