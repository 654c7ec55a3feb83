"""Engines: what runs on workers, in which order it comes back, and what becomes of lost ones."""

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import parts_of_tests
import pytest
from commands import error
from corpora import WORDS
from effort import THOROUGH, often, some, thorough
from gated_rows import contents
from prebuilt import prebuilt
from programs import python
from worker_processes import killed, wait_for_end, workers_of

import duckplets as dp
from duckplets.engine import dask, opened
from duckplets.engine import local as of_processes
from duckplets.engine.dask import DaskEngine
from duckplets.engine.inline import INLINE, InlineEngine
from duckplets.engine.local import local
from duckplets.engine.protocol import Engine, Part, versions
from duckplets.search.index import index as build_index

HERE = Path(__file__).parent


def parts(count):
    return (Part(f"part {n}", n) for n in range(count))


@pytest.fixture
def engine(kind, request):
    if kind == "dask":
        with opened(request.getfixturevalue("cluster")) as found:
            assert isinstance(found, DaskEngine)
            assert found.workers == 2
            yield found
        return
    inline = {"inline": INLINE, "threads": InlineEngine(2)}
    yield inline.get(kind) or request.getfixturevalue("processes")


class Doubled:
    """An engine in as few lines as it takes."""

    workers = 1

    def map(self, function, job, parts):
        return (function(job, part.input) for part in parts)


def test_what_an_engine_is_and_what_is_none(monkeypatch):
    own = Doubled()
    assert isinstance(own, Engine)
    for given, wanted in ((own, own), (None, INLINE)):
        with opened(given) as found:
            assert found is wanted
    wrong = ("local", "local:0", "local:x", "dask", "tcp://127.0.0.1:1", 4, Doubled, True)
    for engine in wrong:
        with (
            pytest.raises(dp.errors.EngineError, match="give None, 'local:4' for four"),
            opened(engine),
        ):
            pass
    monkeypatch.setattr(dask, "_CONNECTING", 1)
    message = r"engine='dask://127.0.0.1:9': no scheduler of Dask answers there"
    with pytest.raises(dp.errors.EngineError, match=message), opened("dask://127.0.0.1:9"):
        pass


def in_order(engine, count, modulus):
    """Check that results come in the order of the parts, and no more are drawn than needed."""
    drawn = []

    def asked():
        for part in parts(count):
            drawn.append(part)
            yield part

    for number, result in enumerate(
        engine.map(parts_of_tests.waited, {"modulus": modulus}, asked())
    ):
        assert result == 2 * number
        assert len(drawn) <= number + 1 + 3 * engine.workers
    assert len(drawn) == count


# One test an engine, so that one process of a suite starts a cluster.
@pytest.mark.parametrize("kind", ["inline", "threads", "local", "dask"])
def test_results_are_in_order_whatever_is_lost_and_what_fails_thrice_is_named(
    kind, engine, tmp_path, monkeypatch
):
    for count, modulus in [(0, 1), (1, 1), (5, 7), (6, 1), (7, 7), (60, 7)]:
        in_order(engine, count, modulus)
    with pytest.raises(dp.SourceError, match=r"^row 3 is wrong$"):  # ours come as they are
        list(engine.map(parts_of_tests.refusing, {}, parts(9)))
    if kind not in ("local", "dask"):
        return
    raised, lost = tmp_path / "raised", tmp_path / "lost"
    raised.mkdir()
    lost.mkdir()
    job = {"at": 5, "times": 2, "folder": str(raised)}
    assert list(engine.map(parts_of_tests.failing, job, parts(9))) == list(range(9))
    assert len(list(raised.iterdir())) == 3
    with pytest.raises(
        dp.errors.EngineError, match=r"part 5 failed 3 times: OSError: \[Errno 28\] No sp"
    ):
        list(engine.map(parts_of_tests.failing, job | {"times": 99}, parts(9)))
    job = {"at": 5, "times": often(3, less=1), "folder": str(lost)}
    assert list(engine.map(parts_of_tests.deadly, job, parts(12))) == list(range(12))
    assert len(list(lost.iterdir())) == job["times"] + 1
    if kind == "local":  # whose workers are of this very installation
        return
    others = versions() | {"duckplets": "9.9.9"}
    monkeypatch.setattr(dask, "versions", lambda: others)
    with pytest.raises(
        dp.errors.EngineError, match=r"has duckplets .* \(wanted: 9\.9\.9\); .* install"
    ):
        list(engine.map(parts_of_tests.waited, {}, parts(3)))


def test_who_takes_no_more_leaves_no_part_running(processes, tmp_path):
    other = processes.map(parts_of_tests.waited, {}, parts(20))
    assert next(other) == 0

    def failing():
        for name in ("one", "two"):
            yield Part(name, str(tmp_path))
        while len(list(tmp_path.glob("*.pid"))) < 2:
            time.sleep(0.01)
        raise OSError("no more parts")

    with pytest.raises(OSError, match="no more parts"):
        list(processes.map(parts_of_tests.lasting, None, failing()))
    left = set(tmp_path.iterdir())
    time.sleep(0.1)
    assert set(tmp_path.iterdir()) == left
    assert list(other) == [2 * n for n in range(1, 20)]


LETHAL = r"part 5: {} workers ended while they worked at it, so it is likely what ends them"


@thorough
def test_what_ends_twenty_workers_is_named(tmp_path):
    most = often(20, less=1)
    job = {"at": 5, "times": 99, "folder": str(tmp_path)}
    with local(2, most_losses=most) as engine:
        with pytest.raises(dp.errors.EngineError, match=LETHAL.format(most + 1)):
            list(engine.map(parts_of_tests.deadly, job, parts(9)))
        assert len(list(tmp_path.iterdir())) == most + 1
        assert list(engine.map(parts_of_tests.waited, {}, parts(3))) == [0, 2, 4]


def _listening():
    """Return the sockets of the machine that somebody can connect to."""
    rows = [
        (line.split(), of)
        for of in ("tcp", "tcp6", "unix")
        for line in Path(f"/proc/net/{of}").read_text().splitlines()[1:]
    ]
    unix = {row[6] for row, of in rows if of == "unix" and int(row[3], 16) & 0x10000}
    return {
        f"socket:[{each}]"
        for each in unix | {row[9] for row, of in rows if of != "unix" and row[3] == "0A"}
    }


def _sockets(pid):
    """Return the sockets that a process has open, as the system names them."""
    links = (os.readlink(place) for place in Path(f"/proc/{pid}/fd").iterdir() if place.exists())
    return {link for link in links if link.startswith("socket:")}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_nothing_listens_and_work_too_small_is_said(caplog, monkeypatch):
    """A socket would be open to every user of the machine, and what runs there runs as this one."""
    monkeypatch.setattr(of_processes, "_WORTH", 600.0)  # seconds: on a busy machine all takes long
    before, others = workers_of(), _sockets(os.getpid()) & _listening()
    with opened("local:1") as engine:
        found = engine.map(parts_of_tests.waited, {}, parts(12))
        assert next(found) == 0
        (worker,) = workers_of() - before
        assert _sockets(os.getpid()) & _listening() <= others
        assert not _sockets(worker)
        assert len(list(found)) == 11
    with opened("local:1"):
        pass
    (said,) = [record.getMessage() for record in caplog.records if record.name == "duckplets"]
    assert said.startswith("engine='local:1': 1 process worked for ")


def test_no_package_is_needed_but_for_functions_of_a_script(processes, monkeypatch):
    script = {"__name__": "__main__"}
    exec("def gate(number):\n    return 3 * number", script)
    refused = {
        (lambda n: 3 * n): r"cannot be sent .*lambda.* install cloudpickle",
        script["gate"]: "gate is defined in the script itself",
    }
    for function in refused:
        found = processes.map(parts_of_tests.called, function, parts(3))
        assert list(found) == [0, 3, 6]
    for name in ("cloudpickle", "dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    assert list(processes.map(parts_of_tests.waited, {}, parts(3))) == [0, 2, 4]
    for function, message in refused.items():
        with pytest.raises(dp.errors.EngineError, match=message):
            list(processes.map(parts_of_tests.called, function, parts(3)))


GONE = dp.sources.CsvSource("a.csv", text="gone")
NOTHING_TO_DO = {
    "mine": ("no splits yet", (), {}),
    "shard": ("tokenizer='t'", ("o",), {"tokenizer": "t"}),
    "deduplicate": ("near=7", (7,), {}),
    "quality": ("none such", (), {"apply": "none such"}),
}


def test_what_is_refused_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("body\na text\n")
    rows = [{"q": f"question {n}", "a": f"answer {n}"} for n in range(20)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(rows, name="s", anchor="q", positive="a")
        monkeypatch.setattr(subprocess, "Popen", None)  # which nobody can call
        for verb, (wanted, arguments, options) in NOTHING_TO_DO.items():
            with pytest.raises(dp.DuckpletsError, match=wanted):
                getattr(corpus, verb)(*arguments, **options, engine="local:2")
        for source in (GONE, {"x": GONE}):
            with pytest.raises(dp.DuckpletsError, match="gone"):
                corpus.ingest(source, options=dp.IngestOptions(engine="local:2"))


SCRIPT = """
import sys
sys.path.append(sys.argv[1])  # workers look for modules where this program does
import parts_of_tests
from duckplets.engine.protocol import Part
from duckplets.engine import opened

try:
    with opened("local:" + sys.argv[3]) as engine:  # and no if __name__ == "__main__"
        endless = (Part("one", sys.argv[2]) for _ in range(9))
        list(engine.map(parts_of_tests.lasting, None, endless))
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_whoever_started_them(sent, tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT, encoding="utf-8")
    folder.mkdir()
    workers = often(2, less=1)
    with python(script, HERE, folder, workers) as driver:
        while len(found := list(folder.glob("*.pid"))) < workers:
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.05)
        if sent == signal.SIGINT:
            os.killpg(driver.pid, sent)  # as a terminal does
            assert driver.communicate() == ("stopped\n", "")
            assert driver.returncode == 0
        else:
            driver.kill()
        wait_for_end({int(file.stem) for file in found})


# ---- the same work by an engine and without one: the same tables, shards and snapshots


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
        corpus.ingest(rows, name=name, id="id", anchor="title", positive="body")
    corpus.split(*((0.8, 0.1, 0.1) if THOROUGH else (1, 0, 0)), seed=seed)
    return corpus


def short(texts):
    """Judge texts; defined here, so workers have it from the session only."""
    return [len(text) < 300 for text in texts]


def index(corpus, engine):
    build_index(corpus, engine=engine, progress=False)


def mine(corpus, engine):
    corpus.mine(["anchor_context"], depth=5, engine=engine)


def deduplicate(corpus, engine):
    assert corpus.deduplicate(0.7, ngram=2, engine=engine).clusters


def judge(corpus, engine):
    dp.plugins.register_gate("short", short)
    gates = dp.Quality(
        language=None, gates=("short",), min_characters=20, pii=None, duplicates=False
    )
    assert corpus.quality(apply=gates, engine=engine).newly_rejected


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
        dp.train_tokenizer(corpus, folder / "t", vocab_size=300)
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
            corpus.shard(out, tokenizer=tokenizer, shard_mb=0.05, engine=engine)
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
            assert corpus.prepare(engine=engine).chunks > 500
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


def test_commands_take_the_engine_of_the_environment(tmp_path, monkeypatch):
    corpus_of(tmp_path / "c.duckdb", 40, 1).close()
    path = str(tmp_path / "c.duckdb")
    for command in (["mine", path], ["quality", path, "--apply", "c4"], ["deduplicate", path]):
        monkeypatch.setenv("DUCKPLETS_ENGINE", "ray://x")
        assert re.search("engine[ =]'ray://x': give", error(*command))
