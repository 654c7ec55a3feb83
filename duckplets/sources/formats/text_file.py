"""Read text files into rows, a record in each line, or a record in each file of a folder."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import counted, shown
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.documents import (
    Listed,
    inner_name,
    listed,
    path_date,
    patterns,
)
from duckplets.sources.files import Files, LocalFiles, named
from duckplets.sources.formats.decode import codec_name, codec_of
from duckplets.sources.formats.headings import (
    MOST_PARSED,
    Markup,
    front_matter,
    markup_of,
    opening,
    sections,
)
from duckplets.sources.formats.lines import line_pieces
from duckplets.sources.limits import Limits, limits_of, part_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.mapping_checks import OnError, check_on_error, check_trust
from duckplets.sources.row_batches import piece, rows_of
from duckplets.sources.row_provenance import BROKEN, Origins
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

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
        brought = LocalFiles(self.path)
        pieces = (
            (file, named(file, path, _lines(path, limits, self.encoding))) for file, path in brought
        )
        return self.rows(reader, pieces, brought, line=1)


def _lines(file: Path, limits: Limits, encoding: str | None) -> Iterator[pa.RecordBatch]:
    with paths.reading(file), paths.open_bytes(file, encoding) as stream:
        for lines in line_pieces(stream, str(file), limits):
            yield piece([pc.ascii_rtrim(lines.column("line"), characters="\r\n")], ["line"])


# -- folders --------------------------------------------------------------------------------------

SEPARATOR = " > "
"""Between the headings of a path."""
_ROWS = 8_192  # of a piece, where sections are short

Titles = Literal["heading", "name"]
_START = 8_192  # bytes by which a file that is no text is known
_MAPPING = Mapped(
    anchor="title",
    context="body",
    id="key",
    date="date",
    group="file",
    taxonomy="folders",
    trust="trust",
)
_SCHEMA = pa.schema(
    [  # c0, c1, … follow the mapping's names
        ("c0", pa.string()),
        ("c1", pa.string()),
        ("c2", pa.string()),
        ("c3", pa.date32()),
        ("c4", pa.string()),
        ("c5", pa.list_(pa.string())),
        ("c6", pa.float64()),
        ("modified", pa.timestamp("us")),
        ("fault", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class TextFileSource:
    """A folder's text files, those of its subfolders too, in the order of their paths; or one file.

    The anchor is the title that front matter gives (YAML or TOML), else the heading that a text
    begins with (of Markdown or reStructuredText, without its markup), else the file's name without
    suffix, ``_`` as space. The context is the text without front matter and that heading, newlines
    kept; the path within the folder the id; its folders the taxonomy; the time of its last change
    both times of the record. What ends in .gz or .zst is decompressed. What else lies there is
    counted in the report's notes.

    With ``by_heading`` each section is a record: its anchor is the path of its heading, such as
    ``Title > Installing > Linux``, its context the text up to the next heading, its id the file's
    with ``#`` and that path, its group the file, so that a split keeps files together.
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
    titles: Titles = field(default="heading", kw_only=True)
    """What names a file: its title or ``"heading"``, where it has one; or always the ``"name"`` of
    the file, and then the context is the whole text."""
    by_heading: bool = field(default=False, kw_only=True)
    """Make a record of each section instead of each file. Headings are those of Markdown (.md) and
    reStructuredText (.rst), six levels deep; in other text underlined lines and ``# Heading``. A
    file of more than 2 million characters fails."""
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
        if self.titles not in get_args(Titles):
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
        found: dict[str, Any] = {"titles": self.titles}
        found |= {"by_heading": True} if self.by_heading else {}
        return found | ({"date": "path"} if self.date else {})

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
        reading = _FolderReading(self, found.folder, limits_of(reader), counts)
        files = sorted([*found.files, *found.unread])
        mapping = replace(_MAPPING, on_error=self.on_error)
        rows = rows_of(reader, mapping, reading.pieces(files), str(folder), reading.origins)
        kind = "dated" if self.date else "documents"
        total = None if self.by_heading else len(files)
        return Rows(rows, kind, total, notes=lambda: reading.notes(found))


class _FolderReading:
    """How the files of a folder are read, and what was found in them."""

    def __init__(
        self, source: TextFileSource, folder: Path, limits: Limits, counts: Counter[str]
    ) -> None:
        self.origins = Origins()
        self._source = source
        self._folder = folder
        self._most = min(limits.size("row"), limits.size("field"))
        self._trust = {name.casefold(): value for name, value in source.trust_by_folder.items()}
        # Of files: what their titles are, and suffixes; sections; headings without text.
        self._counts = counts

    def pieces(self, files: list[PurePosixPath]) -> Iterator[pa.RecordBatch]:
        """Yield the files, some at a time."""
        left = iter(files)
        for group, _ in paths.together(self._folder / file for file in files):
            rows = self._rows(islice(left, len(group)))
            while some := list(islice(rows, _ROWS)):
                columns = [
                    pa.array(column, field.type)
                    for column, field in zip(zip(*some, strict=True), _SCHEMA, strict=True)
                ]
                wrong = [None if row[-1] is None else json.dumps({"path": row[2]}) for row in some]
                piece = pa.record_batch(columns, schema=_SCHEMA)
                yield piece.append_column(BROKEN, pa.array(wrong, pa.string()))

    def notes(self, found: Listed) -> list[str]:
        """Return what was taken for anchors, and what was not read."""
        others = f"not read: {found.told()}; pattern= says what is" if found.others else ""
        tagged = ", ".join(
            f"{n:,} {what}" for what, n in sorted(self._counts.items()) if what in _TAGGED
        )
        tags = f"read as plain text, with their tags: {tagged}" if tagged else ""
        return [note for note in (self._of_anchors(), tags, others) if note]

    def _of_anchors(self) -> str:
        files = [(what, self._counts[what]) for what in _NAMES if self._counts[what]]
        if not files:
            return ""
        if self._source.by_heading:
            empty = self._counts["empty"]
            none = f"; {counted(empty, 'heading')} without text of their own" if empty else ""
            sections = counted(self._counts["section"], "section")
            among = counted(sum(number for _, number in files), "file")
            return (
                f"anchor: path of headings ('Title{SEPARATOR}Section') of {sections} in {among}; "
                f"context: the text of the section{none}"
            )
        (what, number), *more = files
        said = [f"{what} of {counted(number, 'file')}", *(f"{w} of {n:,}" for w, n in more)]
        whole = "" if self._source.titles == "name" else " without it"
        return f"anchor: {', '.join(said)}; context: their text{whole}"

    def _rows(self, files: Iterable[PurePosixPath]) -> Iterator[tuple[Any, ...]]:
        for path in files:
            body, modified, fault = _read(self._folder / path, self._most, self._source.encoding)
            # A name that is not UTF-8 is written with its bytes escaped.
            path = PurePosixPath(str(path).encode("utf-8", "backslashreplace").decode())
            folders = path.parts[:-1]
            trusted = [self._trust[n.casefold()] for n in folders if n.casefold() in self._trust]
            trust = trusted[0] if trusted else None
            bare = inner_name(path)
            day = path_date(bare) if self._source.date else None
            self.origins.begin(self._folder / path)
            file = str(path) if self._source.by_heading else None
            for title, text, key, wrong in self._records(bare, str(path), body, fault):
                list(self.origins.counted([_ONE]))
                yield title, text, key, day, file, folders, trust, modified, wrong

    def _records(
        self, bare: PurePosixPath, key: str, body: str | None, fault: str | None
    ) -> Iterator[tuple[str, str | None, str, str | None]]:
        """Yield the title, text, key and fault of a file, or of its sections."""
        name = bare.stem.replace("_", " ")
        if self._source.by_heading and len(body or "") > MOST_PARSED:
            fault = "text too long for by_heading"
        if body is None or fault is not None:
            yield name, body, key, fault
            return
        self._counts[bare.suffix.lower()] += 1
        named = self._source.titles == "name"
        markup = markup_of(bare)
        title, start = (None, 0) if named else front_matter(body)
        first = None if named else opening(body[start:], markup)
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
        """Yield the same of the sections that have text."""
        keys, numbers = set[str](), Counter[str]()
        for titles, body in sections(text, markup, title, name):
            if not (body := _trimmed(body)):
                self._counts["empty"] += 1
                continue
            path = SEPARATOR.join(titles)
            own = f"{key}#{path}"
            while own in keys:  # sections of one name are numbered
                numbers[path] += 1
                own = f"{key}#{path}#{numbers[path] + 1}"
            keys.add(own)
            self._counts["section"] += 1
            yield path, body, own, None
        if not keys:
            yield title or name, None, key, "headings without text"


def _trimmed(text: str) -> str:
    """Return a text without blank lines around it, where something was cut away."""
    return _BLANK_LINES.sub("", text.rstrip())


_BLANK_LINES = re.compile(r"\A(?:[ \t]*(?:\r\n|\r|\n))+")
_NAMES = ("title in front matter", "heading", "file name")
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
