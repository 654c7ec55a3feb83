"""Write down how samples are put together: selectors of sections, strategies, weights.

This is what a user writes, not what is compiled.

``TripletRecipe`` names an anchor, a positive and a negative, ``TextRecipe`` one text; each slot
is a selector made by ``role``, ``position``, ``any_section`` or ``near_date``. Everything is
checked as it is made, conditions included, and nothing here touches a database.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

from duckplets.base.checks import LONGEST_NAME, checked_name
from duckplets.base.documents import SURROGATE
from duckplets.base.sanitize import shown
from duckplets.errors import RecipeError
from duckplets.recipes.bm25 import Bm25
from duckplets.recipes.conditions import pair_condition
from duckplets.recipes.selectors import Selector, check_choice

StrategyName = Literal["other_record", "other_date", "question_answer_mismatch", "same_record"]
Per = Literal["record", "chunk"]
By: TypeAlias = Literal["random", "bm25"] | Bm25
Share = Literal["anchors"]
NegativesFrom = Literal["source", "split"]
WhenShort = Literal["drop", "random"]

_LONGEST_DERIVED = 9  # signs that saved text recipes may have behind a triplet recipe's name


@dataclass(frozen=True, slots=True)
class SqlStrategy:
    """Negatives for which a condition holds; made by ``sql``.

    Attributes:
        condition: SQL condition over columns ``anchor.x`` and ``negative.x``.
    """

    condition: str

    def __post_init__(self) -> None:
        pair_condition(self.condition)


Strategy: TypeAlias = StrategyName | SqlStrategy


def sql(condition: str) -> SqlStrategy:
    """Make a strategy, as in ``sql("negative.meta['topic'] = anchor.meta['topic']")``."""
    return SqlStrategy(condition)


@dataclass(frozen=True, slots=True)
class TripletRecipe:
    """How anchor, positive and negative are found.

    Attributes:
        name: What samples and tables call it: 1 to 200 printable characters, no ``/``, not
            only blanks.
        anchor: Sections that may be anchors.
        positive: Sections of the anchor's record (``near_date``: of another) that go with it.
        negative: Sections that may be negatives, before the strategy.
        strategy: Which of them are legal: ``other_record``, ``other_date``,
            ``question_answer_mismatch``, or ``sql(condition)``; or those of the anchor's own
            record, ``same_record``, which successive visits go through in turn.
        by: How one of the legal ones is chosen: ``random``; ``bm25``, from those that were mined
            for this recipe, with whatever settings; or ``bm25(...)``, from those mined so. None
            leaves it to the sampler's ``by=``; without one it is ``bm25`` where some were mined
            for it, else ``random``.
        negatives_from: Where they come from: the anchor's ``source``; or ``split``, which lets an
            anchor with too few legal ones in its source draw from all sources of the split.
        when_short: Of ``same_record``: ``drop`` an anchor whose record has fewer than were asked
            for, or fill up at ``random`` with those of other records.
        weight: Share among the recipes of a source, relative; 0 means never.
        share: None: just so. ``anchors``: that share times its anchors over the records of the
            source in the split, so that the few records a recipe can use come about as often as
            others. In the weight of a sample ``weight`` counts as it is.
        instruction: Carried to each sample unchanged.
        allow_same_anchor_positive: Whether the positive may have the anchor's very text.
        per: The unit of an anchor, a ``record`` or a ``chunk``.
        sources: Names of the sources it is limited to; None means all.
    """

    name: str
    anchor: Selector
    positive: Selector
    negative: Selector
    _: KW_ONLY
    strategy: Strategy = "other_record"
    by: By | None = None
    negatives_from: NegativesFrom = "source"
    when_short: WhenShort = "drop"
    weight: float = 1.0
    share: Share | None = None
    instruction: str | None = None
    allow_same_anchor_positive: bool = False
    per: Per = "record"
    sources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        what = _check_common(self, LONGEST_NAME)
        for slot in ("anchor", "positive", "negative"):
            _check_selector(f"{what}: {slot}", getattr(self, slot), near=slot != "anchor")
        if not isinstance(self.strategy, SqlStrategy):
            check_choice(f"{what}: strategy", self.strategy, get_args(StrategyName))
        if not (self.by is None or isinstance(self.by, Bm25)):
            check_choice(f"{what}: by", self.by, ("random", "bm25"))
        self._check_together(what)
        same = self.allow_same_anchor_positive
        if not isinstance(same, bool):
            raise RecipeError(f"{what}: allow_same_anchor_positive must be a bool, not {same!r}")
        if self.share is not None:
            check_choice(f"{what}: share", self.share, get_args(Share))

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """Those of anchor, positive and negative."""
        return (self.anchor, self.positive, self.negative)

    def _check_together(self, what: str) -> None:
        check_choice(f"{what}: negatives_from", self.negatives_from, get_args(NegativesFrom))
        check_choice(f"{what}: when_short", self.when_short, get_args(WhenShort))
        own, near = self.strategy == "same_record", self.negative.kind == "near_date"
        if own and self.mined:
            raise RecipeError(
                f"{what}: by={self.by!r} ranks sections of other records, and strategy "
                f"'same_record' takes the anchor's own; leave by at 'random'"
            )
        if self.mined and near:
            raise RecipeError(
                f"{what}: a near_date negative is the one record its date names, so there is "
                f"nothing to rank; leave by at 'random'"
            )
        if self.negatives_from == "split" and (own or near or self.mined):
            reason = (
                "strategy 'same_record' takes those of the anchor's own record"
                if own
                else "a near_date negative is of the anchor's source"
                if near
                else f"by={self.by!r} ranks those of the anchor's source"
            )
            raise RecipeError(
                f"{what}: negatives_from='split' draws at random from all sources, but {reason}; "
                f"leave negatives_from at 'source'"
            )
        if self.when_short != "drop" and not own:
            raise RecipeError(
                f"{what}: when_short={self.when_short!r} is for strategy='same_record', whose "
                f"records may have too few negatives of their own; leave it out"
            )

    @property
    def mined(self) -> bool:
        """Whether negatives are drawn from those that were mined for it."""
        return self.by is not None and self.by != "random"

    @property
    def minable(self) -> bool:
        """Whether negatives can be mined for it."""
        own = self.strategy == "same_record" or self.negative.kind == "near_date"
        return self.negatives_from == "source" and not own


@dataclass(frozen=True, slots=True)
class TextRecipe:
    """How single texts are found.

    Attributes:
        name: What samples and tables call it: printable characters, no ``/``.
        selector: Sections that may be drawn. Of several selectors, in a tuple, those that any of
            them takes, each once.
        weight: Share among the recipes of a source, relative; 0 means never.
        instruction: Carried to each sample unchanged.
        per: The unit that is drawn, a ``record`` or a ``chunk``.
        sources: Names of the sources it is limited to; None means all.
    """

    name: str
    selector: Selector | tuple[Selector, ...]
    _: KW_ONLY
    weight: float = 1.0
    instruction: str | None = None
    per: Per = "record"
    sources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        what = _check_common(self, LONGEST_NAME + _LONGEST_DERIVED)
        if isinstance(self.selector, list | tuple):
            object.__setattr__(self, "selector", tuple(self.selector))
        if not self.selectors:
            raise RecipeError(f"{what}: selector must be one or several, not {self.selector!r}")
        for selector in self.selectors:
            _check_selector(f"{what}: selector", selector, near=False)

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """The selectors, one or more."""
        return self.selector if isinstance(self.selector, tuple) else (self.selector,)


def _check_common(recipe: TripletRecipe | TextRecipe, longest: int) -> str:
    """Check what both kinds have, make weight and sources uniform, and return who it is."""
    name, weight, instruction = recipe.name, recipe.weight, recipe.instruction
    checked_name(f"recipe name {shown(repr(name))}", name, RecipeError, longest=longest)
    what = f"recipe {name!r}"
    object.__setattr__(recipe, "weight", _weight(what, weight))
    object.__setattr__(recipe, "sources", _sources(what, recipe.sources))
    if isinstance(instruction, str) and SURROGATE.search(instruction):
        raise RecipeError(f"{what}: instruction {shown(repr(instruction))} holds half of a pair")
    if not (instruction is None or isinstance(instruction, str)):
        raise RecipeError(f"{what}: instruction must be text or None, not {instruction!r}")
    check_choice(f"{what}: per", recipe.per, get_args(Per))
    return what


def _weight(what: str, weight: Any) -> float:
    if isinstance(weight, Real) and not isinstance(weight, bool):
        try:
            number = float(weight)
        except OverflowError:
            number = math.inf
        if 0 <= number < math.inf:
            return number
    raise RecipeError(f"{what}: weight must be a finite number of at least 0, not {weight!r}")


def _sources(what: str, sources: Any) -> tuple[str, ...] | None:
    if sources is None:
        return None
    names = sources if isinstance(sources, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise RecipeError(f"{what}: sources must be a tuple of names or None, not {sources!r}")
    return tuple(dict.fromkeys(names))


def _check_selector(what: str, selector: Any, *, near: bool) -> None:
    if not isinstance(selector, Selector):
        raise RecipeError(f"{what} must be a selector such as role('anchor'), not {selector!r}")
    if selector.kind == "near_date" and not near:
        raise RecipeError(
            f"{what}: near_date looks from an anchor, so only a positive or a negative can be one"
        )
