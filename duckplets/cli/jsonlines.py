"""Values as JSON: one line each, or one document."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 4096  # turned into Python values at once


def write_rows(table: pa.Table, stream: TextIO) -> None:
    """Write the rows of a table, one JSON object a line; maps become objects, dates ISO text."""
    for start in range(0, table.num_rows, _ROWS):
        rows = table.slice(start, _ROWS).to_pylist(maps_as_pydicts="strict")
        stream.writelines(f"{line}\n" for line in map(_ENCODER.encode, rows))


def print_lines(values: Iterable[Any]) -> None:
    """Print one JSON value a line."""
    for value in values:
        print(_ENCODER.encode(value))


def print_document(value: Any) -> None:
    """Print a JSON document for people and programs."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, date):  # datetimes are dates
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no JSON value")


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_plain)
