"""What a judging tells, by source, gate and rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from duckplets.base.sanitize import Reported, counted, shown


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
