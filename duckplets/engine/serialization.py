"""Send values to other processes and back, with Arrow and arrays in them that come well.

    value ─packed→ tables and arrays of Arrow as streams of their own ─sent→ unpacked

The decision that matters: a transport pickles, and of Arrow that takes too much along, and lays
arrays wherever they fall. So both are seen to here, for values as deep as a part has them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


class Packed(NamedTuple):
    """A table or an array of Arrow as a stream: pickled, a slice brings all it was cut from."""

    is_array: bool
    data: bytes


def packed(value: Any) -> Any:
    """Return a value as it is sent."""
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
    """Return a value that was sent, its arrays where processors like them.

    They come as views of all that was received, wherever they lie in it.
    """
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["ALIGNED"])
    if not isinstance(value, Packed):
        return _each(unpacked, value)
    table = pa.ipc.open_stream(value.data).read_all()
    return table["array"].combine_chunks() if value.is_array else table


def _each(done: Callable[[Any], Any], value: Any) -> Any:
    """Return a tuple, or a dataclass, of its own kind with what is done to each of its values."""
    if isinstance(value, tuple):
        made = tuple(map(done, value))
        if all(map(operator.is_, made, value)):
            return value
        return type(value)(*made) if hasattr(value, "_fields") else made
    if not is_dataclass(value) or isinstance(value, type):
        return value
    of = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    others = {name: new for name, each in of.items() if (new := done(each)) is not each}
    return replace(value, **others) if others else value
