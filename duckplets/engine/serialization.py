"""Send values between processes, with Arrow data and arrays in a compact, aligned form."""

# Pickle would send the whole buffer of a slice of Arrow, and arrays would arrive unaligned.

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


class Packed(NamedTuple):
    """An Arrow table or array as an IPC stream."""

    is_array: bool
    data: bytes


def packed(value: Any) -> Any:
    """Return a value in the form for sending."""
    if isinstance(value, pa.Array):
        batch = pa.record_batch([value], ["array"])
        return Packed(True, _stream(pa.Table.from_batches([batch])))
    return Packed(False, _stream(value)) if isinstance(value, pa.Table) else _each(packed, value)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(value: Any) -> Any:
    """Return a received value, with its arrays aligned."""
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["ALIGNED"])
    if not isinstance(value, Packed):
        return _each(unpacked, value)
    table = pa.ipc.open_stream(value.data).read_all()
    return table["array"].combine_chunks() if value.is_array else table


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a tuple or dataclass with a function applied to each of its values."""
    if isinstance(value, tuple):
        results = tuple(map(function, value))
        if all(map(operator.is_, results, value)):
            return value
        return type(value)(*results) if hasattr(value, "_fields") else results
    if not is_dataclass(value) or isinstance(value, type):
        return value
    items = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    changed = {name: new for name, old in items.items() if (new := function(old)) is not old}
    return replace(value, **changed) if changed else value
