"""Define metadata prefixes, check them, and convert them to their stored form.

    dp.Prefix(0.5, [[dp.Field("source", "wiki"), dp.Field("date", ["2024-10-15", "Oct 15, 2024"])]])
    dp.Prefix.from_columns("source, date")

A prefix is a line such as ``meta: date=Oct 15, 2024 | source=wiki`` before a text. Its presence,
variant, fields, renderings and their order are drawn for every sample. So models learn no shortcut
from it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from duckplets.base.settings import Bounds, Name, check, checked, from_plain
from duckplets.errors import SourceError

DEFAULT_PROBABILITY = 0.5
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
        key: Text before the ``=``.
        values: One text, or several renderings of the same value. Each sample draws one. Runs of
            white space become one space; empty and repeated renderings are removed.
        presence: Probability, in [0,1], that a prefix has this field.
        column: Column of a record for the values, instead of ``values``: ``source``, ``date`` (in
            six renderings), ``group``, ``taxonomy`` (each level is a rendering), ``trust``, or a
            key of its meta. ``meta.KEY`` names a key that is also a column. The field is absent if
            the value of the record is empty.
    """

    key: Annotated[str, Name(slash=True)]
    values: str | Sequence[str] = ()
    presence: Annotated[float, Bounds(0, 1)] = 1.0
    column: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        name = f"prefix field {self.key!r}"
        check(self, SourceError, name)
        texts = (self.values,) if isinstance(self.values, str) else self.values
        plain = (" ".join(value.split()) for value in texts)
        values = tuple(dict.fromkeys(value for value in plain if value))
        if "=" in self.key or "|" in self.key:
            raise SourceError(f"{name}: a key has no '=' and no '|', the separators of fields")
        if self.column is not None and not self.column.strip():
            raise SourceError(f"{name}: column={self.column!r}: give the name of a column")
        if self.column is None and not values:
            raise SourceError(f"{name}: values={texts!r} has no text; give one, or omit the field")
        if self.column is not None and values:
            raise SourceError(f"{name}: give values or column, not both")
        object.__setattr__(self, "key", " ".join(self.key.split()))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "column", self.column and self.column.strip())

    @classmethod
    def from_column(cls, name: str, presence: float = 1.0) -> Field:
        """Return a field named after a column."""
        name = checked("column", name, str, SourceError, "prefix field").strip()
        return cls(name.removeprefix(_META), presence=presence, column=name)

    def to_dict(self) -> dict[str, Any]:
        """Return the field as plain values."""
        value = {"values": list(self.values)} if self.column is None else {"column": self.column}
        return {"key": self.key, **value, "presence": self.presence}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Field:
        """Return a field from plain values, as ``to_dict`` returns them.

        Raises:
            SourceError: A key is missing or unknown, or a value is wrong.
        """
        return from_plain(cls, parts, SourceError, "prefix field")


@dataclass(frozen=True, slots=True)
class Prefix:
    """A metadata prefix: its probability and its fields.

    Attributes:
        probability: Probability, in [0,1], that a text has a prefix.
        variants: Lists of fields. Each prefix draws one list. A prefix without fields is omitted.
    """

    probability: Annotated[float, Bounds(0, 1)]
    variants: Sequence[Sequence[Field]]

    def __post_init__(self) -> None:
        check(self, SourceError, "prefix")
        if not self.variants or not all(self.variants):
            raise SourceError(
                f"prefix: variants={self.variants!r}: give at least one list, with at least one "
                f"field in each"
            )
        for fields in self.variants:
            keys = [field.key for field in fields]
            repeated = [key for key in keys if keys.count(key) > 1]
            if repeated:
                raise SourceError(
                    f"prefix: a variant has the key {repeated[0]!r} twice; give one field several "
                    f"values, or make two variants"
                )

    @classmethod
    def from_columns(
        cls, columns: str | Sequence[str], probability: float = DEFAULT_PROBABILITY
    ) -> Prefix:
        """Return a prefix whose fields are columns of each record.

        Args:
            columns: Their names, as a list or with commas between: ``"source, date"``.
            probability: Probability that a text has a prefix.

        Raises:
            SourceError: A name is empty or repeated.
        """
        names = columns.split(",") if isinstance(columns, str) else columns
        checked("prefix", names, Sequence[str], SourceError)
        if not names or not all(name.strip() for name in names):
            raise SourceError(
                f"prefix={columns!r}: a name is empty; give names as in 'source, date'"
            )
        return cls(probability, [[Field.from_column(name) for name in names]])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a record that fields read."""
        names = (field.column for variant in self.variants for field in variant)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def to_dict(self) -> dict[str, Any]:
        """Return the prefix as plain values, as a corpus stores it."""
        variants = [[field.to_dict() for field in fields] for fields in self.variants]
        return {"probability": self.probability, "variants": variants}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Prefix:
        """Return a prefix from plain values, as ``to_dict`` returns them.

        Raises:
            SourceError: A key is missing or unknown, or a value is wrong.
        """
        return from_plain(cls, parts, SourceError, "prefix")


def prefix_of(value: Any) -> Prefix | None:
    """Return a prefix from a prefix, names of columns, plain values, or None."""
    if value is None or isinstance(value, Prefix):
        return value
    if isinstance(value, Mapping):
        return Prefix.from_dict(value)
    return Prefix.from_columns(value)


def meta_key(column: str) -> str | None:
    """Return the key of meta that a column name means, or None."""
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
