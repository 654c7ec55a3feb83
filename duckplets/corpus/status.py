"""Count the sources of a corpus, its pools, the rows they leave out, runs and capacity."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from duckplets.base.sanitize import ShownDict, shown
from duckplets.db import external_files, files
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.errors import DamagedFileError, StateMismatchError
from duckplets.ingest import checkpoint, records, splits
from duckplets.ingest.chunks import cleaned
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import store as mining_store
from duckplets.pools.compile import CompiledPool, compile_pool, label_effect
from duckplets.pools.read import PoolReader, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.runs import state

_CAPACITY = pa.schema(
    [
        *(("source", pa.string()), ("graded", pa.bool_()), ("triplets", pa.int64())),
        *(("texts", pa.int64()), ("long_sections", pa.bool_())),
    ]
)
_LARGE = 500_000  # records above which pools are not counted unless asked for


class Status(ShownDict):
    """The state of a corpus, as plain values by name; ``print`` shows it as text."""

    def __str__(self) -> str:
        from duckplets.corpus.status_text import status_text

        return status_text(self)


def status(corpus: CorpusFile, /, *, pools: bool | None = None) -> Status:
    """Return versions, counts by source and split, pools, the rows they leave out, and runs.

    ``uncounted`` names what is not counted: pools and shared anchors of a large corpus, until
    somebody asks for them.

    Args:
        pools: Count pools and shared anchors; by default of a corpus of at most 500,000 records.
    """
    database, state_path = corpus.database, state.state_path(corpus.path)
    stored, current = splits.current_splits(database), splits.splits_in_use(database)
    in_use = {"given": "with labels"} if current else None
    in_place = _in_place(database)
    can_count = current is not None and not in_place["changed"]  # without them pools cannot be read
    sources = database.table("corpus/status/sources").to_pylist()
    if pools is None:
        pools = sum(source["records"] for source in sources) <= _LARGE
    found = {
        "path": str(database.path),
        "version": records.current_version(database),
        "splits": stored.to_dict() if stored else in_use,
        "chunking": chunking_of(database),
        "cleaned": cleaned(database),
        "bytes": _bytes(database),
        "in_place": in_place,
        "sources": sources,
        "collections": _collections(database),
        "unfinished": checkpoint.overview(database),
        "records": database.table("corpus/status/splits").to_pylist(),
        "shared_anchors": _shared_anchors(database) if can_count and pools else {},
        "recipes": [recipe.name for recipe in recipe_store.stored(database)],
        "pools": _pools(database) if can_count and pools else [],
        "uncounted": ["shared_anchors", "pools"] if can_count and not pools else [],
        "capacity": _capacity(database) if pools else [],
        "labels": database.table(
            "mining/labels/counts", {"version": records.current_version(database)}
        ).to_pylist(),
        "mining": _mining(database) if current else [],
        "snapshot": _snapshot(database),
        "vectors": _vectors(corpus.path),
        "state": str(state_path),
        "runs": state.cursors(state_path),
    }
    return Status(found)


def _collections(database: Database) -> list[dict[str, Any]]:
    """Return of every collection its documents, queries by split and labels by value."""
    found: dict[str, dict[str, Any]] = {}
    for row in database.table("corpus/status/collections").to_pylist():
        of = found.setdefault(row["source"], {"documents": {}, "queries": {}, "labels": {}})
        of[row["part"]][row["value"]] = row["count"]
    return [{"source": source, **counts} for source, counts in found.items()]


def _snapshot(database: Database) -> dict[str, Any] | None:
    """Describe the snapshot, importing its reader only if there is one."""
    if not files.next_to(Path(str(database.path)), files.SNAPSHOT).exists():
        return None
    from duckplets.corpus.snapshots import overview

    return overview(database, records.current_version(database))


def _vectors(path: Path) -> list[dict[str, Any]]:
    """Describe the vector sets, importing their reader only if there are any."""
    if not files.next_to(path, files.VECTORS).exists():
        return []
    from duckplets.vectors.store import overview

    return overview(path)


def in_a_line(database: Database) -> str:
    """Return the version of a corpus and its first sources in one line."""
    version = records.current_version(database)
    rows = database.table("corpus/status/records_by_source").to_pylist()
    first = ", ".join(f"{shown(row['source'], 40)} {row['records']:,}" for row in rows[:5])
    more = f" and {len(rows) - 5:,} more sources" if len(rows) > 5 else ""
    return f"version {version}, records: {first or 'none'}{more}"


def _capacity(database: Database) -> list[dict[str, Any]]:
    """Estimate samples by source and split as the triplets crate does; R·P·(D-1) of collections."""
    version = records.current_version(database)
    stored, kinds = recipe_store.stored(database), labels_of(database, version)
    rows = []
    for name, brought in recipe_store.sources_of(database, version).items():
        drawn = [r for r in stored if isinstance(r, TripletRecipe)] or brought.recipes()
        triplets = [r for r in drawn if isinstance(r, TripletRecipe)]
        if brought.are_documents:
            triplets = []
        if graded := kinds.get(name) == "graded":
            triplets = [r for r in triplets if label_effect(r, "graded") is None]
        texts = sum(isinstance(r, TextRecipe) for r in stored or brought.own)
        long_sections = not (brought.own or any(isinstance(r, TripletRecipe) for r in stored))
        counts = {"triplets": len(triplets), "texts": texts, "long_sections": long_sections}
        rows.append({"source": name, "graded": graded, **counts})
    how = {"version": version, "max_tokens": chunking_of(database)["max_tokens"]}
    with database.registered(of_sources=pa.Table.from_pylist(rows, schema=_CAPACITY)):
        found = database.table("corpus/status/capacity", how).to_pylist()
    # DuckDB's wide integers are decimals in Arrow
    return [{n: int(v) if isinstance(v, Decimal) else v for n, v in row.items()} for row in found]


def _in_place(database: Database) -> dict[str, Any]:
    """Describe the files that texts stay in: number, bytes, and damage."""
    sizes = [
        int(size)
        for _, size, modified, _ in database.run("db/external_files/files")
        if modified != external_files.ANY_TIME
    ]
    changed = list(external_files.changed(database).values())
    return {"files": len(sizes), "bytes": sum(sizes), "changed": changed}


def _bytes(database: Database) -> dict[str, int]:
    """Return the sizes of the corpus with its texts, roughly its indexes, and its candidates."""
    path = Path(str(database.path))
    of = {what: int(size) for what, size in database.run("corpus/status/bytes")}
    texts = files.next_to(path, files.TEXTS).glob("texts-*")
    candidates = files.next_to(path, files.CANDIDATES).glob("part-*")
    return {
        "corpus": sum(file.stat().st_size for file in (path, *texts)),
        "indexes": of.get("indexes", 0),
        "candidates": sum(file.stat().st_size for file in candidates),
    }


def _shared_anchors(database: Database) -> dict[str, dict[str, int]]:
    return {
        split: {"anchors": anchors, "shared": shared}
        for split, (anchors, shared) in splits.shared_anchors(database).items()
    }


def pools_of(database: Database) -> list[CompiledPool]:
    """Return the pools that ``status`` reports, by split, source and recipe."""
    version = records.current_version(database)
    max_tokens = chunking_of(database)["max_tokens"]
    kinds = labels_of(database, version)
    pools: list[CompiledPool] = []
    minings = mining_store.Minings(database)
    for split in splits.SPLITS:
        resolved = recipe_store.resolve(
            database, None, kind="triplets", split=split, version=version, max_tokens=max_tokens
        )
        for source, recipe in ((s.source, recipe) for s in resolved for recipe in s.recipes):
            drawn = minings.as_drawn(recipe, source, split)
            where: dict[str, Any] = {"source": source, "split": split, "version": version}
            try:
                ranked = minings.ranks_of(drawn, **where, allow_stale=True)
            except StateMismatchError:  # nothing has ranked its positives so far
                drawn, ranked = replace(cast("TripletRecipe", drawn), consistent=None), None
            pools.append(compile_pool(drawn, ranked=ranked, **where, **kinds.of(source)))
    return pools


def _pools(database: Database) -> list[dict[str, Any]]:
    """Count drawn and left-out anchors for every source, split and recipe, by reason."""
    rows = []
    for split, of_split in groupby(pools_of(database), lambda pool: pool.parameters["split"]):
        pools = list(of_split)
        with PoolReader(database, pools) as reader:
            for pool in pools:
                left_out = reader.count(pool)
                drawn = left_out.pop(None, 0)  # what has no reason to be left out
                named = {"source": pool.parameters["source"], "split": split}
                named |= {"recipe": pool.recipe.name}
                rows.append({**named, "anchors": drawn, "left_out": left_out})
    return rows


def _mining(database: Database) -> list[dict[str, Any]]:
    """Describe minings: what was mined or added, what is stale, what recipes lack."""
    version = records.current_version(database)
    by_name = {
        recipe.name: recipe
        for recipe in recipe_store.stored(database)
        if isinstance(recipe, TripletRecipe)
    }
    minings = mining_store.Minings(database)
    found = minings.found()
    rows = [_mined(database, mining, by_name.get(mining.recipe), version) for mining in found]
    there = {(mining.recipe, mining.source, mining.split) for mining in found}
    for source, offers in recipe_store.sources_of(database, version).items():
        for recipe in () if offers.are_documents else by_name.values():
            if recipe.mined and source in (recipe.sources or (source,)):
                rows += [
                    {"recipe": recipe.name, "source": source, "split": split, "scorer": None}
                    | {"anchors": 0, "candidates": 0, "stale": "not mined yet"}
                    for split in splits.SPLITS
                    if (recipe.name, source, split) not in there
                ]
    return sorted(rows, key=lambda row: (row["recipe"], row["source"], row["split"]))


def _mined(
    database: Database, mining: mining_store.Mining, recipe: TripletRecipe | None, version: int
) -> dict[str, Any]:
    where = {"recipe": mining.recipe, "source": mining.source, "split": mining.split}
    reason = mining_store.stale(database, mining, recipe, version=version)
    try:
        mining.files(mining_store.folder_of(database))
    except DamagedFileError as error:
        reason = str(error)
    return where | {
        "scorer": mining.scorer,
        "anchors": mining.anchors,
        "candidates": mining.candidates,
        "stale": reason or None,
    }
