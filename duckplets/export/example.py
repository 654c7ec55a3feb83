"""What is exported: an anchor with its positives and its negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Document(NamedTuple):
    """A section that is a positive or a negative.

    Attributes:
        id: That of its record, with ``#`` and the position where the record has several documents.
        text: The whole section.
    """

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """One anchor with what goes with it.

    Attributes:
        id: That of its record, with ``#`` and the position. Never that of another document:
            evaluators of BEIR drop a hit that has the id of its query.
        text: The whole section.
        outcome: What became of it in mining, as in table ``mined_anchors``.
        positives: By section.
        negatives: By rank, the hardest first.
        positive_score: The lowest score of its positives, or None.
        scores: Of the negatives; None for one that was drawn at random.
    """

    id: str
    text: str
    outcome: str
    positives: list[Document]
    negatives: list[Document]
    positive_score: float | None
    scores: list[float | None]

    @property
    def all_scores(self) -> list[float | None]:
        """The positive's score, then those of the negatives."""
        return [self.positive_score, *self.scores]
