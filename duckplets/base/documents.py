"""Read YAML, TOML and JSON documents that somebody else wrote, into plain values within limits.

    bytes ─size→ text ─nesting, aliases→ parser ─values→ dicts, lists, texts, numbers, dates

The decision that matters: nothing is followed before it was counted. A few hundred bytes of YAML
can stand for gigabytes, and a dotted key of TOML costs the square of its length.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from duckplets.base.checks import integer
from duckplets.errors import DuckpletsError

if TYPE_CHECKING:
    import yaml

__all__ = ["DocumentLimits", "Form", "parse", "read_document"]

Form = Literal["JSON", "TOML", "YAML"]

_DEEPEST = 100  # parsers call themselves for every level
_LONGEST_NUMBER = 100  # characters; a number of base 60 in YAML costs the square of them
SURROGATE = re.compile("[\ud800-\udfff]")

# What may nest: brackets, and in TOML the dots of a key, outside of texts and comments. Possessive,
# with an end that may be missing, so that a text is passed over once whatever is in it.
_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)
_TOML = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+"
    r"|[\[\]{}.=,\n]",
    re.DOTALL,
)
_PARTING = frozenset(".,[{=")  # every value but the first has one of these before it


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentLimits:
    """How large a document may be: YAML, TOML or JSON that is written by hand or by a tool.

    Attributes:
        max_bytes: Of the file.
        max_depth: Lists and tables within each other, and parts of a dotted key.
        max_values: Texts, numbers, lists and tables, each as often as aliases stand for it.
    """

    max_bytes: int = 4 << 20
    max_depth: int = 32
    max_values: int = 500_000

    def __post_init__(self) -> None:
        for name, most in (
            ("max_bytes", 1 << 40),
            ("max_depth", _DEEPEST),
            ("max_values", 1 << 40),
        ):
            object.__setattr__(self, name, integer(name, getattr(self, name), 1, most))


DEFAULT = DocumentLimits()


class Unreadable(ValueError):  # noqa: N818 - it becomes an error that names the file
    """A document is not what its form wants, or exceeds a limit; says what, without the file.

    Args:
        what: What is wrong, after "it".
        limit: Which of the limits it exceeds.
    """

    def __init__(self, what: str, limit: str = "") -> None:
        super().__init__(what)
        self.limit = limit


def read_document(
    file: Path, form: Form, error: type[DuckpletsError], limits: DocumentLimits | None = None
) -> Any:
    """Return what a file holds.

    Args:
        file: Its path.
        form: Of the document.
        error: What to raise where it cannot be read; its message begins with the file.
        limits: How large it may be; None for the defaults.
    """
    limits = limits or DEFAULT
    try:
        with file.open("rb") as stream:
            content = stream.read(limits.max_bytes + 1)
        return parse(decoded(content, limits), form, limits)
    except FileNotFoundError as missing:
        raise error(f"{file}: there is no such file") from missing
    except OSError as failed:
        raise error(f"{file}: it cannot be read: {failed.strerror}") from failed
    except Unreadable as unreadable:
        limit = unreadable.limit
        way = f"; to read it all the same give limits=DocumentLimits({limit}=…)" if limit else ""
        raise error(f"{file}: it {unreadable}{way}") from unreadable
    except ValueError as wrong:  # a path that no file can have
        raise error(f"{str(file)!r}: it cannot be read: {wrong}") from wrong


def decoded(content: bytes, limits: DocumentLimits = DEFAULT) -> str:
    """Return the text of a document, which may begin with a mark of its encoding.

    Raises:
        Unreadable: It is too long, or not UTF-8.
    """
    if len(content) > limits.max_bytes:
        raise Unreadable(
            f"is longer than {limits.max_bytes:,} bytes, and such a document never is", "max_bytes"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start}") from error


def parse(text: str, form: Form, limits: DocumentLimits = DEFAULT) -> Any:
    """Return what a document says, as plain values.

    Raises:
        Unreadable: It is not of that form, or exceeds a limit.
    """
    try:
        if form == "YAML":
            return _checked(_yaml(text, limits), limits)
        check_nesting(text, form, limits)
        return _checked(json.loads(text) if form == "JSON" else tomllib.loads(text), limits)
    except Unreadable:
        raise
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ValueError as error:  # the parsers' own errors, and numbers too long for Python
        raise Unreadable(f"is not {form}: {error}") from error


# -- limits ---------------------------------------------------------------------------------------


def check_nesting(text: str, form: Form, limits: DocumentLimits) -> None:
    """Refuse brackets within each other, and dotted keys, beyond the limits.

    Raises:
        Unreadable: It is nested too deeply, or holds too much.
    """
    depth = dots = values = 0
    for found in (_JSON if form == "JSON" else _TOML).finditer(text):
        mark = found[0]
        values += mark in _PARTING
        if mark == ".":
            dots += 1
        elif mark in "[]{}=,\n":
            depth += (mark in "[{") - (mark in "]}")
            dots = 0
        if depth > limits.max_depth or dots >= limits.max_depth:
            raise _too_deep(text.count("\n", 0, found.start()) + 1, limits)
        if values > limits.max_values:
            raise _too_many(limits)


def _too_deep(line: int, limits: DocumentLimits) -> Unreadable:
    what = f"is nested too deeply: line {line} is more than {limits.max_depth} levels down"
    return Unreadable(what, "max_depth")


def _too_many(limits: DocumentLimits, line: int | None = None) -> Unreadable:
    where = "" if line is None else f", reached at line {line} with what its aliases stand for"
    return Unreadable(f"holds more than {limits.max_values:,} values{where}", "max_values")


def _checked(value: Any, limits: DocumentLimits) -> Any:
    """Return a value that was parsed, if all in it can be shown, compared and stored."""
    left, count = [(value, 1)], 0
    while left:
        inner, depth = left.pop()
        count += 1
        if count > limits.max_values:
            raise _too_many(limits)
        if isinstance(inner, str):
            if SURROGATE.search(inner):
                raise Unreadable(f"holds half of a pair of characters: {inner[:80]!r}")
        elif isinstance(inner, Mapping | list | tuple | set):
            if depth > limits.max_depth:
                what = f"is nested too deeply: more than {limits.max_depth} levels"
                raise Unreadable(what, "max_depth")
            parts = [*inner, *inner.values()] if isinstance(inner, Mapping) else list(inner)
            left += [(part, depth + 1) for part in parts]
        elif isinstance(inner, int) and inner.bit_length() > 4 * _LONGEST_NUMBER:
            raise Unreadable(f"holds a number of more than {_LONGEST_NUMBER} digits")
    return value


# -- YAML -----------------------------------------------------------------------------------------


def _yaml(text: str, limits: DocumentLimits) -> Any:
    import yaml

    try:
        return yaml.load(text, _loader(limits))  # noqa: S506 - a safe loader it is
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise Unreadable(f"is not YAML: {line}{error.problem}") from error
    except yaml.YAMLError as error:
        raise Unreadable(f"is not YAML: {' '.join(str(error).split())}") from error


def _loader(limits: DocumentLimits) -> type[yaml.SafeLoader]:
    """Return a loader that counts while it composes, before it makes a value of anything."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses too much, and a key that takes the place of another."""

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self._values = self._depth = self._height = 0
            self._anchored: dict[str, tuple[int, int]] = {}  # values and levels of what has a name

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                values, levels = self._known(str(event.anchor), line)
                self._count(values, levels, line, limits)
                return super().compose_node(parent, index)
            before, above, self._height = self._values, self._height, self._depth + 1
            self._depth += 1
            self._count(1, 0, line, limits)
            node = super().compose_node(parent, index)
            self._depth -= 1
            if event.anchor is not None:
                levels = self._height - self._depth
                self._anchored[event.anchor] = (self._values - before, levels)
            self._height = max(above, self._height)
            return node

        def _known(self, anchor: str, line: int) -> tuple[int, int]:
            if anchor in self._anchored or anchor not in self.anchors:
                return self._anchored.get(anchor, (1, 1))  # one that is not there is refused later
            raise Unreadable(f"is not YAML: line {line}: *{anchor} stands within &{anchor}")

        def _count(self, values: int, levels: int, line: int, limits: DocumentLimits) -> None:
            self._values += values
            self._height = max(self._height, self._depth + levels)
            if self._height > limits.max_depth + 1:  # texts are on a level of their own
                raise _too_deep(line, limits)
            if self._values > limits.max_values:
                raise _too_many(limits, line)

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise Unreadable(f"is not YAML: line {line}: {key.value!r} comes twice")
                seen.add(key.value)
            return node

        def construct_scalar(self, node: Any) -> Any:
            value = super().construct_scalar(node)
            is_number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
            if is_number and len(value) > _LONGEST_NUMBER:
                raise ValueError(f"a number of {len(value):,} characters")
            return value

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (yaml.YAMLError, Unreadable, RecursionError):
                raise
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                # What a tag such as !!int or !!timestamp makes of a text that is none.
                line, tag = node.start_mark.line + 1, node.tag.rpartition(":")[2]
                why = f": {error}" if isinstance(error, ValueError) else ""
                raise Unreadable(f"is not YAML: line {line}: this is no {tag}{why}") from error

    return Loader
