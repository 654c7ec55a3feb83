"""Read text files into rows, a record in each line, or a record in each file of a folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.base import MAX_BYTES, Mapped, Rows, check_trust
from duckplets.sources.feed import piece, rows_of
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.lines import line_pieces

if TYPE_CHECKING:
    from duckplets.db.database import Database

# -- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextLinesSource(paths.Files):
    r"""Text files in UTF-8, each line of which is a record of one text; blank ones are counted.

    Lines end with ``\n`` or ``\r\n``. For folders of whole texts there is ``TextFileSource``.
    """

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them."""
    text: str = field(default="line", init=False)

    kind: ClassVar[str] = "lines"

    def __post_init__(self) -> None:
        Mapped.__post_init__(self)
        for part in ("context", "id", "date", "group", "taxonomy", "meta", "prefix", "converter"):
            if getattr(self, part) is not None:
                raise SourceError(f"{part}={getattr(self, part)!r}: lines of text have no columns")
        if isinstance(self.trust, str):
            raise SourceError(f"trust={self.trust!r}: lines of text have no columns; give a number")

    def open(self, reader: Database) -> Rows:
        """Read the files in turn."""
        limits = limits_of(reader)
        pieces = (lines for file in paths.files(self.path) for lines in _lines(file, limits))
        return self.rows(reader, pieces)


def _lines(file: Path, limits: Limits) -> Iterator[pa.RecordBatch]:
    with paths.reading(file), paths.open_bytes(file) as stream:
        for lines in line_pieces(stream, str(file), limits):
            yield piece([pc.ascii_rtrim(lines.column("line"), characters="\r\n")], ["line"])


# -- folders --------------------------------------------------------------------------------------

_MOST_FILES = 1_024
_MAPPING = Mapped(
    anchor="name", context="body", id="path", date="date", taxonomy="folders", trust="trust"
)
_SCHEMA = pa.schema(
    [  # c0, c1, … follow the mapping's names
        ("c0", pa.string()),
        ("c1", pa.string()),
        ("c2", pa.string()),
        ("c3", pa.date32()),
        ("c4", pa.list_(pa.string())),
        ("c5", pa.float64()),
        ("modified", pa.timestamp("us")),
        ("fault", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class TextFileSource:
    """A folder's text files in UTF-8, those of its subfolders too, in the order of their paths.

    The file's name without suffix, ``_`` as space, is the anchor; the whole text, newlines kept,
    the context; the path within the folder the id; its folders the taxonomy; the time of its
    last change both times of the record.
    """

    folder: str | os.PathLike[str]
    """The folder."""
    pattern: str = field(default="*.txt", kw_only=True)
    """Which file names are read, at any depth."""
    date: Literal["path"] | bool | None = field(default=None, kw_only=True)
    """``"path"`` takes the record's date from the path: YYYY-MM-DD, MM-DD-YYYY, or YYYY/MM-DD."""
    trust: float | None = field(default=None, kw_only=True)
    """Trust in the source, from 0 to 1."""
    trust_by_folder: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """Trust by folder name, whatever its case; the outermost named folder of a path counts."""

    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        for trust in (self.trust, *self.trust_by_folder.values()):
            check_trust(trust)
            if isinstance(trust, str):
                raise SourceError(f"trust={trust!r}: text files have no columns; give a number")
        if self.date not in ("path", True, False, None):
            raise SourceError(f"date={self.date!r}: only date='path' is known")

    @property
    def uri(self) -> str | None:
        """The folder."""
        return os.fspath(self.folder)

    def default_name(self) -> str:
        """Return the folder's name."""
        return Path(self.folder).expanduser().absolute().name or "text"

    def open(self, reader: Database) -> Rows:
        """List the files, then read them in turn."""
        folder = Path(self.folder).expanduser()
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise SourceError(f"{folder} {what}")
        files, unread = listed(folder, self.pattern)
        if not files and not unread:
            raise SourceError(f"{folder} has no file that matches {self.pattern!r}")
        limits = limits_of(reader)
        most = min(limits.size("row"), limits.size("field"))
        pieces = self._pieces(folder, sorted([*files, *unread]), most)
        rows = rows_of(reader, _MAPPING, pieces, str(folder))
        return Rows(rows, "dated" if self.date else "roles", len(files) + len(unread))

    def _pieces(
        self, folder: Path, files: list[PurePosixPath], most: int
    ) -> Iterator[pa.RecordBatch]:
        trust = {name.casefold(): value for name, value in self.trust_by_folder.items()}
        for group in _groups(folder, files):
            rows = [self._row(folder / file, file, trust, most) for file in group]
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)
            ]
            yield pa.record_batch(columns, schema=_SCHEMA)

    def _row(
        self, file: Path, path: PurePosixPath, trust: Mapping[str, float], most: int
    ) -> tuple[Any, ...]:
        body, modified, fault = _read(file, most)
        # A name that is not UTF-8 is written with its bytes escaped.
        path = PurePosixPath(str(path).encode("utf-8", "backslashreplace").decode())
        folders = path.parts[:-1]
        trusted = [trust[name.casefold()] for name in folders if name.casefold() in trust]
        day = path_date(path) if self.date else None
        name = path.stem.replace("_", " ")
        return name, body, str(path), day, folders, trusted[0] if trusted else None, modified, fault


def listed(folder: Path, pattern: str) -> tuple[list[PurePosixPath], list[PurePosixPath]]:
    """Return the files of a folder, and the subfolders that cannot be read, by their paths in it.

    Pipes, devices and sockets are no files: reading one would wait for ever.
    """
    unread: list[PurePosixPath] = []

    def note(error: OSError) -> None:
        unread.append(PurePosixPath(Path(str(error.filename)).relative_to(folder).as_posix()))

    for _ in os.walk(folder, onerror=note):
        pass
    found = (file for file in folder.rglob(pattern) if not _is_other(file))
    return sorted(PurePosixPath(file.relative_to(folder).as_posix()) for file in found), unread


def _is_other(file: Path) -> bool:
    """Return whether something is there that is no file; a broken link is one, to be counted."""
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False


def _groups(folder: Path, files: Iterable[PurePosixPath]) -> Iterator[list[PurePosixPath]]:
    """Yield the files in groups that are read at once, of bounded number and size."""
    number = size = group = 0

    def place(file: PurePosixPath) -> int:
        nonlocal number, size, group
        try:
            of_file = (folder / file).stat().st_size
        except OSError:
            of_file = 0
        number, size = number + 1, size + of_file
        if number > _MOST_FILES or size > MAX_BYTES // 4:
            number, size, group = 1, of_file, group + 1
        return group

    for _, members in groupby(files, key=place):
        yield list(members)


def _read(file: Path, most: int) -> tuple[str | None, datetime | None, str | None]:
    """Return a file's text and time of change, and why it is no text."""
    try:
        if file.is_dir():
            return None, None, "unreadable folder"
        with file.open("rb") as opened:
            data = opened.read(most + 1)
            changed = _time_of(os.fstat(opened.fileno()).st_mtime)
    except OSError:
        return None, None, "unreadable file"
    if len(data) > most:
        return None, changed, "file larger than the limit of a field"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None, changed, "invalid UTF-8"
    return text, changed, None if text.strip() else "empty file"


def _time_of(seconds: float) -> datetime | None:
    """Return a moment in UTC; None for one that has no date."""
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


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
