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
from duckplets.errors import DamagedFileError
from duckplets.tokens.manifest import Manifest, ShardEntry

_READ = 1 << 22  # bytes read at once for a digest
_ROWS = 8192  # decoded at once


def decoded(
    folder: Path, shard: ShardEntry, manifest: Manifest
) -> Iterator[tuple[Integers32, Integers]]:
    """Yield tokens of a shard with an end after each text, and where those of each text stop.

    Raises:
        DamagedFileError: It has other bytes, rows or tokens than the manifest says.
    """
    import pyarrow.parquet as pq

    path = folder / shard.path
    rows = total = 0
    with reading(path):
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            whole = size == shard.bytes and digest_of(file, size, "sha256") == shard.sha256
        if not whole:
            raise DamagedFileError(
                f"{path} is not as the manifest says: its bytes are others. Find out more with: "
                f"duckplets verify {folder}"
            )
        with pq.ParquetFile(path) as parquet:
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
        raise DamagedFileError(f"{path} has {rows:,} rows instead of {shard.records:,}")


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
