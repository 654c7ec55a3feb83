"""Texts in files of the corpus: as if they were in it, whole after a kill, and missed if gone."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import ODD_MAPPING, odd_records
from effort import kills
from programs import ran
from stored_rows import TIMES, stored_rows

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.engine.work import QUIET
from duckplets.ingest import text_files
from duckplets.ingest.chunks import fingerprint
from duckplets.serving import snapshot
from duckplets.serving.texts import StoredTexts

ALL = "FROM sections ORDER BY section_key"


def corpus_of(path: Path, inside_mb: float, **options: Any) -> dp.Corpus:
    """Several ingests: of one that is read in pieces, and one with rows that are replaced."""
    corpus = dp.Corpus(path)
    how = {"progress": False, "options": dp.IngestOptions(inside_mb=inside_mb, **options)}
    corpus.ingest(odd_records(60, 1), name="a", **ODD_MAPPING, **how)
    corpus.split()
    corpus.ingest(odd_records(50, 2), name="b", **ODD_MAPPING, **how)
    changed = [{**row, "title": f"another {row['title']}"} for row in odd_records(60, 1)[:20]]
    corpus.ingest(changed, name="a", on_conflict="replace", **ODD_MAPPING, **how)
    return corpus


def contents(corpus: dp.Corpus) -> dict[str, Any]:
    """Return all that is stored, with every text, but for where texts lie."""
    found = stored_rows(corpus, without=TIMES)
    found.pop("placed_files")
    for row in found["stored_sections"]:
        for name in ("text", "file_key", "file_row", "item"):
            row.pop(name, None)
    return found | {"texts": corpus.sql(ALL).to_pylist()}


def drawn(corpus: dp.Corpus) -> list[Any]:
    with corpus.sampler(batch_size=8, steps=6, options=dp.Options(empty="skip")) as sampler:
        return [batch.to_pydict() for batch in sampler]


def text_bytes(corpus: dp.Corpus) -> bytes:
    folder = text_files.folder_of(corpus.database)
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*")))


def test_everything_is_as_with_the_texts_inside(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshot, "LARGE", 50)
    monkeypatch.setattr(text_files, "_ROWS", 7)
    monkeypatch.setattr(text_files, "_BYTES", 300)
    monkeypatch.setattr(text_files, "_FULL", 4000)
    monkeypatch.setattr("duckplets.serving.along._BYTES", 0)
    found = []
    for number, inside_mb in enumerate((64, 0, 0.004)):
        with corpus_of(tmp_path / f"{number}.duckdb", inside_mb, prepare=True) as corpus:
            stages = [contents(corpus), drawn(corpus)]
            texts = corpus.sql(ALL)["text"].to_pylist()
            own = text_bytes(corpus)
            assert sum(text.encode() in own for text in texts if text.strip()) >= (
                len(texts) // 2 if number else 0
            )
            folder = snapshot.folder_of(corpus.path)
            manifest = snapshot.SnapshotManifest.read(folder)
            assert manifest is not None
            for entry in manifest.segments["chunks"]:
                assert bool(entry["files"]) is bool(number)
                stored = StoredTexts(corpus.database, "chunks", fingerprint(corpus.database))
                made = stored.written(tmp_path, entry["low"], entry["high"], QUIET)
                assert {**made, "file": 0} == {**entry, "file": 0}
                assert made["file"]["digest"] == entry["file"]["digest"]
            for chunking in ({"max_tokens": 7}, {"denoise": True}, {"denoise": False}):
                corpus.chunk(**chunking)
                stages += [contents(corpus), drawn(corpus)]
            corpus.remove("b")
            corpus.compact()
            stages += [contents(corpus), drawn(corpus)]
            gone = [row["title"] for row in odd_records(60, 1)[:20]]
            assert not any(title.encode() in text_bytes(corpus) for title in gone)
            again = dp.IngestOptions(inside_mb=inside_mb)
            source = dp.sources.MemorySource(odd_records(30, 5), **ODD_MAPPING)
            corpus.ingest(source, name="a", remap=True, progress=False, options=again)
            stages += [contents(corpus), drawn(corpus)]
        checks = [(check.ok, check.what) for check in doctor.corpus(tmp_path / f"{number}.duckdb")]
        assert [what for ok, what in checks if not ok] == []
        found.append(stages)
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_a_collection_is_as_with_the_texts_inside(tmp_path: Path) -> None:
    documents = [{"_id": f"d{n}", "title": f"t{n}", "text": f"document {n}"} for n in range(40)]
    queries = [{"_id": f"q{n}", "text": f"query {n}"} for n in range(20)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    (tmp_path / "qrels").mkdir()
    labels = "".join(f"q{n}\td{n}\t1\n" for n in range(20))
    (tmp_path / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{labels}")
    found = []
    for inside_mb in (64, 0):
        with dp.Corpus(tmp_path / f"{inside_mb}.duckdb") as corpus:
            options = dp.IngestOptions(inside_mb=inside_mb)
            collection = dp.Collection(str(tmp_path))
            corpus.ingest(collection, name="c", progress=False, options=options)
            found.append(contents(corpus))
            assert len(corpus.sql("FROM placed_files")) == (0 if inside_mb else 2)
    assert found[0] == found[1]


def test_a_corpus_is_moved_with_its_folder_and_misses_it(tmp_path: Path) -> None:
    with corpus_of(tmp_path / "a.duckdb", 0, prepare=True) as corpus:
        texts, before = corpus.sql(ALL), drawn(corpus)
        status = corpus.status()
        assert status["in_place"] == {"files": 0, "bytes": 0, "changed": []}
        files = [corpus.path, *(tmp_path / "a.texts").iterdir()]
        assert status["bytes"]["corpus"] == sum(file.stat().st_size for file in files)
        notes = [str(row["report"]) for row in corpus.sql("FROM corpus_versions").to_pylist()]
        assert sum("lie in a.texts beside the corpus: copy and move both" in n for n in notes) == 3
    with duckdb.connect(str(tmp_path / "a.duckdb"), read_only=True) as plain:
        assert len(plain.execute("SELECT text FROM sections").fetchall()) == len(texts)
    with duckdb.connect() as plain:
        plain.execute(f"ATTACH '{tmp_path}/a.duckdb' AS c (READ_ONLY)")
        with pytest.raises(duckdb.Error, match=r"SET VARIABLE corpus_texts = '/path/of/NAME\.tex"):
            plain.execute("SELECT text FROM c.sections").fetchall()
        plain.execute("SET VARIABLE corpus_texts = $at", {"at": f"{tmp_path}/a.texts/"})
        assert len(plain.execute("SELECT text FROM c.sections").fetchall()) == len(texts)
    other = tmp_path / "other" / "b.duckdb"
    other.parent.mkdir()
    shutil.copyfile(tmp_path / "a.duckdb", other)
    with dp.Corpus(other) as corpus:
        for verb in (drawn, lambda c: c.sql(ALL), lambda c: c.prepare(progress=False)):
            with pytest.raises(
                dp.errors.ChangedFileError, match=r"is not there.*move or copy both"
            ):
                verb(corpus)
        assert corpus.count() == 110
    third = shutil.copyfile(other, tmp_path / "third.duckdb")
    with dp.Corpus(third) as corpus:
        corpus.remove(corpus.status()["sources"][0]["name"])
        with pytest.raises(dp.errors.ChangedFileError, match=r"cannot be read.*move or copy both"):
            corpus.compact()
    shutil.copytree(tmp_path / "a.texts", other.with_name("b.texts"))  # with another name and times
    for read_only in (True, False):
        with dp.Corpus(other, read_only=read_only) as corpus:
            assert corpus.sql(ALL).equals(texts)
            assert drawn(corpus) == before
    file = max(other.with_name("b.texts").iterdir(), key=lambda path: path.stat().st_size)
    whole = file.read_bytes()
    pq.write_table(pa.table({"text": ["of another corpus"]}), tmp_path / "foreign.parquet")
    for data in (whole[:-9], bytes(len(whole)), (tmp_path / "foreign.parquet").read_bytes()):
        file.write_bytes(data)
        with dp.Corpus(other) as corpus, pytest.raises(dp.errors.ChangedFileError, match="changed"):
            corpus.sql(ALL)
    file.unlink()
    file.symlink_to(next((tmp_path / "a.texts").iterdir()))
    with pytest.raises(dp.errors.MigrationError, match="is a link"):
        dp.Corpus(other)


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    with corpus_of(tmp_path / "c.duckdb", 0) as corpus:
        before, files = contents(corpus), sorted((tmp_path / "c.texts").iterdir())
        write, left = pq.ParquetWriter.write_table, [3]

        def without_room(writer: Any, *given: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            write(writer, *given)

        monkeypatch.setattr(pq.ParquetWriter, "write_table", without_room)
        monkeypatch.setattr(text_files, "_ROWS", 7)
        options = dp.IngestOptions(inside_mb=0)
        with pytest.raises(dp.errors.DuckpletsError, match=r"c\.texts cannot be written: No space"):
            corpus.ingest(
                odd_records(40, 9), name="c", **ODD_MAPPING, progress=False, options=options
            )
        assert contents(corpus) == before
        assert sorted((tmp_path / "c.texts").iterdir()) == files
        monkeypatch.undo()
        corpus.ingest(odd_records(40, 9), name="c", **ODD_MAPPING, progress=False, options=options)
        assert corpus.count() == 150


KILLED = """
import os, signal, sys
import pyarrow.parquet as pq
import duckplets as dp
from duckplets.db.database import Database
from duckplets.ingest import ingest, text_files
left = [int(sys.argv[3])]
def counted(function):
    def call(*arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return call
ingest._ROWS_AT_ONCE, ingest._FILE, text_files._ROWS, text_files._FULL = 30, 0, 7, 3000
for where, name in [(pq.ParquetWriter, "write_table"), (pq.ParquetWriter, "close"), (os, "fsync"),
                    (os, "replace"), (Database, "run"), (Database, "rows")]:
    setattr(where, name, counted(getattr(where, name)))
with dp.Corpus(sys.argv[1]) as corpus:
    verb = sys.argv[4]
    if verb == "ingest":
        source = dp.sources.ParquetSource(sys.argv[2], id="id", anchor="title", positive="body")
        options = dp.IngestOptions(inside_mb=0)
        corpus.ingest(source, name="new", progress=False, options=options)
    elif verb == "compact":
        corpus.compact()
    elif verb == "rewrite":
        corpus.prepare(rewrite=True, progress=False)
    else:
        corpus.chunk(denoise=True)
    print(left[0], file=sys.stderr)
"""


@pytest.mark.parametrize("number", range(kills(100, less=4)))
def test_a_kill_at_any_moment_loses_nothing(tmp_path: Path, number: int) -> None:
    path, file, draw = tmp_path / "c.duckdb", tmp_path / "new.parquet", random.Random(number)
    rows = [{name: row[name] for name in ("id", "title", "body")} for row in odd_records(150, 3)]
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=40)
    verb = ("ingest", "compact", "chunk", "rewrite")[number % 4]
    with corpus_of(path, 0) as corpus:
        if verb == "rewrite":
            left = dp.sources.ParquetSource(file, id="id", anchor="title", positive="body")
            how = dp.IngestOptions(in_place=True)
            corpus.ingest(left, name="left", progress=False, options=how)
            corpus.prepare(progress=False)
        if verb == "compact":
            corpus.remove("b")
        texts = corpus.sql("SELECT record_id, text FROM section_texts ORDER BY ALL")
        count = corpus.count()
    moment = draw.randrange({"ingest": 160, "compact": 120, "chunk": 60, "rewrite": 70}[verb])
    run = ran(*(sys.executable, "-c", KILLED, str(path), str(file), str(moment), verb))
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    with dp.Corpus(path) as corpus:
        old = "SELECT record_id, text FROM section_texts WHERE source <> 'new' ORDER BY ALL"
        if verb != "chunk":
            assert corpus.sql(old).equals(texts)
        if verb == "ingest":
            source = dp.sources.ParquetSource(file, id="id", anchor="title", positive="body")
            options = dp.IngestOptions(inside_mb=0)
            corpus.ingest(source, name="new", progress=False, options=options)
            count += len(rows)
        if verb == "rewrite":
            corpus.prepare(rewrite=True, progress=False)
            assert corpus.prepare(rewrite=True, progress=False).rewritten == 0
            file.unlink()
        corpus.chunk(denoise=True)
        corpus.chunk(preprocessors=())
        assert corpus.sql(old).equals(texts)
        assert corpus.count() == count
        corpus.compact()
        assert corpus.sql(old).equals(texts)
        named = {row["path"].split("/")[1] for row in corpus.sql("FROM placed_files").to_pylist()}
        assert {file.name for file in (tmp_path / "c.texts").iterdir()} == named
        drawn(corpus)
