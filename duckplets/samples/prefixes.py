"""Show metadata before texts: draw the line of each text, and cut texts that become too long."""

# Presence, variant, fields, renderings and order are hashes of position and slot, each with a key.

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Flags, Integers, Integers32, Words
from duckplets.db.queries import query
from duckplets.errors import DamagedFileError
from duckplets.ingest.chunks import current_chunking
from duckplets.order.permute import below, hashed, key
from duckplets.text.prefix import date_renderings, meta_key
from duckplets.text.windows import with_lines

if TYPE_CHECKING:
    from duckplets.db.database import Database

META_TYPE = pa.map_(pa.string(), pa.list_(pa.string()))
_NONE, _OWN = -1, -2  # in place of a definition's number
_MOST_VALUES = 100_000  # distinct values of a column held in memory for all records
_MOST_CHARACTERS = 16 << 20


class Catalog(NamedTuple):
    """Definitions of prefixes; each list is the start of its elements in the next array."""

    prefixes: pa.Array  # nested, as read
    probabilities: Words  # in units of 2^-53, like presences
    variants: Integers  # first variant of every definition, and the end of the last
    fields: Integers  # first field of every variant, and the end of the last
    keys: pa.Array  # of every field
    presences: Words
    columns: Integers  # index in ``names`` of the column of every field, or -1
    values: pa.ListArray  # of every field
    names: list[str]  # columns of records


def _catalog(database: Database, stored: Sequence[str], records: Integers) -> Catalog:
    """Return the stored JSON definitions, then the records' own definitions."""
    written = {"number": np.arange(len(stored)), "definition": pa.array(stored, pa.string())}
    wanted = {"record_key": records}
    with database.registered(written=pa.table(written), wanted=pa.table(wanted)):
        prefixes = database.table("samples/prefixes/definitions")["prefix"].combine_chunks()
    variants, in_variants = _list(pc.struct_field(prefixes, "variants"))
    fields, members = _list(in_variants)
    keys, presences = (pc.struct_field(members, name) for name in ("key", "presence"))
    columns = pc.struct_field(members, "column").dictionary_encode()
    probabilities = pc.struct_field(prefixes, "probability")
    needed = (prefixes, probabilities, keys, presences)
    if any(array.null_count for array in needed) or not np.diff(variants).all():
        raise DamagedFileError(
            "table record_prefixes: a definition is damaged: it lacks a probability, a variant, or "
            "the key or presence of a field. Put an earlier copy of the file in its place"
        )
    numbers = columns.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Catalog(
        prefixes,
        _parts(probabilities),
        variants,
        fields,
        keys,
        _parts(presences),
        numbers,
        pc.struct_field(members, "values").cast(pa.list_(pa.string())),
        columns.dictionary.to_pylist(),
    )


def _list(lists: pa.Array) -> tuple[Integers, pa.Array]:
    """Return the start of every list among all elements, and the elements."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), lists.flatten()


def _parts(probabilities: pa.Array) -> Words:
    """Return probabilities in units of 2^-53."""
    words: Words = (probabilities.to_numpy(zero_copy_only=False) * float(1 << 53)).astype(np.uint64)
    return words


def _happens(words: Words, parts: Words) -> Flags:
    return (words >> np.uint64(11)) < parts


class Column(NamedTuple):
    """A column of records: the value of each by number, and the renderings of values."""

    codes: Integers32
    lists: pa.ListArray

    def of(self, records: Integers) -> Column:
        """Return the column of some records."""
        return Column(self.codes[records], self.lists)


def _whole_column(database: Database, name: str) -> Column | None:
    """Read a column of all records, by key; None if it has too many values."""
    if name == "taxonomy":
        return None
    keys, parts, seen = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], dict[str, int]()
    where = {"column": name, "key": meta_key(name) or ""}
    for batch in database.stream(query("samples/prefixes/values"), where):
        part = batch["value"].dictionary_encode()
        codes = [seen.setdefault(text, len(seen)) for text in part.dictionary.to_pylist()]
        if len(seen) > _MOST_VALUES or sum(map(len, seen)) > _MOST_CHARACTERS:
            return None
        keys.append(batch["record_key"].to_numpy())
        parts.append(np.array([*codes, -1], np.int32)[part.indices.fill_null(-1).to_numpy()])
    found = np.concatenate(keys)
    of_records = np.full(int(found.max(initial=0)) + 1, -1, np.int32)
    of_records[found] = np.concatenate(parts)
    return Column(of_records, _lists(name, [*seen, None]))  # last: no value


def _columns(database: Database, records: Integers, names: Sequence[str]) -> dict[str, Column]:
    keys, rows = np.unique(records, return_inverse=True)
    keys_of_meta = {name: found for name in names if (found := meta_key(name)) is not None}
    with database.registered(wanted=pa.table({"record_key": keys})):
        table = database.table("samples/prefixes/columns")
        if keys_of_meta:
            meta = database.table("samples/prefixes/meta")["meta"].combine_chunks()
    values = {name: pc.map_lookup(meta, found, "first") for name, found in keys_of_meta.items()}
    values |= {name: table[name] for name in names if name not in keys_of_meta}
    return {
        n: Column(rows.astype(np.int32), _lists(n, found.to_pylist()))
        for n, found in values.items()
    }


def _lists(name: str, values: Iterable[Any]) -> pa.ListArray:
    return pa.array([_renderings(name, value) for value in values], pa.list_(pa.string()))


def _renderings(name: str, value: Any) -> list[str]:
    """Return the renderings of a value, on one line; none if it is empty."""
    if name == "date":
        return _dates(value) if value else []
    plain = (" ".join(text.split()) for text in (value if name == "taxonomy" else [value]) if text)
    return [text for text in plain if text]


@lru_cache(maxsize=_MOST_VALUES)  # making them takes longer than everything else
def _dates(date: str) -> list[str]:
    return date_renderings(datetime.date.fromisoformat(date))


class Prefixed(NamedTuple):
    """The prefixes of a block's texts."""

    lines: pa.Array  # null for nothing
    meta: pa.Array | None  # declared keys and values of each text; None if not requested


class Prefixes:
    """The prefixes of a run; ``sources``: id and prefix JSON of every source with one."""

    def __init__(self, database: Database, sources: Sequence[tuple[int, str]], seed: int) -> None:
        names = ("shown", "variant", "presence", "rendering", "order")
        self._keys = {name: key(seed, "prefix", name) for name in names}
        self._given = [definition for _, definition in sources]
        self._catalog = _catalog(database, self._given, np.zeros(0, np.int64))
        self._by_record = _by_record(database, [source for source, _ in sources])
        self._columns = {name: _whole_column(database, name) for name in self._catalog.names}
        self._chunking = current_chunking(database)

    def before(
        self,
        database: Database,
        positions: Integers,
        texts: pa.Array,
        *,
        record_key: Integers,
        tokens: Integers,
        meta: bool,
    ) -> tuple[pa.Array, Prefixed]:
        """Return the texts of a block with their prefixes, slot by slot, and the prefixes."""
        which = self._by_record[record_key]
        having = np.flatnonzero(which != _NONE)
        catalog, which = self._catalog, which[having]
        if (own := which == _OWN).any():  # own definitions of records
            keys, numbers = np.unique(record_key[having][own], return_inverse=True)
            catalog, which[own] = _catalog(database, self._given, keys), len(self._given) + numbers
        slot, sample = np.divmod(having, len(positions))
        cells = positions[sample] * (len(texts) // len(positions)) + slot
        words = hashed(self._keys["shown"], cells)
        shown = np.flatnonzero(_happens(words, catalog.probabilities[which]))
        declared = None
        if meta:
            columns = self._values(database, record_key[having], catalog.names)
            declared = _spread(_declared(catalog, which, columns), having, len(texts), [])
        columns = self._values(database, record_key[having[shown]], catalog.names)
        drawn = self._lines(catalog, which[shown], cells[shown], columns)
        lines = _spread(drawn, having[shown], len(texts), None)
        texts, lines = with_lines(texts, lines, tokens, self._chunking)
        return texts, Prefixed(lines, declared)

    def _values(
        self, database: Database, records: Integers, names: Sequence[str]
    ) -> dict[str, Column]:
        whole = {name: self._columns.get(name) for name in names}
        others = [name for name, column in whole.items() if column is None]
        read = _columns(database, records, others) if others else {}
        return {n: column.of(records) if column else read[n] for n, column in whole.items()}

    def _lines(
        self, catalog: Catalog, which: Integers32, cells: Integers, columns: dict[str, Column]
    ) -> pa.Array:
        """Return the prefix line of each text; null if all fields are absent."""
        first = catalog.variants[which]
        words = hashed(self._keys["variant"], cells)
        variant = first + below(words, catalog.variants[which + 1] - first)
        first, end = catalog.fields[variant], catalog.fields[variant + 1]
        values = pa.concat_arrays([catalog.values, *(column.lists for column in columns.values())])
        starts = values.offsets.to_numpy()
        found = [(np.zeros(0, np.int64),) * 4]
        for number in range(int((end - first).max(initial=0))):
            text = np.flatnonzero(first + number < end)
            field = first[text] + number
            lists, base = field.copy(), len(catalog.values)  # columns come after
            for place, (codes, of_column) in enumerate(columns.values()):
                at = np.flatnonzero(catalog.columns[field] == place)
                lists[at] = base + codes[text[at]] % len(of_column)  # the last code may be -1
                base += len(of_column)
            start, count = starts[lists], starts[lists + 1] - starts[lists]
            words = hashed(self._keys["presence"], cells[text], number)
            there = np.flatnonzero(_happens(words, catalog.presences[field]) & (count > 0))
            text, field, cell = text[there], field[there], cells[text[there]]
            drawn = below(hashed(self._keys["rendering"], cell, number), count[there])
            order = hashed(self._keys["order"], cell, number)
            found.append((text, order.view(np.int64), field, start[there] + drawn))
        text, order, field, value = map(np.concatenate, zip(*found, strict=True))
        at = np.lexsort((order.view(np.uint64), text))
        shown = catalog.keys.take(field[at]), values.values.take(value[at])
        fields = pc.binary_join_element_wise(*shown, "=")
        counts = np.bincount(text, minlength=len(cells))
        edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        bodies = pc.binary_join(pa.ListArray.from_arrays(edges, fields), " | ")
        lines = pc.binary_join_element_wise("meta: ", bodies, "")
        return pc.if_else(counts > 0, lines, None)


def _declared(catalog: Catalog, which: Integers32, columns: dict[str, Column]) -> pa.Array:
    definitions = {n: catalog.prefixes[n].as_py()["variants"] for n in np.unique(which).tolist()}
    lists = [column.lists.to_pylist() for column in columns.values()]
    known: dict[tuple[int, ...], list[tuple[str, list[str]]]] = {}
    found = []
    for cell in zip(
        which.tolist(), *(column.codes.tolist() for column in columns.values()), strict=True
    ):
        if cell not in known:
            values = {
                n: texts[code] for n, texts, code in zip(columns, lists, cell[1:], strict=True)
            }
            merged: dict[str, dict[str, None]] = {}
            for field in chain(*definitions[cell[0]]):
                texts = field["values"] if field["column"] is None else values[field["column"]]
                merged.setdefault(field["key"], {}).update(dict.fromkeys(texts))
            known[cell] = [(name, [*texts]) for name, texts in merged.items() if texts]
        found.append(known[cell])
    return pa.array(found, META_TYPE)


def _spread(values: pa.Array, places: Integers, size: int, other: list[Any] | None) -> pa.Array:
    """Return values at their places among ``size``, and ``other`` elsewhere."""
    at = np.full(size, len(values), np.int64)
    at[places] = np.arange(len(places))
    return pa.concat_arrays([values, pa.array([other], values.type)]).take(pa.array(at))


def _by_record(database: Database, sources: Sequence[int]) -> Integers32:
    """Return the number of each record's definition, by record key."""
    rows = database.table("samples/prefixes/by_record")
    keys, source_ids = rows["record_key"].to_numpy(), rows["source_id"].to_numpy()
    numbers = np.full(int(source_ids.max(initial=max(sources, default=0))) + 1, _NONE, np.int32)
    numbers[list(sources)] = np.arange(len(sources))
    found = np.full(int(keys.max(initial=0)) + 1, _NONE, np.int32)
    own = rows["own"].combine_chunks().to_numpy(zero_copy_only=False)
    found[keys] = np.where(own, _OWN, numbers[source_ids])
    return found
