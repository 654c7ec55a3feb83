"""Find headings in Markdown and plain text, and their words.

text ─front_matter→ title, text ─opening→ the heading that it begins with
                                ─headings→ all of them, each with its level

Markdown is parsed by markdown-it-py, first blocks only and then the titles: 20 MB of READMEs take
6 s. Titles of other text are underlined, or ``# Heading``. ``opening`` parses three lines only,
because parsing a whole text takes longer than reading it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from itertools import islice, pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from duckplets.base.documents import Unreadable, parse

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

Markup = Literal["markdown"] | None

DEEPEST = 6
"""Levels of headings; deeper headings stay in the text."""

MOST_PARSED = 2 << 20
"""Most characters of a parsed text: for some texts a parser takes 500 times their memory."""

_SUFFIXES: dict[str, Markup] = {".md": "markdown", ".markdown": "markdown"}
_CODE = re.compile(
    r"\.(awk|bash|cfg|cmake|conf|exs?|fish|ini|jl|mk|nim|p[lm]|properties|ps1|py[ix]?|rb?|sh|tcl|tf|toml"
    r"|ya?ml|zsh)",
    re.IGNORECASE,
)
_LINES = 200  # lines searched for front matter and a first heading
_START = _LINES * 400  # characters
_LONGEST = 300  # longest heading, in characters

_END = re.compile(r"\r\n|\r|\n")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*")
_USUAL = frozenset("=-`:.'\"~^_*+#")  # of underlines
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BEFORE = re.compile(r"\s*(?:<[^>]*>|\[?!\[|\[//\]:)")  # Markdown: HTML, badges, comments
_FIELD = re.compile(r":[\w -]+:(?:\s|$)|\([^)]+\)=\s*$|% ")  # of other markup


class Heading(NamedTuple):
    """A heading of a text."""

    start: int  # offset of its beginning
    stop: int  # offset after it
    level: int  # from 1, the highest
    title: str  # its text without markup


class _TextLines:
    """The lines of a text with their offsets."""

    def __init__(self, text: str, most: int | None = None) -> None:
        """Take all lines, or about ``most``."""
        size = len(text) if most is None else min(len(text), _START)
        ends = [found.span() for found in islice(_END.finditer(text, 0, size), most)]
        self.starts = [0, *(stop for _, stop in ends)]
        stops = [*(start for start, _ in ends), size]
        self.lines = [text[a:b] for a, b in zip(self.starts, stops, strict=True)][:most]
        self._size = len(text)

    def heading(self, first: int, end: int, level: int, raw: str, markup: Markup) -> Heading | None:
        """Return the heading of some lines; None if they are no title."""
        title = _title(raw, markup)
        return None if title is None else Heading(self.at(first), self.at(end), level, title)

    def at(self, line: int) -> int:
        """Return the offset of a line; the text's end for the one after the last."""
        return self.starts[line] if line < len(self.starts) else self._size


def markup_of(path: PurePosixPath) -> Markup:
    """Return the markup that a file name indicates, as ``a.md`` or ``a.md.txt`` do."""
    inner = path.with_suffix("") if path.suffix.lower() == ".txt" else path
    return _SUFFIXES.get(inner.suffix.lower())


def is_code(path: PurePosixPath) -> bool:
    """Return whether a file is code in which ``# …`` is a comment, and no heading."""
    return _CODE.fullmatch(path.suffix) is not None


# -- front matter ---------------------------------------------------------------------------------


def front_matter(text: str) -> tuple[str | None, int]:
    """Return the title in a text's front matter, and the offset of the text after it."""
    if not text.startswith(("---", "+++")):
        return None, 0
    found = _TextLines(text, _LINES)
    mark, *rest = (line.rstrip() for line in found.lines)
    if mark not in ("---", "+++") or mark not in rest:
        return None, 0
    size = rest.index(mark)
    lines = rest[:size]
    if not any(_ENTRY.match(line) for line in lines):
        return None, 0  # text between two horizontal rules
    entry, form = _YAML_TITLE if mark == "---" else _TOML_TITLE, "YAML" if mark == "---" else "TOML"
    title = entry.search("\n".join(lines))
    return title and _value(title[0], form), found.at(size + 2)


def front_date(text: str) -> date | None:
    """Return the date in a text's front matter, or None."""
    found = _DATE.search(text[: front_matter(text)[1]])
    try:
        return found and date.fromisoformat(found[1])
    except ValueError:  # no such day
        return None


_DATE = re.compile(r"^date[ \t]*[:=][ \t]*[\"']?(\d{4}-\d\d-\d\d)(?![\d-])", re.MULTILINE)
_ENTRY = re.compile(r"[\"']?[\w.-]+[\"']?\s*[:=](?:\s|$)")
_YAML_TITLE = re.compile(r"^title:(?:[ \t].*)?(?:\n[ \t]+.*)*$", re.MULTILINE)
_TOML_TITLE = re.compile(r"^title[ \t]*=.*$", re.MULTILINE)
_SIMPLE = re.compile(  # valid YAML, and TOML if quoted
    r"title[ \t]*(?:=|:[ \t])[ \t]*(?:\"([^\"\\\n]+)\"|'([^'\n]+)')[ \t]*"
    r"|title:[ \t]+((?!(?:true|false|yes|no|on|off|null|y|n)\s*$)[A-Za-z][\w .()/-]*)",
    re.IGNORECASE,
)


def _value(entry: str, form: Any) -> str | None:
    simple = _SIMPLE.fullmatch(entry)  # the common case; parsing takes as long as reading the file
    if simple is not None:
        return _clean(next(filter(None, simple.groups()))) or ""
    try:
        found = parse(entry, form)
    except Unreadable:
        return ""
    value = found.get("title") if isinstance(found, dict) else None
    if value is None or value == "":
        return None
    return (_clean(str(value)) or "") if isinstance(value, str | int | float) else ""


# -- the first heading ----------------------------------------------------------------------------


def opening(text: str, markup: Markup = None) -> Heading | None:
    r"""Return the heading at the beginning of a text, or None."""
    found = _TextLines(text, _LINES)
    place = _first(found.lines)
    if place is None or (len(text) > _START and place + 1 >= len(found.lines)):
        return None  # the line continues beyond what was read
    start = found.at(place)
    made = headings(text[start : min(found.at(place + 3), start + _START)], markup)
    if not made or made[0].start:
        return None
    first = made[0]
    return first._replace(start=start + first.start, stop=start + first.stop)


def _first(lines: Sequence[str]) -> int | None:
    """Return the first line that may be a heading."""
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
        elif line.startswith(".. ") or line.rstrip() == "..":  # with the indented lines below
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
            return place
    return None


# -- all headings ---------------------------------------------------------------------------------


def headings(text: str, markup: Markup) -> list[Heading]:
    """Return the headings of a text, in order."""
    lines = _TextLines(text)
    if markup is None:
        return [heading for heading in _of_lines(lines) if heading is not None]
    found, tokens = list[Heading](), _parser(of_blocks=True).parse(text)
    for token, inner in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            first, end = token.map
            if made := lines.heading(first, end, int(token.tag[1:]), inner.content, markup):
                found.append(made)
    return found


def sections(
    text: str, markup: Markup, title: str | None, name: str
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the parts of a text between headings, each with the titles leading to it."""
    found, first = headings(text, markup), opening(text, markup)
    begins = bool(found) and first is not None and found[0].start == first.start
    if begins and title is not None and found[0].title.casefold() == title.casefold():
        title = None
    root = () if begins and title is None else (title or name,)
    before = text[: found[0].start] if found else text
    if not begins and before.strip():
        yield root, before
    above: list[Heading] = []
    ends = [*(each.start for each in found), len(text)][1:]
    for i, (heading, end) in enumerate(zip(found, ends, strict=True)):
        while above and above[-1].level >= heading.level:
            above.pop()
        above.append(heading)
        body = text[heading.stop : end]
        yield (*root, *(each.title for each in above)), before + body if begins and not i else body


@cache
def _parser(*, of_blocks: bool) -> MarkdownIt:
    """Return a Markdown parser of whole texts, or of the blocks that may contain headings."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    if of_blocks:
        parser.core.ruler.enableOnly(["normalize", "block"])
        parser.disable("reference")
    return parser


class _Under(NamedTuple):
    """An underlined title: its lines and its style."""

    first: int
    end: int
    style: str
    raw: str


def _underlined(lines: Sequence[str]) -> Iterator[_Under]:
    """Yield the underlined titles of a text, in linear time."""
    place, is_after = 0, True  # whether the preceding line ends a paragraph
    while place < len(lines):
        line = lines[place].rstrip()
        if is_after and line and (made := _lined(lines, place, 1) or _lined(lines, place, 0)):
            yield made
            place = made.end
            continue
        is_after = not line or line.startswith((".. ", "__ ")) or line == ".."
        is_after = is_after or bool(_FIELD.match(line) or _RULE.fullmatch(line))
        place += 1


def _lined(lines: Sequence[str], place: int, over: int) -> _Under | None:
    """Return the title at a place with a line below it and, if ``over`` is 1, the same above."""
    if place + over + 1 >= len(lines):
        return None
    raw, line = lines[place + over].rstrip(), lines[place + over + 1].rstrip()
    fits = lines[place].rstrip() == line if over else not raw[0].isspace()
    if not fits or not raw or _RULE.fullmatch(raw) or not _RULE.fullmatch(line):
        return None
    if len(line) < len(raw) or line[0] not in _USUAL:
        return None
    return _Under(place, place + over + 2, line[0] * (over + 1), raw)


def _of_lines(found: _TextLines) -> Iterator[Heading | None]:
    """Yield titles found by lines: underlined ones, and ``# Heading`` outside of fences."""
    lines, styles = list(found.lines), list[str]()
    atx = dict(_atx(lines))
    under = {each.first: each for each in _underlined(lines)}
    for i in sorted({*atx, *under}):
        if i in atx:
            yield found.heading(i, i + 1, *atx[i], None)
            continue
        title = under[i]
        if title.style not in styles:  # a new style is below all earlier ones
            styles.append(title.style)
        if (level := styles.index(title.style) + 1) <= DEEPEST:
            yield found.heading(i, title.end, level, title.raw, None)


def _atx(lines: list[str]) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield lines ``# Heading`` with their numbers, blanking these and fenced lines."""
    fence = ""
    for i, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            lines[i] = ""
            if mark and mark[1].startswith(fence) and not line.strip(" \t`~"):
                fence = ""
        elif mark and not (i and lines[i - 1].strip()):  # else an underline
            fence, lines[i] = mark[1], ""
        elif found := _marked(line):
            lines[i] = ""
            yield i, found


def _marked(line: str) -> tuple[int, str] | None:
    """Return level and text of a line ``## Heading ##``, in linear time."""
    found = _ATX.fullmatch(line)
    if found is None:
        return None
    words = found[2].rstrip(" \t")
    before = words.rstrip("#")
    if before != words and before.endswith((" ", "\t")):
        words = before.rstrip(" \t")
    return len(found[1]), words


# -- words ----------------------------------------------------------------------------------------


def _title(raw: str, markup: Markup) -> str | None:
    """Return the text of a heading; None if it is empty or too long."""
    if len(raw) > 4 * _LONGEST:
        return None
    if markup and _MARKS.search(raw):
        tokens = _parser(of_blocks=False).parseInline(_ATTRIBUTES.sub("", raw))
        raw = _UNRESOLVED.sub(r"\1", "".join(_texts(tokens)))
    return _clean(raw)


def _clean(heading: str) -> str | None:
    words = " ".join(heading.split())
    return words if words and len(words) <= _LONGEST and any(map(str.isalnum, words)) else None


_MARKS = re.compile(r"[`*_\[\]<>&|\\{:~]|--")
_ATTRIBUTES = re.compile(r"\s*\{:?\s*[#.][^{}]*\}\s*$")  # {#id .class}
_UNRESOLVED = re.compile(r"\[([^\[\]]+)\](?:\[[^\[\]]*\])?")  # reference links


def _texts(tokens: Sequence[Any]) -> Iterator[str]:
    for token in tokens:
        if token.children:
            yield from _texts(token.children)
        elif token.type in ("text", "code_inline"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield " "
