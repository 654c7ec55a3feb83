"""Limits of reading: memory, sizes of rows and fields, number of columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from duckplets.base.sanitize import shown
from duckplets.base.settings import Bounds, checked
from duckplets.db.database import Database
from duckplets.errors import SourceError

if TYPE_CHECKING:
    from duckplets.sources.partitions import PartOf

_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)}
_MOST = 2**31 - 1  # limit of Arrow's text offsets, and of csv's field size


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of reading a source; an input above one is an error that names file and row.

    Sizes are a number of bytes, or a text such as ``"64MB"``.
    """

    memory: str | int = "512MB"
    """Memory of reading, and of one page of a Parquet file or one batch of an Arrow file."""
    row: str | int = "128MB"
    """The largest row: a line of JSON or text, a row of CSV, the text file of a folder."""
    field: str | int = "64MB"
    """The largest value of a row: a text, or a list of texts."""
    columns: int = 10_000
    """The most columns of a file, or distinct keys of a JSON file."""

    def __post_init__(self) -> None:
        for name in ("memory", "row", "field"):
            size_of(name, getattr(self, name))
        checked("columns", self.columns, Annotated[int, Bounds(2)], SourceError)

    def size(self, name: str) -> int:
        """Return a limit in bytes; rows and fields stay below 2 GB."""
        size = size_of(name, getattr(self, name))
        return size if name == "memory" else min(size, _MOST)

    def exceeded(self, where: str, what: str, name: str) -> SourceError:
        """Return the error for exceeding a limit, with advice."""
        limit = getattr(self, name)
        return SourceError(
            f"{where}: {what} than the limit of {limit}; if that is meant, allow more: "
            f"IngestOptions(limits=dp.sources.Limits({name}=…))"
        )


def size_of(name: str, value: object) -> int:
    """Return a size in bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    text = value.strip().upper() if isinstance(value, str) else ""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(?:\s*([KMGT]I?|)B)?", text)
    size = round(float(found[1]) * _UNITS[found[2] or ""]) if found else 0
    if size <= 0:
        raise SourceError(
            f"{name}={shown(repr(value))}: give a number of bytes, or one with a unit, such as "
            f"'64MB' or '2GB'"
        )
    return size


class FileReader(Database):
    """An in-memory instance that reads files, with its limits."""

    limits = Limits()
    part: PartOf | None = None  # part of a larger input to read; None for all of it

    @classmethod
    def within(cls, limits: Limits) -> FileReader:
        """Open one."""
        opened = cls.reader(memory_limit=f"{max(limits.size('memory'), 1000) // 1000}KB")
        opened.limits = limits
        return opened


def limits_of(reader: Database) -> Limits:
    """Return the limits of a reader, or the defaults."""
    return reader.limits if isinstance(reader, FileReader) else FileReader.limits


def part_of(reader: Database) -> PartOf | None:
    """Return the part of a larger input that a reader reads; None for all of it."""
    return reader.part if isinstance(reader, FileReader) else None
