"""Default recipes: from what the rows of a source are like to how it is drawn if nobody says more.

``preset="crate"`` is the way of the triplets crate: a quarter of the samples has a negative from
the anchors of other records. Without it those recipes are known by name, and drawn when named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from duckplets.base.settings import checked
from duckplets.errors import RecipeError
from duckplets.recipes.recipes import Role, Selector, TextRecipe, TripletRecipe, any_section, role

Preset = Literal["crate"]
Defaults = Literal["roles", "documents", "text", "dated", "pairs", "ready"]

TEXTS = "texts"  # the name of a source's derived text recipe
USUAL = "anchor_context"  # the default that says nothing of negatives


def checked_preset(preset: Any) -> Preset | None:
    """Return the name of a preset, or None for none."""
    found: Preset | None = checked("preset", preset, Preset | None, RecipeError)
    return found


def is_swapped(swap: bool | None, preset: Preset | None) -> bool:
    """Return whether anchor and positive change places: as it was said, else as the preset has."""
    return preset == "crate" if swap is None else bool(swap)


@cache
def default_recipes(defaults: str, preset: Preset | None = None) -> tuple[TripletRecipe, ...]:
    """Return the recipes of a source that was given none, by what its rows are like.

    Anchors of ``documents`` are headings or file names, ``ready`` are roles with ready negatives,
    ``pairs`` a chosen and a rejected reply. ``crate`` adds those that take negatives from anchors.
    """
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


def long_section_recipe(of_role: Role) -> TripletRecipe:
    """Return the recipe of two different windows of one record, for sections of a role."""
    windows = role(of_role, where="kind = 'window'")
    return TripletRecipe("long_section", windows, windows, windows, share="anchors")


def derived_text_recipe(recipes: Sequence[TripletRecipe], *, titles: bool = True) -> TextRecipe:
    """Return the text recipe of a source: every chunk that its triplet recipes take, each once.

    A ``near_date`` slot becomes its context; rejected texts are no negatives of texts. An
    instruction goes with it where all recipes have the same. Recipes of weight 0 take nothing, if
    there are others. With ``titles`` sections of the role ``anchor`` are texts of their own.
    """
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
    """Whether a selector without a condition takes all that another one does."""
    if wider.where is not None or wider == selector:
        return False
    if wider.kind == "any_section":
        return selector.kind == "any_section" or selector.role in ("anchor", "context")
    return wider.kind == "role" == selector.kind and wider.role == selector.role
