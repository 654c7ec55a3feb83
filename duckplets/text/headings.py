"""Tell text from what is none, and find the heading that a text begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LINES = 200  # lines in which a heading is looked for
_LONGEST = 300  # characters of a heading
_MARKDOWN = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_LINE = re.compile(r"([=\-`:.'\"~^_*+#])\1+\s*")
_BEFORE = re.compile(r"\s*(?:<[^>]*>|\[?!\[|\[//\]:)")  # of Markdown: HTML, badges, comments
_FIELD = re.compile(r":[\w -]+:(?:\s|$)|\([^)]+\)=\s*$|% ")  # of reStructuredText and MyST


def is_binary(start: bytes) -> bool:
    """Return whether a file that begins so is no text at all.

    What is text in another encoding than UTF-8 has hardly a control character; random bytes have
    one in ten.
    """
    controls = len(_CONTROL.findall(start))
    try:
        start[: len(start) - 3 if len(start) > 4 else None].decode()
        return len(start) >= 512 and 10 * controls > len(start)
    except UnicodeDecodeError as error:
        if error.start >= len(start) - 6:  # cut within a character
            return len(start) >= 512 and 10 * controls > len(start)
        return b"\0" in start or 100 * controls > len(start)


def heading_of(text: str) -> str | None:
    r"""Return the heading that a text begins with, of Markdown or reStructuredText, if it has one.

    That is ``# Heading``, or a line that is underlined with at least its length of one sign,
    perhaps overlined too. Front matter, comments, directives, labels, badges and HTML may come
    before it.
    """
    start = text[: _LINES * 400].replace("\r\n", "\n").replace("\r", "\n")
    lines = start.split("\n", _LINES)[:_LINES]
    for place in _outside(lines):
        line = lines[place]
        found = _MARKDOWN.fullmatch(line)
        if found:
            return _clean(found[1])
        after = lines[place + 1 : place + 3]
        if _LINE.fullmatch(line) and len(after) == 2 and after[1].rstrip() == line.rstrip():
            return _clean(after[0]) if len(after[0].rstrip()) <= len(line.rstrip()) else None
        is_under = bool(after) and _LINE.fullmatch(after[0]) and not line[:1].isspace()
        if is_under and len(after[0].rstrip()) >= max(len(line.rstrip()), 3):
            return _clean(line)
        return None
    return None


def _outside(lines: Sequence[str]) -> Iterator[int]:
    """Yield the place of the first line that may be a heading, after what may stand before it."""
    place = 0
    if lines and lines[0].strip() in ("---", "+++") and lines[0] in lines[1:]:
        place = lines.index(lines[0], 1) + 1  # front matter
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
        elif line.startswith(".. ") or line.rstrip() == "..":  # and what is indented below
            place += 1
            while place < len(lines) and (not lines[place].strip() or lines[place][0].isspace()):
                place += 1
        elif line.lstrip().startswith("<!--"):
            while place < len(lines) and "-->" not in lines[place]:
                place += 1
            place += 1
        elif _BEFORE.match(line) or _FIELD.match(line):
            place += 1
        else:
            yield place
            return


def _clean(heading: str) -> str | None:
    words = " ".join(heading.split())
    return words if words and len(words) <= _LONGEST and any(map(str.isalnum, words)) else None
