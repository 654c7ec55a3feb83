"""The consistency filter: draw only pairs whose positive a scorer ranks high enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from duckplets.base.settings import Bounds, check, from_plain, value_shown
from duckplets.errors import DuckpletsError, RecipeError
from duckplets.recipes.mined import Scorer


@dataclass(frozen=True, slots=True)
class Consistent:
    """The filter for consistent pairs of an anchor and a positive.

    Attributes:
        scorer: A scorer that has mined negatives of these anchors.
        within: Leave out a pair if the positive's rank among legal negatives is lower.
        min_score: Leave out a pair if the positive's score is lower.
    """

    scorer: Scorer
    within: Annotated[int, Bounds(1)]
    min_score: float | None = None

    def __post_init__(self) -> None:
        check(self, RecipeError, "consistent")
        if self.scorer == "random":
            raise RecipeError("consistent: 'random' ranks nothing; name a scorer, as ('bm25', 20)")

    def __str__(self) -> str:
        least = "" if self.min_score is None else f", score {self.min_score:g} or more"
        return f"{self.scorer} within {self.within}{least}"


def consistent_of(value: Any, error: type[DuckpletsError] = RecipeError) -> Consistent | None:
    """Return the filter of ``("dense", 20)``, ``"dense=20"`` or a table of its fields."""
    if value is None or isinstance(value, Consistent):
        return value
    if isinstance(value, str):
        name, _, within = value.rpartition("=")
        if name and within.isdecimal():
            value = (name, int(within))
    try:
        if isinstance(value, Mapping):
            return from_plain(Consistent, value, RecipeError, "consistent")
        if isinstance(value, tuple | list) and len(value) == 2:
            return Consistent(*value)
    except RecipeError as wrong:
        raise error(str(wrong)) from None
    raise error(
        f"consistent={value_shown(value)}: give a scorer and the last rank to retain, as in "
        f"('dense', 20), or a table of scorer, within and min_score"
    )
