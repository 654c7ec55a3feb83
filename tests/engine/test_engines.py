"""Engines: what runs on workers, in which order it comes back, and what becomes of lost ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import parts_of_tests
import pytest
from effort import often, thorough
from prebuilt import prebuilt
from programs import python
from worker_processes import wait_for_end, workers_of

import duckplets as dp
from duckplets.engine import dask, opened
from duckplets.engine import local as of_processes
from duckplets.engine.dask import DaskEngine
from duckplets.engine.inline import INLINE, InlineEngine
from duckplets.engine.local import LocalEngine, local
from duckplets.engine.protocol import Engine, Part, versions

HERE = Path(__file__).parent


def parts(count: int) -> Iterator[Part]:
    return (Part(f"part {n}", n) for n in range(count))


INLINES: dict[str, Engine] = {"inline": INLINE, "threads": InlineEngine(2)}


@pytest.fixture(params=["local", "dask"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return named(request.param, request)


@pytest.fixture(params=[*INLINES, "local", "dask"])
def any_engine(request: pytest.FixtureRequest) -> Engine:
    return named(request.param, request)


def named(name: str, request: pytest.FixtureRequest) -> Engine:
    if name == "dask":
        return dask.of_client(request.getfixturevalue("cluster"))
    return INLINES.get(name) or request.getfixturevalue("processes")


class Doubled:
    """An engine in as few lines as it takes."""

    workers = 1

    def map(self, function: Any, job: Any, parts: Any) -> Iterator[Any]:
        return (function(job, part.input) for part in parts)


def test_what_an_engine_is(cluster: Any) -> None:
    own = Doubled()
    with opened(own) as found:
        assert found is own
    assert isinstance(own, Engine)
    with opened(None) as found:
        assert found is INLINE
    with opened(cluster) as found:
        assert isinstance(found, DaskEngine)
        assert found.workers == 2


def test_what_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ("local", "local:0", "local:x", "dask", "tcp://127.0.0.1:1", 4, Doubled, True)
    for engine in wrong:
        with pytest.raises(dp.EngineError, match="give None, 'local:4' for four"), opened(engine):
            pass
    monkeypatch.setattr(dask, "_CONNECTING", 1)
    wanted = r"engine='dask://127.0.0.1:9': no scheduler of Dask answers there"
    with pytest.raises(dp.EngineError, match=wanted), opened("dask://127.0.0.1:9"):
        pass


@pytest.mark.parametrize(("count", "work"), [(0, 1), (1, 1), (5, 7), (6, 1), (7, 7), (60, 7)])
def test_results_come_in_the_order_of_the_parts(count: int, work: int, any_engine: Engine) -> None:
    drawn = []

    def asked() -> Iterator[Part]:
        for part in parts(count):
            drawn.append(part)
            yield part

    found = any_engine.map(parts_of_tests.waited, {"modulus": work}, asked())
    for number, result in enumerate(found):
        assert result == 2 * number
        assert (
            len(drawn) <= number + 1 + 3 * any_engine.workers
        )  # no more are drawn than are needed
    assert len(drawn) == count


def test_who_takes_no_more_leaves_no_part_running(processes: LocalEngine, tmp_path: Path) -> None:
    other = processes.map(parts_of_tests.waited, {}, parts(20))
    assert next(other) == 0

    def failing() -> Iterator[Part]:
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


def test_a_part_that_raises_thrice_is_named(engine: Engine, tmp_path: Path) -> None:
    job = {"at": 5, "times": 2, "folder": str(tmp_path)}
    assert list(engine.map(parts_of_tests.failing, job, parts(9))) == list(range(9))
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(dp.EngineError, match=r"part 5 failed 3 times: OSError: \[Errno 28\] No sp"):
        list(engine.map(parts_of_tests.failing, job | {"times": 99}, parts(9)))


def test_errors_of_ours_come_as_they_are(any_engine: Engine) -> None:
    with pytest.raises(dp.SourceError, match=r"^row 3 is wrong$"):
        list(any_engine.map(parts_of_tests.refusing, {}, parts(9)))


def test_lost_workers_cost_time_only(engine: Engine, tmp_path: Path) -> None:
    job = {"at": 5, "times": often(3, less=1), "folder": str(tmp_path)}
    assert list(engine.map(parts_of_tests.deadly, job, parts(12))) == list(range(12))
    assert len(list(tmp_path.iterdir())) == job["times"] + 1


LETHAL = r"part 5: {} workers ended while they worked at it, so it is likely what ends them"


@thorough
def test_what_ends_twenty_workers_is_named(tmp_path: Path) -> None:
    most = often(20, less=1)
    job = {"at": 5, "times": 99, "folder": str(tmp_path)}
    with local(2, most_losses=most) as engine:
        with pytest.raises(dp.EngineError, match=LETHAL.format(most + 1)):
            list(engine.map(parts_of_tests.deadly, job, parts(9)))
        assert len(list(tmp_path.iterdir())) == most + 1
        assert list(engine.map(parts_of_tests.waited, {}, parts(3))) == [0, 2, 4]


@pytest.mark.parametrize("kind", ["local", "dask"])
def test_a_worker_of_another_version_is_refused(
    kind: str, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = versions() | {"duckplets": "9.9.9"}
    for module in (dask, of_processes):
        monkeypatch.setattr(module, "versions", lambda: others)
    with opened(cluster if kind == "dask" else "local:1") as engine:
        wanted = r"has duckplets .* \(wanted: 9\.9\.9\); .* install"
        with pytest.raises(dp.EngineError, match=wanted):
            list(engine.map(parts_of_tests.waited, {}, parts(3)))


def _listening() -> set[str]:
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


def _sockets(pid: int) -> set[str]:
    """Return the sockets that a process has open, as the system names them."""
    links = (os.readlink(place) for place in Path(f"/proc/{pid}/fd").iterdir() if place.exists())
    return {link for link in links if link.startswith("socket:")}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_nothing_listens() -> None:
    """A socket would be open to every user of the machine, and what runs there runs as this one."""
    before, others = workers_of(), _sockets(os.getpid()) & _listening()
    with opened("local:2") as engine:
        assert engine is not None
        found = engine.map(parts_of_tests.waited, {}, parts(12))
        assert next(found) == 0
        for _ in range(100):
            if len(workers := workers_of() - before) == 2:
                break
            time.sleep(0.05)
        assert len(workers) == 2
        assert _sockets(os.getpid()) & _listening() <= others
        assert [_sockets(pid) for pid in workers] == [set(), set()]
        found.close()


def test_no_package_is_needed_but_for_functions_of_a_script(
    processes: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    script: dict[str, Any] = {"__name__": "__main__"}
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
    with opened("local:1") as engine:
        assert list(engine.map(parts_of_tests.waited, {}, parts(3))) == [0, 2, 4]
        for function, message in refused.items():
            with pytest.raises(dp.EngineError, match=message):
                list(engine.map(parts_of_tests.called, function, parts(3)))


def test_work_too_small_for_processes_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_processes, "_WORTH", 600.0)  # seconds: on a busy machine all takes long
    with opened("local:1") as engine:
        assert engine is not None
        list(engine.map(parts_of_tests.waited, {}, parts(2)))
    (said,) = caplog.messages
    assert said.startswith("engine='local:1': 1 process worked for ")
    caplog.clear()
    with opened("local:1"):
        pass
    assert not caplog.messages


GONE = dp.CsvSource("a.csv", text="gone")
NOTHING_TO_DO: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "index": ("no splits yet", (), {}),
    "mine": ("no splits yet", (), {}),
    "shard": ("tokenizer='t'", ("o",), {"tokenizer": "t"}),
    "deduplicate": ("near=7", (7,), {}),
    "judge": ("none such", ("none such",), {}),
    "ingest": ("gone", (GONE,), {}),
    "acquire": ("gone", ({"x": GONE},), {}),
}


@prebuilt
def unsplit(path: Path) -> dp.Corpus:
    corpus = dp.Corpus(path)
    rows = [{"q": f"question {n}", "a": f"answer {n}"} for n in range(20)]
    corpus.ingest(dp.MemorySource(rows, anchor="q", positive="a"), name="s", progress=False)
    return corpus


@pytest.mark.parametrize("verb", NOTHING_TO_DO)
def test_what_is_refused_starts_no_process(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("body\na text\n")
    wanted, arguments, options = NOTHING_TO_DO[verb]
    with unsplit(tmp_path / "c.duckdb") as corpus:
        monkeypatch.setattr(subprocess, "Popen", None)  # which nobody can call
        with pytest.raises(dp.DuckpletsError, match=wanted):
            getattr(corpus, verb)(*arguments, **options, engine="local:2")


SCRIPT = """
import sys
sys.path.append(sys.argv[1])  # workers look for modules where this program does
import parts_of_tests
from duckplets.engine.protocol import Part
from duckplets.engine import opened

try:
    with opened("local:2") as engine:  # and no if __name__ == "__main__"
        endless = (Part("one", sys.argv[2]) for _ in range(9))
        list(engine.map(parts_of_tests.lasting, None, endless))
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_whoever_started_them(sent: signal.Signals, tmp_path: Path) -> None:
    script, folder = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT, encoding="utf-8")
    folder.mkdir()
    with python(script, HERE, folder) as driver:
        while len(found := list(folder.glob("*.pid"))) < 2:
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.05)
        if sent == signal.SIGINT:
            os.killpg(driver.pid, sent)  # as a terminal does
            assert driver.communicate() == ("stopped\n", "")
            assert driver.returncode == 0
        else:
            driver.kill()
        wait_for_end({int(file.stem) for file in found})
