"""What a judging tells, by source, gate and rule, and what is told of a file of JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version as version_of
from typing import Any

from duckplets.base.sanitize import Reported, counted, shown, without_secrets
from duckplets.db.database import Database
from duckplets.ingest.checkpoint import UNPUBLISHED

_COUNTS = ("read", "accepted", "filtered", "rejected", "unreadable", "accepted_bytes")
_OUTCOME = ("outcome", "gate", "rule", "rows")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class JudgeReport(Reported):
    """What other thresholds change, or would change.

    Attributes:
        dry_run: Whether nothing was changed.
        rows: Rows that were judged: those that are records, and those that were rejected.
        accepted: Rejected rows that become records.
        rejected: Records that are removed.
        changes: Of each source, and of each gate and rule before and now, the ``rows`` that end
            otherwise: ``source``, ``was`` and ``now`` (``GATE: RULE``, or accepted), ``rows``.
        measured: Rows of which a metric was missing and was measured from the stored text.
        without_text: Rows that are acceptable and stay rejected, as their texts were not kept.
        version: Corpus version, the one that was made if anything changed.
        seconds: Wall time.
    """

    dry_run: bool
    rows: int
    accepted: int
    rejected: int
    changes: list[dict[str, Any]] = field(default_factory=list)
    measured: int = 0
    without_text: int = 0
    version: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        """Say in plain lines what changes."""
        would = "would become" if self.dry_run else "became"
        lines = [
            f"{counted(self.rows, 'row')} judged: {self.accepted:,} {would} records, "
            f"{counted(self.rejected, 'record')} {'would be' if self.dry_run else 'were'} removed "
            f"(version {self.version}, {self.seconds:g} s)"
        ]
        lines += [
            f"  {shown(row['source'])}: {counted(row['rows'], 'row')} {shown(row['was'])} → "
            f"{shown(row['now'])}"
            for row in self.changes
        ]
        if self.measured:
            lines.append(f"  measured from stored texts: {counted(self.measured, 'row')}")
        if self.without_text:
            lines.append(
                f"  stay rejected, as their texts were not kept: "
                f"{counted(self.without_text, 'row')}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def metadata(database: Database, path: str) -> dict[str, Any]:
    """Return what is known of a file of JSON lines and of the intakes that have written it.

    Args:
        database: The corpus.
        path: Of a file that was written, as the corpus has it.
    """
    of_file = {"path": path, "unpublished": UNPUBLISHED}
    intakes = database.table("quality/json_lines/intakes", of_file).to_pylist()
    ends = database.table("quality/json_lines/outcomes", {"path": path}).to_pylist()
    for intake in intakes:
        own = [row for row in ends if row["acquisition_id"] == intake["acquisition_id"]]
        intake["outcomes"] = [{name: row[name] for name in _OUTCOME} for row in own]
        intake["uri"] = intake["uri"] and without_secrets(intake["uri"])
        intake["configuration"] = intake["configuration"] and json.loads(intake["configuration"])
        for name in ("started_at", "ended_at"):
            intake[name] = intake[name] and f"{intake[name].isoformat()}Z"
    counts = {name: sum(intake[name] or 0 for intake in intakes) for name in _COUNTS}
    by_outcome: Counter[str] = Counter()
    for row in ends:
        told = ": ".join(filter(None, (row["outcome"], row["gate"], row["rule"])))
        by_outcome[told] += row["rows"]
    share = round(counts["accepted"] / counts["read"], 6) if counts["read"] else None
    began, ended = ([i[name] for i in intakes if i[name]] for name in ("started_at", "ended_at"))
    return {
        "processor": "duckplets.quality.intake.QualityGates",
        "duckplets": version_of("duckplets"),
        "status": "finished" if len(ended) == len(intakes) else "interrupted",
        "started_at": min(began, default=None),
        "ended_at": max(ended, default=None),
        "final_size_mb": max(intake["end_byte"] for intake in intakes) / 10**6,
        "record_count": sum(intake["lines"] for intake in intakes),
        "summary": {**counts, "acceptance": share, "rows_by_outcome": by_outcome},
        "intakes": intakes,
    }
