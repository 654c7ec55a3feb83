"""Find the places of texts in a Parquet file that can be read at random.

footer, page headers, lengths of values ─→ the first byte of each value

A PLAIN page without compression contains the bytes of every value after its length in four bytes.
A footer or a header is only a hint: readers compare the bytes at a place with the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from duckplets.base.arrays import Integers

_PLAIN = {"PLAIN", "RLE", "BIT_PACKED"}  # the latter two encode levels
_BYTES = 16 << 20  # of values that are decoded at a time
_LONGEST = 63  # bits of a number in a header
_V1, _V2 = 5, 8  # fields of a page header that describe a page of values


def column_of(file: pq.ParquetFile, name: str) -> int | None:
    """Return the index of a column of strings, at most one a row; None if it is of other kind."""
    for number in range(len(file.schema)):
        it = file.schema.column(number)
        if it.path == name and it.max_repetition_level == 0 and it.physical_type == "BYTE_ARRAY":
            return number
    return None


def is_plain(file: pq.ParquetFile, group: int, column: int) -> bool:
    """Return whether the footer declares a row group's column as plain."""
    chunk = file.metadata.row_group(group).column(column)
    return chunk.compression == "UNCOMPRESSED" and _PLAIN.issuperset(chunk.encodings)


def copied_bytes(file: pq.ParquetFile, names: list[str]) -> int:
    """Return the bytes of columns, decompressed, that cannot be read at random."""
    total = 0
    for name in names:
        column = column_of(file, name)
        for group in range(file.num_row_groups):
            columns = file.metadata.row_group(group)
            for number in range(columns.num_columns):
                path = columns.column(number).path_in_schema
                is_of = path == name if column is not None else path.startswith(f"{name}.")
                if is_of and (column is None or not is_plain(file, group, column)):
                    total += int(columns.column(number).total_uncompressed_size)
    return total


def places_of(file: pq.ParquetFile, group: int, column: int, data: pa.Buffer) -> Integers:
    """Return the first byte of each value of a row group's column: shape (rows,), -1 for null.

    ``data`` is the whole file. All places are -1 if the pages differ from their headers.
    """
    chunk = file.metadata.row_group(group).column(column)
    sizes = _sizes(file, group, file.schema.column(column).path)
    found = np.full(len(sizes), -1, np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    view, row, at = memoryview(data).cast("B"), 0, int(chunk.data_page_offset)
    end = at + int(chunk.total_compressed_size)
    try:
        while row < len(sizes):
            head, begin = _header(view, at)
            inner = head.get(_V1) or head[_V2]
            encoding = inner[2 if _V1 in head else 4]
            at, rows = begin + head[3], slice(row, row + inner[1])
            first = at - int(ends[rows.stop] - ends[row])
            if encoding or head[2] != head[3] or not (begin <= first and at <= end and inner[1]):
                raise ValueError
            found[rows] = first + ends[rows] - ends[row] + 4
            row = rows.stop
    except (IndexError, KeyError, ValueError, TypeError, RecursionError):
        return np.full(len(sizes), -1, np.int64)
    found[sizes == 0] = -1
    return found


def _sizes(file: pq.ParquetFile, group: int, name: str) -> Integers:
    """Return the bytes that each value takes, with its length; 0 for null."""
    metadata = file.metadata.row_group(group)
    rows = max(1, min(65_536, _BYTES * metadata.num_rows // max(metadata.total_byte_size, 1)))
    each = [np.zeros(0, np.int64)]
    for batch in file.iter_batches(rows, row_groups=[group], columns=[name]):
        texts = batch.column(0).cast(pa.large_string())  # columns may be read as dictionaries
        sizes = pc.add(pc.binary_length(texts), 4)
        each.append(sizes.fill_null(0).to_numpy())
    return np.concatenate(each)


def _header(data: memoryview, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page header, in Thrift's compact protocol, and where it ends."""

    def number() -> int:
        nonlocal at
        found = bits = 0
        while bits < _LONGEST:
            byte, at = data[at], at + 1
            found |= (byte & 127) << bits
            bits += 7
            if byte < 128:
                return found
        raise ValueError

    def signed() -> int:
        found = number()
        return (found >> 1) ^ -(found & 1)

    def value(kind: int) -> Any:
        nonlocal at
        if kind in (4, 5, 6):  # integers
            return signed()
        if kind == 12:  # struct
            return fields()
        if kind == 8:  # bytes
            size = number()
            at += size
        elif kind not in (1, 2):  # flags, which have no further byte
            raise ValueError
        return None

    def fields() -> dict[int, Any]:
        nonlocal at
        found, last = dict[int, Any](), 0
        while byte := data[at]:
            at += 1
            last = last + (byte >> 4) if byte >> 4 else signed()
            found[last] = value(byte & 15)
        at += 1
        return found

    return fields(), at
