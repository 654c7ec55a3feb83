"""Mine the negatives of recipes: for every anchor the documents that score highest by BM25.

    recipe's pool ─Guards→ who may not be found ─┐
    index ─document shards→ impacts ─by blocks───┴→ candidates ─settings→ mined_negatives

Exact over the whole (source, split): the guards and the recipe's strategy act before the top k,
so a small split still gets its full k. A block of anchors is one transaction; a mining that is
interrupted goes on at the next block. Blocks, document shards and workers change no result.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Lists
from duckplets.base.aside import aside_of, remove
from duckplets.base.parts import Engine
from duckplets.base.progress import Progress
from duckplets.base.shown import listed
from duckplets.db import placed
from duckplets.db.database import Database
from duckplets.db.files import real_path
from duckplets.errors import DamagedFileError, QueryError
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import store
from duckplets.mining.backfill import rows_of
from duckplets.mining.guards import REASONS, Excluded, Guards
from duckplets.mining.kernel import Queries
from duckplets.mining.report import MiningReport, PairReport
from duckplets.mining.shards import Prepared, prepare
from duckplets.mining.store import OpenMining, Target
from duckplets.mining.workers import scored
from duckplets.pools.compile import compile_pool
from duckplets.pools.labels import labels_of
from duckplets.pools.read import PoolReader
from duckplets.recipes import store as recipe_store
from duckplets.recipes.bm25 import Bm25, bm25_from, settled
from duckplets.recipes.recipes import TripletRecipe
from duckplets.search import index
from duckplets.search.index import Index
from duckplets.search.vocabulary import Vocabulary

log = logging.getLogger("duckplets")

_TOLD = "corpus.sampler(by='bm25'), or duckplets sample --by bm25"

_CHARACTERS = 1000  # of an anchor for each token that is looked for
_WORTH_PROCESSES = 20_000_000  # pairs of anchors and documents that take as long as their start


def mine(
    database: Database,
    recipes: str | TripletRecipe | Sequence[str | TripletRecipe] | None,
    settings: Mapping[str, Any],
    *,
    source: str | None = None,
    split: str | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> MiningReport:
    """Mine the negatives of recipes that are missing or stale; see ``Corpus.mine``."""
    started = time.monotonic()
    splits.need_splits(database)
    placed.check(database)
    asked = bm25_from(settings)
    jobs, left_open, nothing = _jobs(database, recipes, asked if settings else None, source, split)
    if jobs:
        with database.transaction():
            database.run("mining/mine/hash_texts")
    pairs = tuple(job.run(progress, engine) for job in jobs)
    seconds = round(time.monotonic() - started, 3)
    notes = (*nothing, *_notes(jobs, left_open, pairs))
    for note in notes:
        log.warning("%s", note)
    return MiningReport(pairs=pairs, seconds=seconds, notes=notes)


def _jobs(
    database: Database,
    recipes: str | TripletRecipe | Sequence[str | TripletRecipe] | None,
    asked: Bm25 | None,
    source: str | None,
    split: str | None,
) -> tuple[list[_Job], list[TripletRecipe], list[str]]:
    """Return everything that is to be mined, and which named recipes do not ask for it themselves.

    Where none was named and none asks for it, a note that says so comes third.
    """
    version = records.current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    chosen = [recipes] if isinstance(recipes, str | TripletRecipe) else recipes
    jobs = []
    left_open: dict[str, TripletRecipe] = {}
    asking = False
    for of_split in splits.SPLITS if split is None else [splits.checked_split(split)]:
        for found in recipe_store.resolve(
            database,
            chosen,
            kind="triplets",
            split=of_split,
            version=version,
            max_tokens=chunking_of(database)["max_tokens"],
        ):
            for recipe in found.recipes:
                if not isinstance(recipe, TripletRecipe) or source not in (None, found.source):
                    continue
                asking |= recipe.mined
                if not recipe.mined:
                    left_open[recipe.name] = recipe
                    if not chosen:
                        continue
                job = _Job(
                    database=database,
                    recipe=recipe if recipe.mined else replace(recipe, by="bm25"),
                    settings=settled(recipe.name, recipe.by, asked),
                    source=found.source,
                    split=of_split,
                    version=version,
                )
                if job.is_due(asked):
                    jobs.append(job)
    if not (asking or chosen):
        return [], [], [_nobody_asks(database, list(left_open.values()), source)]
    return jobs, list(left_open.values()) if chosen else [], []


def _nobody_asks(database: Database, recipes: Sequence[TripletRecipe], source: str | None) -> str:
    where = "" if source is None else f" of source {source!r}"
    names = [recipe.name for recipe in recipes if recipe.minable]
    if not names:
        others = listed(recipe.name for recipe in recipes)
        there = f"of those there are, {others}, none can be" if others else "there is none"
        return f"no recipe{where} asks for mined negatives, and {there}: nothing was mined"
    return (
        f"no recipe{where} asks for mined negatives: nothing was mined. Name one of "
        f"{listed(names)}: corpus.mine({names[0]!r}), or "
        f"{store.mine_command(database, names[0])}; a sampler uses them only where it is told: "
        f"{_TOLD}"
    )


def _notes(
    jobs: Sequence[_Job], left_open: Sequence[TripletRecipe], pairs: Sequence[PairReport]
) -> tuple[str, ...]:
    """Return what users may not expect of what was mined."""
    notes = []
    for recipe in left_open:
        if recipe.by is None:
            notes.append(
                f"recipe {recipe.name!r} leaves open how negatives are chosen, so a sampler uses "
                f"these only where it is told: {_TOLD}"
            )
        else:
            notes.append(
                f"recipe {recipe.name!r} says itself that it draws at random, so no sampler will "
                f"use these; leave its by out, or make it 'bm25'"
            )
    for job, pair in zip(jobs, pairs, strict=True):
        short = pair.outcomes.get("short", 0) + pair.outcomes.get("none", 0)
        settings = job.settings
        if short and settings.when_short == "backfill" and settings.range_max is None:
            notes.append(
                f"recipe {pair.recipe!r}, source {pair.source!r}, split {pair.split!r}: {short:,} "
                f"of {pair.anchors:,} anchors stay short: when_short='backfill' takes from ranks "
                f"beyond range_max=, which is not given; when_short='random' fills them up"
            )
    return tuple(notes)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """One recipe, source and split to mine, by some settings."""

    database: Database
    recipe: TripletRecipe
    settings: Bm25
    source: str
    split: str
    version: int

    def is_due(self, asked: Bm25 | None) -> bool:
        """Whether nothing was mined yet, or what was mined is not what would be mined now."""
        where = {"source": self.source, "split": self.split}
        try:
            found = store.found(self.database, self.recipe.name, **where)
        except DamagedFileError:
            return True
        if not found or store.stale(self.database, found[-1], self.recipe, version=self.version):
            return True
        of = self._index()
        if found[-1].method == "bm25" and of is not None and found[-1].terms != of.terms.to_dict():
            return True
        had = (found[-1].method, found[-1].settings)
        return asked is not None and had != ("bm25", self.settings)

    def run(self, progress: Progress | None, engine: Engine | None) -> PairReport:
        """Mine all anchors, or those that an interrupted mining left, and return the report."""
        started = time.monotonic()
        of = self._index(engine)
        guards = self._guards(of)
        count = len(guards.anchors) if of is not None else 0
        made_with = {"bm25": self.settings.to_dict()}
        made_with |= {"terms": of.terms.to_dict()} if of is not None else {}
        target = Target(
            recipe=self.recipe,
            source=self.source,
            split=self.split,
            version=self.version,
            method="bm25",
            settings=made_with,
            anchors=count,
            searched=len(guards.documents),
        )
        mining = OpenMining(self.database, target)
        if of is not None and mining.done < count:
            with _folder(self.database) as folder:
                self._search(mining, guards, of, folder, started, progress, engine)
        else:
            mining.seconds += time.monotonic() - started
        return mining.finish()

    def _index(self, engine: Engine | None = None) -> Index | None:
        """Return the index of the source and split, brought up to date; None without a record."""
        index.refresh(self.database, source=self.source, split=self.split, engine=engine)
        return index.current(self.database, self.source, self.split)

    def _guards(self, of: Index | None) -> Guards:
        order = None
        if of is not None and self.settings.scope == "shard":
            # Neighbours share a document shard, so that a block reads one or two of them.
            order = index.documents(self.database, of)["section_key"].to_numpy()
        labels = labels_of(self.database, self.version).get(self.source)
        where: dict[str, Any] = {"source": self.source, "split": self.split}
        compiled = compile_pool(self.recipe, **where, version=self.version, labels=labels)
        with PoolReader(self.database, [compiled]) as reader:
            return Guards(self.database, reader, compiled, order)

    def _search(
        self,
        mining: OpenMining,
        guards: Guards,
        of: Index,
        folder: Path,
        started: float,
        progress: Progress | None,
        engine: Engine | None,
    ) -> None:
        count = len(guards.sections.keys)
        eligible = np.zeros(count, dtype=bool)
        eligible[guards.documents] = True
        looked_at = eligible.copy()
        looked_at[guards.positives.values] = True
        prepared = prepare(
            self.database,
            of,
            guards.sections.keys,
            eligible,
            looked_at,
            shard_documents=self.settings.shard_documents,
            folder=folder,
        )
        pairs = (len(guards.anchors) - mining.done) * eligible.sum()
        how: dict[str, Any] = {"workers": _workers(self.database, pairs), "engine": engine}
        asked: list[tuple[slice, Excluded]] = []
        before = mining.seconds
        with closing(index.vocabulary(self.database, of)) as vocabulary:
            blocks = self._blocks(guards, mining.done, prepared, vocabulary, asked)
            for found in scored(prepared.files, blocks, self.settings, guards=len(REASONS), **how):
                block, excluded = asked.pop(0)
                rows = rows_of(self.settings, guards, block, excluded, found)
                mining.seconds = before + time.monotonic() - started
                mining.append(*rows)
                if progress:
                    progress(block.stop, len(guards.anchors))

    def _blocks(
        self,
        guards: Guards,
        done: int,
        prepared: Prepared,
        vocabulary: Vocabulary,
        asked: list[tuple[slice, Excluded]],
    ) -> Iterator[Queries]:
        """Yield the queries of every block, noting in ``asked`` what they are."""
        for block in guards.blocks(done):
            anchors = guards.anchors[block]
            excluded = guards.exclude(block)
            asked.append((block, excluded))
            rows = pa.table(
                {"row": np.arange(len(anchors)), "section_key": guards.sections.keys[anchors]}
            )
            most = self.settings.query_tokens
            with self.database.registered(asked=rows):
                texts = self.database.table(
                    "mining/mine/anchor_texts", {"characters": most * _CHARACTERS}
                )
            starts, terms = vocabulary.analyse(texts["text"], limit=most, like_match_bm25=True)
            yield Queries(
                terms=Lists(starts, terms.astype(np.int64)),
                positives=guards.positives.take(guards.sections.records[anchors]),
                excluded=excluded.documents,
                reasons=excluded.reasons,
                allowed=excluded.allowed,
                shards=prepared.homes[anchors] if self.settings.scope == "shard" else None,
            )


def _workers(database: Database, pairs: int) -> int:
    """Return how many processes are worth their start."""
    threads = int(database.run("mining/mine/threads")[0][0])
    return threads if pairs > _WORTH_PROCESSES else 1


@contextmanager
def _folder(database: Database) -> Iterator[Path]:
    """Make a folder beside the corpus for the time being."""
    if database.path is None:
        raise QueryError("mining needs a corpus in a file")
    folder = aside_of(real_path(database.path))
    try:
        folder.mkdir()
        yield folder
    except OSError as error:
        where = error.filename or folder
        raise QueryError(
            f"mining writes its postings to {folder}: {where}: {error.strerror}; what was mined "
            f"so far is kept, and mining again goes on from there"
        ) from error
    finally:
        remove(folder)
