"""Read texts of records for gates and deduplication, and redact personal data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, Integers32, offsets, stretches
from duckplets.db.database import Database
from duckplets.ingest.preprocess import lists_like
from duckplets.ingest.records import commit_version
from duckplets.quality.pii import redacted
from duckplets.text.characters import bytes_of

_RECORDS = 16_384  # records whose texts are in memory at a time
_BYTES = 4 << 20  # bytes of texts compared together; one text may be longer
_BLANK_LINE = "\n\n"
_TEXT_COLUMNS = ("messages", "rejected_messages", "quarantined", "value", "complaint")


def joined(sections: pa.ListArray) -> pa.Array:
    """Return the text of every row, shape (rows,); null if it has none."""
    flat = sections.flatten()
    texts, roles = flat.field("text"), flat.field("role")
    is_used = pc.and_(pc.is_valid(texts), pc.fill_null(pc.not_equal(roles, "rejected"), True))
    owners = pc.list_parent_indices(sections).filter(is_used).to_numpy(zero_copy_only=False)
    counts = np.bincount(owners, minlength=len(sections))
    texts = texts if pc.all(is_used).as_py() else texts.filter(is_used)
    if (counts == 1).all():
        return texts
    lists = pa.ListArray.from_arrays(pa.array(offsets(counts, np.int32)), texts)
    return pc.if_else(pa.array(counts > 0), pc.binary_join(lists, _BLANK_LINE), None)


def digests_of(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return SHA-256 (binary) and UTF-8 bytes (int64) of texts, null for null."""
    # hashlib takes a fifth of the time of DuckDB's function.
    data, bounds = bytes_of(texts)
    view, sha256 = data.data, hashlib.sha256
    found = [sha256(view[i:j]).digest() for i, j in pairwise(bounds.tolist())]
    mask = pc.is_null(texts).to_numpy(zero_copy_only=False)
    return pa.array(found, pa.binary(), mask=mask), pa.array(np.diff(bounds), mask=mask)


def without_personal_data(batch: pa.RecordBatch, rows: Any, kinds: Sequence[str]) -> pa.RecordBatch:
    """Return a batch with all texts of some rows redacted, also originals and messages."""
    if not rows.any():
        return batch

    def redact(texts: pa.Array, mask: pa.Array) -> pa.Array:
        return pc.replace_with_mask(texts, mask, redacted(texts.filter(mask), kinds))

    names = batch.schema.names
    mask = pa.array(rows)
    for name in _TEXT_COLUMNS:
        if name in names:
            batch = batch.set_column(names.index(name), name, redact(batch[name], mask))
    sections = batch["sections"]
    owners = pc.list_parent_indices(sections).to_numpy(zero_copy_only=False)
    flat, mask = sections.flatten(), pa.array(rows[owners])
    fields = {field.name: flat.field(field.name) for field in flat.type}
    for name in fields.keys() & {"heading", "text", "original"}:
        fields[name] = redact(fields[name], mask)
    return batch.set_column(names.index("sections"), "sections", lists_like(sections, fields))


def hash_missing(database: Database) -> None:
    """Hash the texts of records without a hash, inside a transaction."""
    wanted = database.table("quality/intake/unhashed")
    for found, texts in texts_of(database, wanted["record_key"].to_numpy()):
        hashes = pa.table({"record_key": found, "digest": digests_of(texts)[0]})
        with database.registered(new_hashes=hashes):
            database.run("quality/intake/append_hashes")


def texts_of(database: Database, keys: Integers) -> Iterator[tuple[Integers, pa.Array]]:
    """Yield keys and texts of records with ascending keys, where there is a text."""
    for start in range(0, len(keys), _RECORDS):
        found, texts = _texts_at(database, keys[start : start + _RECORDS])
        if len(found):
            yield found, texts


def _texts_at(database: Database, keys: Integers) -> tuple[Integers, pa.Array]:
    span = {"low": int(keys[0]), "high": int(keys[-1])}
    with database.registered(wanted=pa.table({"record_key": keys})):
        rows = database.table("quality/texts/sections", span)
    owners = rows["record_key"].to_numpy()
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    texts = rows["text"].cast(pa.large_string()).combine_chunks()
    if len(firsts) < len(owners):
        starts = np.append(firsts, len(owners))
        lists = pa.LargeListArray.from_arrays(pa.array(starts), texts)
        texts = pc.binary_join(lists, pa.scalar(_BLANK_LINE, texts.type))
    return owners[firsts], texts


class LiveTexts(NamedTuple):
    """Records of a version with text, ordered by split, source_id and record_key."""

    # The first of several equal texts survives.

    database: Database
    version: int
    keys: Integers  # record_key of each place
    sizes: Integers  # bytes of its text
    sources: Integers32  # its source_id
    splits: Integers32  # number of its split in the argument ``splits``

    @classmethod
    def of(
        cls,
        database: Database,
        version: int,
        *,
        splits: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        without: str | None = None,
    ) -> LiveTexts:
        """Look up the records of a version, except the records of the source ``without``."""
        parameters = {"version": version, "splits": splits, "sources": sources, "without": without}
        found = database.table("quality/texts/places", parameters)
        return cls(database, version, *(column.to_numpy() for column in found.columns))

    def blocks(self) -> Iterator[tuple[Integers, pa.Array]]:
        """Yield the places and texts of all records, some megabytes at a time."""
        order = np.argsort(self.keys, kind="stable")
        for part in stretches(self.sizes[order], rows=_RECORDS, total=_BYTES):
            yield order[part], self.texts(order[part])

    def texts(self, places: Integers) -> pa.Array:
        """Return the texts of some records, in order of places."""
        order = np.argsort(self.keys[places])
        _, texts = _texts_at(self.database, self.keys[places][order])
        return texts.take(pa.array(np.argsort(order)))

    def record_ids(self, places: Integers) -> list[str]:
        """Return the ids of records."""
        requests = pa.table({"place": np.arange(len(places)), "record_key": self.keys[places]})
        with self.database.registered(requests=requests):
            found = self.database.table("quality/texts/record_ids")["record_id"]
        return list(found.to_pylist())

    def store(
        self,
        verb: str,
        statements: tuple[str, str],
        places: Integers,
        rows: pa.Table,
        action: str,
        settings: dict[str, Any],
        **names: str,
    ) -> int:
        """Store the rows that a verb found, and mark or remove the records; return the version."""
        database, version, (forget, store) = self.database, self.version, statements
        with database.transaction():
            if action == "mark":
                database.run(forget, {"version": version} | names)
            elif len(places):
                version += 1
                with database.registered(gone=pa.table({"record_key": self.keys[places]})):
                    database.run("quality/texts/remove", {"version": version})
                report = {"removed": len(places), "settings": names | settings}
                commit_version(database, version, verb, None, report)
            values = {"version": version, "action": action, "settings": json.dumps(settings)}
            with database.registered(incoming=rows):
                database.run(store, names | values)
        return version

    def by_source(self, places: Integers, name: str) -> list[dict[str, Any]]:
        """Count all records, and the records at places under ``name``, by source and split."""
        found = np.zeros(len(self.keys), np.bool_)
        found[places] = True
        seen = pa.table({"record_key": self.keys, "found": found})
        with self.database.registered(seen=seen):
            rows = self.database.table("quality/texts/by_source").to_pylist()
        return [{name if key == "found" else key: row[key] for key in row} for row in rows]
