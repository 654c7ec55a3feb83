"""The result of ``advise``: a table of arms, a recommendation as a run file, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duckplets.base.sanitize import Reported, counted, percent, text_table
from duckplets.report.plots import intervals
from duckplets.report.tables import Section, table_of

_COLUMNS = ("arm", "batches", "ndcg", "difference", "low", "high", "by_seed")
_NOT_TRIED = (
    "Not tried: a larger or trained model; longer training; other batches, margins, ranks and "
    "mixtures; tokens after the 32nd of a text."
)


@dataclass(frozen=True, slots=True)
class ArmFound:
    """The result of one arm.

    Attributes:
        arm: Its negatives.
        batches: Number of training batches.
        ndcg: nDCG@10 after these batches, in hundredths, mean of the seeds.
        difference: Difference from in-batch negatives after the same number of batches.
        low: Lower end of the 95 % interval of the difference, from a bootstrap of families.
        high: Upper end.
        by_seed: The difference with each seed.
    """

    arm: str
    batches: int
    ndcg: float
    difference: float
    low: float
    high: float
    by_seed: tuple[float, ...]

    def row(self) -> list[Any]:
        """Return the cells of a table."""
        figures = (f"{getattr(self, name):+.2f}" for name in _COLUMNS[3:-1])
        seeds = " ".join(f"{each:+.2f}" for each in self.by_seed)
        return [self.arm, self.batches, f"{self.ndcg:.1f}", *figures, seeds]


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice(Reported):
    """The measured value of negatives on a corpus.

    Attributes:
        recipe: Name of the tried recipe.
        anchors: Training anchors of the sample.
        documents: Ranked documents, equal texts once.
        queries: Held-out queries.
        families: Families of queries.
        arms: Arms by number of batches, then by difference.
        recommended: The recommended arm: in-batch negatives unless another arm is better.
        gain: Whether the best other arm is better with each seed, and ``sure`` is at least .9.
        sure: Share of bootstrap samples of queries in which the best other arm is better.
        run: The recommendation as a run file, for ``--config`` and ``dp.load_run``.
        cut_short: The reason for an early end, or nothing.
        work: Trained and encoded tokens, times the dimension of a vector.
        seconds: Processor time.
        notes: Notes about the preparation.
    """

    recipe: str
    anchors: int
    documents: int
    queries: int
    families: int
    arms: tuple[ArmFound, ...]
    recommended: str
    gain: bool
    sure: float
    run: str
    cut_short: str
    work: int
    seconds: float
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the answer in sentences."""
        best = next((arm for arm in self.arms if arm.arm != "in-batch"), self.arms[0])
        gain = f"{best.difference:+.1f} nDCG@10 ({best.low:+.1f} … {best.high:+.1f})"
        sure = f"better than in-batch negatives in {percent(self.sure)} of bootstrap samples"
        if self.gain:
            answer = f"Take {best.arm}: {gain}, {sure}."
        else:
            answer = "Nothing to be gained here: train with in-batch negatives alone. "
            answer += f"The best arm, {best.arm}, has {gain}, {sure}."
        queries = f"{counted(self.queries, 'query', 'queries')} ({self.families:,} families)"
        judged = f"{queries} ranked {self.documents:,} documents; {self.anchors:,} anchors trained."
        cut = [f"It was {self.cut_short}: lower arms have less training."] if self.cut_short else []
        return [answer, *cut, judged, *self.notes, _NOT_TRIED]

    def __str__(self) -> str:
        table = text_table(_COLUMNS, (arm.row() for arm in self.arms))
        return "\n".join([*self.lines(), "", *table, "", self.run])

    def section(self) -> Section:
        """Return the table and the plot for the page of ``Corpus.report``."""
        values = {arm.arm: (arm.low, arm.difference, arm.high) for arm in self.arms}
        title, y = "Difference from in-batch negatives", "nDCG@10, hundredths"
        plot = intervals(title, values, x="arm", y=y)
        rows = [arm.row() for arm in self.arms]
        table = table_of(title, _COLUMNS, rows, "corpus.advise()", of="python", plot=plot)
        return Section(name="advice", title="Advice", notes=self.lines(), tables=[table])
