"""Read text files: a record per line, or per file of a folder."""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, ClassVar, Literal

import pyarrow as pa

from duckplets.base.sanitize import counted, shown
from duckplets.base.settings import checked
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.files import Files, digest_of
from duckplets.sources.formats.headings import (
    MOST_PARSED,
    Markup,
    front_date,
    front_matter,
    is_code,
    markup_of,
    opening,
    sections,
)
from duckplets.sources.formats.json_file import line_blocks
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.mapping import Mapped, OnError, check_on_error, check_trust
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import LFS_POINTER, Blocks, Look, RowBlock, Rows
from duckplets.sources.values import Fault

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

# -- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextLinesSource(Files):
    r"""Text files in which each line is a record of one text; blank lines are counted.

    Lines end with ``\n`` or ``\r\n``. ``TextFileSource`` reads folders of whole texts.
    """

    text: str = field(default="line", init=False)
    encoding: str | None = field(default=None, kw_only=True)
    """Encoding of the text, as Python names it, such as ``"latin-1"``. Default: UTF-8."""

    kind: ClassVar[str] = "lines"

    def __post_init__(self) -> None:
        Files.__post_init__(self)
        for part in ("context", "id", "date", "group", "taxonomy", "meta", "prefix", "converter"):
            if getattr(self, part) is not None:
                raise SourceError(f"{part}={getattr(self, part)!r}: lines of text have no columns")
        if isinstance(self.trust, str):
            raise SourceError(f"trust={self.trust!r}: lines of text have no columns; give a number")

    def look(self, file: Path, reader: Database) -> Look:
        """Return the only column."""
        return Look(["line"])

    def blocks(self, file: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the lines of a file."""
        with paths.open_text(file, self.encoding, "\n") as text:
            for lines, numbers in line_blocks(text, str(file), limits_of(reader)):
                rows = [{"line": line.rstrip("\r\n")} for line in lines]
                yield RowBlock(rows, lines=numbers)


# -- folders --------------------------------------------------------------------------------------

SEPARATOR = " > "
"""Between the headings of a path."""

Titles = Literal["heading", "name"]
_START = 8_192  # bytes checked to recognise binary files
_FEW_NULLS = 2  # of a text that may have some
_MAPPING = Mapped(
    anchor="title",
    context="body",
    id="key",
    date="date",
    group="file",
    taxonomy="folders",
    trust="trust",
    created_at="modified",
    updated_at="modified",
)
_COLUMNS = _MAPPING.names()


@dataclass(frozen=True, slots=True)
class TextFileSource:
    """The text files of a folder and its subfolders, in the order of their paths; or one file.

    The anchor is the title in the front matter (YAML or TOML). Without one it is the heading at
    the start of the text, without Markdown's markup. Without both it is the file's name, without
    suffix and with spaces for ``_``. Comments of code are no headings. The context is the rest of
    the text. The id is the path within the folder, and its folders are the taxonomy. Both times of
    the record are the time of the file's last change. The date is in the front matter
    (``date: 2024-02-01``). Files in .gz or .zst are decompressed. The report counts other files,
    titles that cannot be read, and names that begin with a dot or ``~$``. A pattern that begins
    with a dot reads these names.

    With ``by_heading`` each section is a record. Its anchor is the path of its heading, such as
    ``Title > Installing > Linux``, and its context is the text up to the next heading. Its id is
    the file's id, ``#`` and this path. Its group is the file, so a split keeps files together.
    """

    folder: paths.Paths
    """The folder; or a file, a glob or a list of them."""
    pattern: str | Sequence[str] = field(default="*.txt", kw_only=True)
    """Pattern, or patterns, of the file names to read, at any depth, compressed or not."""
    date: Literal["path"] | bool | None = field(default=None, kw_only=True)
    """``"path"``: without a date in the front matter, take it from the path: YYYY-MM-DD or
    MM-DD-YYYY at the start of a name, or YYYY/MM-DD. False: no dates. Default: front matter
    only."""
    trust: float | None = field(default=None, kw_only=True)
    """Trust in the source, from 0 to 1."""
    trust_by_folder: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """Trust by folder name, in any case; the outermost named folder of a path counts."""
    titles: Titles = field(default="heading", kw_only=True)
    """Anchor of a file. ``heading``: its title or first heading, if it has one. ``name``: the name
    of the file; then the context is the whole text."""
    by_heading: bool = field(default=False, kw_only=True)
    """Make a record of each section instead of each file. Headings are Markdown's (.md), six
    levels deep; in other text they are underlined lines and ``# Heading``. A file of more than 2
    million characters fails."""
    encoding: str | None = field(default=None, kw_only=True)
    """Encoding of the text, as Python names it, such as ``"latin-1"``. Default: UTF-8."""
    in_pieces: bool = field(default=False, kw_only=True)
    """Whether records are stored in pieces as they come; see ``CsvSource``."""
    on_error: OnError | None = field(default=None, kw_only=True)
    """How to handle a file that is no text: ``"raise"``, ``"skip"`` or ``"quarantine"``, as for
    sources with columns. Default: ``skip``."""

    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        for trust in (self.trust, *self.trust_by_folder.values()):
            check_trust(trust)
            if isinstance(trust, str):
                raise SourceError(f"trust={trust!r}: text files have no columns; give a number")
        if self.date not in ("path", True, False, None):
            raise SourceError(f"date={self.date!r}: only date='path' is known")
        checked("titles", self.titles, Titles, SourceError)
        paths.codec_of(self.encoding)
        check_on_error(self.on_error)
        patterns(self.pattern)

    @property
    def uri(self) -> str | None:
        """The folder, or the files."""
        return shown(paths.uri(self.folder), 1_000)

    def default_name(self) -> str:
        """Return the folder's name, or the stem of the file."""
        if isinstance(self.folder, str | os.PathLike):
            place = Path(os.path.expanduser(self.folder))
            if place.is_dir() or not place.exists():
                return place.absolute().name or "text"
        return paths.default_name(self.folder)

    def described(self) -> dict[str, Any]:
        """Return the settings that decide anchors and dates, as JSON values."""
        by_heading = {"by_heading": True} if self.by_heading else {}
        return {"titles": self.titles} | by_heading | ({"date": "path"} if self.date else {})

    def settings(self) -> dict[str, Any]:
        """Return how the files are read, with a digest of the files."""
        found = listed(self.folder, self.pattern)
        names = ("date", "trust_by_folder", "titles", "by_heading", "encoding", "pattern")
        how = {name: getattr(self, name) for name in names}
        digest = digest_of([found.folder / file for file in found.files])
        return how | {"on_error": self.on_error or "skip", "files": digest}

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """List the files, then read them in turn."""
        folder, part = self.uri, part_of(reader)
        found = part.listed if part else None
        found = found or listed(self.folder, self.pattern)
        if not found.files and not found.unread:
            wanted = " or ".join(map(repr, patterns(self.pattern)))
            more = f"; it has {found.others_shown()}: give pattern=" if found.others else ""
            raise SourceError(f"{folder} has no file that matches {wanted}{more}")
        counts = Counter[str]() if part is None else part.counts
        reading = _FolderReading(self, found, limits_of(reader), counts)
        rows = opened(
            reader,
            replace(_MAPPING, on_error=self.on_error),
            reading.blocks(),
            str(folder),
            cursor=cursor,
            total=None if self.by_heading else len(found.files) + len(found.unread),
            marks=self.in_pieces,
            notes=reading.notes,
        )
        return replace(rows, defaults="dated" if self.date else "documents")


class _FolderReading:
    """The reading of a folder's files, with counts of their parts."""

    def __init__(
        self, source: TextFileSource, listed: Listed, limits: Limits, counts: Counter[str]
    ) -> None:
        self._source, self._listed = source, listed
        self._most = min(limits.size("row"), limits.size("field"))
        self._trust = {name.casefold(): value for name, value in source.trust_by_folder.items()}
        # Counts: files by kind of title and by suffix; sections; headings without text.
        self._counts = counts

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows of each file."""
        for path in sorted([*self._listed.files, *self._listed.unread]):
            file = self._listed.folder / path
            body, modified, fault = _read(file, self._most, self._source.encoding)
            day = self._day(inner_name(path), None if fault else body)
            # Bytes of a name that is not UTF-8 are escaped.
            path = PurePosixPath(str(path).encode("utf-8", "backslashreplace").decode())
            folders = list(path.parts[:-1])
            trusted = [self._trust[n.casefold()] for n in folders if n.casefold() in self._trust]
            others = {
                "date": None if day is None else day.isoformat(),
                "file": str(path) if self._source.by_heading else None,
                "folders": folders,
                "trust": trusted[0] if trusted else None,
                "modified": None if modified is None else modified.isoformat(" "),
            }
            rows: list[Any] = []
            for title, text, key, wrong in self._records(inner_name(path), str(path), body, fault):
                row: Any = {"title": title, "body": text, "key": key, **others}
                if wrong is not None:
                    row = Fault(wrong, key, json.dumps({"path": key}), row)
                rows.append(row)
            yield RowBlock(rows, str(file), columns=_COLUMNS)

    def _day(self, bare: PurePosixPath, body: str | None) -> date | None:
        """Return the date in the front matter of a text, or in its path."""
        setting = self._source.date
        day = None if body is None or setting is False else front_date(body)
        where = _DATES[0] if day else _DATES[1]
        day = day or (path_date(bare) if setting else None)
        self._counts[where if day else _DATES[2]] += body is not None
        return day

    def notes(self) -> list[str]:
        """Return where anchors and dates came from, and which files were not read."""
        counts, notes = self._counts, []
        if any(counts[name] for name in _NAMES):
            notes.append(self._of_anchors())
        if self._source.date or any(counts[where] for where in _DATES[:2]):
            dates = (f"{counted(counts[w], 'file')} {w}" for w in _DATES if counts[w])
            notes.append(f"dates: {', '.join(dates)}")
        if wrong := counts[_UNREADABLE]:
            files = counted(wrong, "file")
            notes.append(f"unreadable title in the front matter of {files}: quote it")
        if tagged := ", ".join(f"{n:,} {s}" for s, n in sorted(counts.items()) if s in _TAGGED):
            notes.append(f"read as plain text, with their tags: {tagged}")
        if self._listed.others:
            notes.append(f"not read: {self._listed.others_shown()}; pattern= says what is")
        return notes

    def _of_anchors(self) -> str:
        files = [(name, n) for name in _NAMES if (n := self._counts[name])]
        if self._source.by_heading:
            empty = self._counts["empty"]
            none = f"; {counted(empty, 'heading')} without text of their own" if empty else ""
            sections = counted(self._counts["section"], "section")
            among = counted(sum(number for _, number in files), "file")
            return (
                f"anchor: path of headings ('Title{SEPARATOR}Section') of {sections} in {among}; "
                f"context: the text of the section{none}"
            )
        (name, number), *more = files
        names = [f"{name} of {counted(number, 'file')}", *(f"{w} of {n:,}" for w, n in more)]
        whole = "" if self._source.titles == "name" else " without it"
        return f"anchor: {', '.join(names)}; context: their text{whole}"

    def _records(
        self, bare: PurePosixPath, key: str, body: str | None, fault: str | None
    ) -> Iterator[tuple[str, str | None, str, str | None]]:
        """Yield title, text, key and fault of a file, or of its sections."""
        name = bare.stem.replace("_", " ").strip() or bare.stem
        if self._source.by_heading and len(body or "") > MOST_PARSED:
            fault = "text too long for by_heading"
        if body is None or fault is not None:
            yield name, body, key, fault
            return
        self._counts[bare.suffix.lower()] += 1
        named, markup = self._source.titles == "name", markup_of(bare)
        title, start = (None, 0) if named else front_matter(body)
        if title == "":
            self._counts[_UNREADABLE] += 1
            title = None
        first = None if named or is_code(bare) else opening(body[start:], markup)
        self._counts[_NAMES[0 if title else 1 if first else 2]] += 1
        if self._source.by_heading:
            yield from self._sections(body[start:], markup, name if named else title, name, key)
            return
        text = body[start:]
        if first is not None and title in (None, first.title):
            text = text[: first.start] + text[first.stop :]
        text = body if text == body else _trimmed(text)
        lacks = None if text else "a heading without text"
        yield title or (first.title if first else name), text, key, lacks

    def _sections(
        self, text: str, markup: Markup, title: str | None, name: str, key: str
    ) -> Iterator[tuple[str, str | None, str, str | None]]:
        """Yield the same for the sections that have text."""
        keys, numbers = set[str](), Counter[str]()
        for titles, body in sections(text, markup, title, name):
            if not (body := _trimmed(body)):
                self._counts["empty"] += 1
                continue
            path = SEPARATOR.join(titles)
            own = f"{key}#{path}"
            while own in keys:  # equal names of sections are numbered
                numbers[path] += 1
                own = f"{key}#{path}#{numbers[path] + 1}"
            keys.add(own)
            self._counts["section"] += 1
            yield path, body, own, None
        if not keys:
            yield title or name, None, key, "headings without text"


def _trimmed(text: str) -> str:
    """Return a text without blank lines around it."""
    return re.sub(r"\A(?:[ \t]*(?:\r\n|\r|\n))+", "", text.rstrip())


_UNREADABLE = "unreadable title"
_NAMES = ("title in front matter", "heading", "file name")
_DATES = ("from front matter", "from the path", "without one")
_TAGGED = {".htm", ".html", ".xhtml", ".xml"}


def _read(
    file: Path, most: int, encoding: str | None
) -> tuple[str | None, datetime | None, str | None]:
    """Return a file's text and time of change, or why it is not text."""
    try:
        if file.is_dir():
            return None, None, "unreadable folder"
        seconds, changed = file.stat().st_mtime, None
        with suppress(ValueError, OverflowError, OSError):
            changed = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        with paths.open_bytes(file) as stream:
            data = stream.read(_START)
            encoding = encoding or paths.marked(data)
            if paths.no_text(data) == paths.LFS:
                return None, changed, LFS_POINTER
            if encoding is None and _is_binary(data):
                return None, changed, "binary file"
            data += stream.read(max(most + 1 - len(data), 0))
    except (OSError, SourceError, pa.ArrowException, ValueError, EOFError, zlib.error):
        return None, None, "unreadable file"
    if len(data) > most:
        return None, changed, "file larger than the limit of a field"
    codec = paths.codec_of(encoding)
    try:
        text = data.decode("utf-8-sig" if codec is None else codec.name)
    except UnicodeDecodeError:
        return None, changed, f"invalid {'UTF-8' if codec is None else codec.name}"
    return text, changed, None if text.strip() else "empty file"


def _is_binary(start: bytes) -> bool:
    """Return whether a file is binary, by its first bytes."""
    nulls, controls = start.count(0), len(_CONTROL.findall(start))
    if nulls > _FEW_NULLS and 10 * nulls > len(start):
        return True
    try:
        start[: len(start) - 3 if len(start) > 4 else None].decode()
        end = len(start)
    except UnicodeDecodeError as error:
        end = error.start
    if end >= len(start) - 6:  # text, perhaps cut inside a character
        return len(start) >= 512 and 10 * controls > len(start)
    return b"\0" in start or 100 * controls > len(start)


# -- files ----------------------------------------------------------------------------------------

_NAMED = 3  # unread files named in a note
_LOCK = "~$"  # before the name of a document that is open


@dataclass(frozen=True, slots=True)
class Listed:
    """Contents of a folder, as relative paths."""

    folder: Path  # the folder, or a single file's folder
    files: list[PurePosixPath]  # files to read, sorted
    unread: list[PurePosixPath]  # unreadable subfolders
    others: list[PurePosixPath]  # other files, sorted

    def others_shown(self) -> str:
        """Return the number of other files by suffix, and the first of each."""
        by_suffix: dict[str, list[str]] = {}
        for file in self.others:
            kind = "with a leading dot" if is_hidden(file) else file.suffix.lower()
            kind = "of open documents" if file.name.startswith(_LOCK) else kind
            by_suffix.setdefault(kind, []).append(str(file))
        most = sorted(by_suffix.items(), key=lambda item: (-len(item[1]), item[0]))
        found = []
        for suffix, names in most[:10]:
            more = ", …" if len(names) > _NAMED else ""
            first = ", ".join(shown(name, 80) for name in names[:_NAMED])
            found.append(f"{len(names):,} {shown(suffix, 40) or 'without suffix'} ({first}{more})")
        rest = sum(len(names) for _, names in most[10:])
        return ", ".join(found) + (f" and {rest:,} of other suffixes" if rest else "")


def patterns(pattern: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or several file name patterns as a tuple."""
    found = (pattern,) if isinstance(pattern, str) else pattern
    each = found if isinstance(found, (list, tuple)) else ()
    if not each or not all(
        isinstance(one, str) and one and one[0] != "/" and "\0" not in one for one in each
    ):
        raise SourceError(
            f"pattern={pattern!r}: give a pattern of names such as '*.md', or several"
        )
    return tuple(found)


def listed(place: paths.Paths, pattern: str | Sequence[str]) -> Listed:
    """Return the contents of a folder, or only the named files."""
    folder = Path(os.path.expanduser(place)) if isinstance(place, str | os.PathLike) else Path()
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
    found = set[PurePosixPath]()
    for one in patterns(pattern):
        reads_hidden = is_hidden(PurePosixPath(one))
        for end in ("", *paths.COMPRESSED):
            names = (_within(f, folder) for f in folder.rglob(f"{one}{end}") if not _is_other(f))
            found.update(name for name in names if reads_hidden or not is_hidden(name))
    others = sorted({_within(file, folder) for file in there} - found)
    return Listed(folder, sorted(found), unread, others)


def _within(file: Path, folder: Path) -> PurePosixPath:
    return PurePosixPath(file.relative_to(folder).as_posix())


def is_hidden(file: PurePosixPath) -> bool:
    """Return whether a name or one of its folders begins with a dot, or is a program's lock."""
    return file.name.startswith(_LOCK) or any(part[0] == "." for part in file.parts)


def _is_other(file: Path) -> bool:
    """Return whether a path is no file; a broken link is one, and is counted."""
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False


def inner_name(file: PurePosixPath) -> PurePosixPath:
    """Return a path without a compression suffix."""
    return file.with_suffix("") if file.suffix.lower() in paths.COMPRESSED else file


# -- dates in the names of files and folders ------------------------------------------------------

_YEAR_FIRST = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?:[-. ].*)?")
_YEAR_LAST = re.compile(r"(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>\d{4})(?:[-. ].*)?")
_IN_YEAR = re.compile(r"(?P<year>\d{4})/(?P<month>\d\d)-(?P<day>\d\d)")


def path_date(path: PurePath) -> date | None:
    """Return the date in the innermost dated part of a path."""
    parts = [p.split("--", 1)[0].replace("_", "-") for p in (*path.parts[:-1], path.stem)]
    for place in reversed(range(len(parts))):
        part, pair = parts[place], "/".join(parts[max(place - 1, 0) : place + 1])
        found = _YEAR_FIRST.fullmatch(part) or _YEAR_LAST.fullmatch(part)
        if found := found or _IN_YEAR.fullmatch(pair):
            with suppress(ValueError):  # month 13: another kind of number
                return date(int(found["year"]), int(found["month"]), int(found["day"]))
    return None
