"""Cut a source of files into parts that can be read anywhere.

    source ─cuts_of→ files, or row groups of Parquet ─read→ rows, from 1 in each

The same code reads a part and the whole. A part gets the facts that it cannot see, such as the keys
of JSON in the first rows. Each part reports what it saw, such as the paths that its rows have; the
caller decides when all have reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from duckplets.base.object_store import StoredObject
from duckplets.sources.files import Files
from duckplets.sources.formats.text_file import Listed, TextFileSource, listed
from duckplets.sources.mapping import changed
from duckplets.sources.names import Names
from duckplets.sources.paths import AT_ONCE, files, size_of, together
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.sources.limits import FileReader

_GROUPS = 64 << 20  # bytes of row groups of a part
_WHOLE = 64 << 20  # bytes of the largest file that is a part as a whole


@dataclass(slots=True)
class PartOf:
    """The facts of the whole that a part needs, and the findings of its reading."""

    source: Any  # the whole, as messages name it
    row: int = 1  # the number of the first row
    groups: range | None = None  # row groups to read of the one Parquet file; None for all
    listed: Listed | None = None  # texts to read of a folder; None for all
    keys: Any = None  # keys in the first lines of JSON; None while they are unknown
    names: Names | None = None  # names of the mapping that were met
    rows: int = 0  # the number of the last row, after it was read
    counts: Counter[str] = field(default_factory=Counter)  # findings in texts of a folder

    @property
    def where(self) -> str:
        """The address of the source in messages."""
        return str(getattr(self.source, "uri", None) or "")


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a source that is read on its own."""

    files: tuple[Path | StoredObject, ...]
    size: int  # their bytes
    groups: range | None = None  # row groups of the one Parquet file; None for all
    folder: Path | None = None  # the folder of texts, whose paths in it are their ids
    rows: int | None = None  # number of rows, if it is known without reading them

    @property
    def label(self) -> str:
        """Name it, for messages."""
        more = f" and {len(self.files) - 1:,} more files" if len(self.files) > 1 else ""
        groups = f", row groups {self.groups[0]} to {self.groups[-1]}" if self.groups else ""
        return f"{self.files[0]}{more}{groups}"

    def report(self) -> dict[str, str]:
        """Return the user's names of files by their absolute names."""
        paths = (file for file in self.files if isinstance(file, Path))
        pairs = ((str(file.absolute()), str(file)) for file in paths)
        return {_written(there): _written(here) for there, here in pairs if there != here}

    def absolute(self) -> Cut:
        """Return the same part with absolute paths."""
        files = (f if isinstance(f, StoredObject) else f.absolute() for f in self.files)
        return replace(self, files=tuple(files), folder=self.folder and self.folder.absolute())

    def open(self, source: Any, reader: FileReader, part: PartOf) -> Rows:
        """Open this part of a source."""
        part.groups, reader.part = self.groups, part
        if self.folder is not None:
            here = (file for file in self.files if isinstance(file, Path))
            names = [PurePosixPath(file.relative_to(self.folder)) for file in here]
            part.listed = Listed(self.folder, names, [], [])
        else:
            source = changed(source, path=list(self.files))
        return source.open(reader)  # type: ignore[no-any-return]


def has_files(source: Any) -> bool:
    """Return whether a source reads files that others may read too."""
    return isinstance(source, Files | TextFileSource) and not getattr(source, "is_stdin", False)


def has_large(source: Any) -> bool:
    """Return whether a source has a large file that cannot be cut."""
    if isinstance(source, TextFileSource) or source.kind == "parquet":
        return False
    return any(size_of(file) > _WHOLE for file in files(source.path))


def cuts_of(source: Any, *, numbered: bool) -> Iterator[Cut]:
    """Yield the parts of a source of files, in the order of its rows."""
    if isinstance(source, TextFileSource):
        found = listed(source.folder, source.pattern)
        names = sorted([*found.files, *found.unread])
        for texts, size in together([found.folder / name for name in names]):
            yield Cut(tuple(texts), size, folder=found.folder)
        return
    every: list[Path | StoredObject] = files(source.path)
    for some, size in together(every):
        here = [file for file in some if isinstance(file, Path)]
        if here and source.kind == "parquet" and (numbered or size > AT_ONCE):
            yield from _of_parquet(here)
        else:
            yield Cut(tuple(some), size)


def _of_parquet(some: Sequence[Path]) -> Iterator[Cut]:
    from duckplets.sources.formats.columnar import opened

    for file in some:
        with opened(file) as parquet:
            groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
            sizes = [int(group.total_byte_size) for group in groups]
            rows = [int(group.num_rows) for group in groups]
        starts = [0]
        for i in range(1, len(groups)):
            if sum(sizes[starts[-1] : i]) >= _GROUPS:
                starts.append(i)
        for first, end in zip(starts, [*starts[1:], len(groups)], strict=True):
            part = range(first, end) if len(starts) > 1 else None
            yield Cut((file,), size_of(file), part, rows=sum(rows[first:end]))


def _written(file: str) -> str:
    return file.encode("utf-8", "backslashreplace").decode()
