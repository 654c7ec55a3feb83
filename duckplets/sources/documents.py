"""Tell the text files of a folder from others, and the heading and the date of each."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePath, PurePosixPath

from duckplets.base.shown import shown
from duckplets.errors import SourceError
from duckplets.sources import paths

# -- files ----------------------------------------------------------------------------------------

_NAMED = 3  # files that are named of those that are not read
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


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
        more = sum(len(names) for _, names in most[10:])
        return ", ".join(said) + (f" and {more:,} of other suffixes" if more else "")


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
        named = [file.absolute() for file in paths.files(place)]
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


def is_binary(start: bytes) -> bool:
    """Return whether a file that begins so is no text at all.

    What is text in another encoding than UTF-8 has hardly a control character; random bytes have
    one in ten.
    """
    controls = len(_CONTROL.findall(start))
    try:
        start[: len(start) - 3 if len(start) > 4 else None].decode()
        return len(start) >= 512 and 10 * controls > len(start)
    except UnicodeDecodeError as error:
        if error.start >= len(start) - 6:  # cut within a character
            return len(start) >= 512 and 10 * controls > len(start)
        return b"\0" in start or 100 * controls > len(start)


# -- headings -------------------------------------------------------------------------------------

_LINES = 200  # lines in which a heading is looked for
_LONGEST = 300  # characters of a heading
_MARKDOWN = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_LINE = re.compile(r"([=\-`:.'\"~^_*+#])\1+\s*")
_BEFORE = re.compile(r"\s*(?:<[^>]*>|\[?!\[|\[//\]:)")  # of Markdown: HTML, badges, comments


def heading_of(text: str) -> str | None:
    r"""Return the heading that a text begins with, of Markdown or reStructuredText, if it has one.

    That is ``# Heading``, or a line that is underlined with at least its length of one sign,
    perhaps overlined too. Front matter, comments, directives, labels, badges and HTML may come
    before it.
    """
    start = text[: _LINES * 400].replace("\r\n", "\n").replace("\r", "\n")
    lines = start.split("\n", _LINES)[:_LINES]
    for place in _outside(lines):
        line = lines[place]
        found = _MARKDOWN.fullmatch(line)
        if found:
            return _clean(found[1])
        after = lines[place + 1 : place + 3]
        if _LINE.fullmatch(line) and len(after) == 2 and after[1].rstrip() == line.rstrip():
            return _clean(after[0]) if len(after[0].rstrip()) <= len(line.rstrip()) else None
        is_under = bool(after) and _LINE.fullmatch(after[0]) and not line[:1].isspace()
        if is_under and len(after[0].rstrip()) >= max(len(line.rstrip()), 3):
            return _clean(line)
        return None
    return None


def _outside(lines: Sequence[str]) -> Iterator[int]:
    """Yield the place of the first line that may be a heading, after what may stand before it."""
    place = 0
    if lines and lines[0].strip() in ("---", "+++") and lines[0] in lines[1:]:
        place = lines.index(lines[0], 1) + 1  # front matter
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
        elif line.startswith(".. ") or line.rstrip() == "..":  # and what is indented below
            place += 1
            while place < len(lines) and (not lines[place].strip() or lines[place][0].isspace()):
                place += 1
        elif line.lstrip().startswith("<!--"):
            while place < len(lines) and "-->" not in lines[place]:
                place += 1
            place += 1
        elif _BEFORE.match(line) or re.match(r":[\w -]+:", line):
            place += 1
        else:
            yield place
            return


def _clean(heading: str) -> str | None:
    words = " ".join(heading.split())
    return words if words and len(words) <= _LONGEST and any(map(str.isalnum, words)) else None


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
