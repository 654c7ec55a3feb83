"""Reports of mining: counts of anchors and documents for each recipe, source and split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from duckplets.base.sanitize import Reported, tallied, text_table

_COLUMNS = (
    *("recipe", "source", "split", "scorer", "anchors", "candidates", "short"),
    *("recall@10", "recall@100", "mrr@10"),
)
_WANTED = ("kept", "beyond depth", "range")
_SHORT = ("short", "none")


@dataclass(frozen=True, kw_only=True, slots=True)
class PairReport(Reported):
    """Report the mining of one recipe, source and split.

    Attributes:
        recipe: Name of the recipe.
        source: Name of the source.
        split: The split.
        scorer: Name of the scorer.
        mining: Number of the mining, as in the view ``minings``.
        anchors: Anchor sections that were searched.
        left: Anchor sections that an unfinished mining has not searched yet.
        candidates: Documents that were stored for them, before any cut.
        outcomes: Anchors by the range that the policy of the recipe gives them: ``full``,
            ``short`` or ``none``.
        counts: Outcomes of documents that share a term with an anchor, or of rows of a table:
            excluded by a guard, beyond the depth, or ``failed`` (the function gave no score).
            Outcomes of candidates under the policy of the recipe: cut by a margin or a score, out
            of the ``range``, ``kept``.
        quantiles: Quantiles of ``negative_score``, ``positive_score`` and ``positive_rank``.
        found: ``recall@10`` and ``recall@100``: the mean share of an anchor's positives within
            these ranks. ``mrr@10``: the mean of 1 / best rank, 0 beyond 10. Only legal
            negatives rank before a positive. Empty if no positive is ranked.
        unranked: Anchors whose positive has no rank, so margins do not act. A positive without a
            common term has no rank in BM25.
        searched: Documents that could be negatives.
        resumed: Anchors that an interrupted call had done before.
        seconds: Time of mining, interrupted calls included.
    """

    recipe: str
    source: str
    split: str
    scorer: str
    mining: int
    anchors: int
    left: int = 0
    candidates: int
    outcomes: dict[str, int]
    counts: dict[str, int]
    quantiles: dict[str, dict[str, float]]
    found: dict[str, float]
    unranked: int
    searched: int
    resumed: int
    seconds: float

    @property
    def short(self) -> int:
        """Anchors with fewer candidates than the range of the recipe takes."""
        return sum(self.outcomes.get(outcome, 0) for outcome in _SHORT)


@dataclass(frozen=True, kw_only=True, slots=True)
class MiningReport(Reported):
    """Report one call of ``Corpus.mine``.

    Attributes:
        pairs: One report for every recipe, source and split that was mined; empty if all were
            current.
        seconds: Wall time of the call.
        notes: Warnings to read before the candidates are used, one sentence each.
    """

    pairs: tuple[PairReport, ...] = field(default=())
    seconds: float
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        if not self.pairs:
            return Reported.__str__(self)
        rows = [
            (
                *(p.recipe, p.source, p.split, p.scorer, p.anchors, p.candidates, p.short),
                *(None if (v := p.found.get(n)) is None else f"{v:.3f}" for n in _COLUMNS[7:]),
            )
            for p in self.pairs
        ]
        removed = {n: count for n, count in self.counts.items() if count and n not in _WANTED}
        rate = f"{self.queries_per_second:,.0f} anchors a second"
        return "\n".join(
            [*text_table(_COLUMNS, rows), f"{rate}; excluded: {tallied(removed) or 'nothing'}"]
        )

    @property
    def anchors(self) -> int:
        """Anchor sections that were searched."""
        return sum(pair.anchors for pair in self.pairs)

    @property
    def candidates(self) -> int:
        """Documents that were stored, before any cut."""
        return sum(pair.candidates for pair in self.pairs)

    @property
    def short(self) -> int:
        """Anchors with fewer candidates than the range of the recipe takes."""
        return sum(pair.short for pair in self.pairs)

    @property
    def counts(self) -> dict[str, int]:
        """Documents that share a term with an anchor, by outcome."""
        return _summed(pair.counts for pair in self.pairs)

    @property
    def outcomes(self) -> dict[str, int]:
        """Anchors by outcome."""
        return _summed(pair.outcomes for pair in self.pairs)

    @property
    def queries_per_second(self) -> float:
        """Anchors per second in this call."""
        done = sum(pair.anchors - pair.resumed for pair in self.pairs)
        return done / self.seconds if self.seconds else 0.0


def _summed(several: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in several:
        total.update(counts)
    return dict(total)
