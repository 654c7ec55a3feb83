"""No text twice in a batch, checked on plans made up by hand."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from duckplets.sampling.distinct import BLOCK_BATCHES, rearranged
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.base.arrays import Integers
from duckplets.errors import RecipeError
from duckplets.order.permute import below, hashed, key, mix
from duckplets.sampling.planned import Plan

pytestmark = pytest.mark.usefixtures("pools_once")


def plan_of(texts: Integers, start: int = 0) -> Plan:
    """Make a plan of a row of texts (small integers) for every sample, a column a slot.

    Chunk keys number samples and slots, so that where a sample went can be read off them.
    """
    samples, slots = texts.shape
    row = np.arange(samples)
    return Plan(
        start + row,
        row % 3,
        [row * slots + slot for slot in range(slots)],
        [mix(texts[:, slot].astype(np.uint64)) for slot in range(slots)],
        row % 2 == 0,
    )


def drawn(name: str, samples: int, slots: int, texts: int) -> Integers:
    """Draw texts at random; the slots of one sample differ, as those of a triplet do."""
    cells = np.arange(samples * slots).reshape(samples, slots)
    found = below(hashed(key("distinct", name), cells), texts)
    for slot in range(1, slots):
        while (same := (found[:, slot, None] == found[:, :slot]).any(axis=1)).any():
            found[same, slot] = (found[same, slot] + 1) % texts
    return found


def batches_of(plan: Plan, size: int) -> list[list[set[int]]]:
    rows = [set(map(int, row)) for row in zip(*plan.hashes, strict=True)]
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def has_repeats(plan: Plan, size: int) -> bool:
    return any(
        max(Counter(text for texts in batch for text in texts).values()) > 1
        for batch in batches_of(plan, size)
    )


def check(plan: Plan, size: int) -> Plan:
    """Rearrange, and check everything that is promised of every rearrangement."""
    found = rearranged(plan, size)
    assert not has_repeats(found, size)
    order = found.chunks[0] // len(plan.chunks)
    assert sorted(order.tolist()) == list(range(len(plan)))
    again = rearranged(plan, size)
    assert found.positions.tolist() == again.positions.tolist() == plan.positions.tolist()
    for column, expected, twice in zip(columns(found), columns(plan), columns(again), strict=True):
        assert column.tolist() == expected[order].tolist() == twice.tolist()
    return found


def columns(plan: Plan) -> list[npt.NDArray[Any]]:
    return [plan.streams, *plan.chunks, *plan.hashes, plan.swapped]


def moved(plan: Plan, found: Plan, size: int) -> int:
    """How many samples came into another batch."""
    home = plan.chunks[0] // len(plan.chunks) // size
    return int((found.chunks[0] // len(plan.chunks) // size != home).sum())


# ---- nothing to do


@pytest.mark.parametrize("size", [1, 2, 7, 32, 64, 100])
def test_a_block_without_repeats_stays_as_it_is(size: int) -> None:
    plan = plan_of(np.arange(64 * 3).reshape(64, 3), start=640)
    assert rearranged(plan, size) is plan


def test_a_text_may_come_in_every_batch_once() -> None:
    texts = np.arange(40).reshape(40, 1) + 1
    texts[::10] = 0
    plan = plan_of(texts)
    assert rearranged(plan, 10) is plan


def test_the_slots_of_one_sample_may_share_a_text() -> None:
    texts = np.repeat(np.arange(30)[:, None], 2, axis=1)  # SimCSE: the same text twice
    plan = plan_of(texts)
    assert rearranged(plan, 10) is plan
    with pytest.raises(RecipeError):
        rearranged(plan_of(np.repeat(texts, 4, axis=0)), 60)


def test_an_empty_block() -> None:
    assert len(rearranged(plan_of(np.zeros((0, 3), dtype=np.int64)), 8)) == 0


# ---- something to do


def test_a_repeat_in_another_slot_counts() -> None:
    texts = np.arange(24).reshape(8, 3)
    texts[1, 2] = texts[0, 0]
    check(plan_of(texts), 4)


def test_only_what_must_move_moves() -> None:
    texts = np.arange(64 * 32 * 3).reshape(-1, 3)
    texts[5, 0] = texts[4, 1]
    texts[900, 2] = texts[899, 0]
    plan = plan_of(texts)
    assert moved(plan, check(plan, 32), 32) == 2


def test_who_repeats_only_a_text_of_a_moving_sample_stays() -> None:
    texts = np.arange(36).reshape(18, 2)
    texts[1] = texts[0, 0], 100
    texts[2] = 100, 101
    texts[[6, 12], 0] = 101  # so sample 2 fits nowhere else, and chooses before sample 1
    found = check(plan_of(texts), 6)
    assert found.chunks[0][2] // 2 == 2
    assert moved(plan_of(texts), found, 6) == 2


def test_labels_go_with_their_samples() -> None:
    texts = np.arange(40).reshape(20, 2)
    texts[3] = texts[2]
    labels = np.arange(20) % 3
    plan = replace(plan_of(texts), labels=labels)
    found = check(plan, 5)
    assert found.labels is not None
    assert found.labels.tolist() == labels[found.chunks[0] // 2].tolist()


def test_a_single_repeat_changes_places_with_a_sample_that_has_none() -> None:
    texts = np.arange(20).reshape(20, 1)
    texts[3] = texts[2]
    plan = plan_of(texts)
    assert moved(plan, check(plan, 5), 5) == 2


@pytest.mark.parametrize("last", [1, 2, 5, 15])
def test_the_last_batch_may_be_short(last: int) -> None:
    for trial in range(10):
        texts = drawn(f"short {last} {trial}", 16 * 10 + last, 3, 1500)
        plan = plan_of(texts)
        assert has_repeats(plan, 16)
        check(plan, 16)


def test_a_repeat_in_the_short_last_batch() -> None:
    texts = np.arange(13).reshape(13, 1)
    texts[12] = texts[11]
    check(plan_of(texts), 5)


def test_one_batch_alone_can_not_be_mended() -> None:
    texts = np.arange(8).reshape(8, 1)
    texts[7] = texts[0]
    with pytest.raises(RecipeError, match="no_duplicates"):
        rearranged(plan_of(texts), 8)


# ---- much to do


@pytest.mark.parametrize("repeated", [0.2, 0.3, 0.4, 0.5])
@pytest.mark.parametrize("size", [8, 32, 128])
def test_heavy_duplicates_are_placed(repeated: float, size: int) -> None:
    """Of all samples so many have a text of another sample, some of them often."""
    samples = BLOCK_BATCHES * size
    texts = np.arange(samples * 3).reshape(samples, 3)
    draw = hashed(key("heavy", size), np.arange(samples))
    which = np.flatnonzero(below(draw, 1000) < repeated * 1000)
    common = max(40, len(which) // 20)  # each of these texts comes about twenty times
    texts[which, which % 3] = samples * 3 + below(mix(draw[which]), common)
    plan = plan_of(texts)
    assert has_repeats(plan, size)
    check(plan, size)


@pytest.mark.parametrize("size", [4, 16, 64])
def test_negatives_from_a_small_pool_are_placed(size: int) -> None:
    """Every anchor and positive is unique, but negatives come from ever so few texts."""
    samples = BLOCK_BATCHES * size
    texts = np.arange(samples * 3).reshape(samples, 3)
    texts[:, 2] = samples * 3 + below(hashed(key("few", size), texts[:, 2]), 3 * size)
    check(plan_of(texts), size)


def test_a_text_of_every_batch_is_spread_over_all_of_them() -> None:
    texts = np.arange(64 * 16).reshape(-1, 1)
    texts[:64] = -1 % 2**63
    found = check(plan_of(texts), 16)
    common = mix(texts[0].astype(np.uint64))[0]
    assert [int((found.hashes[0][at : at + 16] == common).sum()) for at in range(0, 1024, 16)] == (
        [1] * 64
    )


@pytest.mark.parametrize(
    ("slots", "vocabulary"), [(1, 16), (1, 20), (1, 40), (3, 64), (3, 96), (3, 200)]
)
def test_what_was_mixed_from_a_solution_is_solved(slots: int, vocabulary: int) -> None:
    """Up to the case that every batch has to hold every text, or with triplets 3 of 4."""
    for trial in range(5):
        name = key("mixed", slots, vocabulary, trial)
        order = np.argsort(hashed(name, np.arange(64 * vocabulary).reshape(64, vocabulary)))
        texts = order[:, : 16 * slots].reshape(64 * 16, slots)
        mixed = np.argsort(hashed(name + 1, np.arange(64 * 16)))
        check(plan_of(texts[mixed]), 16)


@pytest.mark.parametrize("times", [65, 100, 64 * 16])
def test_a_text_in_more_samples_than_there_are_batches_is_refused(times: int) -> None:
    texts = np.arange(64 * 16).reshape(-1, 1)
    texts[:times] = -1 % 2**63
    with pytest.raises(RecipeError) as refusal:
        rearranged(plan_of(texts), 16)
    assert f"one text comes {times} times in a block of 64 batches" in str(refusal.value)
    assert "batch_size" in str(refusal.value)


def test_a_block_of_too_many_batches_is_a_mistake() -> None:
    plan = plan_of(np.arange(65 * 4).reshape(-1, 1))
    with pytest.raises(ValueError, match="at most 64 batches of 4, not 260 samples"):
        rearranged(plan, 4)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_block_is_mended_or_refused(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8), label="size")
    samples = data.draw(st.integers(1, 48), label="samples")
    slots = data.draw(st.integers(1, 4), label="slots")
    vocabulary = data.draw(st.integers(1, 300), label="vocabulary")
    rows = st.lists(st.integers(0, vocabulary), min_size=slots, max_size=slots)
    texts = data.draw(st.lists(rows, min_size=samples, max_size=samples), label="texts")
    plan = plan_of(np.array(texts, dtype=np.int64))
    try:
        check(plan, size)
    except RecipeError:
        assert has_repeats(plan, size)


@pytest.mark.parametrize("size", [4, 32, 256])
def test_every_other_sample_moves_where_all_anchors_come_twice_in_a_row(size: int) -> None:
    """As in pairs: an anchor with its positive, then with its negative."""
    pairs = BLOCK_BATCHES * size // 2
    others = below(hashed(key("others", size), np.arange(2 * pairs)), 20 * pairs)
    texts = np.stack([np.repeat(np.arange(pairs), 2) + 100 * pairs, others], axis=1)
    plan = plan_of(texts)
    assert moved(plan, check(plan, size), size) < 1.1 * pairs


@pytest.mark.parametrize("size", [32, 256])
@pytest.mark.parametrize("common", [1, 5, 20])
@pytest.mark.parametrize("last", [0, 7])
def test_texts_that_have_to_be_in_every_batch_are_dealt_to_all(
    size: int, common: int, last: int
) -> None:
    samples = BLOCK_BATCHES * size - (size - last if last else 0)
    texts = np.arange(samples * 3).reshape(samples, 3) + 100
    for text in range(min(common, last or common)):
        at = np.argsort(hashed(key("everywhere", size, text), np.arange(samples)))[:BLOCK_BATCHES]
        texts[at, text % 3] = text
    check(plan_of(texts), size)


@pytest.mark.parametrize("vocabulary", [600, 1000, 3000])
def test_random_triplets_of_few_texts_are_placed(vocabulary: int) -> None:
    for trial in range(5):
        texts = drawn(f"random {vocabulary} {trial}", BLOCK_BATCHES * 16, 3, vocabulary)
        plan = plan_of(texts)
        assert has_repeats(plan, 16)
        check(plan, 16)


# ---- against all arrangements


def can_be_arranged(texts: list[list[int]], size: int) -> bool:
    """Try everything: samples with the fewest batches left first, batches that are alike once."""
    left = [size] * (len(texts) // size) + [len(texts) % size] * (len(texts) % size > 0)
    had: list[frozenset[int]] = [frozenset()] * len(left)

    def all_placed(waiting: dict[int, frozenset[int]]) -> bool:
        if not waiting:
            return True
        fitting = {
            sample: [b for b in range(len(left)) if left[b] and not had[b] & mine]
            for sample, mine in waiting.items()
        }
        sample = min(fitting, key=lambda s: len(fitting[s]))
        others = {s: mine for s, mine in waiting.items() if s != sample}
        for batch in {(left[b], had[b]): b for b in fitting[sample]}.values():
            before = had[batch]
            left[batch], had[batch] = left[batch] - 1, before | waiting[sample]
            if all_placed(others):
                return True
            left[batch], had[batch] = left[batch] + 1, before
        return False

    return all_placed({sample: frozenset(row) for sample, row in enumerate(texts)})


def small_block(draw: random.Random) -> tuple[list[list[int]], int]:
    """Draw texts of a few small batches, half of them mixed from batches without repeats."""
    batches, size, slots = draw.randint(2, 4), draw.randint(2, 5), draw.randint(1, 3)
    samples = (batches - 1) * size + draw.randint(1, size)
    if draw.random() < 0.5:
        vocabulary = range(draw.randint(max(slots, size * slots // 2), 3 * size * slots))
        return [draw.choices(vocabulary, k=slots) for _ in range(samples)], size
    vocabulary = range(size * slots + draw.randint(0, size * slots))
    dealt = [draw.sample(vocabulary, size * slots) for _ in range(batches)]
    rows = [row[at : at + slots] for row in dealt for at in range(0, len(row), slots)][:samples]
    draw.shuffle(rows)
    return rows, size


@pytest.mark.parametrize("seed", range(often(10, less=1)))
def test_what_can_be_arranged_is_arranged(seed: int) -> None:
    draw = random.Random(seed)
    arranged = refused = 0
    for _ in range(150):
        texts, size = small_block(draw)
        plan = plan_of(np.array(texts))
        if can_be_arranged(texts, size):
            arranged += has_repeats(plan, size)
            check(plan, size)
        else:
            refused += 1
            with pytest.raises(RecipeError, match="no_duplicates=True cannot be kept"):
                rearranged(plan, size)
    assert arranged > 50
    assert refused > 15


@pytest.mark.parametrize(
    "texts",
    [
        [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [12, 13, 14], [11, 15, 16], [17, 10, 18]],
        [[12, 13, 9], [3, 0, 4], [8, 6, 5], [14, 7, 10], [8, 1, 12], [9, 5, 11], [13, 2, 6]],
    ],
)
def test_a_search_that_goes_round_and_round_begins_anew(texts: list[list[int]]) -> None:
    """One batch of five and one of two, where single samples make room in turn forever."""
    assert can_be_arranged(texts, 5)
    check(plan_of(np.array(texts)), 5)


def test_a_block_without_an_arrangement_is_refused_with_its_numbers() -> None:
    """Four samples of three texts, each two of them sharing one, need four batches."""
    texts = np.array([[0, 1, 2], [0, 3, 4], [1, 3, 5], [2, 4, 5], [6, 7, 8], [9, 10, 11]])
    assert not can_be_arranged(texts.tolist(), 2)
    with pytest.raises(RecipeError) as refusal:
        rearranged(plan_of(texts), 2)
    assert "the 6 samples of a block to its 3 batches of 2" in str(refusal.value)
    assert "(one of them 2 times)" in str(refusal.value)
