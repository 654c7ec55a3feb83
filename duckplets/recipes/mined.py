"""Describe the choice of negatives, and of consistent pairs, from mined candidates.

A user writes ``Negatives`` for a run, an export or a recipe. It makes ``Mined``, the cut of one
scorer's candidates, and ``mining.policy`` applies it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Annotated, Any, Literal

from duckplets.base.settings import (
    Bounds,
    FrozenMapping,
    Name,
    check,
    checked,
    from_plain,
    to_plain,
    value_shown,
)
from duckplets.errors import DuckpletsError, RecipeError, SamplerError, nearest

__all__ = ["Consistent", "Mined", "Negatives", "consistent_of", "negatives_of"]

BM25, DENSE = "bm25", "dense"
_MARGIN = 0.05  # default for dense scorers
Scorer = Annotated[str, Name(64)]
Sampling = Literal["turn", "score"]
WhenShort = Literal["keep", "drop", "random"]
_Margin = Annotated[float, Bounds(0, 0.99)]
_InBatch = Annotated[
    float | tuple[Any, ...] | None, "a margin such as 0.05, or a scorer and one: ('dense', 0.05)"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """The fields that ``Negatives`` and ``Mined`` share."""

    relative_margin: float | None = None
    absolute_margin: float | None = None
    min_score: float | None = None
    max_score: float | None = None
    range_min: Annotated[int, Bounds(0)] = 0
    range_max: Annotated[int, Bounds(1)] = 16
    sampling: Sampling = "turn"

    def _check_bounds(self, error: Any, what: str) -> None:
        if self.range_max <= self.range_min:
            raise error(
                f"{what}: range_max={self.range_max} must be greater than "
                f"range_min={self.range_min}"
            )
        low, high = self.min_score, self.max_score
        if low is not None and high is not None and low > high:
            raise error(f"{what}: min_score={low} is above max_score={high}: no candidate remains")


@dataclass(frozen=True, slots=True, repr=False)
class Mined(_Cut):
    """The cut of one scorer's candidates; see ``Negatives``."""

    scorer: Scorer = BM25
    _: KW_ONLY
    when_short: Literal["drop", "random"] = "random"

    def __post_init__(self) -> None:
        if self.scorer == DENSE and self.relative_margin is None:
            object.__setattr__(self, "relative_margin", _MARGIN)
        check(self, RecipeError, "by")
        if self.scorer == "random":
            raise RecipeError("by: 'random' has no candidates to cut; give by='random' alone")
        self._check_bounds(RecipeError, "by")

    @property
    def wanted(self) -> int:
        """The number of candidates to draw from, if an anchor has enough."""
        return self.range_max - self.range_min

    def to_dict(self) -> dict[str, Any]:
        """Return it as in recipes files: its settings by the name of the scorer."""
        plain = to_plain(replace(self, scorer=BM25), defaults=False)
        return {self.scorer: plain}

    def __repr__(self) -> str:
        plain = {"by": self.scorer, **to_plain(replace(self, scorer=BM25), defaults=False)}
        return f"Negatives({', '.join(f'{name}={value!r}' for name, value in plain.items())})"

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], what: str) -> Mined:
        """Return a cut from ``to_dict``."""
        if len(table) != 1 or not isinstance(next(iter(table.values())), Mapping):
            raise RecipeError(f"{what}: by={dict(table)!r}: give {{ bm25 = {{ range_max = 8 }} }}")
        ((scorer, settings),) = table.items()
        return from_plain(cls, {**settings, "scorer": scorer}, RecipeError, f"{what}: by: {scorer}")


@dataclass(frozen=True, slots=True, repr=False)
class Negatives(_Cut):
    """The number and choice of a sample's negatives: ``dp.Negatives(4, relative_margin=0.05)``.

    Candidates of an anchor come best first. Below, s is the score of a candidate, and s_pos the
    lowest score of a positive of the anchor. Margins apply only if this positive has a score. In
    ``by=`` of a recipe, only ``by`` with one scorer and the fields about candidates are allowed.

    Attributes:
        num: Distinct negatives of a sample. An export takes the hardest ones; there, None takes
            all of them, and 0 writes plain pairs.
        by: Source of negatives in recipes that leave it open. ``random``; a scorer such as
            ``bm25``, for its mined candidates; or shares, as in ``{"bm25": 0.5, "random": 0.5}``.
            A recipe without candidates draws at random, and ``notes`` report it. Default: the
            candidates mined last, otherwise ``random``.
        relative_margin: Leave out a candidate if s > s_pos - abs(s_pos) * margin. Default: 0.05 for
            ``dense``, none for other scorers. A negative margin admits scores above the positive's.
        absolute_margin: Leave out a candidate if s + margin > s_pos.
        min_score: Leave out a candidate if s is lower.
        max_score: Leave out a candidate if s is higher.
        range_min: Pass over this many of the best remaining candidates.
        range_max: Draw from the best remaining candidates up to this rank.
        sampling: ``turn`` rotates through candidates by visits to the anchor. ``score`` draws in
            proportion to scores, by a hash of anchor and visit, and none twice in a sample.
        when_short: Handling of an anchor with fewer candidates than ``num``. ``random`` draws the
            missing ones at random, marked and counted. ``drop`` leaves the anchor out. ``keep``,
            in an export, writes the existing ones. Default: ``random``; in an export ``keep``, or
            ``drop`` for an n-tuple.
        in_batch_margin: Keep false negatives out of a batch. A text may not share a batch with an
            anchor if it is a known positive of the anchor. The same applies to a candidate with a
            score above s_pos - abs(s_pos) * margin. A number takes the scorer of ``by``; otherwise
            give both, as in ``("dense", 0.05)``. No text comes twice in such a batch.
        allow_stale: Draw candidates even if records or the recipe have changed since mining.

    Raises:
        SamplerError: A value is wrong.
    """

    num: Annotated[int, Bounds(0, 1024)] | None = 1
    _: KW_ONLY
    by: Scorer | Mapping[str, Annotated[float, Bounds(0)]] | None = None
    when_short: WhenShort | None = None
    in_batch_margin: _InBatch = None
    allow_stale: bool = False

    def __post_init__(self) -> None:
        check(self, SamplerError, "negatives")
        self._check_bounds(SamplerError, "negatives")
        if isinstance(self.by, Mapping):
            ways = sorted(self.by, key=lambda way: (way == "random", way))
            shares = {way: self.by[way] for way in ways if self.by[way]}
            if not shares:
                raise SamplerError(f"negatives: by={dict(self.by)!r}: give one of them more than 0")
            by = FrozenMapping(shares) if len(shares) > 1 else next(iter(shares))
            object.__setattr__(self, "by", by)
        if self.by == "random" and self.cuts:
            raise SamplerError(
                f"negatives: {next(iter(self.cuts))}: by='random' has no candidates to cut; name a "
                f"scorer, as in by='bm25', or leave it out"
            )
        if self.in_batch_margin is not None:
            object.__setattr__(self, "in_batch_margin", self._in_batch())

    def _in_batch(self) -> tuple[str, float]:
        value, scorers = self.in_batch_margin, [way for way in self.ways if way != "random"]
        scorer, margin = value if isinstance(value, tuple) and len(value) == 2 else (None, value)
        if isinstance(value, float) and len(scorers) == 1:
            scorer = scorers[0]
        if scorer is None and isinstance(value, float):
            raise SamplerError(
                f"negatives: in_batch_margin={value}: name its scorer, as in "
                f"in_batch_margin=('bm25', {value}); by={self.by!r} does not name one scorer"
            )
        checked("in_batch_margin: scorer", scorer, Scorer, SamplerError, "negatives")
        margin = checked("in_batch_margin", margin, _Margin, SamplerError, "negatives")
        return str(scorer), margin

    @property
    def ways(self) -> tuple[str, ...]:
        """The scorers, or ``random``, that ``by`` names."""
        return (self.by,) if isinstance(self.by, str) else tuple(self.by or ())

    @property
    def cuts(self) -> dict[str, Any]:
        """The fields about candidates that are not the default."""
        own = {field.name: getattr(self, field.name) for field in fields(_Cut)}
        changed = {name: own[name] for name in own if own[name] != _DEFAULTS[name]}
        return changed if self.when_short is None else changed | {"when_short": self.when_short}

    @property
    def chosen(self) -> Negatives:
        """The fields that choose an anchor's negatives, without number and batch."""
        return replace(self, num=1, in_batch_margin=None, allow_stale=False)

    def cut(self, scorer: str) -> Mined:
        """Return the cut of a scorer's candidates."""
        return Mined(scorer, **self.cuts)

    def policy(self, scorer: str) -> Mined | None:
        """Return the cut of a scorer's candidates, or None if recipes choose it."""
        is_meant = self.by is None or scorer in self.ways
        return self.cut(scorer) if is_meant and (self.cuts or isinstance(self.by, str)) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not the default, as JSON values."""
        plain: dict[str, Any] = to_plain(self, defaults=False)
        return plain

    def __repr__(self) -> str:
        changed = {name: value for name, value in self.to_dict().items() if name != "num"}
        words = [f"{self.num}", *(f"{name}={value!r}" for name, value in changed.items())]
        return f"Negatives({', '.join(words)})"


_DEFAULTS = {field.name: field.default for field in fields(_Cut)}


def negatives_of(value: Any) -> Negatives:
    """Return ``Negatives`` of a number or of a table of its fields."""
    if isinstance(value, Negatives):
        return value
    if isinstance(value, Mapping):
        return from_plain(Negatives, value, SamplerError, "negatives")
    kind = Annotated[int, Bounds(0, 1024), "an integer from 1 to 1024, or dp.Negatives(…)"]
    return Negatives(checked("negatives", value, kind, SamplerError))


def cut_of(by: Negatives, what: str) -> str | Mined | None:
    """Return the ``by`` of a recipe that ``Negatives`` describes."""
    if by.chosen != by or not isinstance(by.by, str | None):
        raise RecipeError(
            f"{what}: by={by!r}: give a recipe one scorer and the cut of its candidates, as in "
            f"dp.Negatives(by='bm25', range_max=8). Give the rest to the sampler"
        )
    return by.by if by.by == "random" else by.cut(by.by or BM25)


def policy_of(by: object) -> Mined | None:
    """Return the cut of a recipe's candidates; None if it is open or random."""
    if isinstance(by, str):
        return None if by == "random" else Mined(by)
    return by if isinstance(by, Mined) else None


def policy_for(by: object, scorer: str) -> Mined:
    """Return the cut of a scorer's candidates in a recipe: its own, or the default."""
    own = policy_of(by)
    return own if own and own.scorer == scorer else Mined(scorer)


def no_scorer(name: str, known: Collection[str]) -> str:
    """Return a sentence on a scorer without candidates, and the known scorers."""
    there = ", ".join(sorted(known)) or "none"
    return f"no candidates of scorer {name!r}{nearest(name, known)}; there are: {there}"


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
