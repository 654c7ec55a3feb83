"""Read the tokens of a shard, after comparing it with what the manifest says of it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Integers32
from duckplets.base.names import inside
from duckplets.errors import DamagedFileError
from duckplets.tokens.manifest import ShardEntry, ShardManifest
from duckplets.tokens.write import digest_of

_ROWS = 8192  # decoded at once


def decoded(
    folder: Path, shard: ShardEntry, manifest: ShardManifest
) -> Iterator[tuple[Integers32, Integers]]:
    """Yield tokens of a shard with an end after each text, and where those of each text stop.

    Raises:
        DamagedFileError: It cannot be read, or has other bytes, rows or tokens than the manifest
            says.
    """
    import pyarrow.parquet as pq

    rows = total = 0
    path = inside(folder, shard.path, DamagedFileError)
    _check(folder, shard)
    with reading(path), pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(_ROWS, columns=["tokens"]):
            column = batch.column("tokens")
            if not pa.types.is_list(column.type):
                raise DamagedFileError(f"{path}: its tokens are no lists of integers")
            ids = column.flatten().to_numpy(zero_copy_only=False)
            lengths = np.diff(column.offsets.to_numpy()).astype(np.int64)
            least, most = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
            if column.null_count or least < 0 or most >= manifest.tokenizer.vocab_size:
                raise DamagedFileError(f"{path} has tokens that the tokenizer has not")
            rows, total = rows + len(lengths), total + len(ids)
            yield _ended(ids, lengths, manifest.tokenizer.eos_id or 0)
    if (rows, total) != (shard.records, shard.tokens):
        raise DamagedFileError(
            f"{path} has {rows:,} rows of {total:,} tokens instead of {shard.records:,} of "
            f"{shard.tokens:,}"
        )


def _check(folder: Path, shard: ShardEntry) -> None:
    """Compare a shard with its checksum."""
    path = inside(folder, shard.path, DamagedFileError)
    with reading(path):
        if path.stat().st_size == shard.bytes and digest_of(path) == shard.sha256:
            return
    raise DamagedFileError(
        f"{path} is not as the manifest says: its bytes are others. The command that made the "
        f"folder mends it: duckplets shard CORPUS {folder} … (of shards in a store delete this "
        f"file of the cache, and it is brought again)"
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
