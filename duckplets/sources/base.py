"""Define what all sources share: the rows that they open into, the mapping of their columns.

A source opens into ``Rows``: Arrow batches of one schema, each row a record or a reason why not.
Those that have columns say with the arguments of ``Mapped`` what becomes of each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, get_args

import pyarrow as pa

from duckplets.base.plain import misfit
from duckplets.base.shown import listed
from duckplets.errors import SourceError, nearest
from duckplets.sources.converters.registry import Converter, converter_of
from duckplets.sources.field_paths import match, path_of

# -- rows -----------------------------------------------------------------------------------------

# A batch holds at most this much. 40 MB of text keeps reading a file of any size, hashing
# included, within a reader of 1 GB.
MAX_ROWS = 40_000
MAX_BYTES = 40 << 20

ROW_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),  # from 1, counted over all the files of the source
        ("key", pa.string()),  # the id column, else 16 hex digits of the content's SHA-256
        ("content_hash", pa.uint64()),  # the first 64 bits of the content's SHA-256
        (
            "sections",
            pa.list_(
                pa.struct([("role", pa.string()), ("heading", pa.string()), ("text", pa.string())])
            ),
        ),
        ("date", pa.date32()),
        ("group_key", pa.string()),
        ("taxonomy", pa.list_(pa.string())),
        ("meta", pa.map_(pa.string(), pa.string())),
        ("trust", pa.float64()),  # of a column or a folder; null where the source's own holds
        ("created_at", pa.timestamp("us")),
        ("updated_at", pa.timestamp("us")),
        ("skip", pa.string()),  # why this row cannot be a record
    ]
)

# What a batch may hold besides, all texts.
EXTRA_COLUMNS = {
    "messages": pa.string(),  # JSON list of messages; of a preference pair the chosen ones
    "rejected_messages": pa.string(),  # JSON list of messages
    "prefix": pa.string(),  # JSON definition of the record's own metadata prefix
    "quarantined": pa.string(),  # of a row with a skip: the row as JSON, to be set aside
    "complaint": pa.string(),  # of such a row: what is wrong, in more words than the skip has
    "value": pa.string(),  # of such a row, or of one with a note: what could not be read
    "note": pa.string(),  # what could not be read of a row that is a record without it
    "line": pa.int64(),  # of the file, from 1, where it has lines
    # And a dictionary of texts, ``file``: where the row stands.
}

DROPPED = "dropped by the source"
"""The reason for a row that its source itself left out."""

# The reasons for a skip that mean the input could not be read, rather than not be used.
UNREADABLE = frozenset(
    {
        *("ragged row", "bad quoting", "invalid UTF-8", "unreadable date", "binary file"),
        *("invalid JSON", "not an object", "empty file", "unreadable file", "unreadable folder"),
    }
)


def is_failure(reason: str) -> bool:
    """Return whether a reason means that a row could not be read, rather than not be used."""
    return reason in UNREADABLE or reason.startswith(("invalid ", "not text: ", "sections: "))


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between batches that reading can go on from.

    Attributes:
        cursor: Plain JSON values; given back to ``open_at`` it yields what comes after.
    """

    cursor: Any


def checked_cursor(cursor: Any, shape: Any, where: str) -> Any:
    """Return the cursor of a mark, None for the beginning, if it has the shape of its source's.

    Raises:
        SourceError: It was damaged, or made by another version.
    """
    wrong = "" if cursor is None else misfit(cursor, shape)
    if wrong:
        raise SourceError(
            f"{where}: the place where its unfinished ingest stopped is none: {wrong}; it is "
            f"damaged, or was made by another version; discard it with restart=True (--restart)"
        )
    return cursor


def _nothing() -> dict[str, int]:
    return {}


def _no_notes() -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an opened source.

    Attributes:
        batches: Batches of ``ROW_SCHEMA``, perhaps with some of ``EXTRA_COLUMNS``, in the order
            of the input; read once. A resumable source puts a ``Mark`` wherever it could go on:
            what came before is then stored for good.
        defaults: Which default recipes suit them: ``roles``, ``text``, ``dated``, ``pairs`` or
            ``ready`` (roles with ready negatives).
        total: How many rows there are, where that is cheap to know.
        rejected: After the last batch, counts by reason of input that never became a row. The
            built-in sources give every bad line or file a row with a ``skip``, so theirs is empty.
        notes: After the last batch, sentences on what was found and which choice was made.
    """

    batches: Iterator[pa.RecordBatch | Mark]
    defaults: str
    total: int | None = None
    rejected: Callable[[], dict[str, int]] = field(default=_nothing)
    notes: Callable[[], list[str]] = field(default=_no_notes)


# -- mapping --------------------------------------------------------------------------------------

Columns = str | Sequence[str] | None
OnError = Literal["raise", "skip", "quarantine"]
TextOf = Literal["json"] | None
EARLIER = "earlier"
"""The reading of versions before there was a rule: in place of a text anything is one."""
OnBadDate = Literal["null", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The arguments common to the sources that have columns.

    Columns are matched exactly first, else whatever their case; where there is no column of the
    name it may be a path into a nested one, such as ``set.query`` or ``set.pos[0]``. Where several
    are given for ``anchor``, ``positive`` or ``text`` the first that has text in a row is taken. A
    text is a string; a list of strings is taken apart.
    """

    anchor: Columns = None
    """Column with the anchor text (or candidates, in order); of a list the first that has text."""
    positive: Columns = None
    """Column with the text that belongs to the anchor (or candidates, in order); a list gives one
    section per element."""
    context: Columns = None
    """Columns with further texts, all required; a list gives one section per element."""
    negative: Columns = None
    """Columns with ready negatives of the anchor, or lists of them: sections of role
    ``rejected``; a row may have none."""
    text: Columns = None
    """Column with the only text of the row (or candidates, in order), instead of an anchor."""
    sections: str | None = None
    """Column with sections given whole, a list of ``{"role", "heading", "text"}``, besides other
    columns or instead of them. In JSON and dictionaries a key ``sections`` that holds such lists
    is one, unsaid."""
    text_of: TextOf = None
    """What becomes of numbers, booleans, maps, dates and mixed lists in place of texts: by default
    the row fails, counted; ``json`` takes their JSON as text."""
    id: str | None = None
    """Column that identifies a row; without one the content does."""
    date: str | None = None
    """Column with a date: a DATE or TIMESTAMP, or ISO text. Where a zone is written it is the date
    as written there (of Arrow's timestamps, in the column's zone); else that of UTC."""
    created_at: str | None = None
    """Column with the time the record was made: a timestamp or ISO text; UTC where no zone is
    written."""
    updated_at: str | None = None
    """Column with the time it was last changed, likewise."""
    date_format: Columns = None
    """How dates are written, as ``strptime`` has it (``"%d.%m.%Y"``), or several ways, the first
    that fits; ISO text is read besides. A zone, ``%z``, may stand at the end only."""
    on_bad_date: OnBadDate = "null"
    """What becomes of a row whose date cannot be read: a record without date, counted in the
    report, or (``"fail"``) a row that cannot be used."""
    group: str | None = None
    """Column whose equal values keep rows in one split."""
    taxonomy: Columns = None
    """Columns with the row's categories, from broad to narrow; lists are spread."""
    meta: Columns = None
    """Columns kept as metadata."""
    trust: float | str | None = None
    """Trust in the source, from 0 to 1, or the column that says it per row."""
    prefix: str | None = None
    """Column with the record's own metadata prefix: a JSON object, or a ``dp.Prefix`` in memory."""
    converter: str | None = None
    """Converter of instruction data, one of ``dp.converter_names()``, in place of texts."""
    on_error: OnError | None = None
    """What becomes of a row that cannot be used, a malformed line too: an error that names it
    (``"raise"``, the default where there is a converter), a count in the report with the first
    such rows (``"skip"``, the default else), or that and a row of the table ``quarantine``."""

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_dates(self.date_format, self.on_bad_date)
        for part in (*ROLES, "taxonomy", "meta"):
            _check_names(part, getattr(self, part))
        for part in ("sections", "id", "date", "created_at", "updated_at", "group", "prefix"):
            _check_name(part, getattr(self, part))
        if self.text_of not in (None, "json", EARLIER):
            raise SourceError(f"text_of={self.text_of!r}: give 'json', or leave it out")
        check_trust(self.trust)
        self._check_converter()
        if self.text is not None and (self.anchor is not None or self.positive is not None):
            raise SourceError("text= is for rows of one text: leave out anchor= and positive=")
        if self.positive is not None and self.anchor is None:
            raise SourceError("positive= needs anchor=; for rows of one text use text=")
        if self.negative is not None and self.anchor is None and self.sections is None:
            raise SourceError("negative= needs anchor=: it is what an anchor is told apart from")

    def _check_converter(self) -> None:
        if self.converter is None:
            return
        if not isinstance(self.converter, str):
            raise SourceError(f"converter={self.converter!r}: give the name of a converter")
        converter_of(self.converter)
        for part in TEXTS:
            if self.part(part):
                raise SourceError(
                    f"converter={self.converter!r} makes the texts itself: leave out {part}="
                )

    def conversion(self) -> Converter | None:
        """Return the converter, or None for rows that need none."""
        return None if self.converter is None else converter_of(self.converter)

    def needs_whole_rows(self) -> bool:
        """Return whether all columns are to be read, also those that play no part."""
        converter = self.conversion()
        by_function = converter is not None and converter.function is not None
        return by_function or self.handling() == "quarantine"

    def handling(self) -> OnError:
        """Return what becomes of rows that cannot be used."""
        return self.on_error or ("skip" if self.converter is None else "raise")

    def described(self) -> dict[str, Any]:
        """Return how rows are read as plain JSON values, without what is not set.

        Two readings with the same description make the same records of the same rows. What becomes
        of bad rows, and a trust, are no part of it.
        """
        found = {part.name: _plain(getattr(self, part.name)) for part in fields(Mapped)}
        several = (*ROLES, "taxonomy", "meta", "date_format")
        found |= {part: list(self.part(part)) for part in several if found[part] is not None}
        others = ("on_error", "on_bad_date", "trust")
        return {n: v for n, v in found.items() if v is not None and n not in others}

    def part(self, part: str) -> tuple[str, ...]:
        """Return the columns given for a part, none or more."""
        value = getattr(self, part)
        if isinstance(value, str):
            return (value,)
        return tuple(value) if isinstance(value, Sequence) else ()

    def names(self) -> tuple[str, ...]:
        """Return every column that the mapping names, once, as the user spelled it."""
        return tuple(dict.fromkeys(name for part in PARTS for name in self.part(part)))

    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the columns of every part, as a statement is compiled from them."""
        return tuple((part, self.part(part)) for part in PARTS)

    def defaults(self) -> str:
        """Return which default recipes suit these rows."""
        if self.converter is not None:
            return "pairs" if self.converter == "pair" else "roles"
        if self.part("negative"):
            return "ready"
        return "roles" if self.part("anchor") or self.part("sections") else "text"

    def as_before(self, described: dict[str, Any] | None) -> Self:
        """Return one that takes as text what one did that was described so.

        Args:
            described: None for one of a version before there was a rule: anything was a text.
        """
        before = EARLIER if described is None else described.get("text_of")
        if before != EARLIER or self.text_of is not None or self.converter is not None:
            return self
        made = copy(self)
        object.__setattr__(made, "text_of", EARLIER)
        return made


ROLES = ("anchor", "positive", "context", "text", "negative")
TEXTS = (*ROLES, "sections")
_FEATURES = ("id", "date", "group", "taxonomy", "meta", "trust", "prefix")
PARTS = (*TEXTS, *_FEATURES, "created_at", "updated_at")
GIVEN = "given"
"""Part of records with keys of their own: which of their parts must not be blank, in one text."""


MARK = "not text"
"""The first key of the object in place of a value that JSON does not know; its value is one of
``MARKED``."""
MARKED = ("date", "UUID", "object")


def require_texts(mapping: Mapped, columns: Sequence[str], where: str, kind: str) -> None:
    """Refuse a mapping that names no text, showing what there is to choose from.

    Raises:
        SourceError: Neither anchor, nor context, nor text is given, and no converter.
    """
    if mapping.converter is not None or any(mapping.part(part) for part in TEXTS):
        return
    first, second = (*columns, "title", "body")[:2] if len(columns) > 1 else ("title", "body")
    raise SourceError(
        f"{where}: say which columns hold the text, for example {kind}(…, anchor={first!r}, "
        f"positive={second!r}) or {kind}(…, text={second!r}); {there_are(columns)}"
    )


def resolve(mapping: Mapped, columns: Sequence[str], where: str) -> list[int]:
    """Return the place in ``columns`` of each of the mapping's names, then of what is converted.

    Raises:
        SourceError: A name fits no column, or more than one; a converter's field is not there.
    """
    named = [_place(name, columns, where) for name in mapping.names()]
    converter = mapping.conversion()
    if converter is None:
        return [*named, *range(len(columns))] if mapping.needs_whole_rows() else named
    for name in converter.needed:
        _place(name, columns, where)
    if mapping.needs_whole_rows():
        return [*named, *range(len(columns))]
    fields = [name for name in converter.fields if match(name, columns)]
    return [*named, *(_place(name, columns, where) for name in fields)]


def unknown(name: str, columns: Sequence[str], where: str) -> SourceError:
    """Return the error for a column that is not there."""
    return SourceError(f"{where}: no column {name!r}{nearest(name, columns)}; {there_are(columns)}")


def there_are(columns: Sequence[str]) -> str:
    """Return a sentence that lists the columns."""
    return f"its columns are: {listed(columns)}" if columns else "it has no columns"


def check_trust(trust: float | str | None) -> None:
    """Refuse a trust that is neither a column nor a number from 0 to 1.

    Raises:
        SourceError: It is neither.
    """
    if trust is None or (isinstance(trust, str) and "\0" not in trust):
        return
    if not isinstance(trust, (int, float)) or not (math.isfinite(trust) and 0 <= trust <= 1):
        raise SourceError(f"trust={trust!r}: give a number from 0 to 1, or a column's name")


_FORM = re.compile(r"(?:[^%]|%-?[aAbBdfHIjmMpSyY%])*(?:%[zZ])?")


def check_on_error(on_error: object) -> None:
    """Refuse what says nothing about rows that cannot be used.

    Raises:
        SourceError: It is neither None nor one of the choices.
    """
    if on_error is not None and on_error not in get_args(OnError):
        raise SourceError(f"on_error={on_error!r}: give one of {', '.join(get_args(OnError))}")


def check_dates(date_format: object, on_bad_date: object) -> None:
    """Refuse forms of dates that cannot be read by.

    Raises:
        SourceError: One is no form, or there is no such choice.
    """
    if on_bad_date not in get_args(OnBadDate):
        choices = ", ".join(get_args(OnBadDate))
        raise SourceError(f"on_bad_date={on_bad_date!r}: give one of {choices}")
    given = date_format if isinstance(date_format, (list, tuple)) else (date_format,)
    for form in given if date_format is not None else ():
        if not isinstance(form, str) or "%" not in form or not _FORM.fullmatch(form):
            raise SourceError(
                f"date_format={form!r}: give a form of dates such as '%d.%m.%Y', made of %a %A %b "
                f"%B %d %f %H %I %j %m %M %p %S %y %Y, and at its end perhaps %z"
            )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _place(name: str, columns: Sequence[str], where: str) -> int:
    places = match(name, columns)
    if not places and (path := path_of(name, columns)):
        return path[0]
    if not places:
        raise unknown(name, columns, where)
    if len(places) > 1:
        twins = listed(repr(columns[place]) for place in places)
        raise SourceError(f"{where}: column {name!r} could be any of {twins}; rename one")
    return places[0]


def _check_name(part: str, name: object) -> None:
    if name is not None and not _is_name(name):
        raise SourceError(f"{part}={name!r}: give the name of a column")


def _is_name(name: object) -> bool:
    """Whether it can name a column: a NUL would end the statement it is written into."""
    return isinstance(name, str) and bool(name) and "\0" not in name


def _check_names(part: str, names: object) -> None:
    if isinstance(names, (list, tuple)):
        if not names:
            raise SourceError(f"{part}=[]: name at least one column, or leave it out")
        for name in names:
            if not _is_name(name):
                raise SourceError(f"{part}={names!r}: {name!r} is not the name of a column")
    elif names is not None and not _is_name(names):
        raise SourceError(f"{part}={names!r}: give a column, or a list of columns")
