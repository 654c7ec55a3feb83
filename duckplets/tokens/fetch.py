"""Turn plans of token rows into blocks, and blocks into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.base.names import inside
from duckplets.base.prefetch import IsStopped, never
from duckplets.errors import DamagedFileError, DuckpletsError
from duckplets.samples.plan import Plan
from duckplets.tokens.batches import TokenBatch
from duckplets.tokens.manifest import ShardManifest
from duckplets.tokens.memmap import TokenFile, reading
from duckplets.tokens.rows import Gathered, TokenStream

_SHARDS = 16  # shards whose record ids are cached


@dataclass(frozen=True, slots=True, eq=False)
class TokenBlock:
    """Rows of consecutive batches, with the interface of a ``Block``."""

    start: int  # position of the first batch
    stop: int
    groups: list[Gathered]  # rows by width, in order
    group: Integers  # of every row
    place: Integers  # number of every row in its group
    found: dict[str, Any]  # the columns of all rows that are not arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all tokens."""
        return sum(group.ids.nbytes for group in self.groups)

    read_bytes = 0  # all rows are gathered already
    is_held = True

    def batch(
        self, low: int, high: int, *, position: int, step: int, sources: tuple[str, ...]
    ) -> TokenBatch:
        """Return rows ``low … high-1``, which have one width, as a batch."""
        rows = self.groups[int(self.group[low]) if low < high else 0]
        first = int(self.place[low]) if low < high else 0
        last = first + high - low
        begin, end = np.searchsorted(rows.owners, [first, last])
        gathered = Gathered(
            rows.ids[first:last].copy(),
            rows.lengths[first:last].copy(),
            rows.owners[begin:end] - first,
            rows.columns[begin:end],
        )
        found = {name: values[low:high].copy() for name, values in self.found.items()}
        found["source"] = found["source"].tolist()
        return TokenBatch(gathered, found, step=step, position=position, sources=sources)


class TokenFetcher:
    """Turns plans into blocks; rows from ``padded_from`` on only fill the last batch."""

    slots = ("input_ids",)

    def __init__(
        self,
        streams: Sequence[TokenStream],
        file: TokenFile,
        folder: Path,
        manifest: ShardManifest,
        *,
        padded_from: int | None,
        pads: bool,
    ) -> None:
        self._streams = streams
        self._file = file
        self.padded_from, self._pads = padded_from, pads
        self._ids = RecordIds(folder, manifest)
        self.reads = file.reads

    def close(self) -> None:
        """Do nothing: the garbage collector closes maps with the last array."""

    drop = close

    @contextmanager
    def sound(self) -> Iterator[None]:
        """Turn impossible index errors into DamagedFileError."""
        try:
            yield
        except (IndexError, ValueError, ArithmeticError, MemoryError) as error:
            if isinstance(error, DuckpletsError):
                raise
            raise self._file.damage("its offsets are outside the file") from error

    def count(self, plan: Plan, sources: Integers, size: int) -> Integers:
        """Return the tokens of the rows of a plan by source, in the first of three columns."""
        found = np.zeros((size, 3), np.int64)
        for number, at in self._by_stream(plan):
            rows = self._streams[number].rows
            found[sources[number], 0] += rows.lengths(plan.chunks[0][at]).sum()
        return found

    def mean_tokens(self, stream: TokenStream, per_draw: int, *, swaps: bool) -> float:
        """Return the mean number of tokens of a row of a stream."""
        return stream.rows.tokens / len(stream)

    def fetch(
        self, plan: Plan, *, start: int, stop: int, is_stopped: IsStopped = never
    ) -> TokenBlock:
        """Return the rows of a plan as a block."""
        widths = [stream.rows.width for stream in self._streams]
        ordered = sorted({widths[n] for n in np.unique(plan.streams).tolist()} or {widths[0]})
        group = np.searchsorted(ordered, np.array(widths))[plan.streams]
        place = np.zeros(len(plan), np.int64)
        groups = []
        for number, width in enumerate(ordered):
            at = np.flatnonzero(group == number)
            place[at] = np.arange(len(at))
            groups.append(self._gathered(plan, at, width))
        names = np.array([stream.source for stream in self._streams], object)
        found = {"source": names[plan.streams]}
        if self._streams[0].bucket is not None:
            buckets = np.array([stream.bucket for stream in self._streams], np.int32)
            found["bucket"] = buckets[plan.streams]
        found["row"] = plan.chunks[0]
        if self._pads:
            least = np.inf if self.padded_from is None else self.padded_from
            found["padded"] = plan.positions >= least
        return TokenBlock(start, stop, groups, group, place, found)

    def _gathered(self, plan: Plan, at: Integers, width: int) -> Gathered:
        """Return rows of a plan, all of one width, in order."""
        streams, rows = plan.streams[at], plan.chunks[0][at]
        numbers = np.unique(streams).tolist()
        if len(numbers) == 1:
            found: Gathered = self._streams[numbers[0]].rows.take(rows)
            return found
        ids, lengths = np.empty((len(at), width), np.int32), np.zeros(len(at), np.int64)
        owners, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number in numbers:
            places = np.flatnonzero(streams == number)
            part = self._streams[number].rows.take(rows[places])
            ids[places], lengths[places] = part.ids, part.lengths
            owners.append(places[part.owners])
            columns.append(part.columns)
        owner, column = np.concatenate(owners), np.concatenate(columns)
        order = np.argsort(owner, kind="stable")
        return Gathered(ids, lengths, owner[order], column[order])

    def identities(self, plan: Plan, batch: int) -> pa.Table:
        """Return position, source, row and record ids of the rows of a plan."""
        rows, epochs = plan.chunks
        first, last = np.zeros(len(plan), np.int64), np.zeros(len(plan), np.int64)
        for number, at in self._by_stream(plan):
            first[at], last[at] = self._streams[number].rows.texts(rows[at])
        names = [stream.source for stream in self._streams]
        buckets = [stream.bucket for stream in self._streams]
        found = {
            "step": plan.positions // batch,
            "position": plan.positions,
            "source": pa.array([names[n] for n in plan.streams.tolist()], pa.string()),
            "bucket": pa.array([buckets[n] for n in plan.streams.tolist()], pa.int32()),
            "epoch": epochs,
            "row": rows,
            "record_ids": self._ids.of(first, last),
        }
        return pa.table(found)

    def _by_stream(self, plan: Plan) -> Iterator[tuple[int, Integers]]:
        for number in np.unique(plan.streams).tolist():
            yield number, np.flatnonzero(plan.streams == number)


class RecordIds:
    """The record ids of texts, read from the shards on demand."""

    def __init__(self, folder: Path, manifest: ShardManifest) -> None:
        self._folder, self._shards = folder, manifest.shards
        self._firsts = np.cumsum([0, *(shard.records for shard in manifest.shards)])
        self._ids = lru_cache(maxsize=_SHARDS)(self._of_shard)

    def of(self, first: Integers, last: Integers) -> pa.Array:
        """Return a list of record ids for each range of texts."""
        counts = last - first
        starts = np.concatenate([[0], np.cumsum(counts)])
        texts = np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
        shards = np.searchsorted(self._firsts, texts, side="right") - 1
        order = np.argsort(shards, kind="stable")
        parts = [pa.array([], pa.string())]
        for shard in np.unique(shards).tolist():
            within = texts[order[shards[order] == shard]] - self._firsts[shard]
            parts.append(self._ids(shard).take(pa.array(within)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        ids = pa.concat_arrays(parts).take(pa.array(back))
        return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), ids)

    def _of_shard(self, number: int) -> pa.Array:
        import pyarrow.parquet as pq

        shard = self._shards[number]
        path = inside(self._folder, shard.path, DamagedFileError)
        with reading(path):
            with pq.ParquetFile(path) as file:
                table = file.read(columns=["meta.record_id"])
            return table.column("meta").combine_chunks().field("record_id").cast(pa.string())
