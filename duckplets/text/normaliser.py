r"""Normalise texts: composed characters, plain white space, ASCII quotes and dashes.

text ─controls, quotes→ NFC ─white space→ lines ─spaces around punctuation→ text

The decision that matters: spaces change only around separate punctuation. A space is removed before
a mark that white space follows. A space is added after a comma between letters. Addresses are not
changed: ``3.14``, ``https://a.b/c,d`` and ``e.g.`` stay. Passes repeat until nothing changes, so
normalising is idempotent.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa

from duckplets.base.settings import check
from duckplets.errors import ChunkingError

# C0 and C1 except white space, and invisible characters; joiners of emoji, Indic and Persian stay.
_CONTROLS = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb"
)
_QUOTES = {
    **dict.fromkeys("‘’‚‛", "'"),
    **dict.fromkeys("“”„‟", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
}
_CONTROL = re.compile(f"[{_CONTROLS}]+")
_QUOTE = re.compile(f"[{''.join(_QUOTES)}]")
# white space other than one space between two words
_SPACES = re.compile(r"(?: (?=\s)|[^\S ])\s*")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_LETTER = r"[^\W\d_]"
# Patterns that begin with a character are five times faster than lookbehind.
_SPACING = re.compile(
    r" (?<!\s )(?= *[,;:.!?)\]])(?:"
    r"(?<=[^\s,;:.!?(\[{] ) *[,;.!?](?=\s|\Z)"  # a separate mark
    rf"|(?<={_LETTER} ) *(?::(?=\s|\Z)|[,;](?={_LETTER}))"
    r"|(?<=[^\s(\[:;=-] ) *(?=[)\]]))"  # a space inside brackets, except :(
    r"|[(\[](?<![^\s\w].) +(?=[^\s)\]])"
    rf"|[,;](?<={_LETTER}.)(?={_LETTER})"  # a comma without a space after it
)
_ADDRESS = re.compile(r"www(?= *\.)|[@/\\]")
_SPACE, _SOLID = re.compile(r"\s"), re.compile(r"\S*")
_MOST_MARKS = 30  # marks of one character in Unicode's stream-safe format


@dataclass(frozen=True, kw_only=True, slots=True)
class Normaliser:
    r"""Converts texts to one form; the corpus also stores the original, as for all preprocessors.

    In this order:

    1. Control characters except white space are removed. So are soft hyphens, marks of direction,
       zero-width spaces and byte-order marks. Zero-width joiners stay.
    2. Characters are composed (Unicode's NFC).
    3. Curly quotes and all dashes become ``'``, ``"`` and ``-``.
    4. Runs of white space in a line become one space, and white space at its ends is removed. Line
       ends become ``\n``, several blank lines become one, and blank lines at the ends of the text
       are removed.
    5. Spaces before ``, ; . ! ?``, within brackets, and before ``:`` after a letter are removed. A
       comma or semicolon between letters gets a space. Tokens with ``://``, ``www.``, ``@``, ``/``
       or a backslash, and their neighbours, are not changed.

    For code, ``code=True`` replaces these steps: line ends become ``\n``, and NULs and blank lines
    at the end are removed.

    A text of white space becomes None. The same text gives the same result, and normalised text is
    unchanged. NFC of characters newer than Unicode 14 depends on the running Python.

    Attributes:
        code: Whether texts are code.
    """

    code: bool = False

    def __post_init__(self) -> None:
        check(self, ChunkingError)

    def __call__(self, text: str) -> str | None:
        """Return a text in normal form, or None if nothing remains."""
        if not isinstance(text, str):
            raise ChunkingError(f"a text to normalise is {type(text).__name__}: expected str")
        text = _code(text) if self.code else _prose(text)
        return text if text and not text.isspace() else None

    def apply(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return texts in normal form.

        Args:
            texts: Strings, shape (n,).

        Returns:
            Strings, shape (n,), null if nothing remains or the text was null.
        """
        results = [None if text is None else self(text) for text in texts.to_pylist()]
        return pa.array(results, texts.type)


def _prose(text: str) -> str:
    text = _CONTROL.sub("", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ordered(text))
        text = _QUOTE.sub(lambda found: _QUOTES[found[0]], text)
    text = _SPACES.sub(_one_gap, text).strip()
    while (spaced := _SPACING.sub(partial(_moved, _addresses(text)), text)) != text:
        text = spaced
    return text


def _code(text: str) -> str:
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    end = text.find("\n", len(text.rstrip()))
    return text if end < 0 else text[:end]


def _one_gap(found: re.Match[str]) -> str:
    """Return the replacement of white space: a space, a line end or a blank line."""
    breaks = len(_LINE_BREAK.findall(found[0]))
    return " " if breaks == 0 else "\n" if breaks == 1 else "\n\n"


def _addresses(text: str) -> tuple[list[int], list[int]]:
    """Return the spans of tokens that look like addresses."""
    starts, ends = [], [0]
    backwards = ""
    for mark in _ADDRESS.finditer(text):
        if mark.start() >= ends[-1]:
            backwards = backwards or text[::-1]
            before = _SOLID.match(backwards, len(text) - mark.start())
            after = _SPACE.search(text, mark.end())
            starts.append(mark.start() - len(before[0] if before else ""))
            ends.append(after.start() if after else len(text))
    return starts, ends[1:]


def _moved(addresses: tuple[list[int], list[int]], found: re.Match[str]) -> str:
    """Return punctuation with the right spaces around it."""
    text, end = found.string, found.end()
    starts, ends = addresses
    for neighbour in (found.start() - 1, end) if starts else ():
        nearest = bisect_right(starts, neighbour) - 1
        if nearest >= 0 and neighbour < ends[nearest]:
            return found[0]
    mark = found[0].strip(" ")
    is_open = mark in (",", ";") and end < len(text) and not text[end].isspace()
    return f"{mark} " if is_open else mark


def _ordered(text: str) -> str:
    """Return long runs of marks in canonical order: Python's own ordering is quadratic."""
    if _marks(1).search(text[::_MOST_MARKS]):  # a run of this length has one of these characters
        return _marks(_MOST_MARKS).sub(_in_order, text)
    return text


@cache
def _marks(least: int) -> re.Pattern[str]:
    """Return the pattern of runs of at least ``least`` combining marks."""
    marks = "".join(filter(unicodedata.combining, map(chr, range(0x300, 0x20000))))
    return re.compile(f"[{marks}\u0f73\u0f75\u0f81]{{{least},}}")


def _in_order(found: re.Match[str]) -> str:
    decomposed = "".join(unicodedata.normalize("NFD", mark) for mark in found[0])
    return "".join(sorted(decomposed, key=unicodedata.combining))
