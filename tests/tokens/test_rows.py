"""Rows of tokens: packing loses none and repeats none, for any lengths, widths and ends."""

from collections import Counter, defaultdict
from fractions import Fraction
from math import ceil, log2
from pathlib import Path

import dealing
import numpy as np
import pytest
from effort import often
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.errors import DamagedFileError
from duckplets.order.mixture import Event
from duckplets.tokens.dataset import BucketSchedule
from duckplets.tokens.memmap import TokenFile
from duckplets.tokens.rows import PackedRows, SingleRows, TextSpan

END, PAD = 1, 0
LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=40)


def texts_of(lengths, end=END, first=0, stop=None):
    """Return texts as a token file has them, whose tokens all differ and are none of the above."""
    parts, offsets = [], [0]
    for length in lengths:
        parts += range(offsets[-1] + 10, offsets[-1] + 10 + length)
        parts += [end] * (end is not None)
        offsets.append(len(parts))
    ids = np.array(parts, np.int32)
    file = TokenFile(Path("x.tokens"), np.array(offsets), ids, int(end is not None))
    return TextSpan(file, first, len(lengths) if stop is None else stop)


def plain(texts):
    """Return the tokens of each text with what follows it."""
    of = texts.file
    spans = [of.offsets[n : n + 2] for n in range(texts.first, texts.stop)]
    return [of.tokens[low:high].tolist() for low, high in spans]


def begins(gathered):
    return [gathered.columns[gathered.owners == row].tolist() for row in range(len(gathered.ids))]


@settings(max_examples=often(150, less=15), suppress_health_check=[HealthCheck.too_slow])
@given(LENGTHS, st.integers(1, 50), st.sampled_from([None, END]), st.data())
def test_packed_rows_are_the_texts_laid_end_to_end(lengths, width, end, data):
    first = data.draw(st.integers(0, len(lengths) - 1))
    texts = texts_of(lengths, end, first, data.draw(st.integers(first + 1, len(lengths))))
    rows = PackedRows(texts, width, PAD)
    all_of, starts = [], []
    for tokens in plain(texts):
        starts.append(len(all_of))
        all_of += tokens
    assert rows.tokens == len(all_of)
    assert len(rows) == -(-len(all_of) // width)
    order = data.draw(st.permutations(range(len(rows))))
    gathered = rows.take(np.array(order))
    for row, ids, length, begun in zip(
        order, gathered.ids.tolist(), gathered.lengths.tolist(), begins(gathered), strict=True
    ):
        expected = all_of[row * width : (row + 1) * width]
        assert ids[:length] == expected
        assert set(ids[length:]) <= {PAD}
        assert length == width or row == len(rows) - 1
        assert begun == [s - row * width for s in starts if row * width < s < row * width + length]
    low, high = rows.texts(np.array(order))
    for row, one, other in zip(order, low.tolist(), high.tolist(), strict=True):
        within = [n for n, s in enumerate(starts) if s < min((row + 1) * width, len(all_of))]
        touched = [n for n in within if [*starts, len(all_of)][n + 1] > row * width]
        assert [one, other] == [first + touched[0], first + touched[-1] + 1]


@settings(max_examples=often(100, less=10), suppress_health_check=[HealthCheck.too_slow])
@given(LENGTHS, st.integers(1, 40), st.sampled_from([None, END]))
def test_single_rows_are_a_text_each(lengths, width, end):
    texts = texts_of(lengths, end)
    rows = SingleRows(texts, width, PAD)
    gathered = rows.take(np.arange(len(rows)))
    cut = [
        tokens[: min(width, length)] for tokens, length in zip(plain(texts), lengths, strict=True)
    ]
    assert gathered.ids.tolist() == [[*one, *[PAD] * (width - len(one))] for one in cut]
    assert gathered.lengths.tolist() == [len(one) for one in cut]
    assert (rows.cut, rows.tokens) == (sum(n > width for n in lengths), sum(map(len, cut)))


@pytest.mark.parametrize("end", [None, END])
def test_offsets_that_lead_nowhere_are_damage(end):
    for broken in ([70, 20, 40, 60], [0, 20, 40, -1], [60, 40, 20, 0]):
        texts = texts_of([19, 19, 19], end)
        texts.file.offsets[:] = broken
        with pytest.raises(DamagedFileError, match="are outside the file"):
            PackedRows(texts, 7, PAD).take(np.arange(9))
        with pytest.raises(DamagedFileError, match="are outside the file"):
            SingleRows(texts, 7, PAD).take(np.arange(3))


# ---- batches of one bucket each: every source's items come in its own order, and shares add up


NAMES = ["alpha", "bravo", "charlie"]
WEIGHTS = st.sampled_from([0, 1, 1.009, 0.1, 3, 7.5])


@st.composite
def schedules(draw):
    names = NAMES[: draw(st.integers(1, 3))]
    weights = {name: draw(WEIGHTS) for name in names}
    weights[names[0]] = 2.0
    buckets = draw(st.integers(1, 4))
    items = {name: [draw(st.integers(0, 60)) for _ in range(buckets)] for name in names}
    for of in items.values():
        of[0] += 1
    steps = sorted(draw(st.sets(st.integers(1, 40), max_size=3)))
    phases = [dp.Phase(step, {names[-1]: draw(st.sampled_from([0.5, 4]))}) for step in steps]
    events = {
        draw(st.integers(0, 50)): Event({names[0]: 5.0}) for _ in range(draw(st.integers(0, 2)))
    }
    batch = draw(st.integers(1, 9))
    made = BucketSchedule(
        dp.Mixture(weights, phases=phases),
        items,
        seed=draw(st.integers(0, 99)),
        batch=batch,
        events=events,
    )
    return made, batch


def dealt(schedule, draws):
    """Return leaf and index of every draw."""
    return list(zip(*(part.tolist() for part in dealing.dealt(schedule, draws)), strict=True))


@settings(max_examples=often(80, less=8), deadline=None)
@given(schedules(), st.integers(0, 400), st.data())
def test_batches_are_of_one_bucket_and_streams_go_on(made, size, data):
    schedule, batch = made
    found = dealt(schedule, np.arange(size))
    following = Counter[int]()
    buckets = defaultdict(set)
    for draw, (leaf, index) in enumerate(found):
        assert index == following[leaf]
        following[leaf] += 1
        buckets[draw // batch].add(leaf // len(schedule.sources))
    assert all(len(of) == 1 for of in buckets.values())
    counts = schedule.dealt(size)
    assert counts == [following[leaf] for leaf in range(len(counts))]
    of_sources = np.array(counts).reshape(-1, len(schedule.sources)).sum(0).tolist()
    assert schedule.samples(size) == of_sources
    some = sorted(data.draw(st.sets(st.integers(0, max(0, size - 1)), max_size=20)))
    if size:
        assert dealt(schedule, np.array(some, np.int64)) == [found[draw] for draw in some]
    step = data.draw(st.integers(0, 60))
    changed = schedule.with_event(step, Event({schedule.sources[0]: 9}))
    assert dealt(changed, np.arange(size))[: step * batch] == found[: step * batch]
    assert dealt(changed.with_events(changed.events), np.arange(size)) == dealt(
        changed, np.arange(size)
    )


@pytest.mark.parametrize("seed", range(often(3, less=1)))
def test_counts_are_as_near_to_shares_as_for_texts(seed):
    weights = {"alpha": 0.5, "bravo": 0.3, "charlie": 0.2}
    items = {"alpha": [300, 200, 0], "bravo": [10, 40, 50], "charlie": [5, 5, 90]}
    schedule = BucketSchedule(dp.Mixture(weights), items, seed=seed, batch=8)
    found = dealt(schedule, np.arange(24_000))
    parts = [
        [Fraction(str(weights[s])) * items[s][b] / sum(items[s]) for s in NAMES] for b in range(3)
    ]
    bound = ceil(log2(3)) + 1
    by_bucket = [[], [], []]
    for leaf, _ in found:
        by_bucket[leaf // 3].append(leaf % 3)
    for shares, leaves in zip(parts, by_bucket, strict=True):
        assert abs(len(leaves) / 8 - 3_000 * sum(shares)) < bound
        for source, share in enumerate(shares):
            upto = np.cumsum(np.array(leaves) == source)
            exact = np.arange(1, len(leaves) + 1) * float(share / sum(shares))
            assert np.abs(upto - exact).max() < bound
    whole = Counter(leaf % 3 for leaf, _ in found)
    for source, name in enumerate(NAMES):
        assert abs(whole[source] / 24_000 - weights[name]) < 0.002
