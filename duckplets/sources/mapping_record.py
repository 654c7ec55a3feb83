"""Say how a source is read: as plain values that can be compared, in words, and otherwise."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from duckplets.base.sanitize import shown
from duckplets.sources.mapping_checks import OnError

Described = dict[str, Any]
_INNER = ("mapping", "source")  # attributes in which a source has what reads its rows


def described(source: Any) -> Described | None:
    """Return how a source's rows are read, as plain JSON values; None where it does not say."""
    own = getattr(source, "described", None)
    found = own() if callable(own) else None
    return dict(found) if isinstance(found, Mapping) else None


def overriding(source: Any, on_error: OnError | None) -> Any:
    """Return a source with another rule for rows that cannot be used; None leaves its own."""
    return source if on_error is None else _with(source, "on_error", on_error)


def as_before(source: Any, stored: Described | None) -> Any:
    """Return a source that makes the choices that were left to it as it was read before."""
    if callable(getattr(source, "as_before", None)):
        return source.as_before(stored)
    for name in _INNER:
        inner: Any = getattr(source, name, None)
        if callable(getattr(inner, "as_before", None)):
            before = inner.as_before(stored)
            return source if before is inner else _changed(source, name, before)
    return source


def _with(source: Any, name: str, value: Any) -> Any:
    """Return a source, or what reads rows within it, with another value."""
    if hasattr(source, name):
        return _changed(source, name, value)
    for inner in _INNER:
        if hasattr(getattr(source, inner, None), name):
            return _changed(source, inner, _changed(getattr(source, inner), name, value))
    return source


def _changed(source: Any, name: str, value: Any) -> Any:
    """Return a copy with another value: the checks of a whole source have been passed."""
    other = copy.copy(source)
    object.__setattr__(other, name, value)
    return other


def written(reading: Described | None) -> str:
    """Return a reading as it is shown beside another."""
    if not reading:
        return "nothing mapped"
    pairs = (f"{n}: {json.dumps(_bare(v), ensure_ascii=False)}" for n, v in reading.items())
    return shown(", ".join(pairs), 600)


def _bare(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def told(reading: Described) -> str:
    """Return in words what the texts of records are."""
    if "titles" in reading:
        return ""  # the source itself says which anchors it found
    if "converter" in reading:
        pair = "a prompt is the anchor, its reply the context"
        if reading.get("turns") == "each":
            pair = "each reply is the context of a record, what the user said before it its anchor"
        return f"converter {reading['converter']}: {pair}"
    parts = [f"{part}: {_columns(part, reading[part])}" for part in _TEXTS if part in reading]
    if not parts:
        parts = ["records name their parts themselves: anchor, positive, context or text"]
    elif "anchor" not in reading:
        parts.append("no anchors: a sample's anchor and positive are of these texts")
    if "label" in reading:
        parts.append(f"label: {_columns('label', reading['label'])}")
    return "; ".join(parts)


_TEXTS = ("anchor", "positive", "context", "text", "negative")


def _columns(part: str, given: Any) -> str:
    names = [shown(name, 80) for name in (given if isinstance(given, list) else [given])]
    if len(names) == 1:
        return f"column {names[0]}"
    if part == "context":
        but = " but those with a ? behind" if any(name[-1] == "?" for name in names) else ""
        return f"columns {', '.join(names)}, all of them{but}"
    return f"the first of columns {', '.join(names)} that has text"
