"""Recommend negatives for a corpus, before you train a large model.

corpus ─sampled→ a small corpus ─Halving: eight arms, two seeds→ nDCG@10 of queries ─→ Advice
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from duckplets.adapters.evaluation import Questions, bootstrapped, questions
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
SURE = 0.9  # share of bootstrap samples: a wrong arm seldom harms, and a missed arm costs more
MOST, QUERIES = 40_000, 1_500  # records of a sample; held-out records
_PATIENCE, _OPENING = 4, 20  # it stops after this multiple of the budget, plus seconds
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
    """Recommend negatives for training, by a small model that is trained on a sample.

    The model is a mean of word vectors, trained from random values. Eight ways to draw negatives
    (arms) train it with two seeds each; successive halving gives the best arms more batches.
    Held-out families of train measure nDCG@10. The corpus is only read; the copy of the sample is
    deleted at the end.

    Args:
        recipe: A triplet recipe, or its name. Default: the first recipe that a sampler draws.
        source: Use this source only.
        seconds: Budget in processor seconds of a usual machine. A constant converts it into work,
            so results do not depend on the machine. A small corpus needs less.
        seed: Seed of the sample and of the held-out families.
        progress: Called with the finished trainings and their number; True for a bar, None for a
            bar on a terminal.

    Returns:
        The arms with differences and intervals, the recommended arm with a run file, its
        certainty, and a list of untried settings. Ctrl-C returns the results so far.

    Raises:
        EmptyPoolError: Fewer than 200 anchors have a positive and a negative, or too few queries
            remain.
        SplitError: The corpus has no splits yet.
        SamplerError, RecipeError: An argument is wrong.
    """
    from threadpoolctl import threadpool_limits

    from duckplets.advise.halving import UNITS, Halving, Judge, Plans
    from duckplets.advise.probe import Words
    from duckplets.advise.sample import mined, sampled

    start = time.process_time()
    seconds = checked("seconds", seconds, Annotated[float, Bounds(1, 86_400)], SamplerError)
    subject = pooled(corpus.database, recipe, source=source, split="train")
    if not subject.recipe.minable:
        raise RecipeError(
            f"recipe {subject.recipe.name!r} already has its negatives: name another recipe, or "
            f"compare runs of your own model"
        )
    open_recipe = replace(subject.recipe, by=None)  # the run chooses negatives
    most = int(MOST * min(1.0, max(0.05, seconds / SECONDS)))
    with (
        threadpool_limits(1, "blas"),
        working(INLINE, progress, "trainings") as work,
        sampled(corpus, subject.sources, most=most, queries=QUERIES, seed=seed) as sample,
        closing(Words(terms_of(sample.database))) as words,
    ):
        anchors, reasons = mined(sample, open_recipe, subject.sources, Bm25Scorer())
        if not anchors and reasons:
            raise EmptyPoolError(f"no anchor can be tried: {reasons[0]}")
        is_collection = Collections.chosen(sample.database, source, None) is not None
        by = None if recipe is None and is_collection else open_recipe
        found = Questions()
        with suppress(EmptyPoolError):  # the sample is one family, or very small
            found = questions(sample.database, "test", recipe=by, source=source, is_all=True)
        if not found.queries or anchors + len(found.queries) < LEAST:
            raise EmptyPoolError(
                f"too few to tell: {anchors:,} of train to learn from, and {len(found.queries):,} "
                f"of other families as queries; advise needs {LEAST}"
            )
        plans = Plans(sample, open_recipe, subject.sources, words)
        plans.fit(anchors)
        halving = Halving(plans, Judge(found, words), seconds * UNITS)
        halving.run(work, start + _PATIENCE * seconds + _OPENING)
    lacks = not stored(corpus.database, source=source, split="train")
    run: dict[str, Any] = {"mixture": {"weights": {source: 1.0}}} if source else {}
    is_known = not isinstance(recipe, TripletRecipe) and subject.recipe == open_recipe
    run["recipes"] = [open_recipe.name if is_known else open_recipe]
    return _advice(
        halving,
        run | {"batch_size": plans.batch, "no_duplicates": True},
        recipe=subject.recipe.name,
        anchors=anchors,
        documents=len(found.documents),
        seconds=round(time.process_time() - start, 1),
        notes=("Train has no BM25 index, so advise built an index of the sample.",) * lacks,
    )


def _advice(halving: Halving, run: dict[str, Any], **facts: Any) -> Advice:
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
        raise KeyboardInterrupt  # there is no result to show
    if not found:
        raise EmptyPoolError(f"{halving.cut_short} before two arms ended; give more seconds")
    found.sort(key=lambda arm: (-arm.batches, -arm.difference))
    others = [arm for arm in found if arm.arm != IN_BATCH] or found
    top, sure = others[0], {arm.arm: float((draws[arm.arm] > 0).mean()) for arm in others}
    equal = [
        arm
        for arm in others
        if arm.batches == top.batches and sure[arm.arm] >= SURE and min(arm.by_seed) > 0
        if (draws[top.arm] > draws[arm.arm]).mean() < SURE
    ]
    gain, notes = bool(equal), facts.pop("notes")
    # among arms of equal gain, more negatives gain more in a longer training
    best = max(
        equal, key=lambda arm: getattr(ARMS[arm.arm].get("negatives"), "num", 0), default=top
    )
    if best is not top:
        found.sort(key=lambda arm: arm is not best)
        notes += (
            f"{top.arm} has {top.difference:+.1f}. Queries do not separate it from {best.arm}, "
            f"and more negatives gain more in a longer training.",
        )
    recommended = best.arm if gain else IN_BATCH
    way = next((way for way in _FIRST if way in str(ARMS[recommended])), "")
    head = [f"Recommended by duckplets advise: {recommended}.", *([_FIRST[way]] if way else [])]
    return Advice(
        arms=tuple(found),
        queries=len(families),
        families=len({*families}),
        recommended=recommended,
        gain=gain,
        sure=sure[best.arm],
        notes=notes,
        run=run_file.brief(run | {**ARMS[recommended]}, head),
        cut_short=halving.cut_short,
        work=halving.spent,
        **facts,
    )
