"""From paths and globs, of compressed files too, to files, streams of bytes and their columns."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from duckplets.errors import SourceError
from duckplets.sources.base import Mapped, Rows, require_texts, resolve
from duckplets.sources.feed import rows_of

if TYPE_CHECKING:
    from duckplets.db.database import Database

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


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
        self, names_of: Callable[[Path], list[str]]
    ) -> list[tuple[Path, list[str], list[int]]]:
        """Return every file with its columns, and the places of those that the mapping names.

        Raises:
            SourceError: A file cannot be read, or a column is not there.
        """
        found = []
        for file in files(self.path):
            names = names_of(file)
            require_texts(self, names, str(file), type(self).__name__)
            found.append((file, names, resolve(self, names, str(file))))
        return found

    def rows(
        self, reader: Database, pieces: Iterable[pa.RecordBatch], total: int | None = None
    ) -> Rows:
        """Return the rows of pieces of the files."""
        return Rows(rows_of(reader, self, pieces, self.uri or ""), self.defaults(), total)


def files(paths: Paths) -> list[Path]:
    """Return the files that paths and globs name; a glob's in sorted order.

    Raises:
        SourceError: One does not exist, is a folder or is empty, or a glob matches nothing.
    """
    found = [file for path in _listed(paths) for file in _matching(path)]
    if not found:
        raise SourceError("no path was given")
    for file in found:
        if file.is_dir():
            raise SourceError(f"{file} is a folder; name its files, such as {file}/*.csv")
        if file.stat().st_size == 0 and file.is_file():
            raise SourceError(f"{file} is empty")
    return found


def uri(paths: Paths) -> str:
    """Return where a source reads from, as it was given."""
    return ", ".join(os.fspath(path) for path in _listed(paths))


def default_name(paths: Paths) -> str:
    """Return the stem of the one file, else the name of the folder of the first."""
    listed = _listed(paths)
    path = Path(listed[0]).expanduser() if listed else Path()
    if len(listed) == 1 and (path.exists() or not glob.has_magic(str(path))):
        inner = path.with_suffix("") if path.suffix in _COMPRESSED else path
        return inner.stem
    folders = [part for part in path.absolute().parent.parts if not glob.has_magic(part)]
    return folders[-1].strip(os.sep) or "files"


def inner_suffix(path: Path) -> str:
    """Return the suffix before one of compression, in lower case."""
    inner = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return inner.suffix.lower()


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, decompressing it where its suffix says so.

    Raises:
        SourceError: It cannot be opened.
    """
    try:
        compression = _COMPRESSED.get(path.suffix.lower())
        if compression is None:
            return path.open("rb")
        return cast("BinaryIO", pa.input_stream(str(path), compression=compression))
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: Exception) -> SourceError:
    """Return the error for a file that fails while it is read."""
    reason = getattr(error, "strerror", None) or str(error).strip().rstrip(".") or repr(error)
    if "Truncated compressed stream" in reason:
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
    if plain.exists():
        return [plain]
    if not glob.has_magic(str(plain)):
        raise SourceError(f"{plain} does not exist")
    matched = sorted(Path(name) for name in glob.glob(str(plain), recursive=True))
    matched = [file for file in matched if not file.is_dir()]
    if not matched:
        raise SourceError(f"{plain} matches no file")
    return matched
