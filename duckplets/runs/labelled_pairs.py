"""Decide whether the pairs of a run are those that were judged, or are drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duckplets.db.database import Database
from duckplets.errors import SamplerError
from duckplets.order.mixture import Mixture
from duckplets.pools.read import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.defaults import USUAL
from duckplets.recipes.recipes import Recipe, TripletRecipe, role

if TYPE_CHECKING:
    from duckplets.recipes.store import SourceRecipes
    from duckplets.runs.settings import Pairs, RunSettings


def which_pairs(database: Database, drawn: Collection[str], version: int) -> Pairs:
    """Return whether the pairs of some sources are those that were judged, or are drawn.

    Raises:
        SamplerError: Some of them have labels and others have none.
    """
    labelled = labels_of(database, version)
    judged, others = (sorted(of) for of in ({*drawn} & labelled.keys(), {*drawn} - {*labelled}))
    if judged and others:
        raise SamplerError(
            f"pairs: those of source {judged[0]!r} come with labels, and those of source "
            f"{others[0]!r} have none; give pairs='labelled' to take only pairs that were judged, "
            f"pairs='drawn' to draw pairs from all sources, or leave out sources with mixture="
        )
    return "labelled" if judged else "drawn"


def check_labelled(
    database: Database, run: Mapping[str, Any], mixture: Mixture | None, sources: Collection[str]
) -> None:
    """Refuse arguments, with the ``version`` of the corpus, that labelled pairs cannot have.

    Raises:
        SamplerError: Negatives are asked for, or sources that have no labels.
        MixtureError: A name is no source.
    """
    labelled = labels_of(database, run["version"])
    if not labelled:
        raise SamplerError("pairs='labelled': no source has labels; leave it out")
    if mixture is not None:
        mixture.check([*sources])
        for name in mixture.weighed - labelled.keys():
            raise SamplerError(
                f"pairs='labelled': source {name!r} has no labels; give it no weight in mixture=, "
                f"or pairs='drawn'"
            )
    if run["negatives"] != 1 or run["no_duplicates"] == "negatives":
        what = "negatives" if run["negatives"] != 1 else "no_duplicates"
        raise SamplerError(
            f"{what}={run[what]!r}: pairs that were judged come with nothing drawn beside them; "
            f"leave it out, or give pairs='drawn'"
        )


def labelled(
    database: Database, resolved: Sequence[SourceRecipes], version: int
) -> list[SourceRecipes]:
    """Return the recipes of the sources with labels, with nothing said of negatives."""
    there, judged = labels_of(database, version), []
    for of_source in resolved:
        if of_source.source in there:
            # Two windows of a section are no pair that a label judges.
            some = [r for r in of_source.recipes if r.name not in of_source.optional]
            bare = tuple(_without_negatives(some))
            judged.append(replace(of_source, recipes=bare, optional=frozenset()))
    return judged


def resolved(
    database: Database,
    recipes: Sequence[Recipe | str] | None,
    settings: RunSettings,
    version: int,
    also: Sequence[Recipe] = (),
) -> list[SourceRecipes]:
    """Return the recipes of every source at a version for a saved run.

    Of labelled pairs those of the sources with labels. ``also`` may be named though they are not
    stored any more.
    """
    found = recipe_store.resolve(
        database,
        recipes,
        kind=settings.kind,
        split=settings.split,
        version=version,
        preset=settings.preset,
        max_tokens=settings.chunking["max_tokens"],
        also=also,
    )
    return labelled(database, found, version) if settings.pairs == "labelled" else found


def _without_negatives(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return recipes with nothing said of negatives; equal ones as one, with their weights.

    That one has the name of the usual default, or else of the first.
    """
    found: dict[Any, TripletRecipe] = {}
    for recipe in recipes:
        if not isinstance(recipe, TripletRecipe) or not recipe.weight:
            continue
        plain: dict[str, Any] = {"negative": role("context"), "strategy": "other_record"}
        plain |= {"negatives_from": "source", "when_short": "drop", "by": "random", "share": None}
        bare = replace(recipe, **plain)
        alike = replace(bare, name="pairs", weight=1.0)
        if before := found.get(alike):
            first = bare if bare.name == USUAL else before  # no pair is one of ready negatives
            bare = replace(first, weight=before.weight + bare.weight)
        found[alike] = bare
    return list(found.values())


def is_graded(database: Database, version: RunSettings) -> bool:
    """Return whether some labels of a run of labelled pairs are neither 0 nor 1."""
    kinds = labels_of(database, version.corpus_version)
    return any(kinds.get(name) == "graded" for name in version.sources)
