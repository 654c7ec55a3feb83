"""Score mined candidates again by a function over pairs of texts, such as a cross-encoder.

    candidates of a mining, to a depth ─blocks of anchors→ (anchor, document), (anchor, positive)
          pairs by length ─Calls→ scores ─best first→ a mining under another name

A scorer like any other: what it has done is kept, resumed, drawn, exported and explained as mined
candidates are. The guards acted when the candidates were mined. A block takes some seconds, for
this is what a kill may cost; a pair whose call fails is left out and counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Floats, IntegerLists, Integers
from duckplets.base.progress import Progress
from duckplets.base.sanitize import counted, shown
from duckplets.base.settings import Bounds, Name, check
from duckplets.db.writes import CorpusFile
from duckplets.errors import RecipeError
from duckplets.mining.bm25 import TopDocuments, top_of
from duckplets.mining.guards import REASONS, Guards
from duckplets.mining.mine import Job, mine
from duckplets.mining.report import MiningReport
from duckplets.mining.store import Minings
from duckplets.recipes.mined import BM25
from duckplets.recipes.recipes import TripletRecipe
from duckplets.sources.converters.registry import imported
from duckplets.vectors.encoders import (
    Array,
    BatchSize,
    Calls,
    Encoder,
    Retries,
    Share,
    array_of,
    name_of,
    next_size,
)

log = logging.getLogger("duckplets")

_MOST_PAIRS = 1 << 16  # of a block
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
    ``dp.mined(name)`` says which. Their number of pairs is logged first. Stopped or killed, it
    goes on where it was when called again. The corpus is only read.

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
    return mine(corpus, recipe, scorer=ranker, depth=depth, **asked)


class PairCalls(Calls):
    """Calls that return a score for each pair."""

    made, of, wanted, error = "score", "pair", "an array (pairs,)", RecipeError

    def _array(self, returned: Any) -> Array:
        found = array_of(returned, self.wanted)
        return found[:, None] if found.ndim == 1 else found


@dataclass(kw_only=True)
class _Rescored:
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
        if self.name in (BM25, self.scorer):
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
                f"are made by embed, and rank candidates by mine(scorer=dp.dense(…))"
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
        return {"of": self._files(job)[1], "function": self.made_by}

    def _files(self, job: Job) -> tuple[list[str], int]:
        """Return the files of the candidates that are scored, and their generation."""
        minings = Minings(job.database)
        where: dict[str, Any] = {"source": job.source, "split": job.split, "version": job.version}
        found = minings.current(job.recipe, scorer=self.scorer, **where)
        return found.files(minings.folder), found.key

    def search(
        self, job: Job, guards: Guards, start: int, depth: int
    ) -> Iterator[tuple[slice, TopDocuments]]:
        """Yield the candidates of every block of anchors, best first, from one on."""
        files, _ = self._files(job)
        asked = _Asked(job, guards, files, depth)
        size = max(1, self.batch_size // (depth + 1))
        left = len(guards.anchors) if self.limit is None else self.limit - self.done
        stop = min(len(guards.anchors), start + left)
        pairs = asked.most(slice(start, stop)) if stop > start else 0
        log.log(
            logging.WARNING if pairs > _MANY_PAIRS else logging.INFO,
            "recipe %r, source %r, split %r: %s to score for %s, at most",
            *(job.recipe.name, job.source, job.split),
            *(counted(pairs, "pair"), counted(stop - start, "anchor")),
        )
        while start < stop:
            block, begun = slice(start, min(start + size, stop)), time.monotonic()
            found = self._scored(asked, block, depth)
            self.done += block.stop - start
            yield block, found
            done, seconds = block.stop - start, time.monotonic() - begun
            size = next_size(size, done, seconds, _MOST_PAIRS // (depth + 1))
            start = block.stop

    def _scored(self, asked: _Asked, block: slice, depth: int) -> TopDocuments:
        """Return the candidates of a block, best first."""
        count = block.stop - block.start
        (owners, documents), positives = asked.candidates(block), asked.positives(block)
        both = [owners, positives.owners()], [documents, positives.values]
        scores = self._call(asked.pairs(block, *map(np.concatenate, both)))
        own, theirs = scores[: len(owners)], scores[len(owners) :]
        lowest = np.full(count, np.inf)
        np.fmin.at(lowest, positives.owners(), theirs)
        known = np.isfinite(own)
        order = np.lexsort((documents, -own, owners))
        order = order[known[order]]
        return top_of(
            (owners[order], documents[order], own[order]),
            np.where(np.isfinite(lowest), lowest, np.nan),
            depth,
            matched=np.bincount(owners, minlength=count),
            guarded=np.zeros((len(REASONS), count), np.int64),
            failed=int(np.count_nonzero(~known)),
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


class _Asked:
    """The pairs of a mining that are to be scored."""

    def __init__(self, job: Job, guards: Guards, files: list[str], depth: int) -> None:
        self._database, self._guards = job.database, guards
        self._where: dict[str, Any] = {"files": files, "depth": depth}

    def most(self, block: slice) -> int:
        """Return how many pairs some anchors have, at most."""
        ((every,),) = self._database.run("vectors/rescore/count", self._where)
        count = (block.stop - block.start) * int(self._where["depth"])
        return int(min(every, count) + self.positives(block).starts[-1])

    def positives(self, block: slice) -> IntegerLists:
        """Return the numbers of the positives of each anchor of a block."""
        guards = self._guards
        return guards.positives.take(guards.sections.records[guards.anchors[block]])

    def candidates(self, block: slice) -> tuple[Integers, Integers]:
        """Return the candidates of a block: places of anchors in it, and numbers of documents."""
        sections = self._guards.sections
        with self._database.registered(asked=_numbered(sections.keys[self._guards.anchors[block]])):
            found = self._database.table("vectors/rescore/candidates", self._where)
        owners, keys = (column.to_numpy() for column in found.columns)
        return owners, sections.numbers(keys)

    def pairs(self, block: slice, owners: Integers, documents: Integers) -> list[tuple[str, str]]:
        """Return the texts of pairs of an anchor's place in a block and a document's number."""
        anchors = self._guards.anchors[block][owners]
        numbers, at = np.unique(np.concatenate([anchors, documents]), return_inverse=True)
        with self._database.registered(asked=_numbered(self._guards.sections.keys[numbers])):
            texts = self._database.table("vectors/rescore/texts")["text"].to_pylist()
        places = at.tolist()
        return [
            (texts[one], texts[other])
            for one, other in zip(places[: len(owners)], places[len(owners) :], strict=True)
        ]


def _numbered(keys: Integers) -> pa.Table:
    return pa.table({"number": np.arange(len(keys)), "section_key": keys})
