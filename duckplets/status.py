"""Count what is in a corpus: sources, pools with what they leave out, runs, possible samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.db.database import Database
from duckplets.ingest import records, splits, unfinished
from duckplets.ingest.chunks import cleaned
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import store as mining_store
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import PoolReader
from duckplets.recipes import store as recipe_store
from duckplets.recipes.recipes import TripletRecipe
from duckplets.sampling import state

if TYPE_CHECKING:
    import pyarrow as pa


def status(database: Database, state_path: Path) -> dict[str, Any]:
    """Return the state of a corpus as plain values; see ``Corpus.status``."""
    current = splits.current_splits(database)
    return {
        "path": str(database.path),
        "version": records.current_version(database),
        "splits": current.to_dict() if current else None,
        "chunking": chunking_of(database),
        "cleaned": cleaned(database),
        "sources": database.table("status/sources").to_pylist(),
        "unfinished": unfinished.overview(database),
        "records": database.table("status/splits").to_pylist(),
        "shared_anchors": _shared_anchors(database) if current else {},
        "recipes": [recipe.name for recipe in recipe_store.stored(database)],
        "pools": _pools(database) if current else [],
        "mining": _mining(database) if current else [],
        "state": str(state_path),
        "runs": state.cursors(state_path),
    }


def capacity(database: Database) -> pa.Table:
    """Return how many samples there are at most, by source and split, from counts alone.

    With n records and R triplet recipes: R·n·(n-1) triplets, R·n·4 taking a record's positive
    once and four negatives, R·n·n pairs, and n texts a text recipe (the estimates of the triplets
    crate).
    """
    version = records.current_version(database)
    stored = recipe_store.stored(database)
    triplet = sum(recipe_store.is_triplet(recipe) for recipe in stored)
    return database.table(
        "status/capacity",
        {"version": version, "triplet_recipes": triplet, "text_recipes": len(stored) - triplet},
    )


def _shared_anchors(database: Database) -> dict[str, dict[str, int]]:
    return {
        split: {"anchors": anchors, "shared": shared}
        for split, (anchors, shared) in splits.shared_anchors(database).items()
    }


def _pools(database: Database) -> list[dict[str, Any]]:
    """Count, for every source, split and recipe, the anchors and what is left out, by reason."""
    version = records.current_version(database)
    max_tokens = chunking_of(database)["max_tokens"]
    pools = []
    for split in splits.SPLITS:
        resolved = recipe_store.resolve(
            database, None, kind="triplets", split=split, version=version, max_tokens=max_tokens
        )
        compiled = [
            compile_pool(
                recipe,
                source=of_source.source,
                split=split,
                version=version,
                mining=mining_store.key_of(database, recipe, source=of_source.source, split=split),
            )
            for of_source in resolved
            for recipe in of_source.recipes
        ]
        pools += _counted(database, compiled) if compiled else []
    return pools


def _counted(database: Database, compiled: list[CompiledPool]) -> list[dict[str, Any]]:
    rows = []
    with PoolReader(database, compiled) as reader:
        for pool in compiled:
            counts = reader.count(pool)
            where = {name: pool.parameters[name] for name in ("source", "split")}
            found = {"anchors": counts.pop(None, 0), "left_out": counts}
            rows.append(where | {"recipe": pool.recipe.name} | found)
    return rows


def _mining(database: Database) -> list[dict[str, Any]]:
    """Tell what was mined or given, what of it is stale, and what stored recipes still lack."""
    version = records.current_version(database)
    by_name = {
        recipe.name: recipe
        for recipe in recipe_store.stored(database)
        if isinstance(recipe, TripletRecipe)
    }
    found = mining_store.found(database)
    rows = [_mined(database, mining, by_name.get(mining.recipe), version) for mining in found]
    there = {(mining.recipe, mining.source, mining.split) for mining in found}
    for source in database.table("status/sources")["name"].to_pylist():
        for recipe in by_name.values():
            if recipe.mined and source in (recipe.sources or (source,)):
                rows += [
                    {"recipe": recipe.name, "source": source, "split": split, "method": None}
                    | {"anchors": 0, "negatives": 0, "stale": "not mined yet"}
                    for split in splits.SPLITS
                    if (recipe.name, source, split) not in there
                ]
    return sorted(rows, key=lambda row: (row["recipe"], row["source"], row["split"]))


def _mined(
    database: Database, mining: mining_store.Mining, recipe: TripletRecipe | None, version: int
) -> dict[str, Any]:
    where = {"recipe": mining.recipe, "source": mining.source, "split": mining.split}
    reason = mining_store.stale(database, mining, recipe, version=version)
    counts = database.run("status/mined", {"mining": mining.key})[0]
    return where | {
        "method": mining.method,
        "anchors": counts[0],
        "negatives": counts[1],
        "stale": reason or None,
    }
