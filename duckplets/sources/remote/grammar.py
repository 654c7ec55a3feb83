"""Parse lines of a list into data sets and options.

    hf://org/name/config/split anchor=question positive=answer trust=0.9   # a comment

Lines are split at white space. ``#`` opens a comment at the start of a line or after white space,
so a column name may contain one. Unknown keys are errors that name file, line and nearest key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from urllib.parse import unquote

from duckplets.base.settings import Named, SlashedName, checked
from duckplets.errors import SourceError, nearest, several
from duckplets.sources.mapping import Mapped, check_trust

_MAPPING = {part.name: str(part.type) for part in fields(Mapped)}
LISTS = (
    *(name for name, kind in _MAPPING.items() if kind == "Columns"),
    *("text_columns", "null_values"),
)
KEYS = (*_MAPPING, "text_columns", "source_id", "weight")
_SAME = {"text_columns": "text"}  # as in lists for the triplets crate
TEXTS = ("anchor", "positive", "context", "text", "converter", "sections")

EXAMPLE = "hf://org/name/config/split anchor=question positive=answer"
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")
_COMMENT = re.compile(r"(?:^|\s)#.*")

Value = str | float | tuple[str, ...]
"""Columns for a key in ``LISTS``, a number for ``trust`` and ``weight``, a text for others."""


@dataclass(frozen=True, slots=True)
class HubUri:
    """A data set on the Hub, or a part of one."""

    org: str  # user or organisation
    name: str
    config: str = "default"
    split: str | None = None  # a split or table; None for all

    @property
    def repo(self) -> str:
        """The repository, ``org/name``."""
        return f"{self.org}/{self.name}"

    def __str__(self) -> str:
        return "hf://" + "/".join(self._given())

    def slug(self) -> str:
        """Return a name for the source; repository names cannot contain ``--``."""
        return "--".join(re.sub(r"[^\w.-]", "_", part) for part in self._given())[:200]

    def _given(self) -> Iterator[str]:
        yield from (self.org, self.name)
        if self.split is not None or self.config != "default":
            yield self.config
        if self.split is not None:
            yield self.split


def parse_uri(text: str) -> HubUri:
    """Parse a URI."""
    form = "write hf://org/name, hf://org/name/config or hf://org/name/config/split"
    if not text.startswith("hf://"):
        raise SourceError(f"{text!r} is not a data set on the Hub; {form}")
    parts = text.removeprefix("hf://").rstrip("/").split("/")
    if parts[:1] == ["datasets"] and len(parts) > 2:
        raise SourceError(f"{text!r}: leave out 'datasets/'; {form}")
    if not 2 <= len(parts) <= 4 or not all(parts):
        raise SourceError(f"{text!r}: {form}")
    for part in parts[:2]:
        odd = "--" in part or ".." in part or part.endswith(".git")
        if odd or not _NAME.fullmatch(part):
            raise SourceError(f"{text!r}: {part!r} cannot be the name of a repository; {form}")
    more = [unquote(part) for part in parts[2:]]
    for part in more:
        checked("part", part, SlashedName, SourceError, repr(text))
    if "." in more or ".." in more:
        raise SourceError(f"{text!r}: {form}")
    return HubUri(parts[0], parts[1], *more)


def parse_line(line: str, *, complete: bool = False) -> tuple[HubUri, dict[str, Value]] | None:
    """Return data set and options of a line; None if blank or a comment."""
    tokens = _COMMENT.sub("", line).split()
    if not tokens:
        return None
    problems: list[str] = []
    options: dict[str, Value] = {}
    uri = None
    try:
        uri = parse_uri(tokens[0])
    except SourceError as error:
        problems.append(str(error))
    for token in tokens[1:]:
        try:
            key, value = _option(token)
            key = _SAME.get(key, key)
            if key in options:
                raise SourceError(f"key {key!r} is given twice")
            options[key] = value
        except SourceError as error:
            problems.append(str(error))
    if not problems and not complete and not any(key in options for key in TEXTS):
        problems.append(
            f"{tokens[0]} names no text; say which columns hold it, for example "
            f"{tokens[0]} anchor=question positive=answer, or {tokens[0]} text=body"
        )
    if problems or uri is None:
        raise SourceError(several(problems))
    return uri, options


def _option(token: str) -> tuple[str, Value]:
    key, sign, value = token.partition("=")
    if not sign:
        raise SourceError(f"{token!r} is not of the form key=value, as in {EXAMPLE}")
    if key not in KEYS:
        raise SourceError(f"unknown key {key!r}{nearest(key, KEYS)}; keys are {', '.join(KEYS)}")
    if not value:
        raise SourceError(f"{key}= has no value")
    if key in ("trust", "weight"):
        try:
            number = float(value)
        except ValueError:
            raise SourceError(f"{key}={value}: give a number") from None
        check = check_trust if key == "trust" else check_weight
        check(int(number) if number.is_integer() else number)  # as it was written
        return key, number
    if key in LISTS:
        columns = tuple(value.split(","))
        if not all(columns):
            raise SourceError(f"{key}={value}: a name is missing beside a comma")
        if len(set(columns)) < len(columns):
            raise SourceError(f"{key}={value}: a column is named twice")
        return key, columns
    if key == "source_id":
        check_name(value)
    elif "," in value and key != "labels":
        raise SourceError(f"{key}={value}: {key}= takes one name")
    return key, value


def check_name(name: object) -> None:
    """Refuse an invalid source name."""
    checked("source_id", name, Named, SourceError)


def check_weight(weight: object) -> None:
    """Refuse a weight that is not finite and at least 0."""
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if weight is not None and not (is_number and 0 <= float(str(weight)) < math.inf):
        raise SourceError(f"weight={weight!r}: give a number of at least 0")
