"""Ranks: the batches of all of them together are the same for every number of ranks."""

import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from corpora import counts_of
from effort import some
from frozen_runs import titled
from prebuilt import reading

import duckplets as dp
from duckplets.samples.plan import PartPlanner

TOTAL = 24
PAIR = dp.TripletRecipe("pair", dp.role("anchor"), dp.role("context"), dp.role("context"))
PHASED = dp.Mixture(
    {"a": 1, "b": 0},
    phases=[dp.Phase(3, {"b": 2}), dp.Phase(9, {"a": 0.1, "b": 0.9}, 0.5)],
    omitted=1,
)


corpus = reading(titled, {"a": 141, "b": 166})


def opened(corpus, world_size, *, total=TOTAL, **more):
    arguments = {"world_size": world_size, "batch_size": total // world_size} | more
    arguments["options"] = replace(more.get("options", dp.Options()), prefetch=0)
    return [corpus.sampler(**arguments, rank=rank) for rank in range(world_size)]


def laid_end_to_end(batches):
    """The batch of all ranks."""
    assert len({batch.step for batch in batches}) == 1
    starts = [batch.position for batch in batches]
    assert starts == [starts[0] + sum(map(len, batches[:i])) for i in range(len(batches))]
    return pa.concat_tables(batch.table for batch in batches).combine_chunks()


@pytest.mark.parametrize("world_size", some([16, 5, 7, 9, 48], less=1))
def test_numbers_of_ranks_that_do_not_divide_are_refused(corpus, tmp_path, world_size):
    state = tmp_path / "state.duckdb"
    sizes = "1, 2, 3, 4, 6, 8, 12, 24"
    sampler = corpus.sampler(recipes=[PAIR], batch_size=TOTAL, options=dp.Options(state=state))
    next(sampler)
    sampler.save()
    told = f"world_size={world_size}: 24 samples .*would do: {sizes}"
    with pytest.raises(dp.SamplerError, match=told):
        corpus.resume(state=state, rank=0, world_size=world_size)
    size = max(1, TOTAL // world_size)
    other = corpus.sampler(recipes=[PAIR], batch_size=size, world_size=world_size)
    with pytest.raises(dp.StateMismatchError, match=r"batch_size \(saved: 24, now: \d+") as no:
        other.load_state_dict(sampler.state_dict())
    assert sizes in str(no.value)
    with pytest.raises(dp.StateMismatchError, match="batch_size"):
        corpus.resume(state=state, world_size=world_size, batch_size=5)
    for rank, wrong, message in [
        (4, 4, "rank=4: with world_size=4 give one from 0 to 3"),
        (-1, 4, "rank=-1"),
        (1, 1, "rank=1: with world_size=1 give one from 0 to 0"),
        (0, 0, "world_size=0: give an integer from 1"),
        (0, 2.0, "world_size=2.0: give an integer"),
        (True, 2, "rank=True: give an integer"),
    ]:
        for call in (corpus.sampler, partial(corpus.resume, state=state)):
            with pytest.raises(dp.SamplerError, match=message):
                call(rank=rank, world_size=wrong)


@pytest.mark.parametrize(
    ("rows", "world_size", "size", "epochs"),
    some(
        [
            *((3, 2, 1, 1), (1, 9, 4, 3), (5, 4, 1, 1), (8, 4, 2, 1), (13, 3, 4, 2)),
            *((31, 8, 3, 1), (49, 7, 7, 1), (50, 6, 5, 3), (7, 2, 3, 3)),
        ],
        less=2,
    ),
)
def test_remainders(tmp_path, rows, world_size, size, epochs):
    counts = {"a": rows} | ({"b": 3} if rows % 3 else {})
    with titled(tmp_path / "toy.duckdb", counts) as corpus:
        arguments = {
            "kind": "texts",
            "recipes": [dp.TextRecipe("title", dp.role("anchor"))],
            "mixture": counts,
            "epochs": epochs,
            "columns": ["text_record_id", "padded"],
        }
        every = [f"{name}/r{i}" for name, n in counts.items() for i in range(n)]
        total, batch = epochs * sum(counts.values()), size * world_size
        for remainder in ("keep", "drop", "pad", "distinct"):
            arguments["no_duplicates"] = distinct = remainder == "distinct"
            arguments["options"] = dp.Options(remainder="keep" if distinct else remainder)
            if distinct and batch > len(every):  # it would be refused
                continue
            ranks = opened(corpus, world_size, total=batch, **arguments)
            taken = [list(rank) for rank in ranks]
            due = total // batch if remainder == "drop" else -(-total // batch)
            assert {len(rank) for rank in ranks} == {len(batches) for batches in taken} == {due}
            tables = [laid_end_to_end([batches[i] for batches in taken]) for i in range(due)]
            ids = [i for table in tables for i in table["text_record_id"].to_pylist()]
            marks = [mark for table in tables for mark in table["padded"].to_pylist()]
            if remainder in ("keep", "distinct"):
                assert Counter(ids) == dict.fromkeys(every, epochs)
            else:
                assert {len(b) for batches in taken for b in batches} <= {size}
            if remainder == "drop":  # at the end of the run only: others each epoch
                missed = [epochs - Counter(ids)[name] for name in every]
                assert sum(missed) == total % batch
                assert max(missed) <= -(-(total % batch) // len(every))
            assert marks == [False] * min(total, len(marks)) + [True] * max(0, len(ids) - total)


def test_a_finished_run_continues_with_more_epochs_and_other_ranks(corpus, tmp_path):
    """Its last batch was short: the next one begins where that ended."""
    state = tmp_path / "state.duckdb"
    how = {"recipes": [PAIR], "columns": ["anchor_record_id"]}
    ranks = opened(corpus, 2, epochs=1, options=dp.Options(state=state), mixture={"a": 1}, **how)
    ids = [i for rank in ranks for batch in rank for i in batch["anchor_record_id"]]
    assert {rank.position for rank in ranks} == {141}
    ranks[0].save()
    for rank in range(3):
        resumed = corpus.resume(state=state, rank=rank, world_size=3, epochs=4)
        ids += [i for batch in resumed for i in batch["anchor_record_id"]]
    assert Counter(ids) == {f"a/r{i}": 4 for i in range(141)}


@pytest.mark.parametrize("more", some([{"kind": "labelled_pairs", "negatives": 4}, {}], less=1))
def test_a_rank_plans_its_own_positions_only(corpus, monkeypatch, more):
    planned = []
    planned_by = PartPlanner._planned

    def recorded(self, numbers, *more):
        planned.append(len(numbers))
        return planned_by(self, numbers, *more)

    monkeypatch.setattr(PartPlanner, "_planned", recorded)
    how = {"recipes": [PAIR], "mixture": PHASED, **more}
    (rank,) = opened(corpus, 12, **how)[5:6]
    planned.clear()
    for _ in range(20):
        next(rank)
    assert 40 // (5 if more else 1) <= sum(planned) <= 256
    alone = opened(corpus, 1, **how)[0]
    for _ in range(20):
        next(alone)
    planned.clear()
    assert counts_of(rank) == counts_of(alone)  # counted when it is asked for
    assert sum(planned) >= 20 * TOTAL // 5
    planned.clear()
    assert rank.state_dict() == alone.state_dict()
    assert planned == []


def test_ranks_stay_one_run_wherever_they_go(corpus):
    draw = random.Random(5)
    (alone,), ranks = (
        opened(corpus, size, recipes=[PAIR], options=dp.Options(swap=True)) for size in (1, 3)
    )
    for _ in range(90):
        what = draw.random()
        epoch, weights = draw.randrange(3), {"a": draw.random(), "b": draw.random()}
        if what < 0.6:
            batches = [next(rank) for rank in ranks]
            if len({batch.step for batch in batches}) == 1:
                assert laid_end_to_end(batches).equals(next(alone).table.combine_chunks())
        else:
            for sampler in (alone, *ranks):
                sampler.set_epoch(epoch) if what < 0.9 else sampler.set_weights(weights)
        if draw.random() < 0.1:
            assert counts_of(ranks[1]) == counts_of(alone)
    assert [rank.state_dict() for rank in ranks] == [alone.state_dict()] * 3


WAYS = [{}, {"batch_by": "source"}, {"no_duplicates": True}]


@pytest.mark.parametrize(
    ("total", "size", "more"),
    some([(*size, more) for size in ((8, 2), (24, 3), (50, 1), (120, 4)) for more in WAYS], less=5),
)
def test_an_epoch_begins_with_a_batch_that_no_other_way_would_serve_differently(
    corpus, tmp_path, total, size, more
):
    how = {"recipes": [PAIR], "total": total, **more}
    (alone,), ranks = opened(corpus, 1, **how), opened(corpus, size, **how)
    for epoch in (2, 1):
        first = -(-epoch * alone.epoch_length // total)
        for sampler in (alone, *ranks):
            sampler.set_epoch(epoch)
            assert (sampler.position, sampler.step) == (first * total, first)
        batches = [next(alone) for _ in range(2)]
        for batch in batches:
            assert batch.table.equals(alone.batch_at(batch.step).table)
            whole = laid_end_to_end([next(rank) for rank in ranks])
            assert whole.equals(batch.table.combine_chunks())
        state = alone.save(path=tmp_path / f"{epoch}.duckdb", step=batches[0].step + 1)
        with corpus.resume(state=state) as resumed:
            for batch in batches[1:]:
                assert next(resumed).table.equals(batch.table)


def test_a_run_inside_a_batch_takes_its_rest_and_then_whole_batches(corpus, tmp_path):
    def served(samplers):
        return [laid_end_to_end(batches) for batches in zip(*samplers, strict=True)]

    length = 141 + 166
    run = {"recipes": [PAIR], "total": TOTAL}
    (once,), state = opened(corpus, 1, **run, epochs=1), tmp_path / "s.duckdb"
    before = [batch.position for batch in once]
    assert before[-1] + TOTAL > length
    once.save(path=state)
    (twice,) = opened(corpus, 1, **run, epochs=2)
    expected = pa.concat_tables(batch.table for batch in twice).slice(length)
    for size in (1, 3):
        how = {
            "batch_size": TOTAL // size,
            "world_size": size,
            "epochs": 2,
            "options": dp.Options(prefetch=0),
        }
        ranks = [corpus.resume(state=state, rank=rank, **how) for rank in range(size)]
        (ahead,) = [*ranks[0].peek(1)]
        assert len(ahead) == (TOTAL - length % TOTAL) // size
        found = served(ranks)
        assert [len(table) for table in found[:2]] == [TOTAL - length % TOTAL, TOTAL]
        assert pa.concat_tables(found).equals(expected)
    # workers of a rank, too: the first has the rest
    workers = [corpus.resume(state=state, epochs=2) for _ in range(3)]
    for number, worker in enumerate(workers):
        worker.stride(number, 3)
    found = sorted((batch for worker in workers for batch in worker), key=lambda of: of.position)
    assert pa.concat_tables(batch.table for batch in found).equals(expected)
