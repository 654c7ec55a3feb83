"""Determine which documents must not be an anchor's negatives, whatever their score.

anchors, positives, documents of a recipe ─codes→ Guards ─a block of anchors→ excluded, allowed

A negative is of another record and another group; its text, ignoring case, accents, composition and
white space, is none of the anchor's record and no positive of any record with the same anchor text;
and the recipe's strategy allows it. Excluded documents are named one by one for each anchor, by
lookups in flat lists: pairs are made block by block, so that a text that occurs ten thousand times
costs its square for one block only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import IntegerLists, Integers, merged, places, stretches
from duckplets.db.database import Database
from duckplets.mining.blocks import Excluded
from duckplets.pools.compile import CompiledPool
from duckplets.pools.read import PoolReader

BLOCK_ANCHORS = 2048
_BLOCK_PAIRS = 4_000_000


@dataclass(frozen=True, slots=True)
class SectionTable:
    """Sections by number, in the order of their record ids."""

    keys: Integers  # section key of every number
    records: Integers  # code of its record
    families: Integers  # code of its family: its group, or else its record
    texts: Integers  # code of its normalised text
    record_keys: Integers  # record key of every record code, ascending

    @classmethod
    def read(cls, database: Database, keys: Integers) -> SectionTable:
        """Read some sections."""
        with database.registered(wanted=pa.table({"section_key": np.unique(keys)})):
            rows = database.table("mining/mine/sections")
        record_keys, records = np.unique(_integers(rows, "record_key"), return_inverse=True)
        coded = ("family", "normalised_hash")
        codes = [np.unique(rows[name].to_numpy(), return_inverse=True)[1] for name in coded]
        return cls(_integers(rows, "section_key"), records, codes[0], codes[1], record_keys)

    def numbers(self, keys: Integers) -> Integers:
        """Return the number of each section key, or -1."""
        return _indexes(self.keys, keys)


class Guards:
    """The guards of one recipe, source and split.

    Anchors are gone through in the ``order`` of section keys, and those not in it last.

    Attributes:
        sections: Everything that is looked at: documents, anchors, positives.
        anchors: Number of every anchor section, in that order.
        documents: Numbers of the sections that may be negatives, ascending.
        positives: Numbers of the positives of every record, by its code.
    """

    def __init__(
        self,
        database: Database,
        reader: PoolReader,
        compiled: CompiledPool,
        order: Integers | None = None,
    ) -> None:
        anchors = reader.list(compiled, "mined_anchors")
        if order is not None:
            at = _indexes(order, _integers(anchors, "section_key"))
            anchors = anchors.take(np.argsort(np.where(at < 0, len(order), at), kind="stable"))
        documents = reader.list(compiled, "mined_documents")
        positives = reader.list(compiled, "mined_positives")
        askers = reader.list(compiled, "mined_anchors")
        tables = (anchors, documents, positives, askers)
        keys = [_integers(table, "section_key") for table in tables]
        self.sections = SectionTable.read(database, np.concatenate(keys))
        anchor, document, positive, asker = (self.sections.numbers(k) for k in keys)
        self.anchors = anchor[np.sort(np.unique(anchor, return_index=True)[1])]
        self.documents = np.unique(document)
        count = len(self.sections.record_keys)
        owners = np.searchsorted(self.sections.record_keys, _integers(positives, "record_key"))
        # records that only provide positives of others have no code, nor anchors
        known = np.isin(_integers(positives, "record_key"), self.sections.record_keys)
        self.positives = IntegerLists.of(owners[known], positive[known], count)
        self._find_texts(asker, count)
        self._find_strategy(
            compiled.forbids,
            (anchor, anchors["class"].to_numpy()),
            (document, documents["bin"].to_numpy()),
            reader.list(compiled, "pairs"),
        )

    def blocks(self, start: int = 0, most: int | None = None) -> Iterator[slice]:
        """Yield ranges of anchors to process together, bounded by their pairs."""
        for part in stretches(self._costs[start:], rows=most or BLOCK_ANCHORS, total=_BLOCK_PAIRS):
            yield slice(start + part.start, start + part.stop)

    def keys_of(self, block: slice) -> Integers:
        """Return the section keys of a block of anchors."""
        return self.sections.keys[self.anchors[block]]

    def positives_of(self, block: slice) -> IntegerLists:
        """Return the numbers of the positives of each anchor of a block."""
        return self.positives.take(self.sections.records[self.anchors[block]])

    def exclude(self, block: slice) -> Excluded:
        """Return what a block of anchors must not find."""
        anchors = self.anchors[block]
        records = self.sections.records[anchors]
        asked = self._anchor_texts.take(records)
        parts = [
            self._of_record.take(records),
            self._of_family.take(self.sections.families[anchors]),
            merged([asked, asked.then(self._answers)])[0].then(self._of_text),
        ]
        classes = self._classes.take(np.arange(block.start, block.stop))
        strategy = classes.then(self._paired).then(self._bins)
        documents, reasons = merged([*parts, strategy] if self._forbids else parts)
        allowed = None if self._forbids else self._allowed(strategy, block)
        return Excluded(documents, reasons.astype(np.uint8), allowed)

    def _find_texts(self, askers: Integers, count: int) -> None:
        """Index documents by record, family and text, and texts by their owners."""
        sections, documents = self.sections, self.documents
        self._of_record = IntegerLists.of(sections.records[documents], documents, count)
        families, texts = _size(sections.families), _size(sections.texts)
        self._of_family = IntegerLists.of(sections.families[documents], documents, families)
        self._of_text = IntegerLists.of(sections.texts[documents], documents, texts)
        self._anchor_texts = IntegerLists.of(
            sections.records[askers], sections.texts[askers], count
        )
        # for every anchor text: the texts of all positives of records that have it
        asked = self._anchor_texts
        answers = IntegerLists(self.positives.starts, sections.texts[self.positives.values])
        pairs = answers.take(asked.owners())
        self._answers = IntegerLists.of(np.repeat(asked.values, pairs.lengths), pairs.values, texts)

    def _find_strategy(
        self,
        forbids: bool,
        anchors: tuple[Integers, np.ndarray],
        documents: tuple[Integers, np.ndarray],
        pairs: pa.Table,
    ) -> None:
        """List the classes of every anchor, and the documents that pair with each class."""
        self._forbids = forbids
        classes, class_of = np.unique(anchors[1], return_inverse=True)
        bins, bin_of = np.unique(documents[1], return_inverse=True)
        mine, theirs = pairs["class"].to_numpy(), pairs["bin"].to_numpy()
        known = np.isin(mine, classes) & np.isin(theirs, bins)
        self._paired = paired = IntegerLists.of(
            np.searchsorted(classes, mine[known]),
            np.searchsorted(bins, theirs[known]),
            len(classes),
        )
        self._bins = IntegerLists.of(bin_of, documents[0], len(bins))
        self._bin_count = np.bincount(documents[0], minlength=len(self.sections.keys))
        row = np.empty(len(self.sections.keys), np.int64)
        row[self.anchors] = np.arange(len(self.anchors))
        self._classes = IntegerLists.of(row[anchors[0]], class_of, len(self.anchors))
        sizes = np.zeros(len(classes), np.int64)
        np.add.at(sizes, paired.owners(), self._bins.lengths[paired.values])
        self._costs = np.ones(len(self.anchors), np.int64)
        np.add.at(self._costs, self._classes.owners(), sizes[self._classes.values])

    def _allowed(self, found: IntegerLists, block: slice) -> IntegerLists:
        """Keep the documents all of whose windows may go with all windows of the anchor."""
        owners, documents = found.owners(), found.values
        cells, counts = np.unique(owners * len(self.sections.keys) + documents, return_counts=True)
        owners, documents = np.divmod(cells, max(len(self.sections.keys), 1))
        classes = self._classes.lengths[block]
        whole = counts == self._bin_count[documents] * classes[owners]
        return IntegerLists.of(owners[whole], documents[whole], len(found))


def _indexes(keys: Integers, wanted: Integers) -> Integers:
    """Return the index of each wanted key among others in any order, or -1."""
    order = np.argsort(keys, kind="stable")
    at = places(keys[order], wanted)
    return np.where(at < 0, -1, order[at]) if len(keys) else at


def _size(codes: Integers) -> int:
    return int(codes.max(initial=-1)) + 1


def _integers(table: pa.Table, column: str) -> Integers:
    return np.asarray(table[column].to_numpy(), dtype=np.int64)
