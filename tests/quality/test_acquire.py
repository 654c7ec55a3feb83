"""Sources read side by side: as by one after the other, read on where they fail, ended for good."""

import os
import random
import signal
import subprocess
import threading
import time

import pyarrow as pa
import pytest
import test_kills
from described import ingested
from effort import THOROUGH, often, thorough
from gated_rows import GOOD, QUALITY, check, contents, ends, texts, written
from gated_sources import Pages, assert_nothing_is_left, some_rows, sources_of
from killed_intakes import assert_kills_change_nothing, dying, nursery
from prebuilt import empty_corpus
from programs import python
from test_kills import sound

import duckplets as dp
from duckplets.ingest import reading
from duckplets.sources import retry, row_batches


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Waits of a retry last no time."""
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.001)


@pytest.fixture
def corpus(tmp_path):
    with empty_corpus(tmp_path / "c.duckdb") as opened:
        yield opened
    assert_nothing_is_left(tmp_path)


def test_side_by_side_leaves_what_one_after_the_other_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    for seed in range(often(40, less=1)):
        draw = random.Random(seed)
        monkeypatch.setattr(row_batches, "MAX_ROWS", draw.randrange(2, 30))
        cap = draw.choice([{}, {"limit": 7}, {"size_mb": 0.0005}, {"limit": 0}])
        given = {"quality": QUALITY, "progress": False, "where": "text <> 'short'", **cap}
        with empty_corpus(tmp_path / f"{seed}-one.duckdb") as one:
            for number, source in enumerate(sources_of(seed, tmp_path)):
                setattr(source, "fails", []) if isinstance(source, Pages) else None
                ingested(one, source, name=f"s{number}", **given)
            expected, told = contents(one), ends(one)
        with empty_corpus(tmp_path / f"{seed}-two.duckdb") as two:
            named = {f"s{n}": s for n, s in enumerate(sources_of(seed, tmp_path))}
            monkeypatch.setattr(reading, "_BYTES_WAITING", draw.choice([100, 10_000, 10**9]))
            beside = {"readers": draw.randrange(1, 5)}
            reports = ingested(two, named, **beside, **given)
            assert ends(two) == told, seed
            assert contents(two) == expected, (seed, beside, cap)
            assert list(reports) == list(named)
            check(two)
            named = {f"s{n}": s for n, s in enumerate(sources_of(seed, tmp_path))}
            again = ingested(two, named, **given)
            assert sum(report.read for report in again.values()) == 0, seed
    assert_nothing_is_left(tmp_path)


def test_a_source_that_fails_now_and_then_gives_each_row_once(corpus, caplog):
    rows = [{"id": str(i), "text": GOOD.format(i)} for i in range(60)]
    fails = (0, 1, 7, 7, 8, 30, 31, 59)
    torn = Pages("torn", rows, page=8, fails=fails)
    reports = corpus.ingest(
        [torn, Pages("whole", rows[::-1])], quality=QUALITY, options=dp.IngestOptions(retries=4)
    )
    assert texts(corpus) == [row["text"] for row in rows]
    report = reports["torn"]
    assert (report.read, report.added) == (60, 60)
    assert reports["whole"].reasons == {"duplicates: same text": 60}
    assert len(torn.calls) == len(fails) + 1
    said = [note for note in report.notes if "read again" in note]
    assert len(said) == len(fails)
    assert said[0] == "read again (attempt 2): torn: after row 0: ConnectionResetError: gone"
    assert "reading continues there in 0.001 s (1 of 4 retries)" in caplog.text


def test_what_does_not_pass_ends_the_call_and_the_same_again_goes_on(corpus):
    rows = [{"id": str(i), "text": GOOD.format(i)} for i in range(20)]
    torn = Pages("torn", rows[:12], page=3, fails=(7, 7, 7, 7))
    named = [Pages("first", rows[:2]), torn, Pages("last", rows)]
    given = {"quality": QUALITY, "progress": False, "retries": 2}
    with pytest.raises(dp.SourceError, match="source 'torn': 3 attempts to read on after row"):
        ingested(corpus, named, **given)
    assert len(torn.calls) == 3
    assert corpus.sources()["name"].to_pylist() == ["first"]
    torn.fails.clear()
    reports = ingested(corpus, named, **given)
    assert {n: r.added for n, r in reports.items()} == {"first": 0, "torn": 10, "last": 8}
    assert texts(corpus) == [row["text"] for row in rows]


def test_with_keep_going_the_sources_after_one_that_failed_are_stored(corpus):
    rows = [{"id": str(i), "text": GOOD.format(i)} for i in range(9)]
    named = {
        "a": Pages("a", rows, fails=(5,), error=KeyError("no")),
        "b": Pages("b", rows),
        "c": dp.sources.JsonSource("/nowhere.jsonl", text="text"),
    }
    with pytest.raises(dp.SourceError) as caught:
        corpus.ingest(named, quality=QUALITY, options=dp.IngestOptions(keep_going=True))
    assert "2 sources of 3 failed" in str(caught.value)
    assert "source 'a': row 6: KeyError: 'no'" in str(caught.value)
    assert corpus.sources().select(["name", "records"]).to_pylist() == [{"name": "b", "records": 9}]
    assert len(named["a"].calls) == 1  # what does not pass is not tried again


def test_what_may_pass_is_told_from_what_does_not():
    class Answer(Exception):  # noqa: N818 - as packages name them
        def __init__(self, status):
            self.response = type("R", (), {"status_code": status})()

    passing = [TimeoutError(), OSError("x"), ConnectionRefusedError(), Answer(503)]
    passing += [OSError(110, "timed out"), dp.errors.PassingError("x"), Answer(429)]
    for error in passing:
        wrapped = dp.SourceError("x")
        wrapped.__cause__ = error
        assert retry.may_pass(wrapped, is_local=False), error
    lasting = [FileNotFoundError(), PermissionError(), ValueError(), Answer(404)]
    lasting += [dp.SourceError("x"), pa.ArrowInvalid("x")]
    for error in lasting:
        assert not retry.may_pass(error, is_local=False), error
    assert not retry.may_pass(OSError("damaged"), is_local=True)
    assert retry.may_pass(OSError(5, "I/O"), is_local=True)


WRONG = [
    ({"readers": 0}, "readers=0: give a whole number from 1"),
    ({"retries": -1}, "retries=-1: give a whole number from 0"),
    ({"on_conflict": "replace"}, "do not go with on_conflict='replace'"),
    ({"size_mb": -1}, "size_mb=-1"),
    ({"source": [5]}, "int has no batches()"),
    ({"source": ["x.jsonl"]}, "x.jsonl does not exist"),
    ({"name": "x"}, "name= and trust= are for one source"),
    ({"source": [Pages("p", []), Pages("p", [])]}, "two sources would be 'p': give them by"),
]


def test_wrong_arguments_are_refused_before_anything_is_read(corpus):
    pages = Pages("p", [{"text": GOOD}])
    for given, message in WRONG:
        arguments = {"source": [pages], "quality": QUALITY, "progress": False} | given
        with pytest.raises(dp.SourceError) as caught:
            ingested(corpus, **arguments)
        assert message in str(caught.value)
    assert (pages.calls, corpus.version) == ([], 0)


def test_shuffled_streams_are_refused(corpus):
    datasets = pytest.importorskip("datasets")
    rows = [{"id": str(i), "text": GOOD.format(i)} for i in range(9)]
    data = datasets.Dataset.from_list(rows)
    stream = data.to_iterable_dataset(num_shards=3)
    shuffled = stream.shuffle(seed=1, buffer_size=4).map(lambda row: row).take(5)
    source = dp.sources.DatasetSource(shuffled, text="text", id="id")
    told = r"is shuffled as it streams.*without .shuffle"
    with pytest.raises(dp.SourceError, match=told):
        corpus.ingest([source], quality=None)
    with pytest.raises(dp.SourceError, match=told):
        corpus.ingest(source, limit=5)
    assert corpus.version == 0
    found = {
        "stream": dp.sources.DatasetSource(stream, text="text", id="id"),
        "held": dp.sources.DatasetSource(data.shuffle(seed=1), text="text", id="id"),
    }
    reports = corpus.ingest(found, quality=QUALITY)
    assert [report.added for report in reports.values()] == [9, 0]


def test_what_ends_the_writer_ends_the_readers(corpus, monkeypatch):
    rows = [{"id": str(i), "text": GOOD.format(i)} for i in range(1000)]

    def endless(name):
        return Pages(name, rows, page=1, sleep=0.01, fails=())

    def interrupted(sources):
        timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            corpus.ingest(sources, quality=QUALITY)
        assert time.monotonic() - started < 8
        timer.join()

    interrupted([endless(name) for name in "abc"])
    # While a source waits to be read again, too.
    monkeypatch.setattr(retry, "FIRST_WAIT", 60.0)
    interrupted([Pages("torn", [{"text": GOOD}], fails=(0,))])


def test_no_more_sources_are_read_at_the_same_time_than_are_asked_for(corpus):
    at_work = set()
    most = [0]

    class Watched(Pages):
        def batches(self, cursor):
            at_work.add(self.name)
            for pair in super().batches(cursor):
                most[0] = max(most[0], len(at_work))
                yield pair
            at_work.remove(self.name)

    rows = [{"id": str(i), "text": GOOD.format(i)} for i in range(5)]
    slow = [Watched(name, rows, page=1, sleep=0.02) for name in "abcd"]
    corpus.ingest(slow, quality=None, where="true", options=dp.IngestOptions(readers=3))
    assert most == [3]
    assert [len(source.calls) for source in slow] == [1, 1, 1, 1]


ACQUIRES = """
import resource, sys
from pathlib import Path
import duckplets as dp
path, rows = sys.argv[1:]
for room in sys.stdin:
    if int(room):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), resource.RLIM_INFINITY))
    try:
        with dp.Corpus(path) as corpus:
            source = dp.sources.JsonSource(rows, text="text")
            quality = dp.Quality(language=None)
            print(corpus.ingest(source, name="s", quality=quality, progress=False).added)
    except dp.DuckpletsError as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
"""


@thorough  # test_kills fills the disk of an ingest without gates, and locks its file
def test_a_full_disk_and_another_acquirer_are_one_error_each_and_lose_nothing(tmp_path):
    path, file = tmp_path / "c.duckdb", tmp_path / "rows.jsonl"
    draw = random.Random(1)
    hexadecimal = [f"{draw.getrandbits(4000):x}" for _ in range(2000)]  # does not compress
    written(file, [f"{n} {text}" for n, text in enumerate(hexadecimal)])
    with python("-c", ACQUIRES, path, file, stdin=subprocess.PIPE) as other:

        def told(room):
            print(room, file=other.stdin, flush=True)
            return str(other.stdout.readline())

        with empty_corpus(path) as corpus:
            assert told(0).startswith("CorpusLockedError")
            assert ends(corpus) == []
        assert "Error" in told(path.stat().st_size + 300_000).split()[0]
        assert other.communicate()[0] == ""
    with dp.Corpus(path) as corpus:
        assert ends(corpus) == []  # a later command begins where the last commit was
        source = dp.sources.JsonSource(file, text="text")
        report = corpus.ingest(source, name="s", quality=QUALITY)
        assert report.added == len(ends(corpus)) == len(hexadecimal)
        check(corpus)


def beside(path, *death):
    """Take in three sources side by side, committed after every few rows."""
    from duckplets.ingest import ingest

    ingest._ROWS_A_COMMIT = 0
    ingest._TIMES_A_COMMIT = 0
    vars(row_batches)["MAX_ROWS"] = 30
    dying(*death)
    draw = random.Random(7)
    with dp.Corpus(path) as corpus:
        file = dp.sources.JsonSource(path.with_name("a.jsonl"), text="text", id="id")
        named = {
            "a": file,
            "b": Pages(
                "b",
                [row for row in some_rows(draw, often(120, less=40)) if row["text"]],
                sleep=0.001,
            ),
            "c": dp.sources.JsonSource(path.with_name("c.jsonl"), text="text", id="id"),
        }
        corpus.ingest(
            named, quality=QUALITY, on_conflict="skip", options=dp.IngestOptions(readers=2)
        )


test_kills.JOBS["beside"] = beside


@pytest.mark.timeout(3600 if THOROUGH else 300)
def test_killed_and_run_again_it_leaves_what_the_unbroken_run_leaves(tmp_path):
    draw = random.Random(3)
    path = tmp_path / "c.duckdb"
    for name in "ac":
        written(tmp_path / f"{name}.jsonl", some_rows(draw, often(150, less=40)))

    def fresh():
        path.unlink(missing_ok=True)
        dp.Corpus(path).close()

    def stored():
        with dp.Corpus(path) as corpus:
            check(corpus)
            return contents(corpus)

    assert_kills_change_nothing(__file__, "beside", path, fresh, stored)
    sound(path)
    assert_nothing_is_left(tmp_path)


if __name__ == "__main__":
    nursery()
