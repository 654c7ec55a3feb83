"""Shares of tokens: equal to the oracle, within the bound at every prefix, resumed anywhere."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from dealing import dealt, stretch
from effort import often
from token_oracle import drawn

from duckplets.errors import StateMismatchError
from duckplets.order import by_tokens
from duckplets.order.apportion import Apportionment
from duckplets.order.by_tokens import ByTokens, Frontier
from duckplets.order.permute import ranks_at
from duckplets.order.tapes import SourceTape, StreamTape

BOUND = 1.7  # longest samples


class Source:
    """Samples whose tokens differ from epoch to epoch, and come again after three."""

    def __init__(self, draw, most, scale=None):
        self.size, size = (int(draw.integers(1, most)),) * 2
        scale = 10 ** draw.uniform(0, 4) if scale is None else scale
        tokens = np.rint(scale * draw.lognormal(0, 1, 3 * size)).astype(np.int64)
        if draw.random() < 0.3:
            tokens[draw.random(3 * size) < 0.4] = 0
        tokens[0] += 1
        self.tokens, self.key = tokens, int(draw.integers(1 << 40))

    def at(self, index):
        items, epochs = ranks_at(self.key, self.size, index)
        return self.tokens[epochs % 3 * self.size + items]

    def upto(self, epochs):
        whole, rest = divmod(epochs, 3)
        return whole * int(self.tokens.sum()) + int(self.tokens[: rest * self.size].sum())

    def length(self, index):
        return int(self.at(np.array([index]))[0])


def made(sources, shares, edges=(0,), counts=None):
    """Deal samples of sources afresh: nothing is known of what was asked before."""
    tapes = {
        i: StreamTape(of.size, lambda index, of=of: of.at(index)[None], of.upto)
        for i, of in enumerate(sources)
    }
    counts = counts or [0] * len(sources)
    tokens = [tapes[i].upto(count) for i, count in enumerate(counts)]
    return ByTokens(shares, edges, tapes, lambda: Frontier(0, counts, tokens))


def weights_of(draw, size):
    weights = [int(w) for w in draw.lognormal(0, 2, size) * draw.choice([1, 100, 1e9])]
    weights[int(draw.integers(size))] += 1
    return weights


def off(leaves, tokens, shares):
    """Return how far each leaf was off its share at the worst prefix."""
    whole, shares = tokens.cumsum(), np.array(shares, float) / sum(shares)
    return max(
        np.abs(np.where(leaves == i, tokens, 0).cumsum() - whole * share).max()
        for i, share in enumerate(shares)
    )


@pytest.mark.parametrize("seed", range(often(400, less=20)))
def test_samples_come_as_the_oracle_says_from_anywhere(seed, monkeypatch):
    draw, steps = np.random.default_rng(seed), 400
    sources = [Source(draw, 60) for _ in range(int(draw.integers(1, 9)))]
    weights, counts = weights_of(draw, len(sources)), draw.integers(0, 300, len(sources)).tolist()
    lengths = drawn(weights, lambda source, index: sources[source].length(index), counts)
    judge = np.array([*islice(lengths, steps)])
    deal = made(sources, [weights], counts=counts)
    leaves, indexes = stretch(deal, 0, steps)
    assert leaves.tolist() == judge[:, 0].tolist()
    longest = max(
        int(of.tokens.max()) for of, weight in zip(sources, weights, strict=True) if weight
    )
    most = 0.5 if sum(map(bool, weights)) == 2 else BOUND
    assert off(*judge.T, weights) <= most * longest + 1e-6
    monkeypatch.setattr(by_tokens, "_NEAR", 16)  # what is farther is searched
    for _ in range(6):
        positions = np.unique(draw.integers(draw.integers(steps), steps, 9))
        own, numbers = dealt(made(sources, [weights], counts=counts), positions)
        assert own.tolist() == leaves[positions].tolist()
        assert numbers.tolist() == indexes[positions].tolist()
    upto = Counter(leaves[: positions[0]].tolist())
    found = deal.counts(int(positions[0]))
    assert found == [before + upto[i] for i, before in enumerate(counts)]


def test_far_positions_are_those_of_a_walk(monkeypatch):
    monkeypatch.setattr(by_tokens, "_NEAR", 1 << 12)
    draw = np.random.default_rng(1)
    sources = [Source(draw, 20_000) for _ in range(30)]
    weights = weights_of(draw, 30)
    size, rounds = often(10_000_000, less=100_000), often(1000, less=30)
    leaves, indexes = stretch(made(sources, [weights]), 0, size)
    tokens = np.zeros(size, np.int64)
    for i, of in enumerate(sources):
        (at,) = np.nonzero(leaves == i)
        assert indexes[at].tolist() == [*range(len(at))]
        tokens[at] = of.at(np.arange(len(at)))
    longest = max(int(of.tokens.max()) for of in sources)
    assert off(leaves, tokens, weights) <= BOUND * longest
    for _ in range(rounds):
        start = int(draw.integers(size))
        ranks = int(draw.integers(1, 8))
        own = np.arange(start, min(start + 64 * ranks, size)).reshape(-1)
        own = own[own // 8 % ranks == int(draw.integers(ranks))]
        found = dealt(made(sources, [weights]), own)
        assert found[0].tolist() == leaves[own].tolist()
        assert found[1].tolist() == indexes[own].tolist()


def test_an_anneal_keeps_the_bound_over_all_its_stairs():
    draw = np.random.default_rng(3)
    for size in (2, 3, 7):
        sources = [Source(draw, 200) for _ in range(size)]
        ends = [[1 << 20, 0, *[5000] * (size - 2)], [3000, 1 << 20, *[40000] * (size - 2)]]
        stairs = [
            [a * (39 - j) + b * (j + 1) for a, b in zip(*ends, strict=True)] for j in range(40)
        ]
        edges = [0, *(int(e) for e in draw.integers(0, 4000, 39).cumsum())]
        steps = edges[-1] + 1000
        deal = made(sources, stairs, edges)
        leaves, indexes = stretch(deal, 0, steps)
        due, tokens = np.zeros((2, steps)), np.zeros(steps, np.int64)
        for i, of in enumerate(sources):
            at = leaves == i
            tokens[at] = of.at(indexes[at])
        longest = max(int(of.tokens.max()) for of in sources)
        shares = np.array(stairs) / np.sum(stairs, axis=1, keepdims=True)
        of_items = shares[np.searchsorted(edges, np.arange(steps), "right") - 1]
        for i in range(size):
            due = (tokens * of_items[:, i]).cumsum()
            own = np.where(leaves == i, tokens, 0).cumsum()
            assert np.abs(own - due).max() <= (0.5 if size == 2 else BOUND) * longest + 1
        for start in draw.integers(0, steps, 5).tolist():
            span = np.arange(start, min(start + 500, steps))
            again = made(sources, stairs, edges)
            if start % 2:  # as a saved run goes on
                again.know(0, deal.last_start(start))
            assert dealt(again, span)[0].tolist() == leaves[span].tolist()
        damaged = deal.last_start(steps - 1)
        damaged[2] = [1, *damaged[2][1:]]
        with pytest.raises(StateMismatchError, match="damaged"):
            made(sources, stairs, edges).know(0, damaged)


def test_odd_lengths():
    def source(tokens):
        of = Source(np.random.default_rng(0), 2)
        of.size, of.tokens = len(tokens), np.array(tokens * 3)
        return of

    cases = [
        ([source([1]), source([1] * 50 + [50])], [1, 1]),  # half of all tokens are of one text
        ([source([1 << 40, 3]), source([5, 1 << 41]), source([7])], [1, 1 << 43, 1]),
        ([source([0, 0, 0, 1]), source([0] * 99 + [9])], [3, 1]),
        ([source([2]), source([2]), source([2])], [1, 1, 1]),
    ]
    for sources, weights in cases:
        judge = drawn(weights, lambda s, i, of=sources: of[s].length(i), [0] * len(sources))
        leaves = [source for source, _ in islice(judge, 300)]
        assert stretch(made(sources, [weights]), 0, 300)[0].tolist() == leaves
        assert made(sources, [weights]).counts(300) == [
            leaves.count(i) for i in range(len(weights))
        ]


def test_blocks_have_the_tokens_of_the_samples_that_streams_share():
    one, other = (Source(np.random.default_rng(seed), 50) for seed in (5, 6))
    tapes = [
        StreamTape(of.size, lambda index, of=of: of.at(index)[None], of.upto) for of in (one, other)
    ]
    recipes = Apportionment((3, 5), 1)
    which, index = dealt(recipes, np.arange(70))
    tokens = np.where(which == 0, one.at(np.arange(70))[index], other.at(np.arange(70))[index])
    blocks = SourceTape(tapes, recipes, 7)
    assert blocks.between(2, 9).tolist() == tokens[14:63].reshape(7, 7).sum(axis=1).tolist()
    assert blocks.upto(9) == SourceTape(tapes, recipes).upto(63) == tokens[:63].sum()
