"""Say which of the candidates that were mined for an anchor become its negatives, and how.

What a user writes as ``by=dp.mined(...)`` on a recipe, or gives to a sampler. Nothing here computes
anything: ``mining.policy`` applies it when a pool is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

from duckplets.base.settings import Bounds, Name, check, from_plain, to_plain
from duckplets.errors import RecipeError, nearest

__all__ = ["Mined", "bm25", "mined"]

BM25, DENSE = "bm25", "dense"
_MARGIN = 0.05  # of dense scorers
Scorer = Annotated[str, Name(64)]
Weight = Literal["score"]
WhenShort = Literal["drop", "random"]


@dataclass(frozen=True, slots=True)
class Mined:
    """Draw negatives from what a scorer has mined, as in ``by=dp.mined("bm25", range_max=8)``.

    Candidates of an anchor come best first. With s the score of one and s_pos that of the anchor's
    lowest-scoring positive, margins act only where that positive was ranked too.

    Attributes:
        scorer: What ranked them: ``bm25``, or the name that ``add_negatives`` was given.
        relative_margin: Leave out if s > s_pos - abs(s_pos) * margin. By default .05 for ``dense``,
            and none for others; a negative one lets in what scores higher than the positive.
        absolute_margin: Leave out if s + margin > s_pos.
        min_score: Leave out if s is lower.
        max_score: Leave out if s is higher.
        range_min: So many of the first that are left are passed over.
        range_max: Of those that are left the first so many are drawn from.
        weight: None rotates through them by visits to the anchor; ``score`` draws in proportion
            to scores, by a hash of anchor and visit, none twice for one sample.
        when_short: An anchor with fewer than a sample takes gets the rest at ``random``, marked
            and counted; or ``drop`` it.

    Raises:
        RecipeError: A value is wrong.
    """

    scorer: Scorer = BM25
    _: KW_ONLY
    relative_margin: float | None = None
    absolute_margin: float | None = None
    min_score: float | None = None
    max_score: float | None = None
    range_min: Annotated[int, Bounds(0)] = 0
    range_max: Annotated[int, Bounds(1)] = 16
    weight: Weight | None = None
    when_short: WhenShort = "random"

    def __post_init__(self) -> None:
        if self.scorer == DENSE and self.relative_margin is None:
            object.__setattr__(self, "relative_margin", _MARGIN)
        check(self, RecipeError, "mined")
        if self.scorer == "random":
            raise RecipeError("mined: scorer='random': draw at random with by='random'")
        if self.range_max <= self.range_min:
            raise RecipeError(
                f"mined: range_max={self.range_max} must be greater than range_min={self.range_min}"
            )
        low, high = self.min_score, self.max_score
        if low is not None and high is not None and low > high:
            raise RecipeError(f"mined: min_score={low} is above max_score={high}: nothing is left")

    @property
    def wanted(self) -> int:
        """How many candidates an anchor is drawn from, where it has so many."""
        return self.range_max - self.range_min

    def to_dict(self) -> dict[str, Any]:
        """Return it as recipes files have it: its settings by the name of the scorer."""
        plain = to_plain(replace(self, scorer=BM25), defaults=False)
        return {self.scorer: plain}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], what: str) -> Mined:
        """Return what ``to_dict`` made."""
        if len(table) != 1 or not isinstance(next(iter(table.values())), Mapping):
            raise RecipeError(f"{what}: by={dict(table)!r}: give {{ bm25 = {{ range_max = 8 }} }}")
        ((scorer, settings),) = table.items()
        return from_plain(cls, {**settings, "scorer": scorer}, RecipeError, f"{what}: by: {scorer}")


mined = Mined
bm25 = partial(Mined, BM25)
"""Draw negatives from those that BM25 has mined: ``mined("bm25", …)``."""


def policy_of(by: object) -> Mined | None:
    """Return how a recipe or a run draws mined negatives; None if it leaves it open or does not."""
    if isinstance(by, str):
        return None if by == "random" else Mined(by)
    return by if isinstance(by, Mined) else None


def policy_for(by: object, scorer: str) -> Mined:
    """Return how a recipe draws what a scorer has mined: as it says, or by default."""
    own = policy_of(by)
    return own if own and own.scorer == scorer else Mined(scorer)


def no_scorer(name: str, known: Collection[str]) -> str:
    """Return what there is in place of a scorer that has no candidates."""
    there = ", ".join(sorted(known)) or "none"
    return f"no candidates of scorer {name!r}{nearest(name, known)}; there are: {there}"
