"""What an ingest lays out while it stores is what a snapshot made afterwards has, to the byte."""

from __future__ import annotations

import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import ODD_MAPPING, odd_records
from effort import kills, often
from programs import ran

import duckplets as dp
from duckplets.artifacts.arrays import ArrayWriter
from duckplets.corpus import maintenance
from duckplets.engine.work import QUIET
from duckplets.errors import SourceError
from duckplets.ingest.chunks import fingerprint
from duckplets.serving import along, snapshot
from duckplets.serving.texts import StoredTexts

CHUNKINGS: list[dict[str, Any]] = [
    {"max_tokens": 12, "overlap": (3,), "summary_tokens": 6, "weight_floor": 0.2},
    {"max_tokens": 5, "position_weight": "start_ratio"},
    {"denoise": True, "summary_weight": 0.9},
]


def content(corpus: dp.Corpus) -> list[Any]:
    """Return the segments of chunks of a snapshot: what the manifest says, and the bytes."""
    folder = snapshot.folder_of(corpus.path)
    found = snapshot.SnapshotManifest.read(folder)
    assert found is not None
    return [
        [{**entry, "file": entry["file"]["digest"]}, (folder / entry["file"]["name"]).read_bytes()]
        for entry in found.segments["chunks"]
    ]


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    draw, found = random.Random(seed), odd_records(count, seed)
    for row in found:
        row["trust"] = draw.choice([None, 0.0, 0.3, 1.0])
        row["title"] += draw.choice(["", " Ωμέγα", " 日本語 text", "  \t"])
        row["notes"] = [*row["notes"], "\n--\n" * draw.randrange(3)]
    return found


@pytest.mark.parametrize("seed", range(often(30, less=3)))
def test_a_segment_laid_out_along_is_the_one_that_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(along, "_BYTES", (0, 3000)[seed % 2])
    monkeypatch.setattr(snapshot, "LARGE", 10)
    written, count = StoredTexts.written, 40
    given = dict(ODD_MAPPING, trust="trust")
    options = dp.IngestOptions(keep_going=True)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(**CHUNKINGS[seed % 3])
        if seed > 2:  # something before it, which the new segment stands behind or takes in
            corpus.ingest(rows(400 if seed % 2 else 3, 99), name="old", progress=False, **given)
        corpus.split()
        if seed > 2:
            corpus.prepare()
        several = {f"s{n}": dp.sources.MemorySource(rows(count, n), **given) for n in range(2)}
        is_along = seed <= 2 or seed % 2 == 1
        if seed % 3 == 2:
            twice = [*rows(count, 7), *rows(1, 8)]
            several = {"bad": dp.sources.MemorySource(twice, **given), **several}
            with pytest.raises(SourceError, match="1 source of 3 failed"):
                corpus.ingest(several, options=options, progress=False)
            is_along = False  # the notes of a failed call are lost with it
        else:
            if is_along:
                monkeypatch.setattr(StoredTexts, "written", None)
            reports = corpus.ingest(several, options=options, progress=False)
            monkeypatch.setattr(StoredTexts, "written", written)
            assert "has all texts" in reports["s1"].notes[-1]
        assert not [p.name for p in tmp_path.iterdir() if ".parts" in p.name]
        found = content(corpus)
        assert corpus.prepare().version == corpus.version
        assert content(corpus) == found
        stored = StoredTexts(corpus.database, "chunks", fingerprint(corpus.database))
        for entry, data in found:
            made = written(stored, tmp_path, entry["low"], entry["high"], QUIET)
            assert (tmp_path / made["file"]["name"]).read_bytes() == data
            assert {**made, "file": made["file"]["digest"]} == entry


def test_it_is_made_by_itself_only_where_a_split_is_and_texts_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ingested(name: str, **options: Any) -> bool:
        source = dp.sources.MemorySource(odd_records(30, 1), **ODD_MAPPING)
        shutil.rmtree(folder, ignore_errors=True)
        report = corpus.ingest(
            source, name=name, progress=False, options=dp.IngestOptions(**options)
        )
        assert folder.exists() == any("the snapshot" in note for note in report.notes)
        return folder.exists()

    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        folder = snapshot.folder_of(corpus.path)
        monkeypatch.setattr(snapshot, "LARGE", 10)
        assert not ingested("no split")
        assert ingested("asked", prepare=True)
        assert corpus.status()["snapshot"]["current"] is True
        assert corpus.status()["splits"] is not None
        assert ingested("many")
        assert not ingested("told not to", prepare=False)
        monkeypatch.setattr(snapshot, "LARGE", 1000)
        assert not ingested("few")

        # A disk that is full for a while leaves the snapshot to be made from the tables.
        monkeypatch.setattr(snapshot, "LARGE", 10)
        monkeypatch.setattr(along, "_BYTES", 0)
        append, full = ArrayWriter.append, [OSError(28, "No space left on device")]

        def without_room(writer: ArrayWriter, data: Any) -> int:
            if full:
                raise full.pop()
            return append(writer, data)

        monkeypatch.setattr(ArrayWriter, "append", without_room)
        assert ingested("no room")
        assert not full
        assert corpus.status()["snapshot"]["current"] is True
        shutil.rmtree(folder)

        # A place that cannot be written to fails no ingest that did not ask for it.
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
        source = dp.sources.MemorySource(odd_records(30, 1), **ODD_MAPPING)
        report = corpus.ingest(source, name="beside", progress=False)
        assert "look: no snapshot was made" in report.notes[-1]
        with pytest.raises(dp.errors.ReadOnlyError, match=r"notes\.txt"):
            corpus.ingest(
                source, name="asked too", progress=False, options=dp.IngestOptions(prepare=True)
            )
        shutil.rmtree(folder)
        folder.write_text("mine")
        report = corpus.ingest(source, name="a file", progress=False)
        assert "look: no snapshot was made" in report.notes[-1]
        with pytest.raises(dp.errors.ReadOnlyError, match="no snapshot can be written"):
            corpus.ingest(
                source, name="asked again", progress=False, options=dp.IngestOptions(prepare=True)
            )
        assert corpus.count() == 10 * 30


KILLED = """
import os, signal, sys
import duckplets as dp
from duckplets.artifacts import arrays, folder
from duckplets.db.database import Database
from duckplets.ingest import ingest
from duckplets.serving import along, snapshot
left = [int(sys.argv[3])]
def counted(function):
    def call(*arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return call
along._BYTES, ingest._ROWS_AT_ONCE, snapshot.LARGE = 0, 60, 10
for where, name in [(arrays.ArrayWriter, "append"), (arrays.GrowingArray, "append"),
                    (arrays.ArrayWriter, "finish"), (arrays.ArrayWriter, "scratch"),
                    (os, "replace"), (os, "fsync"), (folder, "digest_of"), (Database, "run")]:
    setattr(where, name, counted(getattr(where, name)))
with dp.Corpus(sys.argv[1]) as corpus:
    in_place = sys.argv[4] == "1"
    corpus.ingest(sys.argv[2], name="new", id="id", anchor="title", positive="body",
                  progress=False, options=dp.IngestOptions(prepare=True, in_place=in_place))
    print(left[0], file=sys.stderr)
"""


@pytest.mark.parametrize("number", range(kills(60, less=1)))
def test_an_ingest_that_is_killed_as_it_lays_out_texts_is_made_whole(
    tmp_path: Path, number: int
) -> None:
    path, file, in_place = tmp_path / "c.duckdb", tmp_path / "new.parquet", number % 2
    found = [{name: row[name] for name in ("id", "title", "body")} for row in rows(200, 3)]
    pq.write_table(pa.Table.from_pylist(found), file, row_group_size=40)
    with dp.Corpus(path) as corpus:
        corpus.ingest(odd_records(20, 1), name="old", progress=False, **ODD_MAPPING)
        corpus.split()
    given = [sys.executable, "-c", KILLED, str(path), str(file)]
    run = ran(*given, str(random.Random(number).randrange(330)), str(in_place))
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    with dp.Corpus(path) as corpus:
        if run.returncode and corpus.count() == 20:
            assert not list(snapshot.verify(snapshot.folder_of(path)))
            options = dp.IngestOptions(prepare=True, in_place=bool(in_place))
            source = dp.sources.ParquetSource(file, id="id", anchor="title", positive="body")
            corpus.ingest(source, name="new", progress=False, options=options)
        assert corpus.count() == 220
        corpus.prepare()
        laid = content(corpus)
        texts = corpus.sql("SELECT record_id, text FROM sections JOIN records USING (record_key)")
        wanted = sum(len(row["title"]) + len(row["body"]) for row in found)
        new = [row["text"] for row in texts.to_pylist() if row["record_id"].startswith("new/")]
        assert sum(map(len, new)) == wanted
        stored = StoredTexts(corpus.database, "chunks", fingerprint(corpus.database))
        for entry, data in laid:
            made = stored.written(tmp_path, entry["low"], entry["high"], QUIET)
            assert (tmp_path / made["file"]["name"]).read_bytes() == data
        corpus.ingest(odd_records(2, 5), name="last", progress=False, **ODD_MAPPING)
    assert not [p.name for p in tmp_path.iterdir() if ".parts" in p.name]


def test_an_ingest_says_that_a_pool_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(maintenance, "_pools", lambda corpus: ([], {"train": "too little memory"}))
    rows = [{"id": f"{i}", "title": f"title {i}", "body": f"body {i}"} for i in range(20)]
    source = dp.sources.MemorySource(rows, id="id", anchor="title", positive="body")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        options = dp.IngestOptions(prepare=True)
        report = corpus.ingest(source, name="s", progress=False, options=options)
    assert "look: no pool of split train was made: too little memory" in report.notes
