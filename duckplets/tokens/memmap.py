"""Decode a folder of token shards once, into one file that every process maps into memory.

    shards ─sha256, row groups→ NAME.tokens: offsets, tokens with ends, what it was made of

Parquet has its tokens compressed, a few thousand rows at a time; rows of a batch lie anywhere. So
the tokens of all shards are laid end to end once, 4 bytes each, and a gather is arithmetic on
offsets and one copy. The file is complete or absent: it is written aside, by one process under a
lock while others wait, and renamed. What it was made from is its last part, so a folder that was
exported anew finds another fingerprint there, and the file is made anew. It can always be deleted.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from duckplets.base.arrays import Integers, Integers32
from duckplets.base.atomic import aside_of, sweep
from duckplets.base.locks import alone
from duckplets.base.plain import from_json, misfit
from duckplets.base.progress import bar
from duckplets.base.sanitize import shown
from duckplets.errors import DamagedFileError, ShardError
from duckplets.tokens.decode import decoded, digest_of
from duckplets.tokens.manifest import ShardManifest

log = logging.getLogger("duckplets")

_ENDING = ".tokens"
_MAGIC = b"duckplets tokens"
_FORMAT = 1
_MOST_TAIL = 1 << 20  # bytes of what a file says of itself
_COUNT = range(1 << 62)
_TAIL = {
    **dict.fromkeys(("texts", "tokens"), _COUNT),
    **dict.fromkeys(("fingerprint", "offsets_digest", "digest"), str),
    "format": int,
}


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The tokens of all texts of a folder, mapped to be read.

    Attributes:
        path: Where it lies.
        offsets: Where the tokens of each text begin, and where those of the last, with their end,
            stop; int64[texts + 1].
        tokens: Of all texts, in the order of the manifest's shards, an end after each.
    """

    path: Path
    offsets: Integers
    tokens: Integers32

    @classmethod
    def of(cls, folder: Path, manifest: ShardManifest, cache: Path | None = None) -> TokenFile:
        """Return that of a folder, which is made if it is not there.

        Args:
            folder: With the shards.
            manifest: Of the folder.
            cache: A folder to keep it in; by default it lies beside the folder of shards.

        Raises:
            ShardError: It cannot be written, or there is no room for it.
            DamagedFileError: A shard is not as it was written.
        """
        path = _place(folder, manifest, cache)
        found = cls._opened(path, manifest)
        if found is not None:
            return found
        with _writable(path, manifest):
            path.parent.mkdir(parents=True, exist_ok=True)
            waiting = f"waiting for another process, which makes {shown(path)}"
            with alone(path.with_name(f".{path.name}.lock"), lambda: log.warning(waiting)):
                found = cls._opened(path, manifest)  # by who held the lock
                if found is None:
                    _write(path, folder, manifest)
        found = found or cls._opened(path, manifest)
        if found is None:
            raise damaged(path, "another process has put another one in its place")
        return found

    @classmethod
    def _opened(cls, path: Path, manifest: ShardManifest) -> TokenFile | None:
        """Map the file, if it is there and of this folder as it is."""
        try:
            with path.open("rb") as file:
                told, size = _told(path, file)
                file.seek(0)
                digest = digest_of(file, 8 * (told["texts"] + 1))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ShardError(f"{path}: it cannot be read: {error.strerror}") from error
        if told["format"] != _FORMAT or told["fingerprint"] != manifest.fingerprint:
            return None
        texts, tokens = told["texts"], told["tokens"]
        if (texts, tokens) != _sizes(manifest) or size != 8 * (texts + 1) + 4 * tokens:
            raise damaged(path, f"it has {size:,} bytes of other sizes than the manifest says")
        if digest != told["offsets_digest"]:
            raise damaged(path, "where texts begin is not as it was written")
        words = np.memmap(path, np.int64, "r", 0, (texts + 1,))
        ids: Any = np.zeros(0, np.int32)
        if tokens:
            ids = np.memmap(path, np.int32, "r", 8 * (texts + 1), (tokens,))
        # Without their class: a slice of a memmap costs ten times one of an array.
        return cls(path, words.view(np.ndarray), ids.view(np.ndarray))

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, starts: Integers, lengths: Integers, width: int, fill: int) -> Integers32:
        """Return so many tokens from each place on as rows, filled up; int32[places, width].

        Raises:
            DamagedFileError: They lead out of the tokens.
        """
        lead_out = (starts < 0) | (lengths < 0) | (lengths > width)
        if (lead_out | (starts + lengths > len(self.tokens))).any():
            raise self.damage("offsets of texts lead nowhere")
        full = lengths == width
        if len(full) and full.all():  # packed rows nearly always: in one copy
            return np.lib.stride_tricks.sliding_window_view(self.tokens, width)[starts]
        ids = np.full((len(starts), width), fill, np.int32)
        if full.any():  # all at once: one by one they take twice the time
            windows = np.lib.stride_tricks.sliding_window_view(self.tokens, width)
            ids[full] = windows[starts[full]]
        left = (values[~full].tolist() for values in (starts, lengths, np.arange(len(ids))))
        for start, length, row in zip(*left, strict=True):
            ids[row, :length] = self.tokens[start : start + length]
        return ids

    def damage(self, why: str) -> DamagedFileError:
        """Return the error for a file that is not as it was written."""
        return damaged(self.path, why)

    def check(self) -> None:
        """Compare every byte with what was written.

        Raises:
            DamagedFileError: One differs.
        """
        with self.path.open("rb") as file:
            told, size = _told(self.path, file)
            file.seek(0)
            if digest_of(file, size) != told["digest"]:
                raise damaged(self.path, "some of its bytes are not as they were written")


def damaged(path: Path, why: str) -> DamagedFileError:
    """Return the error for a token file that is not as it was written."""
    return DamagedFileError(
        f"{path}: {why}. It can always be made anew from the shards: delete this file"
    )


def _place(folder: Path, manifest: ShardManifest, cache: Path | None) -> Path:
    folder = Path(os.path.realpath(folder))
    if cache is None:
        return folder.with_name(f"{folder.name}{_ENDING}")
    return cache / f"{folder.name}-{manifest.fingerprint[:12]}{_ENDING}"


def _sizes(manifest: ShardManifest) -> tuple[int, int]:
    """Return how many texts there are, and tokens with an end after each text."""
    texts = sum(shard.records for shard in manifest.shards)
    return texts, texts + sum(shard.tokens for shard in manifest.shards)


def _told(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Return what a token file says of itself, and how many bytes lie before that."""
    whole = file.seek(0, os.SEEK_END)
    fixed = len(_MAGIC) + 8
    file.seek(max(0, whole - fixed))
    last = file.read(fixed)
    length = int.from_bytes(last[:8], "little")
    if last[8:] != _MAGIC or not 0 < length <= min(_MOST_TAIL, whole - fixed):
        raise damaged(path, "it is no token file, or its end is missing")
    file.seek(whole - fixed - length)
    try:
        told = from_json(file.read(length).decode())
    except ValueError as error:
        raise damaged(path, "what it says of itself cannot be read") from error
    if wrong := misfit(told, _TAIL):
        raise damaged(path, wrong)
    return told, whole - fixed - length


@contextmanager
def _writable(path: Path, manifest: ShardManifest) -> Iterator[None]:
    """Say what to do where the file cannot be written."""
    texts, tokens = _sizes(manifest)
    try:
        yield
    except OSError as error:
        if isinstance(error, DamagedFileError):
            raise
        why = error.strerror or str(error)
        raise ShardError(
            f"the token file {shown(path)} cannot be written: {why}. It takes "
            f"{(8 * texts + 4 * tokens) / 1e6:,.1f} MB; give cache= with a folder that has the room"
        ) from error


def _write(path: Path, folder: Path, manifest: ShardManifest) -> None:
    """Write the file aside and rename it."""
    sweep(path)
    texts, tokens = _sizes(manifest)
    need, free = 8 * (texts + 1) + 4 * tokens, shutil.disk_usage(path.parent).free
    if need > free:
        raise OSError(errno.ENOSPC, f"there are {free / 1e6:,.1f} MB left")
    aside = aside_of(path)
    try:
        with aside.open("w+b") as file:
            file.truncate(need)
            _fill(file, texts, folder, manifest)
            told = {"format": _FORMAT, "fingerprint": manifest.fingerprint}
            told |= {"texts": texts, "tokens": tokens}
            for name, size in (("offsets_digest", 8 * (texts + 1)), ("digest", need)):
                file.seek(0)
                told[name] = digest_of(file, size)
            tail = json.dumps(told).encode()
            file.seek(need)
            file.write(tail + len(tail).to_bytes(8, "little") + _MAGIC)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _fill(file: BinaryIO, texts: int, folder: Path, manifest: ShardManifest) -> None:
    """Write offsets and tokens of all shards."""
    first, done = 8 * (texts + 1), 0
    begin = 0  # of the next text, in tokens
    file.write(bytes(8))
    with bar(None, sys.stderr, "token shards decoded") as progress:
        for number, shard in enumerate(manifest.shards):
            if progress is not None:
                progress(number, len(manifest.shards))
            for ids, ends in decoded(folder, shard, manifest):
                file.seek(8 * (done + 1))
                file.write((begin + ends).astype("<i8").tobytes())
                file.seek(first + 4 * begin)
                file.write(np.ascontiguousarray(ids, "<i4").data)
                done, begin = done + len(ends), begin + len(ids)
