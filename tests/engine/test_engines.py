"""Engines: what runs on workers, in which order it comes back, and what becomes of lost ones."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import parts_of_tests
import pytest
from effort import often, thorough
from programs import python
from worker_processes import wait_for_end, workers_of

import duckplets as dp
from duckplets.engine import dask, opened
from duckplets.engine import local as of_processes
from duckplets.engine.dask import DaskEngine
from duckplets.engine.inline import INLINE, InlineEngine
from duckplets.engine.local import local
from duckplets.engine.protocol import Engine, Part, versions

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
        with pytest.raises(dp.EngineError, match="give None, 'local:4' for four"), opened(engine):
            pass
    monkeypatch.setattr(dask, "_CONNECTING", 1)
    message = r"engine='dask://127.0.0.1:9': no scheduler of Dask answers there"
    with pytest.raises(dp.EngineError, match=message), opened("dask://127.0.0.1:9"):
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
    with pytest.raises(dp.EngineError, match=r"part 5 failed 3 times: OSError: \[Errno 28\] No sp"):
        list(engine.map(parts_of_tests.failing, job | {"times": 99}, parts(9)))
    job = {"at": 5, "times": often(3, less=1), "folder": str(lost)}
    assert list(engine.map(parts_of_tests.deadly, job, parts(12))) == list(range(12))
    assert len(list(lost.iterdir())) == job["times"] + 1
    others = versions() | {"duckplets": "9.9.9"}
    for module in (dask, of_processes):
        monkeypatch.setattr(module, "versions", lambda: others)
    with pytest.raises(dp.EngineError, match=r"has duckplets .* \(wanted: 9\.9\.9\); .* install"):
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
        with pytest.raises(dp.EngineError, match=LETHAL.format(most + 1)):
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
        with pytest.raises(dp.EngineError, match=message):
            list(processes.map(parts_of_tests.called, function, parts(3)))


GONE = dp.CsvSource("a.csv", text="gone")
NOTHING_TO_DO = {
    "index": ("no splits yet", (), {}),
    "mine": ("no splits yet", (), {}),
    "shard": ("tokenizer='t'", ("o",), {"tokenizer": "t"}),
    "deduplicate": ("near=7", (7,), {}),
    "judge": ("none such", ("none such",), {}),
    "ingest": ("gone", (GONE,), {}),
    "acquire": ("gone", ({"x": GONE},), {}),
}


def test_what_is_refused_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("body\na text\n")
    rows = [{"q": f"question {n}", "a": f"answer {n}"} for n in range(20)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(dp.MemorySource(rows, anchor="q", positive="a"), name="s", progress=False)
        monkeypatch.setattr(subprocess, "Popen", None)  # which nobody can call
        for verb, (wanted, arguments, options) in NOTHING_TO_DO.items():
            with pytest.raises(dp.DuckpletsError, match=wanted):
                getattr(corpus, verb)(*arguments, **options, engine="local:2")


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
