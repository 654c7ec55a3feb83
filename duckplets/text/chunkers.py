"""Cut texts into spans by chunkers: sentences, headings, code, or a user's function.

name ─checked→ settings of the chunking ─REGISTRY→ function(text) ─spans_of→ ChunkSpans

A chunker returns spans only. Tokens, hashes and window numbers follow from spans block by block, as
without a chunker. Only the call of the function is per text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Integers
from duckplets.base.registry import Registry
from duckplets.base.sanitize import shown
from duckplets.base.settings import SlashedName, check, from_plain
from duckplets.errors import ChunkingError

WINDOWS = "windows"  # the command line's name for no chunker
Cutter = Callable[[str], Iterable[Sequence[Any]]]
Place = Callable[[int], str]

_END = re.compile(r"""(?<![.!?…])[.!?…]+["'”’»)\]]*\s+|[。！？]+[”’」』）]*\s*|\n\s*\n\s*""")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunker:
    """The name and version of a registered chunker, as a corpus stores them.

    Attributes:
        name: The registered name.
        version: Version of the function. Another version may cut texts differently.
    """

    name: SlashedName
    version: SlashedName = "1"

    def __post_init__(self) -> None:
        if self.name == WINDOWS:
            raise ChunkingError(f"chunker name {WINDOWS!r} is taken: it means chunker=None")
        check(self, ChunkingError, "chunker")


@dataclass(frozen=True, slots=True)
class ChunkSpans:
    """Spans of texts as columns, by text and place; the summary of a text is last."""

    text: Integers  # index into the texts
    start: Integers  # first character (Unicode code point), from 0
    solid: Integers  # first character that is not white space
    summary: Flags  # whether it is a summary rather than a window
    parts: list[str]  # text of each span


def register_chunker(name: str, function: Cutter, version: int | str = 1) -> Chunker:
    """Register a function that cuts text, for ``Chunking(chunker=name)``.

    Register it in every process that ingests into such a corpus or chunks it. Drawing samples
    needs no function. A function registered later under the same name and version replaces it.

    Args:
        name: Name that the corpus stores.
        function: Gets the text of every section that is not blank. It returns or yields spans
            ``(start, stop)`` or ``(start, stop, kind)``, in characters, without ``stop``. Windows
            (kind ``"window"``, the default) ascend, may overlap, and contain every character that
            is not white space. One ``"summary"`` may be any span. The same text must give the same
            spans.
        version: Change it whenever the results of the function change.

    Returns:
        A value for ``Chunking(chunker=...)``. The name works, too.

    Raises:
        ChunkingError: The name or the version is wrong, or ``function`` is no function.
    """
    chunker = Chunker(name=name, version=REGISTRY.version_of(version))
    REGISTRY.add(name, chunker.version, function)
    return chunker


def checked(value: Any) -> Chunker | None:
    """Return a chunker from its name or stored form."""
    if value is None or isinstance(value, Chunker):
        return value
    if isinstance(value, Mapping) and "name" in value:
        return from_plain(Chunker, value, ChunkingError, "chunker")
    if not isinstance(value, str):
        raise ChunkingError(
            f"chunker={value!r}: expected a name, such as 'sentences' or a name registered with "
            f"dp.plugins.register_chunker, or None for windows"
        )
    return Chunker(name=value, version=REGISTRY.newest(value))


# ---- the spans of a function


def spans_of(texts: pa.Array, chunker: Chunker, place: Place) -> ChunkSpans:
    """Call a chunker on texts and check its spans; ``place`` names a text in errors."""
    function = REGISTRY.find(chunker.name, chunker.version)
    rows: list[tuple[int, int, int, bool]] = []
    parts: list[str] = []
    for at, text in enumerate(texts.to_pylist()):
        if text and not text.isspace():
            try:
                for start, stop, is_summary in _spans(function, text):
                    part = text[start:stop]
                    rows.append((at, start, start + len(part) - len(part.lstrip()), is_summary))
                    parts.append(part)
            except ChunkingError as error:
                raise ChunkingError(f"chunker {chunker.name!r}, {place(at)}: {error}") from error
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return ChunkSpans(columns[0], columns[1], columns[2], columns[3] > 0, parts)


def _spans(function: Cutter, text: str) -> list[tuple[int, int, bool]]:
    """Return start, end and kind of the spans of a text: windows, then a summary."""
    windows: list[tuple[int, int, bool]] = []
    summaries: list[tuple[int, int, bool]] = []
    for span in _called(function, text):
        if fault := _fault(span, text):
            raise ChunkingError(f"{shown(repr(span), 80)} {fault}")
        is_summary = tuple(span[2:]) == ("summary",)
        rows = summaries if is_summary else windows
        row = (int(span[0]), int(span[1]), is_summary)
        if rows and is_summary:
            raise ChunkingError(f"{shown(repr(span), 80)} is a second summary: one is expected")
        if rows and row <= rows[-1]:
            raise ChunkingError(
                f"{shown(repr(span), 80)} comes after {rows[-1][:2]}: expected ascending spans, "
                f"each once"
            )
        rows.append(row)
    reached = 0
    for start, stop, _ in [*windows, (len(text), len(text), False)]:
        if gap := text[reached:start].lstrip():
            raise ChunkingError(
                f"left out character {start - len(gap)}, {gap[0]!r}: windows must contain all "
                f"characters except white space"
            )
        reached = max(reached, stop)
    return windows + summaries


def _called(function: Cutter, text: str) -> list[Any]:
    """Call a function or generator, and return its results."""
    try:
        spans: Any = function(text)
        if isinstance(spans, Iterable) and not isinstance(spans, str | bytes | Mapping):
            return list(spans)
    except Exception as error:
        raise ChunkingError(f"failed with {type(error).__name__}: {error}") from error
    raise ChunkingError(
        f"returned {shown(repr(spans), 80)}: expected a list of spans (start, stop)"
    )


def _fault(span: Any, text: str) -> str:
    """Return the fault of a span, or ""."""
    size = len(text)
    if not isinstance(span, tuple | list) or not 2 <= len(span) <= 4:
        return "is no span: expected (start, stop) or (start, stop, kind)"
    if len(span) == 4:
        return (
            "has a weight, which a corpus cannot store for a single span: omit it, and set "
            "summary_weight=, position_weight= and weight_floor="
        )
    start, stop = span[:2]
    for end in (start, stop):
        if not isinstance(end, int | np.integer) or isinstance(end, bool):
            return f"is no span: {shown(repr(end), 40)} is no number of a character"
    if not 0 <= start < stop <= size:
        return f"is no span of a text of {size} characters: expected 0 <= start < stop <= {size}"
    if len(span) == 3 and span[2] not in ("window", "summary"):
        return f"has the kind {shown(repr(span[2]), 40)}: expected 'window' or 'summary'"
    return "is white space alone: omit it" if text[start:stop].isspace() else ""


# ---- built-in chunkers


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Cut after each sentence, and at blank lines.

    A sentence ends with a full stop, question or exclamation mark and closing quotes, before white
    space. It does not end before a lower-case letter, or after a single capital as in "J. Bach".
    Other abbreviations are not recognised.
    """
    cuts = [0]
    for end in _END.finditer(text):
        at, stop = end.span()
        initial = end[0][0] == "." and _is_initial(text, at - 1)
        if end[0].count("\n") > 1 or not (initial or text[stop : stop + 1].islower()):
            cuts.append(stop)
    return _between(text, cuts)


def markdown(text: str) -> Iterator[tuple[int, int]]:
    """Cut before each heading that begins with ``#``, outside fenced code.

    A heading without text stays with the next heading.
    """
    cuts, bare = [0], True
    for at, line, fence in _lines(text):
        if not fence and _HEADING.match(line):
            if not bare:
                cuts.append(at)
            bare = True
        elif not line.isspace():
            bare = False
    return _between(text, cuts)


def code(text: str) -> Iterator[tuple[int, int]]:
    """Cut a document around its fenced blocks, and a source file into its functions.

    Without fences a span begins at each unindented line after a blank line, unless the line closes
    a bracket. In most languages this is a function, class or group of statements.
    """
    lines = list(_lines(text))
    before, blank, fenced = 0, False, any(fence for *_, fence in lines)
    cuts = [0]
    for at, line, fence in lines:
        if fenced:
            if fence != before:
                cuts.append(at)
            before = fence
        elif blank and line[0] not in ")]}" and not line[0].isspace():
            cuts.append(at)
        blank = line.isspace()
    return _between(text, cuts)


def _is_initial(text: str, at: int) -> bool:
    """Return whether a place has a single capital letter."""
    return text[max(at, 0) : at + 1].isupper() and not text[max(at - 1, 0) : max(at, 0)].isalnum()


def _lines(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield each line with its offset and the number of its fenced block, 0 for none."""
    at = number = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        rest = line[mark.end() :] if mark else ""
        if mark and not fence and not (mark[1][0] == "`" and "`" in rest):
            fence, number = mark[1], number + 1
            yield at, line, number
        else:
            yield at, line, number if fence else 0
            if fence and mark and mark[1].startswith(fence) and not rest.strip():
                fence = ""
        at += len(line)


def _between(text: str, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield spans between ascending offsets, stripped of white space."""
    for start, stop in pairwise([*cuts, len(text)]):
        part = text[start:stop]
        if inner := part.strip():
            first = start + len(part) - len(part.lstrip())
            yield first, first + len(inner)


REGISTRY: Registry[Cutter] = Registry(
    "chunker",
    ChunkingError,
    "a function of a text that returns spans",
    {function.__name__: function for function in (sentences, markdown, code)},
)
