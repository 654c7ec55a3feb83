"""Score mined candidates again by a function over pairs of texts, such as a cross-encoder."""

# A block takes some seconds, since a kill may cost one. The guards acted when candidates were
# mined.

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
from duckplets.vectors.encoders import (
    BatchSize,
    Calls,
    Encoder,
    Retries,
    Share,
    name_of,
)

log = logging.getLogger("duckplets")

_MOST_PAIRS = 1 << 16  # of a block
_SECONDS, _GROWTH = 10.0, 4  # of a block; how many times as large as the one before, at most
_MANY_PAIRS = 10_000  # from which their number is a warning


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

    The result is candidates of another scorer: samplers draw them from then on, and
    ``dp.Negatives(by=name)`` chooses them. Their number of pairs is logged first. A call that was
    stopped or killed continues where it was when called again. The corpus is only read.

    Args:
        function: A function of a list of pairs (anchor, document), texts of whole sections, that
            returns a score for each, as an array, a tensor or a list; an object with such a
            ``predict``, as sentence-transformers' ``CrossEncoder``; or ``module:function``.
        name: What the new candidates are called.
        recipe: A recipe or several, or names of them; by default all that have candidates drawn.
        scorer: Whose candidates are scored again.
        depth: How many of each anchor, the best, 1 to 2,048.
        source: For this source only; by default for all.
        split: For this split only; by default for all that have anchors.
        limit: Anchors of this call, at most; the next call goes on after them, and nothing
            draws from the result before all are done.
        batch_size: Pairs of a call, at most. They are of about one length.
        retries: How often a call that fails is made again. Then it is halved, until the pairs
            that fail are alone; these are left out, counted as ``failed``.
        max_failures: When more than this share of the last 200 pairs fail, it stops.
        made_by: What the result is tied to in the place of the function's qualified name: where
            this has changed, all is scored anew.
        progress: As for ``mine``.

    Raises:
        RecipeError: An argument is wrong, or too many pairs fail; what was done is kept.
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
    asked: dict[str, Any] = {"source": source, "split": split, "progress": progress}
    return mine(corpus, recipe, by=ranker, depth=depth, **asked)


class PairCalls(Calls):
    """Calls that return a score for each pair."""

    made, of, wanted, error = "score", "pair", "an array (pairs,)", RecipeError


@dataclass(kw_only=True)
class _Rescored(Scorer):
    """A scorer that ranks another one's candidates by a function."""

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
                f"rescore: name={self.name!r} is what the candidates have already; give another"
            )
        function = self.function
        if isinstance(function, str):
            function = imported(function, "function", "batch of pairs", RecipeError)
        call, named = getattr(function, "predict", function), function
        if not callable(call) or (call is function and hasattr(function, "encode")):
            raise RecipeError(
                f"rescore: function={shown(repr(function), 80)}: give a function of a list of "
                f"pairs of texts, or an object with predict(); vectors of an object with encode() "
                f"are made by embed, and rank candidates by mine(by=dp.Dense(…))"
            )
        if call is not function:
            named = type(function)
        of = self.made_by or name_of(named, RecipeError)
        encoder = Encoder(call=lambda pairs, _: call(pairs), made_by={"function": of})
        options: dict[str, Any] = {"retries": self.retries, "max_failures": self.max_failures}
        self.calls = PairCalls(encoder, dtype="float64", dimension=1, **options)
        self.made_by = of

    def settings(self, job: Job) -> dict[str, Any]:
        """Return what its candidates follow from."""
        return {"of": self._mining(job).key, "function": self.made_by}

    def _mining(self, job: Job) -> Mining:
        """Return whose candidates are scored."""
        where: dict[str, Any] = {"source": job.source, "split": job.split, "version": job.version}
        return Minings(job.database).current(job.recipe, scorer=self.scorer, **where)

    def search(self, job: Job, guards: Guards, start: int) -> Searched:
        """Yield the candidates of every block of anchors, best first, from one on."""
        mining, depth = self._mining(job), job.depth
        where = {"files": mining.files(folder_of(job.database)), "depth": depth}
        size = max(1, self.batch_size // (depth + 1))
        left = len(guards.anchors) if self.limit is None else self.limit - self.done
        stop = max(start, min(len(guards.anchors), start + left))
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
        with database.registered(asked=_numbered(guards.keys_of(block))):
            rows = database.table("vectors/rescore/candidates", where)
        owners, keys = (column.to_numpy() for column in rows.columns)
        documents = guards.sections.numbers(keys)
        both = np.concatenate([owners, positives.owners()])
        numbers = np.concatenate([documents, positives.values])
        scores = self._call(_pairs(database, guards, guards.anchors[block][both], numbers))
        own, theirs = scores[: len(owners)], scores[len(owners) :]
        known = np.isfinite(own)
        order = np.lexsort((documents, -own, owners))
        order = order[known[order]]
        failed = int(np.count_nonzero(~known))
        return top_of(
            (owners[order], documents[order], own[order]),
            (positives, np.where(np.isfinite(theirs), theirs, np.nan)),
            where["depth"],
            matched=len(order),
            guarded=np.zeros(len(REASONS), np.int64),
            others={"failed": failed} if failed else {},
        )

    def _call(self, pairs: list[tuple[str, str]]) -> Floats:
        """Return the score of each pair; NaN where the call fails."""
        scores = np.full(len(pairs), np.nan)
        lengths = np.array([len(anchor) + len(document) for anchor, document in pairs], np.int64)
        order = np.argsort(-lengths, kind="stable")
        for low in range(0, len(order), self.batch_size):
            batch = order[low : low + self.batch_size]
            done = self.calls.embed([pairs[at] for at in batch.tolist()], None)
            scores[batch[done.rows]] = done.vectors[:, 0]
            if self.calls.is_enough:
                raise self.calls.stopped(
                    "Anchors that were done are kept; mend the function and call rescore again"
                )
        return scores


def _pairs(
    database: Database, guards: Guards, anchors: Integers, documents: Integers
) -> list[tuple[str, str]]:
    """Return the texts of pairs of sections, given by number."""
    numbers, at = np.unique(np.concatenate([anchors, documents]), return_inverse=True)
    with database.registered(asked=_numbered(guards.sections.keys[numbers])):
        texts = database.table("vectors/rescore/texts")["text"].to_pylist()
    both = [texts[place] for place in at.tolist()]
    return [*zip(both[: len(anchors)], both[len(anchors) :], strict=True)]


def _numbered(keys: Integers) -> pa.Table:
    return pa.table({"number": np.arange(len(keys)), "section_key": keys})
