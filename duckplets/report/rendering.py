"""Render the templates of this folder with every value escaped."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.sanitize import harmless
from duckplets.errors import ExtensionError

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent
_CUT = 2_000  # characters of a text in the page
_HEAD, _LINES = 160, 4  # characters and lines shown before a click
_IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def rendered(template: str, **values: Any) -> str:
    """Render a template, if Jinja is installed."""
    return _environment().get_template(template).render(values)


def read(name: str) -> str:
    """Return a file of this folder."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def script_json(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_IN_SCRIPT)


def words(value: Any) -> str:
    """Return a value for people: escaped, cut, with grouped digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    if isinstance(value, list):
        return harmless(", ".join(map(words, value)), _CUT)
    return harmless(str(value), _CUT)


def parted(text: str) -> tuple[str, str]:
    """Split a text into its first lines and the rest."""
    head = "\n".join(text.split("\n")[:_LINES])[:_HEAD]
    if len(text) - len(head) <= _HEAD // 4 and text.count("\n") <= _LINES:
        return text, ""
    if len(head) == _HEAD and " " in head[_HEAD // 2 :]:
        head = head[: head.rindex(" ")]
    return head, text[len(head) :]


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise ExtensionError(
            "a report needs the package jinja2: pip install 'duckplets[report]'"
        ) from error
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"words": words, "whole": partial(harmless, limit=None), "parted": parted}
    return made
