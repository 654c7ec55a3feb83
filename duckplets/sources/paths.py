"""From paths and globs, of compressed files too, to files, streams of bytes and their columns."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from duckplets.base.shown import shown
from duckplets.errors import DuckpletsError, SourceError
from duckplets.sources.base import Mapped
from duckplets.sources.feed import rows_of
from duckplets.sources.limits import limits_of
from duckplets.sources.mapped_columns import require_texts, resolve
from duckplets.sources.origins import Origins
from duckplets.sources.rows import MAX_BYTES, Rows
from duckplets.sources.transcoded import Transcoded, codec_of

if TYPE_CHECKING:
    from duckplets.db.database import Database

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

# What Arrow raises while it reads a damaged file: a name that is not UTF-8 is a bare UnicodeError.
_FOREIGN = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)

_CUT = "Truncated compressed stream"
_MOST_FILES = 1_024  # that are read at once
AT_ONCE = MAX_BYTES // 4  # bytes of files that are read at once
_STEP = 1 << 16  # bytes of a file that may be cut short

COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True, slots=True)
class Files(Mapped):
    """The arguments common to sources of files with columns, and how they are opened in turn."""

    path: Paths
    """File (also .gz and .zst), glob, or list of them."""

    @property
    def uri(self) -> str | None:
        """Where it reads from."""
        return uri(self.path)

    def default_name(self) -> str:
        """Return the file's stem."""
        return default_name(self.path)

    def placed(
        self, reader: Database, names_of: Callable[[Path], list[str]]
    ) -> list[tuple[Path, list[str], list[int]]]:
        """Return every file with its columns, and the places of those that the mapping names.

        Raises:
            SourceError: A file cannot be read, or a column is not there.
        """
        found, limits = [], limits_of(reader)
        for file in files(self.path):
            names = names_of(file)
            if len(names) > limits.columns:
                raise limits.exceeded(str(file), f"{len(names):,} columns, more", "columns")
            require_texts(self, names, str(file), type(self).__name__)
            found.append((file, names, resolve(self, names, str(file))))
        return found

    def rows(
        self,
        reader: Database,
        files: Iterable[tuple[Path, Iterable[pa.RecordBatch]]],
        total: int | None = None,
        line: int | None = None,
    ) -> Rows:
        """Return the rows of the files, each with its pieces of input.

        Args:
            reader: An instance to run statements in.
            files: Opened when they are asked for.
            total: How many rows they have.
            line: That the first row of a file is, where each row is a line.
        """
        origins = Origins()
        pieces = (p for file, parts in files for p in origins.reading(file, parts, line))
        rows = rows_of(reader, self, pieces, self.uri or "", origins)
        return Rows(rows, self.defaults(), total)


def files(paths: Paths) -> list[Path]:
    """Return the files that paths and globs name; a glob's in sorted order.

    Raises:
        SourceError: One does not exist, is a folder or is empty, or a glob matches nothing.
    """
    found = [file for path in _listed(paths) for file in _matching(path)]
    if not found:
        raise SourceError("no path was given")
    for file in found:
        check_file(file)
    return found


def check_file(file: Path) -> None:
    """Refuse what cannot be read as a file: one that waits for a writer would hang an ingest.

    Raises:
        SourceError: It is a folder, empty, or no regular file.
    """
    try:
        state = file.stat()
    except OSError as error:
        raise unreadable(file, error) from error
    if stat.S_ISDIR(state.st_mode):
        raise SourceError(f"{file} is a folder; name its files, such as {file}/*.csv")
    if not stat.S_ISREG(state.st_mode):
        raise SourceError(
            f"{file} is no file but a pipe, a device or a socket; JSON lines can be read from "
            f"standard input, as -"
        )
    if state.st_size == 0:
        raise SourceError(f"{file} is empty")


def uri(paths: Paths) -> str:
    """Return where a source reads from, as it was given."""
    return ", ".join(os.fspath(path) for path in _listed(paths))


def default_name(paths: Paths) -> str:
    """Return the stem of the one file, else the name of the folder of the first."""
    listed = _listed(paths)
    path = Path(listed[0]).expanduser() if listed else Path()
    if len(listed) == 1 and (path.exists() or not glob.has_magic(str(path))):
        inner = path.with_suffix("") if path.suffix in COMPRESSED else path
        return inner.stem
    folders = [part for part in path.absolute().parent.parts if not glob.has_magic(part)]
    return folders[-1].strip(os.sep) or "files"


def inner_suffix(path: Path) -> str:
    """Return the suffix before one of compression, in lower case."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return inner.suffix.lower()


def together(each: Iterable[Path]) -> Iterator[tuple[list[Path], int]]:
    """Yield files that are read at once, of bounded number and size or only one, and their bytes.

    What is compressed counts several times.
    """
    number = weight = group = 0
    sizes: dict[Path, int] = {}

    def place(file: Path) -> int:
        nonlocal number, weight, group
        try:
            sizes[file] = file.stat().st_size
        except OSError:
            sizes[file] = 0
        own = sizes[file] * (8 if file.suffix.lower() in COMPRESSED else 1)
        number, weight = number + 1, weight + own
        if number > _MOST_FILES or weight > AT_ONCE:
            number, weight, group = 1, own, group + 1
        return group

    for _, some in groupby(each, key=place):
        found = list(some)
        yield found, sum(map(sizes.__getitem__, found))


def open_bytes(path: Path, encoding: str | None = None) -> BinaryIO:
    """Open a file, decompressing it where its suffix says so; its text comes in UTF-8.

    Args:
        path: The file.
        encoding: That it is in, where that is not UTF-8.

    Raises:
        SourceError: It cannot be opened.
    """
    try:
        compression = COMPRESSED.get(path.suffix.lower())
        if compression is None:
            opened: BinaryIO = path.open("rb")
        else:
            opened = cast("BinaryIO", pa.input_stream(str(path), compression=compression))
        if encoding is None or codec_of(encoding) is None:
            return opened
        return cast("BinaryIO", Transcoded(opened, encoding))
    except OSError as error:
        raise unreadable(path, error) from error


class UpToTheCut:
    """A compressed file that may have been cut short, with what it has before the cut.

    What follows its last line says so there, and makes that line one that cannot be read.

    Args:
        path: The file.
        encoding: As for ``open_bytes``.
    """

    def __init__(self, path: Path, encoding: str | None) -> None:
        self._path, self._encoding = path, encoding
        self._stream: BinaryIO | None = open_bytes(path, encoding)
        self._count = 0  # bytes that were read

    def read(self, size: int) -> bytes:
        """Return the next bytes, none after the last."""
        found = []
        while self._stream is not None and size > 0:
            try:
                found.append(self._stream.read(min(size, _STEP)))
            except OSError as error:
                if _CUT not in str(error):
                    raise
                self._stream.close()
                self._stream = None
                found.append(self._last_bytes() + b" (the file was cut short)\n")
                break
            self._count += len(found[-1])
            size -= len(found[-1])
            if not found[-1]:
                break
        return b"".join(found)

    def _last_bytes(self) -> bytes:
        """Return what a read that failed had got: the stream goes back to no place."""
        last = bytearray()
        with open_bytes(self._path, self._encoding) as stream:
            for _ in range(self._count // _STEP):
                stream.read(_STEP)
            stream.read(self._count % _STEP)
            try:
                while byte := stream.read(1):
                    last += byte
            except OSError:
                return bytes(last)
        return bytes(last)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn what other libraries raise while a file is read into ours.

    Raises:
        SourceError: The file cannot be read.
    """
    try:
        yield
    except DuckpletsError:
        raise
    except _FOREIGN as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: Exception) -> SourceError:
    """Return the error for a file that fails while it is read."""
    said = " ".join(str(error).split()).rstrip(".")
    reason = getattr(error, "strerror", None) or shown(said, 300) or repr(error)
    if isinstance(error, MemoryError) and not isinstance(error, pa.ArrowException):
        reason = "the system gives this process no more memory"
    if _CUT in reason:
        reason = "it ends in the middle of its compressed data; the file was cut short"
    return SourceError(f"{path} cannot be read: {reason}")


def _listed(paths: Paths) -> list[str | os.PathLike[str]]:
    if isinstance(paths, (str, os.PathLike)):
        return [paths]
    if not isinstance(paths, (list, tuple)):
        raise SourceError(f"{paths!r} is not a path; give a string, a Path, or a list of them")
    return list(paths)


def _matching(path: str | os.PathLike[str]) -> list[Path]:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise SourceError(f"{path!r} is not a path")
    plain = Path(path).expanduser()
    try:
        if plain.exists():
            _refuse_other_encodings(plain)
            return [plain]
    except OSError as error:  # a folder above it is closed, or its name is too long
        raise unreadable(plain, error) from error
    if not glob.has_magic(str(plain)):
        raise SourceError(f"{plain} does not exist")
    matched = sorted(Path(name) for name in glob.glob(str(plain), recursive=True))
    matched = [file for file in matched if not file.is_dir()]
    if not matched:
        raise SourceError(f"{plain} matches no file")
    for file in matched:
        _refuse_other_encodings(file)
    return matched


def _refuse_other_encodings(path: Path) -> None:
    try:
        os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError(f"{path}: its path is not UTF-8; rename it") from None
