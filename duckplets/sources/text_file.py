"""Read text files into rows, a record in each line, or a record in each file of a folder."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.shown import shown
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.base import Mapped
from duckplets.sources.documents import (
    Listed,
    inner_name,
    listed,
    path_date,
    patterns,
)
from duckplets.sources.feed import piece, rows_of
from duckplets.sources.files import Brought, Files, named
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.lines import line_pieces
from duckplets.sources.mapping_checks import OnError, check_on_error, check_trust
from duckplets.sources.origins import BROKEN, Origins
from duckplets.sources.rows import Rows
from duckplets.sources.transcoded import codec_name, codec_of

if TYPE_CHECKING:
    from duckplets.db.database import Database

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LINES = 200  # lines in which a heading is looked for
_LONGEST = 300  # characters of a heading
_MARKDOWN = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_LINE = re.compile(r"([=\-`:.'\"~^_*+#])\1+\s*")
_BEFORE = re.compile(r"\s*(?:<[^>]*>|\[?!\[|\[//\]:)")  # of Markdown: HTML, badges, comments
_FIELD = re.compile(r":[\w -]+:(?:\s|$)|\([^)]+\)=\s*$|% ")  # of reStructuredText and MyST

# -- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextLinesSource(Files):
    r"""Text files, each line of which is a record of one text; blank ones are counted.

    Lines end with ``\n`` or ``\r\n``. For folders of whole texts there is ``TextFileSource``.
    """

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them."""
    text: str = field(default="line", init=False)
    encoding: str | None = field(default=None, kw_only=True)
    """Of the text, as Python names it, such as ``"latin-1"``; else UTF-8."""

    kind: ClassVar[str] = "lines"

    def __post_init__(self) -> None:
        Files.__post_init__(self)
        codec_of(self.encoding)
        for part in ("context", "id", "date", "group", "taxonomy", "meta", "prefix", "converter"):
            if getattr(self, part) is not None:
                raise SourceError(f"{part}={getattr(self, part)!r}: lines of text have no columns")
        if isinstance(self.trust, str):
            raise SourceError(f"trust={self.trust!r}: lines of text have no columns; give a number")

    def open(self, reader: Database) -> Rows:
        """Read the files in turn."""
        limits = limits_of(reader)
        brought = Brought(self.path)
        pieces = (
            (file, named(file, path, _lines(path, limits, self.encoding))) for file, path in brought
        )
        return self.rows(reader, pieces, brought, line=1)


def _lines(file: Path, limits: Limits, encoding: str | None) -> Iterator[pa.RecordBatch]:
    with paths.reading(file), paths.open_bytes(file, encoding) as stream:
        for lines in line_pieces(stream, str(file), limits):
            yield piece([pc.ascii_rtrim(lines.column("line"), characters="\r\n")], ["line"])


# -- folders --------------------------------------------------------------------------------------

Titles = Literal["heading", "name"]
_START = 8_192  # bytes by which a file that is no text is known
_MAPPING = Mapped(
    anchor=("heading", "name"),
    context="body",
    id="path",
    date="date",
    taxonomy="folders",
    trust="trust",
)
_SCHEMA = pa.schema(
    [  # c0, c1, … follow the mapping's names
        ("c0", pa.string()),
        ("c1", pa.string()),
        ("c2", pa.string()),
        ("c3", pa.string()),
        ("c4", pa.date32()),
        ("c5", pa.list_(pa.string())),
        ("c6", pa.float64()),
        ("modified", pa.timestamp("us")),
        ("fault", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class TextFileSource:
    """A folder's text files, those of its subfolders too, in the order of their paths; or one file.

    The first heading of a text, where it begins with one (of Markdown or reStructuredText), is the
    anchor, else the file's name without suffix, ``_`` as space; the whole text, newlines kept, the
    context; the path within the folder the id; its folders the taxonomy; the time of its last
    change both times of the record. What ends in .gz or .zst is decompressed. What else lies there
    is counted in the report's notes.
    """

    folder: paths.Paths
    """The folder; or a file, a glob or a list of them."""
    pattern: str | Sequence[str] = field(default="*.txt", kw_only=True)
    """Which file names are read, at any depth, compressed or not; one pattern or several."""
    date: Literal["path"] | bool | None = field(default=None, kw_only=True)
    """``"path"`` takes the record's date from the path: YYYY-MM-DD, MM-DD-YYYY, or YYYY/MM-DD."""
    trust: float | None = field(default=None, kw_only=True)
    """Trust in the source, from 0 to 1."""
    trust_by_folder: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """Trust by folder name, whatever its case; the outermost named folder of a path counts."""
    titles: Titles | None = field(default=None, kw_only=True)
    """What is the anchor: the ``"heading"`` of a text, where it has one, or always the ``"name"``
    of the file; by default as the source was read before, and of a new one ``"heading"``."""
    encoding: str | None = field(default=None, kw_only=True)
    """Of the text, as Python names it, such as ``"latin-1"``; else UTF-8."""
    on_error: OnError | None = field(default=None, kw_only=True)
    """What becomes of a file that is no text: ``"raise"``, ``"skip"`` (the default) or
    ``"quarantine"``, as for sources with columns."""

    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        for trust in (self.trust, *self.trust_by_folder.values()):
            check_trust(trust)
            if isinstance(trust, str):
                raise SourceError(f"trust={trust!r}: text files have no columns; give a number")
        if self.date not in ("path", True, False, None):
            raise SourceError(f"date={self.date!r}: only date='path' is known")
        if self.titles not in ("heading", "name", None):
            raise SourceError(f"titles={self.titles!r}: give 'heading' or 'name'")
        codec_of(self.encoding)
        check_on_error(self.on_error)
        patterns(self.pattern)

    @property
    def uri(self) -> str | None:
        """The folder, or the files."""
        return shown(paths.uri(self.folder), 1_000)

    def default_name(self) -> str:
        """Return the folder's name, or the stem of the file."""
        if isinstance(self.folder, str | os.PathLike):
            place = Path(self.folder).expanduser()
            if place.is_dir() or not place.exists():
                return place.absolute().name or "text"
        return paths.default_name(self.folder)

    def described(self) -> dict[str, Any]:
        """Return what decides about anchors and dates, as plain JSON values."""
        return {"titles": self.titles or "heading"} | ({"date": "path"} if self.date else {})

    def as_before(self, described: dict[str, Any] | None) -> TextFileSource:
        """Return a source that takes anchors as one did that was described so.

        Args:
            described: None for one of a version in which names were the only anchors.
        """
        if self.titles is not None:
            return self
        return replace(self, titles="name" if described is None else described.get("titles"))

    def open(self, reader: Database) -> Rows:
        """List the files, then read them in turn."""
        folder, part = self.uri, part_of(reader)
        given = None if part is None else part.listed
        found = listed(self.folder, self.pattern) if given is None else given
        if not found.files and not found.unread:
            asked = " or ".join(map(repr, patterns(self.pattern)))
            more = f"; it has {found.told()}: say pattern=" if found.others else ""
            raise SourceError(f"{folder} has no file that matches {asked}{more}")
        counts = Counter[str]() if part is None else part.counts
        reading = _Reading(self, found.folder, limits_of(reader), counts)
        files = sorted([*found.files, *found.unread])
        mapping = replace(_MAPPING, on_error=self.on_error)
        rows = rows_of(reader, mapping, reading.pieces(files), str(folder), reading.origins)
        kind = "dated" if self.date else "documents"
        return Rows(rows, kind, len(files), notes=lambda: reading.notes(found))


class _Reading:
    """How the files of a folder are read, and what was found in them."""

    def __init__(
        self, source: TextFileSource, folder: Path, limits: Limits, counts: Counter[str]
    ) -> None:
        self.origins = Origins()
        self._source = source
        self._folder = folder
        self._most = min(limits.size("row"), limits.size("field"))
        self._trust = {name.casefold(): value for name, value in source.trust_by_folder.items()}
        self._counts = counts  # of files: ``heading`` and ``name``, their anchors, and suffixes

    def pieces(self, files: list[PurePosixPath]) -> Iterator[pa.RecordBatch]:
        """Yield the files, some at a time."""
        left = iter(files)
        for group, _ in paths.together(self._folder / file for file in files):
            rows = []
            for row in map(self._row, islice(left, len(group))):
                self.origins.begin(self._folder / row[3])
                list(self.origins.counted([_ONE]))
                rows.append(row)
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)
            ]
            faults = columns[-1]
            wrong = [
                None if fault is None else json.dumps({"path": row[3]})
                for row, fault in zip(rows, faults.to_pylist(), strict=True)
            ]
            piece = pa.record_batch(columns, schema=_SCHEMA)
            yield piece.append_column(BROKEN, pa.array(wrong, pa.string()))

    def notes(self, found: Listed) -> list[str]:
        """Return what was taken for anchors, and what was not read."""
        many, few = (f"{self._counts[what]:,}" for what in ("heading", "name"))
        said = f"anchor: the first heading of {many} files, the name of {few}; context: their text"
        others = f"not read: {found.told()}; pattern= says what is" if found.others else ""
        tagged = ", ".join(
            f"{n:,} {what}" for what, n in sorted(self._counts.items()) if what in _TAGGED
        )
        tags = f"read as plain text, with their tags: {tagged}" if tagged else ""
        return [note for note in (said, tags, others) if note]

    def _row(self, path: PurePosixPath) -> tuple[Any, ...]:
        body, modified, fault = _read(self._folder / path, self._most, self._source.encoding)
        # A name that is not UTF-8 is written with its bytes escaped.
        path = PurePosixPath(str(path).encode("utf-8", "backslashreplace").decode())
        folders = path.parts[:-1]
        trusted = [self._trust[n.casefold()] for n in folders if n.casefold() in self._trust]
        bare = inner_name(path)
        day = path_date(bare) if self._source.date else None
        name = bare.stem.replace("_", " ")
        heading = None if self._source.titles == "name" or fault else heading_of(body or "")
        if fault is None:
            self._counts["name" if heading is None else "heading"] += 1
            self._counts[bare.suffix.lower()] += 1
        trust = trusted[0] if trusted else None
        return heading, name, body, str(path), day, folders, trust, modified, fault


_TAGGED = {".htm", ".html", ".xhtml", ".xml"}
_ONE = pa.record_batch([pa.nulls(1)], ["row"])  # pa.array of a list imports pandas


def _read(
    file: Path, most: int, encoding: str | None
) -> tuple[str | None, datetime | None, str | None]:
    """Return a file's text and time of change, and why it is no text."""
    try:
        if file.is_dir():
            return None, None, "unreadable folder"
        changed = _time_of(file.stat().st_mtime)
        with paths.open_bytes(file, encoding) as opened:
            data = opened.read(_START)
            if encoding is None and is_binary(data):
                return None, changed, "binary file"
            data += opened.read(max(most + 1 - len(data), 0))
    except (OSError, SourceError, pa.ArrowException, ValueError):
        return None, None, "unreadable file"
    if len(data) > most:
        return None, changed, "file larger than the limit of a field"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None, changed, f"invalid {codec_name(encoding)}"
    return text, changed, None if text.strip() else "empty file"


def _time_of(seconds: float) -> datetime | None:
    """Return a moment in UTC; None for one that has no date."""
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


# -- what a text begins with -----------------------------------------------------------------------


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
        elif _BEFORE.match(line) or _FIELD.match(line):
            place += 1
        else:
            yield place
            return


def _clean(heading: str) -> str | None:
    words = " ".join(heading.split())
    return words if words and len(words) <= _LONGEST and any(map(str.isalnum, words)) else None
