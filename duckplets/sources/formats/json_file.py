"""Read JSON files: an array or objects (.json), or one object a line (.jsonl, stdin)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TextIO

from duckplets.base.sanitize import listed
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.sources import paths
from duckplets.sources.files import Files
from duckplets.sources.limits import Limits, limits_of
from duckplets.sources.row_batches import opened
from duckplets.sources.rows import Blocks, Look, RowBlock, Rows
from duckplets.sources.values import Fault, is_utf8

_ROWS, _CHARACTERS = 2_048, 4 << 20  # objects of a block
_CHUNK = 1 << 20
_SPACE = " \t\r\n"
_MOST_KEYS = 20  # named in a message


@dataclass(frozen=True, slots=True)
class JsonSource(Files):
    """JSON files; a file without the suffix ``.json`` has one object a line.

    Keys may differ from object to object, and are matched over all the files. A bad line is
    counted and skipped; a broken array is an error.
    """

    path: paths.Paths
    """File (also .gz and .zst), glob, or list of them; ``-`` reads lines from standard input."""
    rows: str | None = field(default=None, kw_only=True)
    """Path to the list of rows, such as ``data`` for ``{"data": [...]}``; lists on the way are
    read in turn. Default: the file is a list, or has objects one after the other."""
    encoding: str | None = field(default=None, kw_only=True)
    """Encoding of the text, as Python names it, such as ``"latin-1"``. Default: UTF-8."""

    kind: ClassVar[str] = "json"

    def __post_init__(self) -> None:
        Files.__post_init__(self)
        if self.rows is not None and not (isinstance(self.rows, str) and self.rows):
            raise SourceError(f"rows={self.rows!r}: give the path to the rows, such as 'data'")
        if self.in_pieces and self.is_stdin:
            raise SourceError("standard input cannot be read again, so leave out in_pieces=")

    @property
    def is_stdin(self) -> bool:
        """Return whether lines come from standard input."""
        return str(self.path) == "-"

    def default_name(self) -> str:
        """Return the file's stem."""
        return "stdin" if self.is_stdin else paths.default_name(self.path)

    def open(self, reader: Database, cursor: Any = None) -> Rows:
        """Look at the keys of the first objects, then read the files in turn."""
        if not self.is_stdin:
            return super(JsonSource, self).open(reader, cursor)
        if sys.stdin is None:
            raise SourceError("standard input is closed, so there is nothing to read")
        text = paths.as_text(sys.stdin.buffer, self.encoding, "\n")
        blocks = self._blocks(text, "standard input", "lines", limits_of(reader))
        return opened(reader, self, blocks, "standard input", marks=False)

    def _form(self, file: Path) -> str:
        """Return what a file contains: ``lines``, an ``array``, or objects over several lines."""
        if paths.inner_suffix(file) != ".json":
            return "lines"
        with paths.open_text(file, self.encoding, "\n") as text:
            start = text.read(_CHUNK).lstrip(_SPACE)
        if start.startswith("["):
            return "array"
        try:  # many .json files contain JSON lines
            first = json.loads(start.split("\n", 1)[0])
        except (ValueError, RecursionError):
            return "objects"
        return "lines" if isinstance(first, dict) else "objects"

    def blocks(self, file: Path, look: Look, used: list[str], reader: Database) -> Blocks:
        """Yield the objects of a file."""
        limits, form = limits_of(reader), self._form(file)
        with paths.open_text(file, self.encoding, "\n") as text:
            yield from self._blocks(text, str(file), form, limits)

    def _blocks(self, text: TextIO, where: str, form: str, limits: Limits) -> Iterator[RowBlock]:
        if self.rows is not None:
            yield from _Values(text, where, limits).blocks(tuple(self.rows.split(".")))
        elif form == "lines":
            for lines, numbers in line_blocks(text, where, limits):
                yield RowBlock([_object(line) for line in lines], where, numbers, raw=lines)
        else:
            yield from _Values(text, where, limits).blocks(() if form == "array" else None)


def line_blocks(text: TextIO, where: str, limits: Limits) -> Iterator[tuple[list[str], range]]:
    r"""Yield blocks of lines, ending with ``\n`` only, with their numbers."""
    most, read = limits.size("row"), text.readline
    lines: list[str] = []
    size, first = 0, 1
    while line := read(most + 1):
        if len(line) > most:
            raise limits.exceeded(f"{where}, line {first + len(lines)}", "it is longer", "row")
        lines.append(line)
        size += len(line)
        if len(lines) >= _ROWS or size >= _CHARACTERS:
            yield lines, range(first, first + len(lines))
            lines, size, first = [], 0, first + len(lines)
    if lines:
        yield lines, range(first, first + len(lines))


def _object(line: str) -> dict[str, Any] | Fault | None:
    """Return the object of a line; None for a blank one."""
    try:
        value = json.loads(line)
    except ValueError:
        if not line.strip(_SPACE):
            return None
        return Fault.of("invalid JSON" if is_utf8(line) else "invalid UTF-8", line)
    except RecursionError:
        return Fault.of("invalid JSON, nested too deep", line[:_CHUNK])
    if not line.isascii() and not is_utf8(line):
        return Fault.of("invalid UTF-8", line)
    may_be_lone = "\\ud" in line or "\\uD" in line  # a surrogate, which is no text
    if may_be_lone and not is_utf8(json.dumps(value, ensure_ascii=False)):
        return Fault.of("invalid JSON", line)
    return value if isinstance(value, dict) else Fault.of("not an object", line)


class _Values:
    """The JSON values of a text, read through a window."""

    def __init__(self, text: TextIO, where: str, limits: Limits) -> None:
        self._text, self._data, self._at = text, "", 0
        self._where, self._limits = where, limits
        self._most = limits.size("row")
        self._decode = json.JSONDecoder().raw_decode
        self._is_over = False
        self.count = 0
        self._keys: dict[str, None] = {}  # the first ones on the way to the rows
        self._is_met = False  # whether a list of rows was there

    def blocks(self, steps: Sequence[str] | None) -> Iterator[RowBlock]:
        """Yield the objects of the list that steps lead to; without steps, one after another."""
        rows: list[Any] = []
        size = 0
        for value, whole in self._rows_of(steps):
            rows.append(value if isinstance(value, dict) else Fault.of("not an object", whole))
            size += len(whole)
            if len(rows) >= _ROWS or size >= _CHARACTERS:
                yield RowBlock(rows)
                rows, size = [], 0
        if rows:
            yield RowBlock(rows)

    def _rows_of(self, steps: Sequence[str] | None) -> Iterator[tuple[Any, str]]:
        if steps is None:
            while self.sign():
                yield self.next()
        elif not steps:
            yield from (self.next() for _ in self._elements())
        else:
            while self.sign():
                yield from self._follow(steps)
            if not self._is_met:
                raise SourceError(
                    f"{self._where} has no list at rows={'.'.join(steps)!r}; its keys are: "
                    f"{listed(self._keys)}"
                )

    def _follow(self, steps: Sequence[str]) -> Iterator[tuple[Any, str]]:
        """Yield the elements of the lists that steps lead to; note keys on the way."""
        if self.sign() == "[":
            self._is_met = self._is_met or not steps
            for _ in self._elements():
                yield from self._follow(steps) if steps else (self.next(),)
            return
        if not steps or self.sign() != "{":
            self.next()
            return
        for _ in self._elements("{}"):
            key, _whole = self.next()
            self.pass_by(":")
            if len(self._keys) < _MOST_KEYS:
                self._keys[key] = None
            if key == steps[0]:
                yield from self._follow(steps[1:])
            else:
                self.next()

    def _elements(self, signs: str = "[]") -> Iterator[None]:
        """Move to each element of a list or object in turn."""
        self.pass_by(signs[0])
        is_first = True
        while (sign := self.sign()) != signs[1]:
            if not sign:
                raise self.broken("unexpected end of the file")
            if not is_first:
                self.pass_by(",")
            is_first = False
            yield
        self.pass_by(signs[1])

    def sign(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._data) and self._data[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._data) or self._is_over:
                return self._data[self._at : self._at + 1]
            self._read_on()

    def pass_by(self, sign: str) -> None:
        """Skip a character."""
        if self.sign() != sign:
            raise self.broken(f"no {sign}")
        self._at += 1

    def next(self) -> tuple[Any, str]:
        """Return the next value and its text."""
        self.sign()
        while True:
            try:
                value, end = self._decode(self._data, self._at)
                if end < len(self._data) or self._is_over:
                    break
            except RecursionError:
                raise self.broken("it is nested too deep") from None
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self._data) - 16
                if self._is_over or not is_cut:
                    is_cut = (is_cut and error.pos < len(self._data) - 1) or self.sign() == ""
                    reason = "unexpected end of the file" if is_cut else error.msg.lower()
                    raise self.broken(reason) from None
            if len(self._data) - self._at > self._most:
                raise self._longer()
            self._read_on()
        whole, self._at = self._data[self._at : end], end
        if len(whole) > self._most:
            raise self._longer()
        if not whole.isascii() and not is_utf8(whole):
            raise self.broken("invalid UTF-8")
        self.count += 1
        return value, whole

    def broken(self, reason: str) -> SourceError:
        """Return the error for malformed JSON."""
        return SourceError(f"{self._where} is broken JSON at value {self.count + 1}: {reason}")

    def _longer(self) -> SourceError:
        where = f"{self._where}, value {self.count + 1}"
        return self._limits.exceeded(where, "it is longer", "row")

    def _read_on(self) -> None:
        rest = self._data[self._at :]
        more = self._text.read(max(_CHUNK, len(rest)))
        self._data, self._at, self._is_over = rest + more, 0, not more
