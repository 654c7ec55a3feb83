"""Mine the candidates of recipes: for every anchor the documents that score highest.

    recipes, sources, splits ─those due→ jobs ─each by a scorer→ NAME.candidates/ ─→ a report

Exact over the whole (source, split): the guards and the recipe's strategy act before the best are
taken, so a small split still gets its full depth. Nothing is cut: where to cut is said by recipes
and runs. The corpus is only read.
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

    Samplers draw them from then on, unless they or a recipe say ``by="random"``; which of the
    candidates is said by ``dp.Negatives``. They are kept in ``NAME.candidates`` beside the corpus,
    which may itself be open to read only, also by runs. Interrupted, killed even, it goes on where
    it was when called again.

    Args:
        recipe: A recipe or several, or names of them; by default every triplet recipe that a
            sampler would draw, but for those that say ``by="random"`` or cannot be mined, as
            those of strategy ``same_record``.
        by: The scorer: ``bm25``; ``dp.Dense(…)`` for the cosine of vectors; or ``judged``, whose
            candidates are the documents labelled 0 or less, with the label as score.
        depth: How many candidates an anchor keeps, 1 to 2,048. What was mined deeper stays.
        source: For this source only; by default for all.
        split: For this split only; by default for all that have anchors.
        terms: How text becomes terms from now on: stemmer, stop words. Indexes are then built
            again.
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
    if by == JUDGED:
        where: dict[str, Any] = {"source": source, "split": split, "depth": depth}
        return judged(corpus, recipe, **where, progress=progress)
    by_words = Bm25Scorer(query_tokens=query_tokens, scope=scope, shard_documents=shard_documents)
    ranker = by_words if by == BM25 else by
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
            and ranker is by_words
            and any(index.stale(database, **job.ground) for job in due)
        ):
            database.run("mining/mine/own_index")
            stack.callback(database.run, "mining/mine/drop_own_index")
        done = [(job, job.run(folder)) for job in due]
        show(database)
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
    """Return recipe, source, split and version of all that is to be mined, with notes."""
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
    found = defaultdict[tuple[str, str], list[PairReport | str]](list)
    for job, report in done:
        found[job.recipe.name, job.source].append(report)
    for reports in found.values():
        reasons = [why for why in reports if isinstance(why, str)]
        if len(reasons) == len(reports):
            yield next((why for why in reasons if not why.endswith(NO_RECORDS)), reasons[0])


def _told(mined: Sequence[tuple[Job, PairReport]]) -> Iterator[str]:
    """Yield what may be unexpected about what policies leave."""
    by_recipe = defaultdict[str, list[tuple[Job, PairReport]]](list)
    for job, pair in mined:
        by_recipe[pair.recipe].append((job, pair))
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
