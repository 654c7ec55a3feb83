"""Find the keys of a mapping's parts in lines of JSON, and read their values as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.db.queries import query
from duckplets.errors import SourceError
from duckplets.sources.field_paths import (
    NAME,
    Steps,
    match,
    no_such_field,
    path_of,
    pointer,
    steps_of,
)
from duckplets.sources.limits import limits_of
from duckplets.sources.mapped_columns import check_optional, known_fields, several_fit, unknown
from duckplets.sources.mapping import PARTS, TEXTS, Mapped
from duckplets.sources.row_batches import result_of
from duckplets.sources.row_provenance import with_broken
from duckplets.sources.rows import LEFT_OUT

if TYPE_CHECKING:
    from duckplets.db.database import Database

_MOST_LISTED = 100  # fields that a message may choose from


def judged(reader: Database, tables: Iterable[pa.Table], where: str) -> Iterator[pa.Table]:
    """Yield the tables with a column that says what each line is."""
    for table in tables:
        kinds = result_of(reader, query("sources/lines/kinds"), table, where)
        yield table.append_column("kind", kinds["kind"])


class Keys:
    """The keys met so far, until every name of the mapping has been met.

    Lines need not have the same keys, so a name is matched when a key for it first appears, and
    is an error only when the whole input has none. A path is met when a row has what it leads to.

    Attributes:
        mapping: Which key plays which part; with the key ``sections`` where that was found.
        found: The key of each name met; of a path, that which it begins with.
        seen: All keys.
    """

    def __init__(self, reader: Database, mapping: Mapped, where: str) -> None:
        self._reader = reader
        self.mapping = mapping
        self._where = where
        self.found: dict[str, str] = {}
        self._fields = _fields(mapping)
        self.seen: list[str] = []
        self._nested: dict[str, list[str]] = {}  # of paths not met, the fields where they go astray

    def known(self) -> tuple[Mapped, dict[str, str], list[str]] | None:
        """Return what is known once every name has been met, so that it holds to the end."""
        if not self.seen or not all(name in self.found for name in self.mapping.names()):
            return None
        return self.mapping, self.found, self.seen

    def know(self, known: tuple[Mapped, dict[str, str], list[str]]) -> None:
        """Go on with what was known elsewhere."""
        self.mapping, self.found, self.seen = known

    def look_for_sections(self, table: pa.Table) -> None:
        """Take a key ``sections`` that holds sections given whole, where the mapping is silent."""
        mapping = self.mapping
        if mapping.converter is None and not mapping.part("sections"):
            values = {"pointers": ["/sections/0/role", "/sections/0/text"]}
            (there,) = self._ask("sources/lines/have", table, values)["found"].to_pylist()
            if there:
                given = {part.name: getattr(mapping, part.name) for part in fields(Mapped)}
                self.mapping = Mapped(**given | {"sections": "sections"})

    def learn(self, table: pa.Table) -> None:
        """Look for names not met yet among a table's keys."""
        # A converter's fields need not be in every input: the first lines show how they are spelt.
        if self.seen and all(name in self.found for name in self.mapping.names()):
            return
        limits = limits_of(self._reader)
        found = self._ask("sources/lines/keys", table, {"most": limits.columns + 1})
        self.seen = list(dict.fromkeys([*self.seen, *found["key"].to_pylist()]))
        if len(self.seen) > limits.columns:
            raise limits.exceeded(self._where, "its objects have more different keys", "columns")
        for name in (*self.mapping.names(), *self._fields):
            places = match(name, self.seen)
            if places and name not in self.found:
                self._learn_key(name, [self.seen[place] for place in places])
            elif name not in self.found and (path := path_of(name, self.seen)):
                self._learn_path(name, self.seen[path[0]], path[1], table)

    def values(self, table: pa.Table) -> pa.Table:
        """Return the values of a table's objects, one column for each name of the mapping."""
        from duckplets.sources.statement import elements_statement, text_places, values_statement

        self.learn(table)
        parts, text_of = self.mapping.parts(), self.mapping.text_of
        pointers = tuple(self._pointer(name) for name in self.mapping.names())
        converted = tuple(self._pointer(name) for name in self._fields)
        whole = self.mapping.needs_whole_rows()
        statement = values_statement(parts, pointers, converted, whole=whole, text_of=text_of)
        values = with_broken(result_of(self._reader, statement, table, self._where), table)
        values = self._telling(self._named(values), table)
        arrays = []
        for place in text_places(parts, text_of):
            kinds = values[f"k{place}"]
            if kinds.null_count == len(kinds):
                values = values.drop_columns([f"k{place}"])
            else:
                arrays.append(place)
        if not arrays:
            return values
        # A statement of its own again, and only where there is anything but texts.
        return result_of(self._reader, elements_statement(tuple(arrays)), values, self._where)

    def _named(self, values: pa.Table) -> pa.Table:
        """Return the values with the names of keys that end with ``?``, which are required."""
        for i, name in enumerate(self.mapping.names()):
            if name.endswith("?") and self.found.get(name) == name:
                field = pa.field(f"c{i}", values[f"c{i}"].type, metadata={NAME: name.encode()})
                at = values.schema.get_field_index(f"c{i}")
                values = values.set_column(at, field, values[f"c{i}"])
        return values

    def _telling(self, values: pa.Table, table: pa.Table) -> pa.Table:
        """Return the values with the keys that the mapping's converter does not read."""
        known = known_fields(self.mapping)
        if not known:
            return values
        told = self._ask("sources/lines/left_out", table, {"known": list(known)})[LEFT_OUT]
        places = np.searchsorted(table["row"].to_numpy(), values["row"].to_numpy())
        return values.append_column(LEFT_OUT, told.take(pa.array(places, pa.int64())))

    def check_parts(self) -> None:
        """Refuse a text or id none of whose columns is there at the start: a slip of the pen."""
        for part in (*TEXTS, "id"):
            names = self.mapping.part(part)
            if self.seen and names and not any(name in self.found for name in names):
                raise self._unknown(names[0])

    def check_all(self) -> Iterator[pa.RecordBatch]:
        """Refuse a name that nothing in the whole input matched; yields nothing."""
        for part in PARTS:
            for name in self.mapping.part(part):
                if self.seen and name not in self.found:
                    raise self._unknown(name)
        yield from ()

    def _learn_key(self, name: str, keys: Sequence[str]) -> None:
        if len(keys) > 1:
            raise several_fit(name, keys, self._where)
        if name in self.mapping.names():
            check_optional(self.mapping, name, keys[0], self.seen, self._where)
        self.found[name] = keys[0]

    def _learn_path(self, name: str, key: str, steps: Steps, table: pa.Table) -> None:
        """Find whether a row has what a path leads to, else which fields there are instead."""
        check_optional(self.mapping, name, key, self.seen, self._where)
        at = {"pointers": [pointer(key, steps)]}
        (is_there,) = self._ask("sources/lines/have", table, at)["found"].to_pylist()
        if is_there:
            self.found[name] = key
            return
        for length in range(len(steps) - 1, -1, -1):
            if not self._nested.get(name):
                above = {"pointer": pointer(key, steps[:length]), "most": _MOST_LISTED}
                there = self._ask("sources/lines/fields", table, above)["key"]
                self._nested[name] = there.to_pylist()

    def _pointer(self, name: str) -> str:
        key = self.found.get(name, name)
        return pointer(key, steps_of(name, key))

    def _unknown(self, name: str) -> SourceError:
        path = path_of(name, self.seen)
        if path is None:
            return unknown(name, self.seen, self._where)
        key = self.seen[path[0]]
        return no_such_field(name, self._nested.get(name, []), self._where, f"column {key!r}")

    def _ask(self, name: str, table: pa.Table, values: dict[str, Any]) -> pa.Table:
        return result_of(self._reader, query(name), table, self._where, values)


def _fields(mapping: Mapped) -> tuple[str, ...]:
    """Return the keys that a mapping's converter reads; a function reads whole objects."""
    converter = mapping.conversion()
    return () if converter is None or converter.function else tuple(converter.fields)
