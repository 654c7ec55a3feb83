"""Choose where negatives come from in recipes that leave it open: what a sampler's ``by=`` says.

If that is None, too, they are those that were mined for the recipe, where some were, else random.
Such a recipe keeps ``by=None`` in the settings of a run, and the mining that it draws from is
pinned beside it: so a run that is resumed draws as it did.

Which ways there are ``recipes.recipes.Way`` says, and ``samples.stream`` how each draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast, get_args

from duckplets.base.sanitize import listed, shown
from duckplets.base.settings import Bounds, checked
from duckplets.db.database import Database
from duckplets.errors import SamplerError, StateMismatchError, nearest
from duckplets.mining import store as mining_store
from duckplets.mining.store import Mining
from duckplets.recipes.recipes import MINED_WAYS, Recipe, TripletRecipe, Way

if TYPE_CHECKING:
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.stream import Stream

By: TypeAlias = Way | dict[str, float]
Drawn: TypeAlias = Mapping[str, Sequence[Recipe]]  # by source, what samples are drawn by
Candidates: TypeAlias = dict[str, dict[str, dict[str, Any]]]  # by source and recipe

WAYS: tuple[Way, ...] = get_args(Way)


def checked_by(by: Any) -> By | None:
    """Return how negatives are chosen: the name of a way, shares of several by name, or None."""
    if by is None or (isinstance(by, str) and by in WAYS):
        return cast("By | None", by)
    if not isinstance(by, Mapping):
        hint = nearest(by, WAYS) if isinstance(by, str) else ""
        raise SamplerError(
            f"by={shown(repr(by))}{hint}: give {', '.join(map(repr, WAYS))}, or shares of them, as "
            f"in {{'bm25': 0.5, 'random': 0.5}}"
        )
    for way in by:
        if way not in WAYS:
            raise SamplerError(
                f"by: no kind of negatives {shown(repr(way))}{nearest(str(way), WAYS)}: "
                f"{', '.join(WAYS)}"
            )
    given = checked("by", by, Mapping[str, Annotated[float, Bounds(0)]], SamplerError)
    shares = {way: given[way] for way in WAYS if given.get(way)}
    if not shares:
        raise SamplerError(f"by={by!r}: give at least one of {', '.join(WAYS)} more than 0")
    return cast("By", shares if len(shares) > 1 else next(iter(shares)))


def wants_mined(by: By | None) -> bool:
    """Whether mined negatives are asked for."""
    return not MINED_WAYS.isdisjoint([by] if isinstance(by, str) else by or ())


def is_open(recipe: Recipe) -> bool:
    """Whether a recipe leaves open how its negatives are chosen, and there is a choice."""
    if not isinstance(recipe, TripletRecipe):
        return False
    return recipe.by is None and recipe.strategy != "same_record"


def drawn_by(settings: RunSettings) -> Drawn:
    """Return what the samples of a run are drawn by: by ``bm25`` what it took mined ones for."""
    # What is left open is drawn at random, unless the run says in which other way.
    asked = settings.by if isinstance(settings.by, str) else "random"
    way = None if asked == "random" or asked in MINED_WAYS else asked
    drawn: dict[str, Sequence[Recipe]] = {}
    for source, recipes in settings.recipes.items():
        taken = settings.candidates.get(source, ())
        drawn[source] = [
            _by(recipe, "bm25" if recipe.name in taken else way) if taken or way else recipe
            for recipe in recipes
            if recipe.weight
        ]
    return drawn


def _by(recipe: Recipe, way: Way | None) -> Recipe:
    """Return a recipe by a way, if there is one and it leaves that open."""
    if way is None or not isinstance(recipe, TripletRecipe) or not is_open(recipe):
        return recipe
    return replace(recipe, by=way)


def shares_of(settings: RunSettings, source: str, recipe: str) -> dict[str, float] | None:
    """Return the shares of the ways that the negatives of a recipe are mixed of, if they are."""
    lacks = wants_mined(settings.by) and recipe not in settings.candidates.get(source, ())
    if not isinstance(settings.by, dict) or lacks:
        return None
    (of_run,) = (r for r in settings.recipes[source] if r.name == recipe)
    return settings.by if is_open(of_run) else None


def notes(database: Database, settings: RunSettings) -> list[str]:
    """Return where a new run that asks for mined negatives has none; refuse one without any."""
    if not wants_mined(settings.by):
        return []
    of_open: dict[str, list[str]] = defaultdict(list)
    needed, mined = settings.mixture.drawn(settings.sources), False
    for source, recipes in drawn_by(settings).items():
        for recipe in recipes:
            mined |= isinstance(recipe, TripletRecipe) and recipe.mined
            if source in needed and is_open(recipe):
                of_open[recipe.name].append(source)
    what = f"by={settings.by!r}: no recipe of this run has mined negatives in split"
    if not mined and not of_open:
        raise StateMismatchError(
            f"{what} {settings.split!r}, and none leaves open how they are chosen; leave out by="
        )
    if not mined:
        name = next(iter(of_open))
        raise StateMismatchError(
            f"{what} {settings.split!r}; mine them: corpus.mine({name!r}), or run: "
            f"{mining_store.mine_command(database, name)}"
        )
    return [
        f"recipe {name!r} has no mined negatives in source {listed(sources)}, split "
        f"{settings.split!r}, so it draws at random there; to mine them, where a recipe can "
        f"be mined: {mining_store.mine_command(database, name)}"
        for name, sources in of_open.items()
    ]


# -- the minings that a run is pinned to ---------------------------------------------------------


def with_mined(database: Database, settings: RunSettings, recipes: Drawn) -> Drawn:
    """Return the recipes of a new run, by ``bm25`` where some were mined and it takes them."""
    if settings.by is not None and not wants_mined(settings.by):
        return recipes
    if not (there := mining_store.mined_for(database, settings.split)):
        return recipes
    return {s: [mining_store.as_drawn(r, s, there) for r in of] for s, of in recipes.items()}


def pins(
    database: Database,
    settings: RunSettings,
    drawn: Drawn,
    needed: Collection[str] | None = None,
    *,
    allow_stale: bool,
    instead: str = "",
) -> Candidates:
    """Return the number and digest of the mining of every mined recipe, by source.

    What is missing or stale is refused, of sources that are not ``needed`` left out. ``instead`` is
    what else can be done about stale ones than to mine again.
    """
    found: Candidates = {}
    for source in settings.sources:
        for recipe in drawn[source]:
            if not (isinstance(recipe, TripletRecipe) and recipe.mined and recipe.weight):
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
                if needed is None:
                    needed = settings.mixture.drawn(settings.sources)
                if source in needed:
                    raise
                continue
            named = {"mining": mining.key, "digest": mining.digest}
            found.setdefault(source, {})[recipe.name] = named
    return found


def pinned_mining(database: Database, settings: RunSettings, source: str, recipe: str) -> Mining:
    """Return the mining that a run draws the negatives of a recipe from, if that is still there."""
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


def unused_minings(
    database: Database, settings: RunSettings, streams: Sequence[Stream]
) -> list[tuple[str, str, int]]:
    """Return source, recipe and anchors of minings made since a run was opened, which it lacks."""
    if settings.by == "random":
        return []
    alone = {
        (stream.source, stream.recipe.name)
        for stream in streams
        if not stream.candidates and is_open(stream.recipe)
    }
    rows = database.run("samples/candidates/there", {"split": settings.split})
    return [(source, name, anchors) for source, name, anchors in rows if (source, name) in alone]
