"""The mapping from columns to parts of records, shared by all sources with columns.

The dataclass ``Mapped`` is its only definition. Sources inherit it, files of sources and commands
read its fields, and ``described`` is stored.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from duckplets.base.sanitize import shown
from duckplets.base.settings import checked
from duckplets.errors import SourceError
from duckplets.sources.converters.registry import converter_of
from duckplets.sources.converters.turns import Converter

Columns = str | Sequence[str] | None
TextOf = Literal["json"] | None
Turns = Literal["last", "each"]
OnError = Literal["raise", "skip", "quarantine"]
OnBadDate = Literal["null", "fail"]

LabelNames = Mapping[str | bool | float, bool | float] | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The arguments common to the sources that have columns.

    A name matches a column exactly, or in another case, or without the spaces around it. If no
    column matches, the name may be a path into a nested column, such as ``set.query`` or
    ``set.pos[0]``. ``passages.text`` is the text of every object of a list. ``anchor``,
    ``positive`` and ``text`` take the first of their columns that has text in a row. A text is a
    string; a list of strings gives several texts.
    """

    anchor: Columns = None
    """Column with the anchor text (or candidates, in order); a list gives its first text."""
    positive: Columns = None
    """Column with the text that belongs to the anchor (or candidates, in order); a list gives one
    section per element."""
    context: Columns = None
    """Columns with further texts; a list gives one section per element. All are required, except
    columns with ``?`` after the name (``"examples?"``)."""
    negative: Columns = None
    """Columns with ready negatives of the anchor, or lists of them: sections of role
    ``rejected``; a row may have none."""
    label: str | None = None
    """Column with the label of the pair of anchor and positive. 1: true, yes, positive,
    entailment, duplicate or equivalent. 0: false, no, negative, contradiction, or one of these
    words after ``not_``. Any other number is a grade. Case does not matter. A row without a label
    is skipped, and a row with another value fails."""
    labels: LabelNames = None
    """Meaning of the values of ``label``, instead of this list: ``{"dup": 1, "other": 0}``, or as
    text ``"dup:1,other:0"``."""
    text: Columns = None
    """Column with the only text of the row (or candidates, in order), instead of an anchor."""
    sections: str | None = None
    """Column with whole sections, a list of ``{"role", "heading", "text"}``, with other columns or
    without. In JSON and dictionaries a key ``sections`` with such lists is used by default."""
    text_of: TextOf = None
    """How to handle numbers, booleans, maps, dates and mixed lists instead of texts. ``json``:
    take their JSON as text. Default: the row fails and is counted."""
    id: str | None = None
    """Column that identifies a row. Default: the content identifies it."""
    date: str | None = None
    """Column with a date: a DATE or TIMESTAMP, ISO text, or a number of seconds, milliseconds,
    microseconds or nanoseconds since 1970 (from 1973 on). The date is in the zone that is written
    there, or in the zone of an Arrow column. Default: UTC."""
    created_at: str | None = None
    """Column with the time the record was made: a timestamp or ISO text; UTC without a zone."""
    updated_at: str | None = None
    """Column with the time of the last change, in the same forms."""
    date_format: Columns = None
    """Form of dates, as in ``strptime`` (``"%d.%m.%Y"``), or several forms: the first that fits.
    ISO text is read too. A zone, ``%z``, is allowed at the end only."""
    on_bad_date: OnBadDate = "null"
    """How to handle a row whose date cannot be read. ``null``: store the record without a date,
    and count it. ``fail``: the row cannot be used. Default: ``null``."""
    null_values: str | Sequence[str] = ()
    """Words for no value, such as ``("N/A", "nan", "NULL")``. A cell of a mapped column, or a text
    in its list, is null if it is such a word, with or without spaces around it."""
    group: str | None = None
    """Column whose equal values keep rows in one split."""
    taxonomy: Columns = None
    """Columns with the row's categories, from broad to narrow; lists are spread."""
    meta: Columns = None
    """Columns stored as metadata."""
    trust: float | str | None = None
    """Trust in the source, from 0 to 1, or the column with the trust of each row."""
    prefix: str | None = None
    """Column with the record's own metadata prefix: a JSON object, or a ``dp.Prefix`` in memory."""
    converter: str | None = None
    """Converter of instruction data, instead of columns of texts: one of
    ``dp.plugins.converter_names()``, or your function as ``module:function``, whose code runs."""
    turns: Turns = "last"
    """Which replies of a conversation make a pair. ``last``: the last reply, with all turns before
    it as anchor. ``each``: the last reply before each next user turn, with the user turns since
    the previous pair as anchor. Each is a record ``ID#NUMBER`` then, in one group with the others
    of its conversation; turns in no pair are counted. Default: ``last``."""
    on_error: OnError | None = None
    """How to handle unusable rows and malformed lines. ``raise``: stop at the first. ``skip``:
    count them, and report the first. ``quarantine``: count them and store them in the table
    ``quarantine``. Default: ``raise`` with a converter, otherwise ``skip``."""

    are_own_keys: ClassVar[bool] = False
    is_raw: ClassVar[bool] = False  # opens into blocks of unmapped rows, with all columns

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_dates(self.date_format, self.on_bad_date)
        null_words(self.null_values)
        for part in (*ROLES, "taxonomy", "meta"):
            check_names(part, getattr(self, part))
        for part in ("sections", "id", "label", *_NAMED):
            check_name(part, getattr(self, part))
        checked("text_of", self.text_of, TextOf, SourceError)
        check_trust(self.trust)
        self._check_converter()
        if self.text is not None and (self.anchor is not None or self.positive is not None):
            raise SourceError("text= is for rows of one text: leave out anchor= and positive=")
        if self.positive is not None and self.anchor is None:
            raise SourceError("positive= needs anchor=; for rows of one text use text=")
        if self.negative is not None and self.anchor is None and self.sections is None:
            raise SourceError("negative= needs anchor=: a negative belongs to an anchor")
        if self.labels is not None and self.label is None:
            raise SourceError("labels= says what the values of a column mean: name it with label=")
        label_rules(self.labels)
        is_whole = self.converter is not None or self.sections is not None  # perhaps with pairs
        has_pairs = is_whole or bool(self.positive or self.context)
        if self.label is not None and not has_pairs and (self.anchor or self.text):
            raise SourceError(
                f"label={self.label!r} judges the pair of an anchor and its positive: give anchor= "
                f"and positive= (or context=), or sections="
            )

    def _check_converter(self) -> None:
        checked("turns", self.turns, Turns, SourceError)
        if self.converter is None:
            if self.turns != "last":
                raise SourceError(f"turns={self.turns!r} needs converter=, which reads turns")
            return
        if not isinstance(self.converter, str):
            raise SourceError(f"converter={self.converter!r}: give the name of a converter")
        converter = converter_of(self.converter)
        if self.turns == "each" and converter.makes_one:
            raise SourceError(
                f"turns='each': converter {self.converter!r} makes one pair of a row; leave it out"
            )
        for part in TEXTS:
            if self.part(part):
                raise SourceError(
                    f"converter={self.converter!r} makes the texts itself: leave out {part}="
                )

    def conversion(self) -> Converter | None:
        """Return the converter, or None."""
        return None if self.converter is None else converter_of(self.converter)

    def handling(self) -> OnError:
        """Return the rule for unusable rows."""
        return self.on_error or ("skip" if self.converter is None else "raise")

    def described(self) -> dict[str, Any]:
        """Return the reading as JSON values, without what is unset."""
        found = {part.name: _plain(getattr(self, part.name)) for part in fields(Mapped)}
        several = (*ROLES, "taxonomy", "meta", "date_format")
        found |= {part: list(self.part(part)) for part in several if found[part] is not None}
        if self.turns == "last":
            del found["turns"]
        found["null_values"] = list(null_words(self.null_values)) or None
        if self.labels is not None:
            found["labels"] = dict(label_rules(self.labels))
        others = ("on_error", "on_bad_date", "trust")
        return {n: v for n, v in found.items() if v is not None and n not in others}

    def part(self, part: str) -> tuple[str, ...]:
        """Return the columns of a part."""
        value = getattr(self, part)
        if isinstance(value, str):
            return (value,)
        return tuple(value) if isinstance(value, Sequence) else ()

    def names(self) -> tuple[str, ...]:
        """Return every column named, once, as spelled by the user."""
        return tuple(dict.fromkeys(name for part in PARTS for name in self.part(part)))

    def defaults(self) -> str | None:
        """Return the default recipes of converted rows; None if the roles tell."""
        if self.converter is None:
            return None
        return "pairs" if self.converter == "pair" else "roles"

    def read_settings(self) -> dict[str, Any]:
        """Return the JSON values that a cursor depends on."""
        others = {"on_error": self.handling(), "on_bad_date": self.on_bad_date}
        return self.described() | others | {"trust": self.trust}


ROLES = ("anchor", "positive", "context", "text", "negative")
TEXTS = (*ROLES, "sections")
_FEATURES = ("id", "date", "group", "taxonomy", "meta", "trust", "prefix")
PARTS = (*TEXTS, *_FEATURES, "created_at", "updated_at", "label")
_NAMED = ("date", "created_at", "updated_at", "group", "prefix")  # by one column


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


# -- checks ----------------------------------------------------------------------------------------

_FORM = re.compile(r"(?:[^%]|%-?[aAbBdfHIjmMpSyY%])*(?:%[zZ])?")


def check_trust(trust: float | str | None) -> None:
    """Refuse a trust that is neither a column nor a number from 0 to 1."""
    if trust is None or (isinstance(trust, str) and "\0" not in trust):
        return
    if not isinstance(trust, (int, float)) or not (math.isfinite(trust) and 0 <= trust <= 1):
        raise SourceError(f"trust={trust!r}: give a number from 0 to 1, or a column's name")


def check_on_error(on_error: object) -> None:
    """Refuse an unknown rule for unusable rows."""
    if on_error is not None:
        checked("on_error", on_error, OnError, SourceError)


def label_rules(labels: LabelNames) -> tuple[tuple[str, float], ...]:
    """Return numbers by label, trimmed and in lower case."""
    rules = dict(_named_labels(labels)) if isinstance(labels, str) else labels
    if rules is None:
        return ()
    if not isinstance(rules, Mapping) or not rules:
        raise SourceError(f"labels={labels!r}: give what each value means, as in {_LABELS_SHOWN}")
    found: dict[str, float] = {}
    for name, value in rules.items():
        is_name = isinstance(name, (str, bool, int, float)) and str(name).strip()
        if not is_name or not isinstance(value, (bool, int, float)) or not math.isfinite(value):
            raise SourceError(
                f"labels: {name!r} means {value!r}; give a number, or True and False, as in "
                f"{_LABELS_SHOWN}"
            )
        folded = str(name).strip().lower()
        if "\0" in folded or found.setdefault(folded, float(value)) != float(value):
            raise SourceError(f"labels: {name!r} is named twice, with different meanings")
    return tuple(sorted(found.items()))


_YES = ("true", "yes", "positive", "entailment", "duplicate", "equivalent")
_LABELS = dict.fromkeys(_YES, 1.0)
_LABELS |= dict.fromkeys(("false", "no", "negative", "contradiction"), 0.0)
_LABELS |= {f"{no}{name}": 0.0 for no in ("not_", "not ") for name in _YES[-3:]}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def label_number(text: str, rules: Mapping[str, float]) -> float | None:
    """Return the number of a label, or None if unknown."""
    folded = text.strip(" ").lower()
    number = float(folded) if _NUMBER.fullmatch(folded) else math.nan
    if not rules:
        found = _LABELS.get(folded, number)
        return found if math.isfinite(found) else None
    if folded in rules or number != number:
        return rules.get(folded)
    same = (v for name, v in rules.items() if _NUMBER.fullmatch(name) and float(name) == number)
    return next(same, None)


_LABELS_SHOWN = "labels={'duplicate': 1, 'other': 0} or labels='duplicate:1,other:0'"


def _named_labels(text: str) -> Iterator[tuple[str, float]]:
    for part in text.split(","):
        name, _, value = part.rpartition(":")
        try:
            yield name, float(value)
        except ValueError as error:
            raise SourceError(
                f"labels={text!r}: {part!r} is no name and number; {_LABELS_SHOWN}"
            ) from error


def check_dates(date_format: object, on_bad_date: object) -> None:
    """Refuse invalid date formats."""
    checked("on_bad_date", on_bad_date, OnBadDate, SourceError)
    forms = date_format if isinstance(date_format, (list, tuple)) else (date_format,)
    for form in forms if date_format is not None else ():
        if not isinstance(form, str) or "%" not in form or not _FORM.fullmatch(form):
            raise SourceError(
                f"date_format={form!r}: give a form of dates such as '%d.%m.%Y', made of %a %A %b "
                f"%B %d %f %H %I %j %m %M %p %S %y %Y, and at its end perhaps %z"
            )


def null_words(null_values: object) -> tuple[str, ...]:
    """Return the words for missing values, in order, stripped."""
    words = (null_values,) if isinstance(null_values, str) else null_values
    if not isinstance(words, (list, tuple)):
        raise SourceError(f"null_values={null_values!r}: give words, as in ('N/A', 'NULL')")
    for word in words:
        if not isinstance(word, str) or not word.strip() or "\0" in word:
            raise SourceError(
                f"null_values: {word!r} is no word; give some, as in ('N/A', 'NULL'); a blank is "
                f"no value anyway"
            )
    return tuple(sorted({word.strip(" ") for word in words}))


def check_name(part: str, name: object) -> None:
    """Refuse an invalid column name."""
    if name is not None and not _is_name(name):
        raise SourceError(f"{part}={name!r}: give the name of a column")


def check_names(part: str, names: object) -> None:
    """Refuse invalid column names."""
    if isinstance(names, (list, tuple)):
        if not names:
            raise SourceError(f"{part}=[]: name at least one column, or leave it out")
        for name in names:
            if not _is_name(name):
                raise SourceError(f"{part}={names!r}: {name!r} is not the name of a column")
    elif names is not None and not _is_name(names):
        raise SourceError(f"{part}={names!r}: give a column, or a list of columns")


def _is_name(name: object) -> bool:
    """Return whether it can be a column name: a NUL would end the SQL statement."""
    return isinstance(name, str) and bool(name) and "\0" not in name


# -- how a source is read --------------------------------------------------------------------------

Described = dict[str, Any]


def described(source: Any) -> Described | None:
    """Return a source's reading as JSON values; None if it has no description."""
    own = getattr(source, "described", None)
    found = own() if callable(own) else None
    return dict(found) if isinstance(found, Mapping) else None


_STORED = {"group": "group_key"} | {n: n for n in ("date", "taxonomy", "created_at", "updated_at")}


def names_kept(reading: Described | None) -> list[str] | None:
    """Return the names of stored fields of rows; None if rows choose them."""
    if not reading or not {*TEXTS, "titles", "converter"} & {*reading} or "sections" in reading:
        return None
    if "titles" in reading:
        return ["title", "body", "id", *_STORED.values()]
    found: list[str] = list(reading.get("meta", ()))
    if converter := reading.get("converter"):
        if ":" in converter:  # a function of the user chooses
            return None
        found += converter_of(converter).fields
    for part in ("anchor", "positive", "text"):
        found += reading.get(part, ())[:1]
    for part in ("context", "negative"):
        found += [name.removesuffix("?") for name in reading.get(part, ())]
    return [*found, "id", *(name for part, name in _STORED.items() if part in reading)]


def overriding(source: Any, on_error: OnError | None) -> Any:
    """Return a source with another rule for unusable rows; None keeps its own."""
    return source if on_error is None else changed(source, on_error=on_error)


def raw(source: Any) -> Any:
    """Return a copy of a source with columns that opens into blocks of unmapped rows."""
    made = copy.copy(source)
    kind = source.__class__
    raw_kind = type(kind.__name__, (kind,), {"__slots__": (), "is_raw": True})
    object.__setattr__(made, "__class__", raw_kind)
    return made


def changed(source: Any, **values: Any) -> Any:
    """Return a copy of a source with some values replaced, bypassing its checks."""
    made = copy.copy(source)
    for name, value in values.items():
        if hasattr(source, name):
            object.__setattr__(made, name, value)
    return made


def written(reading: Described | None) -> str:
    """Return a reading as text, to be compared with another."""
    if not reading:
        return "nothing mapped"
    bare = {n: v[0] if isinstance(v, list) and len(v) == 1 else v for n, v in reading.items()}
    pairs = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in bare.items())
    return shown(", ".join(pairs), 600)


def note_of(reading: Described) -> str:
    """Return a sentence on the texts of records."""
    if "titles" in reading:
        return ""  # the source's own notes name the anchors
    if "converter" in reading:
        pair = "a prompt is the anchor, its reply the context"
        if reading.get("turns") == "each":
            pair = "each reply is the context of a record, what the user said before it its anchor"
        return f"converter {reading['converter']}: {pair}"
    parts = [f"{part}: {_columns(part, reading[part])}" for part in ROLES if part in reading]
    if not parts:
        parts = ["records name their parts themselves: anchor, positive, context or text"]
    elif "anchor" not in reading:
        parts.append("no anchors: a sample's anchor and positive are of these texts")
    if "label" in reading:
        parts.append(f"label: {_columns('label', reading['label'])}")
    return "; ".join(parts)


def _columns(part: str, columns: Any) -> str:
    names = [shown(name, 80) for name in (columns if isinstance(columns, list) else [columns])]
    if len(names) == 1:
        return f"column {names[0]}"
    if part == "context":
        optional = "; optional with a ? behind" if any(n[-1] == "?" for n in names) else ""
        return f"columns {', '.join(names)}, all of them{optional}"
    return f"the first of columns {', '.join(names)} that has text"
