"""Plain aligned tables, for people; programs take ``--json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any


def show(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
    """Print rows under the names of their columns, numbers to the right."""
    values = [list(row) for row in rows]
    cells = [list(columns), *([_cell(value) for value in row] for row in values)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        bool(values) and all(_is_number(row[i]) or row[i] is None for row in values)
        for i in range(len(columns))
    ]
    if title:
        print(title)
    for row in cells:
        line = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        )
        print("  ".join(line).rstrip())


def show_dicts(
    columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, title: str = ""
) -> None:
    """Print some columns of rows that are mappings."""
    show(columns, ([row[column] for column in columns] for row in rows), title=title)


def counts(found: Mapping[str, int]) -> str:
    """Return counts by reason in one cell, the largest first."""
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {reason}" for reason, count in ordered)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)
