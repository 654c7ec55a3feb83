r"""Bring texts into one form: composed characters, plain white space, quotes and dashes of ASCII.

    text ─controls, quotes→ NFC ─white space→ lines ─spaces around punctuation→ text

The decision that matters: punctuation is only moved where it stands apart. A space is removed
before a mark that white space follows, and added after a comma between letters, never in what looks
like an address; ``3.14``, ``https://a.b/c,d`` and ``e.g.`` have neither. What changes is gone over
again until nothing does, so normalising twice is normalising once.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import pyarrow as pa

from duckplets.errors import ChunkingError

__all__ = ["NORMALISER", "Normaliser"]

NORMALISER = "normaliser"

WhiteSpace = Literal["lines", "all"]

# C0 and C1 but white space, and what is invisible; the joiners of emoji, Indic and Persian stay.
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
# White space other than one space between two words.
_SPACES = re.compile(r"(?: (?=\s)|[^\S ])\s*")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_LETTER = r"[^\W\d_]"
# What begins with a character is found faster than what begins by looking back, five times.
_SPACING = re.compile(
    r" (?= *[,;:.!?)\]])(?:"
    r"(?<=[^\s,;:.!?(\[{] ) *[,;.!?](?=\s|\Z)"  # a mark that stands apart
    rf"|(?<={_LETTER} ) *(?::(?=\s|\Z)|[,;](?={_LETTER}))"
    r"|(?<=[^\s(\[:;=-] ) *(?=[)\]]))"  # a space within brackets, which :( is none of
    r"|[(\[](?<![^\s\w].) +(?=[^\s)\]])"
    rf"|[,;](?<={_LETTER}.)(?={_LETTER})"  # a comma without a space after it
)
_ADDRESS = re.compile(r"://|www\.|[@/\\]")
_LONGEST = 2048  # characters of a token that is looked at: addresses are shorter


@dataclass(frozen=True, kw_only=True, slots=True)
class Normaliser:
    r"""Brings texts into one form; what came is kept, as with every preprocessor.

    In this order:

    1. ``controls``: control characters but white space go, and what is invisible: soft hyphens,
       marks of direction, zero-width spaces, byte-order marks. Zero-width joiners stay.
    2. ``nfc``: Unicode's composed form.
    3. ``quotes``: curly quotes and all dashes become ``'``, ``"`` and ``-``.
    4. ``white_space``: within a line runs of white space become one space, none stays at its ends;
       line ends become ``\n``, several blank lines one, and none stays at the ends of the text.
       With ``"all"`` line ends are white space like any other; None leaves it as it is.
    5. ``punctuation``: spaces before ``, ; . ! ?`` and within brackets go, before ``:`` after a
       letter; a comma or semicolon between letters gets one. Nothing is changed beside or within a
       token with ``://``, ``www.``, ``@``, ``/`` or a backslash.

    For code, ``code=True`` does none of that: line ends become ``\n``, NULs and blank lines at the
    end go, and nothing else is touched.

    Of a text of white space nothing is left. The same text gives the same result, and normalised
    text is left as it is; NFC follows the Unicode of the running Python, where characters are newer
    than it.

    Attributes:
        nfc: Whether characters are composed.
        white_space: ``"lines"``, ``"all"``, or None.
        controls: Whether control characters go.
        quotes: Whether quotes and dashes become ASCII.
        punctuation: Whether spaces around punctuation are put right.
        code: Whether texts are code.
    """

    nfc: bool = True
    white_space: WhiteSpace | None = "lines"
    controls: bool = True
    quotes: bool = True
    punctuation: bool = True
    code: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "white_space" and not isinstance(value, bool):
                raise ChunkingError(f"{each.name}={value!r}: expected True or False")
            if self.code and each.name != "code" and value != each.default:
                raise ChunkingError(f"{each.name}={value!r}: with code=True leave it out")
        if self.white_space not in (None, *get_args(WhiteSpace)):
            raise ChunkingError(
                f"white_space={self.white_space!r}: expected 'lines', 'all' or None"
            )

    def __call__(self, text: str) -> str | None:
        """Return a text in normal form, or None if nothing is left of it."""
        if not isinstance(text, str):
            raise ChunkingError(f"a text to normalise is {type(text).__name__}: expected str")
        text = _code(text) if self.code else self._prose(text)
        return text if text and not text.isspace() else None

    def apply(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return many texts in normal form.

        Args:
            texts: Strings, shape (n,).

        Returns:
            Strings, shape (n,), null where nothing is left or the text was null.
        """
        done = [None if text is None else self(text) for text in texts.to_pylist()]
        return pa.array(done, texts.type)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values, with the name."""
        if self.code:
            return {"name": NORMALISER, "code": True}
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"name": NORMALISER, **settings}

    def _prose(self, text: str) -> str:
        if self.controls:
            text = _CONTROL.sub("", text)
        if not text.isascii():
            if self.nfc:
                text = unicodedata.normalize("NFC", text)
            if self.quotes:
                text = _QUOTE.sub(lambda found: _QUOTES[found[0]], text)
        if self.white_space is not None:
            text = _SPACES.sub(_one_space if self.white_space == "all" else _one_gap, text).strip()
        while self.punctuation:
            spaced = _SPACING.sub(_moved, text)
            if spaced == text:
                break
            text = spaced
        return text


def _code(text: str) -> str:
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    end = text.find("\n", len(text.rstrip()))
    return text if end < 0 else text[:end]


def _one_space(_: re.Match[str]) -> str:
    return " "


def _one_gap(found: re.Match[str]) -> str:
    """Return what becomes of white space: a space, a line end, or a blank line."""
    breaks = len(_LINE_BREAK.findall(found[0]))
    return " " if breaks == 0 else "\n" if breaks == 1 else "\n\n"


def _moved(found: re.Match[str]) -> str:
    """Return punctuation with the spaces that belong around it."""
    text, start, end = found.string, found.start(), found.end()
    before, after = text[max(0, start - _LONGEST) : start], text[end : end + _LONGEST]
    beside = found[0].strip()
    if not before[-1:].isspace():
        beside = "".join(before.rsplit(maxsplit=1)[-1:]) + beside
    if not after[:1].isspace():
        beside += "".join(after.split(maxsplit=1)[:1])
    if _ADDRESS.search(beside):
        return found[0]
    mark = found[0].strip(" ")
    is_open = mark in (",", ";") and end < len(text) and not text[end].isspace()
    return f"{mark} " if is_open else mark
