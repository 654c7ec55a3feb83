"""Say which negatives a corpus is worth training with, before a large model is trained.

corpus ─sampled→ a small corpus ─Halving: eight arms, two seeds→ nDCG@10 of queries ─→ Advice
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from duckplets.adapters.evaluation import bootstrapped, questions
from duckplets.base.progress import Progress
from duckplets.base.sanitize import counted
from duckplets.base.settings import Bounds, checked
from duckplets.corpus import run_file
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import EmptyPoolError, SamplerError
from duckplets.export.subject import pooled
from duckplets.mining.bm25_scorer import Bm25Scorer
from duckplets.recipes.recipes import TripletRecipe
from duckplets.search.index import stored, terms_of

if TYPE_CHECKING:
    from duckplets.advise.advice import Advice
    from duckplets.advise.halving import Halving

SECONDS = 120.0
LEAST = 200  # anchors
MOST, QUERIES = 40_000, 1_500  # records of a sample; of these held out
_PATIENCE = 4  # times the budget by the clock after which it stops


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

    A mean of word vectors learns from nothing on a sample of the split train, by eight ways to
    draw negatives (arms) with two seeds each. Successive halving gives the best arms more batches.
    Held-out families of queries judge them by nDCG@10. Nothing is written into the corpus, and
    indexes, vectors and candidates go when it ends.

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
    most = int(MOST * min(1.0, max(0.05, seconds / SECONDS)))
    made: dict[str, Any] = {"most": most, "queries": QUERIES, "seed": seed}
    with (
        threadpool_limits(1, "blas"),
        working(INLINE, progress, "trainings") as work,
        sampled(corpus, of.sources, **made) as sample,
        closing(Words(terms_of(sample.database))) as words,
    ):
        anchors, without = mined(sample, of.recipe, of.sources, Bm25Scorer())
        queries = _queries(sample, of.recipe, source, anchors, without)
        plans = Plans(sample, of.recipe, of.sources, words)
        plans.fit(anchors)
        judge = Judge(queries, words)
        halving = Halving(
            plans=plans,
            judge=judge,
            work=work,
            units=int(seconds * UNITS),
            deadline=time.monotonic() + _PATIENCE * seconds,
        )
        halving.run()
    notes = [f"{counted(anchors + len(queries.queries), 'anchor')} of a sample were used."]
    if not stored(corpus.database, source=source, split="train"):
        notes.append("There is no BM25 index of train: one of the sample was made for this.")
    return _advice(
        halving,
        recipe=of.recipe.name,
        given=recipe,
        anchors=anchors,
        documents=len(queries.documents),
        seconds=round(time.process_time() - begun, 1),
        notes=tuple(notes),
    )


def _queries(
    sample: CorpusFile,
    recipe: TripletRecipe,
    source: str | None,
    anchors: int,
    without: Sequence[str],
) -> Any:
    """Return the held-out queries; refuse a sample that is too small."""
    if not anchors and without:
        raise EmptyPoolError(f"there is nothing to try: {without[0]}")
    found = None
    with suppress(EmptyPoolError):  # all records are of one family, or hardly any is there
        found = questions(sample.database, "test", recipe=recipe, source=source, is_all=True)
    queries = len(found.queries) if found else 0
    if found is None or anchors + queries < LEAST:
        raise EmptyPoolError(
            f"too few to tell: {anchors:,} anchors of train to learn from and {queries:,} of "
            f"other families to judge by; advise needs {LEAST}"
        )
    return found


def _advice(halving: Halving, *, given: Any, **facts: Any) -> Advice:
    """Compare the arms and recommend one."""
    from duckplets.advise.advice import Advice, ArmFound
    from duckplets.advise.halving import ARMS, IN_BATCH

    found, draws = list[ArmFound](), dict[str, Any]()
    for name in ARMS:
        batches, differences = halving.compared(name)
        if not batches:
            continue
        draws[name] = bootstrapped(100 * differences.mean(axis=0)[:, None], halving.judge.families)
        low, high = np.quantile(draws[name], [0.025, 0.975]).tolist()
        found.append(
            ArmFound(
                arm=name,
                batches=batches,
                ndcg=100 * float(np.mean(list(halving.results[name][batches].values()))),
                difference=100 * float(differences.mean()),
                low=low,
                high=high,
                by_seed=tuple((100 * differences.mean(axis=1)).tolist()),
            )
        )
    if not found:
        raise KeyboardInterrupt  # nothing is done that could be shown
    found.sort(key=lambda arm: (-arm.batches, -arm.difference))
    last = [arm for arm in found if arm.batches == found[0].batches]
    best = max(last, key=lambda arm: arm.difference)
    gain = best.low > 0 and min(best.by_seed) > 0
    recommended = best.arm if gain else IN_BATCH
    arm = ARMS[recommended]
    run = {"batch_size": halving.plans.batch, "no_duplicates": True, **arm.run}
    if given is not None:
        run["recipes"] = [given]
    told = [f"Recommended by duckplets advise: {recommended}."]
    if arm.is_dense:
        told.append("First, by your own model: duckplets embed CORPUS MODEL")
        told.append("and then: duckplets mine CORPUS --by default")
    elif recommended.endswith("BM25"):
        told.append("First: duckplets mine CORPUS")
    return Advice(
        arms=tuple(found),
        queries=len(halving.judge.families),
        families=len({*halving.judge.families}),
        recommended=recommended,
        gain=gain,
        sure=float((draws[recommended] > 0).mean()),
        run=run_file.brief(run, told),
        cut_short=halving.cut_short,
        work=halving.spent,
        **facts,
    )
