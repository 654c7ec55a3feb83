"""Text files with a text in every line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.feed import piece, rows_of
from duckplets.sources.lines import line_pieces
from duckplets.sources.mapping import Mapped
from duckplets.sources.rows import Rows

if TYPE_CHECKING:
    from duckplets.db.database import Database


@dataclass(frozen=True, slots=True)
class TextLinesSource(Mapped):
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

    @property
    def uri(self) -> str | None:
        """Where it reads from."""
        return paths.uri(self.path)

    def default_name(self) -> str:
        """Return the file's stem."""
        return paths.default_name(self.path)

    def open(self, reader: Database) -> Rows:
        """Read the files in turn."""
        pieces = (lines for file in paths.files(self.path) for lines in _pieces(file))
        return Rows(rows_of(reader, self, pieces, self.uri or ""), "text")


def _pieces(file: Path) -> Iterator[pa.RecordBatch]:
    try:
        with paths.open_bytes(file) as stream:
            for lines in line_pieces(stream):
                yield piece([pc.ascii_rtrim(lines.column("line"), characters="\r\n")], ["line"])
    except (pa.ArrowException, OSError) as error:
        raise paths.unreadable(file, error) from error
