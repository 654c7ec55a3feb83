"""What ``advise`` found out: a table of arms, a recommendation as a run file, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duckplets.base.sanitize import Reported, counted, text_table
from duckplets.report.plots import intervals
from duckplets.report.tables import Section, table_of

NOT_TRIED = (
    "longer training, other batch sizes and other models: a mean of word vectors ranked the arms",
    "vectors of a model that has learnt already: dense candidates are by the probe's own vectors",
    "windows after the first of a section, and tokens after the 32nd of a text",
    "other margins, ranks and mixtures of scorers",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmFound:
    """What one arm was worth.

    Attributes:
        arm: What was drawn.
        batches: Batches it was trained on.
        ndcg: nDCG@10 after these, in hundredths, mean of the seeds.
        difference: From in-batch negatives after as many batches.
        low: Lower end of the 95 % interval of the difference.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice(Reported):
    """What negatives are worth on a corpus, by a probe.

    Attributes:
        recipe: Name of the recipe that was tried.
        anchors: Anchors of the sample to train on.
        documents: Documents that queries ranked, equal texts once.
        queries: Held-out queries.
        families: Families of queries.
        arms: Arms, the best first.
        recommended: The arm to take.
        gain: Whether it is better than in-batch negatives, by its interval and with each seed.
        sure: Share of bootstrap samples of queries in which it is better than in-batch negatives.
        run: The recommendation as a run file, for ``--config`` and ``dp.load_run``.
        cut_short: Why it ended early, or nothing.
        work: Tokens trained on and encoded, times the numbers of a vector.
        seconds: Processor time.
        notes: What was made for it, and what was not tried.
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

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        of = f"{counted(self.queries, 'query', 'queries')} of {self.families:,} families"
        if not self.gain:
            return f"Nothing to be gained here that {of} would show: train by in-batch negatives."
        best = next(arm for arm in self.arms if arm.arm == self.recommended)
        return (
            f"Take {best.arm}: {best.difference:+.1f} nDCG@10 over in-batch negatives "
            f"({best.low:+.1f} … {best.high:+.1f}), by {of}; better in "
            f"{100 * self.sure:.0f} % of bootstrap samples."
        )

    def __str__(self) -> str:
        columns = ("arm", "batches", "nDCG@10", "less in-batch", "95 %", "by seed")
        lines = [self.verdict, *([f"It is {self.cut_short}."] if self.cut_short else []), ""]
        lines += text_table(columns, self._rows())
        lines += [
            "",
            f"recipe {self.recipe}: {self.anchors:,} anchors, {self.documents:,} documents",
        ]
        lines += [*self.notes, "Not tried:", *(f"- {what}" for what in NOT_TRIED), "", self.run]
        return "\n".join(lines)

    def section(self) -> Section:
        """Return the table and the plot for the page of ``Corpus.report``."""
        columns = ("arm", "batches", "ndcg", "difference", "interval", "by_seed")
        plot = intervals(
            "Differences from in-batch negatives",
            {arm.arm: (arm.low, arm.difference, arm.high) for arm in self.arms},
            x="arm",
            y="nDCG@10, hundredths",
        )
        title = "Arms by their difference from in-batch negatives"
        table = table_of(title, columns, self._rows(), "corpus.advise()", of="python", plot=plot)
        notes = [self.verdict, *([f"It is {self.cut_short}."] if self.cut_short else [])]
        return Section(name="advice", title="Advice", notes=[*notes, *self.notes], tables=[table])

    def _rows(self) -> list[list[Any]]:
        return [
            [
                *(arm.arm, arm.batches, f"{arm.ndcg:.1f}", f"{arm.difference:+.2f}"),
                f"{arm.low:+.2f} … {arm.high:+.2f}",
                " ".join(f"{each:+.2f}" for each in arm.by_seed),
            ]
            for arm in self.arms
        ]
