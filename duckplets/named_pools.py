"""Keep recipes and show their pools: the verbs of a corpus from add_recipe to pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duckplets.changing import changes
from duckplets.ingest import records
from duckplets.mining.store import named_pool
from duckplets.pools.compile import CompiledPool
from duckplets.pools.read import PoolReader
from duckplets.recipes import store as recipe_store

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.db.database import Database

Recipe = recipe_store.Recipe


class NamedPools:
    """The part of ``Corpus`` that keeps recipes, and shows the pools of those and of defaults."""

    _database: Database

    @changes("add a recipe to")
    def add_recipe(self, recipe: Recipe) -> bool:
        """Store a recipe: samplers that are given none then draw by the stored ones.

        Returns:
            Whether it was not stored yet, just so.
        """
        return recipe_store.add(self._database, recipe)

    @changes("remove a recipe from")
    def remove_recipe(self, name: str) -> None:
        """Remove a stored recipe."""
        recipe_store.remove(self._database, name)

    def recipes(self) -> list[Recipe]:
        """Return the stored recipes, by name."""
        return recipe_store.stored(self._database)

    def brought_recipes(self) -> dict[str, list[Recipe]]:
        """Return by source the recipes that it brought, else its defaults, but for long sections.

        Samplers draw by them where none are given or stored.
        """
        sources = recipe_store.sources_of(self._database, records.current_version(self._database))
        return {name: list(brought.recipes) for name, brought in sources.items()}

    def recipe_sql(
        self, name: str, source: str | None = None, split: str = "train"
    ) -> tuple[str, dict[str, Any]]:
        """Return the statement of a recipe's pool and its parameters."""
        compiled = self._compiled(name, source, split)
        return compiled.sql(), compiled.parameters_of()

    def runnable_sql(self, name: str, source: str | None = None, split: str = "train") -> str:
        """Return the statement of a recipe's pool for the duckdb CLI, parameters written in."""
        return self._compiled(name, source, split).runnable()

    def pool(self, name: str, split: str = "train", source: str | None = None) -> pa.Table:
        """Return the pool of a recipe: one row an anchor.

        Columns: ``record_key``, ``record_id``, ``anchors`` (keys of its chunks) and, for triplet
        recipes, ``positives`` (chunks its positive is taken from).
        """
        compiled = self._compiled(name, source, split)
        with PoolReader(self._database, [compiled]) as reader:
            return reader.list(compiled, "pool")

    def _compiled(self, name: str, source: str | None, split: str) -> CompiledPool:
        return named_pool(self._database, name, source, split)
