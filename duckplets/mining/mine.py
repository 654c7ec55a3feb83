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
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import IntegerLists
from duckplets.base.atomic import aside_of, remove
from duckplets.base.progress import Progress
from duckplets.base.sanitize import counted, listed
from duckplets.base.settings import from_plain, to_plain
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.files import real_path
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.inline import INLINE
from duckplets.engine.local import LocalEngine
from duckplets.engine.protocol import Engine
from duckplets.engine.work import Work, working
from duckplets.errors import DamagedFileError, QueryError, RecipeError
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import store
from duckplets.mining.backfill import rows_of
from duckplets.mining.bm25 import Queries
from duckplets.mining.cutoffs import CEILINGS, MARGINS
from duckplets.mining.guards import REASONS, Excluded, Guards
from duckplets.mining.report import MiningReport, PairReport
from duckplets.mining.shards import PreparedShards, prepare, scored
from duckplets.mining.store import OpenMining, Target
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import NO_RECORDS, PoolReader, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.bm25 import (
    Bm25,
    RangeOn,
    Sampling,
    Scope,
    given_settings,
    settled,
)
from duckplets.recipes.bm25 import WhenShort as Policy
from duckplets.recipes.recipes import Preset, TripletRecipe, checked_preset
from duckplets.search import index
from duckplets.search.analyzer import Vocabulary
from duckplets.search.index import Index

log = logging.getLogger("duckplets")

_CHARACTERS = 1000  # of an anchor for each token that is looked for
_WORTH_PROCESSES = 20_000_000  # pairs of anchors and documents that take as long as their start


@changes("mine negatives in")
def mine(
    corpus: CorpusFile,
    /,
    recipe: str | TripletRecipe | Sequence[str | TripletRecipe] | None = None,
    *,
    source: str | None = None,
    split: str | None = None,
    preset: Preset | None = None,
    top_k: int | None = None,
    range_min: int | None = None,
    range_max: int | None = None,
    min_score: float | None = None,
    max_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    range_on: RangeOn | None = None,
    query_tokens: int | None = None,
    sampling: Sampling | None = None,
    rotation: int | None = None,
    when_short: Policy | None = None,
    scope: Scope | None = None,
    shard_documents: int | None = None,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> MiningReport:
    """Mine hard negatives by BM25, where they are missing or stale.

    Samplers draw them from then on, unless they or a recipe say ``by="random"``. Interrupted,
    killed even, it goes on where it was when called again.

    Args:
        recipe: A recipe or several, or names of them; by default every triplet recipe that a
            sampler would draw, but for those that say ``by="random"`` or cannot be mined, as
            those of strategy ``same_record``.
        source: For this source only; by default for all.
        split: For this split only; by default for all that have anchors.
        preset: ``crate`` for the recipes of a sampler with that preset.
        top_k: How many are kept for each anchor; 32 by default. This and the others up to
            ``shard_documents`` are the attributes of ``dp.bm25``, for recipes that leave them
            open. Where none is given, what was mined with others stays as it is.
        range_min: So many of the first are passed over.
        range_max: Ranks that are looked at, before any filter by score; by default all.
        min_score: Drop what scores less.
        max_score: Drop what scores more.
        absolute_margin: Drop what does not score so much less than the anchor's positive. For
            scores that judge the positive, as those of a model do: by BM25 it often has none.
        relative_margin: The same, as a share of the positive's score.
        range_on: Whether ``range_min`` passes over ``survivors`` of the filters (the default),
            or ``raw`` ranks.
        query_tokens: How many of the anchor's first tokens are looked for; 64 by default.
        sampling: ``rotate`` through those kept by visits to the anchor (the default), always
            take the ``top``, or draw at ``random``.
        rotation: Rotate or draw over the first so many of those kept; by default all.
        when_short: What to do about an anchor with fewer than were asked for: ``backfill``
            from beyond ``range_max`` (the default), fill up at ``random``, ``drop`` it, or
            ``keep`` it so.
        scope: Search the whole ``pool`` (the default), or the anchor's own ``shard`` of it.
        shard_documents: Documents of a shard; 65,536 by default.
        engine: What runs the work: None for this process, ``local:4`` for four processes of
            this machine, ``dask://HOST:PORT`` for a cluster of Dask, or a
            ``distributed.Client``. The result is the same.
        progress: Called with anchors done and their number; True or False for a bar on
            stderr or none, by default a bar if stderr is a terminal.

    Raises:
        ExtensionError: Stemming needs DuckDB's fts extension, and it is not to be found.
        RecipeError, SplitError: An argument is wrong, or there are no splits yet.
        EngineError: The engine is none, cannot be reached, or fails.
    """
    settings = given_settings(locals())
    database, started = corpus.database, time.monotonic()
    splits.need_splits(database)
    external_files.check(database)
    asked = from_plain(Bm25, settings, RecipeError, "bm25") if settings else None
    wanted, notes = _wanted(database, recipe, source, split, checked_preset(preset))
    jobs = [job for job in (_job(database, asked, **each) for each in wanted) if job.is_due(asked)]
    if jobs:
        with database.transaction():
            database.run("mining/mine/hash_texts")
    with working(engine, progress, "anchors") as work:
        done = [(job, job.run(work)) for job in jobs]
    mined = [(job, found) for job, found in done if isinstance(found, PairReport)]
    seconds = round(time.monotonic() - started, 3)
    notes += [*_without_anchors(done), *_told(mined)]
    for note in notes:
        log.warning("%s", note)
    pairs = tuple(pair for _, pair in mined)
    return MiningReport(pairs=pairs, seconds=seconds, notes=tuple(notes))


def _wanted(
    database: Database,
    recipes: str | TripletRecipe | Sequence[str | TripletRecipe] | None,
    source: str | None,
    split: str | None,
    preset: Preset | None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return recipe, source, split and version of all that is to be mined, and notes on others.

    Of recipes that nobody names, those are left out that a sampler draws at random or cannot mine.
    """
    version = records.current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    chosen = [recipes] if isinstance(recipes, str | TripletRecipe) else recipes
    wanted: list[dict[str, Any]] = []
    others: dict[str, str] = {}  # by name, why no sampler takes mined negatives for it
    for of_split in splits.SPLITS if split is None else [splits.checked_split(split)]:
        for found in recipe_store.resolve(
            database,
            chosen,
            kind="triplets",
            split=of_split,
            version=version,
            max_tokens=chunking_of(database)["max_tokens"],
            preset=preset,
        ):
            for recipe in found.recipes:
                if not isinstance(recipe, TripletRecipe) or source not in (None, found.source):
                    continue
                if why := _why_not(recipe):
                    others[recipe.name] = why
                if chosen or not why:
                    where = {"source": found.source, "split": of_split, "version": version}
                    wanted.append({"recipe": recipe, **where})
    if chosen:
        return wanted, [
            f"recipe {name!r} says itself that it draws at random, so no sampler will use these; "
            f"leave its by out, or make it 'bm25'"
            for name, why in others.items()
            if why == _RANDOM
        ]
    if wanted:
        return wanted, []
    told = listed(f"{name} ({why})" for name, why in others.items())
    return [], [f"nothing was mined: no recipe takes mined negatives: {told or 'there is none'}"]


_RANDOM = "by='random'"


def _why_not(recipe: TripletRecipe) -> str:
    """Return why a sampler takes no mined negatives for a recipe; nothing where it does."""
    if recipe.by == "random":
        return _RANDOM
    if not recipe.weight:
        return "weight 0"
    if not recipe.minable:
        return "its negatives are chosen already"
    return ""


def _without_anchors(done: Sequence[tuple[_Job, PairReport | str]]) -> Iterator[str]:
    """Yield why nothing was mined for a recipe and source that have no anchor in any split."""
    told: dict[tuple[str, str], list[str | None]] = {}
    for job, found in done:
        why = found if isinstance(found, str) else None
        told.setdefault((job.recipe.name, job.source), []).append(why)
    for reasons in told.values():
        whys = [why for why in reasons if why is not None]
        if len(whys) == len(reasons):
            yield next((why for why in whys if not why.endswith(NO_RECORDS)), whys[0])


def _told(mined: Sequence[tuple[_Job, PairReport]]) -> Iterator[str]:
    """Yield what users may not expect of what was mined, for each recipe."""
    by_recipe: dict[tuple[str, Bm25], list[PairReport]] = {}
    for job, pair in mined:
        by_recipe.setdefault((pair.recipe, job.settings), []).append(pair)
    for (name, settings), pairs in by_recipe.items():
        report = MiningReport(pairs=tuple(pairs), seconds=0.0)
        cuts = {n: report.counts.get(n, 0) for n in CEILINGS if getattr(settings, n) is not None}
        what, of_anchors = f"recipe {name!r}", f"of {counted(report.anchors, 'anchor')}"
        for margin in MARGINS:
            if 2 * cuts.get(margin, 0) > report.legal:
                yield (
                    f"{what}: {margin}={getattr(settings, margin):g} cut {cuts[margin]:,} of "
                    f"{report.legal:,} candidates, and left {report.outcomes.get('none', 0):,} "
                    f"{of_anchors} without a negative; leave it out, or give less"
                )
        if report.unranked and not cuts.keys().isdisjoint(MARGINS):
            yield (
                f"{what}: the positive of {report.unranked:,} {of_anchors} shares no word with it "
                f"and scores 0, so a margin means nothing there"
            )
        short = sum(report.outcomes.get(outcome, 0) for outcome in ("short", "none"))
        if short and settings.when_short == "backfill":
            cut = "".join(f"; {of} cut {n:,}" for of, n in cuts.items() if n)
            yield (
                f"{what}: {short:,} {of_anchors} got fewer than {settings.wanted} negatives "
                f"(candidates ran out{cut}); when_short='random' fills the rest"
            )


def _job(database: Database, asked: Bm25 | None, recipe: TripletRecipe, **where: Any) -> _Job:
    return _Job(
        database=database,
        recipe=recipe if recipe.mined else replace(recipe, by="bm25"),
        settings=settled(recipe.name, recipe.by, asked),
        asks=recipe.mined,
        **where,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """One recipe, source and split to mine, by some settings.

    ``asks``: whether the recipe itself says that its negatives are mined.
    """

    database: Database
    recipe: TripletRecipe
    settings: Bm25
    asks: bool
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

    def run(self, work: Work) -> PairReport | str:
        """Mine all anchors, or those that an interrupted mining left, and return the report.

        Without an anchor nothing is stored and why comes back, unless the recipe asks for a mining.
        """
        started = time.monotonic()
        in_shards = self.settings.scope == "shard"
        of = self._index(work.engine) if in_shards else None
        guards = self._guards(of)
        if not (len(guards.anchors) or self.asks):
            return self._why_empty()
        of = of if in_shards else self._index(work.engine)
        count = len(guards.anchors) if of is not None else 0
        made_with = {"bm25": to_plain(self.settings, defaults=False)}
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
                self._search(mining, guards, of, folder, started, work)
        else:
            mining.seconds += time.monotonic() - started
        return mining.finish()

    def _index(self, engine: Engine = INLINE) -> Index | None:
        """Return the index of the source and split, brought up to date; None without a record."""
        index.refresh(self.database, source=self.source, split=self.split, work=Work(engine))
        return index.current(self.database, self.source, self.split)

    def _guards(self, of: Index | None) -> Guards:
        order = None
        if of is not None and self.settings.scope == "shard":
            # Neighbours share a document shard, so that a block reads one or two of them.
            order = index.documents(self.database, of)["section_key"].to_numpy()
        compiled = self._compiled()
        with PoolReader(self.database, [compiled]) as reader:
            return Guards(self.database, reader, compiled, order)

    def _compiled(self) -> CompiledPool:
        labels = labels_of(self.database, self.version).get(self.source)
        where: dict[str, Any] = {"source": self.source, "split": self.split}
        return compile_pool(self.recipe, **where, version=self.version, labels=labels)

    def _why_empty(self) -> str:
        compiled = self._compiled()
        with PoolReader(self.database, [compiled]) as reader:
            return reader.why_empty(compiled)

    def _search(
        self,
        mining: OpenMining,
        guards: Guards,
        of: Index,
        folder: Path,
        started: float,
        work: Work,
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
        asked: list[tuple[slice, Excluded]] = []
        before = mining.seconds
        with (
            closing(index.vocabulary(self.database, of)) as vocabulary,
            _searching(self.database, work.engine, pairs) as by,
        ):
            blocks = self._blocks(guards, mining.done, prepared, vocabulary, asked)
            for found in scored(
                prepared.files, blocks, self.settings, guards=len(REASONS), engine=by
            ):
                block, excluded = asked.pop(0)
                rows = rows_of(self.settings, guards, block, excluded, found)
                mining.seconds = before + time.monotonic() - started
                mining.append(*rows)
                work.tell(block.stop, len(guards.anchors))

    def _blocks(
        self,
        guards: Guards,
        done: int,
        prepared: PreparedShards,
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
                terms=IntegerLists(starts, terms.astype(np.int64)),
                positives=guards.positives.take(guards.sections.records[anchors]),
                excluded=excluded.documents,
                reasons=excluded.reasons,
                allowed=excluded.allowed,
                shards=prepared.homes[anchors] if self.settings.scope == "shard" else None,
            )


@contextmanager
def _searching(database: Database, engine: Engine, pairs: int) -> Iterator[Engine]:
    """Yield what searches: processes, where nobody else does and they are worth it."""
    threads = int(database.run("mining/mine/threads")[0][0])
    if engine is not INLINE or threads == 1 or pairs <= _WORTH_PROCESSES:
        yield engine
        return
    with closing(LocalEngine(threads)) as processes:
        yield processes


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
