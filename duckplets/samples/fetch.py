"""Fetch the texts of a plan and make its other columns: a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from duckplets.artifacts.folder import damaged
from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.base.arrays import Floats, Integers
from duckplets.base.columns import column, text_column
from duckplets.base.fork_guard import HomeLock
from duckplets.base.prefetch import IsStopped, never
from duckplets.db.database import Database
from duckplets.errors import StateMismatchError
from duckplets.samples.batch import Block, SlotTexts
from duckplets.samples.columns import Samples, fallbacks, known_columns, slot_names
from duckplets.samples.plan import Plan
from duckplets.samples.prefixes import Prefixes
from duckplets.samples.stream import Stream
from duckplets.serving.snapshot import MANIFEST, is_of, sound
from duckplets.serving.spans import TextSpans
from duckplets.serving.texts import ChunkTexts
from duckplets.vectors.columns import RunVectors

# from stored texts to columns, one of them named after the slot
Parse: TypeAlias = Callable[[Database, pa.Array], Mapping[str, pa.Array]]


class Fetcher:
    """Turn plans into blocks on its own connection."""

    def __init__(
        self,
        database: Database,
        streams: Sequence[Stream],
        *,
        kind: str,
        negatives: int,
        columns: Sequence[str],
        texts: ChunkTexts,
        folder: Path | None = None,  # snapshot of texts and pools
        prefixes: Prefixes | None = None,
        vectors: RunVectors | None = None,
        parse: Parse | None = None,  # parses conversations
        padded_from: int | None = None,  # first position of samples that only fill a batch
    ) -> None:
        self._database = database.cursor()
        self._lock = HomeLock("the reader of this run", "open a run in each process")
        self._streams = streams  # streams of plans; more may be added
        self.slots = slot_names(kind, negatives)
        self._known = known_columns(kind, negatives)
        self._columns = columns
        self._details = "conversation_details" if kind == "messages" else "details"
        self._texts, self.tokens_of, self._folder = texts, texts.tokens, folder
        self._prefixes, self._vectors, self.parse = prefixes, vectors, parse
        self._shows_meta = any(name.endswith("_prefix_meta") for name in columns)
        self.padded_from = padded_from
        self.reads = ReadAhead()

    def close(self) -> None:
        """Close the connection."""
        if not self._lock.home.is_left:
            with self._lock:
                self._database.close()

    def sound(self) -> AbstractContextManager[None]:
        """Turn index errors into DamagedFileError if the snapshot is the cause."""
        return sound(self._folder)

    def fetch(self, plan: Plan, *, start: int, stop: int, is_stopped: IsStopped = never) -> Block:
        """Return a plan's samples as a block of batches."""
        samples, size, vectors = self._samples(plan), len(plan), {}
        keys, order = samples.keys, np.arange(plan.chunks.size, dtype=np.int64)
        with self._lock:  # refuses a forked process
            spans = self._texts.spans(keys)
        texts: TextSpans | pa.Array = (spans := spans.read_ahead(self.reads, is_stopped))
        with self._lock:
            if self.parse is not None:
                samples.parsed = self.parse(self._database, texts.take(order))
                texts = samples.parsed[self.slots[0]]
            if self._prefixes is not None and size:
                texts, samples.prefixed = self._prefixes.before(
                    self._database,
                    plan.positions,
                    texts.take(order),
                    meta=self._shows_meta,
                    **self._texts.columns(["record_key", "tokens"], keys),
                )
        columns = self._made(samples, self._columns)
        for number, slot in enumerate(self.slots):
            columns[slot] = SlotTexts(texts, order[number * size : (number + 1) * size])
            if plan.counts is not None and number:
                columns[slot] = SlotTexts(texts, samples.documents[1], samples.documents[0])
        if self._vectors is not None:
            hashes = dict(zip(self.slots, plan.hashes, strict=False))
            columns |= (vectors := self._vectors.rows_of(plan.positions, hashes))
            for found in vectors.values():
                found.opened.read_ahead(found.rows, self.reads, is_stopped)
        ordered = {name: columns[name] for name in self._columns}
        vector_bytes = sum(rows.opened.vector_set.width for rows in vectors.values())
        return Block(
            *(start, stop, size, ordered, int(texts.nbytes), vector_bytes, self._folder),
            read_bytes=spans.read_bytes,
        )

    def _samples(self, plan: Plan) -> Samples:
        shared = self._streams, self.slots, self._texts, self._look_up, self._labels, self._scores
        padded_from = np.inf if self.padded_from is None else self.padded_from
        return Samples(plan, *shared, padded_from=padded_from)

    def count(self, plan: Plan, sources: Integers, size: int) -> Integers:
        """Return tokens, fallbacks and displaced samples of a plan by source: shape (size, 3)."""
        found, of_samples = np.zeros((size, 3), np.int64), sources[plan.streams]
        # integers: bincount adds weights as floats
        present = plan.present
        for slot, chunks in enumerate(plan.chunks):
            some = slice(None) if present is None else present[slot]
            np.add.at(found[:, 0], of_samples[some], self._texts.tokens(chunks[some]))
        np.add.at(found[:, 1], of_samples, fallbacks(plan, self._streams))
        if plan.displaced is not None:
            gave = plan.displaced[plan.displaced >= 0]
            found[:, 2] = np.bincount(sources[gave], minlength=size)
        return found

    def mean_tokens(self, stream: Stream, per_draw: int, *, swaps: bool) -> float:
        """Return the expected tokens of a sample of a stream, without prefixes."""
        return stream.mean_tokens(self._texts.tokens, per_draw, swaps=swaps)

    def proximity(self, plan: Plan) -> list[float | None]:
        """Return 1/distance of the windows of anchor and positive; None for other sections."""
        found = self._samples(plan).proximity().tolist()
        return [None if value != value else value for value in found]

    def identities(self, plan: Plan, batch: int) -> pa.Table:
        """Return the ids of a plan's samples; see ``Sampler.served``."""
        samples, versions = self._samples(plan), np.array([s.version for s in self._streams])
        names = [] if len(self.slots) == 1 or plan.counts is not None else ["swapped"]
        names += [] if plan.labels is None else ["label"]
        details = ("record_id", "section", "window")
        of_slots = [f"{slot}_{name}" for slot in self.slots for name in details]
        names += of_slots if self.parse is None else ["record_id"]
        found: dict[str, Any] = {"step": plan.positions // batch}
        found |= self._made(samples, ["position", "source", "recipe"])
        if (versions != versions[0]).any():
            found["version"] = versions[plan.streams]
        if len({(s.source, s.recipe.name, s.version) for s in self._streams}) < len(versions):
            generations = pa.array([stream.generation for stream in self._streams], pa.int64())
            found["generation"] = generations.take(column(plan.streams))
        if plan.displaced is not None:
            sources = text_column([None, *(stream.source for stream in self._streams)])
            found["displaced"] = sources.take(column(plan.displaced + 1))
        return pa.table(found | self._made(samples, names))

    def _made(self, samples: Samples, names: Sequence[str]) -> dict[str, Any]:
        found = {}
        for name in names:
            if (make := self._known.get(name)) is not None:
                values = make(samples)
                found[name] = column(values) if isinstance(values, np.ndarray) else values
        return found

    def _labels(self, anchors: Integers, texts: Integers, streams: Integers) -> pa.Array:
        versions = np.array([stream.version for stream in self._streams])
        columns = {"request": np.arange(len(texts)), "anchor": anchors, "positive": texts}
        columns["version"] = versions[streams]
        with self._lock, self._database.registered(requests=pa.table(columns)):
            labels = self._database.table("samples/fetch/positive_labels")["label"]
        return labels.combine_chunks()

    def _scores(self, anchors: Integers, texts: Integers, files: Sequence[str]) -> Floats:
        """Return the scores of texts for anchors in files of a mining; NaN if there is none."""
        columns = {"request": np.arange(len(texts)), "anchor": anchors, "positive": texts}
        with self._lock, self._database.registered(requests=pa.table(columns)):
            where = {"files": list(files)}
            scores = self._database.table("samples/fetch/positive_scores", where)["score"]
        return np.asarray(scores.to_numpy(), np.float64)

    def _look_up(self, samples: Samples) -> pa.Table:
        """Return the details of chunks, or of records of conversations, slot by slot."""
        request = np.arange(len(samples.keys), dtype=np.int64)
        requests = pa.table({"request": request, "key": samples.keys})
        with self._lock, self._database.registered(requests=requests):
            found = self._database.table(f"samples/fetch/{self._details}")
        if found.num_rows != len(request):
            with self._lock:
                if self._folder is not None and is_of(self._database, self._folder):
                    raise damaged(self._folder / MANIFEST, "its chunks differ from the corpus")
            raise StateMismatchError(
                "the corpus was chunked again since this sampler was opened; open another sampler"
            )
        return found.combine_chunks()
