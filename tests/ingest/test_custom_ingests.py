"""Ingests of users' sources: failed, interrupted and gone on with; nothing is left over."""

import gc
import os
import random
import signal
import threading
import time
from itertools import count

import pyarrow as pa
import pytest
from effort import often
from stored_rows import TIMES, stored_rows

import duckplets as dp
from duckplets.ingest import ingest
from duckplets.sources import custom, row_batches
from duckplets.sources.custom import CustomSource, adapted
from duckplets.text.prefix import Field, Prefix

NOT_THE_SAME = (*TIMES, "started_at", "ended_at", "cursor")


class Given:
    """A source that a test writes as a function."""

    def __init__(self, batches, name="given"):
        self.name = name
        self.batches = batches


COUNT = often(100, less=30)


class Flaky:
    """Records by pages of five, that fail at some of them, each time once."""

    name = "flaky"

    def __init__(self, *failing):
        self.failing = set(failing)
        self.pages = []

    def batches(self, cursor):
        for start in range(cursor["next"] if cursor else 0, COUNT, 5):
            self.pages.append(start)
            yield self.page(start), {"next": start + 5}

    def page(self, start):
        for i in range(start, start + 5):
            if i in self.failing:
                self.failing.discard(i)
                raise ConnectionError(f"lost at {i}")
            number = i % (COUNT - 5)  # the last five come again
            yield {
                "anchor": f"question {number}",
                "positive": f"answer {number} " * (number % 5 + 1) if number % 11 else None,
                "meta": {f"key {number % 4}": number},
                "prefix": Prefix(0.5, [[Field("n", str(number))]]) if number % 3 == 0 else None,
            }


@pytest.fixture(autouse=True)
def _no_thread_is_left_over():
    before = set(threading.enumerate())
    yield
    gc.collect()
    deadline = time.monotonic() + 20
    while left := set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def failing(at, error):
    """Batches of two records, of which the one of a number cannot be made."""

    def records(start):
        for i in range(start, start + 2):
            if i == at:
                raise error
            yield {"text": f"t{i}"}

    return lambda _: ((records(start), start) for start in range(1, 100, 2))


def raising(error):
    raise error


class Unprintable:
    def __str__(self):
        raise LookupError("no text of mine")


def endless(*batches):
    return lambda _: iter([([{"text": "a"}, {"text": "b"}], 1), *batches])


LOOP = []
LOOP.append(LOOP)
ONE = [{"text": "x"}]

FAULTS = [
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
    ("tuple", endless((ONE, {"at": (1, 2)})), "row 3: the cursor {'at': (1, 2)} (dict) is stored"),
    ("NaN", endless((ONE, [float("nan")])), "[nan] (list) is stored as JSON, so make it of"),
    ("key", endless((ONE, {1: 2})), "(it would come back as {'1': 2} (dict))"),
    ("bytes", endless((ONE, b"x")), "(TypeError: Object of type bytes is not JSON"),
    ("surrogate", endless((ONE, "\ud800")), "surrogates not allowed)"),
    ("loop", endless((ONE, LOOP)), "(ValueError: Circular reference detected)"),
    (
        "key of a record",
        endless((iter([{"text": "x"}, {"txt": 5}]), 3)),
        "row 4: unknown key 'txt'",
    ),
    ("hint", endless(([{"txt": 5}], 3)), "'txt' (did you mean 'text'?); the keys of a record are "),
    ("both", endless(([{"text": "x", "anchor": "y"}], 3)), "row 3: text= is for rows of one text"),
    ("alone", endless(([{"positive": "y"}], 3)), "row 3: positive= needs anchor="),
    ("value", endless(([{"text": Unprintable()}], 3)), "row 3: LookupError: no text of mine"),
    ("columns", endless((pa.table({"txt": ["x"]}), 3)), "row 3: unknown key 'txt'"),
]


def test_faults_name_source_and_row_and_leave_the_corpus_as_it_was(reader, tmp_path):
    for name, batches, message in FAULTS:
        with pytest.raises(dp.SourceError) as raised:
            list(adapted(Given(batches)).open(reader).batches)
        assert str(raised.value).startswith("source 'given': row "), name
        assert message in str(raised.value), name
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(dp.sources.MemorySource([{"t": "there before"}], text="t"), progress=False)
        before = stored_rows(corpus)
        for _, batches, message in FAULTS[:: len(FAULTS) - 1]:
            with pytest.raises(dp.SourceError) as raised:
                corpus.ingest(Given(batches), restart=True, progress=False)
            assert message in str(raised.value)
            assert stored_rows(corpus) == before


MAPPING_FAULTS = [
    ({"text": "bdoy"}, "source 'given': no column 'bdoy' (did you mean 'body'?); its columns are"),
    ({"text": "body", "id": "key"}, "source 'given': no column 'key'"),
    ({"text": "body", "date": "when"}, "source 'given': no column 'when'"),
    ({"id": "body"}, "source 'given': say which columns hold the text"),
]


def test_a_mapping_that_no_record_fits_is_an_error(reader):
    records = [{"title": "t", "body": f"b{i}"} for i in range(500)]
    pages = [[(records[i : i + page], i) for i in range(0, 500, page)] for page in (1, 500)]
    table = [(pa.Table.from_pylist(records), 1)]
    for mapping, message in MAPPING_FAULTS:
        for given in (*pages, table):
            source = CustomSource(Given(lambda _, given=given: given), **mapping)
            with pytest.raises(dp.SourceError) as raised:
                list(source.open(reader).batches)
            assert message.removeprefix("source 'given': ") in str(raised.value)
            assert ("row 1: its table: " in str(raised.value)) == (given is table)


def test_an_interrupted_ingest_ends_as_an_unbroken_one(tmp_path, monkeypatch):
    monkeypatch.setattr(row_batches, "MAX_ROWS", 3)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 1)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)
    with dp.Corpus(tmp_path / "whole.duckdb") as corpus:
        corpus.split()
        whole = corpus.ingest(Flaky(), progress=False)
        expected = stored_rows(corpus, without=NOT_THE_SAME)
    good = COUNT - 5 - len(range(0, COUNT - 5, 11))
    assert (whole.read, whole.added) == (COUNT, good)
    assert len(expected["record_prefixes"]) > COUNT / 5
    draw = random.Random(5)
    for n in range(often(3, less=1)):
        first, second = draw.sample(range(5, COUNT), 2)
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
        assert (report.read, report.added, report.reasons) == (COUNT, good, whole.reasons)
        assert max(map(source.pages.count, source.pages)) <= 3
        assert source.pages.count(0) == 1, "pages before the first mark are not read again"


def test_production_is_a_bounded_number_of_rows_and_bytes_ahead(reader, monkeypatch):
    made = 0

    def batches(_):
        nonlocal made
        for i in count():
            made += 1
            yield [{"text": f"t{i}"}] * (500 if i == 40 else 4), i

    with monkeypatch.context() as patch:
        patch.setattr(row_batches, "MAX_ROWS", 64)
        patch.setattr(custom, "_BLOCK_ROWS", 16)
        patch.setattr(custom, "_BYTES_WAITING", 128 << 10)  # 128 rows
        rows = adapted(Given(batches)).open(reader)
        used = 0
        for _ in range(20):
            item = next(rows.batches)
            used += item.num_rows if isinstance(item, pa.RecordBatch) else 0
            time.sleep(0.02)
            ahead = 4 * made + (496 if made > 40 else 0) - used
            assert ahead <= 64 + 128 + 16 + 4 + (500 if made > 40 else 32)
        assert used > 500
        rows.batches.stop()
    monkeypatch.setattr(row_batches, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(custom, "_BLOCK_BYTES", 1 << 19)
    monkeypatch.setattr(custom, "_BYTES_WAITING", 1 << 20)
    large = [0]

    def pages(_):
        for large[0] in count(1):
            yield [{"text": "x" * 200_000}], large[0]

    rows = adapted(Given(pages)).open(reader)
    next(rows.batches)
    time.sleep(0.3)
    assert 5 <= large[0] <= 18
    rows.batches.stop()


def test_all_of_a_source_runs_in_one_thread_and_is_closed_there(reader):
    ran = []
    kept_alive = []

    def note(what):
        ran.append((what, threading.get_ident()))

    def batches():
        note("begin")
        try:
            for i in count():
                note("page")
                yield ((note("record"), {"text": "t"})[1] for _ in range(3)), i
        finally:
            note("end")

    kept_alive.append(batches())
    rows = adapted(Given(lambda _: kept_alive[0])).open(reader)
    next(rows.batches)
    rows.batches.stop()
    assert {what for what, _ in ran} == {"begin", "page", "record", "end"}
    (thread,) = {thread for _, thread in ran}
    assert thread != threading.get_ident()
    with pytest.raises(dp.SourceError, match="source 'given': reading was stopped"):
        list(rows.batches)


def test_ctrl_c_does_not_wait_for_a_source_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(custom, "_PATIENCE", 0.05)
    going_on = threading.Event()
    gave_up = []

    def batches(_):
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
