"""Ingests of users' sources: failed, interrupted, killed and gone on with; nothing is left over."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from effort import often, thorough
from killed_intakes import dying, nursery, running
from stored_rows import TIMES, stored_rows
from test_kills import JOBS, tell

import duckplets as dp
from duckplets.db.database import Database
from duckplets.ingest import ingest
from duckplets.sources import row_batches
from duckplets.sources.custom import feed
from duckplets.sources.custom.protocol import CustomSource, adapted
from duckplets.text.prefix import Field, Prefix

NOT_THE_SAME = (*TIMES, "started_at", "ended_at", "cursor")


class Given:
    """A source that a test writes as a function."""

    def __init__(self, batches: Callable[[Any], Any], name: str = "given") -> None:
        self.name = name
        self.batches = batches


class Flaky:
    """A hundred records by pages of twelve, that fails at some of them, each time once."""

    name = "flaky"

    def __init__(self, *failing: int) -> None:
        self.failing = set(failing)
        self.pages: list[int] = []

    def batches(self, cursor: Any) -> Iterator[tuple[Any, Any]]:
        for start in range(cursor["next"] if cursor else 0, 100, 12):
            self.pages.append(start)
            yield self.page(start), {"next": start + 12}

    def page(self, start: int) -> Iterator[dict[str, Any]]:
        for i in range(start, min(start + 12, 100)):
            if i in self.failing:
                self.failing.discard(i)
                raise ConnectionError(f"lost at {i}")
            number = i % 90  # the last ten come again
            yield {
                "anchor": f"question {number}",
                "positive": f"answer {number} " * (number % 5 + 1) if number % 11 else None,
                "meta": {f"key {number % 4}": number},
                "prefix": Prefix(0.5, [[Field("n", str(number))]]) if number % 3 == 0 else None,
            }


@pytest.fixture(scope="module")
def reader():
    database = Database.reader()
    yield database
    database.close()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus with a record, which stays as it is."""
    with dp.Corpus(tmp_path_factory.mktemp("corpus") / "c.duckdb") as corpus:
        corpus.ingest(dp.MemorySource([{"t": "there before"}], text="t"), progress=False)
        yield corpus


@pytest.fixture(autouse=True)
def _no_thread_is_left_over():
    before = set(threading.enumerate())
    yield
    before |= {each for each in threading.enumerate() if each.name == "duckplets-dropped"}
    gc.collect()
    deadline = time.monotonic() + 20
    while left := set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


@pytest.fixture
def many_marks(monkeypatch):
    """A mark after each batch, and a commit at each mark."""
    monkeypatch.setattr(row_batches, "MAX_ROWS", 1)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 1)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)


def failing(at: int, error: Exception) -> Callable[[Any], Iterator[Any]]:
    """Batches of two records, of which the one of a number cannot be made."""

    def records(start: int) -> Iterator[dict[str, Any]]:
        for i in range(start, start + 2):
            if i == at:
                raise error
            yield {"text": f"t{i}"}

    return lambda _: ((records(start), start) for start in range(1, 100, 2))


def raising(error: Exception) -> Any:
    raise error


class Unprintable:
    def __str__(self) -> str:
        raise LookupError("no text of mine")


def endless(*batches: Any) -> Callable[[Any], Iterator[Any]]:
    return lambda _: iter([([{"text": "a"}, {"text": "b"}], 1), *batches])


LOOP: list[Any] = []
LOOP.append(LOOP)
ONE = [{"text": "x"}]

FAULTS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("records", failing(7, TypeError("bad page")), "row 7: TypeError: bad page"),
    ("own error", failing(4, dp.SourceError("no more")), "row 4: SourceError: no more"),
    ("call", lambda _: raising(OSError(5, "no disk")), "row 1: OSError: [Errno 5] no disk"),
    ("no iterator", lambda _: 5, "row 1: TypeError: 'int' object is not iterable"),
    ("no arguments", iter, "row 1: TypeError: "),
    ("no pair", endless(ONE), "row 3: batches() gave [{'text': 'x'}] (list): yield pairs of the"),
    ("three", endless((ONE, 1, 2)), "yield pairs of the next records and a cursor"),
    ("one record", endless((ONE[0], 3)), "row 3: the records of a batch are {'text': 'x'} (dict)"),
    ("text", endless(("abc", 3)), "give a list of dictionaries, one per record, or an Arrow table"),
    ("None", endless((None, 3)), "row 3: the records of a batch are None (NoneType)"),
    ("tuple", endless((ONE, {"at": (1, 2)})), "row 3: the cursor {'at': (1, 2)} (dict) holds (1,"),
    ("NaN", endless((ONE, [float("nan")])), "holds nan (float): it is stored as JSON, so make"),
    ("key", endless((ONE, {1: 2})), "holds {1: 2} (dict)"),
    ("bytes", endless((ONE, b"x")), "the cursor b'x' (bytes) holds b'x' (bytes)"),
    ("surrogate", endless((ONE, "\ud800")), "holds text that is not UTF-8"),
    ("loop", endless((ONE, LOOP)), "row 3: RecursionError"),
    (
        "key of a record",
        endless((iter([{"text": "x"}, {"txt": 5}]), 3)),
        "row 4: unknown key 'txt'",
    ),
    ("hint", endless(([{"txt": 5}], 3)), "'txt' (did you mean 'text'?); the keys of a record are "),
    ("both", endless(([{"text": "x", "anchor": "y"}], 3)), "row 3: 'text' is for records of one"),
    ("alone", endless(([{"positive": "y"}], 3)), "row 3: 'positive' needs an 'anchor'"),
    ("value", endless(([{"text": Unprintable()}], 3)), "row 3: LookupError: no text of mine"),
    ("prefix", endless(([{"text": "x", "prefix": {"probability": 2}}], 3)), "row 3: prefix: "),
    (
        "prefix text",
        endless(([{"text": "x", "prefix": "{"}], 3)),
        "row 3: prefix: it is not JSON: ",
    ),
    ("columns", endless((pa.table({"txt": ["x"]}), 3)), "row 3: unknown key 'txt'"),
]


@pytest.mark.parametrize(
    ("batches", "message"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS]
)
def test_faults_name_source_and_row_and_leave_the_corpus_as_it_was(
    corpus, many_marks, batches, message
):
    before = corpus.sql("FROM live_records").to_pylist(), corpus.version
    with pytest.raises(dp.SourceError) as raised:
        corpus.ingest(Given(batches), restart=True, progress=False)
    assert str(raised.value).startswith("source 'given': row ")
    assert message in str(raised.value)
    assert (corpus.sql("FROM live_records").to_pylist(), corpus.version) == before


MAPPING_FAULTS = [
    ({"text": "bdoy"}, "source 'given': no column 'bdoy' (did you mean 'body'?); its columns are"),
    ({"text": "body", "id": "key"}, "source 'given': no column 'key'"),
    ({"text": "body", "date": "when"}, "source 'given': no column 'when'"),
    ({"id": "body"}, "source 'given': say which columns hold the text"),
]


@pytest.mark.parametrize(("mapping", "message"), MAPPING_FAULTS)
def test_a_mapping_that_no_record_fits_is_an_error(reader, mapping, message):
    records = [{"title": "t", "body": f"b{i}"} for i in range(500)]
    for page in (1, 500):
        pages = [(records[i : i + page], i) for i in range(0, 500, page)]
        with pytest.raises(dp.SourceError) as raised:
            list(CustomSource(Given(lambda _, pages=pages: pages), **mapping).open(reader).batches)
        assert message in str(raised.value)
    table = pa.Table.from_pylist(records)
    with pytest.raises(dp.SourceError) as raised:
        list(CustomSource(Given(lambda _: [(table, 1)]), **mapping).open(reader).batches)
    assert "row 1: its table: " in str(raised.value)
    assert message.removeprefix("source 'given': ") in str(raised.value)


def test_an_interrupted_ingest_ends_as_an_unbroken_one(tmp_path, many_marks):
    with dp.Corpus(tmp_path / "whole.duckdb") as corpus:
        corpus.split()
        whole = corpus.ingest(Flaky(), progress=False)
        expected = stored_rows(corpus, without=NOT_THE_SAME)
    assert (whole.read, whole.added) == (100, 81)
    assert len(expected["record_prefixes"]) > 20
    draw = random.Random(5)
    for n in range(often(3, less=1)):
        first, second = draw.sample(range(12, 100), 2)
        source = Flaky(first, second)
        with dp.Corpus(tmp_path / f"{n}.duckdb") as corpus:
            corpus.split()
            for place in sorted((first, second)):
                with pytest.raises(dp.SourceError, match=f"row {place + 1}: ConnectionError"):
                    corpus.ingest(source, progress=False)
                assert corpus.sql("FROM live_records").num_rows == 0
                assert corpus.version == 0
            report = corpus.ingest(source, progress=False)
            assert stored_rows(corpus, without=NOT_THE_SAME) == expected
        assert (report.read, report.added, report.reasons) == (100, 81, whole.reasons)
        assert max(map(source.pages.count, source.pages)) <= 3
        assert source.pages.count(0) == 1, "pages before the first mark are not read again"


def test_production_is_a_bounded_number_of_rows_ahead(reader, monkeypatch):
    monkeypatch.setattr(row_batches, "MAX_ROWS", 64)
    monkeypatch.setattr(feed, "_BLOCK_ROWS", 16)
    monkeypatch.setattr(feed, "_BYTES_WAITING", 128 << 10)  # 128 rows
    made = 0

    def batches(_: Any) -> Iterator[Any]:
        nonlocal made
        for i in count():
            made += 1
            yield [{"text": f"t{i}"}] * (500 if i == 40 else 4), i

    rows = adapted(Given(batches)).open(reader)
    used = 0
    for _ in range(20):
        item = next(rows.batches)
        used += item.num_rows if isinstance(item, pa.RecordBatch) else 0
        time.sleep(0.02)
        ahead = 4 * made + (496 if made > 40 else 0) - used
        assert ahead <= 64 + 128 + 16 + 4 + 500
        if made <= 40:
            assert ahead <= 64 + 128 + 16 + 4 + 32
    assert used > 500
    rows.batches.stop()


def test_all_of_a_source_runs_in_one_thread_and_is_closed_there(reader):
    ran: list[tuple[str, int]] = []

    def note(what: str) -> None:
        ran.append((what, threading.get_ident()))

    def batches(_: Any) -> Iterator[Any]:
        note("begin")
        try:
            for i in count():
                note("page")
                yield ((note("record"), {"text": "t"})[1] for _ in range(3)), i
        finally:
            note("end")

    kept_alive: list[Iterator[Any]] = []

    def held(cursor: Any) -> Iterator[Any]:
        kept_alive.append(batches(cursor))
        return kept_alive[0]

    rows = adapted(Given(held)).open(reader)
    next(rows.batches)
    rows.batches.stop()
    assert {what for what, _ in ran} == {"begin", "page", "record", "end"}
    (thread,) = {thread for _, thread in ran}
    assert thread != threading.get_ident()
    with pytest.raises(dp.SourceError, match="source 'given': reading was stopped"):
        list(rows.batches)


def test_a_source_that_does_not_answer_does_not_hold_up_a_stop(reader, monkeypatch):
    monkeypatch.setattr(feed, "_PATIENCE", 0.05)
    going_on, waiting = threading.Event(), threading.Event()

    def batches(_: Any) -> Iterator[Any]:
        yield [{"text": "x"}], 1
        waiting.set()
        going_on.wait(60)

    rows = adapted(Given(batches)).open(reader)
    errors: list[Exception] = []

    def read() -> None:
        try:
            list(rows.batches)
        except dp.SourceError as error:
            errors.append(error)

    consumer = threading.Thread(target=read)
    consumer.start()
    assert waiting.wait(60)
    rows.batches.stop()
    consumer.join(60)
    assert not consumer.is_alive()
    going_on.set()
    assert [str(error) for error in errors] == ["source 'given': reading was stopped"]


def test_ctrl_c_does_not_wait_for_a_source_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(feed, "_PATIENCE", 0.05)
    going_on = threading.Event()
    gave_up: list[bool] = []

    def batches(_: Any) -> Iterator[Any]:
        yield [{"text": "x"}] * 50, 1
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        gave_up.append(not going_on.wait(20))

    with dp.Corpus(tmp_path / "c.duckdb") as corpus, pytest.raises(KeyboardInterrupt):
        corpus.ingest(Given(batches), progress=False)
    assert gave_up == [], "the ingest has waited until the source gave up"
    going_on.set()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:  # what was stored is discarded with it
        assert corpus.sql("FROM live_records").num_rows == 0
        assert corpus.ingest(Given(lambda _: [([{"text": "x"}], 1)]), restart=True).added == 1


class Nine:
    """Nine pages, each told of as it is read."""

    name = "killed"

    def batches(self, cursor: Any) -> Iterator[tuple[Any, Any]]:
        for i in range(cursor or 0, 9):
            tell("page", i)
            time.sleep(0.01)
            yield [{"text": f"text {i} {j}", "meta": {"n": i}} for j in range(5)], i + 1


def nine_pages(path: Path, *death: int) -> None:
    """Ingest pages, and commit each."""
    for module, name, value in (
        (row_batches, "MAX_ROWS", 1),
        (ingest, "_ROWS_A_COMMIT", 1),
        (ingest, "_TIMES_A_COMMIT", 0),
    ):
        vars(module)[name] = value
    dying(*death)
    with dp.Corpus(path) as corpus:
        report = corpus.ingest(Nine(), progress=False)
        tell("added", report.added, corpus.version)


JOBS["nine_pages"] = nine_pages


@thorough
def test_a_killed_ingest_goes_on_and_ends_as_an_unbroken_one(tmp_path):
    whole, broken = tmp_path / "whole.duckdb", tmp_path / "broken.duckdb"
    with running(__file__) as run:
        # Killed within the second commit, and within the fourth of all.
        told = [run("nine_pages", broken, marks).told for marks in (2, 3)]
        told += [run("nine_pages", path).told for path in (broken, whole)]
    assert [lines[0] for lines in told] == ["page 0", "page 1", "page 3", "page 0"]
    assert [lines[-1] for lines in told[2:]] == ["added 45 1"] * 2
    with dp.Corpus(whole) as one, dp.Corpus(broken) as other:
        assert stored_rows(one, without=NOT_THE_SAME) == stored_rows(other, without=NOT_THE_SAME)


def test_production_is_bounded_in_bytes(reader, monkeypatch):
    monkeypatch.setattr(row_batches, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(feed, "_BLOCK_BYTES", 1 << 19)
    monkeypatch.setattr(feed, "_BYTES_WAITING", 1 << 20)
    made = 0

    def batches(_: Any) -> Iterator[Any]:
        nonlocal made
        for i in count():
            made += 1
            yield [{"text": "x" * 200_000}], i

    rows = adapted(Given(batches)).open(reader)
    next(rows.batches)
    time.sleep(0.3)
    assert 5 <= made <= 18
    rows.batches.stop()


if __name__ == "__main__":
    nursery()
