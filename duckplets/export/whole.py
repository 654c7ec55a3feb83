"""Files and folders that have their name only when they are whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from duckplets.errors import SamplerError

_FILE_SUFFIXES = (".parquet", ".jsonl", ".json", ".tsv", ".csv")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What an export makes: a file, or a folder of files.

    Attributes:
        suffixes: That the file may have; none for a folder.
        files: Patterns of the files in the folder; none for a file.
    """

    suffixes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def check(path: Path, place: Place, *, overwrite: bool) -> None:
    """Refuse a path that nothing can be written to, or where something is already.

    Raises:
        SamplerError: Its name is that of another kind of thing, its folder is not there, or it
            exists; with ``overwrite``, it is not what an export writes.
    """
    what, suffix = f"path={str(path)!r}", path.suffix.lower()
    if place.suffixes and suffix not in place.suffixes:
        raise SamplerError(f"{what}: give FILE{' or FILE'.join(place.suffixes)}")
    if place.files and suffix in _FILE_SUFFIXES:
        raise SamplerError(f"{what}: a folder is written, with {', '.join(place.files)}")
    if not path.parent.is_dir():
        raise SamplerError(f"{what}: there is no folder {path.parent}")
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise SamplerError(f"{what} exists already; give another, or overwrite=True")
    if place.suffixes and not path.is_file():
        raise SamplerError(f"{what} is no file, so it is not replaced")
    if place.files:
        _refuse_foreign(path, place.files)


def _refuse_foreign(path: Path, files: Sequence[str]) -> None:
    """Refuse to replace a folder that has anything else in it."""
    if path.is_symlink() or not path.is_dir():
        raise SamplerError(f"path={str(path)!r} is no folder, so it is not replaced")
    for found in sorted(path.rglob("*")):
        inside = found.relative_to(path)
        parents = {str(Path(pattern).parent) for pattern in files}
        known = found.is_file() and any(fnmatch(inside.as_posix(), pattern) for pattern in files)
        if not (known or (found.is_dir() and str(inside) in parents)):
            raise SamplerError(
                f"path={str(path)!r} has {inside} in it, which no export writes, so it is not "
                f"replaced; give another path"
            )


@contextmanager
def appearing(path: Path, place: Place, *, overwrite: bool) -> Iterator[Path]:
    """Yield a path to write to, which takes its real name when all went well.

    Raises:
        SamplerError: It cannot be written, or something has come to be there meanwhile.
    """
    aside = path.with_name(f".{path.stem}.{os.getpid()}.new{path.suffix}")
    try:
        if place.files:
            aside.mkdir()
        yield aside
        check(path, place, overwrite=overwrite)
        _rename(aside, path)
    except OSError as error:
        raise SamplerError(
            f"path={str(path)!r}: cannot write there: {error.strerror or error}"
        ) from error
    finally:
        _remove(aside)


def _rename(aside: Path, path: Path) -> None:
    if not path.is_dir():
        os.replace(aside, path)
        return
    before = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(before)  # a folder does not take the place of another
    try:
        aside.rename(path)
    except BaseException:
        before.rename(path)
        raise
    _remove(before)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
