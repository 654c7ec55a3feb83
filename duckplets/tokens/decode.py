"""Read the tokens of a shard, after comparing it with what the manifest says of it."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Integers32
from duckplets.base.names import inside
from duckplets.errors import DamagedFileError
from duckplets.tokens.manifest import ShardEntry, ShardManifest

_READ = 1 << 22  # bytes read at once for a digest
_ROWS = 8192  # decoded at once


def decoded(
    folder: Path, shard: ShardEntry, manifest: ShardManifest
) -> Iterator[tuple[Integers32, Integers]]:
    """Yield tokens of a shard with an end after each text, and where those of each text stop.

    Raises:
        DamagedFileError: It has other bytes, rows or tokens than the manifest says.
    """
    rows = total = 0
    check(folder, shard)
    for ids, stops in row_group(folder, shard, manifest, None):
        rows, total = rows + len(stops), total + len(ids) - len(stops)
        yield ids, stops
    _check_counts(_file(folder, shard), shard, rows, total)


def check(folder: Path, shard: ShardEntry) -> None:
    """Compare a shard with its checksum.

    Raises:
        DamagedFileError: It has other bytes than the manifest says.
    """
    path = _file(folder, shard)
    with reading(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == shard.bytes and digest_of(file, size, "sha256") == shard.sha256:
            return
    raise DamagedFileError(
        f"{path} is not as the manifest says: its bytes are others. The command that made the "
        f"folder mends it: duckplets shard CORPUS {folder} … (of shards in a store delete this "
        f"file of the cache, and it is brought again)"
    )


def row_group(
    folder: Path, shard: ShardEntry, manifest: ShardManifest, number: int | None
) -> Iterator[tuple[Integers32, Integers]]:
    """Yield tokens and where texts stop, as ``decoded`` does, of one row group or of all.

    Raises:
        DamagedFileError: It cannot be read, or has other tokens than the tokenizer.
    """
    import pyarrow.parquet as pq

    path = _file(folder, shard)
    with reading(path), pq.ParquetFile(path) as parquet:
        groups = None if number is None else [number]
        for batch in parquet.iter_batches(_ROWS, row_groups=groups, columns=["tokens"]):
            column = batch.column("tokens")
            if not pa.types.is_list(column.type):
                raise DamagedFileError(f"{path}: its tokens are no lists of integers")
            ids = column.flatten().to_numpy(zero_copy_only=False)
            lengths = np.diff(column.offsets.to_numpy()).astype(np.int64)
            least, most = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
            if column.null_count or least < 0 or most >= manifest.tokenizer.vocab_size:
                raise DamagedFileError(f"{path} has tokens that the tokenizer has not")
            yield _ended(ids, lengths, manifest.tokenizer.eos_id or 0)


def lengths_of(folder: Path, shard: ShardEntry) -> tuple[Integers, Integers]:
    """Return the tokens of each text of a shard, and where its row groups begin, in texts.

    Its bytes are not compared with its checksum, for all of them would be read; where its tokens
    are, they tell whether this was right.

    Raises:
        DamagedFileError: It has other rows or tokens than the manifest says.
    """
    import pyarrow.parquet as pq

    path = _file(folder, shard)
    with reading(path), pq.ParquetFile(path) as parquet:
        about = parquet.metadata
        rows = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
        table = parquet.read(columns=["meta.token_count"])
        counts = table.column("meta").combine_chunks().field("token_count")
        lengths = counts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if counts.null_count or (lengths < 0).any():
        raise DamagedFileError(f"{path} does not say how many tokens its texts have")
    _check_counts(path, shard, len(lengths), int(lengths.sum()))
    return lengths, np.cumsum([0, *rows])[:-1]


def _file(folder: Path, shard: ShardEntry) -> Path:
    return inside(folder, shard.path, DamagedFileError)


def _check_counts(path: Path, shard: ShardEntry, rows: int, tokens: int) -> None:
    if (rows, tokens) != (shard.records, shard.tokens):
        raise DamagedFileError(
            f"{path} has {rows:,} rows of {tokens:,} tokens instead of {shard.records:,} of "
            f"{shard.tokens:,}"
        )


def _ended(ids: Integers32, lengths: Integers, end: int) -> tuple[Integers32, Integers]:
    """Return tokens with an end after each text, and where each text stops, the end included."""
    stops = np.cumsum(lengths + 1)
    found = np.full(len(ids) + len(lengths), end, np.int32)
    is_token = np.ones(len(found), bool)
    is_token[stops - 1] = False
    found[is_token] = ids
    return found, stops


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what Arrow and the system say of a shard into an error of ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path} is not there, and the manifest lists it") from error
    except (pa.ArrowException, OSError, KeyError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise DamagedFileError(f"{path} cannot be read: {error}; export it anew") from error


def digest_of(file: BinaryIO, size: int, how: str = "blake2b") -> str:
    """Return the digest of the next so many bytes of a file."""
    found = hashlib.new(how) if how == "sha256" else hashlib.blake2b(digest_size=16)
    while size > 0 and (part := file.read(min(_READ, size))):
        found.update(part)
        size -= len(part)
    return found.hexdigest()
