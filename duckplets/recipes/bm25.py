"""Settings of BM25 mining, named as users of sentence-transformers know them.

What a user writes as ``by=dp.bm25(...)`` on a recipe; nothing here computes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from duckplets.base.settings import Bounds, check, to_plain
from duckplets.errors import RecipeError

__all__ = ["Bm25", "bm25"]

Sampling = Literal["rotate", "top", "random"]
RangeOn = Literal["survivors", "raw"]
WhenShort = Literal["backfill", "random", "drop", "keep"]
Scope = Literal["pool", "shard"]
Count = Annotated[int, Bounds(1)]

_MOST_TOKENS = 100  # impacts of so many terms add up in 32 bits, whatever the corpus


@dataclass(frozen=True, kw_only=True, slots=True)
class Bm25:
    """Rank a recipe's negatives by BM25, as in ``by=dp.bm25(top_k=16, range_min=2)``.

    Legal documents (another record, group and text; same source and split; the recipe's
    selector and strategy) that share a term with the anchor are ranked by score, then by record
    id. With s a document's score and s_pos that of the anchor's lowest-scoring positive:

    Attributes:
        top_k: How many are kept for each anchor.
        range_min: So many of the first are passed over.
        range_max: Ranks that are looked at, before any filter by score; None means all.
        min_score: Drop if s is lower.
        max_score: Drop if s is higher.
        absolute_margin: Drop if s + margin > s_pos.
        relative_margin: Drop if s > s_pos - abs(s_pos) * margin.
        range_on: Whether ``range_min`` passes over ``survivors`` of the filters, or ``raw`` ranks.
        query_tokens: How many of the anchor's first tokens are looked for, 1 to 100.
        sampling: ``rotate`` through those kept by visits to the anchor, always take the ``top``,
            or draw at ``random``.
        rotation: Rotate or draw over the first so many of those kept only; None means all.
        when_short: What to do about an anchor with fewer than were asked for: ``backfill`` from
            the ranks beyond ``range_max`` (without one there is nothing beyond, and it stays
            short); fill up at ``random``; ``drop`` it; ``keep`` it so.
        scope: Search the whole ``pool``, or only the anchor's own ``shard`` of it.
        shard_documents: Documents of a shard.

    Raises:
        RecipeError: A value is wrong.
    """

    top_k: Count = 32
    range_min: Annotated[int, Bounds(0)] = 0
    range_max: Count | None = None
    min_score: float | None = None
    max_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    range_on: RangeOn = "survivors"
    query_tokens: Annotated[int, Bounds(1, _MOST_TOKENS)] = 64
    sampling: Sampling = "rotate"
    rotation: Count | None = None
    when_short: WhenShort = "backfill"
    scope: Scope = "pool"
    shard_documents: Count = 65_536

    def __post_init__(self) -> None:
        check(self, RecipeError, "bm25")
        if self.range_max is not None and self.range_max <= self.range_min:
            raise RecipeError(
                f"bm25: range_max={self.range_max} must be greater than range_min={self.range_min}"
            )
        low, high = self.min_score, self.max_score
        if low is not None and high is not None and low > high:
            raise RecipeError(f"bm25: min_score={low} is above max_score={high}: nothing is left")

    @property
    def wanted(self) -> int:
        """How many negatives make an anchor full."""
        if self.range_max is None:
            return self.top_k
        return min(self.top_k, self.range_max - self.range_min)

    def choosing(self) -> Bm25:
        """Return what chooses among scores: the settings of searching at their defaults."""
        usual = Bm25()
        return replace(
            self,
            query_tokens=usual.query_tokens,
            scope=usual.scope,
            shard_documents=usual.shard_documents,
        )


bm25 = Bm25


def given_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the arguments of a call that are settings and are not None."""
    known = {field.name for field in fields(Bm25)}
    return {n: value for n, value in arguments.items() if n in known and value is not None}


def settled(recipe: str, by: object, asked: Bm25 | None) -> Bm25:
    """Return what negatives of a recipe are chosen with: its own ``by``, else what a call asks."""
    if not isinstance(by, Bm25):
        return asked or Bm25()
    if asked is not None and asked != by:
        own, other = (to_plain(settings, defaults=False) for settings in (by, asked))
        raise RecipeError(
            f"recipe {recipe!r} says itself how it is mined, {own}, not {other}; change the "
            f"recipe, or make its by 'bm25'"
        )
    return by
