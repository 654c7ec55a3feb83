"""Say what a set of vectors is, and check what is to go into one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckplets.base.arrays import Flags, Words
from duckplets.base.sanitize import counted, shown
from duckplets.db.queries import query
from duckplets.errors import VectorError

DType = Literal["float32", "float16"]
Matrix = npt.NDArray[np.floating[Any]]

_BYTES = 32 << 20  # of vectors that are read or written at once
_LEAST = 2048  # rows that DuckDB hands over at once
_MOST_DIMENSIONS = 65_536


@dataclass(frozen=True, slots=True)
class VectorSet:
    """A set of vectors, as of its last commit.

    Attributes:
        set_id: Its number in the file.
        name: Its name.
        dimension: Numbers of each vector.
        dtype: ``float32`` or ``float16``.
        made_by: What makes the vectors, as plain JSON.
        number: Of the last commit; 0 before the first.
        digest: Of all up to that commit; empty before the first.
        vectors: How many there are.
    """

    set_id: int
    name: str
    dimension: int
    dtype: DType
    made_by: Mapping[str, Any]
    number: int = 0
    digest: str = ""
    vectors: int = 0

    @property
    def numpy_type(self) -> np.dtype[Any]:
        """The type of its numbers, least byte first."""
        return np.dtype("<f2" if self.dtype == "float16" else "<f4")

    @property
    def rows_at_once(self) -> int:
        """How many of its vectors are read or written at once."""
        return max(_LEAST, _BYTES // (self.dimension * self.numpy_type.itemsize))


def of_set(statement: str, of: VectorSet) -> str:
    """Return a statement over the tables of a set."""
    return query(statement).replace("vectors_0", f"vectors_{of.set_id}")


def checked_matrix(
    of: VectorSet, hashes: Words, vectors: npt.ArrayLike, *, first_row: int = 0
) -> Matrix:
    """Return vectors as a matrix in the type of a set.

    Args:
        of: The set.
        hashes: Of the texts: shape (n,).
        vectors: Shape (n, dimension).
        first_row: The number of the first one, for messages.

    Raises:
        VectorError: They have another shape, are no numbers, or one is not finite.
    """
    try:
        matrix = np.asarray(vectors)
    except ValueError as error:  # rows of several lengths
        raise VectorError(f"vectors {of.name!r}: {shown(error)}") from error
    if matrix.dtype.kind not in "fiu":
        raise VectorError(
            f"vectors {of.name!r}: numbers are needed, and these are of type {matrix.dtype}"
        )
    if matrix.ndim != 2 or matrix.shape[1] != of.dimension:
        given = "×".join(map(str, matrix.shape))
        raise VectorError(
            f"vectors {of.name!r} have {of.dimension} dimensions, and these are an array of "
            f"{given}, from row {first_row} on: give (rows, {of.dimension})"
        )
    if len(matrix) != len(hashes):
        raise VectorError(
            f"vectors {of.name!r}: {counted(len(matrix), 'vector')} for "
            f"{counted(len(hashes), 'text')}"
        )
    with np.errstate(over="ignore"):
        made = matrix.astype(of.numpy_type, order="C", copy=False)
    finite = np.isfinite(made)
    if not finite.all():
        row, place = (int(at[0]) for at in np.nonzero(~finite))
        value = matrix[row, place]
        range_of = " (beyond the range of float16)" if np.isfinite(value) else ""
        raise VectorError(
            f"vectors {of.name!r}: row {first_row + row} has {value} as its number {place}"
            f"{range_of}; every number must be finite"
        )
    return cast(Matrix, made)


def contains(ascending: Words, hashes: Words) -> Flags:
    """Whether each hash is among ascending ones: shape (n,)."""
    if not len(ascending):
        return np.zeros(len(hashes), np.bool_)
    at = np.minimum(np.searchsorted(ascending, hashes), len(ascending) - 1)
    return cast(Flags, ascending[at] == hashes)


def merged(*parts: Words) -> Words:
    """Return hashes of several arrays, no two equal, in ascending order."""
    return np.sort(np.concatenate(parts), kind="stable")  # runs that ascend are merged


def words(hashes: Words) -> Words:
    """Return hashes as they are stored."""
    return np.ascontiguousarray(hashes, dtype=np.uint64)


def matrix_of(packed: pa.Array, of: VectorSet, path: Path) -> Matrix:
    """Return packed vectors as a matrix, without a copy."""
    width = of.dimension * of.numpy_type.itemsize
    wide = np.int64 if pa.types.is_large_binary(packed.type) else np.int32
    _, ends, data = packed.buffers()
    if len(packed) == 0 or ends is None or data is None:
        return np.zeros((0, of.dimension), of.numpy_type)
    starts = np.frombuffer(ends, wide)[packed.offset :][: len(packed) + 1]
    if (np.diff(starts) != width).any():
        raise VectorError(
            f"{path} is damaged: a vector of {of.name!r} has another length than {width} bytes; "
            f"put a copy of the file in its place, or remove the set and make it anew"
        )
    count = len(packed) * of.dimension
    flat = np.frombuffer(data, of.numpy_type, count, int(starts[0]))
    return cast(Matrix, flat.reshape(len(packed), of.dimension))


def checked_set(name: str, dimension: int, dtype: str, made_by: Mapping[str, Any]) -> VectorSet:
    """Return the set that is wanted, as it will be read again."""
    if dtype not in ("float32", "float16"):
        raise VectorError(f"dtype={shown(repr(dtype))}: give 'float32' or 'float16'")
    if not 1 <= dimension <= _MOST_DIMENSIONS:
        raise VectorError(f"a vector of {dimension:,} dimensions: 1 to {_MOST_DIMENSIONS:,} can be")
    try:
        plain = json.loads(json.dumps(dict(made_by), ensure_ascii=False))
    except (TypeError, ValueError) as error:
        raise VectorError(f"vectors {name!r}: what makes them is no JSON: {error}") from error
    return VectorSet(0, name, int(dimension), cast(DType, dtype), plain)


def refuse_other(found: VectorSet, wanted: VectorSet) -> None:
    """Refuse a set that is of another dimension, type or maker."""
    told = [
        f"{field} (there: {getattr(found, field)!r}, given: {getattr(wanted, field)!r})"
        for field in ("dimension", "dtype")
        if getattr(found, field) != getattr(wanted, field)
    ]
    told += [
        f"{key} (there: {shown(repr(found.made_by.get(key)), 100)}, given: "
        f"{shown(repr(wanted.made_by.get(key)), 100)})"
        for key in {**found.made_by, **wanted.made_by}
        if found.made_by.get(key) != wanted.made_by.get(key)
    ]
    if told:
        raise VectorError(
            f"vectors {found.name!r} are of another maker: {'; '.join(told)}. Give another name=, "
            f"or remove them first with corpus.remove_vectors({found.name!r})"
        )
