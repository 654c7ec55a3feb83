"""From the arguments of a mapping to errors that say what is wrong with them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from duckplets.errors import SourceError

OnError = Literal["raise", "skip", "quarantine"]
OnBadDate = Literal["null", "fail"]

LabelNames = Mapping[str | bool | float, bool | float] | str | None

_FORM = re.compile(r"(?:[^%]|%-?[aAbBdfHIjmMpSyY%])*(?:%[zZ])?")


def check_trust(trust: float | str | None) -> None:
    """Refuse a trust that is neither a column nor a number from 0 to 1.

    Raises:
        SourceError: It is neither.
    """
    if trust is None or (isinstance(trust, str) and "\0" not in trust):
        return
    if not isinstance(trust, (int, float)) or not (math.isfinite(trust) and 0 <= trust <= 1):
        raise SourceError(f"trust={trust!r}: give a number from 0 to 1, or a column's name")


def check_on_error(on_error: object) -> None:
    """Refuse what says nothing about rows that cannot be used.

    Raises:
        SourceError: It is neither None nor one of the choices.
    """
    if on_error is not None and on_error not in get_args(OnError):
        raise SourceError(f"on_error={on_error!r}: give one of {', '.join(get_args(OnError))}")


def check_labels(label: object, labels: LabelNames) -> None:
    """Refuse meanings of labels that name nothing.

    Raises:
        SourceError: There is no label, or they are no names with numbers.
    """
    if labels is None:
        return
    if label is None:
        raise SourceError("labels= says what the values of a column mean: name it with label=")
    label_rules(labels)


def label_rules(labels: LabelNames) -> tuple[tuple[str, float], ...]:
    """Return what values of labels mean: trimmed, in lower case, with their numbers.

    Raises:
        SourceError: They are no names with numbers, or none.
    """
    given = dict(_named_labels(labels)) if isinstance(labels, str) else labels
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not given:
        raise SourceError(f"labels={labels!r}: give what each value means, as in {_LABELS}")
    found: dict[str, float] = {}
    for name, value in given.items():
        is_name = isinstance(name, (str, bool, int, float)) and str(name).strip()
        if not is_name or not isinstance(value, (bool, int, float)) or not math.isfinite(value):
            raise SourceError(
                f"labels: {name!r} means {value!r}; give a number, or True and False, as in "
                f"{_LABELS}"
            )
        folded = str(name).strip().lower()
        if "\0" in folded or found.setdefault(folded, float(value)) != float(value):
            raise SourceError(f"labels: {name!r} is named twice, with different meanings")
    return tuple(sorted(found.items()))


_LABELS = "labels={'duplicate': 1, 'other': 0} or labels='duplicate:1,other:0'"


def _named_labels(text: str) -> Iterator[tuple[str, float]]:
    for part in text.split(","):
        name, _, value = part.rpartition(":")
        try:
            yield name, float(value)
        except ValueError as error:
            raise SourceError(
                f"labels={text!r}: {part!r} is no name and number; {_LABELS}"
            ) from error


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


def null_words(null_values: object) -> tuple[str, ...]:
    """Return the words that stand for no value, in order and without spaces around them.

    Raises:
        SourceError: They are neither a word nor several.
    """
    given = (null_values,) if isinstance(null_values, str) else null_values
    if not isinstance(given, (list, tuple)):
        raise SourceError(f"null_values={null_values!r}: give words, as in ('N/A', 'NULL')")
    for word in given:
        if not isinstance(word, str) or not word.strip() or "\0" in word:
            raise SourceError(
                f"null_values: {word!r} is no word; give some, as in ('N/A', 'NULL'); what is "
                f"blank is no value anyway"
            )
    return tuple(sorted({word.strip(" ") for word in given}))


def check_name(part: str, name: object) -> None:
    """Refuse what cannot name a column.

    Raises:
        SourceError: It is neither None nor such a name.
    """
    if name is not None and not _is_name(name):
        raise SourceError(f"{part}={name!r}: give the name of a column")


def check_names(part: str, names: object) -> None:
    """Refuse what names neither a column nor several.

    Raises:
        SourceError: It is neither None, nor a name, nor a list of at least one.
    """
    if isinstance(names, (list, tuple)):
        if not names:
            raise SourceError(f"{part}=[]: name at least one column, or leave it out")
        for name in names:
            if not _is_name(name):
                raise SourceError(f"{part}={names!r}: {name!r} is not the name of a column")
    elif names is not None and not _is_name(names):
        raise SourceError(f"{part}={names!r}: give a column, or a list of columns")


def _is_name(name: object) -> bool:
    """Whether it can name a column: a NUL would end the statement it is written into."""
    return isinstance(name, str) and bool(name) and "\0" not in name
