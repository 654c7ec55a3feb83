"""Train the arms on a sample by successive halving, and measure each by held-out queries.

Plans: batches of an arm ─Probe→ vectors ─Judge→ nDCG@10 of every query ─best→ the next stage
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.adapters.evaluation import Questions
from duckplets.advise.probe import DIMENSION, WORDS, Probe, Words
from duckplets.advise.sample import mined
from duckplets.engine.work import Work
from duckplets.errors import EmptyPoolError
from duckplets.recipes.mined import DENSE, Negatives
from duckplets.runs.request import Options
from duckplets.vectors.dense import Dense

IN_BATCH, SEEDS, INTERRUPTED = "in-batch", (1, 2), "interrupted"
UNITS = 200_000_000  # tokens times dimension that a processor trains in a second
MOST_BATCH, LEAST_BATCH = 256, 16

_STAGES = ((100, 8), (200, 5), (400, 4))  # batches, and the arms that train up to there
_LEAST, _TEXTS = 10, 4  # least batches of a stage; texts of a sample, about
_AT, _TOGETHER = 10, 64  # counted ranks; queries ranked together
_UNCUT = -1000.0  # a margin that excludes no candidate
_ANSWERS = 10  # of the sample, for each sample of a batch: with four negatives a batch has half

# Arguments of ``Corpus.sampler`` by arm.
ARMS: Mapping[str, Mapping[str, Any]] = {
    IN_BATCH: {"kind": "pairs"},
    "1 random": {"negatives": Negatives(1, by="random")},
    "1 BM25": {"negatives": Negatives(1, by="bm25")},
    "4 BM25": {"negatives": Negatives(4, by="bm25")},
    "1 dense": {"negatives": Negatives(1, by=DENSE, relative_margin=_UNCUT)},
    "4 dense": {"negatives": Negatives(4, by=DENSE, relative_margin=_UNCUT)},
    "1 dense, margin .05": {"negatives": Negatives(1, by=DENSE, relative_margin=0.05)},
    "in-batch, consistent": {"kind": "pairs", "consistent": (DENSE, 20)},
}

Results = npt.NDArray[np.float64]


class Judge:
    """Rank all documents for each query; equal texts and families count once, as in evaluators."""

    def __init__(self, found: Questions, words: Words) -> None:
        self.families = list(found.families.values())
        places = {name: place for place, name in enumerate(found.documents)}
        heads = np.array([places[found.one_of.get(name, name)] for name in places])
        self._order = np.argsort(heads, kind="stable")
        self._first = np.flatnonzero(np.diff(heads[self._order], prepend=-1))
        group_of = np.searchsorted(heads[self._order][self._first], heads)
        pairs = [
            (row, group_of[places[name]], gain)
            for row, query in enumerate(found.queries)
            for name, gain in found.gains[query].items()
        ]
        self._rows, self._groups, self._gains = map(np.array, zip(*pairs, strict=True))
        self._best = np.array([_ideal(gains) for gains in found.gains.values()])
        self._queries = words.tokens(pa.array(found.queries.values(), pa.string()))
        self._documents = words.tokens(pa.array(found.documents.values(), pa.string()))
        self.units = int((self._documents < WORDS).sum()) * DIMENSION

    def ndcg(self, probe: Probe) -> Results:
        """Return the nDCG@10 of each query."""
        queries = probe.encode(self._queries)
        documents = probe.encode(self._documents)[self._order].T.copy()
        gained = np.zeros(len(self._rows))
        for low in range(0, len(queries), _TOGETHER):
            scores = queries[low : low + _TOGETHER] @ documents
            if len(self._first) < scores.shape[1]:
                scores = np.maximum.reduceat(scores, self._first, axis=1)
            start, stop = np.searchsorted(self._rows, [low, low + _TOGETHER]).tolist()
            for part in (
                slice(at, min(at + _TOGETHER, stop)) for at in range(start, stop, _TOGETHER)
            ):
                theirs, groups = scores[self._rows[part] - low], self._groups[part, None]
                own = np.take_along_axis(theirs, groups, axis=1)
                earlier = (theirs == own) & (np.arange(theirs.shape[1]) < groups)
                ranks = ((theirs > own) | earlier).sum(axis=1)
                gained[part] = np.where(ranks < _AT, self._gains[part] / np.log2(ranks + 2), 0)
        found: Results = np.bincount(self._rows, gained, len(queries)) / self._best
        return found


def _ideal(gains: Mapping[str, float]) -> float:
    best = sorted(gains.values(), reverse=True)[:_AT]
    return float(np.array(best) @ (1 / np.log2(np.arange(len(best)) + 2)))


class Plans:
    """The batches of every arm, drawn by runs of the sample, as places of texts."""

    def __init__(self, sample: Any, recipe: Any, sources: list[str], words: Words) -> None:
        self._sample, self._recipe, self._sources = sample, recipe, sources
        chunks = sample.database.table("advise/sample/texts")
        self._keys, texts = chunks["chunk_key"].to_numpy(), chunks["text"].combine_chunks()
        self.tokens = words.tokens(texts)
        self._texts = pc.dictionary_encode(texts).indices.to_numpy()
        self.batch = MOST_BATCH

    def fit(self, anchors: int) -> None:
        """Choose the size of batches: several batches an epoch, each with distinct texts."""
        with self._opened(ARMS[IN_BATCH], 1, batch_size=1) as pairs:
            positives = self._places(pairs.planner.plan(0, anchors).chunks[1])
        answers = len(np.unique(self._texts[positives]))
        self.batch = min(MOST_BATCH, anchors // 4, answers // _ANSWERS)
        if self.batch < LEAST_BATCH:
            raise EmptyPoolError(
                f"too few to tell: {answers:,} distinct answers of {anchors:,} anchors; advise "
                f"needs {_ANSWERS * LEAST_BATCH} and {4 * LEAST_BATCH}"
            )

    @cache  # noqa: B019 - it lives as long as the sample
    def of(self, name: str, seed: int, batches: int) -> Any:
        """Return the texts of an arm's samples: (texts of a sample, samples)."""
        settings = {"batch_size": self.batch, "no_duplicates": True}
        with self._opened(ARMS[name], seed, **settings) as sampler:
            return self._places(sampler.planner.plan(0, batches * self.batch).chunks)

    def rank_by(self, probe: Probe) -> None:
        """Mine candidates by the vectors of a probe."""
        first = np.unique(self._texts, return_index=True)[1]
        vectors = probe.encode(self.tokens[first])
        table = {"chunk_key": self._keys[first], "vector": vectors}
        self._sample.add_vectors("probe", table, progress=False)
        mined(self._sample, self._recipe, self._sources, Dense("probe"))

    def _places(self, chunks: Any) -> Any:
        return np.searchsorted(self._keys, chunks).astype(np.int32)

    def _opened(self, arm: Mapping[str, Any], seed: int, **settings: Any) -> Any:
        options = Options(prefetch=0, prefixes=False)
        return self._sample.sampler(
            **settings, **arm, recipes=[self._recipe], seed=seed, options=options
        )


class Halving:
    """Arms in training, and their results.

    Attributes:
        results: nDCG@10 of every query by arm, batches and seed.
        spent: Trained and encoded tokens, times the dimension of a vector.
        cut_short: The reason for an early end, or nothing.
    """

    def __init__(self, plans: Plans, judge: Judge, units: float) -> None:
        self.plans, self.judge = plans, judge
        self.results: dict[str, dict[int, dict[int, Results]]] = {name: {} for name in ARMS}
        self.spent, self.cut_short = 0, ""
        self._probes: dict[tuple[str, int], tuple[Probe, int]] = {}
        tokens = max(8, int((plans.tokens < WORDS).sum()) // len(plans.tokens))
        before, needed = 0, 0
        for batches, arms in _STAGES:
            texts = (batches - before) * plans.batch * _TEXTS
            needed += len(SEEDS) * arms * (texts * tokens * DIMENSION + judge.units)
            before = batches
        part = min(1.0, units / needed)
        self._stages = [(max(_LEAST, round(n * part)), arms) for n, arms in _STAGES]

    def run(self, work: Work, deadline: float) -> None:
        """Train until the last stage ends, processor time passes the deadline, or Ctrl-C."""
        names, done, total = list(ARMS), 0, len(SEEDS) * sum(arms for _, arms in _STAGES)
        try:
            for batches, arms in self._stages:
                names = names[:arms]
                for name in names:
                    for seed in SEEDS:
                        self._train(name, seed, batches, deadline)
                        done += 1
                        work.tell(done, total)
                    if name == IN_BATCH and not self.results["1 random"]:
                        self._rank(deadline)
                ndcg = {n: np.mean([*self.results[n][batches].values()]) for n in names}
                names.sort(key=lambda name: (name != IN_BATCH, -ndcg[name]))
        except KeyboardInterrupt:
            self.cut_short = INTERRUPTED
        except TimeoutError:
            self.cut_short = "cut short by the clock"

    def compared(self, name: str) -> tuple[int, Results]:
        """Return the batches of an arm, and its differences from in-batch: (seeds, queries)."""
        own, base = self.results[name], self.results[IN_BATCH]
        whole = [n for n in own if len(own[n]) == len(base.get(n, ())) == len(SEEDS)]
        last = max(whole, default=0)
        return last, np.array([own[last][seed] - base[last][seed] for seed in SEEDS if last])

    def _rank(self, deadline: float) -> None:
        """Train the first seed of in-batch to its end: its vectors rank dense candidates."""
        for batches, _ in self._stages:
            self._train(IN_BATCH, SEEDS[0], batches, deadline)
        self.plans.rank_by(self._probes[IN_BATCH, SEEDS[0]][0])

    def _train(self, name: str, seed: int, until: int, deadline: float) -> None:
        """Train an arm with a seed up to ``until`` batches, and measure it."""
        reached = self.results[name].setdefault(until, {})
        if seed in reached:
            return
        texts, size = self.plans.of(name, seed, self._stages[-1][0]), self.plans.batch
        probe, start = self._probes.get((name, seed)) or (Probe(seed), 0)
        for number in range(start, until):
            if time.process_time() > deadline:
                raise TimeoutError
            tokens = self.plans.tokens[texts[:, number * size : (number + 1) * size].reshape(-1)]
            probe.learn(tokens, size)
            self.spent += int((tokens < WORDS).sum()) * DIMENSION
        self._probes[name, seed] = probe, until
        reached[seed] = self.judge.ndcg(probe)
        self.spent += self.judge.units
