"""Do for blocks of texts what macros do text by text, where it is certain.

DuckDB decomposes every character of a text that is not ASCII: 8 µs for 280 bytes, and 1 here. The
table has only certain characters. The macro ``unaccented`` handles texts with other ones. Most
texts have single spaces: to find this out costs a twentieth of the macro ``single_spaced``.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Bytes, Flags, Integers

_BLOCK = 1 << 18  # bytes that are looked at together: temporary arrays stay in the cache
_FEW = 1000  # texts: for fewer the macro is faster than the table
_SAME, _UNSURE = 0, 0xFFFF
_END = 0x1FB00  # end of the table, which has the planes of most letters, and emoji
_PLANE = 0x10000
# Scripts whose marks stay, as in ``own_marks``, and parts of Hangul, which compose.
_SCRIPTS = (
    *((0x0700, 0x074F), (0x0780, 0x085F), (0x0900, 0x11FF), (0x1700, 0x1AAF), (0x1B00, 0x1C7F)),
    *((0x1CD0, 0x1CFF), (0x3040, 0x30FF), (0xA800, 0xAAFF), (0xABC0, 0xABFF), (0xD7B0, 0xDFFF)),
)


@cache
def _table() -> npt.NDArray[np.uint16]:
    """Return for each character the ASCII letter without accents, ``_SAME`` or ``_UNSURE``."""
    found = np.full(_END, _UNSURE, np.uint16)
    for code in (*range(0x80, _PLANE), *range(0x1F000, _END)):
        letter = unicodedata.normalize("NFD", character := chr(code))
        if unicodedata.category(character)[0] == "M" or unicodedata.category(character) == "Cn":
            continue
        if letter == character or 0xAC00 <= code <= 0xD7A3:
            found[code] = _SAME
        elif letter[0].isascii() and letter[0].isalpha():
            found[code] = ord(letter[0])
    for low, high in _SCRIPTS:
        found[low : high + 1] = _UNSURE
    return found


def unaccented(texts: pa.Array) -> pa.Array:
    """Return texts without accents, null for texts that the macro must handle."""
    offsets, data = _letters(texts)
    if len(texts) < _FEW or texts.null_count or data.max(initial=0) < 0xC0:
        return pa.nulls(len(texts), texts.type)
    rows = np.searchsorted(offsets, np.arange(0, len(data), _BLOCK))
    bounds = np.unique([0, *rows, len(texts)])  # of blocks of whole texts
    parts = [
        _unaccented(data[offsets[low] : offsets[high]], offsets[low : high + 1] - offsets[low])
        for low, high in pairwise(bounds.tolist())
    ]
    letters, sizes, valid = (np.concatenate(each) for each in zip(*parts, strict=True))
    buffers: Any = [
        pa.py_buffer(np.packbits(valid, bitorder="little")),
        pa.py_buffer(np.cumsum([0, *sizes], dtype=_offset_type(texts))),
        pa.py_buffer(letters),
    ]
    return pa.Array.from_buffers(texts.type, len(texts), buffers)


def _unaccented(data: Bytes, offsets: Integers) -> tuple[Bytes, Integers, Flags]:
    """Return the bytes without accents, the bytes of each text, and which texts are certain."""
    leads = np.flatnonzero(data >= 0xC0)
    codes, widths = _codes(data, leads)
    letters = np.where(codes < _END, _table()[np.minimum(codes, _END - 1)], _UNSURE)
    changed = (letters != _SAME) & (letters != _UNSURE)
    valid = np.ones(len(offsets) - 1, bool)
    valid[np.searchsorted(offsets, leads[letters == _UNSURE], side="right") - 1] = False
    places = [leads[changed & (widths > offset)] + offset for offset in (1, 2)]
    removed = np.sort(np.concatenate(places))
    result = data.copy()
    result[leads[changed]] = letters[changed]
    sizes = np.diff(offsets - np.searchsorted(removed, offsets))
    return np.delete(result, removed), sizes, valid


def odd_spaces(texts: pa.Array) -> pa.Array:
    """Return for each text whether ``single_spaced`` changes it."""
    offsets, data = _letters(texts)
    found = np.zeros(len(texts), bool)
    for low in range(0, len(data), _BLOCK):
        letters = data[low : low + _BLOCK + 1]
        odd = letters - np.uint8(0x09) < 5  # tab to carriage return
        space = letters == 0x20
        odd[:-1] |= space[:-1] & space[1:]
        # A text that ends with a space may count as odd: this costs time only.
        found[np.searchsorted(offsets, np.flatnonzero(odd) + low, side="right") - 1] = True
    return pa.array(found)


def _letters(texts: pa.Array) -> tuple[Integers, Bytes]:
    """Return the bytes of texts, and where each text begins and the last one ends in them."""
    _, places, buffer = texts.buffers()
    if places is None or buffer is None:
        return np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(places, _offset_type(texts))[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]]
    return offsets.astype(np.int64) - offsets[0], data


def _offset_type(texts: pa.Array) -> type[np.integer[Any]]:
    return np.int64 if pa.types.is_large_string(texts.type) else np.int32


def _codes(data: Bytes, leads: Integers) -> tuple[Integers, Integers]:
    """Return the character at each first byte, and its number of bytes."""
    first = data[leads].astype(np.int64)
    widths = 2 + (first >= 0xE0) + (first >= 0xF0)
    codes = first & np.array([0x1F, 0x0F, 0x07])[widths - 2]
    for offset in (1, 2, 3):
        has = widths > offset
        codes[has] = codes[has] << 6 | (data[leads[has] + offset] & 0x3F)
    return codes, widths
