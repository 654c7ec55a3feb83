"""Explain outcomes: counts with examples, single rows, and shifts of metrics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.sanitize import Reported, counted, shown
from duckplets.db.database import Database
from duckplets.errors import QualityError, nearest
from duckplets.ingest.records import current_version
from duckplets.quality.judgement_log import STORED
from duckplets.quality.texts import texts_of

WARNING = 0.2
"""A larger population stability index is a shift that a person should check."""

_LEAST = 1e-4  # the share of an empty bin
_BINS = 10
_QUANTILES = (0.1, 0.5, 0.9)
_NUMBERS = [f.name for f in STORED if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]


@dataclass(frozen=True, slots=True, repr=False)
class Shifts(Reported):
    """Compares the metrics of sources with the metrics of one source or of an earlier version.

    Attributes:
        against: A name for the other side of the comparison.
        rows: One row a metric of a source: ``source``, ``metric``, the number of ``records``,
            quantiles .1, .5 and .9 (``quantiles``), the same quantiles of the other side
            (``before``), and ``psi``, the population stability index over tenths of ``before``.
    """

    against: str
    rows: list[dict[str, Any]]

    @property
    def warnings(self) -> list[str]:
        """Return a sentence for each shift above .2."""

        def spelled(quantiles: list[float]) -> str:
            return " / ".join(f"{value:.4g}" for value in quantiles)

        return [
            f"{shown(row['source'])}: {row['metric']} has shifted (psi {row['psi']:.2f}): "
            f"quantiles {spelled(row['quantiles'])}, {spelled(row['before'])} in {self.against}"
            for row in self.rows
            if row["psi"] > WARNING
        ]

    def __str__(self) -> str:
        compared = counted(len(self.rows), "metric of a source", "metrics of sources")
        head = f"{compared} compared with {self.against}: {len(self.warnings):,} above {WARNING:g}"
        return "\n".join([head, *(f"  {line}" for line in self.warnings)])

    __repr__ = __str__


def why(database: Database, record: str) -> list[dict[str, Any]]:
    """Return outcome, gate, rule, metrics and text of the rows of an id or ``SOURCE:ROW``."""
    rows: list[dict[str, Any]] = database.table(
        "quality/explain/why", {"record": record}
    ).to_pylist()
    if not rows:
        raise QualityError(
            f"no row {shown(repr(record))} was read through gates: give the id of a record, as in "
            f"'news/17', or a source and a row number, as in 'news:17'"
        )
    for row in rows:
        row["metrics"] = {n: v for n, v in (row["metrics"] or {}).items() if v is not None}
        row["text"] = row.pop("rejected_text")
        if row["outcome"] == "accepted":
            found = list(texts_of(database, np.array([row["record_key"]])))
            row["text"] = found[0][1][0].as_py() if found else None
    return rows


def shifts(database: Database, against: str | int) -> Shifts:
    """Compare the metrics of all sources with one source, or with an earlier version."""
    newest = current_version(database)
    names = [row[0] for row in database.run("quality/explain/sources_with_metrics")]
    if isinstance(against, int) and not isinstance(against, bool):
        if not 0 < against <= newest:
            raise QualityError(f"against={against}: give a version from 1 to {newest}")
        label, version, base = f"version {against}", against, None
    else:
        if against not in names:
            raise QualityError(
                f"against={against!r}{nearest(str(against), names)}: no source of that name has "
                f"metrics; give one of {', '.join(names) or 'none'}, or the number of a version"
            )
        label, version, base = f"source {shown(against)}", newest, str(against)
    rows = []
    for metric in _NUMBERS:
        values = cache(partial(_values, database, metric))
        for name in names:
            now, before = values(name, newest), values(base or name, version)
            if name != base and len(now) and len(before):
                rows.append(
                    {
                        "source": name,
                        "metric": metric,
                        "records": len(now),
                        "quantiles": np.quantile(now, _QUANTILES).tolist(),
                        "before": np.quantile(before, _QUANTILES).tolist(),
                        "psi": round(stability(now, before), 4),
                    }
                )
    return Shifts(label, sorted(rows, key=lambda row: (row["source"], -row["psi"])))


def _values(database: Database, metric: str, source: str, version: int) -> Any:
    """Return the values of a metric, float64[records]."""
    parameters = {"metric": metric, "source": source, "version": version}
    return database.table("quality/explain/metric_of", parameters)["value"].to_numpy()


def stability(now: Any, before: Any) -> float:
    """Return the population stability index of values over tenths of the values before."""
    # It is the sum of (p - q) ln(p / q) over bins, with shares p now and q before. The share of an
    # empty bin is .0001.
    edges = np.unique(np.quantile(before, np.linspace(0, 1, _BINS + 1)[1:-1]))
    bins = len(edges) + 1
    shares = [
        np.maximum(
            np.bincount(np.searchsorted(edges, values, "left"), minlength=bins) / len(values),
            _LEAST,
        )
        for values in (now, before)
    ]
    return float(((shares[0] - shares[1]) * np.log(shares[0] / shares[1])).sum())
