"""Mine the candidates of recipes: for every anchor the documents that score highest.

    recipes, sources, splits ─if due→ jobs ─scorer→ NAME.candidates/ ─→ a report

The search covers the whole (source, split). Guards and strategy act before the best are taken, so
a small split gets its full depth. Mining stores candidates uncut and only reads the corpus.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Literal

from duckplets.base.progress import Progress
from duckplets.base.sanitize import counted, listed
from duckplets.base.settings import Bounds, checked
from duckplets.base.stages import stage
from duckplets.db import external_files
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.work import working
from duckplets.errors import RecipeError
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import store
from duckplets.mining.bm25_scorer import Bm25Scorer, Scope
from duckplets.mining.external import JUDGED, judged
from duckplets.mining.job import MOST, Job, Scorer
from duckplets.mining.report import MiningReport, PairReport
from duckplets.mining.store import Minings
from duckplets.mining.views import show
from duckplets.pools.read import NO_RECORDS
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import BM25
from duckplets.recipes.recipes import Preset, TripletRecipe, checked_preset
from duckplets.search import index
from duckplets.search.analyzer_settings import Terms

log = logging.getLogger("duckplets")


@stage("mine negatives in")
def mine(
    corpus: CorpusFile,
    /,
    recipe: str | TripletRecipe | Sequence[str | TripletRecipe] | None = None,
    *,
    by: Literal["bm25", "judged"] | Scorer = "bm25",
    depth: int = 100,
    source: str | None = None,
    split: str | None = None,
    terms: Terms | None = None,
    preset: Preset | None = None,
    query_tokens: int = 64,
    scope: Scope = "pool",
    shard_documents: int = 65_536,
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> MiningReport:
    """Mine hard negatives, where they are missing or stale.

    Later samplers draw from them, unless a recipe or the sampler sets ``by="random"``. Choose the
    cut with ``dp.Negatives`` when you open a run. Candidates are stored in ``NAME.candidates``
    next to the corpus, so the corpus may be open read-only, also by runs. If a call is
    interrupted or killed, the next call continues.

    Args:
        recipe: One or more recipes, or their names. Default: every triplet recipe that a sampler
            draws. Recipes with ``by="random"`` and recipes of strategy ``same_record`` are skipped.
        by: The scorer. ``bm25``; ``dp.Dense(…)`` for the cosine of vectors; or ``judged``: the
            candidates are the documents labelled 0 or less, and the label is the score.
        depth: Number of candidates per anchor, 1 to 2,048. An earlier, deeper mining is kept.
        source: Mine this source only. Default: all.
        split: Mine this split only. Default: every split with anchors.
        terms: Text analysis from now on: stemmer, stop words. Indexes are then built again.
        preset: ``crate`` for the recipes of a sampler with that preset.
        query_tokens: Number of the anchor's first tokens in the query, 1 to 100.
        scope: Search the whole ``pool``, or only the anchor's own ``shard`` of it.
        shard_documents: Number of documents in a shard.
        engine: Where the work runs. None: this process; ``local:4``: four processes on this
            machine; ``dask://HOST:PORT`` or a ``distributed.Client``: a Dask cluster. The result
            is the same.
        progress: A function of anchors done and their number; True or False for a bar on stderr
            or none. Default: a bar if stderr is a terminal.

    Raises:
        ExtensionError: Stemming needs DuckDB's fts extension, and it is missing.
        RecipeError, SplitError: An argument is wrong, or there are no splits yet.
        EngineError: The engine is invalid, cannot be reached, or fails.
        QueryError: The folder of candidates cannot be written.
    """
    if by == JUDGED:
        where: dict[str, Any] = {"source": source, "split": split, "depth": depth}
        return judged(corpus, recipe, **where, progress=progress)
    bm25 = Bm25Scorer(query_tokens=query_tokens, scope=scope, shard_documents=shard_documents)
    ranker = bm25 if by == BM25 else by
    if not isinstance(ranker, Scorer):
        raise RecipeError(f"by={by!r}: give 'bm25', 'judged', or dp.Dense('a set of vectors')")
    depth = checked("depth", depth, Annotated[int, Bounds(1, MOST)], RecipeError)
    database, started = corpus.database, time.monotonic()
    splits.need_splits(database)
    external_files.check(database)
    if terms is not None:
        index.index(corpus, terms, progress=False)
    wanted, notes = _wanted(database, recipe, source, split, checked_preset(preset))
    with ExitStack() as stack:
        if not database.read_only:
            stack.enter_context(database.changing("mine negatives in"))
        folder = stack.enter_context(store.writing(database))
        work = stack.enter_context(working(engine, progress, "anchors"))
        minings = Minings(database)
        made: dict[str, Any] = {"database": database, "scorer": ranker, "depth": depth}
        jobs = [Job(**made, **each, work=work) for each in wanted]
        due = [job for job in jobs if job.is_due(minings)]
        if (
            database.read_only
            and ranker is bm25
            and any(index.stale(database, **job.ground) for job in due)
        ):
            database.run("mining/mine/own_index")
            stack.callback(database.run, "mining/mine/drop_own_index")
        done = [(job, job.run(folder)) for job in due]
        show(database)
    mined = [(job, report) for job, report in done if isinstance(report, PairReport)]
    seconds = round(time.monotonic() - started, 3)
    notes += [*_without_anchors(done), *_warnings(mined)]
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
    """Return the arguments of each job (recipe, source, split, version), and notes."""
    version = records.current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    chosen = [recipes] if isinstance(recipes, str | TripletRecipe) else recipes
    wanted: list[dict[str, Any]] = []
    reasons: dict[str, str] = {}  # by recipe, why no sampler uses mined negatives for it
    for split_name in splits.SPLITS if split is None else [splits.checked_split(split)]:
        for resolved in recipe_store.resolve(
            database,
            chosen,
            kind="triplets",
            split=split_name,
            version=version,
            max_tokens=chunking_of(database)["max_tokens"],
            preset=preset,
        ):
            for recipe in resolved.recipes:
                if not isinstance(recipe, TripletRecipe) or source not in (None, resolved.source):
                    continue
                if why := _why_not(recipe):
                    reasons[recipe.name] = why
                if chosen or not why:
                    where = {"source": resolved.source, "split": split_name, "version": version}
                    wanted.append({"recipe": recipe, **where})
    if chosen:
        return wanted, [
            f"recipe {name!r} has by='random', so no sampler will use these candidates; remove its "
            f"by, or set it to {BM25!r}"
            for name, why in reasons.items()
            if why == _RANDOM
        ]
    if wanted:
        return wanted, []
    skipped = listed(f"{name} ({why})" for name, why in reasons.items())
    return [], [f"nothing was mined: no recipe takes mined negatives: {skipped or 'there is none'}"]


_RANDOM = "by='random'"


def _why_not(recipe: TripletRecipe) -> str:
    """Return why no sampler uses mined negatives for a recipe; empty if one does."""
    if recipe.by == "random":
        return _RANDOM
    if not recipe.weight:
        return "weight 0"
    return "" if recipe.minable else "its negatives are chosen already"


def _without_anchors(done: Sequence[tuple[Job, PairReport | str]]) -> Iterator[str]:
    """Yield why nothing was mined for recipes and sources without anchors in any split."""
    by_subject = defaultdict[tuple[str, str], list[PairReport | str]](list)
    for job, report in done:
        by_subject[job.recipe.name, job.source].append(report)
    for reports in by_subject.values():
        reasons = [why for why in reports if isinstance(why, str)]
        if len(reasons) == len(reports):
            yield next((why for why in reasons if not why.endswith(NO_RECORDS)), reasons[0])


def _warnings(mined: Sequence[tuple[Job, PairReport]]) -> Iterator[str]:
    """Yield warnings of unfinished minings, and of policies that cut much."""
    by_recipe = defaultdict[str, list[tuple[Job, PairReport]]](list)
    for job, pair in mined:
        by_recipe[pair.recipe].append((job, pair))
        if pair.left:
            yield (
                f"recipe {pair.recipe!r}, source {pair.source!r}, split {pair.split!r}: "
                f"{pair.left:,} of {counted(pair.anchors + pair.left, 'anchor')} are not done yet; "
                f"repeat the call to continue; runs draw from these candidates when all are done"
            )
    for name, jobs in by_recipe.items():
        report = MiningReport(pairs=tuple(pair for _, pair in jobs), seconds=0.0)
        policy, none = jobs[0][0].policy, report.outcomes.get("none", 0)
        anchors = f"{none:,} of {counted(report.anchors, 'anchor')}"
        for margin in ("absolute_margin", "relative_margin"):
            cut = report.counts.get(margin, 0)
            if 2 * cut > report.candidates:
                yield (
                    f"recipe {name!r}: {margin}={getattr(policy, margin):g} cuts {cut:,} of "
                    f"{report.candidates:,} candidates, and {anchors} have no negative; remove it, "
                    f"or give a smaller one"
                )
        if none:
            way = "is skipped" if policy.when_short == "drop" else "draws at random"
            yield f"recipe {name!r}: {anchors} have no candidate, and each {way}"
