"""Write Markdown for cards, in which names from outside have no effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duckplets.base.sanitize import shown


def table(rows: Sequence[Mapping[str, Any]], most: int = 100) -> list[str]:
    """Return rows as the lines of a table, with the names of all columns."""
    if not rows:
        return []
    columns = dict.fromkeys(name for row in rows for name in row)
    lines = [[_cell(row.get(name)) for name in columns] for row in rows[:most]]
    lines = [[*map(plain, columns)], ["---"] * len(columns), *lines]
    more = [f"\n… and {len(rows) - most:,} more rows."] if len(rows) > most else []
    return [f"| {' | '.join(line)} |" for line in lines] + more


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return code(value) if isinstance(value, str) else plain(value)


def plain(value: Any) -> str:
    """Return a value as text without Markdown markup."""
    text = shown("NULL" if value is None else value)
    return "".join(f"\\{c}" if c in "\\|`*_[]<>#&" else c for c in text)


def code(value: str) -> str:
    """Return a name from outside as a span of code, without markup and addresses."""
    text = shown(value).replace("|", "\\x7c")  # it would end the cell of a table, even in code
    fence = _fence(text, "`")
    return f"{fence} {text} {fence}"  # Markdown drops one space on both sides


def fenced(text: str, language: str) -> list[str]:
    """Return a text as the lines of a block of code."""
    fence = _fence(text, "```")
    return [f"{fence}{language}", text.rstrip("\n"), fence]


def _fence(text: str, fence: str) -> str:
    """Return a fence of more backticks than any run in a text."""
    while fence in text:
        fence += "`"
    return fence
