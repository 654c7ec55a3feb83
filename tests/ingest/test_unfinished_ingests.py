"""Ingests that stop half-way: nobody sees them, and going on gives what an unbroken one gives."""

import itertools
import random
import shutil
import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from effort import often, some
from prebuilt import prebuilt
from stored_rows import TIMES, stored_rows

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.ingest import checkpoint
from duckplets.ingest.store import CONFLICT, OVERTAKEN
from duckplets.sources import Mark, Rows

Records = list[dict[str, Any]]


class TornError(Exception):
    """What a source raises that stops half-way."""


@dataclass
class Pages:
    """Records in pages, each with a mark; stops before the page ``tears`` says, once."""

    records: Records
    page: int = 3
    tears: int | None = None
    error: BaseException = field(default_factory=TornError)
    trust: float | None = None
    version: int = 1
    opened_at: list[Any] = field(default_factory=list)

    kind: ClassVar[str] = "pages"
    in_pieces: ClassVar[bool] = True
    uri: ClassVar[str | None] = "pages://here"

    def default_name(self):
        return "pages"

    def settings(self):
        return {"version": self.version}

    def open(self, reader, cursor=None):
        self.opened_at.append(cursor)
        return Rows(self._batches(reader, cursor or 0), "roles")

    def _batches(self, reader, start):
        for number in range(start, -(-len(self.records) // self.page)):
            if number == self.tears:
                raise self.error
            part = self.records[number * self.page :][: self.page]
            source = dp.sources.MemorySource(part, anchor="title", positive="body", id="id")
            yield from source.open(reader).batches
            yield Mark(number + 1)


MANY = often(30, less=18)  # records


def made(count, seed=0):
    """Return records with long texts, blank ones, and ids that come again with equal content."""
    chance = random.Random(seed)
    found = []
    for i in range(count):
        if found and chance.random() < 0.1:
            found.append(dict(chance.choice(found)))
            continue
        body = " ".join(chance.choice(["kiwi", "plum", "fig", "pear"]) for _ in range(40))
        found.append({"id": f"k{i}", "title": f"title {i}", "body": body})
        if chance.random() < 0.1:
            found[-1]["body"] = " "
    return found


@pytest.fixture(autouse=True)
def _every_mark_is_committed(monkeypatch):
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)


@prebuilt
def begun(path):
    corpus = dp.Corpus(path)
    corpus.chunk(dp.Chunking(max_tokens=16, overlap=(2,), summary_tokens=4))
    corpus.ingest(dp.sources.MemorySource([{"text": "first"}], text="text"), progress=False)
    corpus.split(0.6, 0.2, 0.2, seed=3)
    return corpus


@pytest.fixture
def opened(tmp_path):
    """Open corpora that have splits and short windows, closed in the end."""
    there = []

    def open_one(name):
        path = tmp_path / name
        there.append(dp.Corpus(path) if path.exists() else begun(path))
        return there[-1]

    yield open_one
    for corpus in there:
        corpus.close()


def contents(corpus):
    """Return all that is stored but for times."""
    return stored_rows(corpus, without=TIMES)


def visible(corpus):
    tables = ("live_records", "section_texts", "chunk_texts", "source_counts", "split_counts")
    read = corpus.database.arrow
    return [read(f"FROM {t} ORDER BY ALL").to_pylist() for t in tables] + [corpus.version]


def ingest(corpus, source, **arguments):
    return corpus.ingest(source, progress=False, **arguments)


def comparable(report):
    return (report.read, report.added, report.skipped, report.failed, report.reasons)


@pytest.mark.parametrize("seed", range(often(12, less=2)))
def test_an_ingest_interrupted_anywhere_ends_as_an_unbroken_one(opened, seed):
    chance = random.Random(seed)
    most = often(60, less=15)
    records, page = made(chance.randrange(1, most), seed), chance.randrange(1, 9)
    unbroken, broken = opened("unbroken.duckdb"), opened("broken.duckdb")
    whole = ingest(unbroken, Pages(records, page))
    pages = -(-len(records) // page)
    before = visible(broken)
    for tears in sorted(chance.choices(range(pages), k=chance.randrange(1, 4))):
        with pytest.raises(TornError):
            ingest(broken, Pages(records, page, tears))
        assert visible(broken) == before, "half of an ingest is seen"
        broken.close()
        broken = opened("broken.duckdb")
    report = ingest(broken, Pages(records, page))
    assert comparable(report) == comparable(whole)
    assert contents(broken) == contents(unbroken)
    broken.close()
    assert all(check.ok for check in doctor.corpus(broken.path))


def test_a_stop_leaves_what_was_stored_and_it_goes_on_after_the_last_mark(opened):
    corpus = opened("c.duckdb")
    before = visible(corpus)
    blank = [{"id": str(i), "title": "t", "body": ""} for i in range(9)]
    stop = KeyboardInterrupt()
    for nothing, error, said in (
        (Pages(made(9), tears=0, error=stop), KeyboardInterrupt, None),  # before the first mark
        (Pages(blank), dp.SourceError, "none of the 9 rows of source 'pages' can be a record"),
        (Pages([]), dp.SourceError, "source 'pages' has no rows"),
    ):
        with pytest.raises(error, match=said):
            ingest(corpus, nothing)
    assert contents(corpus) == contents(opened("never.duckdb"))
    threads = threading.active_count()
    source = Pages(made(MANY), 3, tears=5, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ingest(corpus, source)
    assert visible(corpus) == before
    assert threading.active_count() == threads
    (found,) = checkpoint.ingests(corpus.database)
    assert (found.name, found.cursor, found.counts["read"]) == ("pages", 5, 15)
    source.tears = None
    ingest(corpus, source)
    assert source.opened_at == [None, 5]


def test_others_come_and_go_meanwhile(opened):
    corpus, records = opened("c.duckdb"), made(often(40, less=24))
    with pytest.raises(TornError):
        ingest(corpus, Pages(records, tears=6))
    ingest(corpus, dp.sources.MemorySource([{"text": f"other {i}"} for i in range(9)], text="text"))
    corpus.split(0.5, 0.25, 0.25, seed=4, reassign=True)
    corpus.chunk(dp.Chunking(max_tokens=8, overlap=(1,)))
    run = corpus.sampler("texts", batch_size=4, seed=1)
    report = ingest(corpus, Pages(records))
    assert report.version == corpus.version == 3
    ids = {f"pages/{r['id']}" for r in records if r["body"].strip()}
    live = corpus.sql("SELECT record_id, split FROM live_records WHERE source = 'pages'")
    assert set(live["record_id"].to_pylist()) == ids
    assert None not in live["split"].to_pylist()
    served = {s for batch in [run.batch_at(t) for t in range(20)] for s in batch["source"]}
    assert served == {"memory"}, "a run that is pinned draws no record published later"


TEARS = list(itertools.product([2, 1, 5], [3, 2, 1, None]))


@pytest.mark.parametrize(("page", "tears"), some(TEARS, less=2))
def test_replacing_takes_the_last_of_several(opened, page, tears):
    corpus = opened("c.duckdb")
    old = [{"id": i, "title": f"old {i}", "body": f"old body {i}"} for i in "abc"]
    ingest(corpus, Pages(old))
    pinned = corpus.version
    new = [{"id": i, "title": f"new {n}", "body": f"body {n}"} for n, i in enumerate("axbxaxy")]
    source = Pages(new, page, tears)
    if tears is not None and tears < -(-len(new) // page):
        with pytest.raises(TornError):
            ingest(corpus, source, on_conflict="replace")
    source.tears = None
    report = ingest(corpus, source, on_conflict="replace")
    titles = "SELECT record_id, text FROM section_texts WHERE source = 'pages' AND role = 'anchor'"
    assert {r["record_id"]: r["text"] for r in corpus.sql(titles).to_pylist()} == {
        "pages/a": "new 4",
        "pages/b": "new 2",
        "pages/c": "old c",
        "pages/x": "new 5",
        "pages/y": "new 6",
    }
    assert (report.read, report.added, report.replaced) == (7, 4, 2)
    assert report.reasons == {OVERTAKEN: 3}
    again = [{"id": i, "title": str(n), "body": f"body {n}"} for n, i in enumerate("mnopm")]
    with pytest.raises(dp.SourceError, match=r"record 'pages/m' \(row 1\) has other content"):
        ingest(corpus, Pages(again, 1))  # found across marks
    report = ingest(corpus, Pages(again, 1), on_conflict="skip")
    assert (report.added, report.reasons) == (4, {CONFLICT: 1})
    was = corpus.sql(
        "SELECT record_id FROM records WHERE added_version <= $v AND removed_version > $v",
        {"v": pinned},
    )
    assert sorted(was["record_id"].to_pylist()) == ["pages/a", "pages/b"]


def test_what_a_kill_leaves_of_one_that_cannot_go_on_is_gone_with_the_next(
    opened, tmp_path, monkeypatch
):
    monkeypatch.setattr("duckplets.sources.row_batches.MAX_ROWS", 4)
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_AT_ONCE", 0)
    rows = made(MANY)
    source = dp.sources.MemorySource(rows, anchor="title", positive="body", id="id")

    def killed_at(done, total):
        if done == 16:  # what lies on the disk now
            for file in tmp_path.glob("whole.duckdb*"):
                shutil.copy(file, tmp_path / file.name.replace("whole", "killed"))

    whole = opened("whole.duckdb")
    before = visible(whole)
    whole.ingest(source, progress=killed_at, name="s")
    killed = opened("killed.duckdb")
    assert visible(killed) == before
    hidden = "SELECT count(*) FROM records WHERE added_version > 99"
    assert killed.sql(hidden)[0][0].as_py() > 0
    assert killed.unfinished() == killed.status()["unfinished"] == []
    other = dp.sources.MemorySource([{"text": "other"}], text="text")
    ingest(killed, other, name="other")
    assert killed.sql(hidden)[0][0].as_py() == 0
    assert killed.remove("other") == 1
    ingest(killed, source, name="s")
    texts = "SELECT record_id, role, text FROM section_texts ORDER BY ALL"
    assert killed.sql(texts).equals(whole.sql(texts))


@pytest.fixture
def half(opened):
    """A corpus with half an ingest."""
    corpus = opened("half.duckdb")
    with pytest.raises(TornError):
        ingest(corpus, Pages(made(MANY), tears=4))
    return corpus


def test_another_ingest_of_that_name_is_refused_and_restart_discards_what_was_stored(half, opened):
    cases = [
        (Pages(made(MANY), version=2), {}, "with another source, stopped at"),
        (Pages(made(MANY)), {"trust": 0.9}, "with another trust, stopped at"),
        (
            dp.sources.MemorySource(made(3), text="title"),
            {"name": "pages"},
            "from pages://here, stopped",
        ),
        (Pages(made(3), version={1}), {}, r"its settings\(\) are not plain JSON values"),
    ]
    for source, arguments, message in cases:
        with pytest.raises(dp.SourceError, match=message) as caught:
            ingest(half, source, **arguments)
        if "with another" in message:
            assert "after 12 rows" in str(caught.value)
            assert "restart=True" in str(caught.value)
    unbroken = opened("unbroken.duckdb")
    ingest(unbroken, Pages(made(MANY), version=2), restart=True)  # with nothing to restart
    ingest(half, Pages(made(MANY), version=2), restart=True)
    assert contents(half) == contents(unbroken)


def test_it_is_shown_and_texts_are_not_cleaned_otherwise_until_it_is_removed(half, opened):
    (found,) = half.unfinished()
    assert half.status()["unfinished"] == [found]
    assert (found["source"], found["uri"], found["rows"]) == ("pages", "pages://here", 12)
    half.close()
    checks = list(doctor.corpus(half.path))
    assert all(check.ok for check in checks)
    assert "unfinished ingest of pages: 12 rows" in "\n".join(check.what for check in checks)
    corpus = opened("half.duckdb")
    message = "source 'pages' has an unfinished ingest; finish it, or discard it"
    with pytest.raises(dp.errors.ChunkingError, match=message):
        corpus.chunk(denoise=True)
    added = sum(bool(r["body"].strip()) for r in made(MANY)[:12])
    assert corpus.remove("pages") <= added
    assert contents(corpus) == contents(opened("never.duckdb"))
    assert corpus.chunk(denoise=True) == 1
    with pytest.raises(dp.SourceError, match="no source 'pages'"):
        corpus.remove("pages")


@pytest.mark.parametrize("killed_at", [None, 1, 2])
def test_many_records_are_discarded_in_portions_and_a_kill_between_them_loses_nothing_else(
    opened, monkeypatch, killed_at
):
    corpus = opened("c.duckdb")
    before = stored_rows(corpus, without=TIMES)
    with pytest.raises(TornError):
        corpus.ingest(Pages(made(MANY), tears=4), progress=False)
    assert checkpoint.find(corpus.database, "pages").can_go_on
    monkeypatch.setattr(checkpoint, "_PORTION", 2)
    portions, discarded = [], checkpoint._discard

    def tearing(database, records, intakes):
        portions.append(len(records))
        if len(portions) - 1 == killed_at:
            raise TornError
        discarded(database, records, intakes)

    monkeypatch.setattr(checkpoint, "_discard", tearing)
    if killed_at is None:
        corpus.remove("pages")
    else:
        with pytest.raises(TornError):
            corpus.remove("pages")
        # Its first records are gone, so it cannot continue; the next writer discards the rest.
        assert not checkpoint.find(corpus.database, "pages").can_go_on
        portions.clear()
        monkeypatch.setattr(checkpoint, "_discard", discarded)
        checkpoint.sweep(corpus.database)
    assert len(portions) > 2 or killed_at is not None
    assert checkpoint.find(corpus.database, "pages") is None
    assert stored_rows(corpus, without=TIMES) == before
    corpus.ingest(Pages(made(MANY)), progress=False)
    corpus.close()
    assert all(check.ok for check in doctor.corpus(corpus.path))
