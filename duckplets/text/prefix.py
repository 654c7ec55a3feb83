"""Metadata prefixes: their definition, checks and stored form.

    dp.Prefix(0.5, [[dp.Field("source", "wiki"), dp.Field("date", ["2024-10-15", "Oct 15, 2024"])]])
    dp.Prefix.from_columns("source, date")

A prefix is a line such as ``meta: date=Oct 15, 2024 | source=wiki`` before a text. So that models
learn no shortcut from it, its presence, variant, fields, renderings and their order are drawn anew
for every sample.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from duckplets.base.checks import checked_name
from duckplets.errors import SourceError, nearest

DEFAULT_PROBABILITY = 0.5  # half of the samples then have none
COLUMNS = ("source", "date", "group", "taxonomy", "trust")  # other names are keys of meta
_META = "meta."  # prefix for a key of meta that has the name of a column
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One ``key=value`` of a prefix.

    Attributes:
        key: What stands before the ``=``.
        values: One text, or several renderings of the same value, of which each sample draws one.
            White space within becomes one blank; empty and repeated ones are left out.
        presence: Probability, in [0,1], that a prefix has this field.
        column: In place of values, the column of a record to take them from: ``source``,
            ``date`` (in six renderings), ``group``, ``taxonomy`` (each level is a rendering),
            ``trust``, or a key of its meta, if need be as ``meta.KEY``. A record for which it is
            empty has no such field.
    """

    key: str
    values: tuple[str, ...] = ()
    presence: float = 1.0
    column: str | None = None

    def __init__(
        self,
        key: str,
        values: str | Sequence[str] = (),
        presence: float = 1.0,
        *,
        column: str | None = None,
    ) -> None:
        """Check everything, and normalise the values."""
        what = f"prefix field {key!r}"
        checked_name(what, key, SourceError, slash=True)
        if "=" in key or "|" in key:
            raise SourceError(f"{what}: a key has no '=' and no '|', which stand between fields")
        if column is not None and (not isinstance(column, str) or not column.strip()):
            raise SourceError(f"{what}: column={column!r}: give the name of a column of records")
        given = _values(what, values)
        if column is None and not given:
            raise SourceError(f"{what}: values={values!r} has no text; give one, or leave it out")
        if column is not None and given:
            raise SourceError(f"{what}: give values, or the column to take them from, not both")
        object.__setattr__(self, "key", " ".join(key.split()))
        object.__setattr__(self, "values", given)
        object.__setattr__(self, "presence", _probability(f"{what}: presence", presence))
        object.__setattr__(self, "column", None if column is None else column.strip())

    @classmethod
    def from_column(cls, name: str, presence: float = 1.0) -> Field:
        """Return a field named after a column."""
        name = name.strip() if isinstance(name, str) else name
        key = name.removeprefix(_META) if isinstance(name, str) else name
        return cls(key, presence=presence, column=name)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        held = {"values": list(self.values)} if self.column is None else {"column": self.column}
        return {"key": self.key, **held, "presence": self.presence}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Field:
        """Return the field that ``to_dict`` wrote, or a user put in a file.

        Raises:
            SourceError: A key is missing or unknown, or a value is wrong.
        """
        _check_keys("prefix field", parts, ("key", "values", "presence", "column"), ("key",))
        named = {name: parts[name] for name in ("presence", "column") if name in parts}
        return cls(parts["key"], parts.get("values") or (), **named)


@dataclass(frozen=True, slots=True)
class Prefix:
    """A metadata prefix: how often, and which fields.

    Attributes:
        probability: In [0,1], that a text has a prefix at all.
        variants: Lists of fields, of which each prefix draws one. A prefix whose fields are all
            absent is none.
    """

    probability: float
    variants: tuple[tuple[Field, ...], ...]

    def __init__(self, probability: float, variants: Sequence[Sequence[Field]]) -> None:
        """Check everything, and make tuples of the variants."""
        object.__setattr__(self, "probability", _probability("prefix: probability", probability))
        if isinstance(variants, str) or not isinstance(variants, Sequence) or not variants:
            raise SourceError(f"prefix: variants={variants!r}: give at least one list of fields")
        object.__setattr__(self, "variants", tuple(_variant(fields) for fields in variants))

    @classmethod
    def from_columns(
        cls, columns: str | Sequence[str], probability: float = DEFAULT_PROBABILITY
    ) -> Prefix:
        """Return a prefix whose fields are columns of each record.

        Args:
            columns: Their names, as a list or with commas between: ``"source, date"``.
            probability: That a text has a prefix.

        Raises:
            SourceError: A name is empty or comes twice.
        """
        names = columns.split(",") if isinstance(columns, str) else columns
        if not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
            raise SourceError(f"prefix={columns!r}: give names of columns, such as 'source, date'")
        if not names or not all(name.strip() for name in names):
            raise SourceError(
                f"prefix={columns!r}: a name is empty; give some as in 'source, date'"
            )
        return cls(probability, [[Field.from_column(name) for name in names]])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a record that fields read."""
        named = (field.column for variant in self.variants for field in variant)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, the form in which a corpus keeps it."""
        variants = [[field.to_dict() for field in fields] for fields in self.variants]
        return {"probability": self.probability, "variants": variants}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Prefix:
        """Return the prefix that ``to_dict`` wrote, or a user put in a file.

        Raises:
            SourceError: A key is missing or unknown, or a value is wrong.
        """
        names = ("probability", "variants")
        _check_keys("prefix", parts, names, names)
        variants = parts["variants"]
        if not isinstance(variants, list | tuple) or not all(
            isinstance(fields, list | tuple) for fields in variants
        ):
            raise SourceError(f"prefix: variants={variants!r}: give a list of lists of fields")
        return cls(parts["probability"], [[Field.from_dict(f) for f in v] for v in variants])


def prefix_of(given: Any) -> Prefix | None:
    """Return a prefix from a prefix, names of columns, plain values, or None."""
    if given is None or isinstance(given, Prefix):
        return given
    if isinstance(given, Mapping):
        return Prefix.from_dict(given)
    return Prefix.from_columns(given)


def meta_key(column: str) -> str | None:
    """Return the key of meta that a column stands for, or None."""
    return None if column in COLUMNS else column.removeprefix(_META)


def date_renderings(date: datetime.date) -> list[str]:
    """Return a date in six forms, or five if the month has no short name."""
    day, month, year = date.day, _MONTHS[date.month - 1], f"{date.year:04}"
    found = [
        f"{year}-{date.month:02}-{day:02}",
        f"{month[:3]}. {day}, {year}",
        f"{month} {day}, {year}",
        f"{day:02}.{date.month:02}.{year}",
        f"{date.month:02}/{day:02}/{year}",
        f"{month[:3]} {day}, {year}",
    ]
    return list(dict.fromkeys(found))


def _variant(fields: Any) -> tuple[Field, ...]:
    if isinstance(fields, Field):
        raise SourceError(
            f"prefix: a variant is a list of fields, not the field {fields.key!r} alone; "
            f"write [[Field(…), …]]"
        )
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not fields:
        raise SourceError(f"prefix: variant {fields!r}: give a list of at least one field")
    for field in fields:
        if not isinstance(field, Field):
            raise SourceError(f"prefix: {field!r} is no field; write Field(key, values)")
    keys = [field.key for field in fields]
    twice = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if twice:
        raise SourceError(
            f"prefix: a variant has the key {twice[0]!r} twice; give one field several values, or "
            f"make two variants"
        )
    return tuple(fields)


def _values(what: str, values: Any) -> tuple[str, ...]:
    given = [values] if isinstance(values, str) else values
    if not isinstance(given, Sequence) or not all(isinstance(value, str) for value in given):
        raise SourceError(f"{what}: values={values!r}: give one text, or a list of texts")
    plain = (" ".join(value.split()) for value in given)
    return tuple(dict.fromkeys(value for value in plain if value))


def _probability(what: str, value: Any) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= 1:
        return float(value)
    raise SourceError(f"{what}={value!r}: give a number from 0 to 1")


def _check_keys(what: str, parts: Any, known: Sequence[str], needed: Sequence[str]) -> None:
    if not isinstance(parts, Mapping):
        raise SourceError(f"{what}: {parts!r}: give an object with {', '.join(known)}")
    for name in parts:
        if name not in known:
            raise SourceError(
                f"{what}: no key {name!r}{nearest(str(name), known)}; there are {', '.join(known)}"
            )
    for name in needed:
        if name not in parts:
            raise SourceError(f"{what}: {dict(parts)!r} has no {name!r}")
