"""A run serves the same from a snapshot, from memory and from the corpus itself."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import cli
from corpora import ODD_MAPPING, odd_corpus, odd_records
from effort import often, some, thorough
from hypothesis import given, settings
from hypothesis import strategies as st
from prebuilt import copied, toy_corpus
from programs import python, ran

import duckplets as dp
from duckplets.artifacts.arrays import ArrayFile, ArrayWriter
from duckplets.artifacts.folder import files_of
from duckplets.ingest.chunks import fingerprint
from duckplets.serving import snapshot, texts


def served(corpus: dp.Corpus, steps: int = 4, **arguments: Any) -> pa.Table:
    with corpus.sampler(**{"batch_size": 16, **arguments}) as sampler:
        return pa.concat_tables([next(sampler).table for _ in range(steps)])


def prepare(corpus: dp.Corpus) -> None:
    """Lay down texts and chunks alone: the pools of a run are added when it is opened."""
    snapshot.prepare(corpus.database, corpus.version, fingerprint(corpus.database))


def read(corpus: dp.Corpus) -> pa.Table:
    """Read records by their places, some of them twice."""
    order = [*range(corpus.count()), 0, 3, 3]
    columns = ["record_id", "text", "anchor", "context"]
    return pa.concat_tables([b.table for b in corpus.read(order, batch_size=7, columns=columns)])


def more(corpus: dp.Corpus, name: str, count: int, seed: int) -> None:
    rows = [{**row, "id": f"{name}{row['id']}"} for row in odd_records(count, seed)]
    corpus.ingest(dp.sources.MemorySource(rows, **ODD_MAPPING), name="odd0", progress=False)


@pytest.mark.parametrize("seed", range(often(10, less=1)))
def test_what_has_come_since_is_added(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "c.duckdb"
    with odd_corpus(path, often(80, less=40), seed, sources=2) as corpus:
        records = read(corpus)
        prepare(corpus)
        assert read(corpus).equals(records)
        folder = snapshot.folder_of(path)
        first = set(folder.glob("texts-*"))
        corpus.sampler(batch_size=16).save()
        expected = served(corpus)
        for number, count in enumerate((5, 3, 60, 2)[: often(4, less=1)]):
            more(corpus, f"more{number}", count, seed)
            assert snapshot.opened(corpus.database, corpus.version) is None
            held, records = served(corpus), read(corpus)
            prepare(corpus)
            assert served(corpus).equals(held)
            assert read(corpus).equals(records)
            if number == 0:
                assert len(snapshot.SnapshotManifest.read(folder).segments["chunks"]) == 2
                assert first < set(folder.glob("texts-*"))
        corpus.remove("odd1")
        assert corpus.status()["snapshot"]["current"] is False
        held = served(corpus)
        prepare(corpus)
        assert corpus.status()["snapshot"]["current"] is True
        assert served(corpus).equals(held)
    # A run that is pinned to the first version goes on from the newest snapshot.
    with dp.resume(path) as sampler:
        assert pa.concat_tables([next(sampler).table for _ in range(4)]).equals(expected)


def test_other_chunks_or_another_corpus_make_it_anew(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    with odd_corpus(path, 60, 4) as corpus:
        prepare(corpus)
        steps = [
            lambda: corpus.chunk(dp.Chunking(max_tokens=5, overlap=(1,))),
            lambda: corpus.split(0.5, 0.3, 0.2, seed=9, reassign=True),
            lambda: corpus.compact(),
        ]
        for change in some(steps, less=1):
            change()
            before = served(corpus)
            prepare(corpus)
            assert served(corpus).equals(before)
    path.unlink()
    with odd_corpus(path, 40, 8) as corpus:
        found = served(corpus)
        shutil.rmtree(snapshot.folder_of(path))
        assert served(corpus).equals(found)


def test_a_large_corpus_gets_one_by_itself_wherever_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with toy_corpus(tmp_path / "c.duckdb", 60) as corpus:
        held = served(corpus)
        beside, elsewhere = snapshot.folder_of(corpus.path), tmp_path / "there" / "c"
        assert not beside.exists()
        monkeypatch.setattr(snapshot, "LARGE", 100)
        for folder in (elsewhere, None):
            with corpus.sampler(options=dp.Options(snapshot=folder)) as sampler:
                assert "was updated" in " ".join(sampler.notes)
                sampler.save()
            assert beside.exists() is (folder is None)
            with corpus.sampler(options=dp.Options(snapshot=folder)) as sampler:
                assert "snapshot" not in " ".join(sampler.notes)
            assert served(corpus, options=dp.Options(snapshot=folder)).equals(held)
        assert corpus.status()["snapshot"]["current"] is True
        shutil.rmtree(beside)
        with corpus.resume(snapshot=elsewhere) as sampler:
            assert "snapshot" not in " ".join(sampler.notes)


def test_a_damaged_snapshot_is_made_anew_and_one_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with toy_corpus(tmp_path / "c.duckdb", 60) as corpus:
        held, folder = served(corpus), snapshot.folder_of(corpus.path)
        monkeypatch.setattr(snapshot, "LARGE", 100)
        corpus.prepare()
        (texts,) = folder.glob("texts-*")
        texts.write_bytes(texts.read_bytes()[:-1])
        with corpus.sampler() as sampler:
            assert "the snapshot is made again" in " ".join(sampler.notes)
        assert served(corpus).equals(held)
        assert not texts.exists()
        shutil.rmtree(folder)
        folder.write_text("in its place")
        with pytest.raises(dp.errors.ReadOnlyError, match=r"cannot be written to .* MB.*snapshot="):
            corpus.sampler()
        assert served(corpus, options=dp.Options(snapshot=tmp_path / "other")).equals(held)
        with pytest.raises(dp.errors.ReadOnlyError, match=r"Options\(snapshot=FOLDER\)"):
            corpus.prepare()


def test_cleaning_keeps_what_runs_are_pinned_to(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    with odd_corpus(path, often(60, less=30), 2) as corpus:
        corpus.prepare()
        corpus.sampler(batch_size=16).save()
        more(corpus, "more", 10, 2)
        corpus.prepare()
        more(corpus, "again", 10, 3)
        corpus.prepare()
        folder = snapshot.folder_of(path)
        (folder / f"arrays-{'a' * 32}.npy").write_bytes(b"x" * 1000)
        versions = [b["version"] for b in snapshot.SnapshotManifest.read(folder).bundles]
        assert set(versions) == {1, 2, 3}
        freed = corpus.prepare(clean=True).freed
        assert freed > 1000
        assert {b["version"] for b in snapshot.SnapshotManifest.read(folder).bundles} == {1, 3}
    assert sorted(snapshot.verify(folder)) == []
    out = cli("prepare", path, "--clean")
    assert out.exit_code == 0
    assert re.search("^freed +0$", out.stdout, re.MULTILINE)


NOT_OURS = ("notes.json", "texts-1.npy", f"my-texts-{'a' * 32}.npy", f"texts-{'A' * 32}.npy")


def test_files_of_somebody_else_are_left_and_their_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c.snapshot"
    folder.mkdir()
    kept = [folder / name for name in NOT_OURS]
    with toy_corpus(tmp_path / "c.duckdb", 60) as corpus:
        for file in some(kept, less=2):
            file.write_text("{}")
            with pytest.raises(
                dp.errors.ReadOnlyError, match=r"which is not of a snapshot.* move that"
            ):
                corpus.prepare(clean=True)
            with monkeypatch.context() as patch:
                patch.setattr(snapshot, "LARGE", 10)
                with pytest.raises(dp.errors.ReadOnlyError, match=r"not of a snapshot.*snapshot="):
                    corpus.sampler()
            assert file.read_text() == "{}"
            file.unlink()
        corpus.prepare()  # and there, beside a manifest, others may lie
        for file in kept:
            file.write_text("{}")
        left = folder / f"chunks-{'0' * 32}.npy"
        left.touch()
        corpus.ingest(dp.sources.MemorySource([{"t": "one more"}], text="t"), name="more")
        corpus.prepare(clean=True)
        assert [file.read_text() for file in kept] == ["{}"] * len(kept)
        assert not left.exists()


BUILD = """
import sys, time
import duckplets as dp
print("ready", flush=True); sys.stdin.readline()
with dp.Corpus(sys.argv[1], read_only=True) as corpus:
    corpus.prepare(); print("made", flush=True)
"""


def test_several_processes_make_one(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    toy_corpus(path, 60).close()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with python("-c", BUILD, path, **pipes) as one, python("-c", BUILD, path, **pipes) as other:
        for child in (one, other):
            assert child.stdout.readline() == "ready\n"
        for child in (one, other):
            child.stdin.write("go\n")
            child.stdin.flush()
        assert [child.wait(60) for child in (one, other)] == [0, 0]
    folder = snapshot.folder_of(path)
    assert len(list(folder.glob("texts-*"))) == 1
    assert not list(snapshot.verify(folder))


def entries(described: Any) -> Iterator[tuple[str, int, int]]:
    """Yield type, offset and length of the arrays in a file that a manifest names."""
    if isinstance(described, dict):
        described = list(described.values())
    if isinstance(described, list):
        if len(described) == 3 and isinstance(described[0], str) and described[0][0] in "<|":
            yield tuple(described)
        else:
            for part in described:
                yield from entries(part)


def test_what_planning_reads_takes_at_most_72_bytes_a_record(tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "title": f"title {i}", "body": f"body {i} " * (i % 97)} for i in range(3000)
    ]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(
            dp.sources.MemorySource(rows, id="id", anchor="title", positive="body"), name="rows"
        )
        corpus.split(1, 0, 0)
        prepare(corpus)
        served(corpus)
        folder = snapshot.folder_of(corpus.path)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["content"]
    (pools,), (texts,) = manifest["bundles"], manifest["segments"]["chunks"]
    read = {*entries(json.loads((folder / pools["index"]["name"]).read_text(encoding="utf-8")))}
    read |= {*entries([texts["of_chunks"][name] for name in ("chunk_key", "span", "bytes")])}
    size = sum(np.dtype(kind).itemsize * count for kind, _, count in read)
    assert 48 * len(rows) < size < 72 * len(rows)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**33), min_size=1, max_size=200), st.integers(1, 2**40))
def test_places_in_a_file_of_any_size_are_as_they_were(steps: list[int], first: int) -> None:
    spans = np.cumsum([first, *steps])
    with TemporaryDirectory() as folder:
        with ArrayWriter(Path(folder), "texts") as writer:
            kind, *entry = texts._added(writer, "span", spans.copy())
            file = ArrayFile(Path(folder), writer.finish())
        if kind == "offsets":
            found = texts.Offsets(*map(file.array, entry))
        else:
            found = file.array([kind, *entry])
        rows = np.random.default_rng(first).integers(0, len(spans), 50)
        assert len(found) == len(spans)
        assert np.array_equal(found[rows], spans[rows])


KILLED = """
import os, signal, sys, threading, time
import duckplets as dp
from duckplets.artifacts import arrays, folder
at, left = int(sys.argv[2]), [int(sys.argv[2])]
def counted(function):
    def call(*arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return call
writer = arrays.ArrayWriter
for where, name in [(writer, "append"), (writer, "scratch"), (writer, "finish"), (os, "replace"),
                    (os, "fsync"), (folder, "digest_of")]:
    setattr(where, name, counted(getattr(where, name)))
with dp.Corpus(sys.argv[1], read_only=True) as corpus:
    corpus.prepare()
"""


@pytest.mark.parametrize("at", some([13, *range(0, 50, 3)], less=1))
def test_a_build_that_is_killed_leaves_a_whole_one_or_none(tmp_path: Path, at: int) -> None:
    path = tmp_path / "c.duckdb"
    with odd_corpus(path, often(60, less=30), 5) as corpus:
        if at % 2:
            prepare(corpus)
            more(corpus, "more", 20, 5)
        expected = served(corpus)
    run = ran(sys.executable, "-c", KILLED, str(path), str(at // 2))
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    assert run.returncode or at > 20
    with dp.Corpus(path, read_only=True) as corpus:
        assert served(corpus).equals(expected)
        folder = corpus.prepare().folder
        assert served(corpus).equals(expected)
    assert not list(snapshot.verify(folder))
    found = snapshot.SnapshotManifest.read(folder)
    named = {file.name for file in files_of([found.segments, found.bundles])}
    assert {p.name for p in folder.iterdir()} == named | {"manifest.json", "lock"}


FULL = """
import resource, signal, sys
import duckplets as dp
from duckplets.serving import snapshot, texts
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
snapshot.LARGE = 10
with dp.Corpus(sys.argv[1], read_only=True) as corpus:
    most = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        with corpus.sampler(batch_size=16) as sampler:
            next(sampler).to_pydict()
            print("served")
    except dp.errors.ReadOnlyError as error:
        print("refused", error)
"""


@thorough
@pytest.mark.parametrize("room", some([4000, *range(0, 40_000, 2_500)], less=1))
def test_a_full_disk_leaves_a_corpus_as_it_was(tmp_path: Path, room: int) -> None:
    path = tmp_path / "c.duckdb"
    copied(path, odd_corpus, 80, 1, sources=2)
    run = ran(sys.executable, "-c", FULL, str(path), str(room))
    assert run.returncode == 0, run.stderr
    assert ("refused" in run.stdout) or room > 8000
    assert "snapshot=" in run.stdout or "served" in run.stdout
    with dp.Corpus(path, read_only=True) as corpus:
        expected = served(corpus)
        corpus.prepare()
        assert served(corpus).equals(expected)
    assert not list(snapshot.verify(snapshot.folder_of(path)))
