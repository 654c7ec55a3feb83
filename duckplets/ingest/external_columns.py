"""Check which Parquet files texts can be left in: what is read must be what stands there."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from duckplets.base.sanitize import shown
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.external_files import FileState
from duckplets.errors import SourceError
from duckplets.ingest.chunks import current_chunking
from duckplets.sources import ParquetSource, Source
from duckplets.sources.formats.columnar import opened
from duckplets.sources.mapping import ROLES
from duckplets.sources.names import is_optional, match
from duckplets.sources.paths import local_files

INSTEAD = "leave out in_place=True (--in-place)"
_GLOB = frozenset("*?[")  # DuckDB takes them for patterns
_OWN = frozenset({"filename", "file_row_number", "file_index"})  # columns that DuckDB adds

Columns = tuple[tuple[str, str, bool], ...]
"""For every heading its column, and whether that has lists."""


class PlacedFile(NamedTuple):
    """A file that texts are left in, as it is noted.

    Attributes:
        path: As it was given; if not from the root, then from the folder of the corpus.
        state: What it is known again by.
        columns: Those that texts come from.
    """

    path: str
    state: FileState
    columns: Columns

    @classmethod
    def noted(cls, row: Sequence[Any]) -> PlacedFile:
        """Return one from its columns in ``placed_files``, from the path on."""
        path, size, modified, footer, columns = row
        of = tuple((str(h), str(c), bool(is_list)) for h, c, is_list in json.loads(columns))
        return cls(path, FileState(size, modified, footer), of)

    def row(self, key: int) -> dict[str, Any]:
        """Return the columns to note, by name."""
        state = {name: getattr(self.state, name) for name in ("size", "modified", "footer")}
        columns = json.dumps(self.columns, ensure_ascii=False)
        return {"file_key": key, "path": self.path, "columns": columns} | state


def files_to_leave(
    database: Database, source: Source, pii: str | None
) -> list[tuple[PlacedFile, int]]:
    """Return the files of a source in which its texts can stay, each with its rows.

    Args:
        database: The corpus, whose statements may read them from now on.
        source: What is read.
        pii: What gates do about personal data.

    Raises:
        SourceError: They cannot stay; the message says why.
        CorpusLockedError: The corpus is open a second time in this process.
    """
    if not isinstance(source, ParquetSource):
        raise SourceError(
            f"in_place=True leaves texts in Parquet files, and this source is of kind "
            f"{shown(source.kind)}; give a ParquetSource of local files, or {INSTEAD}"
        )
    makes = [
        f"{name}={getattr(source, name)!r}"
        for name in ("converter", "text_of", "sections")
        if getattr(source, name) is not None
    ]
    makes += ["a preprocessor of the corpus"] * bool(current_chunking(database).preprocessors)
    makes += ["pii='redact'"] * (pii == "redact")
    if makes:
        raise SourceError(
            f"{makes[0]} makes texts that are not in the files as they are, so they cannot stay "
            f"there: do without it, or {INSTEAD}"
        )
    corpus, found = Path(str(database.path)), []
    for file in local_files(source.path):
        with opened(file) as parquet:
            schema, count = parquet.schema_arrow, int(parquet.metadata.num_rows)
        columns = _columns(source, file, schema)
        found.append(
            (PlacedFile(_path(file, corpus), external_files.state_of(file), columns), count)
        )
    if len({file.path for file, _ in found}) < len(found):
        raise SourceError(f"{source.uri} names a file twice; name each once, or {INSTEAD}")
    database.allow([external_files.located(file.path, corpus) for file, _ in found])
    return found


def refuse_inside(database: Database, name: str) -> None:
    """Refuse to take texts of a source into the corpus of which others are left in their files.

    Raises:
        SourceError: Some are.
    """
    if database.run("ingest/external_text/of_source", {"name": name})[0][0]:
        raise SourceError(
            f"the texts of source {shown(repr(name))} were left in their files: read it with "
            f"in_place=True (--in-place), or give another name"
        )


def _path(file: Path, corpus: Path) -> str:
    """Return the path that is noted."""
    path = os.path.abspath(file)
    if wrong := _GLOB & set(path):
        raise SourceError(f"{shown(path)} has a {min(wrong)!r} in it; rename it, or {INSTEAD}")
    return path if file.is_absolute() else os.path.relpath(path, external_files.folder_of(corpus))


def _columns(source: ParquetSource, file: Path, schema: pa.Schema) -> Columns:
    """Return the columns of a file that texts come from."""
    where, names = shown(str(file)), [str(name) for name in schema.names]
    folded = Counter(name.casefold() for name in names)
    if taken := sorted(_OWN & folded.keys()):
        raise SourceError(f"{where} has a column {taken[0]!r}, as DuckDB calls its own; {INSTEAD}")
    found = []
    for name in dict.fromkeys(name for part in ROLES for name in source.part(part)):
        places = match(name, names)
        kind = schema.field(places[0]).type if places else None
        is_list = _is_any(kind, pa.types.is_list, pa.types.is_large_list, _is_fixed)
        if kind is None or not _is_text(kind.value_type if is_list else kind):
            raise SourceError(
                f"{where}: {shown(repr(name))} is no column of strings or of lists of strings "
                f"({kind or 'a path into one'}), which alone can be left in place; {INSTEAD}"
            )
        column = names[places[0]]
        if folded[column.casefold()] > 1:
            raise SourceError(f"{where} has columns that differ from {column!r} in case; {INSTEAD}")
        parts = sum(name in source.part(part) for part in ("positive", "context", "text"))
        if is_list and parts > 1:
            raise SourceError(f"{shown(repr(name))} has lists and plays two parts; {INSTEAD}")
        if is_list and source.null_values:
            raise SourceError(f"{shown(repr(name))} has lists, and null_values= words; {INSTEAD}")
        heading = name[:-1] if is_optional(name, column) else name
        found.append((heading, column, is_list))
    return tuple(found)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return _is_any(kind, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _is_any(kind: pa.DataType | None, *kinds: Any) -> bool:
    return kind is not None and any(is_one(kind) for is_one in kinds)
