"""Documents with something wrong in them: mutants of texts and of plain values, by a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

# What parsers and checks have stumbled over somewhere.
ODD_TEXTS = (
    *("", " ", "\0", "\n", "\r", "\t", "\\", '"', "'", "{", "}", "[", "]", ":", ",", "-", ".", "="),
    *("#", "&a", "*a", "<<: *a\n", "!!int ", "!!float ''", "!!bool x", "!!timestamp ", "!!binary "),
    *("!!set ", "!!omap ", "!x ", "? ", "| \n", "> \n", "%YAML 9.9\n", "---\n", "...\n", "~", "@"),
    *('"""', "'''", "[[", "]]", "1e999", "nan", "-inf", "0x", "0b1", "1_0", "1:1:1", "9" * 5000),
    *("2001-99-99", "24:00:00", "null", "true", "\\ud800", "\\u0000", "\ufeff", "\u2028", "\u202e"),
    *("é", "\U0001f600", "/", "..", "~/", "*", "?", "{" * 200, "[" * 2000, "a." * 500, "- " * 200),
    *("/*", "--", ";", "$x", "${", "`", "\x1b[2J", "x" * 3000),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e308, 10**30, -(2**63), 2**63, 2**31, "", " "),
    *("x", "\0", "\n", "\ud800", "a/b", "../..", "[]", "{}", "null", "1", "x" * 3000, [], {}, [[]]),
    *([None], [1, 2, 3], {"": 1}, {"a": {}}, [{}], {"x": None}, "*" * 30, "**/" * 30 + "*a*a*a*a"),
    *(float("nan"), float("inf"), {"kind": 1}, {"bm25": {}}, {"sql": "1"}, "role:x", "train"),
)


def text(draw: random.Random, seeds: Sequence[str]) -> bytes:
    """Return one of some texts with one to four changes; now and then bytes that are no text."""
    found = draw.choice(seeds)
    for _ in range(draw.choice((1, 1, 2, 4))):
        found = _changed(draw, found, draw.choice(seeds))
    content = found.encode("utf-8", "surrogatepass")
    if draw.random() < 0.05:
        at = draw.randrange(len(content) + 1)
        content = content[:at] + bytes([draw.randrange(128, 256)]) + content[at:]
    return content


def _changed(draw: random.Random, found: str, other: str) -> str:
    low = draw.randrange(len(found) + 1)
    high = min(len(found), low + draw.choice((0, 0, 1, 2, 5, 20)))
    how = draw.randrange(6)
    if how == 0:  # cut off
        return found[:low]
    if how == 1:  # left out
        return found[:low] + found[high:]
    if how == 2:  # twice
        return found[:high] + found[low:]
    if how == 3:  # a line to another place
        lines = found.splitlines(keepends=True) or [""]
        line = lines.pop(draw.randrange(len(lines)))
        lines.insert(draw.randrange(len(lines) + 1), line)
        return "".join(lines)
    if how == 4:  # a piece of another
        at = draw.randrange(len(other) + 1)
        return found[:low] + other[at : at + draw.randrange(40)] + found[high:]
    return found[:low] + draw.choice(ODD_TEXTS) + found[high:]


def value(draw: random.Random, given: Any) -> Any:
    """Return plain values of which one is another, is gone, is doubled or lies deeper."""
    places = list(_places(given, ()))
    place = draw.choice(places)
    how = draw.random()
    if not place or how < 0.05:
        return draw.choice(ODD_VALUES)
    made = json.loads(json.dumps(given))
    inside = made
    for step in place[:-1]:
        inside = inside[step]
    last = place[-1]
    if how < 0.15:
        del inside[last]
    elif how < 0.25 and isinstance(inside, dict):
        inside[draw.choice(("x", "", "name", "\ud800", "kind"))] = inside.pop(last)
    elif how < 0.3:
        inside[last] = [inside[last]]
    elif how < 0.4:
        other = given
        for step in draw.choice(places):
            other = other[step]
        inside[last] = other
    else:
        inside[last] = draw.choice(ODD_VALUES)
    return made


def _places(given: Any, above: tuple[Any, ...]) -> Any:
    """Yield the way to everything in plain values."""
    yield above
    steps = (
        given if isinstance(given, dict) else range(len(given) if isinstance(given, list) else 0)
    )
    for step in steps:
        yield from _places(given[step], (*above, step))


def json_text(draw: random.Random, given: Any) -> str:
    """Return JSON of plain values with something wrong in them, or in how they are written."""
    if draw.random() < 0.3:
        return text(draw, [json.dumps(given)]).decode("utf-8", "replace")
    if draw.random() < 0.03:
        return draw.choice(("[" * 50_000, '{"a":' * 50_000, "[" * 900 + "]" * 900, "9" * 5000))
    return json.dumps(value(draw, given))
