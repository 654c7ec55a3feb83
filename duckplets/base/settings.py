"""Declare settings once, as a dataclass whose types are the rules, and check them all in one way.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Cutting:
        max_tokens: Annotated[int, Bounds(1, 4096)] = 1024
        overlap: tuple[Annotated[int, Bounds(0)], ...] = (64,)
        unit: Literal["word", "token"] = "word"
        floor: Annotated[float, Bounds(0, 1)] | None = None

        def __post_init__(self) -> None:
            check(self, ChunkingError, "chunking")  # then rules about several fields

    Cutting(max_tokens=0)
    # ChunkingError: chunking: max_tokens=0: give an integer from 1 to 4096
    Cutting(unit="tokn")
    # ChunkingError: chunking: unit='tokn': give 'word' or 'token' (did you mean 'token'?)
    from_plain(Cutting, {"max_token": 5}, ChunkingError, "chunking")
    # ChunkingError: chunking: unknown key 'max_token' (did you mean 'max_tokens'?); keys: …
    to_plain(Cutting())          # {"max_tokens": 1024, "overlap": [64], "unit": "word"}
    checked("k", 3.5, Annotated[int, Bounds(1)], SamplerError)  # one argument, without a class

A kind is ``int``, ``float`` (finite), ``bool``, ``str``, ``Path``, ``None``, ``Any``, a
``Literal``, a class, ``tuple[kind, ...]`` or ``Sequence[kind]``, ``Mapping[str, kind]``, or a union
of these. ``Annotated[kind, …]`` adds rules (``Bounds``, ``Name``) or a text for messages. A class
of settings as a kind is read from a table of its fields. Kinds are looked up when the class is
first used, so their names must not be imported for type checkers only. Checked values are uniform:
Python's own numbers, tuples, and immutable mappings with a hash.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, nearest

__all__ = [
    *("LONGEST_NAME", "Bounds", "Name", "Named", "SlashedName", "check", "checked"),
    *("from_plain", "kinds_of", "misfit", "to_plain", "value_shown"),
]

Made = TypeVar("Made")

LONGEST_NAME = 200  # characters
SURROGATE = re.compile("[\ud800-\udfff]")
_WIDEST = 256  # bits of a number in a message; Python refuses to print thousands of digits
_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a finite number",
    bool: "True or False",
    str: "text",
    Path: "a path",
    None: "None",
    types.NoneType: "None",
    dict: "a table",
}
_NUMBERS: dict[Any, Any] = {int: (int, Integral), float: (float, Real)}
_PLURALS = {"int": "integers", "float": "finite numbers", "str": "texts"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a number: at least ``least`` or more than ``above``, and at most ``most``."""

    least: float | None = None
    most: float | None = None
    above: float | None = None

    def admits(self, value: Any) -> bool:
        """Return whether a number is within the bounds."""
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
        )

    def words(self, number: str) -> str:
        """Return the bounds in words, after a noun for the number."""
        if self.above is not None:
            number += f" above {self.above}"
        elif self.least is not None:
            number += f" from {self.least}"
        return number if self.most is None else f"{number} to {self.most}"


@dataclass(frozen=True, slots=True)
class Name:
    """A name: printable characters, not only blanks; ``/`` only if allowed."""

    longest: int = LONGEST_NAME
    slash: bool = False

    def admits(self, value: str) -> bool:
        """Return whether a text is a name."""
        fits = 0 < len(value) <= self.longest and value.isprintable() and bool(value.strip())
        return fits and (self.slash or "/" not in value)

    def words(self, _: str) -> str:
        """Return the rule in words."""
        without = "" if self.slash else " without '/'"
        return f"up to {self.longest} printable characters{without}, not only blanks"


Named = Annotated[str, Name()]
SlashedName = Annotated[str, Name(slash=True)]


class FrozenMapping(Mapping[str, Any]):
    """An immutable, hashable mapping that prints as a dict."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return repr(self._values)


@cache
def kinds_of(declared: Any) -> dict[str, Any]:
    """Return the kinds of the fields of a settings class, or of the arguments of a function."""
    return get_type_hints(declared, include_extras=True)


def check(settings: Any, error: type[DuckpletsError], what: str = "") -> None:
    """Check every field of settings by its kind, and normalise its value."""
    for name, kinds in _kinds_of_fields(type(settings)):  # type: ignore[arg-type]
        value = getattr(settings, name)
        try:
            fitted = _fitted(value, kinds)
        except _Misfit as misfit:
            raise misfit.error(error, name, what) from None
        if fitted is not value:
            object.__setattr__(settings, name, fitted)


@cache
def _kinds_of_fields(made: Any) -> list[tuple[str, _Kinds]]:
    kinds = kinds_of(made)
    return [(field.name, _kinds(kinds[field.name])) for field in fields(made) if field.init]


def checked(name: str, value: Any, kind: Any, error: type[DuckpletsError], what: str = "") -> Any:
    """Return a normalised value of a kind; raise ``error`` for a value of another kind."""
    try:
        return _fitted(value, _kinds(kind))
    except _Misfit as misfit:
        raise misfit.error(error, name, what) from None


def from_plain(made: type[Made], table: Any, error: type[DuckpletsError], what: str = "") -> Made:
    """Build settings from a table of TOML or JSON, in which ``false`` may mean None."""
    where = f"{what}: " if what else ""
    known = {field.name: field for field in fields(made) if field.init}  # type: ignore[arg-type]
    if not isinstance(table, Mapping):
        raise error(f"{where}give a table of {', '.join(known)}, not {value_shown(table)}")
    for key in table:
        if key not in known:
            close = nearest(str(key), known)
            raise error(f"{where}unknown key {value_shown(key)}{close}; keys: {', '.join(known)}")
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise error(f"{where}{name} is missing; give it")
    values = dict(table)
    for name, value in table.items():
        kind, is_optional = _read_otherwise(made).get(name, (None, False))  # type: ignore[arg-type]
        if value is False and is_optional:
            values[name] = None
        elif kind is not None:
            values[name] = _read(kind, value, error, where + name)
    return made(**values)


@cache
def _read_otherwise(made: Any) -> dict[str, tuple[Any, bool]]:
    """Return for each field its kind, if it contains settings, and whether ``false`` is None."""
    found = {}
    for name, kind in kinds_of(made).items():
        parts = _parts(kind)
        is_optional = types.NoneType in parts and bool not in parts
        found[name] = kind if _has_settings(kind) else None, is_optional
    return found


@cache
def _has_settings(kind: Any) -> bool:
    return any(is_dataclass(p) or any(map(_has_settings, get_args(p))) for p in _parts(kind))


def _parts(kind: Any) -> list[Any]:
    """Return the alternatives of a kind."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _parts(get_args(kind)[0])
    if origin in (Union, types.UnionType):
        return [inner for part in get_args(kind) for inner in _parts(part)]
    return [kind]


def _read(kind: Any, value: Any, error: type[DuckpletsError], what: str) -> Any:
    """Build the settings in a value of a kind from their tables; return other values unchanged."""
    for part in filter(_has_settings, _parts(kind)):
        origin, inner = get_origin(part), get_args(part)
        if origin in (tuple, list, Sequence) and isinstance(value, list | tuple):
            items = enumerate(value)
            return tuple(_read(inner[0], item, error, f"{what}[{i}]") for i, item in items)
        if not isinstance(value, Mapping):
            continue
        if not is_dataclass(part):
            pairs = value.items()
            return {name: _read(inner[1], item, error, f"{what}[{name!r}]") for name, item in pairs}
        try:
            return from_plain(part, value, error)  # type: ignore[arg-type]
        except error as wrong:
            raise error(f"{what}: {wrong}") from None
    return value


def to_plain(value: Any, *, defaults: bool = True) -> Any:
    """Return settings as values for JSON and TOML, without None values."""
    if is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for field in fields(value):
            item = getattr(value, field.name)
            if field.init and item is not None and (defaults or item != field.default):
                plain[field.name] = to_plain(item, defaults=defaults)
        return plain
    if isinstance(value, Mapping):
        return {name: to_plain(item, defaults=defaults) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, defaults=defaults) for item in value]
    return str(value) if isinstance(value, Path) else value


# -- kinds ------------------------------------------------------------------------------------


class _Misfit(Exception):  # noqa: N818 - it becomes the error that a caller names
    """A value, or a part of it, is not of its kind."""

    def __init__(self, value: Any, kind: Any, hint: str = "") -> None:
        super().__init__()
        self.value, self.kind, self.hint, self.at = value, kind, hint, ""

    def error(self, error: type[DuckpletsError], name: str, what: str) -> DuckpletsError:
        """Return the error that names the setting and its kind."""
        where = f"{what}: {name}{self.at}" if what else f"{name}{self.at}"
        return error(f"{where}={value_shown(self.value)}: give {_wanted(self.kind)}{self.hint}")


class _Kinds:
    """The alternatives of a kind except None, each with its rules, origin and parts."""

    def __init__(self, kind: Any) -> None:
        self.kind, alternatives = kind, list(_alternatives(kind))
        self.several = [a for a in alternatives if a[0] not in (None, types.NoneType)]
        self.is_optional = len(self.several) < len(alternatives)


_kinds = cache(_Kinds)


def _alternatives(kind: Any, rules: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        own = tuple(rule for rule in kind.__metadata__ if isinstance(rule, Bounds | Name))
        yield from _alternatives(parts[0], own + rules)
    elif origin in (Union, types.UnionType):
        for part in parts:
            yield from _alternatives(part, rules)
    elif origin in (tuple, list, Sequence):
        yield kind, rules, Sequence, (_kinds(parts[0]),)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield kind, rules, Mapping, tuple(map(_kinds, parts))
    else:
        yield kind, rules, origin, parts


def _fitted(value: Any, kinds: _Kinds) -> Any:
    """Return a value normalised to one of several kinds."""
    if value is None and kinds.is_optional:
        return None
    closest: _Misfit | None = None
    hint = ""
    for kind, rules, origin, parts in kinds.several:
        try:
            fitted = _of_kind(value, kind, origin, parts)
        except _Misfit as misfit:
            closest = misfit if misfit.at else closest
            hint = hint or misfit.hint
            continue
        if all(rule.admits(fitted) for rule in rules):
            return fitted
    raise closest or _Misfit(value, kinds.kind, hint)


def _of_kind(value: Any, kind: Any, origin: Any, parts: tuple[Any, ...]) -> Any:
    """Return a value normalised to one kind, or raise ``_Misfit``."""
    hint = ""
    if origin is None:
        if kind is str:
            if isinstance(value, str):
                if value.isascii() or not SURROGATE.search(value):
                    return value
                hint = "; it holds half of a pair of characters: remove it"
        elif kind is float or kind is int:
            if not isinstance(value, bool) and isinstance(value, _NUMBERS[kind]):
                try:
                    number = kind(value) + kind(0)  # turns -0.0 into 0.0
                except OverflowError:
                    number = math.inf
                if kind is int or math.isfinite(number):
                    return number
        elif kind is Path and isinstance(value, str):
            return Path(value)
        elif kind is Any or isinstance(value, kind):
            return value
    elif origin is Literal:
        for choice in parts:
            if isinstance(value, type(choice)) and value == choice:
                return choice
        if isinstance(value, str):
            hint = nearest(value, [choice for choice in parts if isinstance(choice, str)])
    elif origin is Sequence and isinstance(value, list | tuple):
        return tuple(_within(place, part, parts[0]) for place, part in enumerate(value))
    elif origin is Mapping and isinstance(value, Mapping):
        items = value.items()
        return FrozenMapping({_within(n, n, parts[0]): _within(n, v, parts[1]) for n, v in items})
    raise _Misfit(value, kind, hint)


def _within(place: Any, value: Any, kinds: _Kinds) -> Any:
    try:
        return _fitted(value, kinds)
    except _Misfit as misfit:
        misfit.at = f"[{value_shown(place)}]{misfit.at}"
        raise


def _wanted(kind: Any) -> str:
    """Return a kind in words."""
    *first, last = dict.fromkeys(_choices(kind))
    return f"{', '.join(first)} or {last}" if first else str(last)


def _choices(kind: Any) -> list[str]:
    """Return the alternatives of a kind in words."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        words = _wanted(parts[0])
        for rule in parts[1:]:
            if isinstance(rule, str):
                words = rule
            elif isinstance(rule, Bounds | Name):
                words = rule.words(words)
        return [words]
    if origin in (Union, types.UnionType):
        return [words for part in parts for words in _choices(part)]
    if origin is Literal:
        return [repr(part) for part in parts]
    if origin in (tuple, list, Sequence):
        inner = get_args(parts[0])[0] if get_origin(parts[0]) is Annotated else parts[0]
        return [f"a list of {_PLURALS.get(getattr(inner, '__name__', ''), _wanted(parts[0]))}"]
    if origin is not None:
        return [f"a table, with {_wanted(parts[1])} for each name"]
    words = _WORDS.get(kind) or ("a table" if kind.__name__[0] == "_" else f"{kind.__name__}(…)")
    return [words]


def value_shown(value: Any) -> str:
    """Return a value as one line of a message."""
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return f"(a number of {value.bit_length()} bits)"
    return shown(repr(value))


# -- shapes of JSON ---------------------------------------------------------------------------


def misfit(value: Any, shape: Any) -> str:
    """Return the place and the problem of a JSON value that does not fit a shape, or ""."""
    wrong = _wrong_in(value, shape)
    return wrong and f"it{wrong}"


def _wrong_in(value: Any, shape: Any) -> str:
    """Return the place and the problem, to follow "it"."""
    if isinstance(value, dict | list) and isinstance(shape, type(value)):
        return _wrong_within(value, shape)
    if isinstance(shape, tuple):
        fits = any(not _wrong_in(value, alternative) for alternative in shape)
        return "" if fits else f" is {value_shown(value)}, not {_called(shape)}"
    if isinstance(shape, dict | list):
        return f" is {value_shown(value)}, not {_called(shape)}"
    try:
        _fitted(value, _kinds(_kind_of(shape)))
    except _Misfit as wrong:
        return f"{wrong.at} is {value_shown(wrong.value)}, not {_wanted(wrong.kind)}"
    return ""


def _wrong_within(value: Any, shape: Any) -> str:
    shapes: dict[Any, Any]
    if isinstance(shape, list):
        shapes = dict.fromkeys(range(len(value)), shape[0])
    else:
        shapes = dict.fromkeys(value, shape[str]) if str in shape else shape
    for key, inner in shapes.items():
        name = key.removesuffix("?") if shapes is shape else key
        if shapes is shape and name not in value:
            if name == key:
                return f" has no {name!r}"
        elif wrong := _wrong_in(value[name], inner):
            return f"[{value_shown(name)}]{wrong}"
    return ""


def _kind_of(shape: Any) -> Any:
    is_range = isinstance(shape, range)
    return Annotated[int, Bounds(shape.start, shape.stop - 1)] if is_range else shape


def _called(shape: Any) -> str:
    """Return a shape in words."""
    if isinstance(shape, tuple):
        return " or ".join(map(_called, shape))
    if isinstance(shape, dict | list):
        return "a table" if isinstance(shape, dict) else "a list"
    return _wanted(_kind_of(shape))
