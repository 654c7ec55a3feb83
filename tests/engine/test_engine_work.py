"""The same work by an engine and without one: the same tables, shards and snapshots."""

import hashlib
import random
import re
import time
from contextlib import nullcontext

import pytest
from commands import error
from corpora import WORDS
from effort import THOROUGH, often, some, thorough
from gated_rows import contents
from prebuilt import prebuilt
from programs import python
from worker_processes import killed

import duckplets as dp
from duckplets.engine.local import local


@prebuilt
def corpus_of(path, count, seed):
    """Two sources of titles and bodies, some of them nearly equal, with splits."""
    draw = random.Random(seed)
    corpus = dp.Corpus(path)
    for name in ("one", "two"):
        rows = []
        for number in range(count):
            body = " ".join(draw.choices(WORDS, k=draw.randrange(1, 60)))
            if rows and number % 5 == 0:
                body = rows[draw.randrange(len(rows))]["body"] + " again"
            rows.append({"id": f"{number}", "title": " ".join(body.split()[:4]), "body": body})
        source = dp.MemorySource(rows, id="id", anchor="title", positive="body")
        corpus.ingest(source, name=name, progress=False)
    corpus.split(*((0.8, 0.1, 0.1) if THOROUGH else (1, 0, 0)), seed=seed)
    return corpus


def short(texts):
    """Judge texts; defined here, so workers have it from the session only."""
    return [len(text) < 300 for text in texts]


def index(corpus, engine):
    corpus.index(engine=engine, progress=False)


def mine(corpus, engine):
    corpus.mine(["anchor_context"], depth=5, engine=engine, progress=False)


def deduplicate(corpus, engine):
    assert corpus.deduplicate(0.7, ngram=2, engine=engine, progress=False).clusters


def judge(corpus, engine):
    dp.register_gate("short", short)
    gates = dp.Quality(
        language=None, gates=("short",), min_characters=20, pii=None, duplicates=False
    )
    assert corpus.judge(gates, engine=engine).rejected


SAME = {
    "index": index, "mine": mine, "deduplicate": deduplicate, "judge": judge
}  # fmt: skip


TABLES = [(40, 1, "processes"), (3, 2, "processes"), (2000, 3, "processes"), (40, 4, "cluster")]


@pytest.mark.parametrize(("count", "seed", "by"), some(TABLES, less=1))
def test_tables_are_the_same(count, seed, by, request, tmp_path):
    found = []
    for name, engine in (("alone", None), ("engine", request.getfixturevalue(by))):
        with corpus_of(tmp_path / f"{name}.duckdb", count, seed) as corpus:
            for work in SAME.values() if count > 10 else [index]:  # so few have nothing to mine
                work(corpus, engine)
            found.append(told(corpus))
    assert found[0] == found[1]


def told(corpus):
    """Return what is in all tables but times."""
    found = contents(corpus)
    for rows in found.values():
        for row in rows:
            for name in ("seconds", "finished_at", "built_at"):
                row.pop(name, None)
    return found


@pytest.mark.parametrize("buckets", some([(8, 16), (64,)], less=1))
def test_shards_are_the_same(processes, tmp_path, buckets, tokenizer):
    found = []
    settings = {"buckets": buckets, "shard_mb": 0.005, "offsets": True}
    with corpus_of(tmp_path / "c.duckdb", often(2000, less=40), 1) as corpus:
        for name, engine in (("alone", None), ("engine", processes)):
            out = tmp_path / name
            how = settings | {"engine": engine, "progress": False}
            corpus.shard(out, tokenizer=tokenizer, longer="cut", **how)
            manifest = (out / "manifest.json").read_text(encoding="utf-8").replace(name, "")
            found.append(shard_digests(out) | {"manifest": manifest})
    assert found[0] == found[1]
    assert len(found[0]) > 4


def shard_digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".parquet", ".tsv")
    }


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("tokenizer")
    with corpus_of(folder / "c.duckdb", 40, 1) as corpus:
        dp.train_tokenizer(corpus, folder / "t", vocab_size=300, progress=False)
    return folder / "t"


@thorough
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_killed_all_the_time_change_nothing(workers, tmp_path, tokenizer):
    found = []
    for name in ("alone", "engine"):
        with (
            corpus_of(tmp_path / f"{name}.duckdb", 5_000, 7) as corpus,
            local(workers) if name == "engine" else nullcontext() as engine,
            killed(0.4) if name == "engine" else nullcontext(["none"]) as gone,
        ):
            for work in SAME.values():
                work(corpus, engine)
            out = tmp_path / name
            corpus.shard(out, tokenizer=tokenizer, shard_mb=0.05, engine=engine, progress=False)
            assert gone
            # A manifest has when the versions of its corpus were made.
            found.append((told(corpus), shard_digests(out)))
    assert found[0] == found[1]


@thorough
def test_snapshots_are_the_same(processes, tmp_path):
    found = []
    for name, engine in (("alone", None), ("engine", processes)):
        with corpus_of(tmp_path / f"{name}.duckdb", 60, 9) as corpus:
            corpus.chunk(dp.Chunking(max_tokens=5, overlap=(2,)))
            assert corpus.prepare(engine=engine, progress=False).chunks > 500
        files = (tmp_path / f"{name}.snapshot").rglob("*.npy")
        found.append(sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files))
    assert found[0] == found[1]
    assert len(found[0]) >= 3


DRIVER = """
import sys
import duckplets as dp

with dp.Corpus(sys.argv[1]) as corpus:
    print("ready", flush=True)
    corpus.mine(["anchor_context"], depth=5, engine="local:2", progress=lambda *_: print("more"))
"""


@thorough
def test_a_driver_that_was_killed_goes_on(tmp_path):
    with corpus_of(tmp_path / "whole.duckdb", 8_000, 8) as corpus:
        mine(corpus, None)
        wanted = told(corpus)
    corpus_of(tmp_path / "c.duckdb", 8_000, 8).close()
    for seconds in (0.0, 2.0, 5.0):
        with python("-c", DRIVER, tmp_path / "c.duckdb") as driver:
            assert driver.stdout.readline() == "ready\n"
            time.sleep(seconds)
            driver.kill()
            driver.wait()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        mine(corpus, "local:2")
        assert told(corpus) == wanted


def test_the_command_line_takes_an_engine(tmp_path):
    corpus_of(tmp_path / "c.duckdb", 40, 1).close()
    path = str(tmp_path / "c.duckdb")
    for command in (["mine", path], ["quality", path, "--apply", "c4"], ["deduplicate", path]):
        assert re.search("engine[ =]'ray://x': give", error(*command, "--engine", "ray://x"))
    refused = error("deduplicate", path, "--equal", "--engine", "local:1")
    assert "compares digests in this process" in refused
