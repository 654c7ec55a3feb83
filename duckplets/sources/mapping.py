"""Define the mapping that sources with columns share: arguments that say what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from duckplets.errors import SourceError
from duckplets.sources.converters.registry import Converter, converter_of
from duckplets.sources.mapping_checks import (
    LabelNames,
    OnBadDate,
    OnError,
    check_dates,
    check_labels,
    check_name,
    check_names,
    check_on_error,
    check_trust,
    label_rules,
    null_words,
)

Columns = str | Sequence[str] | None
TextOf = Literal["json"] | None
Turns = Literal["last", "each"]
EARLIER = "earlier"
"""The reading of versions before there was a rule: in place of a text anything is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The arguments common to the sources that have columns.

    Columns are matched exactly first, else whatever their case, else but for spaces around the
    name; where there is no column of the name it may be a path into a nested one, such as
    ``set.query`` or ``set.pos[0]``. Where several are given for ``anchor``, ``positive`` or
    ``text`` the first that has text in a row is taken. A text is a string; a list of strings is
    taken apart.
    """

    anchor: Columns = None
    """Column with the anchor text (or candidates, in order); of a list the first that has text."""
    positive: Columns = None
    """Column with the text that belongs to the anchor (or candidates, in order); a list gives one
    section per element."""
    context: Columns = None
    """Columns with further texts, all required but those with ``?`` behind the name
    (``"examples?"``), which a row may have none of; a list gives one section per element."""
    negative: Columns = None
    """Columns with ready negatives of the anchor, or lists of them: sections of role
    ``rejected``; a row may have none."""
    label: str | None = None
    """Column that judges the pair of anchor and positive: true, yes, 1, ``positive``,
    ``entailment``, ``duplicate`` or ``equivalent``; false, no, 0, ``negative``, ``contradiction``
    and those with ``not_`` before them, whatever their case; or any other number, a grade. A row
    without one is skipped, one with anything else fails."""
    labels: LabelNames = None
    """What the values of ``label`` mean, in place of that list: ``{"dup": 1, "other": 0}``, or as
    text ``"dup:1,other:0"``."""
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
    null_values: str | Sequence[str] = ()
    """Words for no value, such as ``("N/A", "nan", "NULL")``: a cell of a column that the mapping
    names, or a text of a list there, is null where it is such a word and spaces around it."""
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
    """Converter of instruction data, in place of texts: one of ``dp.converter_names()``, or a
    function of yours as ``module:function``, whose code then runs."""
    turns: Turns = "last"
    """Which replies of a conversation make a pair: the ``last``, whose anchor is all that was said
    before it; or ``each``, whose anchor is what the user said since the reply before. Each is a
    record then, ``ID#NUMBER``, in one group with the others of its conversation."""
    on_error: OnError | None = None
    """What becomes of a row that cannot be used, a malformed line too: an error that names it
    (``"raise"``, the default where there is a converter), a count in the report with the first
    such rows (``"skip"``, the default else), or that and a row of the table ``quarantine``."""

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_dates(self.date_format, self.on_bad_date)
        null_words(self.null_values)
        for part in (*ROLES, "taxonomy", "meta"):
            check_names(part, getattr(self, part))
        for part in ("sections", "id", "label", *_NAMED):
            check_name(part, getattr(self, part))
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
        check_labels(self.label, self.labels)
        if self.label is not None and not self._has_pairs():
            raise SourceError(
                f"label={self.label!r} judges the pair of an anchor and its positive: give anchor= "
                f"and positive= (or context=), or sections="
            )

    def _check_converter(self) -> None:
        if self.turns not in get_args(Turns):
            raise SourceError(f"turns={self.turns!r}: give 'last' or 'each'")
        if self.converter is None:
            if self.turns != "last":
                raise SourceError(f"turns={self.turns!r} needs converter=, which reads turns")
            return
        if not isinstance(self.converter, str):
            raise SourceError(f"converter={self.converter!r}: give the name of a converter")
        converter = converter_of(self.converter)
        if self.turns == "each" and (converter.ready or converter.rejected):
            raise SourceError(
                f"turns='each': converter {self.converter!r} makes one pair of a row; leave it out"
            )
        for part in TEXTS:
            if self.part(part):
                raise SourceError(
                    f"converter={self.converter!r} makes the texts itself: leave out {part}="
                )

    def _has_pairs(self) -> bool:
        """Return whether rows may have an anchor and a text that belongs to it.

        Where no text is named, rows may bring sections whole.
        """
        whole = self.converter is not None or self.sections is not None
        return whole or bool(self.positive or self.context) or not (self.anchor or self.text)

    def label_rules(self) -> tuple[tuple[str, float], ...]:
        """Return what the values of labels mean, folded; nothing where the list of all holds."""
        return label_rules(self.labels)

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
        if self.turns == "last":
            del found["turns"]
        found["null_values"] = list(null_words(self.null_values)) or None
        if self.labels is not None:
            found["labels"] = dict(self.label_rules())
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
PARTS = (*TEXTS, *_FEATURES, "created_at", "updated_at", "label")
_NAMED = ("date", "created_at", "updated_at", "group", "prefix")  # by one column
GIVEN = "given"
"""Part of records with keys of their own: which of their parts must not be blank, in one text."""

MARK = "not text"
"""The first key of the object in place of a value that JSON does not know; its value is one of
``MARKED``."""
MARKED = ("date", "UUID", "object")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
