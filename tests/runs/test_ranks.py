"""Ranks: the batches of all of them together are the same for every number of ranks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from corpora import counts_of
from effort import some, thorough

import duckplets as dp
from duckplets.samples.plan import PartPlanner
from duckplets.testing import toy_records

pytestmark = pytest.mark.usefixtures("pools_once")

TOTAL = 24
PAIR = dp.TripletRecipe("pair", dp.role("anchor"), dp.role("context"), dp.role("context"))
ANY = dp.TripletRecipe("any", dp.any_section(), dp.any_section(), dp.any_section(), weight=0.3)
TEXT = dp.TextRecipe("text", dp.any_section())
PHASED = dp.Mixture(
    {"a": 1, "b": 0},
    phases=[dp.Phase(3, {"b": 2}), dp.Phase(9, {"a": 0.1, "b": 0.9}, 0.5)],
    omitted=1,
)
LATER = dp.Mixture({"a": 3}, phases=[dp.Phase(8, {"a": 1})], omitted=1)
RAMPED = dp.Mixture({"a": 5}, 2, anneal=dp.Anneal(2, {"a": 0, "b": 1}, 12), omitted=1)
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "triplets": {"recipes": [PAIR, ANY]},
    "pairs": {"kind": "pairs", "recipes": [PAIR], "negatives": 4, "mixture": PHASED},
    "texts": {"kind": "texts", "recipes": [TEXT], "mixture": RAMPED},
    "no duplicates": {"recipes": [PAIR], "no_duplicates": True, "mixture": LATER},
    "negatives": {"recipes": [PAIR], "negatives": 2, "mixture": RAMPED},
    "bounded": {"recipes": [PAIR], "epochs": 1, "mixture": PHASED},
}


def fill(corpus: dp.Corpus, counts: dict[str, int]) -> None:
    for name, count in counts.items():
        records = toy_records(count, seed=name)
        source = dp.MemorySource(records, anchor="title", positive="body", id="id", text=None)
        corpus.ingest(source, name=name, progress=False)
    corpus.split(1, 0, 0)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "toy.duckdb"
    with dp.Corpus(path) as corpus:
        fill(corpus, {"a": 141, "b": 166})
    return path


@pytest.fixture
def corpus(path: Path) -> Iterator[dp.Corpus]:
    with dp.Corpus(path, read_only=True, threads=1) as corpus:
        yield corpus


def opened(corpus: dp.Corpus, world_size: int, *, total: int = TOTAL, **more: Any) -> list[Any]:
    arguments = {"prefetch": 0, "world_size": world_size, "batch_size": total // world_size} | more
    return [corpus.sampler(**arguments, rank=rank) for rank in range(world_size)]


def laid_end_to_end(batches: Sequence[dp.Batch]) -> pa.Table:
    """The batch of all ranks."""
    assert len({batch.step for batch in batches}) == 1
    starts = [batch.position for batch in batches]
    assert starts == [starts[0] + sum(map(len, batches[:i])) for i in range(len(batches))]
    return pa.concat_tables(batch.table for batch in batches).combine_chunks()


def test_no_text_comes_twice_in_the_batch_of_all_ranks(corpus: dp.Corpus) -> None:
    arguments = CONFIGURATIONS["no duplicates"]
    ranks = opened(corpus, 4, **arguments)
    for _ in range(70):
        table = laid_end_to_end([next(rank) for rank in ranks])
        texts = [
            set(row) for row in zip(*table.select([0, 1, 2]).to_pydict().values(), strict=True)
        ]
        assert sum(map(len, texts)) == len(set().union(*texts))


@thorough
def test_ranks_that_set_the_same_weights_stay_one_run(tmp_path: Path) -> None:
    weights = {"a": 0.25, "b": 4}
    with dp.Corpus(tmp_path / "toy.duckdb") as corpus:
        fill(corpus, {"a": 20, "b": 30})
        arguments: dict[str, Any] = {"recipes": [PAIR], "mixture": dp.Mixture({"b": 0}, omitted=1)}
        alone = opened(corpus, 1, **arguments)[0]
        ranks = opened(corpus, 3, **arguments)
        expected = [next(alone).table for _ in range(4)]
        assert alone.set_weights(weights) == 4
        expected += [next(alone).table for _ in range(6)]
        for step in range(10):
            if step == 4:
                assert [rank.set_weights(weights) for rank in reversed(ranks)] == [4, 4, 4]
            table = laid_end_to_end([next(rank) for rank in ranks])
            assert table.equals(expected[step].combine_chunks())
        assert len({str(rank.state_dict()) for rank in ranks}) == 1
        ranks[0].save()
    for world_size in (1, 6):
        resumed = [
            dp.resume(tmp_path / "toy.duckdb", rank=r, world_size=world_size)
            for r in range(world_size)
        ]
        for rank in resumed:
            rank.move(0)
        for table in expected:
            assert laid_end_to_end([next(rank) for rank in resumed]).equals(table.combine_chunks())
        for rank in resumed:
            rank.close()


@pytest.mark.parametrize("world_size", some([5, 7, 9, 16, 48], less=2))
def test_numbers_of_ranks_that_do_not_divide_are_refused(
    path: Path, tmp_path: Path, world_size: int
) -> None:
    state = tmp_path / "state.duckdb"
    sizes = "1, 2, 3, 4, 6, 8, 12, 24"
    with dp.Corpus(path, read_only=True) as corpus:
        sampler = corpus.sampler(recipes=[PAIR], batch_size=TOTAL, state=state)
        next(sampler)
        sampler.save()
        told = f"world_size={world_size}: 24 samples .*would do: {sizes}"
        with pytest.raises(dp.SamplerError, match=told):
            corpus.resume(state=state, rank=0, world_size=world_size)
        other = corpus.sampler(
            recipes=[PAIR], batch_size=max(1, TOTAL // world_size), world_size=world_size
        )
        with pytest.raises(dp.StateMismatchError, match=r"batch_size \(saved: 24, now: \d+") as no:
            other.load_state_dict(sampler.state_dict())
        assert sizes in str(no.value)
        assert other.position == 0
        with pytest.raises(dp.StateMismatchError, match="batch_size"):
            corpus.resume(state=state, world_size=world_size, batch_size=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 4, "world_size": 4}, "rank=4: with world_size=4 give one from 0 to 3"),
        ({"rank": -1, "world_size": 4}, "rank=-1"),
        ({"rank": 1}, "rank=1: with world_size=1 give one from 0 to 0"),
        ({"world_size": 0}, "world_size=0: give an integer from 1"),
        ({"world_size": 2.0}, "world_size=2.0: give an integer"),
        ({"rank": True, "world_size": 2}, "rank=True: give an integer"),
    ],
)
def test_ranks_out_of_range_are_refused(
    path: Path, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with dp.Corpus(path, read_only=True) as corpus:
        with pytest.raises(dp.SamplerError, match=message):
            corpus.sampler(recipes=[PAIR], **arguments)
        state = corpus.sampler(recipes=[PAIR], state=tmp_path / "state.duckdb").save()
        with pytest.raises(dp.SamplerError, match=message):
            corpus.resume(state=state, **arguments)


@pytest.mark.parametrize(
    ("rows", "world_size", "size", "epochs"),
    some(
        [
            *((1, 2, 1, 1), (1, 9, 4, 3), (2, 3, 1, 2), (5, 4, 1, 1), (7, 2, 3, 3), (8, 4, 2, 1)),
            *((13, 3, 4, 2), (24, 5, 2, 2), (31, 8, 3, 1), (37, 9, 1, 4), (49, 7, 7, 1)),
            (50, 6, 5, 3),
        ],
        less=2,
    ),
)
def test_remainders(tmp_path: Path, rows: int, world_size: int, size: int, epochs: int) -> None:
    counts = {"a": rows} | ({"b": 3} if rows in (1, 8, 13, 37, 49) else {})
    with dp.Corpus(tmp_path / "toy.duckdb", threads=1) as corpus:
        fill(corpus, counts)
        recipe = dp.TextRecipe("title", dp.role("anchor"))
        arguments: dict[str, Any] = {
            "kind": "texts",
            "recipes": [recipe],
            "mixture": counts,
            "epochs": epochs,
            "columns": ["text_record_id", "padded"],
        }
        total, batch = epochs * sum(counts.values()), size * world_size
        for remainder in ("keep", "drop", "pad"):
            ranks = opened(corpus, world_size, total=batch, remainder=remainder, **arguments)
            taken = [list(rank) for rank in ranks]
            due = {"keep": -(-total // batch), "drop": total // batch}.get(
                remainder, -(-total // batch)
            )
            assert {len(rank) for rank in ranks} == {len(batches) for batches in taken} == {due}
            tables = [laid_end_to_end([batches[i] for batches in taken]) for i in range(due)]
            ids = [i for table in tables for i in table["text_record_id"].to_pylist()]
            marks = [mark for table in tables for mark in table["padded"].to_pylist()]
            if remainder == "keep":
                assert Counter(ids) == {
                    f"{name}/r{i}": epochs for name, n in counts.items() for i in range(n)
                }
            else:
                assert {len(b) for batches in taken for b in batches} <= {size}
            assert marks == [False] * min(total, len(marks)) + [True] * max(0, len(ids) - total)
            for rank in ranks:
                rank.close()


def test_a_last_batch_of_fewer_samples_than_ranks_leaves_some_an_empty_one(
    corpus: dp.Corpus,
) -> None:
    ranks = opened(corpus, 24, recipes=[PAIR], epochs=1)
    taken = [list(rank) for rank in ranks]
    sizes = [len(batches[-1]) for batches in taken]
    assert sum(sizes) == (141 + 166) % TOTAL == 19
    assert sorted(sizes) == [0] * 5 + [1] * 19
    empty = taken[sizes.index(0)][-1]
    assert empty.keys() == taken[0][0].keys()
    assert empty["anchor"] == []
    assert empty.table.schema == taken[0][0].table.schema


def test_a_finished_run_goes_on_with_more_epochs_and_other_ranks(
    path: Path, tmp_path: Path
) -> None:
    """Its last batch was short: the next one begins where that ended."""
    state = tmp_path / "state.duckdb"
    arguments: dict[str, Any] = {
        "recipes": [PAIR],
        "swap": False,
        "mixture": dp.Mixture({"b": 0}, omitted=1),
    }
    with dp.Corpus(path, read_only=True) as corpus:
        ranks = opened(corpus, 2, epochs=1, state=state, columns=["anchor_record_id"], **arguments)
        ids = [i for rank in ranks for batch in rank for i in batch["anchor_record_id"]]
        assert {rank.position for rank in ranks} == {141}
        ranks[0].save()
        for rank in range(3):
            resumed = corpus.resume(state=state, rank=rank, world_size=3, epochs=4)
            ids += [i for batch in resumed for i in batch["anchor_record_id"]]
    assert Counter(ids) == {f"a/r{i}": 4 for i in range(141)}


@pytest.mark.parametrize("name", some(["pairs", "triplets", "negatives"], less=1))
def test_a_rank_plans_its_own_positions_only(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    planned: list[int] = []
    draws = PartPlanner._draws

    def recorded(self: PartPlanner, numbers: Any, *more: Any) -> Any:
        planned.append(len(numbers))
        return draws(self, numbers, *more)

    monkeypatch.setattr(PartPlanner, "_draws", recorded)
    (rank,) = opened(corpus, 12, **CONFIGURATIONS[name])[5:6]
    planned.clear()
    for _ in range(20):
        next(rank)
    prepared = sum(planned)
    assert 40 // (5 if name == "pairs" else 1) <= prepared <= 256
    alone = opened(corpus, 1, **CONFIGURATIONS[name])[0]
    for _ in range(20):
        next(alone)
    planned.clear()
    assert counts_of(rank) == counts_of(alone)  # counted when it is asked for
    assert sum(planned) >= 20 * TOTAL // 5
    planned.clear()
    assert rank.state_dict() == alone.state_dict()
    assert planned == []


def test_what_ranks_took_is_counted_wherever_they_went(corpus: dp.Corpus) -> None:
    draw = random.Random(5)
    alone, *ranks = (
        sampler
        for world_size in (1, 3)
        for sampler in opened(corpus, world_size, **CONFIGURATIONS["triplets"])
    )
    for _ in range(90):
        what = draw.random()
        epoch, weights = draw.randrange(3), {"a": draw.random(), "b": draw.random()}
        for sampler in (alone, *ranks):
            if what < 0.6:
                next(sampler)
            elif what < 0.9:
                sampler.set_epoch(epoch)
            else:
                sampler.set_weights(weights)
        if draw.random() < 0.1:
            assert counts_of(ranks[1]) == counts_of(alone)
    assert [rank.state_dict() for rank in ranks] == [alone.state_dict()] * 3
