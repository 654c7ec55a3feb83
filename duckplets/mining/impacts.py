"""Impacts: postings as integers to add up, in shards of documents that several processes map.

An impact is what one term adds to a document's score: round(2^20 · idf · tf part) with DuckDB's
formula (k = 1.2, b = 0.75, log10; Robertson and Zaragoza 2009, with the idf of Lucene). Impacts
are integers, so sums do not depend on their order and equal scores are equal; 2^20 because with
2^16 the rounding reorders documents whose scores nearly agree.

The impacts of a shard's most frequent terms are kept as dense rows, so that adding one is a
vector addition instead of a scatter over most of the shard.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Integers

SCALE = 1 << 20
K1, B = 1.2, 0.75
RUN = 64  # documents whose largest score is taken at once
PADDING = (1 << 32) - 1

_FREQUENT = 0.06  # of a shard's documents: then a dense row is faster than a scatter
_DENSE_BYTES = 64 << 20

Impacts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Shard:
    """Postings of some documents, by term. Documents have local numbers here.

    First come those that may be negatives, padded to a multiple of 64, then those that are only
    scored, as positives.

    Attributes:
        numbers: Number of every local document among all, int64[width]; ascending in both parts,
            and larger than any in the padding.
        eligible: Local numbers below this one may be negatives; a multiple of 64.
        starts: First posting of every term, and the end; int64[terms + 1].
        documents: Local number of every posting; int32 in the file.
        impacts: Impact of every posting; int32.
        rows: Dense row of every term, or -1; int32[terms].
        dense: Impacts of the most frequent terms, int32[rows, width].
    """

    numbers: Integers
    eligible: int
    starts: Integers
    documents: Integers | Impacts
    impacts: Impacts
    rows: Impacts
    dense: npt.NDArray[np.int32]

    def save(self, folder: Path, name: str) -> None:
        """Write the arrays to files that several processes can map."""
        for field in fields(self):
            np.save(folder / f"{name}.{field.name}.npy", getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path, name: str) -> Shard:
        """Map what ``save`` wrote."""
        arrays: dict[str, Any] = {
            field.name: np.load(folder / f"{name}.{field.name}.npy", mmap_mode="r")
            for field in fields(cls)
        }
        arrays["eligible"] = int(arrays["eligible"])
        # As wide as an address, else every scatter would widen its part again.
        arrays["documents"] = arrays["documents"].astype(np.intp)
        return cls(**arrays)


def impacts(
    frequencies: Integers,
    document_counts: Integers,
    lengths: Integers,
    *,
    documents: int,
    average: float,
) -> Impacts:
    """Return the integer impacts of postings.

    Args:
        frequencies: How often the document has the term.
        document_counts: How many of the documents have the term; 0 makes its impact 0.
        lengths: Tokens of the document.
        documents: How many there are.
        average: Mean of their lengths.
    """
    idf = np.log10(1 + (documents - document_counts + 0.5) / (document_counts + 0.5))
    idf[document_counts == 0] = 0  # only documents that cannot be found have it
    saturation = K1 * (1 - B + B * (lengths / average))
    part = frequencies * (K1 + 1) / (frequencies + saturation)
    found: Impacts = np.rint(SCALE * (idf * part)).astype(np.int32)
    return found


def shard_of(
    numbers: Integers,
    eligible: int,
    terms: int,
    postings: tuple[Integers | Impacts, Integers | Impacts, Impacts],
) -> Shard:
    """Return a shard.

    Args:
        numbers: Number of every document of it among all: those that may be negatives in
            ascending order, then the others.
        eligible: How many may be negatives.
        terms: Size of the vocabulary.
        postings: Term, place in ``numbers`` and impact of every posting, in any order.
    """
    term, place, impact = postings
    room = -(-max(eligible, 1) // RUN) * RUN
    local = np.where(place < eligible, place, place - eligible + room)
    width = room + len(numbers) - eligible
    placed = np.full(width, PADDING, np.int64)
    placed[:eligible], placed[room:] = numbers[:eligible], numbers[eligible:]
    order = np.argsort(term.astype(np.int64) * width + local)
    counts = np.bincount(term, minlength=terms)
    starts = np.concatenate([[0], np.cumsum(counts)])
    documents, sorted_impacts = local[order].astype(np.int32), impact[order]
    rows, dense = _dense(starts, counts, documents, sorted_impacts, eligible, width)
    return Shard(placed, room, starts, documents, sorted_impacts, rows, dense)


def _dense(
    starts: Integers,
    counts: Integers,
    documents: Impacts,
    sorted_impacts: Impacts,
    eligible: int,
    width: int,
) -> tuple[Impacts, Impacts]:
    frequent = np.flatnonzero(counts > max(_FREQUENT * eligible, RUN))
    most = _DENSE_BYTES // (4 * width)
    frequent = frequent[np.argsort(-counts[frequent], kind="stable")[:most]]
    rows = np.full(len(counts), -1, np.int32)
    rows[frequent] = np.arange(len(frequent))
    dense = np.zeros((len(frequent), width), np.int32)
    for row, term in enumerate(frequent.tolist()):
        part = slice(starts[term], starts[term + 1])
        dense[row, documents[part]] = sorted_impacts[part]
    return rows, dense
