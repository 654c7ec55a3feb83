"""The pool of a recipe by its name: as of the newest version, and of what was mined last."""

from __future__ import annotations

from duckplets.db.database import Database
from duckplets.ingest import records
from duckplets.ingest.splits import checked_split
from duckplets.mining import minings
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.recipes import store as recipe_store


def named_pool(database: Database, name: str, source: str | None, split: str) -> CompiledPool:
    """Compile the pool of a stored or default recipe; see ``Corpus.pool``.

    Args:
        database: The corpus.
        name: Of the recipe.
        source: Name of a source; by default the first that the recipe applies to.
        split: The split.

    Raises:
        RecipeError, SplitError: There is no such recipe, source or split.
    """
    version = records.current_version(database)
    recipe = recipe_store.find(database, name, version)
    if source is None:
        source = recipe_store.first_source(database, recipe, version)
    else:
        recipe_store.check_source(database, source, version)
    mining = minings.key_of(database, recipe, source=source, split=checked_split(split))
    return compile_pool(recipe, source=source, split=split, version=version, mining=mining)
