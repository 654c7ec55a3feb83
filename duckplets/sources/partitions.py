"""Cut a source of files into parts that can be read anywhere, and say what each has to know.

    source ─cuts_of→ files, or row groups of a large one ─read→ rows, numbered from 1 in each

The decision that matters: a part is read by the very code that reads the whole, of which it knows
what it cannot see for itself: the keys of JSON that the first rows have. What is found out about
the whole, such as a path that no row has, is told by every part and decided by who has them all.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from duckplets.base.object_store import StoredObject
from duckplets.sources.files import Files
from duckplets.sources.formats.text_file import Listed, TextFileSource, listed
from duckplets.sources.names import Names
from duckplets.sources.paths import AT_ONCE, files, together
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.sources.limits import FileReader

_GROUPS = 64 << 20  # bytes of row groups of a part


@dataclass(slots=True)
class PartOf:
    """What the reading of a part has to know of the whole, and what it has found out."""

    source: Any  # the whole, as messages name it
    where: str  # its input, as messages name it
    row: int = 1  # the number of the first row
    groups: range | None = None  # which row groups of the one Parquet file are read; None for all
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
    folder: Path | None = None  # that texts lie in, whose paths are their ids
    rows: int | None = None  # how many it has, where that is known without reading them

    @property
    def label(self) -> str:
        """Name it, for messages."""
        more = f" and {len(self.files) - 1:,} more files" if len(self.files) > 1 else ""
        groups = f", row groups {self.groups[0]} to {self.groups[-1]}" if self.groups else ""
        return f"{self.files[0]}{more}{groups}"

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
        part.groups, reader.part = self.groups, part
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


def cuts_of(source: Any, *, numbered: bool) -> list[Cut]:
    """Return a source of files cut into parts, in the order of its rows.

    A file of text is never cut, whatever its size: where its rows begin is known by reading it. Nor
    is an object of a store, which whoever reads it has brought to a cache first, and whole.
    """
    if isinstance(source, TextFileSource):
        found = listed(source.folder, source.pattern)
        names = sorted([*found.files, *found.unread])
        each = [found.folder / name for name in names]
        return [Cut(tuple(some), size, folder=found.folder) for some, size in together(each)]
    every = files(source.path)
    here = [file for file in every if isinstance(file, Path)]
    if source.kind != "parquet" or len(here) < len(every):
        return [Cut(tuple(some), size) for some, size in together(every)]
    cuts = (_of_parquet(some, size, numbered=numbered) for some, size in together(here))
    return list(chain.from_iterable(cuts))


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
