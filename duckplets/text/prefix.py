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
from dataclasses import dataclass, field
from typing import Annotated, Any

from duckplets.base.settings import Bounds, Name, check, checked, from_plain
from duckplets.errors import SourceError

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

    key: Annotated[str, Name(slash=True)]
    values: str | Sequence[str] = ()
    presence: Annotated[float, Bounds(0, 1)] = 1.0
    column: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check everything, and normalise the values."""
        what = f"prefix field {self.key!r}"
        check(self, SourceError, what)
        given = (self.values,) if isinstance(self.values, str) else self.values
        plain = (" ".join(value.split()) for value in given)
        values = tuple(dict.fromkeys(value for value in plain if value))
        if "=" in self.key or "|" in self.key:
            raise SourceError(f"{what}: a key has no '=' and no '|', which stand between fields")
        if self.column is not None and not self.column.strip():
            raise SourceError(f"{what}: column={self.column!r}: give the name of a column")
        if self.column is None and not values:
            raise SourceError(f"{what}: values={given!r} has no text; give one, or leave it out")
        if self.column is not None and values:
            raise SourceError(f"{what}: give values, or the column to take them from, not both")
        object.__setattr__(self, "key", " ".join(self.key.split()))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "column", self.column and self.column.strip())

    @classmethod
    def from_column(cls, name: str, presence: float = 1.0) -> Field:
        """Return a field named after a column."""
        name = checked("column", name, str, SourceError, "prefix field").strip()
        return cls(name.removeprefix(_META), presence=presence, column=name)

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
        return from_plain(cls, parts, SourceError, "prefix field")


@dataclass(frozen=True, slots=True)
class Prefix:
    """A metadata prefix: how often, and which fields.

    Attributes:
        probability: In [0,1], that a text has a prefix at all.
        variants: Lists of fields, of which each prefix draws one. A prefix whose fields are all
            absent is none.
    """

    probability: Annotated[float, Bounds(0, 1)]
    variants: Sequence[Sequence[Field]]

    def __post_init__(self) -> None:
        """Check everything, and make tuples of the variants."""
        check(self, SourceError, "prefix")
        if not self.variants or not all(self.variants):
            raise SourceError(
                f"prefix: variants={self.variants!r}: give at least one list, with at least one "
                f"field in each"
            )
        for fields in self.variants:
            keys = [field.key for field in fields]
            twice = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
            if twice:
                raise SourceError(
                    f"prefix: a variant has the key {twice[0]!r} twice; give one field several "
                    f"values, or make two variants"
                )

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
        checked("prefix", names, Sequence[str], SourceError)
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
        if isinstance(parts, Mapping) and isinstance(given := parts.get("variants"), list | tuple):
            variants = [
                [Field.from_dict(each) for each in fields]
                if isinstance(fields, list | tuple)
                else fields
                for fields in given
            ]
            parts = {**parts, "variants": variants}
        return from_plain(cls, parts, SourceError, "prefix")


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
