"""What records of 600 bytes take, from what was measured: fits, rates, and where each is from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
DOCUMENTS = {"small": 50_000, "large": 500_000}  # of mining.py
SHARD = 65_536  # documents, where mining looks in one document shard only
AIMS = {"index": 0.8, "mine": 0.8, "gates": 0.8, "shards": 0.8}  # of the rate without an engine


def found(name: str) -> dict[str, Any]:
    """Return what a benchmark printed; nothing if it has not been run."""
    path = HERE / f"{name}.json"
    result: dict[str, Any] = {}
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else result


@dataclass(frozen=True)
class Line:
    """A figure that grows in a line with the number of records.

    Attributes:
        base: At no record.
        slope: For each record.
        off: The largest difference from what was measured, as a part of that.
        ahead: How far the same line, fitted without the largest number, is off there.
    """

    base: float
    slope: float
    off: float
    ahead: float

    def at(self, records: float) -> float:
        """Return the figure for so many records."""
        return self.base + self.slope * records


def fitted(points: dict[int, float]) -> Line:
    """Return the line of the least squares of relative differences."""
    (base, slope), (_, last) = _line(points), max(points.items())
    fewer = {n: y for n, y in points.items() if n < max(points)}
    low = _line(fewer) if len(fewer) > 1 else (base, slope)
    off = max(abs(base + slope * n - y) / y for n, y in points.items())
    return Line(base, slope, off, (low[0] + low[1] * max(points) - last) / last)


def _line(points: dict[int, float]) -> tuple[float, float]:
    sizes, values = (np.array(each, float) for each in zip(*points.items(), strict=True))
    slope, base = np.polyfit(sizes, values, 1, w=1 / values)
    return float(base), float(slope)


@dataclass(frozen=True)
class Cost:
    """Processor seconds of a stage.

    Attributes:
        title: Of the stage.
        seconds: By the number of records.
        source: What it is extrapolated from.
        share: By which part of the rate without an engine; None where the driver does it.
        exact: Whether every anchor is compared with all documents.
    """

    title: str
    seconds: Callable[[float], float]
    source: str
    share: float | None = None
    exact: bool = False


class Model:
    """All figures that docs/scale.md is made of."""

    def __init__(self) -> None:
        self.scale, self.mining, self.serving = found("scale"), found("mining"), found("serving")
        self.large, self.gates, self.text_in = (
            found(name) for name in ("serving_large", "quality_gates", "text_in")
        )
        self.results, self.in_place, self.engines, self.engine_ingest = (
            found(name) for name in ("results", "in_place", "engines", "engine_ingest")
        )
        self.bytes, self.few = self.scale["bytes"], self.scale["few"]
        self.stages = self.scale["stages"]
        self.records = {int(name): each for name, each in self.scale["records"].items()}

    def line(self, stage: str, figure: str) -> Line:
        """Return the fit of a figure over all numbers of records that were measured."""
        return fitted({n: each[stage][figure] for n, each in self.records.items()})

    @cached_property
    def tokens(self) -> float:
        """Tokens a record, of the tokenizer that was trained for the shards."""
        return float(self.stages["shard"]["tokens"] / self.few)

    def of_few(self, stage: str) -> float:
        """Return the bytes a record that a stage leaves."""
        return float(self.stages[stage]["disk_mb"] * 1e6 / self.few)

    @property
    def of_in_place(self) -> tuple[float, str]:
        """The bytes a record of a corpus whose text stays in its files, and what they are from."""
        if not self.in_place:
            return 0.15 * self.bytes, "the aim, 15 % of the text; not measured yet"
        records = self.in_place["records"]
        told = f"{records:,}, of two sections (in_place.json)"
        return self.in_place["in_place"]["bytes"] / records, told

    def share(self, work: str) -> float:
        """Return which part of its rate without an engine a work has by two local workers.

        More than all of it was noise, or luck of two cores, and is not counted on.
        """
        return min(1.0, float(self.engines.get("works", {}).get(work, {}).get("ratio", AIMS[work])))

    def query(self, documents: float) -> float:
        """Return the processor seconds of an anchor among so many documents, by two points."""
        small, large = (
            1 / self.mining[f"mine_{name}_one_core"]["queries_per_s"] for name in DOCUMENTS
        )
        low, high = DOCUMENTS.values()
        return small + (large - small) / (high - low) * (documents - low)

    def costs(self) -> list[Cost]:
        """Return the stages that take processor time, in their order."""
        hub, index, made = self.text_in["hub"], self.mining["index_large"], self.large["snapshot"]
        gated = self.gates["rates"]["all_gates_without_language"] * self.gates["characters"]
        words = self.stages["index"]["tokens"] / self.few
        of_shards = self.stages["shard"]["shard_cpu_s"] / self.few
        linear = {
            "ingest, one writer": (hub["disk_cpu_seconds"] / hub["records"], None, None),
            "gates without language": (self.bytes / gated, "gates", "quality_gates.json"),
            "index": (words * self.mining["cpus"] / index["tokens_per_s"], "index", "mining.json"),
            "mining, each document shard by itself": (self.query(SHARD), "mine", "mining.json"),
            "token shards": (of_shards, "shards", "scale.json"),
            "snapshot": (made["seconds"] * self.large["cpus"] / self.large["records"], None, None),
        }
        sources = {
            "ingest, one writer": f"{hub['records']:,} records (text_in.json)",
            "snapshot": f"{self.large['records']:,} records (serving_large.json), both cores",
        }
        every = [
            Cost(
                title,
                lambda n, each=each: n * each,
                source or sources[title],
                self.share(work) if work else None,
            )
            for title, (each, work, source) in linear.items()
        ]
        exact = Cost(
            "mining, exact: every anchor among all",
            lambda n: n * self.query(n),
            "mining.json, by its two numbers of documents",
            self.share("mine"),
            exact=True,
        )
        return [*every[:3], exact, *every[3:]]

    def shared(self) -> list[Cost]:
        """Return the stages that workers do, mining by document shards."""
        return [cost for cost in self.costs() if cost.share is not None and not cost.exact]

    def alone(self, records: float) -> tuple[float, float]:
        """Return the seconds of one process, on two cores, for ingest and for the snapshot."""
        made = self.large["snapshot"]["seconds"] / self.large["records"]
        return records / self.results["ingest_parquet"]["records_per_s"], records * made

    def making_memory(self) -> Line:
        """Return the private memory of making a snapshot, in MB, by two numbers of records."""
        points = {each["records"]: each["snapshot"]["anonymous_mb"] for each in self.both}
        return fitted(points)

    @property
    def both(self) -> list[dict[str, Any]]:
        """What was measured of serving, at two numbers of records."""
        return [self.serving, self.large]
