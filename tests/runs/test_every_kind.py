"""What every run promises, over every kind of run there is: one table of kinds, one of promises."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pytest
from corpora import counts_of
from effort import THOROUGH, often, some
from frozen_runs import CORPORA, RUNS, opener
from prebuilt import copied

import duckplets as dp
from duckplets.testing import assert_resumes_everywhere

STEPS, TOTAL = often(6, less=4), 12
NAMES = [
    *("negatives_4", "no_duplicates", "half_bm25", "labelled", "messages", "vectors"),
    "tokens_packed",
]
WITHOUT_VECTORS = [n for n in RUNS if "tokens" not in n and n != "vectors" and "rank" not in n]
EVERY = pytest.mark.parametrize("name", [n for n in RUNS if n in NAMES or THOROUGH])


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with ExitStack() as stack:
        yield opener(tmp_path_factory.mktemp("kinds"), stack)


def run_of(name):
    """Return the corpus of a kind of run, and its arguments."""
    run = {**RUNS[name], "batch_size": TOTAL}
    for other in ("rank", "world_size", "position", "told"):
        run.pop(other, None)
    if run.get("of") == "tokens":
        run["seq_length"] = 24
        return run.pop("of"), run
    run["options"] = replace(run.get("options", dp.Options()), prefetch=0)
    if vectors := run.pop("more", None):
        run["columns"] = ["anchor", "source", "recipe", *vectors]
    return run.pop("of", "toy"), run


def tables(sampler, steps):
    return [batch.table.combine_chunks() for batch in islice(sampler, steps)]


@EVERY
def test_batches_are_those_of_the_step_whatever_ranks_and_saves_led_to_it(name, opened, tmp_path):
    corpus, run = run_of(name)
    of, state = opened(corpus), tmp_path / "s.duckdb"

    def sampler(ranks=1, rank=0, **how):
        size = {"batch_size": TOTAL // ranks, "world_size": ranks, "rank": rank}
        if corpus == "tokens":
            return of.sampler(**{**run, **size, "state": state, **how})
        options = replace(run["options"], state=state, **how)
        return of.sampler(**{**run, **size, "options": options})

    whole = sampler(prefetch=2)
    batches = tables(whole, STEPS)
    assert len({str(table.to_pydict()) for table in batches}) == STEPS
    assert_resumes_everywhere(sampler(), 3)
    for world in some((3, 2), less=1):
        ranks = [sampler(world, rank) for rank in range(world)]
        for table in batches:
            parts = pa.concat_tables(next(rank).table for rank in ranks)
            assert parts.combine_chunks().equals(table), world
        assert all(rank.state_dict() == ranks[0].state_dict() for rank in ranks)
        assert all(counts_of(rank) == counts_of(whole) for rank in ranks)
    ranks[1].save()
    following = tables(whole, 2)
    number = often(4, less=2)
    others = [of.resume(state=state, rank=rank, world_size=number) for rank in range(number)]
    for table in following:
        parts = pa.concat_tables(next(rank).table for rank in others)
        assert parts.combine_chunks().equals(table)
    assert counts_of(others[-1]) == counts_of(whole)


@EVERY
def test_what_is_planned_served_counted_and_forecast_is_what_is_taken(name, opened):
    corpus, run = run_of(name)
    sampler = opened(corpus).sampler(**run)
    end = STEPS * TOTAL
    plan, forecast = sampler.plan(STEPS), sampler.forecast(STEPS).table.to_pylist()
    taken = [row for table in tables(sampler, STEPS) for row in table.to_pylist()]
    served = sampler.served(0, end)
    assert served.equals(plan)
    assert sampler.served(5, end - 9).equals(served.slice(5, end - 14))
    rows = served.to_pylist()
    same = {"source", "recipe", "label", "row", "bucket"} & rows[0].keys() & taken[0].keys()
    assert [[row[n] for n in same] for row in rows] == [[row[n] for n in same] for row in taken]
    assert [row["step"] for row in rows] == [position // TOTAL for position in range(end)]
    counted = Counter(row["source"] for row in rows)
    metrics = sampler.metrics()
    assert {n: metrics[f"data/{n}/samples"] for n in counted} == counted
    due = Counter(row.get("displaced") or row["source"] for row in rows)
    expected = Counter[str]()
    for row in forecast:
        expected[row["source"]] += row["samples"]
    assert +expected == due
    sampler.close()


@pytest.mark.parametrize("name", [n for n in WITHOUT_VECTORS if n in NAMES[::3] or THOROUGH])
def test_a_snapshot_serves_the_same(name, tmp_path):
    corpus, run = run_of(name)
    copied(tmp_path / "c.duckdb", CORPORA[corpus])
    with dp.Corpus(tmp_path / "c.duckdb", read_only=True) as of:

        def served():
            with of.sampler(**run) as sampler:
                return tables(sampler, 3)

        expected = served()
        of.prepare()
        for _ in range(2):  # the second takes the pools that the first one kept
            assert served() == expected
