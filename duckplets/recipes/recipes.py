"""Recipes, as users write them: selectors of sections, strategies, weights.

``TripletRecipe`` names an anchor, a positive and a negative, ``TextRecipe`` one text; each slot is
a selector made by ``role``, ``position``, ``any_section`` or ``near_date``. Each value is checked
when it is made, with its conditions. Nothing here uses a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, get_args

from duckplets.base.sanitize import shown
from duckplets.base.settings import LONGEST_NAME, Bounds, Name, Named, check, checked
from duckplets.errors import RecipeError
from duckplets.recipes.mined import Consistent, Mined, Negatives, Scorer, consistent_of, cut_of

Role = Literal["anchor", "context", "rejected"]
SelectorKind = Literal["role", "position", "near_date", "any_section"]
StrategyName = Literal["other_record", "other_date", "question_answer_mismatch", "same_record"]
Per = Literal["record", "chunk"]
PerOfTriplets = Literal["record", "chunk", "pair"]
By: TypeAlias = Scorer | Mined | Negatives  # ``random``, or the scorer of candidates
Share = Literal["anchors"]
NegativesFrom = Literal["source", "split"]
WhenShort = Literal["drop", "random"]
Weight = Annotated[float, Bounds(0)]
Sources = Annotated[tuple[str, ...], "a list of names of sources"]

_MOST = 4_000_000  # sections or days (11,000 years): within DuckDB's dates
_LONGEST_DERIVED = 9  # characters that derived text recipes append to a name


@dataclass(frozen=True, slots=True)
class Selector:
    """The sections that may fill a slot; the four functions below make it.

    Attributes:
        role: The role of the section.
        position: Or the position of the section in its record, from 0.
        near_date: Or the number of days from the anchor's date.
        any_section: Or True, for any section.
        where: SQL condition over columns of records, sections and chunks, or None.
    """

    role: Role | None = None
    position: Annotated[int, Bounds(0, _MOST)] | None = None
    near_date: Annotated[int, Bounds(-_MOST, _MOST)] | None = None
    any_section: Literal[True] | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        check(self, RecipeError, "selector")
        chosen = [name for name in _KINDS if getattr(self, name) is not None]
        if len(chosen) != 1:
            found = " and ".join(chosen) or "none"
            raise RecipeError(f"selector: give one of {', '.join(_KINDS)}, not {found} of them")
        if self.where is not None:
            from duckplets.conditions.parse import where_condition

            where_condition(self.where)

    @property
    def kind(self) -> SelectorKind:
        """Which of the four it is."""
        return next(name for name in _KINDS if getattr(self, name) is not None)


_KINDS: tuple[SelectorKind, ...] = ("role", "position", "near_date", "any_section")


def role(r: Role, where: str | None = None) -> Selector:
    """Select sections of a role: ``anchor``, ``context``, or ``rejected`` of preference pairs."""
    return Selector(role=r, where=where)


def position(i: int, where: str | None = None) -> Selector:
    """Select the section at a position in its record, counted from 0."""
    return Selector(position=i, where=where)


def any_section(where: str | None = None) -> Selector:
    """Select any section except the rejected replies of preference pairs."""
    return Selector(any_section=True, where=where)


def near_date(days: int, where: str | None = None) -> Selector:
    """Select context of the record whose date is nearest to the anchor's plus ``days``.

    It is another record of the same source and split, or a record that shares ``taxonomy[0]``. Days
    may be negative. It needs an anchor, so it cannot select anchors or texts.
    """
    return Selector(near_date=days, where=where)


Slot = Annotated[Selector, "a selector such as role('anchor'), or in files { role = 'anchor' }"]


@dataclass(frozen=True, slots=True)
class SqlStrategy:
    """Negatives that satisfy a condition over columns ``anchor.x`` and ``negative.x``."""

    sql: str

    def __post_init__(self) -> None:
        from duckplets.conditions.parse import pair_condition

        check(self, RecipeError, "strategy")
        pair_condition(self.sql)


def sql(condition: str) -> SqlStrategy:
    """Make a strategy, as in ``sql("negative.meta['topic'] = anchor.meta['topic']")``."""
    return SqlStrategy(condition)


@dataclass(frozen=True, slots=True)
class TripletRecipe:
    """A recipe for anchor, positive and negative.

    Attributes:
        name: Name in samples and tables: 1 to 200 printable characters without ``/``, not only
            blanks. Names differ in more than case.
        anchor: Sections that may be anchors.
        positive: Sections of the anchor's record that answer it; ``near_date``: of another record.
        negative: Sections that may be negatives, before the strategy.
        strategy: Legal negatives: ``other_record``, ``other_date`` (a missing date is another
            date), ``sql(condition)``, or ``same_record``. ``same_record`` takes sections of the
            anchor's own record, in turn at successive visits. ``question_answer_mismatch`` is
            another name for ``other_record``.
        by: Choice among legal negatives: ``random``; a scorer such as ``bm25``, for its mined
            candidates; or ``Negatives(by=…)`` with the cut of its candidates. None: the
            ``negatives=`` of a run decides.
        negatives_from: The anchor's ``source``, or the ``split``. With ``split``, an anchor with
            too few legal negatives in its source draws from all sources of the split.
        when_short: For ``same_record``, handling of an anchor whose record has too few negatives:
            ``drop`` it, or add ``random`` ones from other records.
        weight: Relative share among the recipes of a source; 0 means never.
        share: None: the share is ``weight``. ``anchors``: ``weight`` times its anchors over the
            records of the source in the split. Then records of a recipe with few anchors come
            about as often as others. The weight of a sample uses ``weight`` in both cases.
        instruction: Copied to each sample unchanged.
        allow_same_anchor_positive: Whether the positive may have the text of the anchor.
        per: The unit that comes once an epoch. ``record``: a record, with its positives in turn.
            ``chunk``: a chunk of anchors. ``pair``: a record with one of its positives; each window
            of a long positive makes a pair.
        sources: Names of the sources it is limited to; None means all.
        consistent: Draw only pairs whose positive has a high rank. ``("dense", 20)`` means rank 20
            or better by this scorer; a table has ``scorer``, ``within`` and ``min_score``. None:
            the ``consistent=`` of a run decides.
    """

    name: Named
    anchor: Slot
    positive: Slot
    negative: Slot
    _: KW_ONLY
    strategy: StrategyName | SqlStrategy = "other_record"
    by: By | None = None
    negatives_from: NegativesFrom = "source"
    when_short: WhenShort = "drop"
    weight: Weight = 1.0
    share: Share | None = None
    instruction: str | None = None
    allow_same_anchor_positive: bool = False
    per: PerOfTriplets = "record"
    sources: Sources | None = None
    consistent: Consistent | None = None

    def __post_init__(self) -> None:
        if isinstance(self.by, Negatives):
            object.__setattr__(self, "by", cut_of(self.by, f"recipe {self.name!r}"))
        object.__setattr__(self, "consistent", consistent_of(self.consistent))
        what = _checked(self)
        own, near = self.strategy == "same_record", self.negative.kind == "near_date"
        if near and (self.strategy != "other_record" or self.positive.kind == "near_date"):
            raise RecipeError(
                f"{what}: the date chooses a near_date negative, and only one of positive and "
                f"negative can be near_date; leave the strategy at 'other_record'"
            )
        if self.per == "pair" and self.own_positive:
            raise RecipeError(f"{what}: per='pair': the positive is the anchor; leave it out")
        reason = ""
        if own:
            reason = "strategy 'same_record' takes sections of the anchor's own record"
        elif near:
            reason = "a near_date negative is one record of the anchor's source"
        if self.mined and reason:
            raise RecipeError(
                f"{what}: by={self.by!r} ranks sections of other records, but {reason}; leave by "
                f"at 'random'"
            )
        if self.mined:
            reason = f"by={self.by!r} ranks sections of the anchor's source"
        if self.negatives_from == "split" and reason:
            raise RecipeError(
                f"{what}: negatives_from='split' draws at random from all sources, but {reason}; "
                f"leave negatives_from at 'source'"
            )
        if self.when_short != "drop" and not own:
            raise RecipeError(
                f"{what}: when_short={self.when_short!r} is only for strategy='same_record'; leave "
                f"it out"
            )

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """The selectors of anchor, positive and negative."""
        return (self.anchor, self.positive, self.negative)

    def filtered(self, by: Consistent | None) -> TripletRecipe:
        """Return the recipe with a run's filter, unless it has its own or pairs a text twice."""
        is_open = self.consistent is None and self.anchor != self.positive
        return replace(self, consistent=by) if by is not None and is_open else self

    def of_pool(self) -> TripletRecipe:
        """Return the recipe without fields that do not change its pool: names and shares."""
        neutral: dict[str, Any] = {"name": "pool", "by": None, "weight": 1.0, "share": None}
        if self.strategy == "question_answer_mismatch":  # every pool has this condition
            neutral["strategy"] = "other_record"
        return replace(self, **neutral, instruction=None, sources=None)

    @property
    def own_positive(self) -> bool:
        """Whether anchor and positive are one chunk: the same text twice, as in SimCSE."""
        return self.allow_same_anchor_positive and self.anchor == self.positive

    @property
    def mined(self) -> bool:
        """Whether negatives are drawn from mined candidates."""
        return self.by not in (None, "random")

    @property
    def minable(self) -> bool:
        """Whether negatives can be mined for it."""
        own = self.strategy == "same_record" or self.negative.kind == "near_date"
        return self.negatives_from == "source" and not own


@dataclass(frozen=True, slots=True)
class TextRecipe:
    """A recipe for single texts.

    Attributes:
        name: Name in samples and tables: printable characters without ``/``.
        selector: Sections that may be drawn. A tuple of selectors takes each section that one of
            them selects, once.
        weight: Relative share among the recipes of a source; 0 means never.
        instruction: Copied to each sample unchanged.
        per: The unit that is drawn, a ``record`` or a ``chunk``.
        sources: Names of the sources it is limited to; None means all.
    """

    name: Annotated[str, Name(LONGEST_NAME + _LONGEST_DERIVED)]
    selector: Slot | tuple[Slot, ...]
    _: KW_ONLY
    weight: Weight = 1.0
    instruction: str | None = None
    per: Per = "record"
    sources: Sources | None = None

    def __post_init__(self) -> None:
        what = _checked(self)
        if not self.selectors:
            raise RecipeError(f"{what}: selector=(): give one or several")

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """The selectors, one or more."""
        return self.selector if isinstance(self.selector, tuple) else (self.selector,)

    def of_pool(self) -> TextRecipe:
        """Return the recipe without fields that do not change its pool: names and shares."""
        return TextRecipe("pool", self.selector, per=self.per)


Recipe: TypeAlias = TripletRecipe | TextRecipe


def _checked(recipe: Recipe) -> str:
    """Check the fields of both kinds, remove repeated sources; return the name for messages."""
    what = f"recipe {shown(repr(recipe.name), 80)}"
    check(recipe, RecipeError, what)
    if (sources := recipe.sources) is not None:
        if not sources or "" in sources:
            raise RecipeError(f"{what}: sources={sources!r}: give names of sources, or None")
        object.__setattr__(recipe, "sources", tuple(dict.fromkeys(sources)))
    is_text = isinstance(recipe, TextRecipe)
    for slot in recipe.selectors if is_text else recipe.selectors[:1]:
        if slot.kind == "near_date":
            raise RecipeError(
                f"{what}: {'selector' if is_text else 'anchor'}: near_date needs an anchor, so "
                f"only a positive or a negative can be near_date"
            )
    return what


def check_names(recipes: Iterable[Recipe]) -> None:
    """Refuse recipes with equal names, or with names that differ only in case."""
    seen: dict[str, None] = {}
    for recipe in recipes:
        if recipe.name in seen:
            raise RecipeError(f"two recipes are named {recipe.name!r}; rename one of them")
        check_case(recipe.name, seen)
        seen[recipe.name] = None


def check_case(name: str, others: Iterable[str]) -> None:
    """Refuse a name of a recipe that differs from another only in case."""
    for other in others:
        if other != name and other.casefold() == name.casefold():
            raise RecipeError(
                f"recipes {shown(repr(name), 80)} and {shown(repr(other), 80)}: names differ in "
                f"more than case, since SQL ignores case; rename one of them"
            )


# ``preset="crate"`` follows the triplets crate: a quarter of the samples has a negative from the
# anchors of other records. Without it these recipes are drawn only if named.
Preset = Literal["crate"]
Defaults = Literal["roles", "documents", "text", "dated", "pairs", "ready"]

TEXTS = "texts"  # name of a source's derived text recipe
LONG_SECTION = "long_section"
USUAL = "anchor_context"  # the default recipe with unspecified negatives


def checked_preset(preset: Any) -> Preset | None:
    """Return a preset's name, or None."""
    found: Preset | None = checked("preset", preset, Preset | None, RecipeError)
    return found


@cache
def default_recipes(defaults: str, preset: Preset | None = None) -> tuple[TripletRecipe, ...]:
    """Return the default recipes of a source, by the kind of its rows."""
    anchor, context, whole = role("anchor"), role("context"), any_section()
    to_context = TripletRecipe(USUAL, anchor, context, context, weight=0.75)
    to_anchor = TripletRecipe("anchor_anchor", anchor, context, anchor, weight=0.25)
    if defaults in ("roles", "documents"):
        return (to_context, to_anchor) if preset else (replace(to_context, weight=1.0),)
    if defaults == "text":
        return (TripletRecipe("simcse", whole, whole, whole, allow_same_anchor_positive=True),)
    rejected = role("rejected")
    chosen = TripletRecipe(
        "chosen_rejected", anchor, context, rejected, strategy="same_record", weight=0.75
    )
    if defaults == "pairs":
        return (chosen, replace(to_context, weight=0.25))
    if defaults == "ready":
        ready = replace(chosen, name="ready_negative", when_short="random")
        return (ready, replace(to_context, weight=0.25))
    checked("defaults", defaults, Defaults, RecipeError)
    dated = (
        replace(to_context, name="anchor_context_other_date", strategy="other_date", weight=0.30),
        replace(to_anchor, name="anchor_anchor_other_date", strategy="other_date", weight=0.10),
        replace(to_context, weight=0.35),
        to_anchor,
    )
    return dated if preset else dated[::2]


@cache
def default_names() -> tuple[str, ...]:
    """Return the names of all default recipes for all kinds of rows."""
    kinds = (default_recipes(recipes, "crate") for recipes in get_args(Defaults))
    return tuple(
        dict.fromkeys([*(r.name for recipes in kinds for r in recipes), LONG_SECTION, TEXTS])
    )


def long_section_recipe(of_role: Role) -> TripletRecipe:
    """Return the recipe of two different windows of a record's section with this role."""
    windows = role(of_role, where="kind = 'window'")
    return TripletRecipe(LONG_SECTION, windows, windows, windows, share="anchors")


def derived_text_recipe(recipes: Sequence[TripletRecipe], *, titles: bool = True) -> TextRecipe:
    """Return the text recipe of a source: every chunk of its triplet recipes, once."""
    drawn = [recipe for recipe in recipes if recipe.weight] or list(recipes)
    found: dict[Selector, None] = {}
    for recipe in drawn:
        rejected = recipe.negative.role == "rejected"
        slots = (recipe.anchor, recipe.positive, *(() if rejected else (recipe.negative,)))
        found |= dict.fromkeys(
            role("context", slot.where) if slot.kind == "near_date" else slot for slot in slots
        )
    selectors = [s for s in found if not any(_covers(other, s) for other in found)]
    if not titles:
        selectors = [s for s in selectors if s.role != "anchor"] or selectors
    instructions = {recipe.instruction for recipe in drawn}
    return TextRecipe(
        TEXTS,
        selectors[0] if len(selectors) == 1 else tuple(selectors),
        weight=1.0 if drawn[0].weight else 0.0,
        instruction=instructions.pop() if len(instructions) == 1 else None,
        per="chunk",
    )


def _covers(wider: Selector, selector: Selector) -> bool:
    """Return whether a selector without a condition covers another selector."""
    if wider.where is not None or wider == selector:
        return False
    if wider.kind == "any_section":
        return selector.kind == "any_section" or selector.role in ("anchor", "context")
    return wider.kind == "role" == selector.kind and wider.role == selector.role
