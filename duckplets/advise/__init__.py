"""Say which negatives a corpus is worth training with, before a large model is trained.

corpus ─sampled→ a small corpus ─Halving: eight arms, two seeds→ nDCG@10 of queries ─→ Advice
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from duckplets.adapters.evaluation import Asked, bootstrapped, questions
from duckplets.base.progress import Progress
from duckplets.base.settings import Bounds, checked
from duckplets.corpus import run_file
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import EmptyPoolError, RecipeError, SamplerError
from duckplets.export.collection import Collections
from duckplets.export.subject import pooled
from duckplets.mining.bm25_scorer import Bm25Scorer
from duckplets.recipes.recipes import TripletRecipe
from duckplets.search.index import stored, terms_of

if TYPE_CHECKING:
    from duckplets.advise.advice import Advice
    from duckplets.advise.halving import Halving

SECONDS = 120.0
LEAST = 200  # anchors
SURE = 0.9  # of bootstrap samples: a wrong arm seldom does harm, and a missed one costs more
MOST, QUERIES = 40_000, 1_500  # records of a sample; of these held out
_PATIENCE, _OPENING = 4, 20  # times the budget, and seconds more, after which it stops
_FIRST = {
    "dense": "First: duckplets embed CORPUS YOUR_MODEL; duckplets mine CORPUS --by default",
    "bm25": "First: duckplets mine CORPUS",
}


def advise(
    corpus: CorpusFile,
    /,
    recipe: TripletRecipe | str | None = None,
    *,
    source: str | None = None,
    seconds: float = SECONDS,
    seed: int = 1,
    progress: Progress | bool | None = None,
) -> Advice:
    """Say which negatives are worth training with, by a probe that is trained on a sample.

    A mean of word vectors learns from nothing, by eight ways to draw negatives (arms) with two
    seeds each; successive halving gives the best arms more batches. Held-out families of train
    judge them by nDCG@10. Nothing is written into the corpus: a copy of the sample goes at the end.

    Args:
        recipe: A triplet recipe, or the name of one. Default: the first that a sampler draws.
        source: Of this source only.
        seconds: Budget in processor seconds of a usual machine, turned into work by a constant, so
            that results do not depend on the machine. A small corpus needs less.
        seed: Of the sample, and of which families are held out.
        progress: Called with trainings done and their number; True for a bar, None for one on a
            terminal.

    Returns:
        The arms with differences and intervals, the recommended one with a run file, how sure it
        is, and what was not tried. Ctrl-C ends it with what is done.

    Raises:
        EmptyPoolError: Fewer than 200 anchors have a positive and a negative, or answers are too
            few to tell.
        SplitError: The corpus has no splits yet.
        SamplerError, RecipeError: An argument is wrong.
    """
    from threadpoolctl import threadpool_limits

    from duckplets.advise.halving import UNITS, Halving, Judge, Plans
    from duckplets.advise.probe import Words
    from duckplets.advise.sample import mined, sampled

    begun = time.process_time()
    seconds = checked("seconds", seconds, Annotated[float, Bounds(1, 86_400)], SamplerError)
    of = pooled(corpus.database, recipe, source=source, split="train")
    if not of.recipe.minable:
        raise RecipeError(
            f"recipe {of.recipe.name!r} has chosen its negatives already: name another recipe, or "
            f"compare runs of your own model"
        )
    open_recipe = replace(of.recipe, by=None)  # which leaves negatives to the run
    most = int(MOST * min(1.0, max(0.05, seconds / SECONDS)))
    with (
        threadpool_limits(1, "blas"),
        working(INLINE, progress, "trainings") as work,
        sampled(corpus, of.sources, most=most, queries=QUERIES, seed=seed) as sample,
        closing(Words(terms_of(sample.database))) as words,
    ):
        anchors, without = mined(sample, open_recipe, of.sources, Bm25Scorer())
        if not anchors and without:
            raise EmptyPoolError(f"there is nothing to try: {without[0]}")
        is_collection = Collections.chosen(sample.database, source, None) is not None
        by = None if recipe is None and is_collection else open_recipe
        asked = Asked()
        with suppress(EmptyPoolError):  # all are of one family, or hardly any is there
            asked = questions(sample.database, "test", recipe=by, source=source, is_all=True)
        if not asked.queries or anchors + len(asked.queries) < LEAST:
            raise EmptyPoolError(
                f"too few to tell: {anchors:,} anchors of train to learn from, and "
                f"{len(asked.queries):,} of other families to judge by; advise needs {LEAST}"
            )
        plans = Plans(sample, open_recipe, of.sources, words)
        plans.fit(anchors)
        halving = Halving(plans, Judge(asked, words), seconds * UNITS)
        halving.run(work, begun + _PATIENCE * seconds + _OPENING)
    lacks = not stored(corpus.database, source=source, split="train")
    run: dict[str, Any] = {"mixture": {"weights": {source: 1.0}}} if source else {}
    is_known = not isinstance(recipe, TripletRecipe) and of.recipe == open_recipe
    run["recipes"] = [open_recipe.name if is_known else open_recipe]
    return _advice(
        halving,
        run | {"batch_size": plans.batch, "no_duplicates": True},
        recipe=of.recipe.name,
        anchors=anchors,
        documents=len(asked.documents),
        seconds=round(time.process_time() - begun, 1),
        notes=("Train has no BM25 index: one of the sample was made for this.",) * lacks,
    )


def _advice(halving: Halving, run: dict[str, Any], **facts: Any) -> Advice:
    """Compare the arms and recommend one."""
    from duckplets.advise.advice import Advice, ArmFound
    from duckplets.advise.halving import ARMS, IN_BATCH, INTERRUPTED

    families, found, draws = halving.judge.families, list[ArmFound](), dict[str, Any]()
    for name in ARMS:
        batches, differences = halving.compared(name)
        if not batches:
            continue
        draws[name] = 100 * bootstrapped(differences.mean(axis=0)[:, None], families)
        low, high = np.quantile(draws[name], [0.025, 0.975]).tolist()
        each = tuple((100 * differences.mean(axis=1)).tolist())
        ndcg = 100 * float(np.mean([*halving.results[name][batches].values()]))
        found.append(ArmFound(name, batches, ndcg, sum(each) / len(each), low, high, each))
    if not found and halving.cut_short == INTERRUPTED:
        raise KeyboardInterrupt  # nothing is done that could be shown
    if not found:
        raise EmptyPoolError(f"{halving.cut_short} before two arms were done; give more seconds")
    found.sort(key=lambda arm: (-arm.batches, -arm.difference))
    best = next((arm for arm in found if arm.arm != IN_BATCH), found[0])
    sure = float((draws[best.arm] > 0).mean())
    gain = sure >= SURE and min(best.by_seed) > 0
    recommended = best.arm if gain else IN_BATCH
    way = next((way for way in _FIRST if way in str(ARMS[recommended])), "")
    told = [f"Recommended by duckplets advise: {recommended}.", *([_FIRST[way]] if way else [])]
    return Advice(
        arms=tuple(found),
        queries=len(families),
        families=len({*families}),
        recommended=recommended,
        gain=gain,
        sure=sure,
        run=run_file.brief(run | {**ARMS[recommended]}, told),
        cut_short=halving.cut_short,
        work=halving.spent,
        **facts,
    )
