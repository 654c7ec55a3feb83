"""Determine which documents must not be an anchor's negatives, whatever their score.

anchors, positives, documents of a recipe ─codes→ Guards ─a block of anchors→ excluded, allowed

The law and its lists are the same as for drawing. A document is excluded if it is of the anchor's
family, or if the recipe's strategy forbids it. It is also excluded if every window has a text that
is excluded for the family or is a known answer of the question. Pairs are made block by block from
flat lists, so a text with ten thousand copies costs its square for one block only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import IntegerLists, Integers, Words, merged, places, stretches
from duckplets.db.database import Database
from duckplets.mining.blocks import Excluded
from duckplets.pools.arrays import pair_hashes
from duckplets.pools.compile import CompiledPool
from duckplets.pools.read import PoolReader

BLOCK_ANCHORS = 2048
_BLOCK_PAIRS = 4_000_000


@dataclass(frozen=True, slots=True)
class SectionTable:
    """Number sections in the order of their record ids."""

    keys: Integers  # section key of every number
    records: Integers  # code of its record
    words: Words  # hash of its record's id and its position
    record_keys: Integers  # record key of every record code, ascending

    @classmethod
    def read(cls, database: Database, keys: Integers) -> SectionTable:
        """Read sections by key."""
        with database.registered(wanted=pa.table({"section_key": np.unique(keys)})):
            rows = database.table("mining/mine/sections")
        record_keys, records = np.unique(_integers(rows, "record_key"), return_inverse=True)
        words = pair_hashes(_integers(rows, "position"), rows["id_hash"].to_numpy())
        return cls(_integers(rows, "section_key"), records, words, record_keys)

    def numbers(self, keys: Integers) -> Integers:
        """Return the number of each section key, or -1."""
        return _indexes(self.keys, keys)


class Guards:
    """Exclude illegal negatives for one recipe, source and split.

    Anchors follow the ``order`` of section keys; anchors without a place in it come last.

    Attributes:
        sections: All sections: documents, anchors, positives.
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
        keys = [_integers(table, "section_key") for table in (anchors, documents, positives)]
        self.sections = SectionTable.read(database, np.concatenate(keys))
        anchor, document, positive = (self.sections.numbers(k) for k in keys)
        first = np.sort(np.unique(anchor, return_index=True)[1])
        self.anchors = anchor[first]
        self.documents = np.unique(document)
        count = len(self.sections.record_keys)
        owners = np.searchsorted(self.sections.record_keys, _integers(positives, "record_key"))
        # a record that only has positives of other records has no code and no anchors
        known = np.isin(_integers(positives, "record_key"), self.sections.record_keys)
        self.positives = IntegerLists.of(owners[known], positive[known], count)
        self._find_illegal(reader, compiled, anchors.take(first))
        self._find_strategy(
            compiled.forbids,
            (anchor, anchors["class"].to_numpy()),
            (document, documents["bin"].to_numpy()),
            reader.list(compiled, "pairs"),
        )
        for texts, owners in self._illegal:
            self._costs += texts.lengths[owners]

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
        """Return the documents that a block of anchors must not find."""
        anchors = self.anchors[block]
        texts = [lists.take(owners[block]) for lists, owners in self._illegal]
        parts = [
            self._of_record.take(self.sections.records[anchors]),
            self._of_family.take(self._families[block]),
            _complete(self._labelled.take(self._families[block]).then(self._of_text), self._texts),
            _complete(merged(texts)[0].then(self._of_text), self._texts),
        ]
        classes = self._classes.take(np.arange(block.start, block.stop))
        strategy = classes.then(self._paired).then(self._bins)
        documents, reasons = merged([*parts, strategy] if self._forbids else parts)
        windows = self._classes.lengths[block]
        allowed = None if self._forbids else _complete(strategy, self._bin_count, windows)
        return Excluded(documents, reasons.astype(np.uint8), allowed)

    def _find_illegal(self, reader: PoolReader, compiled: CompiledPool, anchors: pa.Table) -> None:
        """Index documents by record, family and text, and illegal texts by family and question."""
        windows, documents = reader.list(compiled, "negatives"), self.documents
        number = self.sections.numbers(_integers(windows, "section_key"))
        texts, text = np.unique(windows["text_hash"].to_numpy(), return_inverse=True)
        self._of_text = IntegerLists.of(text, number, len(texts))
        self._texts = np.bincount(self._of_text.values, minlength=len(self.sections.keys))
        records = self.sections.records
        self._of_record = IntegerLists.of(
            records[documents], documents, len(self.sections.record_keys)
        )
        families, self._families = np.unique(_integers(anchors, "family"), return_inverse=True)
        family = places(families, _integers(windows, "family"))
        known = family >= 0
        self._of_family = IntegerLists.of(family[known], number[known], len(families))
        questions, question = np.unique(anchors["question"].to_numpy(), return_inverse=True)

        def indexed(owners: Any, hashes: Any, known: Integers) -> IntegerLists:
            owner, text = places(known, owners), places(texts, hashes)
            is_here = (owner >= 0) & (text >= 0)
            return IntegerLists.of(owner[is_here], text[is_here], len(known))

        excluded, answers = reader.illegal(compiled)
        self._illegal = [
            (indexed(*excluded, families), self._families),
            (indexed(*answers, questions), question),
        ]
        nobody = np.zeros(0, np.int64)
        self._labelled = IntegerLists.of(nobody, nobody, len(families))
        if compiled.relabelled:
            owners, hashes = reader.list(compiled, "labelled").columns
            self._labelled = indexed(owners.to_numpy(), hashes.to_numpy(), families)

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
        class_, bin_ = (
            places(classes, pairs["class"].to_numpy()),
            places(bins, pairs["bin"].to_numpy()),
        )
        known = (class_ >= 0) & (bin_ >= 0)
        self._paired = paired = IntegerLists.of(class_[known], bin_[known], len(classes))
        self._bins = IntegerLists.of(bin_of, documents[0], len(bins))
        self._bin_count = np.bincount(documents[0], minlength=len(self.sections.keys))
        row = np.empty(len(self.sections.keys), np.int64)
        row[self.anchors] = np.arange(len(self.anchors))
        self._classes = IntegerLists.of(row[anchors[0]], class_of, len(self.anchors))
        sizes = np.zeros(len(classes), np.int64)
        np.add.at(sizes, paired.owners(), self._bins.lengths[paired.values])
        self._costs = np.ones(len(self.anchors), np.int64)
        np.add.at(self._costs, self._classes.owners(), sizes[self._classes.values])


def _complete(
    found: IntegerLists, needed: Integers, factors: Integers | None = None
) -> IntegerLists:
    """Keep each document that comes as often as ``needed``, times the factor of its owner."""
    width = max(len(needed), 1)
    cells, counts = np.unique(found.owners() * width + found.values, return_counts=True)
    owners, documents = np.divmod(cells, width)
    is_complete = counts == needed[documents] * (1 if factors is None else factors[owners])
    return IntegerLists.of(owners[is_complete], documents[is_complete], len(found))


def _indexes(keys: Integers, wanted: Integers) -> Integers:
    """Return the index of each wanted key among others in any order, or -1."""
    order = np.argsort(keys, kind="stable")
    at = places(keys[order], wanted)
    return np.where(at < 0, -1, order[at]) if len(keys) else at


def _integers(table: pa.Table, column: str) -> Integers:
    return np.asarray(table[column].to_numpy(), dtype=np.int64)
