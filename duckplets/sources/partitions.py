"""Cut a source of files into parts that can be read anywhere, and say what each has to know.

    source ─cuts_of→ files, or row groups or lines of a large one ─read→ rows, from 1 in each

The decision that matters: a part is read by the very code that reads the whole, of which it knows
what it cannot see for itself: the keys of JSON that the first rows have. What is found out about
the whole, such as a path that no row has, is told by every part and decided by who has them all.
"""

from __future__ import annotations

import codecs
import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.object_store import StoredObject
from duckplets.sources.files import Files
from duckplets.sources.formats.text_file import Listed, TextFileSource, listed
from duckplets.sources.names import Names
from duckplets.sources.paths import (
    AT_ONCE,
    COMPRESSED,
    Span,
    codec_of,
    files,
    reading,
    together,
)
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.sources.limits import FileReader

_GROUPS = 64 << 20  # bytes of row groups of a part
_LINES = 8 << 20  # bytes of lines of a part


@dataclass(slots=True)
class PartOf:
    """What the reading of a part has to know of the whole, and what it has found out."""

    source: Any  # the whole, as messages name it
    where: str  # its input, as messages name it
    row: int = 1  # the number of the first row
    groups: range | None = None  # which row groups of the one Parquet file are read; None for all
    span: Span | None = None  # which lines of the one file are read; None for all
    before: int = 0  # rows of the one file that come before them
    listed: Listed | None = None  # which texts of a folder are read; None for all
    keys: Any = None  # what the first lines of JSON said of all; None while that is not known
    names: Names | None = None  # which names of the mapping were met
    rows: int = 0  # the number of the last row, when it has been read
    counts: Counter[str] = field(default_factory=Counter)  # what was found in texts of a folder

    def named(self, mapping: Any) -> Any:
        """Return what names the source of a mapping: the whole source where it is a part of it."""
        return self.source if isinstance(mapping, type(self.source)) else mapping


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a source that is read on its own."""

    # as the source names them, or as a listing of their store has them
    files: tuple[Path | StoredObject, ...]
    size: int  # their bytes
    groups: range | None = None  # which row groups of the one Parquet file; None for all
    span: Span | None = None  # which lines of the one file of text; None for all
    folder: Path | None = None  # that texts lie in, whose paths are their ids
    rows: int | None = None  # how many it has, where that is known without reading them

    @property
    def label(self) -> str:
        """Name it, for messages."""
        more = f" and {len(self.files) - 1:,} more files" if len(self.files) > 1 else ""
        groups = f", row groups {self.groups[0]} to {self.groups[-1]}" if self.groups else ""
        lines = f", from line {self.span.line + 1:,}" if self.span and self.span.start else ""
        return f"{self.files[0]}{more}{groups}{lines}"

    def told(self) -> dict[str, str]:
        """Return what files are called here, by what they are called wherever they are read."""
        here = (file for file in self.files if isinstance(file, Path))
        pairs = ((str(file.absolute()), str(file)) for file in here)
        return {_written(there): _written(here) for there, here in pairs if there != here}

    def absolute(self) -> Cut:
        """Return the same by paths that hold in any folder."""
        made = copy.copy(self)
        files = (f if isinstance(f, StoredObject) else f.absolute() for f in self.files)
        object.__setattr__(made, "files", tuple(files))
        object.__setattr__(made, "folder", self.folder and self.folder.absolute())
        return made

    def open(self, source: Any, reader: FileReader, part: PartOf) -> Rows:
        """Open this part of a source."""
        part.groups, part.span, reader.part = self.groups, self.span, part
        if self.folder is not None:
            here = (file for file in self.files if isinstance(file, Path))
            names = [PurePosixPath(file.relative_to(self.folder)) for file in here]
            part.listed = Listed(self.folder, names, [], [])
        else:
            source = copy.copy(source)
            object.__setattr__(source, "path", list(self.files))
        return source.open(reader)  # type: ignore[no-any-return]


def file_source(source: Any) -> Any:
    """Return what reads files within a source; None where only this process can read it."""
    if not isinstance(source, Files | TextFileSource):
        return None
    return None if str(getattr(source, "path", "")) == "-" else source


def cuts_of(source: Any, reader: FileReader, notes: list[str], *, numbered: bool) -> Iterator[Cut]:
    """Yield the parts of a source of files, in the order of its rows.

    What is compressed is never cut. Nor is an object of a store, which whoever reads it has brought
    to a cache first, and whole.
    """
    if isinstance(source, TextFileSource):
        found = listed(source.folder, source.pattern)
        names = sorted([*found.files, *found.unread])
        for texts, size in together([found.folder / name for name in names]):
            yield Cut(tuple(texts), size, folder=found.folder)
        return
    every: list[Path | StoredObject] = files(source.path)
    for some, size in together(every):
        here = [file for file in some if isinstance(file, Path)]
        if here and source.kind == "parquet":
            yield from _of_parquet(here, size, numbered=numbered)
        elif len(here) == 1 and size > _LINES:
            with reading(here[0]):
                yield from _of_text(source, here[0], size, reader, notes)
        else:
            yield Cut(tuple(some), size)


def _of_text(
    source: Any, file: Path, size: int, reader: FileReader, notes: list[str]
) -> Iterator[Cut]:
    """Yield the parts of a file of text, which end where a row does, whatever stands in it."""
    is_plain = hasattr(source, "encoding") and file.suffix.lower() not in COMPRESSED
    is_plain = is_plain and codec_of(source.encoding) is None
    signs = source.signs(file, reader) if is_plain else None
    if signs is None:
        yield Cut((file,), size)
        return
    start = line = 0
    is_csv = source.kind == "csv"
    with file.open("rb") as stream:
        while size - start > _LINES:
            stream.seek(start)
            data = stream.read(_LINES)
            if signs and signs[1:] in data:
                mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
                length = _whole_rows(data[mark:], signs)
                length += mark if length else 0
                if not length:
                    notes.append(
                        f"{file} from line {line + 1:,} on is one part, which no two workers "
                        f"share: a quote there is not one around a whole field, or the field is "
                        f"long, so where rows end is known by reading them"
                    )
            else:
                data += b"" if b"\n" in data else stream.readline(reader.limits.size("row"))
                length = data.rfind(b"\n") + 1
            if not length:
                break
            lines = data.count(b"\n", 0, length)
            yield Cut(
                (file,),
                size,
                span=Span(start, start + length, line),
                rows=None if is_csv else lines,
            )
            line += lines
            if is_csv:  # there \r ends a line, too
                line += data.count(b"\r", 0, length) - data.count(b"\r\n", 0, length)
            start += length
    yield Cut((file,), size, span=Span(start, None, line))


def _whole_rows(data: bytes, signs: bytes) -> int:
    """Return up to where data are whole rows of CSV; 0 where that cannot be told.

    Behind a newline with as many quotes before it as end fields a row begins, if every quote stands
    where it has to: then none is text, and no row breaks off as a bad one.
    """
    delimiter, quote = signs
    found = np.frombuffer(data, np.uint8)
    is_quote = found == quote
    is_inside = np.logical_xor.accumulate(is_quote)
    ends = np.flatnonzero((found == ord("\n")) & ~is_inside)
    if not len(ends):
        return 0
    length = int(ends[-1]) + 1
    around = np.zeros(256, np.bool_)
    around[[delimiter, quote, ord("\r"), ord("\n")]] = True
    may_be = around[found[:length]]
    is_quote, is_inside = is_quote[:length], is_inside[:length]
    before, after = np.append(True, may_be[:-1]), np.append(may_be[1:], True)
    is_wrong = is_quote & np.where(is_inside, ~before, ~after)
    return 0 if is_wrong.any() else length


def _of_parquet(some: Sequence[Path], size: int, *, numbered: bool) -> Iterator[Cut]:
    from duckplets.sources.formats.columnar import opened

    if size <= AT_ONCE and not numbered:
        yield Cut(tuple(some), size)
        return
    for file in some:
        with opened(file) as parquet:
            groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
            sizes = [int(group.total_byte_size) for group in groups]
            rows = [int(group.num_rows) for group in groups]
        starts = [0]
        for i in range(1, len(groups)):
            if sum(sizes[starts[-1] : i]) >= _GROUPS:
                starts.append(i)
        of_file = size if len(some) == 1 else file.stat().st_size
        for first, end in zip(starts, [*starts[1:], len(groups)], strict=True):
            part = range(first, end) if len(starts) > 1 else None
            yield Cut((file,), of_file, part, rows=sum(rows[first:end]))


def _written(file: str) -> str:
    return file.encode("utf-8", "backslashreplace").decode()
