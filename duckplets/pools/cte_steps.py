"""Compose statements from named steps in ``sql/pools``.

A statement is a chain of steps and a last part. A step is ``name AS (…)`` at the start of a line,
with the comment above it. It replaces an earlier step of its name. Unused steps are dropped, and
each step follows the steps that it uses. Placeholders are filled in; other text stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from duckplets.db.queries import QUOTED, query, with_parameters

WIDTH = 100

Fills = Mapping[str, str | Sequence[str]]

# New names for the earlier step ``positives`` in files with these steps.
_EARLIER = {"paired": "stated", "consistent": "offered"}
_HEADER = re.compile(r"(?:--.*\n)+")
_STEP = re.compile(
    r"((?:^--.*\n)*)^(?:WITH )?((\w+) AS \((?:.*\)|\n(?:.*\n)*?\))),?$", re.MULTILINE
)
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_NAME = re.compile(r"(, )?\b([a-z]\w*)\b")
_PARAMETER = re.compile(r"\$(\w+)")
_PIECE = re.compile(rf"""(?:{QUOTED}|[^\s'"])+""")


class Step(NamedTuple):
    """Hold a step of a statement: its comment, its text, and the steps it uses."""

    comment: str
    text: str
    needs: tuple[str, ...]


@cache
def steps_of(statement: str) -> tuple[dict[str, Step], str]:
    """Return the steps of a file by name, and its last part."""
    text = _HEADER.sub("", query(statement), count=1)
    steps, end = {}, 0
    for found in _STEP.finditer(text):
        steps[found[3]] = Step(found[1], found[2], tuple(_TABLE.findall(found[2])))
        end = found.end()
    return steps, text[end:].strip("\n")


def assembled(
    statements: Iterable[str],  # the last step of a name replaces earlier ones
    last: str,  # the statement with the last part
    fills: Fills,  # values of placeholders: text, or a list that extends the one around it
    texts: Mapping[str, str] | None = None,  # replacements of texts, before fills
) -> tuple[str, frozenset[str]]:
    """Compose one statement from the steps of several; return it with its parameter names."""
    known: dict[str, Step] = {}
    for statement in statements:
        steps = steps_of(statement)[0]
        for step, name in _EARLIER.items():
            if step in steps and name not in known:
                comment, text, needs = known["positives"]
                known[name] = Step(comment, text.replace("positives", name, 1), needs)
        known |= steps
    end = steps_of(last)[1]
    used: dict[str, Step] = {}
    _add(_TABLE.findall(end), known, used)
    steps = {}
    _add([name for name in known if name in used], known, steps)
    parts = [step.comment + step.text for step in steps.values()]
    if parts:
        first = next(iter(steps.values()))
        parts[0] = first.comment + " ".join(("WITH", first.text))
    text = "\n".join([",\n".join(parts), end]).strip("\n")
    for old, new in (texts or {}).items():
        text = text.replace(old, new)
    return _filled(text.splitlines(), fills), frozenset(_PARAMETER.findall(text))


def _add(names: Iterable[str], known: Mapping[str, Step], chain: dict[str, Step]) -> None:
    """Add steps to a chain, each after the steps it uses."""
    for name in names:
        if name in known and name not in chain:
            _add((other for other in known[name].needs if other != name), known, chain)
            chain[name] = known[name]


def _filled(lines: Iterable[str], fills: Fills) -> str:
    """Fill in placeholders, and wrap lines that became too long."""

    def filled(found: re.Match[str]) -> str:
        comma, name = found.groups(default="")
        if (fill := fills.get(name)) is None:
            return found[0]
        return comma + fill if isinstance(fill, str) else "".join(f", {item}" for item in fill)

    done: list[str] = []
    for line in lines:
        # in one pass: values are not searched for placeholders
        new = line if line.startswith("--") else _NAME.sub(filled, line)
        done += _wrapped(new) if len(new) > WIDTH else [new]
    return "\n".join(done)


def of_sources(statement: str, text: str, columns: Mapping[str, str]) -> str:
    """Return a file with a statement as ``found_list``; columns replace its parameters."""
    inner, _, last = text.rpartition("\n")
    clause, _, order = last.partition(" BY ")
    if clause != "ORDER":  # a statement without an order
        inner, order = text, "number"
    whole = steps_of(statement)[1].replace("found_order", order)
    return whole.replace("found_list", f"(\n{with_parameters(inner, columns)}\n)")


def _wrapped(line: str) -> list[str]:
    """Break a line before clauses, then before phrases, then at spaces, never inside quotes."""
    indent = line[: len(line) - len(line.lstrip())]
    clauses: list[list[list[str]]] = []  # each a list of phrases, which are lists of pieces
    before = ""
    for piece in _PIECE.findall(line):
        begins = piece in ("FROM", "LEFT", "GROUP", "ORDER") and before != "DISTINCT"
        if begins or not clauses:
            clauses.append([[]])
        elif piece in ("AND", "OR", "WHERE") or before.endswith(","):
            clauses[-1].append([])
        clauses[-1][-1].append(piece)
        before = piece
    lines = []
    for clause in clauses:
        new = indent
        for phrase in clause:
            # phrases too long for a line are broken at spaces
            pieces = [" ".join(phrase)] if len(" ".join(phrase)) < WIDTH - len(indent) else phrase
            for piece in pieces:
                if len(new) + 1 + len(piece) > WIDTH and new.strip():
                    lines.append(new)
                    new = indent + "    "
                new += f" {piece}" if new.strip() else piece
        lines.append(new)
    return lines
