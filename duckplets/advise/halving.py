"""Train the arms on a sample by successive halving, and judge each by its held-out queries.

Plans: batches of an arm ─Probe→ vectors ─Judge→ nDCG@10 of every query ─compare→ who goes on
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.adapters.evaluation import Asked
from duckplets.advise.probe import DIMENSION, WORDS, Probe, Singles, Tokens, Words
from duckplets.advise.sample import mined
from duckplets.engine.work import Work
from duckplets.errors import EmptyPoolError
from duckplets.recipes.mined import DENSE, Negatives
from duckplets.recipes.recipes import TripletRecipe
from duckplets.runs.request import Options
from duckplets.vectors.dense import Dense

IN_BATCH = "in-batch"
SEEDS = (1, 2)
UNITS = 40_000_000  # tokens times numbers of a vector that a processor trains on in a second
MOST_BATCH, LEAST_BATCH = 256, 16

_STAGES = ((100, 3), (200, 2), (400, 0))  # batches, and how many arms go on beside in-batch
_LEAST = 10  # batches of the first stage
_AT, _TOGETHER = 10, 64  # ranks that count; queries ranked together
_UNCUT = -1000.0  # a margin that leaves nothing out

Results = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A way to draw: arguments of ``Corpus.sampler`` besides recipe, batches and seed."""

    negatives: Negatives | None = None
    consistent: tuple[str, int] | None = None

    @property
    def run(self) -> dict[str, Any]:
        """The arguments of a sampler."""
        if self.negatives is not None:
            return {"kind": "triplets", "negatives": self.negatives}
        return {"kind": "pairs"} | ({"consistent": self.consistent} if self.consistent else {})

    @property
    def texts(self) -> int:
        """Texts of a sample."""
        return 2 + (self.negatives.num or 0 if self.negatives else 0)

    @property
    def is_dense(self) -> bool:
        """Whether vectors rank its candidates."""
        return bool(self.consistent) or (self.negatives is not None and self.negatives.by == DENSE)


ARMS = {
    IN_BATCH: Arm(),
    "1 random": Arm(negatives=Negatives(1, by="random")),
    "1 BM25": Arm(negatives=Negatives(1, by="bm25")),
    "4 BM25": Arm(negatives=Negatives(4, by="bm25")),
    "1 dense": Arm(negatives=Negatives(1, by=DENSE, relative_margin=_UNCUT)),
    "4 dense": Arm(negatives=Negatives(4, by=DENSE, relative_margin=_UNCUT)),
    "1 dense, margin .05": Arm(negatives=Negatives(1, by=DENSE, relative_margin=0.05)),
    "in-batch, consistent": Arm(consistent=(DENSE, 20)),
}


class Judge:
    """Rank all documents for each query; equal texts and families count once, as in evaluators."""

    def __init__(self, asked: Asked, words: Words) -> None:
        self.families = list(asked.families.values())
        places = {name: place for place, name in enumerate(asked.documents)}
        groups = [places[asked.one_of.get(name, name)] for name in places]
        self._order = np.argsort(groups, kind="stable")
        ordered = np.array(groups)[self._order]
        self._first = np.flatnonzero(np.diff(ordered, prepend=-1))
        group_of = dict(zip(ordered[self._first].tolist(), range(len(self._first)), strict=True))
        pairs = [
            (row, group_of[groups[places[name]]], gain)
            for row, query in enumerate(asked.queries)
            for name, gain in asked.gains[query].items()
        ]
        rows, self._groups, self._gains = (np.array(each) for each in zip(*pairs, strict=True))
        self._starts = np.searchsorted(rows, np.arange(len(asked.queries) + 1))
        self._rows, self._best = rows, np.array([_ideal(of) for of in asked.gains.values()])
        self._queries = words.tokens(pa.array(asked.queries.values(), pa.string()))
        self._documents = words.tokens(pa.array(asked.documents.values(), pa.string()))
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
            high = min(low + _TOGETHER, len(queries))
            own = slice(*self._starts[[low, high]].tolist())
            ranks = _ranks(scores, self._rows[own] - low, self._groups[own])
            discounts = np.where(ranks < _AT, 1 / np.log2(ranks + 2), 0)
            gained[own] = discounts * self._gains[own]
        found: Results = np.bincount(self._rows, gained, len(queries)) / self._best
        return found


def _ranks(scores: Singles, rows: Any, groups: Any) -> Any:
    """Return how many documents come before each: those that score higher, or as high earlier."""
    own = scores[rows, groups][:, None]
    found = np.zeros(len(rows), np.int64)
    for low in range(0, len(rows), _TOGETHER):  # a query may have many answers
        part = slice(low, low + _TOGETHER)
        theirs = scores[rows[part]]
        earlier = np.arange(theirs.shape[1]) < groups[part, None]
        found[part] = ((theirs > own[part]) | ((theirs == own[part]) & earlier)).sum(axis=1)
    return found


def _ideal(gains: Mapping[str, float]) -> float:
    best = sorted(gains.values(), reverse=True)[:_AT]
    return float(np.array(best) @ (1 / np.log2(np.arange(len(best)) + 2)))


class Plans:
    """The batches of every arm, drawn from a sample as a run draws them, as places of texts."""

    def __init__(
        self, sample: Any, recipe: TripletRecipe, sources: list[str], words: Words
    ) -> None:
        self._sample, self._recipe, self._sources = sample, recipe, sources
        chunks = sample.database.table("advise/sample/texts")
        self.keys, texts = chunks["chunk_key"].to_numpy(), chunks["text"].combine_chunks()
        self.tokens = words.tokens(texts)
        self._texts = pc.dictionary_encode(texts).indices.to_numpy()
        self.batch = MOST_BATCH

    def fit(self, anchors: int) -> None:
        """Choose the size of batches: several of an epoch, each of different texts."""
        with self._opened(ARMS[IN_BATCH], 1, no_duplicates=False) as pairs:
            positives = self._places(pairs.planner.plan(0, min(anchors, 100_000)).chunks[1])
        answers = len(np.unique(self._texts[positives]))
        self.batch = min(MOST_BATCH, anchors // 4, answers // 6)
        if self.batch < LEAST_BATCH:
            raise EmptyPoolError(
                f"too few to tell: {answers:,} different answers of {anchors:,} anchors to train "
                f"on; batches of {LEAST_BATCH} need {6 * LEAST_BATCH}"
            )

    @cache  # noqa: B019 - it goes with the sample
    def of(self, name: str, seed: int, batches: int) -> Any:
        """Return the texts of an arm's samples: (texts of a sample, samples), as int32."""
        with self._opened(ARMS[name], seed, no_duplicates=True) as sampler:
            return self._places(sampler.planner.plan(0, batches * self.batch).chunks)

    def rank_by(self, probe: Probe) -> None:
        """Mine candidates by the vectors of a probe."""
        first = np.unique(self._texts, return_index=True)[1]
        vectors = probe.encode(self.tokens[first])
        table = {"chunk_key": self.keys[first], "vector": vectors}
        self._sample.add_vectors("probe", table, progress=False)
        mined(self._sample, self._recipe, self._sources, Dense("probe"))

    def _places(self, chunks: Any) -> Any:
        return np.searchsorted(self.keys, chunks).astype(np.int32)

    def _opened(self, arm: Arm, seed: int, *, no_duplicates: bool) -> Any:
        return self._sample.sampler(
            recipes=[replace(self._recipe, by=None)],
            batch_size=self.batch if no_duplicates else 1,
            no_duplicates=no_duplicates,
            seed=seed,
            options=Options(prefetch=0, prefixes=False),
            **arm.run,
        )


@dataclass
class Halving:
    """Arms in training: what each reached, by batches.

    Attributes:
        results: nDCG@10 of every query by arm, batches and seed.
        cut_short: Why it ended early, or nothing.
    """

    plans: Plans
    judge: Judge
    work: Work
    units: int
    deadline: float
    results: dict[str, dict[int, dict[int, Results]]] = field(default_factory=dict)
    cut_short: str = ""
    spent: int = 0

    def __post_init__(self) -> None:
        mean = int((self.plans.tokens < WORDS).sum()) / max(1, len(self.plans.tokens))
        self._unit = max(8.0, mean) * DIMENSION * self.plans.batch  # of one text of each sample
        self._probes: dict[tuple[str, int], tuple[Probe, int]] = {}
        widest = sorted((arm.texts for arm in ARMS.values()), reverse=True)
        counts = [len(ARMS), *(1 + kept for _, kept in _STAGES)]
        before, needed = 0, 0.0
        for (batches, _), arms in zip(_STAGES, counts, strict=False):
            texts = sum(widest[: arms - 1]) + ARMS[IN_BATCH].texts
            needed += len(SEEDS) * (
                texts * (batches - before) * self._unit + arms * self.judge.units
            )
            before = batches
        part = min(1.0, self.units / needed)
        self.stages = [max(_LEAST, round(batches * part)) for batches, _ in _STAGES]

    def run(self) -> None:
        """Train until the last stage ends, time is up, or Ctrl-C."""
        names, done = list(ARMS), 0
        try:
            for stage, (batches, (_, kept)) in enumerate(zip(self.stages, _STAGES, strict=True)):
                if stage == 0:  # its vectors rank the candidates of others
                    for until in self.stages:
                        self._train(IN_BATCH, SEEDS[0], until)
                    self.plans.rank_by(self._probes[IN_BATCH, SEEDS[0]][0])
                for name in names:
                    for seed in SEEDS:
                        self._train(name, seed, batches)
                        done += 1
                        self.work.tell(done, self._total())
                names = self._best(names, batches, kept)
        except KeyboardInterrupt:
            self.cut_short = "interrupted"
        except TimeoutError:
            self.cut_short = "cut short: its time was up"

    def compared(self, name: str) -> tuple[int, Results]:
        """Return the batches of an arm, and its differences from in-batch: (seeds, queries)."""
        ours, theirs = self.results.get(name, {}), self.results.get(IN_BATCH, {})
        whole = [n for n in ours if len(ours[n]) == len(theirs.get(n, ())) == len(SEEDS)]
        if not whole:
            return 0, np.zeros((len(SEEDS), 0))
        last = max(whole)
        return last, np.array([ours[last][seed] - theirs[last][seed] for seed in SEEDS])

    def _best(self, names: Sequence[str], batches: int, kept: int) -> list[str]:
        """Return in-batch and the arms that go on."""
        means = {name: np.mean(list(self.results[name][batches].values())) for name in names}
        others = sorted((n for n in names if n != IN_BATCH), key=lambda n: -means[n])
        return [IN_BATCH, *others[:kept]]

    def _total(self) -> int:
        return len(SEEDS) * sum(n for n in (len(ARMS), *(1 + kept for _, kept in _STAGES[:-1])))

    def _train(self, name: str, seed: int, until: int) -> None:
        """Train an arm with a seed up to so many batches, and judge it."""
        if seed in self.results.get(name, {}).get(until, {}):
            return
        texts = self.plans.of(name, seed, self.stages[-1])
        probe, begun = self._probes.get((name, seed)) or (Probe(seed), 0)
        for number in range(begun, until):
            if time.monotonic() > self.deadline:
                raise TimeoutError
            own = texts[:, number * self.plans.batch : (number + 1) * self.plans.batch]
            tokens: Tokens = self.plans.tokens[own.reshape(-1)]
            probe.learn(tokens, self.plans.batch)
            self.spent += int((tokens < WORDS).sum()) * DIMENSION
        self._probes[name, seed] = probe, until
        self.results.setdefault(name, {}).setdefault(until, {})[seed] = self.judge.ndcg(probe)
        self.spent += self.judge.units
