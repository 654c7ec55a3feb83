"""Read a folder of token arrays, ``.npy`` files, as if it were one of token shards.

    FOLDER/SOURCE/*.npy ─headers→ a manifest in memory ─checked, laid end to end→ the token file

Such files say neither where a text begins nor of which tokenizer they are. So an array of one
dimension is one text, and each row of one of two dimensions; rows are packed without ends, since
what ends a text is among the tokens already. A ``.bin`` file does not even say of what its numbers
are, and ids of another width are ids too: it is refused rather than guessed.
"""

from __future__ import annotations

import hashlib
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Integers, Integers32
from duckplets.base.sanitize import listed, shown
from duckplets.errors import DamagedFileError, SamplerError, ShardError
from duckplets.tokens.manifest import (
    MANIFEST,
    ShardEntry,
    ShardManifest,
    TokenizerEntry,
    TsvEntry,
    counted,
    fingerprint_of,
)

__all__ = [
    "array_manifest",
    "check_rows",
    "is_array",
    "laid_out",
    "part",
    "parts_of",
    "text_names",
]

_NPY, _BIN = ".npy", ".bin"
_IDS = 1 << 31  # all that a token may be
_AT_ONCE = 1 << 20  # tokens
# What NumPy says of files that are none of its own; headers are read as Python is.
_UNREADABLE = (
    *(ArithmeticError, EOFError, MemoryError, SyntaxError, TypeError, ValueError),
    tokenize.TokenError,
)
_SAMPLES, _SAMPLE = 16, 1 << 12  # places of a file that its digest is of, and bytes of each


def array_manifest(folder: Path) -> ShardManifest | None:
    """Return what the arrays of a folder are as shards, or None where there are none.

    The source of an array is the folder it lies in, or the folder's own name.

    Raises:
        ShardError: There are arrays that cannot be read.
        DamagedFileError: One is not as it was written.
    """
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return None
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in (_NPY, _BIN) and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        return None
    _check_names(folder, found)
    shards = list(_shards(folder, found))
    return ShardManifest(
        shards=shards,
        tokenizer=TokenizerEntry(
            path="",
            sha256="",
            fingerprint="",
            vocab_size=_IDS,
            eos=None,
            eos_id=None,
            pad=None,
            pad_id=None,
        ),
        corpus={"name": folder.name},
        splits=["train"],
        buckets=[],
        longer="own",
        settings={},
        seed=0,
        libraries={},
        counts=counted(shards),
        fingerprint=fingerprint_of([(s.path, s.records, s.tokens, s.sha256) for s in shards]),
    )


def _check_names(folder: Path, found: list[Path]) -> None:
    names = [path.relative_to(folder).as_posix() for path in found]
    if bare := [name for name in names if name.endswith(_BIN)]:
        raise ShardError(
            f"{folder} has {listed(map(shown, bare))}, and a {_BIN} file does not say of what type "
            f"its numbers are; write it as {_NPY}, which does: "
            f"np.save(NEW, np.memmap(OLD, 'uint16', 'r')), with the type that it was written in"
        )
    if odd := [name for name in names if not name.isprintable()]:
        raise ShardError(f"{folder} has {shown(odd[0])}, whose name is no plain text; rename it")
    if len({"/" in name for name in names}) > 1:
        beside = next(name for name in names if "/" not in name)
        raise ShardError(
            f"{folder} has arrays in folders of their own, which are their sources, and beside "
            f"these {shown(beside)}, which is of none; move it into one"
        )


def _shards(folder: Path, found: list[Path]) -> Iterator[ShardEntry]:
    indices: dict[str, int] = {}
    sources = [path.parent.relative_to(folder).as_posix() for path in found]
    for source, path in sorted(zip(sources, found, strict=True)):
        name = path.relative_to(folder).as_posix()
        texts = _texts(path)
        index = indices[source] = indices.get(source, -1) + 1
        yield ShardEntry(
            shard_id=name,
            path=name,
            split="train",
            source=folder.resolve().name if source == "." else source,
            bucket=0,
            index=index,
            records=len(texts),
            tokens=texts.size,
            bytes=path.stat().st_size,
            sha256=_sampled(path),
            seed=0,
            tsv=TsvEntry(path="", sha256=""),
        )


def is_array(shard: ShardEntry) -> bool:
    """Whether a shard is an array."""
    return shard.path.endswith(_NPY)


def check_rows(manifest: ShardManifest, rows: Mapping[str, Any]) -> None:
    """Refuse rows that arrays do not say how to make.

    Raises:
        SamplerError: These are such.
    """
    if not any(map(is_array, manifest.shards)):
        return
    wanted = {"pack": True, "eos": None, "by_bucket": False}
    if wrong := {name: rows[name] for name, right in wanted.items() if rows[name] != right}:
        raise SamplerError(
            f"{', '.join(f'{name}={value!r}' for name, value in wrong.items())}: token arrays do "
            f"not say where texts end or of what tokenizer they are, so rows are cut from them as "
            f"they are; give pack=True, eos=None, by_bucket=False"
        )


def text_names(shard: ShardEntry) -> pa.Array:
    """Return what the texts of an array are called: as the file, with their number in it."""
    if shard.records == 1:
        return pa.array([shard.path])
    return pa.array([f"{shard.path}#{number}" for number in range(shard.records)])


def laid_out(folder: Path, shard: ShardEntry) -> Iterator[tuple[Integers32, Integers]]:
    """Yield the tokens of an array with an end, 0, after each text, and where texts stop.

    Raises:
        ShardError: A number is no token id.
        DamagedFileError: It is not as it was when the folder was opened.
    """
    for number in range(len(parts_of(shard)) - 1):
        yield part(folder, shard, number)


def parts_of(shard: ShardEntry) -> list[int]:
    """Return where the parts of an array that are read at once begin, and the end of the last."""
    return [*range(0, shard.tokens, _AT_ONCE), shard.tokens]


def part(folder: Path, shard: ShardEntry, number: int) -> tuple[Integers32, Integers]:
    """Return what ``laid_out`` yields of one part."""
    path = folder / shard.path
    texts = _texts(path)
    if (len(texts), texts.size) != (shard.records, shard.tokens):
        raise DamagedFileError(f"{path} has changed since the folder was opened; open it again")
    width, (low, high) = texts.shape[1], parts_of(shard)[number : number + 2]
    found = texts.reshape(-1)[low:high]
    wrong = np.flatnonzero((found < 0) | (found >= _IDS))
    if len(wrong):
        first = int(wrong[0])
        raise ShardError(
            f"{path} has {int(found[first])} at place {low + first:,}, which is no token id; "
            f"give integers from 0 to {_IDS - 1:,}"
        )
    stops = np.arange(low // width + 1, high // width + 1) * width - low
    return np.insert(found.astype(np.int32), stops, 0), stops + np.arange(1, len(stops) + 1)


def _texts(path: Path) -> npt.NDArray[Any]:
    """Return the array of a file, mapped, as (texts, tokens of each).

    Raises:
        ShardError: It is no array of token ids.
        DamagedFileError: The file cannot be read.
    """
    with _reading(path):
        # What is pickled is refused by this, never loaded.
        found = np.lib.format.open_memmap(path, mode="r")
    what = f"{found.dtype.name} of shape {found.shape}"
    if found.dtype.kind not in "iu" or found.ndim not in (1, 2):
        raise ShardError(
            f"{path} has {what}; token arrays are of integers, in one dimension, or in two with a "
            f"text a row"
        )
    if not found.size:
        raise ShardError(f"{path} has no tokens; remove it")
    if not found.flags.c_contiguous:
        raise ShardError(
            f"{path} has its columns one after the other; save it by rows: "
            f"np.save(FILE, np.ascontiguousarray(array))"
        )
    if found.offset + found.nbytes != path.stat().st_size:
        raise DamagedFileError(f"{path} goes on after the array that it begins with; save it anew")
    texts: npt.NDArray[Any] = np.atleast_2d(found.view(np.ndarray))
    return texts


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        with warnings.catch_warnings():  # that a header is as Python 2 wrote it
            warnings.simplefilter("ignore", UserWarning)
            yield
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except _UNREADABLE as error:
        raise DamagedFileError(
            f"{path} is no {_NPY} file of numbers, or not whole: {shown(str(error))}"
        ) from error


def _sampled(path: Path) -> str:
    """Return a digest of a file's size and of places all over it.

    Folders of arrays are too large to be read whole whenever one is opened. Texts that were
    tokenized otherwise move all tokens after them, so these places tell.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for start in np.linspace(0, max(0, size - _SAMPLE), _SAMPLES).astype(int).tolist():
            file.seek(start)
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()
