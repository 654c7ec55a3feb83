"""Killed at random moments (kill -9): files open, ingests are whole or absent, saves survive.

A *nursery*, this file run as a script, imports the package once and forks a child a round; the
child opens the files, works and tells what it has completed, until it is killed. DuckDB is first
opened after the fork: its threads do not come along.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from effort import kills, often, some, thorough
from programs import python

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.corpus.corpus import Corpus
from duckplets.db.database import Database
from duckplets.pools.compile import compile_pool
from duckplets.runs import state
from duckplets.sources import row_batches

ROUNDS = kills(20, less=2)
RECORDS = often(1_500, less=300)  # an ingest: of two sections, in three batches
BATCH = 16  # samples a step
CHUNKING = dp.Chunking(max_tokens=12, overlap=(2,), summary_tokens=6)
RECIPE = dp.TripletRecipe("r", dp.role("anchor"), dp.role("context"), dp.role("context"))


# ---- in the child


def tell(*what):
    os.write(1, f"{' '.join(map(str, what))}\n".encode())


def rows(version, size=RECORDS):
    """Return what the ingest of a version stores: new records, then others in their place."""
    family = (version + 1) // 2
    records = [
        {
            "id": f"{family}-{i}",
            "title": f"title {version} {i}",
            "body": " ".join(f"w{(i * k) % 97}" for k in range(1, 40)) + f" {version} {i}",
        }
        for i in range(size)
    ]
    return dp.sources.MemorySource(records, id="id", anchor="title", positive="body")


def ingest(path, times=None):
    """Ingest one version after the other, and open the file anew after every second."""
    row_batches.MAX_ROWS = RECORDS // 3 + 1
    tell("ready")
    for _ in count() if times is None else range(times):
        with Corpus(path) as corpus:
            for _ in range(2):
                report = corpus.ingest(rows(corpus.version + 1), name="s", on_conflict="replace")
                tell(report.version)


def save(path, saves=None):
    """Take a batch and save, again and again, from where the last save was."""
    with Corpus(path, read_only=True) as corpus:
        try:
            sampler = corpus.resume(options=dp.Options(prefetch=0))
        except dp.StateMismatchError:  # no save was completed
            sampler = corpus.sampler(
                recipes=[RECIPE], batch_size=BATCH, options=dp.Options(prefetch=0)
            )
        tell("ready", sampler.position)
        for _ in count() if saves is None else range(saves):
            next(sampler)
            sampler.save()
            tell(sampler.position)


def create(path):
    """Create a corpus."""
    tell("ready")
    Corpus(path).close()
    tell("created")


def hold(path, how):
    """Keep a file open."""
    with closing(Database.open(path, read_only=how == "read")):
        tell("ready")
        signal.pause()


def fill(path, room):
    """Ingest by the command line, where no file may grow beyond a size."""
    from duckplets.cli import main

    os.dup2(1, 2)  # what is said goes to the parent
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    main(["ingest", str(path), str(path.with_name("more.csv")), "--text", "text"])


JOBS = {job.__name__: job for job in (ingest, save, create, hold, fill)}


def nursery():
    """Fork a child for every line of input, and tell its end.

    Compiling a recipe opens nothing and imports what is imported on first use.
    None is reaped before the nursery ends: no other process can get the number of one that is
    to be killed.
    """
    compile_pool(RECIPE, source="s", split="train", version=1).sql()
    for line in sys.stdin:
        job, path, *numbers = line.split("\t")
        child = os.fork()
        if child == 0:
            tell("child", os.getpid())
            code = 0
            try:
                given = [int(n) if n.strip().isdigit() else n.strip() for n in numbers]
                JOBS[job](Path(path.strip()), *given)
            except SystemExit as left:
                code = int(left.code or 0)
            except BaseException as error:
                tell("error", repr(error))
                code = 99
            os._exit(code)
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        tell("end", ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)


# ---- in the tests


class Child:
    """A child at work; what it tells is read line by line."""

    def __init__(self, process, job, *arguments):
        assert process.stdin
        assert process.stdout
        print(job, *arguments, sep="\t", file=process.stdin, flush=True)
        self._lines = process.stdout
        self.told = []
        self.code = None
        word, pid = self._lines.readline().split()
        assert word == "child"
        self.pid = int(pid)

    def first(self):
        """Return the next line it tells."""
        return self._lines.readline().strip()

    def has_done_one(self):
        """Wait until it has told of something done: chance alone may kill every child before."""
        self.told.append(self.first())

    def kill(self):
        """Kill it, unless it has ended, and return what it told until then."""
        os.kill(self.pid, signal.SIGKILL)
        return self.end()

    def end(self):
        """Wait for its end, and return what it told until then."""
        for line in self._lines:
            if line.startswith("end "):
                self.code = int(line.split()[1])
                return self.told
            self.told.append(line.strip())
        raise AssertionError(f"the nursery is gone after {self.told}")


@pytest.fixture(scope="module")
def start():
    """Start a job in a child: ``start("ingest", path)``."""
    with python(__file__, stdin=subprocess.PIPE, stderr=None) as process:
        children = []

        def started(job, *arguments):
            if children and children[-1].code is None:
                children[-1].kill()  # its test has failed
            children.append(Child(process, job, *arguments))
            return children[-1]

        yield started
        if children and children[-1].code is None:
            children[-1].kill()  # its test has failed


def seconds_of(start, job, *arguments):
    """Return how long a job takes from its first line to its end, when nobody kills it."""
    child = start(job, *arguments)
    child.first()
    began = time.monotonic()
    child.end()
    assert child.code == 0, child.told
    return time.monotonic() - began


def sound(path):
    """Check that a corpus and its state file open and keep every promise of the schema."""
    assert [check.what for check in doctor.corpus(path) if not check.ok] == []


def whole(corpus):
    """Check that every version is there with all its rows, and nothing else is."""
    versions = corpus.sql(
        "SELECT added_version AS version, count(*) AS rows, count(removed_version) AS removed "
        "FROM records GROUP BY 1 ORDER BY 1"
    ).to_pylist()
    last = len(versions)
    assert versions == [
        # Each second one replaces the one before.
        {"version": n, "rows": RECORDS, "removed": RECORDS if n % 2 and n < last else 0}
        for n in range(1, last + 1)
    ]
    assert corpus.version == last
    assert corpus.sql("SELECT count(*) AS n FROM sections")["n"][0].as_py() == 2 * RECORDS * last
    assert corpus.sql("SELECT count(*) AS n FROM splits")["n"][0].as_py() == RECORDS * last


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A corpus with settings and nothing in it."""
    path = tmp_path_factory.mktemp("empty") / "c.duckdb"
    with dp.Corpus(path) as corpus:
        corpus.split()
        corpus.chunk(CHUNKING)
    return path


@thorough
def test_a_killed_ingest_is_whole_or_absent(start, empty, tmp_path):
    draw = random.Random(1)
    path = tmp_path / "first.duckdb"
    shutil.copy(empty, path)
    longest = seconds_of(start, "ingest", path, 1)
    with dp.Corpus(path) as corpus:
        whole(corpus)
    versions = []
    for number in range(kills(ROUNDS, less=4)):
        if number % 10 == 0:  # files that stay small, so that rounds stay short
            known = 0
            path = tmp_path / f"c{number}.duckdb"
            shutil.copy(empty, path)
        child = start("ingest", path)
        assert child.first() == "ready"
        if number % 2:
            child.has_done_one()
        time.sleep(draw.uniform(0, longest))
        told = [int(line) for line in child.kill()]
        assert child.code == -signal.SIGKILL
        assert told == list(range(known + 1, known + 1 + len(told)))
        sound(path)
        with dp.Corpus(path, read_only=bool(number % 3)) as corpus:
            # One that was committed may not have been told yet.
            assert corpus.version in (known + len(told), known + len(told) + 1)
            known = corpus.version
            whole(corpus)
        versions.append(known)
    assert max(versions) > 1


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "toy.duckdb"
    with dp.Corpus(path) as corpus:
        corpus.ingest(rows(1, 200), name="s")
        corpus.split()
    return path


@pytest.fixture
def toy(made, tmp_path):
    return Path(shutil.copy(made, tmp_path))


def test_a_killed_save_leaves_the_last_one(start, toy):
    draw = random.Random(2)
    longest = seconds_of(start, "save", toy, 3)
    state_path = state.state_path(toy)
    state_path.unlink()
    saved, empties = 0, 0
    for number in range(ROUNDS):
        if number % 5 == 0:  # the first save creates the file
            for file in toy.parent.glob("toy.state*"):
                file.unlink()
            saved = 0
        child = start("save", toy)
        assert child.first() == f"ready {saved}"
        if number % 2:
            child.has_done_one()
        time.sleep(draw.uniform(0, longest))
        told = [saved, *map(int, child.kill())]
        assert child.code == -signal.SIGKILL
        assert told == list(range(saved, saved + BATCH * len(told), BATCH))
        if len(told) == 1 and saved == 0:
            empties += 1
            if not state.cursors(state_path):
                continue
        cursor = state.load(state_path, "default")
        assert cursor.kind == "triplets"
        # One that was committed may not have been told yet.
        assert cursor.position in (told[-1], told[-1] + BATCH)
        assert cursor.step * BATCH == cursor.position
        assert len(state.cursors(state_path)) == 1
        saved = cursor.position
        if number % 5 == 4:
            sound(toy)
    assert empties < ROUNDS
    if not state.cursors(state_path):  # the last ones were killed before their first save
        return
    with dp.resume(toy) as resumed, dp.Corpus(toy, read_only=True) as corpus:
        assert resumed.position == saved
        expected = corpus.sampler(recipes=[RECIPE], batch_size=BATCH).batch_at(resumed.step)
        assert next(resumed).table.equals(expected.table)


@thorough
def test_a_killed_creation_leaves_no_file_or_a_whole_one(start, tmp_path):
    draw = random.Random(3)
    longest = seconds_of(start, "create", tmp_path / "first.duckdb")
    for number in range(ROUNDS):
        path = tmp_path / f"c{number}.duckdb"
        child = start("create", path)
        assert child.first() == "ready"
        time.sleep(draw.uniform(0, longest))
        told = child.kill()
        assert child.code in (0, -signal.SIGKILL)
        assert path.exists() or not told
        if path.exists():
            with dp.Corpus(path, read_only=True) as corpus:
                assert corpus.version == 0
    with dp.Corpus(path) as corpus:  # what a killed creation left lying does not matter
        assert corpus.ingest(rows(1)).added == RECORDS
    sound(path)


# ---- several processes at once


def test_the_file_of_a_writer_is_locked(start, toy):
    child = start("hold", toy, "write")
    assert child.first() == "ready"
    for read_only in (False, True):
        with pytest.raises(dp.errors.CorpusLockedError, match=f"process {child.pid}") as told:
            dp.Corpus(toy, read_only=read_only)
        assert str(toy) in str(told.value)
    child.kill()
    dp.Corpus(toy).close()


def test_readers_share_a_file(start, toy):
    child = start("hold", toy, "read")
    assert child.first() == "ready"
    with dp.Corpus(toy, read_only=True) as corpus, dp.Corpus(toy, read_only=True) as other:
        sampler, same = corpus.sampler(batch_size=BATCH), other.sampler(batch_size=BATCH)
        assert next(sampler).table.equals(next(same).table)
        assert sampler.save().exists()  # the state file is another
    with pytest.raises(dp.errors.CorpusLockedError, match=f"process {child.pid}.*read_only=True"):
        dp.Corpus(toy)
    child.kill()


def test_a_save_waits_for_who_looks_at_the_state_file(start, toy, monkeypatch):
    with dp.Corpus(toy, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=BATCH)
        path = sampler.save()
        next(sampler)
        child = start("hold", path, "read")
        assert child.first() == "ready"
        assert state.load(path, "default").position == 0  # looking goes on meanwhile
        with monkeypatch.context() as patch:
            patch.setattr("duckplets.db.short_open._LOCK_PATIENCE", 0.1)
            with pytest.raises(dp.errors.CorpusLockedError, match=f"process {child.pid}"):
                sampler.save()
        assert state.load(path, "default").position == 0
        leaving = threading.Timer(0.2, os.kill, [child.pid, signal.SIGKILL])
        leaving.start()
        sampler.save()
        leaving.join()
        child.end()
        assert state.load(path, "default").position == BATCH


# ---- a full disk


@pytest.mark.parametrize(
    ("records", "room"),
    some([(1_000, 200_000), (10, 0), (1_000, 20_000), (60_000, 2_000_000)], less=1),
)
def test_a_full_disk_leaves_the_corpus_as_it_was(start, toy, records, room):
    """A file that may not grow fails as one on a full disk does: in a write."""
    lines = [f'"text {i} {"word " * 40}"' for i in range(records)]
    toy.with_name("more.csv").write_text("\n".join(["text", *lines]) + "\n")
    with dp.Corpus(toy, read_only=True) as corpus:
        before = corpus.version, corpus.sql("FROM section_texts ORDER BY ALL")
    child = start("fill", toy, room)
    told = child.end()
    assert child.code == 1
    assert len(told) == 1, told
    assert "ile too large" in told[0]
    assert "Traceback" not in told[0]
    with dp.Corpus(toy, read_only=True) as corpus:
        assert (corpus.version, corpus.sql("FROM section_texts ORDER BY ALL")) == before
    sound(toy)
    with dp.Corpus(toy) as corpus:
        source = dp.sources.CsvSource(toy.with_name("more.csv"), text="text")
        assert corpus.ingest(source).added == records


if __name__ == "__main__":
    nursery()
