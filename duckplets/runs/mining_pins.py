"""Pin a run to minings: its mined recipes → numbers and digests → the minings as they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duckplets.db.database import Database
from duckplets.errors import StateMismatchError
from duckplets.mining import store as mining_store
from duckplets.mining.store import Mining
from duckplets.recipes.recipes import TripletRecipe
from duckplets.runs.negative_policy import is_open

if TYPE_CHECKING:
    from duckplets.recipes.store import Recipe
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.stream import Stream


def unused(
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


def pinned(database: Database, settings: RunSettings, source: str, recipe: str) -> Mining:
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
