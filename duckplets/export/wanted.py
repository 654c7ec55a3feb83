"""What of every anchor is wanted, and why one is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from duckplets.export.example import Example

UNSCORED = "negatives without a score"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a file is to hold.

    Attributes:
        shape: Of its rows, where the format has several.
        negatives: How many an anchor has at most; None for all.
        exactly: Whether it must have so many.
        scores: Whether scores are written.
        instruction: That of the recipe.
    """

    shape: str = ""
    negatives: int | None = None
    exactly: bool = False
    scores: bool = False
    instruction: str | None = None


@dataclass
class Tally:
    """Counts of what was written.

    Attributes:
        rows: Of the main file.
        anchors: Written.
        negatives: Of these anchors.
        left_out: By reason.
    """

    rows: int = 0
    anchors: int = 0
    negatives: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def fit(example: Example, wanted: Wanted, tally: Tally) -> Example | None:
    """Return an example with what is wanted of it, or None, counted, if it is left out."""
    if wanted.scores:
        example = _scored(example, tally)
    reason = _reason(example, wanted)
    if reason:
        tally.left_out[reason] += 1
        return None
    tally.anchors += 1
    tally.negatives += len(example.negatives)
    return example


def _scored(example: Example, tally: Tally) -> Example:
    """Return it without the negatives that have no score."""
    if None not in example.scores:
        return example
    kept = [i for i, score in enumerate(example.scores) if score is not None]
    tally.left_out[UNSCORED] += len(example.scores) - len(kept)
    return replace(
        example,
        negatives=[example.negatives[i] for i in kept],
        scores=[example.scores[i] for i in kept],
    )


def _reason(example: Example, wanted: Wanted) -> str:
    if example.outcome == "dropped":
        return "dropped when mining"
    if not example.positives:
        return "no positive"
    if not example.negatives:
        return "no negative"
    if wanted.exactly and len(example.negatives) != wanted.negatives:
        return "too few negatives"
    return "no score of its positive" if wanted.scores and example.positive_score is None else ""
