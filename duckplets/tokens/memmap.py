"""Decode a folder of token shards once into files that every process memory-maps."""

# The rows of a batch are anywhere, while Parquet compresses some thousand rows at a time. So all
# tokens are in one array, and gathering is one copy. Each end token has a separate file.

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.artifacts.arrays import ArrayFile, ArrayWriter
from duckplets.artifacts.folder import ArtifactFolder, FileEntry, damaged
from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.base.arrays import Integers, Integers32
from duckplets.base.names import inside
from duckplets.base.progress import bar
from duckplets.base.sanitize import shown
from duckplets.base.settings import misfit
from duckplets.errors import DamagedFileError, ShardError
from duckplets.tokens.manifest import ShardEntry, ShardManifest
from duckplets.tokens.write import digest_of

_FORMAT = 1
_ROWS = 8192  # tokens decoded at a time
_MANIFEST = "manifest.json"
_FILE = {"name": str, "size": range(1 << 62), "digest": str}
_SHAPE = {"fingerprint": str, "begin": range(1 << 10), "offsets": _FILE, "tokens": _FILE}


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The tokens of all texts of a folder, memory-mapped."""

    path: Path
    offsets: Integers  # start of each text's tokens, and the end of the last
    tokens: Integers32  # in the manifest's order of shards, each text followed by its end
    ends: int  # tokens that end a text: 1 or 0
    file: ArrayFile | None = None  # the mapped file
    begin: int = 0  # its first token byte
    reads: ReadAhead = field(default_factory=ReadAhead)

    @classmethod
    def of(
        cls, folder: Path, manifest: ShardManifest, end: int | None, cache: Path | None = None
    ) -> TokenFile:
        """Return the token file of a folder of shards, created if missing."""
        path, ends = _place(folder, manifest, end, cache), int(end is not None)
        target = ArtifactFolder(path, "a token file", _MANIFEST, _FORMAT)
        found = cls._opened(target, manifest, ends)
        if found is None:
            with _writable(path, manifest), target.locked():
                found = cls._opened(target, manifest, ends)  # another process may have written it
                if found is None:
                    _write(target, folder, manifest, end)
                    found = cls._opened(target, manifest, ends)
        if found is None:
            raise damaged(path / _MANIFEST, "it is not the file that was just written")
        return found

    @classmethod
    def _opened(
        cls, target: ArtifactFolder, manifest: ShardManifest, ends: int
    ) -> TokenFile | None:
        """Map the files if they exist and belong to the current shards."""
        stored = target.read(_MANIFEST)
        if stored is None:
            return None
        if wrong := misfit(stored, _SHAPE):
            raise damaged(target.path / _MANIFEST, wrong)
        if stored["fingerprint"] != manifest.fingerprint:
            return None
        texts, count = _sizes(manifest)
        count += texts * ends
        entry = FileEntry(**stored["offsets"])
        offsets, tokens = (
            ArrayFile(target.path, FileEntry(**stored[n])) for n in ("offsets", "tokens")
        )
        if FileEntry.of(offsets.path) != entry:
            raise damaged(offsets.path, "the offsets of texts have changed")
        begin = stored["begin"]
        return cls(
            tokens.path,
            offsets.array(["<i8", begin, texts + 1]),
            tokens.array(["<i4", begin, count]),
            ends,
            tokens,
            begin,
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, starts: Integers, lengths: Integers, width: int, fill: int) -> Integers32:
        """Return ``lengths`` tokens from each start as padded rows, int32[starts, width]."""
        is_wrong = (starts < 0) | (lengths < 0) | (lengths > width)
        if (is_wrong | (starts + lengths > len(self.tokens))).any():
            raise self.damage("offsets of texts are outside the file")
        if self.file is not None:
            size = self.tokens.itemsize
            self.reads.touch(self.file, self.begin + starts * size, lengths * size)
        full = lengths == width
        if len(full) and full.all():  # nearly always true for packed rows: one copy
            return np.lib.stride_tricks.sliding_window_view(self.tokens, width)[starts]
        ids = np.full((len(starts), width), fill, np.int32)
        if full.any():  # copied together: one by one takes twice as long
            windows = np.lib.stride_tricks.sliding_window_view(self.tokens, width)
            ids[full] = windows[starts[full]]
        others = (values[~full].tolist() for values in (starts, lengths, np.arange(len(ids))))
        for start, length, row in zip(*others, strict=True):
            ids[row, :length] = self.tokens[start : start + length]
        return ids

    def damage(self, why: str) -> DamagedFileError:
        """Return the error for a damaged file."""
        return damaged(self.path, why)


def _place(folder: Path, manifest: ShardManifest, end: int | None, cache: Path | None) -> Path:
    folder = Path(os.path.realpath(folder))
    suffix = "" if end == manifest.tokenizer.eos_id else f"-{'bare' if end is None else end}"
    if cache is None:
        return folder.with_name(f"{folder.name}.tokens{suffix}")
    return cache / f"{folder.name}-{manifest.fingerprint[:12]}.tokens{suffix}"


def _sizes(manifest: ShardManifest) -> tuple[int, int]:
    """Return the number of texts, and of tokens without ends."""
    texts = sum(shard.records for shard in manifest.shards)
    return texts, sum(shard.tokens for shard in manifest.shards)


def _need(manifest: ShardManifest) -> int:
    """Return the bytes of the files, with ends."""
    texts, tokens = _sizes(manifest)
    return 8 * (texts + 1) + 4 * (tokens + texts)


@contextmanager
def _writable(path: Path, manifest: ShardManifest) -> Iterator[None]:
    """Translate errors of writing."""
    try:
        yield
    except OSError as error:
        if isinstance(error, DamagedFileError):
            raise
        raise ShardError(
            f"the token file {shown(path)} cannot be written: {error.strerror or error}. It needs "
            f"{_need(manifest) / 1e6:,.1f} MB; give cache= with a folder that has the room"
        ) from error


def _write(target: ArtifactFolder, folder: Path, manifest: ShardManifest, end: int | None) -> None:
    """Write the files and the manifest, and remove files of other exports."""
    path, free = target.path, shutil.disk_usage(target.path).free
    if _need(manifest) > free:
        raise OSError(errno.ENOSPC, f"there are {free / 1e6:,.1f} MB left")
    with ArrayWriter(path, "offsets") as offsets, ArrayWriter(path, "tokens") as tokens:
        begin = tokens.append(b"")
        _fill(offsets, tokens, folder, manifest, end)
        files = {"offsets": asdict(offsets.finish()), "tokens": asdict(tokens.finish())}
    content: dict[str, Any] = {"fingerprint": manifest.fingerprint, "begin": begin}
    target.write(_MANIFEST, content | files)
    target.sweep()


def _fill(
    offsets: ArrayWriter,
    tokens: ArrayWriter,
    folder: Path,
    manifest: ShardManifest,
    end: int | None,
) -> None:
    """Write offsets and tokens of all shards."""
    begin = 0  # start of the next text, in tokens
    offsets.append(bytes(8))
    with bar(None, sys.stderr, "token shards decoded") as progress:
        for number, shard in enumerate(manifest.shards):
            if progress is not None:
                progress(number, len(manifest.shards))
            for ids, stops in _decoded(folder, shard, end):
                offsets.append((begin + stops).astype("<i8"))
                tokens.append(np.ascontiguousarray(ids, "<i4"))
                begin += len(ids)


# -- the tokens of a shard ------------------------------------------------------------------------


def _decoded(
    folder: Path, shard: ShardEntry, end: int | None
) -> Iterator[tuple[Integers32, Integers]]:
    """Yield the tokens of a shard with an end token after each text, and the stop of each text."""
    import pyarrow.parquet as pq

    path = inside(folder, shard.path, DamagedFileError)
    _check(folder, path, shard)
    with reading(path), pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(_ROWS, columns=["tokens"]):
            column = batch.column("tokens")
            ids = column.flatten().to_numpy(zero_copy_only=False)
            lengths = np.diff(column.offsets.to_numpy()).astype(np.int64)
            yield (ids, np.cumsum(lengths)) if end is None else _ended(ids, lengths, end)


def _check(folder: Path, path: Path, shard: ShardEntry) -> None:
    """Compare a shard with its checksum."""
    with reading(path):
        if path.stat().st_size == shard.bytes and digest_of(path) == shard.sha256:
            return
    raise DamagedFileError(
        f"{path} is not as the manifest says. The command that wrote the folder repairs it: "
        f"duckplets shard CORPUS {folder} …; in a cache= of a store delete the file instead"
    )


def _ended(ids: Integers32, lengths: Integers, end: int) -> tuple[Integers32, Integers]:
    """Return tokens with an end token after each text, and the stop of each text after it."""
    stops = np.cumsum(lengths + 1)
    found = np.full(len(ids) + len(lengths), end, np.int32)
    is_token = np.ones(len(found), bool)
    is_token[stops - 1] = False
    found[is_token] = ids
    return found, stops


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Translate errors about a shard."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedFileError(
            f"{path} is missing, and the manifest lists it; export it again"
        ) from error
    except (pa.ArrowException, OSError, KeyError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise DamagedFileError(f"{path} cannot be read: {error}; export it again") from error
