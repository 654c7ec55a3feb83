"""Check the settings of BM25 mining, named as users of sentence-transformers know them.

What a user writes as ``by=dp.bm25(...)`` on a recipe; nothing here computes anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from typing import Any, Literal, get_args

from duckplets.base.checks import integer
from duckplets.errors import RecipeError, nearest

__all__ = ["Bm25", "bm25"]

Sampling = Literal["rotate", "top", "random"]
RangeOn = Literal["survivors", "raw"]
WhenShort = Literal["backfill", "random", "drop", "keep"]
Scope = Literal["pool", "shard"]

_SEARCHING = ("query_tokens", "scope", "shard_documents")
_MOST_TOKENS = 100  # impacts of so many terms add up in 32 bits, whatever the corpus


@dataclass(frozen=True, kw_only=True, slots=True)
class Bm25:
    """Which documents become an anchor's negatives, and how they are drawn; made by ``bm25``.

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
    """

    top_k: int = 32
    range_min: int = 0
    range_max: int | None = None
    min_score: float | None = None
    max_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    range_on: RangeOn = "survivors"
    query_tokens: int = 64
    sampling: Sampling = "rotate"
    rotation: int | None = None
    when_short: WhenShort = "backfill"
    scope: Scope = "pool"
    shard_documents: int = 65_536

    def __post_init__(self) -> None:
        least = {"top_k": 1, "range_min": 0, "query_tokens": 1, "shard_documents": 1}
        for name, low in least.items():
            object.__setattr__(self, name, _integer(name, getattr(self, name), low))
        for name in ("range_max", "rotation"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _integer(name, getattr(self, name), 1))
        for name in ("min_score", "max_score", "absolute_margin", "relative_margin"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _number(name, getattr(self, name)))
        choices = {
            "range_on": RangeOn,
            "sampling": Sampling,
            "when_short": WhenShort,
            "scope": Scope,
        }
        for name, literal in choices.items():
            _choice(name, getattr(self, name), get_args(literal))
        self._check_together()

    def _check_together(self) -> None:
        if self.query_tokens > _MOST_TOKENS:
            raise RecipeError(f"bm25: query_tokens={self.query_tokens}: at most {_MOST_TOKENS}")
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

    def to_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults, as plain values."""
        default = asdict(Bm25())
        return {name: value for name, value in asdict(self).items() if value != default[name]}

    def choosing(self) -> Bm25:
        """Return what chooses among scores: the settings of searching at their defaults."""
        return replace(self, **{name: getattr(Bm25(), name) for name in _SEARCHING})


def bm25(
    *,
    top_k: int = 32,
    range_min: int = 0,
    range_max: int | None = None,
    min_score: float | None = None,
    max_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    range_on: RangeOn = "survivors",
    query_tokens: int = 64,
    sampling: Sampling = "rotate",
    rotation: int | None = None,
    when_short: WhenShort = "backfill",
    scope: Scope = "pool",
    shard_documents: int = 65_536,
) -> Bm25:
    """Rank a recipe's negatives by BM25, as in ``by=dp.bm25(top_k=16, range_min=2)``.

    The arguments are the attributes of ``Bm25``.

    Raises:
        RecipeError: A value is wrong.
    """
    return Bm25(**locals())


def given_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the arguments of a call that are settings and are not None."""
    known = {field.name for field in fields(Bm25)}
    return {n: value for n, value in arguments.items() if n in known and value is not None}


def bm25_from(settings: Mapping[str, Any]) -> Bm25:
    """Return the settings of a dict: what ``to_dict`` made, or a table of a recipes file."""
    known = [field.name for field in fields(Bm25)]
    for name in settings:
        if name not in known:
            hint = nearest(str(name), known)
            raise RecipeError(f"bm25: no setting {name!r}{hint}; there are {', '.join(known)}")
    return Bm25(**settings)


def settled(recipe: str, by: object, asked: Bm25 | None) -> Bm25:
    """Return what negatives of a recipe are chosen with: its own settings, else those asked for.

    Args:
        recipe: Its name.
        by: What the recipe says of how they are chosen.
        asked: Settings of the call; None if it has none.

    Raises:
        RecipeError: The call has other settings than the recipe.
    """
    if not isinstance(by, Bm25):
        return asked or Bm25()
    if asked is not None and asked != by:
        raise RecipeError(
            f"recipe {recipe!r} says itself how it is mined, {by.to_dict()}, not "
            f"{asked.to_dict()}; change the recipe, or make its by 'bm25'"
        )
    return by


def _integer(name: str, value: Any, least: int) -> int:
    try:
        return integer(name, value, least)
    except ValueError as error:
        raise RecipeError(f"bm25: {error}") from None


def _number(name: str, value: Any) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise RecipeError(f"bm25: {name} must be a finite number or None, not {value!r}")


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        hint = nearest(value, choices) if isinstance(value, str) else ""
        names = ", ".join(map(repr, choices))
        raise RecipeError(f"bm25: {name} must be one of {names}, not {value!r}{hint}")
