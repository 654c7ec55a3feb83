"""Escape values from outside before they reach a terminal, a log or an error message.

Names, tags, paths, texts and messages of other libraries may contain control characters. These move
a cursor, change colours or direction, or start a new line. They are shown as Python escapes. All
code that prints or raises such values uses these functions. ``DuckpletsError`` applies them to
every message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from html import escape
from itertools import islice
from typing import Any

_ROWS = 50  # rows of a list in a report
MESSAGE = 4000  # longest message, in characters

# Controls (C0, DEL, C1), invisible and direction-changing characters, line and paragraph
# separators, surrogates, tags. Joiners of emoji and of Indic and Persian scripts stay.
_ACTING = (
    "\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_IN_A_LINE = re.compile(f"[{_ACTING}]")
_IN_LINES = re.compile(f"(?!\n)[{_ACTING}]")


# a quoted Python text without quotes inside
_LONG_VALUE = re.compile(r"""(?<!\w)(?:'[^'"\n]{400,}'|"[^'"\n]{400,}")(?!\w)""")


def shown(value: object, limit: int = 200) -> str:
    """Return a value as one line of at most about ``limit`` characters."""
    return _cut(_IN_A_LINE.sub(_escaped, _cut(str(value), limit)), limit)


def listed(values: Iterable[object], most: int = 20) -> str:
    """Return the first values in one line, and the number of the others."""
    rest = iter(values)
    first = [shown(value, 80) for value in islice(rest, most)]
    more = sum(1 for _ in rest)
    return ", ".join(first) + (f" and {more:,} more" if more else "")


def counted(number: int, one: str, several: str = "") -> str:
    """Return a count with its noun: ``1 row``, ``2,000 rows``, ``0 families``."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def size(number: int) -> str:
    """Return bytes in decimal units: 3.9 MB is 3.9 × 10^6 bytes."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return str(number) if number == 0 else counted(number, "byte")


def tallied(counts: Mapping[str, int]) -> str:
    """Return counts by reason in one line, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return listed((f"{count:,} {reason}" for reason, count in ordered), len(ordered))


def text_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return rows as lines under column names, numbers aligned to the right."""
    values = [list(row) for row in rows]
    cells = [list(columns), *([_cell(value) for value in row] for row in values)]
    right = [
        bool(values) and all(row[i] is None or _is_number(row[i]) for row in values)
        for i in range(len(columns))
    ]
    return aligned(cells, right)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool] | None = None) -> list[str]:
    """Return rows of cells as lines; ``right`` marks right-aligned columns, default: digits."""
    columns = list(zip(*rows, strict=True))
    if right is None:
        right = [all(cell[:1].isdigit() for cell in cells[1:] or cells) for cells in columns]
    widths = [max(map(len, cells)) for cells in columns]
    padded = (
        [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        for row in rows
    )
    return ["  ".join(cells).rstrip() for cells in padded]


def percent(part: float) -> str:
    """Return a share in percent."""
    return f"{100 * part:.3g} %"


def figure(number: float) -> str:
    """Return a number with three digits, or whole."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return an HTML table for a notebook, with every text escaped and cut."""
    head = "".join(f"<th>{_in_html(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_in_html(value)}</td>' for value in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption>{_in_html(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def html_lines(text: str) -> str:
    """Return lines of text as HTML for a notebook, escaped."""
    return f"<pre>{escape(harmless(text, None))}</pre>"


def text_report(facts: Mapping[str, object]) -> str:
    """Return a line for each fact, and a table for each list of mappings or dataclasses."""
    filled = {name: value for name, value in facts.items() if value not in (None, (), [], {}, "")}
    lists = {name: rows for name, value in filled.items() if (rows := _rows_of(value))}
    names = {name: name.replace("_", " ") for name in filled}
    width = max((len(names[name]) for name in filled if name not in lists), default=0)
    lines = [
        f"{names[name]:<{width}}  {shown(_words(value))}"
        for name, value in filled.items()
        if name not in lists
    ]
    for name, rows in lists.items():
        columns = list(dict.fromkeys(key for row in rows for key in row))
        cells = [[_words(row.get(key)) for key in columns] for row in rows[:_ROWS]]
        lines += ["", names[name], *text_table(columns, cells)]
        lines += [f"and {len(rows) - _ROWS:,} more"] if len(rows) > _ROWS else []
    return harmless("\n".join(lines), None)


class Reported:
    """A dataclass that prints as lines, in a notebook too."""

    __slots__ = ()

    def __str__(self) -> str:
        return text_report(_facts_of(self))

    def _repr_html_(self) -> str:
        return html_lines(str(self))


class ShownDict(dict[str, Any]):
    """A dictionary that prints as lines, in a notebook too."""

    def __str__(self) -> str:
        return text_report(self)

    def _repr_html_(self) -> str:
        return html_lines(str(self))


def _facts_of(value: Any) -> dict[str, object]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _rows_of(value: object) -> list[dict[str, object]]:
    """Return a list of mappings or dataclasses as rows, and [] for other values."""
    if not isinstance(value, list | tuple):
        return []
    if all(isinstance(row, Mapping) for row in value):
        return [{str(key): cell for key, cell in row.items()} for row in value]
    return [_facts_of(row) for row in value] if all(map(is_dataclass, value)) else []


def _words(value: object) -> str:
    """Return a value in words, in one line."""
    if isinstance(value, Mapping):
        return listed(f"{key}: {_words(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return listed(map(_words, value))
    if value is None or isinstance(value, bool | str):
        return "" if value is None else str(value)
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else shown(value)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and _is_number(value):
        return f"{value:,}"
    if isinstance(value, date):  # a datetime is a date
        value = (
            value.isoformat(" ", "seconds") if isinstance(value, datetime) else value.isoformat()
        )
    return shown(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_html(value: object) -> str:
    return escape("" if value is None else shown(value))


def harmless(text: str, limit: int | None = MESSAGE) -> str:
    """Return a message with control characters escaped, except line breaks.

    Long quoted values, as ``{value!r}`` writes them, are cut in the middle.
    """
    if limit is not None:
        text = _cut(_LONG_VALUE.sub(lambda found: _cut(found[0], 200), text), limit)
    return _IN_LINES.sub(_escaped, text)


def harmless_json(text: str) -> str:
    """Return JSON of the same value with control characters escaped."""
    if text.isascii() and "\x7f" not in text:
        return text  # JSON escapes the other controls itself
    return _IN_LINES.sub(_escaped_in_json, text)


# Credentials in URIs, signed query parameters, and tokens.
_SECRETS = (
    (re.compile(r"(?<=://)[^/@\s]+@"), ""),
    (
        re.compile(
            r"(?i)((?:\b|_)(?:password|passwd|pwd|token|secret|api_?key|access_?key|signature|sig"
            r"|credential)s?\s*[=:]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s&;,'\")]+)"
        ),
        r"\1…",
    ),
    (re.compile(r"\b(hf_|gh[pousr]_|sk-)[A-Za-z0-9_-]{16,}"), r"\1…"),
)


def without_secrets(text: str) -> str:
    """Return a text without recognisable passwords and tokens."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def _escaped_in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _cut(text: str, limit: int) -> str:
    """Shorten a text in the middle, with a note of its length."""
    if len(text) <= limit:
        return text
    note = f"… ({len(text):,} characters) …"
    size = max(limit - len(note), 20)
    return f"{text[: size - size // 4]}{note}{text[-(size // 4) :]}"
