"""Tell which rows are stored already, and append the others as records to one source.

    ids ─hash─→ held in memory? ─no→ all are new
                                └yes→ SQL compares them with the records of those keys
    new rows ─→ records, sections, chunks, messages, prefixes

In a large transaction SQL compared a batch with all ids of 3M records in half a second, for it
reads again what the transaction has written: of an ingest of 10M that was half of the time. The
first batches are compared that way, for there may be few. Then the hashes of all stored ids are
read, 12 bytes each, and sorted; those of later batches are sorted runs, joined as in a
log-structured merge tree. A hash only says where to look: what is the same, SQL decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.db.database import Database
from duckplets.errors import SourceError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest.chunks import SectionWriter, current_chunking, next_keys, sliced
from duckplets.ingest.external_text import Placing
from duckplets.text.chunking import Chunking

_COLUMNS = (
    *("date", "group_key", "taxonomy", "meta"),
    *("trust", "content_hash", "created_at", "updated_at"),
)

HELD = 2**27  # records, 12 bytes each: 1.6 GB, where a corpus takes 86
# Of a million records, reading all hashes took as long as SQL took to compare an eighth of as many
# rows; a thirtieth, where its own transaction had written them.
_WORTH = 16
_ENDLESS = 2**63 - 1


class _Run(NamedTuple):
    """Hashes in order, those that are equal by key, and the keys of their records; shape (n,)."""

    hashes: Words
    keys: npt.NDArray[np.uint32]


class HeldHashes:
    """The hashes of ids, to find the keys of the records that may have one of some ids.

    Args:
        most: Records of this key and later ones are not held: they may have any id. At most 2**32.
        next_key: Greater than those of all records that there are.
    """

    def __init__(self, most: int, next_key: int = 0) -> None:
        self._most = most
        self._runs: list[_Run] = []
        self._some_are_not = next_key > most

    def add(self, hashes: Words, keys: Integers) -> None:
        """Take in the ids of records.

        Args:
            hashes: Of their ids.
            keys: Theirs, ascending, and greater than those before; of the same shape (n,).
        """
        held = int(np.searchsorted(keys, self._most))
        self._some_are_not |= held < len(keys)
        if not held:
            return
        self._runs.append(_sorted(hashes[:held], keys[:held].astype(np.uint32)))
        while len(self._runs) > 1 and len(self._runs[-2].keys) <= 2 * len(self._runs[-1].keys):
            newer, older = self._runs.pop(), self._runs.pop()
            hashes = np.concatenate([older.hashes, newer.hashes])
            self._runs.append(_sorted(hashes, np.concatenate([older.keys, newer.keys])))

    def between(self, hashes: Words) -> tuple[int, int] | None:
        """Return two keys between which, both included, all records lie that may have such an id.

        Args:
            hashes: Of the ids; shape (n,).

        Returns:
            None if there is no such record.
        """
        hashes = np.sort(hashes)
        least, greatest = (self._most, _ENDLESS) if self._some_are_not else (_ENDLESS, -1)
        for run in self._runs:
            first = np.searchsorted(run.hashes, hashes)
            first[first == len(run.hashes)] = 0
            is_there = run.hashes[first] == hashes
            if is_there.any():
                last = np.searchsorted(run.hashes, hashes[is_there], side="right") - 1
                least = min(least, int(run.keys[first[is_there]].min()))
                greatest = max(greatest, int(run.keys[last].max()))
        return None if least > greatest else (least, greatest)


class KnownIds:
    """The ids that are stored, and those that an ingest adds.

    Args:
        database: The corpus; methods run inside a transaction.
        unpublished: The version that marks records of the same ingest not yet seen, or None.
        next_key: Of the first record that the ingest adds.
    """

    def __init__(self, database: Database, unpublished: int | None, next_key: int) -> None:
        self._database, self._unpublished = database, unpublished
        self._few = next_key // _WORTH  # rows up to which SQL compares with all ids
        self._rows = 0
        self._held: HeldHashes | None = None
        self._hashes: Words | None = None  # of the batch that was compared last

    def compare(self, incoming: pa.Table, *, last_wins: bool) -> pa.Table | None:
        """Return the rows with their ``verdict``, as ``classify`` has it; None if all are new.

        Args:
            incoming: Rows of a batch: row (ascending), record_id, content_hash.
            last_wins: Whether of several rows of one id the last counts.
        """
        between: tuple[int, int] | None = (0, _ENDLESS)
        with self._database.registered(incoming=incoming):
            if self._rows > self._few:
                self._held = self._held or self._stored()
                found = self._database.table("ingest/records/incoming_hashes")
                self._hashes = found["hash"].to_numpy()
                between = self._held.between(self._hashes)
                if between is None and len(np.unique(self._hashes)) == len(self._hashes):
                    return None
            self._rows += incoming.num_rows
            first, last = between or (_ENDLESS, _ENDLESS)
            asked = {"first_key": first, "last_key": last, "last_wins": last_wins}
            return self._database.table(
                "ingest/records/classify", asked | {"unpublished": self._unpublished}
            )

    def add(self, kept: Flags, keys: Integers) -> None:
        """Take in that those rows of the batch that was compared last were stored.

        Args:
            kept: Which of them were; shape (rows,).
            keys: Of their records, ascending.
        """
        if self._held is not None and self._hashes is not None:
            self._held.add(self._hashes[kept], keys)

    def _stored(self) -> HeldHashes:
        """Return those of records stored before, and of the first batches."""
        held = HeldHashes(HELD, next_keys(self._database)["record"])
        found = self._database.table(
            "ingest/records/id_hashes", {"unpublished": self._unpublished, "before": HELD}
        )
        held.add(found["hash"].to_numpy(), found["record_key"].to_numpy())
        return held


def _sorted(hashes: Words, keys: npt.NDArray[np.uint32]) -> _Run:
    order = np.argsort(hashes, kind="stable")
    return _Run(hashes[order], keys[order])


class Appending:
    """Appends records with consecutive keys; every method runs inside a transaction.

    Args:
        database: The corpus.
        source_id: Of the source they belong to.
        version: The version that adds them.
        removed_version: The version that marks them unpublished, or None.
        trust: Of the source, for records without their own.
        chunking: How their sections are cut; by default as the corpus has it.
        placing: The files that texts are left in, if they are.

    Attributes:
        record_key: The next record's key.
    """

    def __init__(
        self,
        database: Database,
        source_id: int,
        version: int,
        removed_version: int | None,
        trust: float,
        chunking: Chunking | None = None,
        placing: Placing | None = None,
    ) -> None:
        self._database, self._placing = database, placing
        self._of_source = {
            "source_id": source_id,
            "version": version,
            "removed_version": removed_version,
            "trust": trust,
        }
        chunking = chunking or current_chunking(database)
        keys = next_keys(database)
        self.record_key = keys["record"]
        self._sections = SectionWriter(database, chunking, keys["section"], keys["chunk"])

    def append(self, batch: pa.RecordBatch, ids: pa.Array) -> Any:
        """Store rows; return their keys.

        Args:
            batch: Rows as from ``preprocess``, at least one.
            ids: Their record ids.
        """
        keys = np.arange(self.record_key, self.record_key + batch.num_rows, dtype=np.int64)
        self.record_key += batch.num_rows
        labelled = "label" in batch.schema.names
        label = batch["label"] if labelled else pa.nulls(batch.num_rows, pa.float64())
        named = {"record_key": keys, "record_id": ids, "label": label}
        table = pa.table(named | {c: batch[c] for c in _COLUMNS})
        with self._database.registered(new_records=sliced(table)):
            self._database.run("ingest/records/append_records", self._of_source)
        places = None if self._placing is None else self._placing.places(batch["row"])
        self._sections.append(batch["sections"], keys, places)
        if "messages" in batch.schema.names:
            self._append_conversations(batch, keys)
        if "prefix" in batch.schema.names:
            prefix_store.append(self._database, keys, batch["prefix"])
        return keys

    def _append_conversations(self, batch: pa.RecordBatch, keys: Any) -> None:
        """Store the messages of new records, and the rejected ones of preference pairs."""
        columns = {"record_key": keys, "messages": batch["messages"]}
        rejected = pa.nulls(batch.num_rows, pa.string())
        if "rejected_messages" in batch.schema.names:
            rejected = batch["rejected_messages"]
        table = pa.table(columns | {"rejected_messages": rejected})
        with self._database.registered(new_conversations=sliced(table)):
            self._database.run("ingest/conversations/append")


def quarantine(database: Database, skipped: pa.RecordBatch, source: str, version: int) -> int:
    """Set aside the rows, as JSON, that cannot be used; return how many.

    Those that a condition, a gate or a preprocessor has left out are no bad rows: they have no
    JSON, and are counted only.

    Args:
        database: The corpus, inside a transaction.
        skipped: Rows with a ``skip`` and a column ``quarantined``.
        source: Name of the source.
        version: The version that the ingest makes.
    """
    reasons = skipped["skip"]
    if "complaint" in skipped.schema.names:
        reasons = pc.coalesce(skipped["complaint"], reasons)
    count, names = skipped.num_rows, skipped.schema.names
    columns = {"row": skipped["row"], "skip": reasons, "quarantined": skipped["quarantined"]}
    for name, kind in (("file", pa.string()), ("line", pa.int64())):
        there = name in names
        columns[name] = skipped[name].cast(kind) if there else pa.nulls(count, kind)
    rows = pa.table(columns).filter(pc.is_valid(skipped["quarantined"]))
    if rows.num_rows:
        with database.registered(set_aside=rows):
            database.run("ingest/conversations/quarantine", {"source": source, "version": version})
    return int(rows.num_rows)


def refuse_conflict(found: pa.Table) -> None:
    """Refuse a row with the id of a record, and other content.

    Args:
        found: Rows with their ``verdict``.

    Raises:
        SourceError: There is one; the first is named.
    """
    wrong = found.filter(pc.equal(found["verdict"], "conflict"))
    if wrong.num_rows:
        first = wrong.slice(0, 1).to_pylist()[0]
        raise SourceError(
            f"record {first['record_id']!r} (row {first['row']}) has other content than the "
            f"record of that id before it; give ids that are unique, or choose "
            f"on_conflict='replace' or 'skip'"
        )
