"""Any number of threads use a corpus, or a sampler, at once, and get what one alone would."""

import random
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from threading import Barrier

import pytest
from effort import often, some, thorough
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.search.index import index as build_index

THREADS = 8
RECIPE = dp.TripletRecipe("r", dp.role("anchor"), dp.role("context"), dp.role("context"))


def batches(sampler, steps=3):
    with closing(sampler):
        return [batch.to_pydict() for batch in islice(sampler, steps)]


def views(corpus):
    with corpus.sampler(batch_size=16, options=dp.Options(prefetch=0)) as sampler:
        served = [sampler.served(5, 40).to_pylist(), sampler.plan(2).to_pylist()]
        ahead = [batch.to_pydict() for batch in sampler.peek(2)]
        return [*served, ahead, sampler.batch_at(7).to_pydict(), sampler.state_dict()]


# Every public method that reads.
READING = {
    "version": lambda c: c.version,
    "count": lambda c: (c.count(), c.count(split="train"), c.count(source="bravo")),
    "sources": lambda c: c.sources().to_pylist(),
    "recipes": lambda c: c.recipes(),
    "runnable_sql": lambda c: c.pool("r", source="alpha", sql=True),
    "pool": lambda c: c.pool("r", source="alpha").to_pylist(),
    "sql": lambda c: c.sql("SELECT sum(record_key) FROM records WHERE trust > $x", {"x": 0.1}),
    "status": lambda c: c.status(),
    "capacity": lambda c: c.status()["capacity"],
    "unfinished": lambda c: c.unfinished(),
    "data_index": lambda c: list(c.data_index("train")),
    "search": lambda c: c.search("river stone", 5).to_pylist(),
    "read": lambda c: [b.to_pydict() for b in c.read(range(60), batch_size=16)],
    "triplets": lambda c: batches(c.sampler("triplets", batch_size=16)),
    "pairs": lambda c: batches(c.sampler("labelled_pairs", batch_size=16)),
    "texts": lambda c: batches(c.sampler("texts", batch_size=16, options=dp.Options(prefetch=0))),
    "views": views,
    "resume": lambda c: batches(c.resume()),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a corpus and its saved run."""
    folder = tmp_path_factory.mktemp("threads")
    with toy_corpus(folder / "c.duckdb", 60, sources=("alpha", "bravo")) as corpus:
        corpus.add_recipe(RECIPE)
        build_index(corpus, dp.Terms(stemmer="none"))
        with corpus.sampler(batch_size=16) as sampler:
            next(sampler)
            sampler.save()
    return folder


@pytest.fixture
def corpus(tmp_path, made):
    for file in made.iterdir():
        shutil.copy(file, tmp_path)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        yield corpus


@pytest.mark.parametrize("read_only", some([True, False], less=1))
def test_threads_read_what_one_reads_alone(corpus, read_only):
    if read_only:
        path = corpus.path
        corpus.close()
        corpus = dp.Corpus(path, read_only=True)
    expected = {name: read(corpus) for name, read in READING.items()}
    calls = [*READING] * often(50, less=1)
    random.Random(1).shuffle(calls)

    def differs(name):
        return None if READING[name](corpus) == expected[name] else name

    with ThreadPoolExecutor(THREADS) as threads:
        found = Counter(threads.map(differs, calls))
    corpus.close()
    assert found == {None: len(calls)}


@pytest.mark.parametrize("prefetch", [0, 2])
def test_each_batch_goes_to_one_thread(corpus, prefetch):
    steps = 200
    options = {"batch_size": 16, "steps": steps}
    with corpus.sampler(**options) as alone:
        expected = {batch.step: batch["anchor"] for batch in alone}
    sampler = corpus.sampler(**options, options=dp.Options(prefetch=prefetch))
    with ThreadPoolExecutor(THREADS) as threads:
        taken = [threads.submit(list, sampler) for _ in range(THREADS)]
        batches = [batch for part in taken for batch in part.result()]
    assert len(batches) == steps
    assert {batch.step: batch["anchor"] for batch in batches} == expected


def test_threads_close_what_another_is_closing(corpus):
    together = Barrier(THREADS)

    def close(one):
        together.wait(60)
        one.close()

    with ThreadPoolExecutor(THREADS) as threads:
        for _ in range(often(50, less=10)):
            one = dp.Corpus(corpus.path)
            sampler = one.sampler(batch_size=16)
            next(sampler)
            list(threads.map(close, [one] * THREADS))


def test_threads_change_a_corpus_one_after_the_other(corpus):
    before, rounds = corpus.count(), often(12, less=4)

    def ingest(number):
        rows = [{"id": f"{number}-{i}", "text": f"text {number} {i}"} for i in range(50)]
        report = corpus.ingest(rows, name=f"s{number % 3}", id="id", text="text")
        assert corpus.count() >= before + 50
        return report.version

    with ThreadPoolExecutor(THREADS) as threads:
        versions = list(threads.map(ingest, range(rounds)))
    assert len(set(versions)) == rounds
    assert corpus.count() == before + rounds * 50


PAGES = often(3, less=2)


class Reading:
    """A source that looks at the corpus that is reading it."""

    name = "reading"

    def __init__(self, look):
        self.look = look

    def batches(self, cursor):
        for number in range(PAGES):
            yield [{"id": str(number), "text": f"{number}: {self.look()}"}], str(number)


def test_an_ingest_leaves_statements_of_other_threads_their_memory(corpus):
    """It gives back what DuckDB holds at each commit, by a limit that holds for all connections."""
    with ThreadPoolExecutor(1) as pool, closing(corpus.database.cursor()) as other:
        much = "SELECT count(DISTINCT i) AS n FROM range($n) AS t(i)"
        found = pool.submit(lambda: [other.arrow(much, {"n": 300_000 + i}) for i in range(12)])
        while not found.done():
            corpus.database.shed()
        assert [t["n"].to_pylist() for t in found.result()] == [[300_000 + i] for i in range(12)]


def test_a_source_reads_its_own_corpus_and_does_not_change_it(corpus):
    before = corpus.count()
    reading = ("count", "search", "read", "resume")
    report = corpus.ingest(Reading(lambda: [bool(READING[name](corpus)) for name in reading]))
    assert (report.added, corpus.count()) == (PAGES, before + PAGES)
    with pytest.raises(dp.SourceError, match=r"cannot split .* from within a source"):
        corpus.ingest(Reading(lambda: corpus.split(reassign=True)))
    assert corpus.split(seed=0)  # nobody holds the right to it any more


@thorough
def test_threads_save_and_look_at_the_same_state_file(corpus):
    """Whoever finds the file open for a save waits for the moment that it takes."""
    saves, writers = often(40, less=2), often(4, less=2)

    def save(number):
        with corpus.sampler(
            run=f"run {number}", batch_size=4, options=dp.Options(prefetch=0)
        ) as sampler:
            for _ in range(saves):
                next(sampler)
                sampler.save()
                assert f"run {number}" in {row["run"] for row in corpus.status()["runs"]}

    with ThreadPoolExecutor(writers) as threads:
        list(threads.map(save, range(writers)))
    steps = {row["run"]: row["step"] for row in corpus.status()["runs"]}
    assert {steps[f"run {number}"] for number in range(writers)} == {saves}
