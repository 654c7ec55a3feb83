"""Match names with columns, and follow paths such as ``set.pos[0]`` into nested ones.

    name ─path_of→ column, steps ─Paths.followed→ the values there, as a column of their own

A name is a path only where no column has that very name. Steps are exact: ``.name`` is a field
of a struct, a key of a map or of an object, ``[0]`` the first element of a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import listed, shown
from duckplets.errors import SourceError, nearest

Steps = tuple[str | int, ...]

NAME = b"name"
"""Key of a column's name in the input, among the metadata of a piece's field."""

KIND = b"kind"
"""Another: what its texts stand for, where they are none of their own, such as ``uuid``."""

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]")


def match(name: str, columns: Sequence[str]) -> list[int]:
    """Return the places of the columns a name fits: exactly, else whatever their case."""
    exact = [i for i, column in enumerate(columns) if column == name]
    folded = name.casefold()
    folded_alike = [i for i, column in enumerate(columns) if column.casefold() == folded]
    bare = name.strip()
    found = exact or folded_alike or [i for i, c in enumerate(columns) if c.strip() == bare != ""]
    return match(name[:-1], columns) if not found and name[:-1] and name[-1] == "?" else found


def is_optional(name: str, column: str) -> bool:
    """Return whether a name says that what it stands for may lack: ``q?`` for a column ``q``."""
    return name.endswith("?") and not column.endswith("?")


def path_of(name: str, columns: Sequence[str]) -> tuple[int, Steps] | None:
    """Return the place of the column that a path begins with, the longest, and its steps.

    A ``?`` at the end is none of it.

    None where it is no path into any of the columns.
    """
    name = name.removesuffix("?")
    for cut in range(len(name) - 1, 0, -1):
        if name[cut] in ".[":
            places, steps = match(name[:cut], columns), _steps(name[cut:])
            if steps and len(places) == 1:
                return places[0], steps
    return None


def steps_of(name: str, column: str) -> Steps:
    """Return the steps from a column to what a name of the mapping names; none if it is that."""
    if match(name, [column]):
        return ()
    found = path_of(name, [column])
    return found[1] if found else ()


def pointer(key: str, steps: Steps = ()) -> str:
    """Return the JSON pointer to a key of an object, and on from there."""
    parts = [str(part).replace("~", "~0").replace("/", "~1") for part in (key, *steps)]
    return "".join(f"/{part}" for part in parts)


def no_such_field(name: str, fields: Sequence[str], where: str, what: str) -> SourceError:
    """Return the error for a path that nothing has."""
    there = f"the fields of {what} are: {listed(fields)}" if fields else f"{what} has no fields"
    last = re.split(r"[.\[]", name)[-1].rstrip("]")
    return SourceError(f"{where}: no row has {shown(repr(name))}{nearest(last, fields)}; {there}")


class Paths:
    """The paths among a mapping's names, followed in tables of typed columns.

    Args:
        names: Of the mapping, for the columns ``c0, c1, …``.
        where: The input's name, for messages.
    """

    def __init__(self, names: Sequence[str], where: str) -> None:
        self._names, self._where = names, where
        self._columns: dict[str, tuple[str, list[str]]] = {}  # of each path, with its fields
        self._met: set[str] = set()
        self._whole = False  # whether the first row was among those seen

    def followed(self, table: pa.Table) -> pa.Table:
        """Return a table with the values at the ends of paths in place of their columns.

        Raises:
            SourceError: A struct has no field of a name, or what is no such thing is entered.
        """
        if "row" in table.column_names and table.num_rows:
            self._whole |= table["row"][0].as_py() == 1
        for i, name in enumerate(self._names):
            at = table.schema.get_field_index(f"c{i}")
            field = table.schema.field(at) if at >= 0 else None
            column = ((field.metadata or {}) if field else {}).get(NAME, b"").decode()
            steps = steps_of(name, column) if column else ()
            if field is None or not steps:
                continue
            values = table.column(at)
            for step in steps:
                values = self._step(values, step, name, column)
            if values.null_count < len(values):
                self._met.add(name)
            self._columns[name] = (column, _fields(field.type))
            named = pa.field(f"c{i}", values.type, metadata={NAME: name.removesuffix("?").encode()})
            table = table.set_column(at, named, values)
        return table

    def add(self, later: Paths) -> None:
        """Note what was met in the rows that follow those seen here."""
        self._columns |= later._columns
        self._met |= later._met

    def check(self) -> None:
        """Refuse a path that no row of the whole input had.

        Raises:
            SourceError: There is one.
        """
        for name, (column, fields) in self._columns.items():
            if self._whole and name not in self._met:
                raise no_such_field(name, fields, self._where, f"column {shown(repr(column))}")

    def _step(
        self, values: pa.ChunkedArray, step: str | int, name: str, column: str
    ) -> pa.ChunkedArray:
        kind = values.type
        what = f"column {shown(repr(column))}"
        if isinstance(step, int):
            if not _is_list(kind):
                raise no_such_field(name, _fields(kind), self._where, what)
            return _chunked(values, [_element(chunk, step) for chunk in values.chunks])
        if pa.types.is_map(kind):
            if not pa.types.is_string(kind.key_type) and not pa.types.is_large_string(
                kind.key_type
            ):
                raise no_such_field(name, [], self._where, what)
            key = pa.scalar(step, kind.key_type)
            return _chunked(values, [pc.map_lookup(part, key, "first") for part in values.chunks])
        fields = _fields(kind)
        if fields.count(step) != 1:
            raise no_such_field(name, fields, self._where, what)
        return pc.struct_field(values, fields.index(step))


def _steps(rest: str) -> Steps:
    """Return the steps that a text says; none where it is no such text."""
    found: list[str | int] = []
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            return ()
        found.append(step[1] if step[1] is not None else int(step[2]))
        at = step.end()
    return tuple(found)


def _fields(kind: pa.DataType) -> list[str]:
    return [part.name for part in kind] if pa.types.is_struct(kind) else []


def _is_list(kind: pa.DataType) -> bool:
    plain = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(plain or pa.types.is_fixed_size_list(kind))


def _element(lists: pa.Array, place: int) -> pa.Array:
    """Return the elements at a place of lists, null where a list has none there."""
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    starts = np.asarray(lists.offsets)[: len(lists)].astype(np.int64)
    return lists.values.take(pa.array(starts + place, pa.int64(), mask=lengths <= place))


def _chunked(values: pa.ChunkedArray, parts: list[pa.Array]) -> pa.ChunkedArray:
    if parts:
        return pa.chunked_array(parts)
    kind = values.type
    return pa.chunked_array([], kind.item_type if pa.types.is_map(kind) else kind.value_type)
