"""Make lines of JSON of records, where what is no text is told from what is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from duckplets.sources.mapping import MARK, PARTS, TEXTS, Mapped
from duckplets.text.prefix import Prefix


class JsonEncoder:
    """Makes lines of JSON of records, for a mapping.

    Dates, UUIDs and other objects are texts in JSON. Where a text is wanted an object that says
    what they are takes their place, as they are none.

    Args:
        mapping: Which key plays which part.
    """

    def __init__(self, mapping: Mapped) -> None:
        converter = mapping.conversion()
        texts = {head(name) for part in TEXTS for name in mapping.part(part)} | {"sections"}
        texts |= {head(name) for name in (converter.fields if converter else ())}
        others = {head(name) for part in PARTS if part not in TEXTS for name in mapping.part(part)}
        self._texts = frozenset() if mapping.text_of else frozenset(texts - others)
        self._odd = False
        self._encoder = _encoder(self._noted)

    def line(self, record: Any) -> bytes:
        """Return a record as a line of JSON in UTF-8; ``-`` for one that cannot be written."""
        self._odd = False
        made = _encoded(record, self._encoder)
        if not self._odd or not isinstance(record, Mapping):
            return made
        marked = {
            key: _marked(value) if isinstance(key, str) and head(key) in self._texts else value
            for key, value in record.items()
        }
        return _encoded(marked, self._encoder)

    def _noted(self, value: Any) -> Any:
        self._odd |= _kind(value) is not None
        return _as_json(value)


def head(name: str) -> str:
    """Return the beginning of a name up to where it may be a path, as names are compared."""
    return re.split(r"[.\[]", name, maxsplit=1)[0].casefold().removesuffix("?").strip()


def json_line(record: Any) -> bytes:
    """Return a record as a line of JSON in UTF-8; ``-`` for one that cannot be written."""
    return _encoded(record, _ENCODER)


def _encoded(record: Any, encoder: json.JSONEncoder) -> bytes:
    try:
        text = encoder.encode(record)
    except ValueError:  # NaN or an infinity, or a record that contains itself
        try:
            text = encoder.encode(_finite(record))
        except RecursionError:
            text = ""
    # A lone surrogate is no UTF-8: it goes on as it is, and the check of all text finds it.
    return text.encode("utf-8", "surrogatepass") or b"-"


def _marked(value: Any) -> Any:
    """Return a value with what JSON would make a text of as an object that says what it is."""
    kind = _kind(value)
    if kind == "number":
        return float(value)
    if kind is not None:
        return {MARK: kind, "value": _as_json(value)}
    if isinstance(value, Mapping):
        return {key: _marked(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _marked(value.tolist())
    return [_marked(item) for item in value] if isinstance(value, list | tuple) else value


def _kind(value: Any) -> str | None:
    """Return what a value is that is no text, though JSON knows nothing else for it."""
    if isinstance(value, _KNOWN) or hasattr(value, "tolist") or _is_missing(value):
        return None
    if isinstance(value, date | time | timedelta):
        return "date"
    if isinstance(value, Decimal):
        return "number"
    return "UUID" if isinstance(value, UUID) else "object"


def _is_missing(value: Any) -> bool:
    """Return whether a value is what pandas puts in empty cells."""
    return type(value).__name__ in ("NaTType", "NAType")


def _finite(value: Any) -> Any:
    """Return a value with None for numbers that are none: what pandas puts in empty cells."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _as_json(value: Any) -> Any:
    """Return what stands in JSON for a value that it does not know."""
    if _is_missing(value):
        return None
    if isinstance(value, date):  # datetimes are dates
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Prefix):
        return value.to_dict()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return _finite(value.tolist())
    return str(value)


def _encoder(default: Callable[[Any], Any]) -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, skipkeys=True, default=default, separators=(",", ":")
    )


_ENCODER = _encoder(_as_json)
_KNOWN = (
    str,
    int,
    float,
    bytes,
    bytearray,
    Mapping,
    list,
    tuple,
    set,
    frozenset,
    Prefix,
    type(None),
)
