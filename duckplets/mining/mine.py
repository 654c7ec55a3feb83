"""Mine the candidates of recipes: for every anchor the documents that score highest by BM25.

    recipe's pool ─Guards→ who may not be found ─┐
    index ─document shards→ impacts ─by blocks───┴→ the best of each anchor ─→ NAME.candidates/

Exact over the whole (source, split): the guards and the recipe's strategy act before the best are
taken, so a small split still gets its full depth. Nothing is cut: where to cut is said by recipes
and runs. Blocks, document shards and workers change no result. The corpus is only read: an index
that is missing is kept with it where it is open for writing, and is this connection's own else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from duckplets.artifacts.folder import ArtifactFolder
from duckplets.base.arrays import IntegerLists
from duckplets.base.atomic import aside_of, remove
from duckplets.base.progress import Progress
from duckplets.base.sanitize import counted, listed
from duckplets.base.settings import Bounds, Name, check
from duckplets.base.stages import stage
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.files import real_path
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.local import LocalEngine
from duckplets.engine.protocol import Engine
from duckplets.engine.work import Work, working
from duckplets.errors import DamagedFileError, QueryError, RecipeError
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import content_of
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import policy, store
from duckplets.mining.bm25 import Queries, TopDocuments
from duckplets.mining.guards import BLOCK_ANCHORS, REASONS, Guards
from duckplets.mining.report import MiningReport, PairReport
from duckplets.mining.shards import PreparedShards, prepare, scored
from duckplets.mining.store import Mining, Minings, OpenMining
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import NO_RECORDS, PoolReader, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import BM25, Mined, policy_of
from duckplets.recipes.recipes import Preset, TripletRecipe, checked_preset
from duckplets.search import index
from duckplets.search.analyzer import Vocabulary
from duckplets.search.index import Index

log = logging.getLogger("duckplets")

Scope = Literal["pool", "shard"]

MOST = 2048  # default candidates of an anchor
_MOST_TOKENS = 100  # so many impacts add up within 32 bits, whatever the corpus
_CHARACTERS = 1000  # documents looked at for each query token
_CELLS = 1 << 20  # candidates of a block
_CANDIDATE_BYTES = 5  # bytes on disk per candidate, about
_MANY_MEGABYTES = 1000  # bytes from which a warning comes first
_WORTH_PROCESSES = 20_000_000  # pairs scored while processes would start


class Scorer(Protocol):
    """A ranking of candidates other than BM25."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def settings(self, job: Job) -> dict[str, Any]:
        """Return the settings that its candidates follow from."""
        ...

    def search(
        self, job: Job, guards: Guards, start: int, depth: int
    ) -> Iterator[tuple[slice, TopDocuments]]:
        """Yield the best documents of every block of anchors, from one on."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """Settings of a search for candidates; arguments of ``mine``."""

    scorer: Annotated[str, Name(64)] = "bm25"
    depth: Annotated[int, Bounds(1, MOST)] = 100
    query_tokens: Annotated[int, Bounds(1, _MOST_TOKENS)] = 64
    scope: Scope = "pool"
    shard_documents: Annotated[int, Bounds(1)] = 65_536

    def __post_init__(self) -> None:
        check(self, RecipeError, "mine")


@stage("mine negatives in")
def mine(
    corpus: CorpusFile,
    /,
    recipe: str | TripletRecipe | Sequence[str | TripletRecipe] | None = None,
    *,
    scorer: Literal["bm25"] | Scorer = "bm25",
    depth: int = 100,
    source: str | None = None,
    split: str | None = None,
    preset: Preset | None = None,
    query_tokens: int = 64,
    scope: Scope = "pool",
    shard_documents: int = 65_536,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> MiningReport:
    """Mine hard negatives, where they are missing or stale.

    Samplers draw them from then on, unless they or a recipe say ``by="random"``; which of the
    candidates is said by ``dp.mined``. They are kept in ``NAME.candidates`` beside the corpus,
    which may itself be open to read only, also by runs. Interrupted, killed even, it goes on where
    it was when called again.

    Args:
        recipe: A recipe or several, or names of them; by default every triplet recipe that a
            sampler would draw, but for those that say ``by="random"`` or cannot be mined, as
            those of strategy ``same_record``.
        scorer: What ranks candidates: ``bm25``, or ``dp.dense(…)``, the cosine of vectors.
        depth: How many candidates an anchor keeps, 1 to 2,048. What was mined deeper stays.
        source: For this source only; by default for all.
        split: For this split only; by default for all that have anchors.
        preset: ``crate`` for the recipes of a sampler with that preset.
        query_tokens: How many of the anchor's first tokens are looked for, 1 to 100.
        scope: Search the whole ``pool``, or only the anchor's own ``shard`` of it.
        shard_documents: Documents of a shard.
        engine: What runs the work: None for this process, ``local:4`` for four processes of
            this machine, ``dask://HOST:PORT`` for a cluster of Dask, or a
            ``distributed.Client``. The result is the same.
        progress: Called with anchors done and their number; True or False for a bar on
            stderr or none, by default a bar if stderr is a terminal.

    Raises:
        ExtensionError: Stemming needs DuckDB's fts extension, and it is not to be found.
        RecipeError, SplitError: An argument is wrong, or there are no splits yet.
        EngineError: The engine is none, cannot be reached, or fails.
        QueryError: The folder of candidates cannot be written.
    """
    ranker = None if isinstance(scorer, str) else scorer
    if scorer != BM25 and not hasattr(ranker, "search"):
        raise RecipeError(f"scorer={scorer!r}: give 'bm25', or dp.dense('a set of vectors')")
    wanted_search = Search(
        scorer=ranker.name if ranker else BM25,
        depth=depth,
        query_tokens=query_tokens,
        scope=scope,
        shard_documents=shard_documents,
    )
    database, started = corpus.database, time.monotonic()
    splits.need_splits(database)
    external_files.check(database)
    wanted, notes = _wanted(database, recipe, source, split, checked_preset(preset))
    with ExitStack() as stack:
        if not database.read_only:
            stack.enter_context(database.changing("mine negatives in"))
        folder = stack.enter_context(store.writing(database))
        work = stack.enter_context(working(engine, progress, "anchors"))
        minings = Minings(database)
        made: dict[str, Any] = {"database": database, "search": wanted_search, "ranker": ranker}
        jobs = [Job(**made, **each) for each in wanted]
        due = [job for job in jobs if job.is_due(minings)]
        if due and not database.read_only:
            with database.transaction():
                database.run("mining/mine/hash_texts")
        elif not ranker and any(
            index.stale(database, source=job.source, split=job.split) for job in due
        ):
            database.run("mining/mine/own_index")
            stack.callback(database.run, "mining/mine/drop_own_index")
        done = [(job, job.run(work, folder)) for job in due]
        store.show(database)
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
    """Return recipe, source, split and version of all that is to be mined, and notes on the rest.

    Unless named, recipes that a sampler draws at random or that cannot be mined are left out.
    """
    version = records.current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    chosen = [recipes] if isinstance(recipes, str | TripletRecipe) else recipes
    wanted: list[dict[str, Any]] = []
    others: dict[str, str] = {}  # by name, why no sampler uses mined negatives for it
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
            f"leave its by out, or make it {BM25!r}"
            for name, why in others.items()
            if why == _RANDOM
        ]
    if wanted:
        return wanted, []
    told = listed(f"{name} ({why})" for name, why in others.items())
    return [], [f"nothing was mined: no recipe takes mined negatives: {told or 'there is none'}"]


_RANDOM = "by='random'"


def _why_not(recipe: TripletRecipe) -> str:
    """Return why no sampler uses mined negatives for a recipe; empty if one does."""
    if recipe.by == "random":
        return _RANDOM
    if not recipe.weight:
        return "weight 0"
    if not recipe.minable:
        return "its negatives are chosen already"
    return ""


def _without_anchors(done: Sequence[tuple[Job, PairReport | str]]) -> Iterator[str]:
    """Yield why nothing was mined for recipes and sources without anchors in any split."""
    told: dict[tuple[str, str], list[str | None]] = {}
    for job, found in done:
        why = found if isinstance(found, str) else None
        told.setdefault((job.recipe.name, job.source), []).append(why)
    for reasons in told.values():
        whys = [why for why in reasons if why is not None]
        if len(whys) == len(reasons):
            yield next((why for why in whys if not why.endswith(NO_RECORDS)), whys[0])


def _told(mined: Sequence[tuple[Job, PairReport]]) -> Iterator[str]:
    """Yield what may be unexpected about what policies leave."""
    by_recipe: dict[str, list[tuple[Job, PairReport]]] = {}
    for job, pair in mined:
        by_recipe.setdefault(pair.recipe, []).append((job, pair))
        if wanting := pair.left:
            yield (
                f"recipe {pair.recipe!r}, source {pair.source!r}, split {pair.split!r}: "
                f"{wanting:,} of {counted(pair.anchors + wanting, 'anchor')} are not done yet; the "
                f"same call goes on, and nothing draws from these candidates before its end"
            )
    for name, found in by_recipe.items():
        report = MiningReport(pairs=tuple(pair for _, pair in found), seconds=0.0)
        settings, what = found[0][0].policy, f"recipe {name!r}"
        of_anchors, none = f"of {counted(report.anchors, 'anchor')}", report.outcomes.get("none", 0)
        for margin in ("absolute_margin", "relative_margin"):
            cut, candidates = report.counts.get(margin, 0), report.candidates
            if 2 * cut > candidates:
                yield (
                    f"{what}: {margin}={getattr(settings, margin):g} cuts {cut:,} of "
                    f"{candidates:,} candidates, and leaves {none:,} {of_anchors} without a "
                    f"negative; leave it out, or give less"
                )
        if none:
            way = "is left out" if settings.when_short == "drop" else "draws at random"
            yield f"{what}: {none:,} {of_anchors} are left without a candidate, and each {way}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One recipe, source and split to mine."""

    database: Database
    search: Search
    ranker: Scorer | None
    recipe: TripletRecipe
    source: str
    split: str
    version: int

    @property
    def policy(self) -> Mined:
        """The policy of the recipe."""
        found = policy_of(self.recipe.by)
        return found if found and found.scorer == self.search.scorer else Mined(self.search.scorer)

    def is_due(self, minings: Minings) -> bool:
        """Return whether nothing was mined yet, or something else than would be mined now."""
        where = {"source": self.source, "split": self.split, "scorer": self.search.scorer}
        found = minings.found(self.recipe.name, **where)
        if not found or store.stale(self.database, found[-1], self.recipe, version=self.version):
            return True
        try:
            found[-1].files(minings.folder)
        except DamagedFileError:
            return True
        had, wanted = dict(found[-1].settings), self._settings()
        return had.pop("depth") < wanted.pop("depth") or had != wanted

    def _settings(self) -> dict[str, Any]:
        if self.ranker is not None:
            return {"depth": self.search.depth, **self.ranker.settings(self)}
        terms = index.terms_of(self.database, self.source).to_dict()
        settings = asdict(self.search) | {"terms": terms}
        del settings["scorer"]
        return settings

    def run(self, work: Work, folder: ArtifactFolder) -> PairReport | str:
        """Mine all anchors, or those an interrupted mining left.

        Without anchors store nothing and return why, unless the recipe asks for mining.
        """
        in_shards = self.search.scope == "shard" and self.ranker is None
        of = self._index(work.engine) if in_shards else None
        guards = self._guards(of)
        if not (len(guards.anchors) or self.recipe.mined):
            return self._why_empty()
        if self.ranker is None and not in_shards:
            of = self._index(work.engine)
        is_there = of is not None or self.ranker is not None
        target = Mining(
            recipe=self.recipe.name,
            source=self.source,
            split=self.split,
            scorer=self.search.scorer,
            definition=store.definition_of(self.recipe),
            settings=self._settings(),
            content=content_of(self.database, self.source, self.split, self.version),
            corpus_version=self.version,
            anchors=len(guards.anchors) if is_there else 0,
            searched=len(guards.documents),
        )
        opened = OpenMining(folder, target)
        resumed = opened.mining.done
        if is_there and resumed < target.anchors:
            megabytes = target.anchors * self.search.depth * _CANDIDATE_BYTES / 1e6
            log.log(
                logging.WARNING if megabytes > _MANY_MEGABYTES else logging.INFO,
                "recipe %r, source %r, split %r: %s, up to %d candidates each, at most about "
                "%.1f MB in %s",
                *(self.recipe.name, self.source, self.split, counted(target.anchors, "anchor")),
                *(self.search.depth, megabytes, folder.path),
            )
            try:
                if self.ranker is not None:
                    depth = self.search.depth
                    for block, found in self.ranker.search(self, guards, resumed, depth):
                        self._keep(opened, guards, block, found, work)
                elif of is not None:
                    with _folder(self.database) as aside:
                        self._search(opened, guards, of, aside, work)
            finally:
                opened.keep()
        is_whole = opened.mining.done == target.anchors
        mining = opened.finish() if is_whole else opened.mining
        return report_of(self.database, mining, self.policy, resumed)

    def _index(self, engine: Engine = INLINE) -> Index | None:
        """Return the up-to-date index of the source and split; None without records."""
        index.refresh(self.database, source=self.source, split=self.split, work=Work(engine))
        return index.current(self.database, self.source, self.split)

    def _guards(self, of: Index | None) -> Guards:
        order = None
        if of is not None:
            # neighbours share a document shard, so a block reads one or two
            order = index.documents(self.database, of)["section_key"].to_numpy()
        compiled = self._compiled()
        with PoolReader(self.database, [compiled]) as reader:
            return Guards(self.database, reader, compiled, order)

    def _compiled(self) -> CompiledPool:
        labels = labels_of(self.database, self.version).get(self.source)
        where: dict[str, Any] = {"source": self.source, "split": self.split}
        mined = replace(self.recipe, by=self.search.scorer)
        return compile_pool(mined, **where, version=self.version, labels=labels)

    def _why_empty(self) -> str:
        compiled = self._compiled()
        with PoolReader(self.database, [compiled]) as reader:
            return reader.why_empty(compiled)

    def _search(
        self, opened: OpenMining, guards: Guards, of: Index, folder: Path, work: Work
    ) -> None:
        keys, done = guards.sections.keys, opened.mining.done
        eligible = np.zeros(len(keys), dtype=bool)
        eligible[guards.documents] = True
        looked_at = eligible.copy()
        looked_at[guards.positives.values] = True
        most = self.search.shard_documents
        prepared = prepare(
            self.database, of, keys, eligible, looked_at, shard_documents=most, folder=folder
        )
        pairs = (len(guards.anchors) - done) * int(eligible.sum())
        asked: list[slice] = []
        with (
            closing(index.vocabulary(self.database, of)) as vocabulary,
            _searching(self.database, work.engine, pairs) as by,
        ):
            blocks = self._blocks(guards, done, prepared, vocabulary, asked)
            for found in scored(
                prepared.files, blocks, depth=self.search.depth, guards=len(REASONS), engine=by
            ):
                self._keep(opened, guards, asked.pop(0), found, work)

    def _keep(
        self, opened: OpenMining, guards: Guards, block: slice, found: TopDocuments, work: Work
    ) -> None:
        anchors = guards.sections.keys[guards.anchors[block]]
        rows = store.rows_of(guards.sections.keys, anchors, found)
        opened.append(rows, len(anchors), store.counts_of(found))
        work.tell(block.stop, len(guards.anchors))

    def _blocks(
        self,
        guards: Guards,
        done: int,
        prepared: PreparedShards,
        vocabulary: Vocabulary,
        asked: list[slice],
    ) -> Iterator[Queries]:
        """Yield the queries of every block, recording them in ``asked``."""
        for block in guards.blocks(done, most=min(BLOCK_ANCHORS, _CELLS // self.search.depth)):
            anchors = guards.anchors[block]
            excluded = guards.exclude(block)
            asked.append(block)
            rows = pa.table(
                {"row": np.arange(len(anchors)), "section_key": guards.sections.keys[anchors]}
            )
            most = self.search.query_tokens
            with self.database.registered(asked=rows):
                texts = self.database.table(
                    "mining/mine/anchor_texts", {"characters": most * _CHARACTERS}
                )
            starts, terms = vocabulary.analyse(texts["text"], limit=most)
            yield Queries(
                terms=IntegerLists(starts, terms.astype(np.int64)),
                positives=guards.positives.take(guards.sections.records[anchors]),
                excluded=excluded.documents,
                reasons=excluded.reasons,
                allowed=excluded.allowed,
                shards=prepared.homes[anchors] if self.search.scope == "shard" else None,
            )


@contextmanager
def _searching(database: Database, engine: Engine, pairs: int) -> Iterator[Engine]:
    """Yield the engine that searches: processes, if none was given and they pay."""
    threads = int(database.run("mining/mine/threads")[0][0])
    if engine is not INLINE or threads == 1 or pairs <= _WORTH_PROCESSES:
        yield engine
        return
    with closing(LocalEngine(threads)) as processes:
        yield processes


def report_of(database: Database, mining: Mining, of_recipe: Mined, resumed: int = 0) -> PairReport:
    """Return the report of a mining, by the policy of its recipe."""
    left = policy.outcomes(database, mining, of_recipe)
    quantiles, unranked = policy.quantiles(database, mining)
    counts = {name: count for name, count in mining.counts.items() if name != "candidates"}
    outcomes = {name: left.pop(name, 0) for name in ("full", "short", "none")}
    return PairReport(
        recipe=mining.recipe,
        source=mining.source,
        split=mining.split,
        scorer=mining.scorer,
        mining=mining.key,
        anchors=mining.done if not mining.finished_at else mining.anchors,
        left=0 if mining.finished_at else mining.anchors - mining.done,
        candidates=mining.candidates,
        outcomes={name: count for name, count in outcomes.items() if count},
        counts=counts | left,
        quantiles=quantiles,
        unranked=unranked,
        searched=mining.searched,
        resumed=resumed,
        seconds=mining.seconds,
    )


@contextmanager
def _folder(database: Database) -> Iterator[Path]:
    """Create a temporary folder beside the corpus."""
    folder = aside_of(real_path(Path(str(database.path))))
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
