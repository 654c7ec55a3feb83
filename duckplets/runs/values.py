"""Divide the anchors of a run by a value of records, or order them by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers, Keys, places
from duckplets.base.sanitize import shown
from duckplets.db.database import Database
from duckplets.errors import MixtureError, SamplerError
from duckplets.ingest import families
from duckplets.order.blocks import StairOrder
from duckplets.order.mixture import AND, NULL, Mixture
from duckplets.order.permute import hashed
from duckplets.samples.stream import Stream

_MOST = 1000  # values with a share


class Values:
    """The values by which a mixture divides the records of a split, as of a version.

    Raises:
        MixtureError: There are more than a thousand values.
        SamplerError: A column is not a value of records.
    """

    def __init__(self, database: Database, mixture: Mixture, where: Mapping[str, Any]) -> None:
        several: list[tuple[str, ...]] = [()]
        found: Integers | int = 0
        for column in mixture.columns:
            rows = families.values(database, column, where, "column", "ingest/families/read")
            coded = rows["text"].combine_chunks().fill_null(NULL).dictionary_encode()
            names, size = coded.dictionary.to_pylist(), len(coded.dictionary)
            if size <= _MOST:
                codes, found = np.unique(
                    found * size + coded.indices.to_numpy(), return_inverse=True
                )
                several = [(*several[at // size], names[at % size]) for at in codes.tolist()]
                size = len(several)
            if size > _MOST:
                raise MixtureError(
                    f"column={mixture.column!r}: {size:,} values, more than {_MOST:,}; name a "
                    f"column with fewer values"
                )
            self._known: Keys = rows["record_key"].to_numpy()
        self._codes = np.asarray(found)
        self.names = [*map(AND.join, several)]
        if len({*self.names}) < len(several):
            raise MixtureError(
                f"column={mixture.column!r}: values contain {AND!r}; name one column"
            )

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of records with each value, in order of names."""
        each = zip(self.names, np.bincount(self._codes, minlength=len(self.names)), strict=True)
        return {name: int(count) for name, count in sorted(each)}

    def divided(self, stream: Stream) -> dict[str, Stream]:
        """Return a stream for each value of its anchors."""
        codes = self._codes[places(self._known, stream.pool.anchors.records)]
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(self.names) + 1))
        found = {}
        for name, low, high in zip(self.names, edges[:-1], edges[1:], strict=True):
            if low < high:
                found[name] = replace(stream, value=name, units=order[low:high])
        return found


def with_values(
    database: Database, mixture: Mixture, where: Mapping[str, Any]
) -> tuple[Mixture, list[str]]:
    """Return a mixture with its known values, and a note on records without a value."""
    if not mixture.columns:
        return mixture, []
    counts = Values(database, mixture, where).counts
    made = replace(mixture, values=sorted({*mixture.values, *counts}))
    none = [n for n, count in counts.items() if mixture.is_null(n) and n not in mixture.named]
    if not none:
        return made, []
    return made, [
        f"column={mixture.column!r}: {sum(counts[name] for name in none):,} records of split "
        f"{where['split']!r} have no value there, and are not drawn; give {none[0]!r} a weight to "
        f"draw them"
    ]


class Difficulty:
    """The order of a run's anchors by a number or a date of their records.

    Raises:
        SamplerError: The column is not a value of records.
    """

    def __init__(self, database: Database, mixture: Mixture, where: Mapping[str, Any]) -> None:
        self._mixture, by = mixture, str(mixture.order_by)
        rows = families.values(database, by, where, "order_by", "ingest/families/read")
        self._known, self._texts = rows["record_key"].to_numpy(), rows["text"]
        ways = (rows[name].to_numpy().astype(np.float64) for name in ("number", "moment"))
        self._ways = [
            np.where(np.isfinite(values), values, np.nan) for values in ways
        ]  # NaN for other values

    def ordered(self, stream: Stream) -> Stream:
        """Return a stream whose first epochs follow the order in stairs.

        Raises:
            SamplerError: The values of its records are neither numbers nor dates.
        """
        anchors, mixture = stream.pool.anchors, self._mixture
        units = np.arange(len(anchors)) if stream.units is None else stream.units
        at = places(self._known, anchors.records[units])
        has_value = self._texts.take(at).is_valid().to_numpy()
        for values in (way[at] for way in self._ways):
            wrong = np.flatnonzero(has_value & np.isnan(values))
            if not len(wrong):
                break
        else:
            text = shown(repr(self._texts[int(at[wrong[0]])].as_py()))
            raise SamplerError(
                f"order_by={mixture.order_by!r}: give a column of numbers or of dates; source "
                f"{stream.source!r} also has {text}"
            )
        ties = hashed(stream.purpose("stairs"), anchors.ids[units])
        rank = np.lexsort((ties, values))  # records without a value have NaN and come last
        order = StairOrder(rank, mixture.stairs, mixture.order_epochs, stream.purpose("order"))
        return replace(stream, stairs=order)
