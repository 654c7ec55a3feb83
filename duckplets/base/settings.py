"""Declare settings once: a dataclass whose types say what each may be, and one checker for all.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Cutting:
        max_tokens: Annotated[int, Bounds(1, 4096)] = 1024
        overlap: tuple[Annotated[int, Bounds(0)], ...] = (64,)
        unit: Literal["word", "token"] = "word"
        floor: Annotated[float, Bounds(0, 1)] | None = None

        def __post_init__(self) -> None:
            check(self, ChunkingError, "chunking")  # then what several fields must agree on

    Cutting(max_tokens=0)
    # ChunkingError: chunking: max_tokens=0: give an integer from 1 to 4096
    Cutting(unit="tokn")
    # ChunkingError: chunking: unit='tokn': give 'word' or 'token' (did you mean 'token'?)
    from_plain(Cutting, {"max_token": 5}, ChunkingError, "chunking")
    # ChunkingError: chunking: unknown key 'max_token' (did you mean 'max_tokens'?); keys: …
    to_plain(Cutting())          # {"max_tokens": 1024, "overlap": [64], "unit": "word"}
    checked("k", 3.5, Annotated[int, Bounds(1)], SamplerError)  # one argument, without a class

A kind is ``int``, ``float`` (finite), ``bool``, ``str``, ``Path``, ``None``, ``Any``, a
``Literal``, a class, ``tuple[kind, ...]`` or ``Sequence[kind]``, ``Mapping[str, kind]``, a union
of these, or ``Annotated[kind, …]`` with rules (``Bounds``, ``Name``) or a text that says in a
message what is wanted. A class of settings is read from a table of its fields wherever it is a
kind; one with a class method ``from_text`` also from a text. Kinds are looked up when the class is
first used, so their names must not be imported for type checkers only. What is checked comes back
uniform: Python's own numbers, tuples, mappings that cannot change and have a hash.

For options of commands ``kinds_of`` has the kind of each field or argument, and ``bounds_of`` the
bounds in it.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, nearest

__all__ = ["Bounds", "Name", "bounds_of", "check", "checked", "from_plain", "kinds_of", "to_plain"]

Made = TypeVar("Made")

SURROGATE = re.compile("[\ud800-\udfff]")
_WIDEST = 256  # bits of a number that a message shows: Python refuses to write thousands of digits
_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a finite number",
    bool: "True or False",
    str: "text",
    Path: "a path",
    None: "None",
    types.NoneType: "None",
}
_PLURALS = {"int": "integers", "float": "finite numbers", "str": "texts"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be: at least ``least`` or more than ``above``, and at most ``most``."""

    least: float | None = None
    most: float | None = None
    above: float | None = None

    def admits(self, value: Any) -> bool:
        """Return whether a number is within."""
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
        )

    def words(self, number: str) -> str:
        """Return what is wanted, after what number it is."""
        if self.above is not None:
            number += f" above {self.above}"
        elif self.least is not None:
            number += f" from {self.least}"
        return number if self.most is None else f"{number} to {self.most}"


@dataclass(frozen=True, slots=True)
class Name:
    """A name: printable characters, not only blanks, and no ``/`` unless it is a place."""

    longest: int = 200
    slash: bool = False

    def admits(self, value: str) -> bool:
        """Return whether a text is such a name."""
        fits = 0 < len(value) <= self.longest and value.isprintable() and bool(value.strip())
        return fits and (self.slash or "/" not in value)

    def words(self, _: str) -> str:
        """Return what is wanted."""
        without = "" if self.slash else " without '/'"
        return f"up to {self.longest} printable characters{without}, not only blanks"


class FrozenMapping(Mapping[str, Any]):
    """A mapping that cannot change and has a hash; shown as a dict."""

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
    """Return the kind of every field of a class of settings, or of every argument of a function."""
    return get_type_hints(declared, include_extras=True)


def bounds_of(kind: Any) -> Bounds:
    """Return the bounds that a kind has, also as one of several; empty ones if it has none."""
    for part in getattr(kind, "__metadata__", ()):
        if isinstance(part, Bounds):
            return part
    found = (bounds_of(part) for part in get_args(kind))
    return next((bounds for bounds in found if bounds != Bounds()), Bounds())


def check(settings: Any, error: type[DuckpletsError], what: str = "") -> None:
    """Check every field of settings by its kind, and make its value uniform.

    Args:
        settings: A dataclass that is just being made.
        error: What to raise where a value does not fit.
        what: What the settings are of, for the message.
    """
    for name, fit in _fitters(type(settings)):  # type: ignore[arg-type]
        value = getattr(settings, name)
        try:
            fitted = fit(value)
        except _Misfit as misfit:
            raise misfit.error(error, name, what) from None
        if fitted is not value:
            object.__setattr__(settings, name, fitted)


@cache
def _fitters(made: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the name of every field of a class, and what makes its value uniform."""
    kinds = kinds_of(made)
    return [(field.name, _fitter(kinds[field.name])) for field in fields(made) if field.init]


def checked(name: str, value: Any, kind: Any, error: type[DuckpletsError], what: str = "") -> Any:
    """Return a value made uniform, if it is of a kind.

    Args:
        name: Of the setting or argument.
        value: What was given.
        kind: What it should be.
        error: What to raise where it is something else.
        what: Where the setting stands, for the message.
    """
    try:
        return _fitter(kind)(value)
    except _Misfit as misfit:
        raise misfit.error(error, name, what) from None


def from_plain(made: type[Made], table: Any, error: type[DuckpletsError], what: str = "") -> Made:
    """Make settings from plain values: a table of TOML or JSON, whose ``false`` may stand for None.

    Args:
        made: The class.
        table: Its fields by name; those that are left out have their defaults.
        error: What to raise for an unknown or missing key; the class raises its own for values.
        what: What the settings are of, for the message.
    """
    where = f"{what}: " if what else ""
    known = {field.name: field for field in fields(made) if field.init}  # type: ignore[arg-type]
    if not isinstance(table, Mapping):
        raise error(f"{where}give a table of {', '.join(known)}, not {_shown(table)}")
    for key in table:
        if key not in known:
            close = nearest(str(key), known)
            raise error(f"{where}unknown key {_shown(key)}{close}; keys: {', '.join(known)}")
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise error(f"{where}{name} is missing")
    kinds = kinds_of(made)  # type: ignore[arg-type]
    return made(**{n: _of_plain(v, kinds[n], error, where + n) for n, v in table.items()})


def to_plain(value: Any, *, defaults: bool = True) -> Any:
    """Return settings as values fit for JSON and TOML: what is None is left out.

    Args:
        value: Settings, or a value of some.
        defaults: Whether to keep what is as it is by default.
    """
    if is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for field in fields(value):
            own = getattr(value, field.name)
            if field.init and own is not None and (defaults or own != field.default):
                plain[field.name] = to_plain(own, defaults=defaults)
        return plain
    if isinstance(value, Mapping):
        return {name: to_plain(own, defaults=defaults) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(own, defaults=defaults) for own in value]
    return str(value) if isinstance(value, Path) else value


# -- kinds ------------------------------------------------------------------------------------


class _Misfit(Exception):  # noqa: N818 - it becomes the error that a caller names
    """A value, or one within it, is of another kind."""

    def __init__(self, value: Any, kind: Any, hint: str = "") -> None:
        super().__init__()
        self.value, self.kind, self.hint, self.at = value, kind, hint, ""

    def error(self, error: type[DuckpletsError], name: str, what: str) -> DuckpletsError:
        """Return the error that says which setting it is, and what would be right."""
        where = f"{what}: {name}{self.at}" if what else f"{name}{self.at}"
        return error(f"{where}={_shown(self.value)}: give {_wanted(self.kind)}{self.hint}")


@cache
def _fitter(kind: Any) -> Callable[[Any], Any]:
    """Return what makes a value of a kind uniform, or raises ``_Misfit``."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _fitter_of_rules(kind)
    if origin in (Union, types.UnionType):
        return _fitter_of_several(kind)
    if origin is Literal:
        return _fitter_of_choices(kind)
    if origin in (tuple, Sequence):
        return _fitter_of_list(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _fitter_of_table(kind)
    if kind in (int, float):
        return partial(_number, kind=kind)
    if kind is str:
        return _text

    def fit(value: Any) -> Any:
        if kind is Path and isinstance(value, str):
            return Path(value)
        if kind is Any or (value is None if kind is None else isinstance(value, kind)):
            return value
        raise _Misfit(value, kind)

    return fit


def _fitter_of_rules(kind: Any) -> Callable[[Any], Any]:
    inner = _fitter(get_args(kind)[0])
    rules = [rule for rule in kind.__metadata__ if isinstance(rule, Bounds | Name)]

    def fit(value: Any) -> Any:
        try:
            fitted = inner(value)
        except _Misfit as misfit:
            raise misfit if misfit.at else _Misfit(value, kind, misfit.hint) from None
        for rule in rules:
            if not rule.admits(fitted):
                raise _Misfit(value, kind)
        return fitted

    return fit


def _fitter_of_several(kind: Any) -> Callable[[Any], Any]:
    """Return what takes one of several kinds; what is nearly of one says where it fails."""
    fitters = [_fitter(part) for part in get_args(kind)]
    optional = types.NoneType in get_args(kind)

    def fit(value: Any) -> Any:
        if value is None and optional:
            return None
        closest = _Misfit(value, kind)
        for one in fitters:
            try:
                return one(value)
            except _Misfit as misfit:
                if misfit.at:
                    closest = misfit
                elif not closest.at:
                    closest.hint = closest.hint or misfit.hint
        raise closest

    return fit


def _fitter_of_choices(kind: Any) -> Callable[[Any], Any]:
    choices = get_args(kind)
    texts = [choice for choice in choices if isinstance(choice, str)]

    def fit(value: Any) -> Any:
        for choice in choices:
            if isinstance(value, type(choice)) and value == choice:
                return choice
        raise _Misfit(value, kind, nearest(value, texts) if isinstance(value, str) else "")

    return fit


def _fitter_of_list(kind: Any) -> Callable[[Any], Any]:
    inner = _fitter(get_args(kind)[0])

    def fit(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _Misfit(value, kind)
        return tuple(_within(place, part, inner) for place, part in enumerate(value))

    return fit


def _fitter_of_table(kind: Any) -> Callable[[Any], Any]:
    of_name, inner = map(_fitter, get_args(kind))

    def fit(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Misfit(value, kind)
        return FrozenMapping(
            {_within(name, name, of_name): _within(name, own, inner) for name, own in value.items()}
        )

    return fit


def _within(place: Any, value: Any, fit: Callable[[Any], Any]) -> Any:
    try:
        return fit(value)
    except _Misfit as misfit:
        misfit.at = f"[{_shown(place)}]{misfit.at}"
        raise


def _number(value: Any, kind: type) -> Any:
    if isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = kind(value) + kind(0)  # no -0.0
            if kind is int or math.isfinite(number):
                return number
    raise _Misfit(value, kind)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Misfit(value, str)
    if not value.isascii() and SURROGATE.search(value):
        raise _Misfit(
            value, str, "; it holds half of a pair of characters, which nothing can store"
        )
    return value


def _wanted(kind: Any) -> str:
    """Return in words what is of a kind."""
    *first, last = dict.fromkeys(_choices(kind))
    return f"{', '.join(first)} or {last}" if first else str(last)


def _choices(kind: Any) -> list[str]:
    """Return in words each of the kinds that a kind is one of."""
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
    if origin in (tuple, Sequence):
        inner = get_args(parts[0])[0] if get_origin(parts[0]) is Annotated else parts[0]
        return [f"a list of {_PLURALS.get(getattr(inner, '__name__', ''), _wanted(parts[0]))}"]
    if origin is not None:
        return [f"a table, with {_wanted(parts[1])} for each name"]
    words = _WORDS.get(kind) or ("a table" if kind.__name__[0] == "_" else f"{kind.__name__}(…)")
    return [words]


def _shown(value: Any) -> str:
    """Return a value for a message, in one line."""
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return f"(a number of {value.bit_length()} bits)"
    return shown(repr(value))


# -- plain values -----------------------------------------------------------------------------


def _of_plain(value: Any, kind: Any, error: type[DuckpletsError], what: str) -> Any:
    """Make settings of the tables in a plain value; other values are left to the checker."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _of_plain(value, parts[0], error, what)
    if origin in (Union, types.UnionType):
        if value is False and types.NoneType in parts and bool not in parts:
            return None
        found = (_of_plain(value, part, error, what) for part in parts)
        return next((made for made in found if made is not value), value)
    if origin in (tuple, Sequence) and isinstance(value, list | tuple):
        places = enumerate(value)
        return tuple(_of_plain(own, parts[0], error, f"{what}[{i}]") for i, own in places)
    if isinstance(kind, type) and is_dataclass(kind):
        read = getattr(kind, "from_text", None) if isinstance(value, str) else None
        if read is None and not isinstance(value, Mapping):
            return value
        try:
            return from_plain(kind, value, error) if read is None else read(value)
        except error as wrong:
            raise error(f"{what}: {wrong}") from None
    return value
