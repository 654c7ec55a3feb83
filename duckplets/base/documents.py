"""Parse YAML, TOML and JSON documents from outside, and JSON columns of our own files.

bytes ─size→ text ─parser→ dicts, lists, texts, numbers, dates ─checked→ caller

Documents are limited in size and depth; TOML keys are checked before parsing. YAML aliases are
refused, for a few hundred bytes of them can expand to gigabytes. Stored JSON is checked as a whole
before use: an unexpected shape means damage or tampering.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from duckplets.base.sanitize import shown
from duckplets.base.settings import SURROGATE, misfit
from duckplets.errors import DamagedFileError, DuckpletsError

if TYPE_CHECKING:
    import yaml

__all__ = ["Form", "StoredJson", "from_json", "parse", "read_document"]

Form = Literal["JSON", "TOML", "YAML"]

LARGEST = 16 << 20  # bytes of a document
_DEEPEST = 100  # nesting of lists and tables; walking them recurses
_LONGEST_NUMBER = 100  # digits; Python refuses to print thousands
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""  # part of a TOML key, or a string
_DOT = r"[ \t]*+\.[ \t]*+"
_TOML = re.compile(
    r"#[^\n]*+"
    r'|"{3}(?:[^"\\]|\\.|"(?!""))*+"{3}'
    r"|'{3}(?:[^']|'(?!''))*+'{3}"
    rf"|{_PART}(?:{_DOT}{_PART}){{0,{_DEEPEST - 1}}}+(?P<too_deep>{_DOT}{_PART})?+",
    re.DOTALL,
)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # surrogates, paired or alone


class Unreadable(ValueError):  # noqa: N818 - it becomes an error that names the file
    """A document is malformed or too large; "it" and the message form a sentence."""


def read_document(file: Path, form: Form, error: type[DuckpletsError]) -> Any:
    """Return the content of a file as plain values; messages of ``error`` begin with its path."""
    text = read_text(file, error)
    try:
        return parse(text, form)
    except Unreadable as unreadable:
        raise error(f"{file}: it {unreadable}") from unreadable


def read_text(file: Path, error: type[DuckpletsError]) -> str:
    """Return the text of a file; messages of ``error`` begin with its path."""
    try:
        with file.open("rb") as stream:
            return decoded(stream.read(LARGEST + 1))
    except FileNotFoundError as missing:
        raise error(f"{file}: there is no such file") from missing
    except OSError as failed:
        raise error(f"{file}: it cannot be read: {failed.strerror}") from failed
    except Unreadable as unreadable:
        raise error(f"{file}: it {unreadable}") from unreadable
    except ValueError as wrong:  # not a valid path
        raise error(f"{str(file)!r}: it cannot be read: {wrong}") from wrong


def decoded(content: bytes, most: int = LARGEST) -> str:
    """Return the text of a document, without a byte order mark."""
    if len(content) > most:
        raise Unreadable(f"is longer than {most:,} bytes, the limit of such a document")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start}") from error


def parse(text: str, form: Form) -> Any:
    """Return the content of a document as plain values."""
    parsers: dict[Form, Callable[[str], Any]]
    parsers = {"JSON": json.loads, "TOML": _toml, "YAML": _yaml}
    try:
        return _checked(parsers[form](text))
    except Unreadable:
        raise
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ValueError as error:  # parser errors, and numbers too long for Python
        raise Unreadable(f"is not {form}: {error}") from error


def _checked(value: Any) -> Any:
    """Return a parsed value after checking that it can be printed, compared and stored."""
    remaining = [(value, 1)]
    while remaining:
        inner, depth = remaining.pop()
        if isinstance(inner, str):
            if SURROGATE.search(inner):
                raise Unreadable(f"holds half of a pair of characters: {inner[:80]!r}")
        elif isinstance(inner, Mapping | list | tuple | set):
            if depth > _DEEPEST:
                raise Unreadable(f"is nested too deeply: more than {_DEEPEST} levels")
            parts = [*inner, *inner.values()] if isinstance(inner, Mapping) else inner
            remaining += [(part, depth + 1) for part in parts]
        elif isinstance(inner, int) and inner.bit_length() > 4 * _LONGEST_NUMBER:
            raise Unreadable(f"holds a number of more than {_LONGEST_NUMBER} digits")
    return value


def _toml(text: str) -> Any:
    """Parse TOML after a check of its keys: the parser takes quadratic time for dots of a key."""
    for found in _TOML.finditer(text):
        if found["too_deep"]:
            line = text.count("\n", 0, found.start()) + 1
            raise Unreadable(f"is nested too deeply: line {line}: a key of over {_DEEPEST} parts")
    return tomllib.loads(text)


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, _loader())  # noqa: S506 - it is a safe loader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise Unreadable(f"is not YAML: {line}{error.problem}") from error
    except yaml.YAMLError as error:
        raise Unreadable(f"is not YAML: {' '.join(str(error).split())}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise Unreadable(f"is not YAML: a value is not what its tag says ({error})") from error


@cache
def _loader() -> type[yaml.SafeLoader]:
    """Return a safe YAML loader that refuses aliases, repeated keys and very long numbers."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1  # type: ignore[union-attr]
                raise Unreadable(f"has an alias: line {line}: repeat the value of *{event.anchor}")
            return super().compose_node(parent, index)

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise Unreadable(f"is not YAML: line {line}: key {key.value!r} is repeated")
                seen.add(key.value)
            return node

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            # a number of base 60 takes quadratic time
            if node.tag.endswith((":int", ":float")) and len(node.value) > _LONGEST_NUMBER:
                raise Unreadable(f"holds a number of more than {_LONGEST_NUMBER} digits")
            return super().construct_object(node, deep)

    return Loader


# -- stored JSON ------------------------------------------------------------------------------


class StoredJson:
    """JSON in a row of a corpus or state file; ``way`` is the advice of messages about damage."""

    def __init__(
        self,
        file: Path | None,
        table: str,
        row: str,
        way: str = "Replace the file by an earlier copy, or create it again.",
    ) -> None:
        self._where = f"{file}: table {table}, {row}"
        self._way = way

    def read(self, column: str, text: Any, shape: Any) -> Any:
        """Return the parsed JSON of a column, or raise DamagedFileError for another shape."""
        try:
            if not isinstance(text, str):
                raise Unreadable(f"is no text, but {shown(repr(text), 80)}")
            value = from_json(text)
        except Unreadable as error:
            raise self.damage(column, str(error)) from error
        if wrong := misfit(value, shape):
            raise self.damage(column, f"has another shape: {wrong}")
        return value

    @contextmanager
    def making(self, column: str) -> Iterator[None]:
        """Add the file, table and row to errors about a stored value."""
        try:
            yield
        except DuckpletsError as error:
            raise self.damage(column, f"has a wrong value: {error}") from error

    def damage(self, column: str, problem: str) -> DamagedFileError:
        """Return the error for a damaged column."""
        return DamagedFileError(f"{self._where}: {column} is damaged: it {problem}. {self._way}")


def from_json(text: str) -> Any:
    """Parse a JSON text."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ValueError as error:
        raise Unreadable(f"is not JSON: {error}") from error
    if _HALF.search(text) and SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise Unreadable("holds half of a pair of characters")
    return value
