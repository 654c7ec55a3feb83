"""Plan shards from the lengths of texts, and write them as Parquet with summaries."""

# The rows of a shard follow from lengths alone, so neither order, threads nor interruptions matter.

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.base.atomic import written_aside
from duckplets.base.names import inside
from duckplets.errors import EngineError, ShardError
from duckplets.order.permute import key, shuffled
from duckplets.tokens.manifest import ShardEntry, ShardName, buckets_of
from duckplets.tokens.spool import METRIC, OFFSETS, Spool

BYTES = 4  # bytes per token in the size of a shard
_GROUP = 4 << 20  # about how many tokens a row group has, and row groups that are read together


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shard(ShardName):
    """A planned shard: its texts by place, in order of rows."""

    places: Integers
    tokens: int
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardJob:
    """The settings of all shards of an export, for workers."""

    folder: Path
    spool: Spool
    metrics: pa.Schema  # names and types
    offsets: bool
    compression: str
    row_group_size: int

    def schema(self) -> pa.Schema:
        """Return the schema of all shards of an export."""
        metrics = [(field.name.removeprefix(METRIC), field.type) for field in self.metrics]
        meta = pa.struct(
            [
                ("record_id", pa.string()),
                ("source", pa.string()),
                ("domain", pa.string()),
                ("token_count", pa.int32()),
                ("metrics", pa.struct(metrics)),
            ]
        )
        fields = [("text", pa.string()), ("tokens", pa.list_(pa.int32())), ("meta", meta)]
        return pa.schema(fields + ([("offsets", OFFSETS)] if self.offsets else []))


# -- the rows of shards ---------------------------------------------------------------------------


def plan(
    counts: Integers,
    group: tuple[str, str],
    first: int,
    *,
    buckets: Sequence[int],
    size: int,
    seed: int,
) -> Iterator[Shard]:
    """Yield the shards of a split and a source, by bucket and index."""
    # A last shard of less than a quarter of ``size`` joins its predecessor.
    found = buckets_of(counts, buckets)
    for bucket in range(len(buckets) + 1):
        places = np.flatnonzero((found == bucket) & (counts > 0))
        if not len(places):
            continue
        places = places[shuffled(key(seed, "token shards", *group, bucket), len(places))]
        ends = np.cumsum(counts[places], dtype=np.int64) * BYTES
        for index, (low, high) in enumerate(_cuts(ends, size)):
            rows = places[low:high]
            yield Shard(
                split=group[0],
                source=group[1],
                bucket=bucket,
                index=index,
                places=rows + first,
                tokens=int(counts[rows].sum()),
                seed=seed,
            )


def _cuts(ends: Integers, size: int) -> list[tuple[int, int]]:
    """Return first row and end of each shard, from cumulative bytes."""
    cuts = [0]
    while cuts[-1] < len(ends):
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        full = int(np.searchsorted(ends, before + size, side="left"))
        cuts.append(min(full + 1, len(ends)))
    if len(cuts) > 2:
        tail = int(ends[-1] - ends[cuts[-2] - 1])
        if tail * 4 < size:
            del cuts[-2]
    return list(itertools.pairwise(cuts))


# -- the folder ---------------------------------------------------------------------------------


@contextmanager
def writable(out: Path) -> Iterator[None]:
    """Create the folder, and translate errors of the system."""
    try:
        if not out.parent.is_dir():
            raise ShardError(f"out={str(out)!r}: there is no folder {out.parent}; create it first")
        out.mkdir(exist_ok=True)
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ShardError(f"out={str(out)!r}: cannot write there: {why}") from error
    except pa.ArrowException as error:
        raise ShardError(
            f"out={str(out)!r}: texts and tokens cannot be written or read: {error}. A row group "
            f"has at most 2 GB: give a smaller row_group_size, or overwrite=True for damaged files"
        ) from error


# -- files ----------------------------------------------------------------------------------------


def write_shard(job: ShardJob, shard: Shard) -> ShardEntry:
    """Write a shard and its summary, and return its entry."""
    import pyarrow.parquet as pq

    if not job.spool.folder.is_dir():
        raise EngineError(
            f"a worker does not see {job.spool.folder}, the folder of encoded texts: give an out= "
            f"that all workers share"
        )
    path, schema = inside(job.folder, shard.path, ShardError), job.schema()
    lines = inside(job.folder, shard.tsv, ShardError)
    path.parent.mkdir(parents=True, exist_ok=True)
    count = len(shard.places)
    most = _GROUP * count // shard.tokens + 1  # rows of a group are in memory three times
    group = min(job.row_group_size, most)
    step = max(most // group, 1) * group
    with written_aside(path) as file, written_aside(lines) as summary:
        summary.write(b"index\tlength\ttoken_sum\tsha256\n")
        with pq.ParquetWriter(
            file,
            schema,
            compression=job.compression,
            # Ids and texts hardly repeat: dictionary encoding took a third of the time.
            use_dictionary=["meta.source", "meta.domain"],
            write_statistics=["meta.token_count"],
        ) as writer:
            for low in range(0, count, step):
                rows = job.spool.rows(shard.places[low : low + step])
                _summarise(rows, low, summary)
                writer.write_table(_table(rows, shard, job, schema), group)
    return ShardEntry(
        split=shard.split,
        source=shard.source,
        bucket=shard.bucket,
        index=shard.index,
        records=len(shard.places),
        tokens=shard.tokens,
        bytes=path.stat().st_size,
        sha256=digest_of(path),
        seed=shard.seed,
        tsv_sha256=digest_of(lines),
    )


def _summarise(rows: pa.Table, first: int, file: BinaryIO) -> None:
    from pyarrow import csv

    table = rows.select(["token_count", "token_sum", "sha256"])
    table = table.add_column(0, "index", pa.array(np.arange(first, first + len(rows))))
    options = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    csv.write_csv(table, file, options)


def _table(rows: pa.Table, shard: Shard, job: ShardJob, schema: pa.Schema) -> pa.Table:
    def column(name: str, kind: pa.DataType) -> pa.Array:
        if name not in rows.column_names:
            return pa.nulls(len(rows), kind)
        found = rows[name].combine_chunks()
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    meta = schema.field("meta").type
    metrics = pa.StructArray.from_arrays(
        [column(field.name, field.type) for field in job.metrics],
        fields=list(meta.field("metrics").type),
    )
    source = pa.array([shard.source], pa.string()).take(pa.array(np.zeros(len(rows), np.int64)))
    columns = {
        "text": column("text", pa.string()),
        "tokens": column("tokens", pa.list_(pa.int32())),
        "meta": pa.StructArray.from_arrays(
            [
                column("record_id", pa.string()),
                source,
                column("domain", pa.string()),
                column("token_count", pa.int32()),
                metrics,
            ],
            fields=list(meta),
        ),
    }
    if job.offsets:
        columns["offsets"] = column("offsets", OFFSETS)
    return pa.table(columns, schema=schema)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
