"""Find the keys that samples of a batch share: of streams, lengths, or values of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers, places
from duckplets.base.sanitize import counted, percent
from duckplets.db.database import Database
from duckplets.errors import SamplerError, nearest
from duckplets.ingest import families
from duckplets.pools.arrays import Anchors

WORDS = ("source", "recipe", "length")  # words of ``batch_by=``; other texts are values of records
_BUCKETS = 16  # of lengths


def check_batch_by(by: Any, batch_size: int, samples_per_draw: int) -> None:
    """Refuse an invalid ``batch_by``, or one that does not fit the batch size."""
    if not isinstance(by, str) or not by.strip():
        raise SamplerError(
            f"batch_by={by!r}: give 'source', 'recipe', 'length', or a value of records such as "
            f"\"meta['topic']\""
        )
    if batch_size % samples_per_draw:
        raise SamplerError(
            f"batch_by={by!r}: {samples_per_draw} pairs are drawn together and share a batch; give "
            f"a multiple of {samples_per_draw} as batch_size"
        )
    if by not in WORDS:
        try:
            families.statement(by, "batch_by")
        except SamplerError as error:
            raise SamplerError(f"{error}{nearest(by, WORDS)}") from error


class BatchKeys:
    """Look up the keys of the anchors of a run at one version."""

    def __init__(self, database: Database, by: str, where: Mapping[str, Any]) -> None:
        self._is_length = by == "length"
        if self._is_length:
            rows = database.table("pools/batch_keys/lengths", where)
        else:
            rows = families.values(database, by, where, "batch_by")
        self._known = rows.column(0).to_numpy()
        self._numbers = rows["number"].to_numpy()

    def of(self, anchors: Anchors) -> Integers:
        """Return the number of each anchor's key in the order of keys; -1 for none."""
        at = places(self._known, anchors.records)
        numbers = np.append(self._numbers, -1)[at]  # the last element is for records without a key
        if self._is_length:  # buckets of equal count
            order = np.argsort(numbers, kind="stable")
            numbers = np.empty(len(order), np.int64)
            numbers[order] = np.arange(len(order)) * _BUCKETS // len(order)
            return numbers
        # numbers without gaps, because a stream has some keys only
        known, dense = np.unique(numbers, return_inverse=True)
        return dense - int(len(known) > 0 and known[0] < 0)


def in_words(by: str, streams: Sequence[Any], mixed: float) -> Iterator[str]:
    """Describe the keys that samples of a batch share, and the part of mixed batches."""
    if mixed:
        yield (
            f"each batch of all ranks is of one source; {percent(mixed)} of the samples, the end "
            f"of each source's epoch, are in batches of several sources"
        )
        return
    if by in ("source", "recipe"):
        also = "" if by == "source" else " and recipe"
        yield f"each batch of all ranks is of one source{also}; shares hold for batches"
        return
    what = "length class" if by == "length" else f"value of {by}"
    yield f"each batch of all ranks is of one source, recipe and {what}; shares hold for batches"
    for stream in streams:
        order = stream.keyed
        without = int((order.keys < 0).sum())
        lacking = f", {counted(without, 'anchor')} without one" if without else ""
        yield (
            f"source {stream.source!r}, recipe {stream.recipe.name!r}: "
            f"{counted(int(order.keys.max(initial=-1)) + 1, 'key')}{lacking}; "
            f"{percent(order.mixed / len(order))} of its samples are in mixed batches"
        )
