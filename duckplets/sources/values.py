"""Plain values of rows: what counts as text, and how other values are written.

A row is a dictionary of None, texts, numbers, booleans, lists and dictionaries. Any other value (a
date, a UUID, a decimal) is an ``Odd``: a text with its kind.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from duckplets.errors import SourceError
from duckplets.text.prefix import Prefix

_CONTROL = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")
_quoted = json.encoder.encode_basestring


class Odd(str):
    """The text of a value of another kind, such as a date, a UUID or a number."""

    __slots__ = ("day", "kind")
    day: str | None
    kind: str

    def __new__(cls, text: str, kind: str, day: str | None = None) -> Odd:
        """Set the kind of the value."""
        made = str.__new__(cls, text)
        made.kind, made.day = kind, day
        return made


class Fault(NamedTuple):
    """An unreadable row."""

    reason: str  # why
    value: str | None = None  # raw value, for people
    whole: str | None = None  # raw value as JSON
    row: dict[str, Any] | None = None  # its known fields

    @classmethod
    def of(cls, reason: str, text: str) -> Fault:
        """Return the fault of a row that is one text."""
        bare = escaped(text.rstrip("\r\n"))
        return cls(reason, bare, _quoted(bare))


def escaped(text: str) -> str:
    """Return a text with invalid UTF-8 bytes escaped."""
    return text.encode("utf-8", "surrogateescape_or_pass").decode("utf-8", "backslashreplace")


def _kept_bytes(error: UnicodeError) -> tuple[bytes, int]:
    """Restore undecodable bytes, and escape other lone surrogates."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    made = b""
    for letter in error.object[error.start : error.end]:
        code = ord(letter)
        byte = 0xDC80 <= code <= 0xDCFF
        made += bytes([code - 0xDC00]) if byte else b"\\u%04x" % code
    return made, error.end


codecs.register_error("surrogateescape_or_pass", _kept_bytes)


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_filled(text: str) -> bool:
    """Return whether a text has more than white space."""
    return text != "" and not text.isspace()


def texts_of(value: Any, *, as_json: bool = False) -> list[str] | Odd:
    """Return the texts of a value, or an ``Odd`` for any other value."""
    value = plain(value)
    if value is None or (isinstance(value, float) and value != value):
        return []
    if type(value) is str:
        return [value] if is_filled(value) else []
    if isinstance(value, bytes):
        return Odd("", "binary")
    if isinstance(value, list):
        there = [item for item in map(plain, value) if item is not None and item == item]
        if all(type(item) is str for item in there):
            return [text for text in there if is_filled(text)]
        return [json_text(value)] if as_json else Odd(json_text(value), "list")
    text = cell_text(value) or ""
    if as_json:
        return [text] if text else []
    if isinstance(value, Odd):
        return value
    kind = "boolean" if isinstance(value, bool) else "map" if isinstance(value, dict) else "number"
    return Odd(text, kind)


def cell_text(value: Any) -> str | None:
    """Return a value as one text; None for no value."""
    value = plain(value)
    if value is None or isinstance(value, bytes):
        return None
    if isinstance(value, float):
        return number_text(value) if value == value else None
    if isinstance(value, str):
        return value if is_filled(value) else None
    return json_text(value)


def items_of(value: Any) -> list[str]:
    """Return the elements of a list as texts, or a single value as one."""
    value = plain(value)
    several = value if isinstance(value, list) else [value]
    return [text for text in map(cell_text, several) if text is not None]


def identifier(value: Any) -> Any:
    """Return the value of an id column; a whole number is an integer, whatever its column."""
    value = plain(value)
    if type(value) is float or (type(value) is Odd and value.kind == "number"):
        number = Decimal(value)
        if number.is_finite() and abs(number) < _MOST_WHOLE and number == int(number):
            return int(number)
    return value


_MOST_WHOLE = 10**38  # as Arrow's decimals


def plain(value: Any) -> Any:
    """Return a user's value as a plain one; invalid UTF-8 stays bytes."""
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, str):  # of a class of its own: an Enum, NumPy's, BeautifulSoup's
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    if type(value).__name__ in ("NaTType", "NAType"):  # pandas' value for empty cells
        return None
    if isinstance(value, date):  # a datetime is a date
        return Odd(value.isoformat(), "date")
    if isinstance(value, time | timedelta):
        return Odd(str(value), "date")
    if isinstance(value, Decimal):
        return Odd(str(value), "number")
    if isinstance(value, UUID):
        return Odd(str(value), "UUID")
    if isinstance(value, Prefix):
        return value.to_dict()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if hasattr(value, "tolist"):  # NumPy numbers and arrays
        listed = value.tolist()
        return Odd(str(value), "number") if type(listed) is type(value) else plain(listed)
    return value if isinstance(value, (int, float)) else Odd(str(value), "object")


_PLAIN = frozenset({str, int, float, bool, list, dict, Odd})


def number_text(number: float) -> str:
    """Return a number as JSON, without an exponent from 1e-6 to 1e21."""
    text = repr(number)
    if "e" not in text:
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    digits, _, power = text.partition("e")
    if -7 < int(power) < 21:
        exact = format(Decimal(text), "f")
        return exact if "." in exact else f"{exact}.0"
    return f"{digits.removesuffix('.0')}e{int(power)}"


def json_text(value: Any) -> str:
    """Return a value as compact JSON; NaN is null, values unknown to JSON are texts."""
    if type(value) is str:
        return json_string(value)
    value = plain(value)
    if value is None or (isinstance(value, float) and value != value):
        return "null"
    if isinstance(value, Odd) and value.kind == "number":
        number = float(value)
        exact = number_text(number) if "e" in value else str(value)
        return exact if math.isfinite(number) else "null"
    if isinstance(value, bytes):
        return json_string(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number_text(value) if math.isfinite(value) else "null"
    if isinstance(value, dict):
        pairs = ((_key(key), item) for key, item in value.items())
        inner = (f"{json_string(key)}:{json_text(v)}" for key, v in pairs if key is not None)
        return f"{{{','.join(inner)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return json_string(value)


def _key(key: Any) -> str | None:
    """Return the key of an object; None if it cannot be written."""
    if isinstance(key, str):
        return key
    return cell_text(key) or "null" if isinstance(key, (int, float, type(None))) else None


def json_string(text: str) -> str:
    """Return a text as JSON, with upper-case escapes."""
    if _CONTROL.search(text) is None:
        return _quoted(text)
    parts = re.split(f"({_CONTROL.pattern})", text)
    made = (f"\\u{ord(p):04X}" if i % 2 else _quoted(p)[1:-1] for i, p in enumerate(parts))
    return f'"{"".join(made)}"'


Section = tuple[str, str | None, str]
"""Role, heading and text."""

_ROLES = ("anchor", "context", "rejected")


def sections_of(value: Any) -> tuple[list[Section], tuple[str, str] | None]:
    """Return the whole sections of a row, or their fault as reason and value."""
    value = plain(value)
    if value is None or (isinstance(value, str) and not is_filled(value)):
        return [], None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [], ("sections: not a list of sections", str(value)[:80])
    if not isinstance(value, list):
        return [], ("sections: not a list of sections", json_text(value)[:80])
    made: list[Section] = []
    for i, each in enumerate(value, 1):
        each = plain(each)
        each = each if isinstance(each, dict) else {}
        role, heading, text = (plain(each.get(key)) for key in ("role", "heading", "text"))
        place = f"section {i}, "
        if type(role) is not str or role not in _ROLES:
            value = f"{place}role: {json_text(role) if 'role' in each else 'missing'}"
            return [], ("sections: a role that is not anchor, context or rejected", value[:80])
        if heading is not None and type(heading) is not str:
            value = f"{place}heading: {json_text(heading)}"
            return [], ("sections: a heading that is not text", value[:80])
        if type(text) is not str and text not in (None, []):
            value = f"{place}text: {json_text(text)}"
            return [], ("sections: a text that is not text", value[:80])
        if isinstance(text, str) and is_filled(text):
            made.append((role, heading, text))
    return made, None


def own_meta(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the metadata of a record that names its parts, sorted."""
    meta = plain(row.get("meta"))
    named = meta if isinstance(meta, dict) or meta is None else {"meta": meta}
    pairs = {str(key): cell_text(value) for key, value in (named or {}).items()}
    return [(key, text) for key in sorted(pairs) if (text := pairs[key]) is not None]


def document(row: Mapping[str, Any]) -> str:
    """Return a row as JSON, whatever its texts contain."""
    text = json_text(dict(row))
    return text if is_utf8(text) else json_text(_escaped(dict(row)))


def _escaped(value: Any) -> Any:
    """Return a value with all texts writable."""
    if type(value) is str:
        return escaped(value)
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, (list, tuple)) else value


def unread(row: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    """Return the keys of a row with values that are not among the known ones, in lower case."""
    return [k for k, v in row.items() if v is not None and k.lower() not in known]


# -- values by their meaning; None without one ----------------------------------------------------

_ISO = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s?"
    r"(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?)?",
    re.ASCII,
)


@lru_cache(4_096)
def day_of(text: str | date) -> date | None:
    """Return the date at the start of ISO text, in the zone of the text."""
    if isinstance(text, date):
        return text
    try:
        bare = text.strip(" ")
        if _ISO.fullmatch(bare):
            return date.fromisoformat(bare[:10])
        moment = _of_epoch(bare)
        return moment and moment.date()
    except ValueError:  # no such day
        return None


@lru_cache(4_096)
def moment_of(text: str) -> datetime | None:
    """Return the time of ISO text in UTC; without a zone it is in UTC."""
    bare = text.strip(" ")
    found = _ISO.fullmatch(bare)
    if found is None:
        return _of_epoch(bare)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[:3])
    if minutes > 59 or seconds > 59 or (hours, minutes, seconds) > (24, 0, 0):
        return None
    micros = int((found[4] or "0")[:6].ljust(6, "0"))
    east = -1 if found[5] == "-" else 1
    zone = timedelta(hours=int(found[6] or 0), minutes=int(found[7] or 0)) * east
    try:
        day = datetime.fromisoformat(bare[:10])
        since = timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
        return day + since - zone
    except (ValueError, OverflowError):
        return None


_EPOCH = re.compile(r"(\d{9,19})(?:\.(\d+))?", re.ASCII)
_UNITS = {9: 0, 10: 0, 12: 3, 13: 3, 15: 6, 16: 6, 18: 9, 19: 9}  # by the number of digits


def _of_epoch(text: str) -> datetime | None:
    """Return the time of a number of seconds since 1970, or of milli-, micro- or nanoseconds."""
    found = _EPOCH.fullmatch(text)
    power = _UNITS.get(len(found[1])) if found else None
    if found is None or power is None:
        return None
    return datetime(1970, 1, 1) + timedelta(microseconds=int(found[1]) * 10**6 // 10**power)


def trust_of(text: str) -> float | None:
    """Return a trust from 0 to 1."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found <= 1 else None


@lru_cache(1_024)
def prefix_of(text: str) -> str | None:
    """Return the JSON definition of a prefix as compact text."""
    try:
        found = json.loads(text)
        Prefix.from_dict(found)
    except (ValueError, RecursionError, SourceError):
        return None
    return json_text(found)


BAD_DATE = "unreadable date"
Reading = tuple[Callable[[str], Any], str]
"""How the text of a part is read, and the reason if it has no meaning."""

TYPED: dict[str, Reading] = {
    "created_at": (moment_of, "unreadable created_at"),
    "updated_at": (moment_of, "unreadable updated_at"),
    "trust": (trust_of, "trust outside 0..1"),
    "prefix": (prefix_of, "unreadable prefix"),
    "date": (day_of, BAD_DATE),
}
