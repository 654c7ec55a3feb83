"""Count what is in a corpus: sources, pools with what they leave out, runs, capacity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from duckplets.base.sanitize import ShownDict, shown
from duckplets.db import external_files, files
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import DamagedFileError
from duckplets.ingest import checkpoint, records, splits
from duckplets.ingest.chunks import cleaned
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import store as mining_store
from duckplets.pools import verdicts
from duckplets.pools.compile import CompiledPool, compile_pool, set_apart_by
from duckplets.pools.read import PoolReader, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.runs import state

Counts = dict[str | None, int]  # anchors left out by reason; the key None counts those drawn

_CAPACITY = pa.schema(
    [
        *(("source", pa.string()), ("graded", pa.bool_()), ("triplets", pa.int64())),
        *(("texts", pa.int64()), ("long_sections", pa.bool_())),
    ]
)
_COUNTED = ("records", "sections", "chunks", "tokens")
_WORTH_KEEPING = 20_000  # anchors above which counts are kept: counting so many takes 0.1 s
_LARGE = 500_000  # records above which pools are not counted unless asked for


class Status(ShownDict):
    """The state of a corpus, as plain values by name; ``print`` shows it as text."""

    def __str__(self) -> str:
        from duckplets.corpus.status_text import status_text

        return status_text(self)


def status(
    corpus: CorpusFile, /, *, pools: bool | None = None, counts: dict[str, Counts] | None = None
) -> Status:
    """Return versions, counts by source and split, pools with what they leave out, runs.

    ``uncounted`` names what is not counted: pools and shared anchors of a large corpus, once a
    version, until somebody asks for them.

    Args:
        pools: Count pools and shared anchors; by default of a corpus of at most 500,000 records.
        counts: Takes what was counted of large pools, for ``keep_counts``; by default it is
            kept at once, where the corpus may be written.
    """
    database, state_path = corpus.database, corpus.state_path()
    current = splits.current_splits(database)
    in_place = _in_place(database)
    can_count = current is not None and not in_place["changed"]  # without them pools cannot be read
    kept = _Kept(database, {} if counts is None else counts, is_used=current is not None)
    sources, by_split = _counted(database, kept)
    if pools is None:
        pools = sum(source["records"] for source in sources) <= _LARGE
    kept.may_count = pools
    found = {
        "path": str(database.path),
        "version": records.current_version(database),
        "splits": current.to_dict() if current else None,
        "chunking": chunking_of(database),
        "cleaned": cleaned(database),
        "bytes": _bytes(database),
        "in_place": in_place,
        "sources": sources,
        "unfinished": checkpoint.overview(database),
        "records": by_split,
        "shared_anchors": _shared_anchors(database, kept) if can_count else {},
        "recipes": [recipe.name for recipe in recipe_store.stored(database)],
        "pools": _pools(database, kept) if can_count else [],
        "uncounted": kept.uncounted,
        "verdicts": verdicts.held(database, records.current_version(database)),
        "mining": _mining(database, [row["name"] for row in sources]) if current else [],
        "snapshot": _snapshot(database),
        "vectors": _vectors(corpus.path),
        "state": str(state_path),
        "runs": state.cursors(state_path),
    }
    if kept.new and counts is None and not corpus.read_only:
        keep_counts(corpus, kept.new)
    return Status(found)


@changes("keep counts in")
def keep_counts(corpus: CorpusFile, /, counts: Mapping[str, Counts]) -> None:
    """Keep what ``status`` has counted, so that it need not be counted again."""
    database = corpus.database
    version = {"version": records.current_version(database)}
    rows = [(c, reason, n) for c, found in counts.items() for reason, n in found.items()]
    rows += [(content, None, 0) for content, found in counts.items() if None not in found]
    columns = dict(zip(("content", "reason", "anchors"), zip(*rows, strict=True), strict=True))
    counted = pa.table({name: pa.array(column) for name, column in columns.items()})
    with database.transaction(), database.registered(counted=counted):
        database.run("corpus/status/forget_counts", version)
        database.run("corpus/status/keep_counts", version)


class _Kept:
    """Counts that were kept in the corpus by hash, and new ones that are worth it."""

    def __init__(self, database: Database, new: dict[str, Counts], *, is_used: bool) -> None:
        self._known: dict[str, Counts] = {}
        for content, reason, anchors in database.run("corpus/status/counts") if is_used else ():
            self._known.setdefault(content, {})[reason] = anchors
        self._is_used = is_used
        self.new = new
        self.may_count = True
        self.uncounted: list[str] = []

    def all(
        self,
        what: str,
        contents: Sequence[str],
        count: Callable[[list[str]], dict[str, Counts]],
    ) -> list[Counts] | None:
        """Return the counts of contents, of which the unknown are counted, or are not for now."""
        missing = [content for content in contents if content not in self._known]
        if missing and not self.may_count:
            self.uncounted.append(what)
            return None
        found = count(missing) if missing else {}
        if self._is_used and sum(n for of in found.values() for n in of.values()) >= _WORTH_KEEPING:
            self.new |= found
        self._known |= found
        return [self._known[content] for content in contents]


def _snapshot(database: Database) -> dict[str, Any] | None:
    """Describe the snapshot, importing its reader only if there is one."""
    if not Path(str(database.path)).with_suffix(files.SNAPSHOT).exists():
        return None
    from duckplets.corpus.snapshots import overview

    return overview(database, records.current_version(database))


def _vectors(path: Path) -> list[dict[str, Any]]:
    """Describe the vector sets, importing their reader only if there are any."""
    if not files.beside(path, files.VECTORS).exists():
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


def capacity(corpus: CorpusFile, /) -> pa.Table:
    """Return estimates, from counts alone, of how many samples each source and split has.

    With n records and R triplet recipes: R·n·(n-1) triplets, R·n·4 taking a record's positive
    once and four negatives, R·n·n pairs, and n texts a text recipe (the estimates of the triplets
    crate). The recipe of long sections counts records that have one; derived texts are counted as
    chunks. Grades make triplets only with a condition, and one pair each.
    """
    database = corpus.database
    version = records.current_version(database)
    stored, kinds = recipe_store.stored(database), labels_of(database, version)
    rows = []
    for name, brought in recipe_store.sources_of(database, version).items():
        drawn = [r for r in stored if isinstance(r, TripletRecipe)] or brought.recipes()
        triplets = [r for r in drawn if isinstance(r, TripletRecipe)]
        if graded := kinds.get(name) == "graded":
            triplets = [r for r in triplets if set_apart_by(r, "graded") is None]
        texts = sum(isinstance(r, TextRecipe) for r in stored or brought.own)
        long_sections = not (brought.own or any(isinstance(r, TripletRecipe) for r in stored))
        counts = {"triplets": len(triplets), "texts": texts, "long_sections": long_sections}
        rows.append({"source": name, "graded": graded, **counts})
    how = {"version": version, "max_tokens": chunking_of(database)["max_tokens"]}
    with database.registered(of_sources=pa.Table.from_pylist(rows, schema=_CAPACITY)):
        return database.table("corpus/status/capacity", how)


def _in_place(database: Database) -> dict[str, Any]:
    """Describe the files that texts stay in: number, bytes, and what is wrong with any."""
    sizes = [int(size) for _, size, *_ in database.run("db/external_files/files")]
    changed = list(external_files.changed(database).values())
    return {"files": len(sizes), "bytes": sum(sizes), "changed": changed}


def _bytes(database: Database) -> dict[str, int]:
    """Return the size of the corpus, roughly that of its indexes, and that of its candidates."""
    path = Path(str(database.path))
    of = {what: int(size) for what, size in database.run("corpus/status/bytes")}
    candidates = files.beside(path, files.CANDIDATES).glob("part-*")
    return {
        "corpus": path.stat().st_size,
        "indexes": of.get("indexes", 0),
        "candidates": sum(file.stat().st_size for file in candidates),
    }


def _counted(database: Database, kept: _Kept) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the sources with their counts, and the records by source and split.

    Counts are kept as those of pools are, as JSON under the name of the count.
    """
    content = _hash("sources and splits", records.current_version(database), _made(database))

    def count(_: list[str]) -> dict[str, Counts]:
        return {content: {json.dumps(of): n for of, n in _of_sources(database).items()}}

    found = (kept.all("sources", [content], count) or [{}])[0]
    of = {tuple(json.loads(words)): n for words, n in found.items() if words is not None}
    sources = database.table("corpus/status/known_sources").to_pylist()
    counted = [s | {what: of.get((s["name"], what), 0) for what in _COUNTED} for s in sources]
    return counted, [
        {"source": source["name"], "split": split, "records": of[source["name"], split]}
        for source in sources
        for split in (*splits.SPLITS, None)
        if of.get((source["name"], split))
    ]


def _of_sources(database: Database) -> dict[tuple[str, str | None], int]:
    """Return counts by source, and records by source and split."""
    spans = database.table("corpus/status/spans").to_pylist()
    others = {span["source"] for span in spans}
    tables = []
    for span in spans:  # where all keys of a range are of one source no join is needed
        if span["high"] - span["low"] + 1 == span["records"] >= _WORTH_KEEPING:
            asked = {name: span[name] for name in ("source", "low", "high")}
            tables.append(database.table("corpus/status/within", asked))
            others.remove(span["source"])
    if others:
        with database.registered(wanted=pa.table({"source": sorted(others)})):
            tables.append(database.table("corpus/status/of_sources"))
    found = {(row["source"], row["what"]): row["number"] for t in tables for row in t.to_pylist()}
    for span in spans:
        source = span["source"]
        of_splits = sum(found.get((source, split), 0) for split in splits.SPLITS)
        found |= {(source, "records"): span["records"], (source, None): span["records"] - of_splits}
    return found


def _made(database: Database) -> str:
    """Return what counts depend on besides the version."""
    return repr((splits.current_splits(database), chunking_of(database)))


def _shared_anchors(database: Database, kept: _Kept) -> dict[str, dict[str, int]]:
    content = f"shared anchors of version {records.current_version(database)}"

    def count(_: list[str]) -> dict[str, Counts]:
        counts: Counts = {None: 0}
        for split, (anchors, shared) in splits.shared_anchors(database).items():
            counts |= {split: anchors, f"{split} and train": shared}
        return {content: counts}

    of = (kept.all("shared_anchors", [content], count) or [{}])[0]
    return {
        split: {"anchors": of[split], "shared": of[f"{split} and train"]}
        for split in splits.SPLITS
        if split in of
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
        mined = minings.scorers(split)
        for source, recipe in ((s.source, recipe) for s in resolved for recipe in s.recipes):
            drawn = mining_store.as_drawn(recipe, source, mined)
            where: dict[str, Any] = {"source": source, "split": split, "version": version}
            where |= {"labels": kinds.get(source), "relabelled": kinds.relabelled}
            pools.append(compile_pool(drawn, **where))
    return pools


def _pools(database: Database, kept: _Kept) -> list[dict[str, Any]]:
    """Count drawn and left-out anchors for every source, split and recipe, by reason.

    Counts kept in the corpus stay valid until records are split or chunked anew: they depend on
    the statement and the version.
    """
    pools, made = pools_of(database), _made(database)
    contents = [_content(pool, made) for pool in pools]

    def count(missing: list[str]) -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        for split in splits.SPLITS:
            of_split = {
                content: pool
                for pool, content in zip(pools, contents, strict=True)
                if pool.parameters["split"] == split and content in missing
            }
            if of_split:
                with PoolReader(database, list(of_split.values())) as reader:
                    found |= {content: reader.count(pool) for content, pool in of_split.items()}
        return found

    counts = kept.all("pools", contents, count)
    return [] if counts is None else [*map(_row, pools, counts)]


def _row(pool: CompiledPool, counts: Counts) -> dict[str, Any]:
    left_out = {reason: n for reason, n in counts.items() if reason is not None}
    return {
        "source": pool.parameters["source"],
        "split": pool.parameters["split"],
        "recipe": pool.recipe.name,
        "anchors": counts.get(None, 0),
        "left_out": left_out,
    }


def _content(pool: CompiledPool, made: str) -> str:
    """Return a hash of everything the counts of a pool depend on."""
    return _hash(made, pool.sql("counts", staged=True), *sorted(pool.parameters.items()))


def _hash(*values: object) -> str:
    return hashlib.sha256(repr(list(values)).encode()).hexdigest()[:32]


def _mining(database: Database, sources: list[str]) -> list[dict[str, Any]]:
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
    for source in sources:
        for recipe in by_name.values():
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
