"""Put the names of classes in the place of the integers of ClassLabel columns.

The names are in the schema of a Parquet or Arrow file, as ``datasets`` writes it, or in the
card. A column of text may hold the names themselves already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.documents import from_json
from duckplets.base.sanitize import shown
from duckplets.base.settings import misfit

Labels = dict[str, tuple[str, ...]]


def of_schema(schema: pa.Schema) -> Labels:
    """Return the names of the classes of a file's columns, by column."""
    try:
        info = from_json((schema.metadata or {})[b"huggingface"].decode())
    except (KeyError, ValueError):
        return {}
    if misfit(info, {"info": {"features": dict}}):
        return {}
    found = {name: _names(feature) for name, feature in info["info"]["features"].items()}
    return {name: names for name, names in found.items() if names}


def of_card(features: Any) -> Labels:
    """Return the names of the classes of the columns a card lists.

    Raises:
        ValueError: They are no list, or by what is no number.
    """
    found: Labels = {}
    for feature in features if isinstance(features, Sequence) else ():
        if not isinstance(feature, Mapping):
            continue
        kind = feature.get("dtype")
        for inner in ("sequence", "list"):
            kind = feature.get(inner) if kind is None else kind
        while isinstance(kind, Mapping) and "dtype" in kind:
            kind = kind["dtype"]
        if isinstance(kind, Mapping) and isinstance(kind.get("class_label"), Mapping):
            names = kind["class_label"].get("names") or []
            if isinstance(names, Mapping):
                names = [names[key] for key in sorted(names, key=lambda key: int(str(key)))]
            if not isinstance(names, list):
                raise ValueError(f"names of a class_label are {shown(repr(names), 80)}, no list")
            found[str(feature.get("name"))] = tuple(map(str, names))
    return {name: names for name, names in found.items() if names}


def of_features(features: Any) -> Labels:
    """Return the names of the classes of the columns of ``datasets.Features``."""
    found = {}
    for name, feature in (features or {}).items():
        while feature is not None and not hasattr(feature, "names") and hasattr(feature, "feature"):
            feature = feature.feature
        if type(feature).__name__ == "ClassLabel" and feature.names:
            found[name] = tuple(feature.names)
    return found


def _names(feature: Any) -> tuple[str, ...]:
    while isinstance(feature, (Mapping, list)):
        if isinstance(feature, list):
            feature = feature[0] if len(feature) == 1 else None
        elif feature.get("_type") == "ClassLabel":
            return tuple(map(str, feature.get("names") or ()))
        else:
            feature = feature.get("feature")
    return ()


def named(
    piece: pa.RecordBatch, names: Sequence[tuple[str, ...] | None], columns: Sequence[str]
) -> pa.RecordBatch:
    """Return a piece of input with the names of classes in place of their numbers.

    A number that stands for no class makes its row one to skip; -1 stands for none given.

    Args:
        piece: Columns ``c0, c1, …``, and perhaps ``fault``.
        names: For each of them the classes' names, or None.
        columns: For each of them its own name, for the reason of a skip.
    """
    for place, classes in enumerate(names):
        if classes is None:
            continue
        piece = _as_texts(piece, f"k{place}")
        for name in (f"c{place}", f"l{place}", f"e{place}"):
            if name in piece.schema.names:
                column, wrong = _named(piece.column(name), classes)
                at = piece.schema.get_field_index(name)
                piece = piece.set_column(at, piece.schema.field(at).with_type(column.type), column)
                piece = _with_faults(piece, wrong, f"unknown label: {columns[place]}")
    return piece


def _as_texts(piece: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return a piece in which the values of a column of kinds are texts, and lists of texts."""
    at = piece.schema.get_field_index(name)
    if at < 0:
        return piece
    is_list = pc.is_in(piece.column(at), pa.array(["ARRAY", "LIST"]))
    kinds = pc.if_else(is_list, pa.scalar("ARRAY"), pa.scalar(None, pa.string()))
    return piece.set_column(at, name, kinds)


def _named(column: pa.Array, classes: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
    """Return names for numbers, and which rows hold a number of no class."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values, wrong = _named(column.values, classes)
        made = type(column).from_arrays(column.offsets, values, mask=pc.is_null(column))
        rows = pc.list_parent_indices(made).filter(wrong.take(_flat_places(made)))
        return made, pc.is_in(pa.array(range(len(made)), rows.type), rows)
    if pa.types.is_integer(kind):
        return _numbered(column.cast(pa.int64()), classes)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _written(column, classes)
    return column, pa.array([False] * len(column))


def _flat_places(lists: pa.Array) -> pa.Array:
    """Return the places in ``values`` of what ``flatten`` would give."""
    whole = pa.array(range(len(lists.values)), pa.int64())
    return type(lists).from_arrays(lists.offsets, whole, mask=pc.is_null(lists)).flatten()


def _numbered(numbers: pa.Array, classes: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
    is_one = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(classes)))
    wrong = pc.fill_null(pc.and_(pc.invert(is_one), pc.not_equal(numbers, -1)), False)
    places = pc.if_else(is_one, numbers, pa.scalar(None, pa.int64()))
    return pa.array(classes, pa.string()).take(places), wrong


def _written(texts: pa.Array, classes: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
    """Return names for texts that are names already, or numbers."""
    is_name = pc.is_in(texts, pa.array(classes, texts.type))
    number = pc.match_substring_regex(texts, r"^\s*-?[0-9]{1,9}(\.0)?\s*$")
    digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"\.0$", "")
    none = pa.scalar(None, texts.type)
    named_, wrong = _numbered(pc.if_else(number, digits, none).cast(pa.int64()), classes)
    blank = pc.equal(pc.utf8_trim_whitespace(texts), "")
    plain = pc.or_(
        blank, pc.starts_with(texts, "[")
    )  # a list's elements are looked at by themselves
    odd = pc.invert(pc.or_(pc.or_(is_name, number), plain))
    wrong = pc.fill_null(pc.or_(pc.and_(wrong, pc.invert(is_name)), odd), False)
    return pc.if_else(pc.or_(is_name, plain), texts, named_.cast(texts.type)), wrong


def _with_faults(piece: pa.RecordBatch, wrong: pa.Array, reason: str) -> pa.RecordBatch:
    if not pc.any(wrong).as_py():
        return piece
    none = pa.scalar(None, pa.string())
    at = piece.schema.get_field_index("fault")
    before = piece.column(at) if at >= 0 else pa.nulls(piece.num_rows, pa.string())
    faults = pc.coalesce(before, pc.if_else(wrong, pa.scalar(reason), none))
    return (
        piece.set_column(at, "fault", faults) if at >= 0 else piece.append_column("fault", faults)
    )
