"""Choose where negatives come from in recipes that leave it open: what a sampler's ``by=`` says.

If that is None, too, they are those that were mined for the recipe, where some were, else random.
Such a recipe keeps ``by=None`` in the settings of a run, and the mining that it draws from is
pinned beside it: so a run that is resumed draws as it did.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from duckplets.base.sanitize import listed, shown
from duckplets.db.database import Database
from duckplets.errors import SamplerError, StateMismatchError, nearest
from duckplets.ingest import splits
from duckplets.mining import store as mining_store
from duckplets.mining.store import Mining
from duckplets.order.mixture import Mixture, mixture_of
from duckplets.pools.labels import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.defaults import USUAL
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.recipes import TripletRecipe
from duckplets.recipes.selectors import role

if TYPE_CHECKING:
    from duckplets.pools.compile import Labels
    from duckplets.recipes.store import Recipe, SourceRecipes
    from duckplets.runs.settings import Pairs, RunSettings
    from duckplets.samples.stream import Stream

By: TypeAlias = Literal["random", "bm25"] | dict[str, float]
Drawn: TypeAlias = Mapping[str, Sequence["Recipe"]]  # by source, what samples are drawn by

KINDS = ("bm25", "random")


def checked_by(by: Any) -> By | None:
    """Return how negatives are chosen, in the form in which settings hold it.

    Args:
        by: ``bm25``, ``random``, shares of these two by name, or None.

    Raises:
        SamplerError: It is something else.
    """
    if by is None or (isinstance(by, str) and by in KINDS):
        return cast("By | None", by)
    if isinstance(by, Mapping):
        shares = {kind: _share(by, kind) for kind in by}
        kinds = [kind for kind in KINDS if shares.get(kind)]
        if len(kinds) == 1:
            return cast("By", kinds[0])
        if kinds:
            return {kind: shares[kind] for kind in kinds}
        raise SamplerError(f"by={by!r}: give at least one of {', '.join(KINDS)} more than 0")
    hint = nearest(by, KINDS) if isinstance(by, str) else ""
    raise SamplerError(
        f"by={shown(repr(by))}{hint}: give 'bm25', 'random', or shares of them, as in "
        f"{{'bm25': 0.5, 'random': 0.5}}"
    )


def _share(by: Mapping[Any, Any], kind: Any) -> float:
    if kind not in KINDS:
        hint = nearest(str(kind), KINDS)
        raise SamplerError(
            f"by: no kind of negatives {shown(repr(kind))}{hint}: {', '.join(KINDS)}"
        )
    share = by[kind]
    if isinstance(share, Real) and not isinstance(share, bool) and 0 <= float(share) < math.inf:
        return float(share)
    raise SamplerError(f"by: the share of {kind} must be a finite number of at least 0: {share!r}")


def wants_mined(by: By | None) -> bool:
    """Whether mined negatives are asked for."""
    return by not in (None, "random")


def is_open(recipe: Recipe) -> bool:
    """Whether a recipe leaves open how its negatives are chosen, and there is a choice."""
    if not isinstance(recipe, TripletRecipe):
        return False
    return recipe.by is None and recipe.strategy != "same_record"


def labels_for(settings: RunSettings, kind: Literal["binary", "graded"] | None) -> Labels | None:
    """Return what the labels of a source, of a kind, do to the pools of a run."""
    return kind if kind is None or settings.pairs != "labelled" else "given"


def resolved(
    database: Database,
    recipes: Sequence[Recipe | str] | None,
    run: Mapping[str, Any],
    version: int,
    **more: Any,
) -> list[SourceRecipes]:
    """Return the recipes of every source for a run; of labelled pairs of those with labels.

    Args:
        database: The corpus.
        recipes: Those given, or None.
        run: Its ``kind``, ``split``, ``preset``, and ``pairs`` of a run of pairs.
        version: Of the corpus.
        more: Other arguments of ``recipes.store.resolve``.

    Raises:
        RecipeError: As ``resolve`` does.
    """
    same = {name: run[name] for name in ("kind", "split", "preset")}
    found = recipe_store.resolve(database, recipes, version=version, **same, **more)
    if run.get("pairs") != "labelled":
        return found
    labelled, judged = labels_of(database, version), []
    for of_source in found:
        if of_source.source in labelled:
            # Two windows of a section are no pair that a label judges.
            some = [r for r in of_source.recipes if r.name not in of_source.optional]
            bare = tuple(_without_negatives(some))
            judged.append(replace(of_source, recipes=bare, optional=frozenset()))
    return judged


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
    database: Database, run: Mapping[str, Any], mixture: Mixture | None, version: int
) -> None:
    """Refuse what a run of labelled pairs cannot have.

    Args:
        database: The corpus.
        run: Its arguments.
        mixture: The one that was given.
        version: Of the corpus.

    Raises:
        SamplerError: Negatives are asked for, or sources that have no labels.
        MixtureError: A name is no source.
    """
    labelled, sources = labels_of(database, version), recipe_store.sources_of(database, version)
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


def with_mined(database: Database, settings: RunSettings, drawn: Drawn) -> Drawn:
    """Return the recipes of a new run, by ``bm25`` where some were mined and it takes them."""
    if settings.by == "random":
        return drawn
    there = mining_store.mined_for(database, settings.split)
    return {s: [mining_store.as_drawn(r, s, there) for r in rs] for s, rs in drawn.items()}


def drawn_by(settings: RunSettings) -> Drawn:
    """Return what the samples of a run are drawn by: by ``bm25`` what it took mined ones for."""
    found: dict[str, list[Recipe]] = {}
    made: dict[str, Recipe] = {}  # by its definition: thousands of sources may have the same few
    for source, definitions in settings.recipes.items():
        taken = settings.candidates.get(source, {})
        recipes = []
        for definition in definitions:
            told = repr(definition)
            recipe = made[told] = made.get(told) or from_dict(definition)
            recipes += [recipe] if recipe.weight else []
        found[source] = [
            replace(recipe, by="bm25")
            if isinstance(recipe, TripletRecipe) and is_open(recipe) and recipe.name in taken
            else recipe
            for recipe in recipes
        ]
    return found


def shares_of(settings: RunSettings, source: str, recipe: str) -> dict[str, float] | None:
    """Return the shares of the kinds that the negatives of a recipe are mixed of, if they are."""
    if not isinstance(settings.by, dict) or recipe not in settings.candidates.get(source, {}):
        return None
    definitions = {d["name"]: d for d in settings.recipes[source]}
    return settings.by if is_open(from_dict(definitions[recipe])) else None


def notes(database: Database, settings: RunSettings, needed: Collection[str]) -> list[str]:
    """Return what a user may not expect of where the negatives of a new run come from.

    Args:
        database: The corpus.
        settings: Of the run.
        needed: Sources that it draws from.

    Raises:
        StateMismatchError: Mined negatives are asked for, and no recipe has any.
    """
    of_open: dict[str, list[str]] = defaultdict(list)
    mined = False
    for source, recipes in drawn_by(settings).items():
        for recipe in recipes:
            mined |= isinstance(recipe, TripletRecipe) and recipe.mined
            if source in needed and is_open(recipe):
                of_open[recipe.name].append(source)
    if not wants_mined(settings.by):
        return []
    if not mined:
        raise _nothing_mined(database, settings, list(of_open))
    return [
        f"recipe {name!r} has no mined negatives in source {listed(sources)}, split "
        f"{settings.split!r}, so it draws at random there; to mine them, where a recipe can "
        f"be mined: {mining_store.mine_command(database, name)}"
        for name, sources in of_open.items()
    ]


def _nothing_mined(
    database: Database, settings: RunSettings, names: Sequence[str]
) -> StateMismatchError:
    what = f"by={settings.by!r}: no recipe of this run has mined negatives in split"
    if not names:
        return StateMismatchError(
            f"{what} {settings.split!r}, and none leaves open how they are chosen; leave out by="
        )
    return StateMismatchError(
        f"{what} {settings.split!r}; mine them: corpus.mine({names[0]!r}), or run: "
        f"{mining_store.mine_command(database, names[0])}"
    )


def given_anew(
    database: Database,
    settings: RunSettings,
    overrides: Mapping[str, Any],
    sources: Sequence[str],
) -> dict[str, Any]:
    """Return what is given anew with recipes and mixture, of ``sources``, as settings hold them."""
    anew = ("recipes", "mixture", "swap", "by", "pairs")
    given = {n: v for n, v in overrides.items() if not (n in anew and v is None)}
    if "split" in given:
        given["split"] = splits.checked_split(given["split"])
    if "mixture" in given:
        mixture = mixture_of(given["mixture"])
        mixture.check(sources)
        given["mixture"] = mixture.to_dict()
    if "recipes" in given:
        if settings.kind == "messages":
            raise SamplerError("recipes: messages have none; leave it out")
        found = resolved(
            database,
            given["recipes"],
            vars(settings),
            settings.corpus_version,
            max_tokens=settings.chunking["max_tokens"],
            also=[from_dict(d) for of_source in settings.recipes.values() for d in of_source],
        )
        given["recipes"] = {s.source: [to_dict(r) for r in s.recipes] for s in found}
    return given


# -- the minings that a run is pinned to ---------------------------------------------------------


def unused_minings(
    database: Database, settings: RunSettings, streams: Sequence[Stream]
) -> list[tuple[str, str, int]]:
    """Return source, recipe and anchors of minings that a run leaves alone, unasked.

    They were made after it was opened: a new run would take them.
    """
    if settings.by == "random":
        return []
    alone = {
        (stream.source, stream.recipe.name)
        for stream in streams
        if not stream.candidates and is_open(stream.recipe)
    }
    rows = database.run("samples/candidates/there", {"split": settings.split})
    return [(source, name, anchors) for source, name, anchors in rows if (source, name) in alone]


def pins(
    database: Database,
    settings: RunSettings,
    drawn: Mapping[str, Sequence[Recipe]],
    needed: Collection[str],
    *,
    allow_stale: bool,
    instead: str = "",
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the number and digest of the mining of every mined recipe, by source.

    Args:
        database: The corpus.
        settings: Of the run.
        drawn: Its recipes.
        needed: Sources that it draws from; of others what is missing or stale is left out.
        allow_stale: Whether to take minings of other records than those of the run.
        instead: What else can be done about stale ones than to mine again, for the error.

    Raises:
        StateMismatchError: Negatives were not mined, or are stale.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for source in settings.sources:
        for recipe in drawn[source]:
            if not (isinstance(recipe, TripletRecipe) and recipe.mined):
                continue
            try:
                mining = mining_store.current(
                    database,
                    recipe,
                    source=source,
                    split=settings.split,
                    version=settings.corpus_version,
                    allow_stale=allow_stale,
                    instead=instead,
                )
            except StateMismatchError:
                if source in needed:
                    raise
                continue
            named = {"mining": mining.key, "digest": mining.digest}
            found.setdefault(source, {})[recipe.name] = named
    return found


def pinned_mining(database: Database, settings: RunSettings, source: str, recipe: str) -> Mining:
    """Return the mining that a run draws the negatives of a recipe from.

    Raises:
        StateMismatchError: There is none, or it is another than when the run was opened.
    """
    named = settings.candidates.get(source, {}).get(recipe)
    if named is None:
        raise StateMismatchError(
            f"source {source!r}, recipe {recipe!r}: there were no mined negatives when run "
            f"{settings.run!r} was opened; call corpus.mine({recipe!r}), and open another run"
        )
    mining = mining_store.by_key(database, named["mining"])
    if mining.digest != named["digest"]:
        raise StateMismatchError(
            f"source {source!r}, recipe {recipe!r}: the negatives of mining {mining.key} are not "
            f"those run {settings.run!r} was opened with (digest then: {named['digest']}, now: "
            f"{mining.digest}); it is another file"
        )
    return mining
