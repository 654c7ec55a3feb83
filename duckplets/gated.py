"""Judge what was read: the verbs of a corpus on its gates, and what they tell of every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duckplets.changing import changes
from duckplets.db.database import Database

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.quality.intake import QualityGates
    from duckplets.quality.report import JudgeReport
    from duckplets.quality.settings import Quality
    from duckplets.quality.told import Shifts


class Gated:
    """The part of ``Corpus`` that judges its texts, and tells what became of every row."""

    _database: Database

    @changes("judge the texts of")
    def judge(self, quality: Quality | Any, *, dry_run: bool = False) -> JudgeReport:
        """Apply other thresholds to everything that was read, without its sources.

        Records that fail are removed in a new version, and rejected rows that pass become records
        of it; runs that are pinned to earlier versions go on. A row that becomes acceptable takes
        the place of later copies of itself. Records that came without gates are judged as well.
        What ``where=`` left out stays out.

        Args:
            quality: Settings, the name of a preset, or a TOML file; see ``Quality``.
            dry_run: Only say what would change.

        Returns:
            What changes, by source, gate and rule.

        Raises:
            QualityError: A setting is wrong, or a metric is missing and no text was kept.
        """
        from duckplets.quality.judge import judge

        return judge(self._database, quality, dry_run=dry_run)

    def acquisitions(self) -> pa.Table:
        """Return every intake through gates: when, from where, by which settings, its counts."""
        from duckplets.quality import told

        return told.acquisitions(self._database)

    def outcomes(self, examples: int = 5) -> pa.Table:
        """Return how many rows ended how, by source, outcome, gate and rule.

        Args:
            examples: So many numbers of rows of each, the first.
        """
        from duckplets.quality import told

        return told.counts(self._database, examples)

    def why(self, record: str) -> list[dict[str, Any]]:
        """Return what became of a row: outcome, gate, rule, metrics and text.

        Args:
            record: A record's id, which several rows may have; or ``SOURCE:ROW``.

        Raises:
            QualityError: No gate has seen such a row.
        """
        from duckplets.quality import told

        return told.why(self._database, record)

    def shifts(self, against: str | int) -> Shifts:
        """Compare the metrics of all sources with those of one, or with an earlier version.

        Args:
            against: The name of a source, or the number of a version.

        Raises:
            QualityError: There is no such source or version.
        """
        from duckplets.quality import told

        return told.shifts(self._database, against)


def gates_of(quality: Any, **others: Any) -> QualityGates | None:
    """Return the gates of an ingest, None for one without.

    Args:
        quality: As for ``Corpus.ingest``.
        others: ``where``, ``size_mb`` and ``limit``, None for none.
    """
    if quality is None and all(value is None for value in others.values()):
        return None
    from duckplets.quality.intake import QualityGates

    return QualityGates(quality, **others)
