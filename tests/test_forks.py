"""What a process inherits by a fork reads on connections of its own, or says at once why not."""

import multiprocessing
import os
import threading
import time
from contextlib import contextmanager
from weakref import ref

import pytest
from effort import THOROUGH, often, some
from prebuilt import toy_corpus
from programs import said

import duckplets as dp
from duckplets.base.prefetch import Lookahead
from duckplets.search.index import index as build_index

# Python 3.12 warns of what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

# The system forks no process whose address space is larger than the memory, as that of a whole
# suite may be. So the others run in a process of their own.
INSIDE = "DUCKPLETS_TESTS_OF_FORKS"
inside = pytest.mark.skipif(INSIDE not in os.environ, reason="runs in a process of its own")

LIMIT = 60  # seconds for what takes a tenth of one
RIGHT, REFUSED = "right", "refused"


def forked(job):
    """Run a job in a forked child that ends as programs end; return what it told.

    Raises:
        AssertionError: It hung, or died of a signal.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            try:
                said = repr(job())
            except dp.DuckpletsError as error:
                said = f"{type(error).__name__}: {error}"
            except BaseException as error:
                said = f"foreign {error!r}"
            os.write(writing, said.encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    deadline, ended = time.monotonic() + LIMIT, 0
    try:
        while not ended:
            assert time.monotonic() < deadline, "the child hangs"
            time.sleep(0.005)
            ended, status = os.waitpid(child, os.WNOHANG)
        assert status == 0, f"the child ended with {status}"
        return os.read(reading, 1 << 16).decode()
    finally:
        os.close(reading)
        if not ended:
            os.kill(child, 9)
            os.waitpid(child, 0)


@contextmanager
def at_work(path, *, read_only):
    """Open a corpus, a sampler with blocks under way, and records that are half read."""
    with dp.Corpus(path, read_only=read_only) as corpus:
        sampler = corpus.sampler(batch_size=4)
        records = corpus.read(range(100), batch_size=10)
        next(sampler)
        next(iter(records))
        yield corpus, sampler, records


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("forks") / "c.duckdb"
    toy_corpus(path, 120).close()
    return path


ROWS = dp.sources.MemorySource([{"text": "one"}, {"text": "two"}], text="text")

# What a child does with what it inherited, and what becomes of it by whether the parent had the
# corpus open to read or for writing.
JOBS = {
    "count": (lambda c, s, r: c.count() == 120, RIGHT, REFUSED),
    "sql": (lambda c, s, r: c.sql("FROM records").num_rows == 120, RIGHT, REFUSED),
    "sampler": (lambda c, s, r: len(next(c.sampler(batch_size=4))) == 4, RIGHT, REFUSED),
    "read": (lambda c, s, r: sum(map(len, c.read(range(50)))) == 50, RIGHT, REFUSED),
    "open": (lambda c, s, r: dp.Corpus(c.path, read_only=True).count() == 120, RIGHT, REFUSED),
    "next": (lambda c, s, r: next(s), REFUSED, REFUSED),
    "batch_at": (lambda c, s, r: s.batch_at(5), REFUSED, REFUSED),
    "served": (lambda c, s, r: s.served(0, 9), REFUSED, REFUSED),
    "save": (lambda c, s, r: s.save(), REFUSED, REFUSED),
    "set_weights": (lambda c, s, r: s.set_weights({"toy": 2}), REFUSED, REFUSED),
    "records": (lambda c, s, r: list(r), REFUSED, REFUSED),
    "ingest": (lambda c, s, r: c.ingest(ROWS), REFUSED, REFUSED),
    "split": (lambda c, s, r: c.split(reassign=True), REFUSED, REFUSED),
    "index": (lambda c, s, r: build_index(c), REFUSED, REFUSED),
    "close": (lambda c, s, r: (s.close(), r.close(), c.close()) == (None,) * 3, RIGHT, RIGHT),
}


@inside
@pytest.mark.parametrize("read_only", [True, False])
def test_a_forked_child_reads_rightly_or_says_why_not(path, read_only):
    with at_work(path, read_only=read_only) as (corpus, sampler, records):
        expected = sampler.batch_at(1).to_pydict()
        for name, (job, *outcomes) in some(JOBS.items(), less=6):
            told = forked(lambda: job(corpus, sampler, records))  # noqa: B023
            if outcomes[not read_only] == RIGHT:
                assert told == "True", name
            else:
                kind = "ReadOnlyError" if "read-only" in told else "CorpusLockedError"
                assert told.startswith(kind), f"{name}: {told}"
                assert "read_only=True" in told or "process" in told or "Corpus(" in told, told
        # What the children did is not felt here.
        assert next(sampler).to_pydict() == expected
        assert corpus.count() == 120
    with dp.Corpus(path) as corpus:
        assert corpus.version == 1


@inside
def test_forks_while_threads_read_and_open(path):
    """Locks that other threads hold at that moment are of no matter to the child."""
    done = threading.Event()

    def read():
        while not done.is_set():
            with dp.Corpus(path, read_only=True) as other, other.sampler(batch_size=4) as sampler:
                assert len(next(sampler)) == 4
                assert other.count() == 120

    threads = [threading.Thread(target=read) for _ in range(often(3, less=1))]
    with at_work(path, read_only=True) as (corpus, _, _):
        for thread in threads:
            thread.start()
        try:
            for _ in range(often(100, less=2)):
                assert forked(lambda: corpus.count()) == "120"
                assert forked(lambda: len(next(corpus.sampler(batch_size=4)))) == "4"
        finally:
            done.set()
            for thread in threads:
                thread.join()


METHODS = some(["fork", "forkserver", "spawn"], less=1)  # the last two begin anew


def _counted(path, answers):
    with dp.Corpus(path, read_only=True) as corpus, corpus.sampler(batch_size=4) as sampler:
        answers.put((corpus.count(), next(sampler)["anchor"]))


class Slow:
    """Takes a while to be let go of, as an instance of DuckDB does."""

    gone = threading.Event()

    def __del__(self):
        time.sleep(0.3)
        self.gone.set()


@inside
def test_a_fork_waits_for_the_thread_of_what_was_dropped():
    """Else a worker of a DataLoader may find DuckDB's instance half closed, and wait for ever."""
    items = Lookahead([int, Slow], "of this test")
    assert next(items) == 0
    while not items.made:
        time.sleep(0.001)
    work = ref(items._work)
    del items
    while work() is not None:  # until its thread finds that it is dropped
        time.sleep(0.001)
    assert not Slow.gone.is_set()
    assert forked(Slow.gone.is_set) == "True"


@inside
@pytest.mark.parametrize("method", METHODS)
def test_processes_of_every_kind_read(path, method):
    context = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    with at_work(path, read_only=True) as (corpus, sampler, _):
        process = context.Process(target=_counted, args=(path, answers))
        process.start()
        try:
            process.join(LIMIT)
            assert process.exitcode == 0
            assert answers.get() == (corpus.count(), sampler.batch_at(0)["anchor"])
        finally:
            process.kill()


@pytest.mark.skipif(INSIDE in os.environ, reason="is what the others run in")
def test_in_a_small_process(path):
    if THOROUGH:
        told = said("-m", "pytest", "-q", "-n", "0", __file__, env={INSIDE: "1"})
        assert told.startswith("." * (3 + len(METHODS)))
    else:
        one = test_a_forked_child_reads_rightly_or_says_why_not.__name__
        code = f"from test_forks import *; {one}({str(path)!r}, True)"
        said("-W", "ignore::DeprecationWarning", "-c", code)
