"""Tell the text files of a folder from others, and the date that the path of each spells."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePath, PurePosixPath

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError
from duckplets.sources import paths

# -- files ----------------------------------------------------------------------------------------

_NAMED = 3  # files that are named of those that are not read


@dataclass(frozen=True, slots=True)
class Listed:
    """What lies in a folder, by paths in it.

    Attributes:
        folder: The folder, or that of a single file.
        files: That are read, sorted.
        unread: Subfolders that cannot be read.
        others: Files that are not read, sorted.
    """

    folder: Path
    files: list[PurePosixPath]
    unread: list[PurePosixPath]
    others: list[PurePosixPath]

    def told(self) -> str:
        """Return how many other files there are, by suffix, and the first of each."""
        by_suffix: dict[str, list[str]] = {}
        for file in self.others:
            by_suffix.setdefault(file.suffix.lower(), []).append(str(file))
        most = sorted(by_suffix.items(), key=lambda item: (-len(item[1]), item[0]))
        said = []
        for suffix, names in most[:10]:
            more = ", …" if len(names) > _NAMED else ""
            first = ", ".join(shown(name, 80) for name in names[:_NAMED])
            said.append(f"{len(names):,} {shown(suffix, 40) or 'without suffix'} ({first}{more})")
        rest = sum(len(names) for _, names in most[10:])
        return ", ".join(said) + (f" and {rest:,} of other suffixes" if rest else "")


def patterns(given: object) -> tuple[str, ...]:
    """Return one pattern of file names or several as a tuple.

    Raises:
        SourceError: One is no pattern.
    """
    found = (given,) if isinstance(given, str) else given
    if not isinstance(found, (list, tuple)) or not found or not all(map(_is_pattern, found)):
        raise SourceError(f"pattern={given!r}: give a pattern of names such as '*.md', or several")
    return tuple(found)


def _is_pattern(given: object) -> bool:
    is_text = isinstance(given, str) and bool(given)
    return is_text and not str(given).startswith("/") and "\0" not in str(given)


def listed(place: paths.Paths, pattern: str | Sequence[str]) -> Listed:
    """Return what lies in a folder, or just the files that are named.

    Pipes, devices and sockets are no files: reading one would wait for ever.

    Args:
        place: A folder; or a file, a glob or a list of them.
        pattern: Which names are read, of a folder.

    Raises:
        SourceError: There is no such folder or file.
    """
    folder = Path(place).expanduser() if isinstance(place, str | os.PathLike) else Path()
    if not isinstance(place, str | os.PathLike) or not folder.is_dir():
        named = [file.absolute() for file in paths.local_files(place)]
        folder = Path(os.path.commonpath([file.parent for file in named]))
        return Listed(folder, sorted({_within(file, folder) for file in named}), [], [])
    unread: list[PurePosixPath] = []

    def note(error: OSError) -> None:
        unread.append(_within(Path(str(error.filename)), folder))

    there = [
        Path(place, name) for place, _, names in os.walk(folder, onerror=note) for name in names
    ]
    globs = [f"{one}{end}" for one in patterns(pattern) for end in ("", *paths.COMPRESSED)]
    found = {file for one in globs for file in folder.rglob(one) if not _is_other(file)}
    files = sorted(_within(file, folder) for file in found)
    others = sorted({_within(file, folder) for file in there}.difference(files))
    return Listed(folder, files, unread, others)


def _within(file: Path, folder: Path) -> PurePosixPath:
    return PurePosixPath(file.relative_to(folder).as_posix())


def _is_other(file: Path) -> bool:
    """Return whether something is there that is no file; a broken link is one, to be counted."""
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False


def inner_name(file: PurePosixPath) -> PurePosixPath:
    """Return a path without a suffix of compression."""
    return file.with_suffix("") if file.suffix.lower() in paths.COMPRESSED else file


# -- dates in the names of files and folders ------------------------------------------------------

_YEAR_FIRST = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)")
_YEAR_LAST = re.compile(r"(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>\d{4})")
_IN_YEAR = re.compile(r"(?P<year>\d{4})/(?P<month>\d\d)-(?P<day>\d\d)")


def path_date(path: PurePath) -> date | None:
    """Return the date that the innermost dated part of a path spells.

    A part is dated when the whole of it, up to ``--``, is YYYY-MM-DD or MM-DD-YYYY, or MM-DD
    under a folder YYYY; ``_`` counts as ``-``. The last part is taken without its suffix.
    """
    parts = [_undecorated(part) for part in (*path.parts[:-1], path.stem)]
    for place in reversed(range(len(parts))):
        part = parts[place]
        pair = "/".join(parts[max(place - 1, 0) : place + 1])
        found = (
            _YEAR_FIRST.fullmatch(part) or _YEAR_LAST.fullmatch(part) or _IN_YEAR.fullmatch(pair)
        )
        if found:
            try:
                return date(int(found["year"]), int(found["month"]), int(found["day"]))
            except ValueError:
                continue  # a thirteenth month: a number of another kind
    return None


def _undecorated(part: str) -> str:
    return part.split("--", 1)[0].replace("_", "-")
