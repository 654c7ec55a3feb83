"""Put statements together from named steps: files of ``sql/pools`` in, a readable statement out.

A file is a chain of steps, ``name AS (`` to ``)`` at the start of lines, each with the comment
above it, and a last part. Several files are chained: a step takes the place of one of its name,
what nothing looks at is left out, and each comes after those it looks at. Names in the text stand
for what is filled in. The files' own text is kept, so that a printed statement reads as they do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from duckplets.db.queries import query

WIDTH = 100

Fills = Mapping[str, str | Sequence[str]]

_STEP = re.compile(r"(?:WITH )?(\w+ AS (?:MATERIALIZED )?\()$")
_LOOKED_AT = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_OPTIONAL = re.compile(r" -- if (\w+)$")
_NAME = re.compile(r"(, )?\b([a-z]\w*)\b")
_PARAMETER = re.compile(r"\$(\w+)")
_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_TOKEN = re.compile(rf"{_QUOTED}|--.*|\$(\w+)")
_PIECE = re.compile(rf"""(?:{_QUOTED}|[^\s'"])+""")
_CHUNKS = "split_chunks($split, $version)"


@dataclass(frozen=True, slots=True)
class Step:
    """A named part of a statement.

    Attributes:
        name: What others call it.
        comment: The lines above it.
        lines: Its own, from ``name AS (`` to ``)``.
        needs: Names of what it looks at.
    """

    name: str
    comment: tuple[str, ...]
    lines: tuple[str, ...]
    needs: tuple[str, ...]


@cache
def steps_of(statement: str) -> tuple[tuple[Step, ...], Step]:
    """Return the steps of a file, and its last part."""
    lines = query(statement).splitlines()
    start = next(i for i, line in enumerate(lines) if not line.startswith("--"))
    steps = []
    comment: list[str] = []
    own: list[str] = []
    for line in lines[start:]:
        if own and _STEP.match(own[0]):
            own.append(line.rstrip(",") if line.startswith(")") else line)
            if line.startswith(")"):
                steps.append(_step(comment, own))
                comment, own = [], []
        elif not own and line.startswith("--"):
            comment.append(line)
        elif line or own:
            found = _STEP.match(line)
            own.append(found[1] if found else line)
    return tuple(steps), _step(comment, own)


def _step(comment: list[str], lines: list[str]) -> Step:
    needs = _LOOKED_AT.findall("\n".join(lines))
    return Step(lines[0].split()[0], tuple(comment), tuple(lines), tuple(needs))


def assembled(
    statements: Iterable[str],
    last: str,
    fills: Fills,
    flags: Collection[str] = (),
    chunks: str = "",
) -> tuple[str, frozenset[str]]:
    """Return one statement made of the steps of several files, and the names of its parameters.

    Args:
        statements: The files; of steps of one name the last is taken, at the place of the first.
        last: The file whose last part ends the statement.
        fills: What stands for names: text, or a list that goes on the one the name is in.
        flags: Of lines that end with ``-- if NAME`` those of other names are left out.
        chunks: What is looked at in the place of ``split_chunks($split, $version)``.
    """
    known: dict[str, Step] = {}
    for statement in statements:
        known |= {step.name: step for step in steps_of(statement)[0]}
    end = steps_of(last)[1]
    used: dict[str, Step] = {}
    _add_needed(end, known, used)
    ordered: dict[str, Step] = {}
    for name, step in known.items():
        if name in used:
            _add_needed(step, known, ordered)
            ordered[name] = step
    lines: list[str] = []
    for i, step in enumerate(ordered.values()):
        first, *others = step.lines
        lines += [*step.comment, first if i else " ".join(("WITH", first)), *others]
        if i < len(ordered) - 1:
            lines[-1] += ","
    lines = _chosen([*lines, *end.lines], flags, chunks)
    parameters = _PARAMETER.findall("\n".join(lines))
    return filled(lines, fills), frozenset(parameters)


def _chosen(lines: Iterable[str], flags: Collection[str], chunks: str) -> list[str]:
    """Leave out lines of other names than the flags."""
    chosen = []
    for line in lines:
        condition = _OPTIONAL.search(line)
        if condition is None or condition[1] in flags:
            kept = line if condition is None else line[: condition.start()]
            chosen.append(kept.replace(_CHUNKS, chunks) if chunks else kept)
    return chosen


def _add_needed(step: Step, known: Mapping[str, Step], chain: dict[str, Step]) -> None:
    """Add what a step looks at, directly or not, in an order in which each comes after its own."""
    for name in step.needs:
        if name in known and name not in chain and name != step.name:
            _add_needed(known[name], known, chain)
            chain[name] = known[name]


def filled(lines: Iterable[str], fills: Fills) -> str:
    """Return the text of lines with names filled in, lines that grew too long broken up."""

    def of(found: re.Match[str]) -> str:
        fill = fills.get(found[2])
        if fill is None:
            return found[0]
        return (
            (found[1] or "") + fill
            if isinstance(fill, str)
            else "".join(f", {item}" for item in fill)
        )

    done: list[str] = []
    for line in lines:
        # In one pass: what is filled in is never looked through for names.
        new = line if line.startswith("--") else _NAME.sub(of, line)
        done += wrapped(new) if len(new) > WIDTH else [new]
    return "\n".join(done)


def bound(text: str, values: Mapping[str, int | str]) -> str:
    """Return a statement with the values of its parameters written in."""
    return _with_parameters(text, {name: literal(value) for name, value in values.items()})


def of_sources(statement: str, text: str, columns: Mapping[str, str]) -> str:
    """Return a statement that yields what another one does, for many values of its parameters.

    Args:
        statement: The file of that statement, with ``found_list`` and ``found_order``.
        text: Of the other one.
        columns: Which column has the values of a parameter.
    """
    inner, _, last = text.rpartition("\n")
    clause, _, order = last.partition(" BY ")
    if clause != "ORDER":  # its rows may come in any order
        inner, order = text, "number"
    whole = "\n".join(steps_of(statement)[1].lines)
    whole = whole.replace("found_order", order)
    return whole.replace("found_list", f"(\n{_with_parameters(inner, columns)}\n)")


def _with_parameters(text: str, told: Mapping[str, str]) -> str:
    """Return a statement with some of its parameters replaced."""

    def of(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else told.get(found[1], found[0])

    return _TOKEN.sub(of, text)


def literal(value: int | str) -> str:
    """Return a number or a text as SQL."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def wrapped(line: str) -> list[str]:
    """Break a line before a clause, else before a phrase, else at spaces, never within quotes."""
    indent = line[: len(line) - len(line.lstrip())]
    lines: list[str] = []
    for clause in _clauses(line):
        room = indent
        for phrase in _phrases(clause):
            # A phrase that fits into no line is broken up at its spaces.
            pieces = [" ".join(phrase)] if len(" ".join(phrase)) < WIDTH - len(indent) else phrase
            for piece in pieces:
                if len(room) + 1 + len(piece) > WIDTH and room.strip():
                    lines.append(room)
                    room = indent + "    "
                room += f" {piece}" if room.strip() else piece
        lines.append(room)
    return lines


def _phrases(clause: Iterable[str]) -> list[list[str]]:
    """Take a clause apart before each condition and after each comma."""
    phrases: list[list[str]] = [[]]
    for piece in clause:
        if phrases[-1] and (piece in ("AND", "OR", "WHERE") or phrases[-1][-1].endswith(",")):
            phrases.append([])
        phrases[-1].append(piece)
    return phrases


def _clauses(line: str) -> list[list[str]]:
    """Take a line apart at spaces outside quotes, a list for each clause."""
    clauses: list[list[str]] = [[]]
    for piece in _PIECE.findall(line):
        begins = piece in ("FROM", "LEFT", "GROUP", "ORDER") and clauses[-1]
        if begins and clauses[-1][-1] != "DISTINCT":  # of IS DISTINCT FROM
            clauses.append([])
        clauses[-1].append(piece)
    return clauses
