"""Resolve paths, addresses and globs to local files and streams, decompressed.

paths, globs ────→ files ────────────────────────────────────────────→ path, stream, text
s3://bucket/… ─listed→ objects ─one ahead, to a temporary folder→ files ─→ the same
"""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, TextIO, TypeVar

import pyarrow as pa

from duckplets.base.object_store import StoredObject, is_address
from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, SourceError
from duckplets.sources.remote.stores import objects_at
from duckplets.sources.rows import MAX_BYTES

Place = str | os.PathLike[str] | StoredObject
Paths = str | os.PathLike[str] | Sequence[Place]

F = TypeVar("F", bound=Path | StoredObject)

# Errors of Arrow on damaged files; a name that is not UTF-8 is a bare UnicodeError.
_FOREIGN = (
    *(pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError),
    *(EOFError, zlib.error),
)

_CUT = ("Truncated compressed stream", "ended before the end-of-stream")
_WINDOW = "too much memory for decoding"  # of zstd
_MOST_FILES = 1_024  # files read together
AT_ONCE = MAX_BYTES // 4  # bytes of files read together

COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
_PACKED_STARTS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
LFS = "a Git LFS pointer, and no data: run git lfs pull"
_OTHER_STARTS = {
    b"version https://git-lfs.github.com/spec/": LFS,
    b"PAR1": "a Parquet file: give format='parquet' (--format parquet)",
    b"ARROW1": "an Arrow file: give format='arrow' (--format arrow)",
    b"PK\x03\x04": "a zip archive or an Excel workbook: unpack it, or save it as CSV",
    b"\xd0\xcf\x11\xe0": "an old Office document: save it as CSV",
    b"BZh": "packed by bzip2: unpack it",
    b"\xfd7zXZ\0": "packed by xz: unpack it",
    b"7z\xbc\xaf": "packed by 7-Zip: unpack it",
    b"SQLite format 3\0": "an SQLite database: see examples/custom_sqlite.py",
    b"%PDF-": "a PDF document: convert it to text",
}
_PACKED = (".bz2", ".xz", ".lz4", ".zip", ".7z", ".tar", ".tgz")


def files(paths: Paths) -> list[Path | StoredObject]:
    """Return the files or objects of paths, addresses and globs; each glob in sorted order."""
    found = [file for path in _listed(paths) for file in _matching(path)]
    if not found:
        raise SourceError("no path was given")
    for file in found:
        check_file(file)
    return found


def local_files(paths: Paths) -> list[Path]:
    """Return the local files of paths and globs, as ``files`` does."""
    found = files(paths)
    for each in found:
        if isinstance(each, StoredObject):
            raise SourceError(f"{each}: such a source reads files of this machine; copy it here")
    return [each for each in found if isinstance(each, Path)]


def check_file(file: Path | StoredObject) -> None:
    """Refuse anything but a regular file: a pipe would block the ingest."""
    if inner_suffix(PurePath(str(file))) in _PACKED:
        raise SourceError(f"{file}: {' and '.join(COMPRESSED)} are read as they are; unpack others")
    if isinstance(file, StoredObject):
        if file.size == 0:
            raise SourceError(f"{file} is empty")
        return
    try:
        os.fsencode(file).decode("utf-8")
        state = file.stat()
    except UnicodeDecodeError:
        raise SourceError(f"{file}: its path is not UTF-8; rename it") from None
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
    """Return the address of a source as given."""
    return ", ".join(map(_text_of, _listed(paths)))


def default_name(paths: Paths) -> str:
    """Return the stem of a single file, or the name of the folder or bucket of the first."""
    listed = [_text_of(path) for path in _listed(paths)]
    first, is_alone = listed[0] if listed else "", len(listed) == 1
    if is_address(first):
        path: PurePath = PurePosixPath(first.partition("://")[2])
        is_folder = first.endswith("/") or len(path.parts) == 1
        is_file = not glob.has_magic(first) and not is_folder
        parts = path.parts if is_folder else path.parent.parts
    else:
        here = Path(os.path.expanduser(first))
        is_file = here.exists() or not glob.has_magic(str(here))
        path, parts = here, here.absolute().parent.parts
    if is_alone and is_file:
        return (path.with_suffix("") if path.suffix in COMPRESSED else path).stem
    return [part for part in parts if not glob.has_magic(part)][-1].strip(os.sep) or "files"


def inner_suffix(path: PurePath) -> str:
    """Return the suffix before a compression suffix, in lower case."""
    while path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.suffix.lower()


def together(each: Iterable[F]) -> Iterator[tuple[list[F], int]]:
    """Yield groups of files of bounded number and size, with their bytes."""
    group: list[F] = []
    size = weight = 0
    for file in each:
        own = size_of(file)
        suffix = PurePosixPath(file.path if isinstance(file, StoredObject) else file).suffix
        heavy = own * (8 if suffix.lower() in COMPRESSED else 1)
        if group and (len(group) >= _MOST_FILES or weight + heavy > AT_ONCE):
            yield group, size
            group, size, weight = [], 0, 0
        group.append(file)
        size, weight = size + own, weight + heavy
    if group:
        yield group, size


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file, decompressed by its suffix or its first bytes, as often as it was packed."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        codec = COMPRESSED.get(path.suffix.lower()) or _codec_of(stream)
        while codec:
            unpacked: Any = (
                _Unzipped(stream) if codec == "gzip" else pa.CompressedInputStream(stream, "zstd")
            )
            stream = io.BufferedReader(unpacked)
            codec = _codec_of(stream)
    except _FOREIGN as error:
        stream.close()
        raise unreadable(path, error) from error
    return stream


def _codec_of(stream: io.BufferedReader) -> str | None:
    start = stream.peek(4)
    return next((codec for magic, codec in _PACKED_STARTS.items() if start.startswith(magic)), None)


class _Unzipped(gzip.GzipFile):
    """The text of a gzip file; Arrow's reader (26.0) fails on zeros after the data."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(fileobj=stream, mode="rb")
        self.myfileobj: Any = stream  # closed with this


def open_text(path: Path, encoding: str | None = None, newline: str = "") -> TextIO:
    """Open a text file, decompressed; undecodable bytes become lone surrogates."""
    stream = open_bytes(path)
    try:
        if found := no_text(stream.peek(64)):
            raise SourceError(f"{path} is {found}")
        return as_text(stream, encoding, newline)
    except SourceError:
        stream.close()
        raise


def no_text(start: bytes) -> str | None:
    """Return the kind of a file that is no text, by its first bytes, with advice."""
    return next((kind for magic, kind in _OTHER_STARTS.items() if start.startswith(magic)), None)


def as_text(stream: BinaryIO, encoding: str | None, newline: str = "") -> TextIO:
    """Return the text of a stream, without the byte order mark, which may tell UTF-16."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[type-var]
    found = codec_of(encoding or marked(buffered.peek(4)))
    name, errors = ("utf-8-sig", "surrogateescape") if found is None else (found.name, "lost")
    return io.TextIOWrapper(buffered, name, errors, newline)


def marked(start: bytes) -> str | None:
    """Return the encoding that a byte order mark tells; None for UTF-8 or without one."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else None


def _lost(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ud800", error.end  # not text: the check of all texts finds the row


codecs.register_error("lost", _lost)


def codec_of(encoding: object) -> codecs.CodecInfo | None:
    """Return the codec of an encoding; None for UTF-8."""
    if encoding is None:
        return None
    try:
        found = codecs.lookup(encoding) if isinstance(encoding, str) else None
    except (LookupError, ValueError):
        found = None
    if found is None or not found._is_text_encoding:
        raise SourceError(
            f"encoding={shown(repr(encoding))}: no text encoding that Python knows; give one such "
            f"as 'latin-1', 'cp1252', 'utf-16' or 'shift_jis'"
        )
    return None if found.name in ("utf-8", "utf-8-sig") else found


def size_of(file: Path | StoredObject) -> int:
    """Return the bytes of a file; 0 if it cannot be looked at."""
    if isinstance(file, StoredObject):
        return file.size
    try:
        return file.stat().st_size
    except OSError:
        return 0


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Translate errors of other libraries while a file is read."""
    try:
        yield
    except DuckpletsError:
        raise
    except _FOREIGN as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: Exception) -> SourceError:
    """Return the error for a file that fails while being read."""
    message = " ".join(str(error).split()).rstrip(".")
    reason = getattr(error, "strerror", None) or shown(message, 300) or repr(error)
    if isinstance(error, MemoryError) and not isinstance(error, pa.ArrowException):
        reason = "the system gives this process no more memory"
    if any(cut in reason for cut in _CUT):
        reason = "it ends in the middle of its compressed data; the file was cut short"
    if _WINDOW in reason:
        reason = "zstd --long wrote it; unpack it first, with zstd -d --long=31"
    with suppress(OSError), open(path, "rb") as stream:
        if no_text(stream.read(64)) == LFS:
            return SourceError(f"{path} is {LFS}")
    return SourceError(f"{path} cannot be read: {reason}")


def _listed(paths: Paths) -> list[Place]:
    if isinstance(paths, (str, os.PathLike)):
        return [paths]
    if not isinstance(paths, (list, tuple)):
        raise SourceError(f"{paths!r} is not a path; give a string, a Path, or a list of them")
    return list(paths)


def _text_of(path: Place) -> str:
    return str(path) if isinstance(path, StoredObject) else os.fspath(path)


def _matching(path: Place) -> Sequence[Path | StoredObject]:
    if isinstance(path, StoredObject):
        return [path]
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise SourceError(f"{path!r} is not a path")
    if is_address(path):
        return objects_at(str(path))
    here = Path(os.path.expanduser(path))
    try:
        if here.exists():
            return [here]
    except OSError as error:  # no access to a parent, or too long a name
        raise unreadable(here, error) from error
    if not glob.has_magic(str(here)):
        raise SourceError(f"{here} does not exist")
    matched = sorted(Path(name) for name in glob.glob(str(here), recursive=True))
    matched = [file for file in matched if not file.is_dir()]
    if not matched:
        raise SourceError(f"{here} matches no file")
    return matched
