"""Reports of mining: what became of the anchors and documents of each recipe, source and split."""

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
    """What mining did for one recipe, source and split.

    Attributes:
        recipe: Name of the recipe.
        source: Name of the source.
        split: The split.
        scorer: What ranked candidates.
        mining: Number of the mining, as in the view ``minings``.
        anchors: Sections that negatives were looked for.
        left: Those that still have to be, of a mining that is not whole.
        candidates: Documents that were kept for them, before any cut.
        outcomes: Anchors by what the policy of the recipe leaves: a ``full`` range, a ``short``
            one, or ``none``.
        counts: Documents that share a term with an anchor (or rows that were given), by what
            became of them: excluded by a guard, beyond the depth, without a score as the function
            ``failed``; and candidates, by the policy of the recipe: cut by a margin or a score, out
            of the ``range``, ``kept``.
        quantiles: Of ``negative_score``, ``positive_score`` and ``positive_rank``.
        found: ``recall@10`` and ``recall@100``, the mean share of an anchor's positives within
            these ranks, and ``mrr@10``, the mean of 1 / best rank, 0 beyond 10. Only legal
            negatives rank before a positive. Empty where no positive is ranked.
        unranked: Anchors whose positive has no rank, so that margins do not act: by BM25 one that
            shares no term.
        searched: Documents that could be negatives.
        resumed: Anchors that an interrupted mining had done before.
        seconds: Time it took, that of the interrupted one included.
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
    """What ``Corpus.mine`` did.

    Attributes:
        pairs: One for every recipe, source and split that was mined; none if all were current.
        seconds: Wall time of all.
        notes: What is to be known of them before they are used, one sentence each.
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
                *(
                    None if (of := p.found.get(name)) is None else f"{of:.3f}"
                    for name in _COLUMNS[7:]
                ),
            )
            for p in self.pairs
        ]
        removed = {n: count for n, count in self.counts.items() if count and n not in _WANTED}
        rate = f"{self.queries_per_second:,.0f} anchors a second"
        return "\n".join(
            [*text_table(_COLUMNS, rows), f"{rate}; left out: {tallied(removed) or 'nothing'}"]
        )

    @property
    def anchors(self) -> int:
        """Sections that negatives were looked for."""
        return sum(pair.anchors for pair in self.pairs)

    @property
    def candidates(self) -> int:
        """Documents that were kept, before any cut."""
        return sum(pair.candidates for pair in self.pairs)

    @property
    def short(self) -> int:
        """Anchors with fewer candidates than the range of the recipe takes."""
        return sum(pair.short for pair in self.pairs)

    @property
    def counts(self) -> dict[str, int]:
        """Documents that share a term with an anchor, by what became of them."""
        return _summed(pair.counts for pair in self.pairs)

    @property
    def outcomes(self) -> dict[str, int]:
        """Anchors by what became of them."""
        return _summed(pair.outcomes for pair in self.pairs)

    @property
    def queries_per_second(self) -> float:
        """Anchors done in this call, a second."""
        done = sum(pair.anchors - pair.resumed for pair in self.pairs)
        return done / self.seconds if self.seconds else 0.0


def _summed(every: Iterable[dict[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for counts in every:
        found.update(counts)
    return dict(found)
