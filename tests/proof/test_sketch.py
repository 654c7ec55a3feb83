"""Records in which two sets differ are named, whatever the rest."""

import numpy as np
import pytest

from duckplets.errors import StateMismatchError
from duckplets.proof.sketch import CELLS, RecordSketch, cells_for, root_of


def records(count, seed):
    draw = np.random.default_rng(seed)
    return draw.integers(0, 2**64, (2, count), dtype=np.uint64)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 60, 5_000, 60_000])
@pytest.mark.parametrize("seed", [0, 1])
def test_differences_are_named_on_both_sides(count, seed):
    ids, contents = records(count, seed)
    draw = np.random.default_rng(seed)
    cells = cells_for(count)
    for few in (0, 1, min(count, 20), min(count, cells // 6)):
        gone = draw.permutation(count)[:few]
        others = records(few, seed + 10)  # new ones, and one of them with a known id
        others[0, : few // 3] = ids[gone[: few // 3]]
        kept = np.delete(np.stack([ids, contents]), gone, axis=1)
        now = np.concatenate([kept, others], axis=1)
        before = RecordSketch.of(ids, contents, cells)
        read = RecordSketch.of_text(before.to_text(), cells)
        *found, signs, rest = read.less(RecordSketch.of(*now, cells)).named()
        pairs = {*zip(*(of.tolist() for of in found), signs.tolist(), strict=True)}
        expected = {(int(ids[at]), int(contents[at]), 1) for at in gone}
        assert (pairs, rest) == (expected | {(*one, -1) for one in others.T.tolist()}, 0)


def test_too_many_differences_are_counted():
    ids, contents = records(60_000, 2)
    before, after = (RecordSketch.of(ids[at:], contents[at:], CELLS) for at in (0, 40_000))
    named, _, _, rest = before.less(after).named()
    assert {*named.tolist()} <= {*ids[:40_000].tolist()}
    assert rest > 1_000


def test_a_root_is_of_the_records_alone():
    ids, contents = records(500, 3)
    order = np.random.default_rng(0).permutation(500)
    assert root_of(ids, contents) == root_of(ids[order], contents[order])
    assert root_of(ids, contents) != root_of(ids, contents ^ np.uint64(1))


def test_a_table_that_somebody_wrote_comes_to_an_end():
    draw = np.random.default_rng(4)
    for _ in range(50):
        cells = cells_for(3)
        one = RecordSketch(draw.integers(-1, 2, cells), records(cells, 5).repeat(2, axis=0)[:3])
        one.sums[:, ::2] = RecordSketch.of(*records(1, 6), cells).sums.max(axis=1, keepdims=True)
        one.named()
    for wrong in ("", "not a table", one.to_text()[:-9]):
        with pytest.raises(StateMismatchError, match="is damaged"):
            RecordSketch.of_text(wrong, cells)
