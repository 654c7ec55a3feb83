"""Match the names of a mapping with keys of rows, and follow paths.

A name matches exactly, or in another case, or without the spaces around it, in this order. If no
key has the name it may be a path, ``set.pos[0]``. ``.name`` is a key of an object, or of each
object of a list. ``[0]`` is an element of a list.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duckplets.base.sanitize import listed, shown
from duckplets.errors import SourceError, nearest
from duckplets.sources.limits import Limits
from duckplets.sources.mapping import PARTS, TEXTS, Mapped

Steps = tuple[str | int, ...]

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]")
_MOST_LISTED = 100  # fields listed in a message


def match(name: str, columns: Sequence[str]) -> list[int]:
    """Return the positions of the columns that a name matches."""
    exact = [i for i, column in enumerate(columns) if column == name]
    folded = name.casefold()
    alike = exact or [i for i, column in enumerate(columns) if column.casefold() == folded]
    bare = name.strip()
    found = alike or [i for i, column in enumerate(columns) if column.strip() == bare != ""]
    return match(name[:-1], columns) if not found and name[:-1] and name[-1] == "?" else found


def is_optional(name: str, column: str) -> bool:
    """Return whether a name marks its column as optional: ``q?`` for column ``q``."""
    return name.endswith("?") and not column.endswith("?")


def _found(name: str, columns: Sequence[str], where: str) -> tuple[str, Steps] | None:
    """Return the column of a name, or the first column of a path, and its steps."""
    places = match(name, columns)
    if len(places) > 1:
        twins = listed(repr(columns[place]) for place in places)
        raise SourceError(f"{where}: column {name!r} could be any of {twins}; rename one")
    if places:
        return columns[places[0]], ()
    name = name.removesuffix("?")
    for cut in range(len(name) - 1, 0, -1):  # the longest first
        if name[cut] in ".[":
            places, steps = match(name[:cut], columns), _steps(name[cut:])
            if steps and len(places) == 1:
                return columns[places[0]], steps
    return None


def _steps(rest: str) -> Steps:
    is_path = re.fullmatch(f"(?:{_STEP.pattern})+", rest)
    return tuple(key or int(place) for key, place in _STEP.findall(rest)) if is_path else ()


def follow(value: Any, steps: Steps) -> Any:
    """Return the value that steps lead to, or None."""
    for step in steps:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        elif isinstance(value, list):
            items = [follow(item, (step,)) for item in value]
            # an item that is no object is not skipped in silence
            are_objects = all(item is None or isinstance(item, Mapping) for item in value)
            value = items if are_objects and any(item is not None for item in items) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def head(name: str) -> str:
    """Return the beginning of a name up to a possible path, normalised."""
    return re.split(r"[.\[]", name, maxsplit=1)[0].casefold().removesuffix("?").strip()


def known_fields(mapping: Mapped) -> frozenset[str]:
    """Return the fields that a built-in converter and its mapping read, in lower case."""
    converter = mapping.conversion()
    if converter is None or converter.is_own:
        return frozenset()
    names = mapping.names()
    return frozenset(name.lower() for name in (*converter.fields, *names, *map(head, names)))


def require_texts(mapping: Mapped, columns: Sequence[str], where: str) -> None:
    """Refuse a mapping without texts, listing the columns."""
    if mapping.is_raw or mapping.converter or any(mapping.part(part) for part in TEXTS):
        return
    kind = type(mapping).__name__
    texts = [name for name in columns if not name.lower().endswith("id")]
    first, second = texts[:2] if len(texts) > 1 else ("title", "body")
    raise SourceError(
        f"{where}: say which columns hold the text, for example {kind}(…, anchor={first!r}, "
        f"positive={second!r}) or {kind}(…, text={second!r}), on a command line --anchor "
        f"{shlex.quote(first)} --positive {shlex.quote(second)}; {there_are(columns)}"
    )


def resolve(mapping: Mapped, columns: Sequence[str], where: str) -> list[str]:
    """Return the columns of a table to read; refuse a mapping without texts."""
    if mapping.is_raw:
        return list(columns)
    require_texts(mapping, columns, where)
    found: dict[str, None] = {}
    for name in mapping.names():
        column = _column(name, columns, where)
        check_optional(mapping, name, column, columns, where)
        found[column] = None
    converter = mapping.conversion()
    if converter is not None:
        for name in converter.needed:
            _column(name, columns, where)
        fields = (name for name in converter.fields if match(name, columns))
        found |= {_column(name, columns, where): None for name in fields}
    is_whole = mapping.handling() == "quarantine" or (converter is not None and converter.is_own)
    return list(columns) if is_whole else list(found)


def check_optional(
    mapping: Mapped, name: str, column: str, columns: Sequence[str], where: str
) -> None:
    """Refuse ``?`` on a name that is not a further context."""
    if is_optional(name, column) and name not in mapping.part("context"):
        raise SourceError(
            f"{unknown(name, columns, where)} (a ? after a name marks an optional column of "
            f"context=)"
        )


def _column(name: str, columns: Sequence[str], where: str) -> str:
    found = _found(name, columns, where)
    if found is None:
        raise unknown(name, columns, where)
    return found[0]


def unknown(name: str, columns: Sequence[str], where: str) -> SourceError:
    """Return the error for a missing column."""
    return SourceError(f"{where}: no column {name!r}{nearest(name, columns)}; {there_are(columns)}")


def there_are(columns: Sequence[str]) -> str:
    """Return a sentence that lists the columns."""
    return f"its columns are: {listed(columns)}" if columns else "it has no columns"


class Names:
    """The keys of a mapping's names, learnt as rows are read."""

    def __init__(self, mapping: Mapped, where: str, limits: Limits) -> None:
        converter = mapping.conversion()
        is_built_in = converter is not None and not converter.is_own
        self.mapping, self.where, self._limits = mapping, where, limits
        self.found: dict[str, tuple[str, Steps]] = {}
        self.seen: list[str] = []
        self._fields = tuple(converter.fields) if converter and is_built_in else ()
        self._met: set[str] = set()
        self._lists: list[str] = []  # keys of a single object that have objects
        self.columns: Sequence[str] | None = None  # of a table
        self._paths: dict[str, tuple[str, list[str]]] = {}  # unmatched: keys and fields seen so far

    @property
    def are_met(self) -> bool:
        """Return whether every name has been matched."""
        return bool(self.seen) and all(name in self.found for name in self.mapping.names())

    def turn_to(self, columns: Sequence[str] | None) -> bool:
        """Switch to a table's columns; return whether they differ from before."""
        if columns is None or columns == self.columns:
            return False
        self._met |= self.found.keys()
        self.columns, self.found, self.seen = columns, {}, []
        return True

    def learn(self, rows: Iterable[Any]) -> bool:
        """Match further names with the keys of rows; return whether any was found."""
        if self.are_met and all(name in self.found for name in self._fields):
            return False
        rows = [row for row in rows if isinstance(row, dict)]
        keys = dict.fromkeys(self.seen)
        for row in rows:
            keys.update(dict.fromkeys(row))
        if len(rows) == 1 and hasattr(self.mapping, "rows"):
            lists = ((k, v) for k, v in rows[0].items() if isinstance(v, list) and v)
            self._lists = [key for key, value in lists if isinstance(value[0], dict)]
        before, self.seen = len(self.found), [key for key in keys if isinstance(key, str)]
        if len(self.seen) > self._limits.columns:
            more = "its objects have more different keys"
            raise self._limits.exceeded(self.where, more, "columns")
        for name in dict.fromkeys((*self.mapping.names(), *self._fields)):
            if name not in self.found:
                self._look_for(name, rows)
        return len(self.found) > before

    def _look_for(self, name: str, rows: list[dict[str, Any]]) -> None:
        found = _found(name, self.seen, self.where)
        if found is None:
            return
        key, steps = found
        if name in self.mapping.names():
            check_optional(self.mapping, name, key, self.seen, self.where)
        if not steps or any(follow(row.get(key), steps) is not None for row in rows):
            self.found[name] = key, steps
            self._paths.pop(name, None)
            return
        fields: list[str] = self._paths.get(name, (key, []))[1]
        for length in range(len(steps) - 1, -1, -1):
            there = (follow(row.get(key), steps[:length]) for row in rows)
            objects = (item for v in there for item in (v if isinstance(v, list) else [v]))
            some = {field for item in objects if isinstance(item, dict) for field in item}
            fields = fields or sorted(map(str, some))[:_MOST_LISTED]
        self._paths[name] = key, fields

    def check_texts(self) -> None:
        """Refuse a text or id without any column at the start: a typing error."""
        for part in () if self.mapping.are_own_keys else (*TEXTS, "id"):
            names = self.mapping.part(part)
            if self.seen and names and not any(name in self.found for name in names):
                raise self._unknown(names[0])

    def check(self) -> None:
        """Refuse a name that nothing in the whole input matched."""
        for part in () if self.mapping.are_own_keys else PARTS:
            for name in self.mapping.part(part):
                if self.seen and name not in self.found and name not in self._met:
                    raise self._unknown(name)

    def add(self, later: Names) -> None:
        """Add what was matched in other rows of the input."""
        self.found = later.found | self.found
        self._met |= later._met
        self.seen = list(dict.fromkeys([*self.seen, *later.seen]))
        self._paths |= later._paths

    def known(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        found = {name: [key, list(steps)] for name, (key, steps) in self.found.items()}
        return {"found": found, "seen": self.seen[:_MOST_LISTED]}

    def know(self, known: Mapping[str, Any]) -> None:
        """Restore the state."""
        self.found = {name: (key, tuple(steps)) for name, (key, steps) in known["found"].items()}
        self.seen = list(known["seen"])

    def _unknown(self, name: str) -> SourceError:
        if name not in self._paths and self._lists:
            there = self._lists[0]
            return SourceError(
                f"{self.where}: no column {shown(repr(name))}; if the rows are the list {there!r} "
                f"give rows={there!r}"
            )
        if name not in self._paths:
            return unknown(name, self.seen, self.where)
        key, fields = self._paths[name]
        column = f"column {shown(repr(key))}"
        there = f"{column} has no fields"
        if fields:
            there = f"the fields of {column} are: {listed(fields)}"
        last = re.split(r"[.\[]", name)[-1].rstrip("]")
        return SourceError(
            f"{self.where}: no row has {shown(repr(name))}{nearest(last, fields)}; {there}"
        )
