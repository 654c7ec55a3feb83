"""The columns of a block of rows, and which of their texts are filled.

A column is a column of Arrow data, whose rows are not made, or a list of values of dictionaries. A
column with texts only is an array, read by kernels; any other is a list of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from duckplets.errors import DuckpletsError
from duckplets.sources.names import Steps, follow
from duckplets.sources.typed import BLOCK_BYTES, ArrowRows, class_name, values_of
from duckplets.sources.values import Fault, escaped, is_filled

TEXT = pa.string()
# The first two bytes of UTF-8 that white space beyond ASCII begins with, from U+1680 on.
_BLANKS = np.array([0xE19A, 0xE280, 0xE281, 0xE380])
_MOST = 2**31 - 1  # bytes of an array of texts


class Failed(Exception):  # noqa: N818 - the caller names the row
    """An object of a user failed in a row of a block."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class TooLarge(Exception):  # noqa: N818 - a part of the rows may do
    """The texts of a block fill more than a batch."""


def each(make: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """Return the result for each value; an error tells the place of its value."""
    found: list[Any] = []
    try:
        for value in values:
            found.append(make(value))
    except DuckpletsError:
        raise
    except Exception as error:
        raise Failed(len(found)) from error
    return found


def check_size(texts: Sequence[str | None], rows: int) -> None:
    """Refuse texts that are too large for one array; one row may fill a batch."""
    if sum(map(len, filter(None, texts))) > (2 * BLOCK_BYTES if rows > 1 else _MOST):
        raise TooLarge


def escaped_texts(values: Sequence[str | None]) -> pa.Array:
    """Return texts as an array, with invalid UTF-8 escaped."""
    try:
        return pa.array(values, TEXT)
    except UnicodeEncodeError:
        return pa.array([value and escaped(value) for value in values], TEXT)


def _array(values: list[Any]) -> pa.Array | list[Any]:
    """Return values as an array if all are texts, or lists of texts."""
    texts, kinds, kind = values, {*map(type, values)} - {type(None)}, TEXT
    if kinds == {list}:
        texts, kind = list(chain.from_iterable(filter(None, values))), pa.list_(TEXT)
        kinds = {*map(type, texts)} - {type(None)}
    if not kinds <= {str}:
        return values
    check_size(texts, len(values))
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return values


class RowColumns:
    """The values that dictionaries have."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.faults = {at: row for at, row in enumerate(rows) if type(row) is Fault}
        self.rows = rows
        if self.faults:  # with the known fields of unreadable rows
            self.rows = [(row.row or {}) if type(row) is Fault else row for row in rows]

    def values(self, key: Any, steps: Steps) -> list[Any]:
        """Return the values of a key, or of a path below it."""
        values = [row.get(key) for row in self.rows]
        return each(lambda value: follow(value, steps), values) if steps else values

    def column(self, key: Any, steps: Steps) -> pa.Array | list[Any]:
        """Return values, as an array if all are texts or lists of texts."""
        return _array(self.values(key, steps))


class ArrowColumns:
    """The columns of Arrow data."""

    def __init__(self, rows: ArrowRows) -> None:
        self.rows, self.faults = rows, dict[int, Fault]()
        self._named: dict[Any, Any] = dict(
            zip(rows.batch.schema.names, rows.batch.columns, strict=True)
        )
        wrong = np.zeros(len(rows), np.bool_)
        for name in rows.classes.keys() & self._named.keys():
            values, places = different(self._named[name])
            bad = list[list[Any]]([] for _ in values)
            found = [class_name(v, rows.classes[name], b) for v, b in zip(values, bad, strict=True)]
            wrong |= np.array(list(map(bool, bad)), np.bool_)[places]
            self._named[name] = _array([found[place] for place in places.tolist()])
        if wrong.any():
            odd = np.flatnonzero(wrong)
            self.faults = dict(zip(odd.tolist(), rows.at(odd), strict=True))

    def values(self, key: Any, steps: Steps) -> list[Any]:
        """Return the values of a column, or of a path below it."""
        found = self._named.get(key) if key in self._named else [None] * len(self.rows)
        values = found if isinstance(found, list) else values_of(found)
        return [follow(value, steps) for value in values] if steps else values

    def column(self, key: Any, steps: Steps) -> pa.Array | list[Any]:
        """Return a column; an array of any type where there is one."""
        is_there = not steps and key in self._named
        return self._named[key] if is_there else _array(self.values(key, steps))


def different(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct plain values of a column, and the place of each row's value."""
    if not isinstance(column, list) and _is_list(column.type):
        column = values_of(column)
    if isinstance(column, list):
        return column, np.arange(len(column))
    if pa.types.is_null(column.type):
        return [None], np.zeros(len(column), np.int64)
    if pa.types.is_dictionary(column.type):
        encoded = column.indices.dictionary_encode(null_encoding="encode")
        values = column.dictionary.take(encoded.dictionary)
    else:
        encoded = column.dictionary_encode(null_encoding="encode")
        values = encoded.dictionary
    return values_of(values), encoded.indices.to_numpy().astype(np.int64)


def strings(column: pa.Array | list[Any]) -> pa.Array | None:
    """Return a column of valid texts as such; None for any other."""
    if isinstance(column, list) or not _is_text(column.type):
        return None
    types = pa.types
    if types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        if (pc.sum(lengths).as_py() or 0) > (BLOCK_BYTES if len(column) > 1 else _MOST):
            raise TooLarge
        column = column.dictionary_decode()
    column = column if types.is_string(column.type) else column.cast(TEXT)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # invalid UTF-8
        return None
    return column


def listed_strings(column: pa.Array | list[Any]) -> tuple[pa.Array, NDArray[np.intp]] | None:
    """Return the valid texts of a column, which may be lists of texts, and the row of each."""
    if isinstance(column, list):
        return None
    rows = np.arange(len(column))
    if _is_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        rows, column = np.repeat(rows, lengths), column.flatten()
    texts = strings(column)
    return None if texts is None else (texts, rows)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))


def filled(texts: pa.Array) -> NDArray[np.bool_]:
    """Return which texts have more than white space, as ``is_filled`` says."""
    count = len(texts)
    _, ends, data = texts.buffers()
    if not count or data is None or not data.size:
        return np.zeros(count, np.bool_)
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + count + 1]
    letters = np.frombuffer(data, np.uint8)
    first = letters[np.minimum(offsets[:-1], len(letters) - 1)]
    there = offsets[1:] > offsets[:-1]
    there &= texts.is_valid().to_numpy(zero_copy_only=False)
    sure = (first > 0x20) & (first != 0x7F) & (first != 0xC2)
    if (first >= 0xE1).any():
        second = letters[np.minimum(offsets[:-1] + 1, len(letters) - 1)]
        sure &= ~np.isin(first.astype(np.int32) << 8 | second, _BLANKS)
    doubt = np.flatnonzero(there & ~sure)
    found: NDArray[np.bool_] = there & sure
    if len(doubt):
        found[doubt] = [is_filled(text) for text in texts.take(pa.array(doubt)).to_pylist()]
    return found
