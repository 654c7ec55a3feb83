"""Score mined candidates again by a function over pairs of texts, such as a cross-encoder."""

# A block takes some seconds, because a kill may cost one block. The guards acted during mining.

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Floats, Integers
from duckplets.base.progress import Progress
from duckplets.base.sanitize import counted, shown
from duckplets.base.settings import Bounds, Name, check
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.errors import RecipeError
from duckplets.mining.blocks import REASONS, TopDocuments, top_of
from duckplets.mining.guards import Guards
from duckplets.mining.job import Job, Scorer, Searched, own_name
from duckplets.mining.mine import mine
from duckplets.mining.report import MiningReport
from duckplets.mining.store import Mining, Minings, folder_of
from duckplets.recipes.mined import BM25
from duckplets.recipes.recipes import TripletRecipe
from duckplets.sources.converters.registry import imported
from duckplets.vectors.encoders import BatchSize, Calls, Encoder, Retries, Share, name_of

log = logging.getLogger("duckplets")

_MOST_PAIRS = 1 << 16  # of a block
_SECONDS, _GROWTH = 10.0, 4  # of a block; its largest growth over the block before
_MANY_PAIRS = 10_000  # the number from which a warning is logged


def rescore(
    corpus: CorpusFile,
    /,
    function: Any,
    name: str,
    *,
    recipe: str | TripletRecipe | Sequence[str | TripletRecipe] | None = None,
    scorer: str = BM25,
    depth: int = 16,
    source: str | None = None,
    split: str | None = None,
    limit: int | None = None,
    batch_size: int = 256,
    retries: int = 2,
    max_failures: float = 0.05,
    made_by: str | None = None,
    progress: Progress | bool | None = None,
) -> MiningReport:
    """Score mined candidates and positives again, by a function over pairs of texts.

    The result is candidates of another scorer. Later samplers draw from them, and
    ``dp.Negatives(by=name)`` chooses them. The number of pairs is logged first. After a stop or a
    kill, the next call continues. The corpus is only read.

    Args:
        function: A function of a list of pairs (anchor, document), texts of whole sections, that
            returns a score for each, as an array, a tensor or a list; an object with such a
            ``predict``, for example a ``CrossEncoder``; or ``module:function``.
        name: Name of the new scorer.
        recipe: One or more recipes, or their names. Default: all recipes that draw candidates.
        scorer: Name of the scorer whose candidates are scored again.
        depth: Number of best candidates per anchor, 1 to 2,048.
        source: Score this source only. Default: all.
        split: Score this split only. Default: every split with anchors.
        limit: Largest number of anchors in this call. The next call continues after them. Runs
            draw from the result when all anchors are done.
        batch_size: Largest number of pairs in a call. They have about the same length.
        retries: Number of repetitions of a failed call. Then its pairs are halved until the
            failing pairs are alone. Those are skipped and counted as ``failed``.
        max_failures: Stop when more than this share of the last 200 pairs fails.
        made_by: Identity of the function, instead of its qualified name. If it changes, all
            pairs are scored again.
        progress: As for ``mine``.

    Raises:
        RecipeError: An argument is wrong, or too many pairs fail. Finished blocks are stored.
        StateMismatchError: There are no such candidates, or they are stale.
    """
    ranker = _Rescored(
        function=function,
        name=name,
        scorer=scorer,
        limit=limit,
        batch_size=batch_size,
        retries=retries,
        max_failures=max_failures,
        made_by=made_by,
    )
    where: dict[str, Any] = {"source": source, "split": split, "progress": progress}
    return mine(corpus, recipe, by=ranker, depth=depth, **where)


class PairCalls(Calls):
    """Call a function that returns a score for each pair."""

    result, item, wanted, error = "score", "pair", "an array (pairs,)", RecipeError


@dataclass(kw_only=True)
class _Rescored(Scorer):
    """Rank the candidates of another scorer by a function."""

    function: Any
    name: Annotated[str, Name(64)]
    scorer: Annotated[str, Name(64)]
    limit: Annotated[int, Bounds(1)] | None
    batch_size: BatchSize
    retries: Retries
    max_failures: Share
    made_by: Annotated[str, Name()] | None
    calls: PairCalls = field(init=False)
    done: int = field(default=0, init=False)  # anchors of this call

    def __post_init__(self) -> None:
        check(self, RecipeError, "rescore")
        if own_name(self.name, "rescore: name") == self.scorer:
            raise RecipeError(
                f"rescore: name={self.name!r} is the scorer of the candidates; give another name"
            )
        function = self.function
        if isinstance(function, str):
            function = imported(function, "function", "batch of pairs", RecipeError)
        call = getattr(function, "predict", function)
        if not callable(call) or (call is function and hasattr(function, "encode")):
            raise RecipeError(
                f"rescore: function={shown(repr(function), 80)}: give a function of a list of "
                f"pairs of texts, or an object with predict(). For an object with encode() call "
                f"embed, then mine(by=dp.Dense(…))"
            )
        owner = function if call is function else type(function)
        self.made_by = self.made_by or name_of(owner, RecipeError)
        encoder = Encoder(call=lambda pairs, _: call(pairs), made_by={"function": self.made_by})
        options: dict[str, Any] = {"retries": self.retries, "max_failures": self.max_failures}
        self.calls = PairCalls(encoder, dtype="float64", dimension=1, **options)

    def settings(self, job: Job) -> dict[str, Any]:
        """Return the scored mining and the function, which determine its candidates."""
        return {"of": self._mining(job).key, "function": self.made_by}

    def _mining(self, job: Job) -> Mining:
        """Return the mining whose candidates are scored."""
        where: dict[str, Any] = {"source": job.source, "split": job.split, "version": job.version}
        return Minings(job.database).current(job.recipe, scorer=self.scorer, **where)

    def search(self, job: Job, guards: Guards, start: int) -> Searched:
        """Yield blocks of anchors from number ``start``, with their candidates, best first."""
        mining, depth = self._mining(job), job.depth
        where = {"files": mining.files(folder_of(job.database)), "depth": depth}
        size = max(1, self.batch_size // (depth + 1))
        most = len(guards.anchors) if self.limit is None else self.limit - self.done
        stop = max(start, min(len(guards.anchors), start + most))
        pairs = min(mining.candidates, (stop - start) * depth)
        pairs += len(guards.positives_of(slice(start, stop)).values)
        log.log(
            logging.WARNING if pairs > _MANY_PAIRS else logging.INFO,
            "recipe %r, source %r, split %r: %s to score for %s, at most",
            *(job.recipe.name, job.source, job.split),
            *(counted(pairs, "pair"), counted(stop - start, "anchor")),
        )
        while start < stop:
            block, begun = slice(start, min(start + size, stop)), time.monotonic()
            yield block, self._scored(job.database, guards, block, where)
            done, seconds = block.stop - start, max(time.monotonic() - begun, 1e-3)
            self.done += done
            most = min(_MOST_PAIRS // (depth + 1), size * _GROWTH)
            size = max(1, min(most, int(done / seconds * _SECONDS)))
            start = block.stop

    def _scored(
        self, database: Database, guards: Guards, block: slice, where: dict[str, Any]
    ) -> TopDocuments:
        """Return the candidates of a block, best first."""
        positives = guards.positives_of(block)
        with database.registered(wanted=_numbered(guards.keys_of(block))):
            rows = database.table("vectors/rescore/candidates", where)
        owners, keys = (column.to_numpy() for column in rows.columns)
        documents = guards.sections.numbers(keys)
        both = np.concatenate([owners, positives.owners()])
        numbers = np.concatenate([documents, positives.values])
        scores = self._call(_pairs(database, guards, guards.anchors[block][both], numbers))
        own, of_positives = scores[: len(owners)], scores[len(owners) :]
        known = np.isfinite(own)
        order = np.lexsort((documents, -own, owners))
        order = order[known[order]]
        failed = int(np.count_nonzero(~known))
        return top_of(
            (owners[order], documents[order], own[order]),
            (positives, np.where(np.isfinite(of_positives), of_positives, np.nan)),
            where["depth"],
            matched=len(order),
            guarded=np.zeros(len(REASONS), np.int64),
            others={"failed": failed} if failed else {},
        )

    def _call(self, pairs: list[tuple[str, str]]) -> Floats:
        """Return the score of each pair; NaN for a failed pair."""
        scores = np.full(len(pairs), np.nan)
        lengths = np.array([len(anchor) + len(document) for anchor, document in pairs], np.int64)
        order = np.argsort(-lengths, kind="stable")
        for low in range(0, len(order), self.batch_size):
            batch = order[low : low + self.batch_size]
            done = self.calls.embed([pairs[at] for at in batch.tolist()], None)
            scores[batch[done.rows]] = done.vectors[:, 0]
            if self.calls.is_enough:
                raise self.calls.stopped(
                    "Finished anchors are stored; repair the function and call rescore again"
                )
        return scores


def _pairs(
    database: Database, guards: Guards, anchors: Integers, documents: Integers
) -> list[tuple[str, str]]:
    """Return the texts of pairs of section numbers."""
    numbers, at = np.unique(np.concatenate([anchors, documents]), return_inverse=True)
    with database.registered(wanted=_numbered(guards.sections.keys[numbers])):
        texts = database.table("vectors/rescore/texts")["text"].to_pylist()
    both = [texts[place] for place in at.tolist()]
    return [*zip(both[: len(anchors)], both[len(anchors) :], strict=True)]


def _numbered(keys: Integers) -> pa.Table:
    return pa.table({"number": np.arange(len(keys)), "section_key": keys})
