"""Where rows go: JSON lines, or Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

Row = Mapping[str, Any]

# Row groups end after so many rows or characters, whichever comes first: where they end depends
# on the rows alone, and what is held in memory is bounded whatever the length of texts.
_GROUP_ROWS = 16_384
_GROUP_CHARACTERS = 16 << 20

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
# JSON leaves these as they are, and some readers take them for ends of lines.
_SEPARATORS = {chr(code): f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}


class Sink(Protocol):
    """Takes rows."""

    def write(self, row: Row) -> None:
        """Write a row."""


@contextmanager
def json_lines(path: Path) -> Iterator[Sink]:
    """Open a file of JSON lines, in UTF-8, one object a line."""
    # Half of a surrogate pair cannot be written as UTF-8; this writes it as JSON's own escape.
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        yield _JsonLines(stream.write)


@contextmanager
def parquet(path: Path, schema: pa.Schema) -> Iterator[Sink]:
    """Open a Parquet file of a schema."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        sink = _Parquet(writer, schema)
        yield sink
        sink.flush()


class _JsonLines:
    def __init__(self, write: Any) -> None:
        self._write = write

    def write(self, row: Row) -> None:
        line = _ENCODER.encode(row)
        if not line.isascii():
            for separator, escape in _SEPARATORS.items():
                line = line.replace(separator, escape)
        self._write(line + "\n")


class _Parquet:
    def __init__(self, writer: Any, schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema
        self._rows: list[Row] = []
        self._characters = 0

    def write(self, row: Row) -> None:
        self._rows.append(row)
        self._characters += sum(map(_characters, row.values()))
        if len(self._rows) >= _GROUP_ROWS or self._characters >= _GROUP_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()
            self._characters = 0


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_characters, value)) if isinstance(value, list) else 0
