"""Engines: what runs on workers, in which order it comes back, and what becomes of lost ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import parts_of_tests
import pyarrow as pa
import pytest
from effort import often

import duckplets as dp
from duckplets.base.arrays import Lists
from duckplets.base.packing import packed, unpacked
from duckplets.base.parts import Engine, Part, mapped, versions
from duckplets.engines import dask, opened
from duckplets.engines.dask import DaskEngine

HERE = Path(__file__).parent


def parts(count: int) -> Iterator[Part]:
    return (Part(f"part {n}", n) for n in range(count))


@pytest.fixture
def engine(cluster: Any) -> DaskEngine:
    return dask.of_client(cluster)


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
        assert found is None
    with opened(cluster) as found:
        assert isinstance(found, DaskEngine)
        assert found.workers == 2


def test_workers_have_the_settings_of_this_package(cluster: Any) -> None:
    """They are programs, which know nothing that was set in this one."""
    from dask.config import get

    assert set(cluster.run(get, "distributed.worker.profile.enabled").values()) == {False}
    for name, wanted in (
        ("RAYON_NUM_THREADS", "1"),
        ("OMP_NUM_THREADS", "1"),  # of Dask's own
        ("MALLOC_TRIM_THRESHOLD_", None),
    ):
        found = set(cluster.run(os.getenv, name).values())
        assert found == {os.environ.get(name, wanted)}, name
    assert dask._INHERITED not in os.environ


@pytest.mark.parametrize(
    "engine", ["local", "local:0", "local:x", "dask", "tcp://127.0.0.1:1", 4, Doubled, True]
)
def test_what_is_no_engine(engine: Any) -> None:
    with pytest.raises(dp.EngineError, match="give None, 'local:4' for four"), opened(engine):
        pass


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "_CONNECTING", 1)
    wanted = r"engine='dask://127.0.0.1:9': no scheduler of Dask answers there"
    with pytest.raises(dp.EngineError, match=wanted), opened("dask://127.0.0.1:9"):
        pass


@pytest.mark.parametrize(("count", "work"), [(0, 1), (1, 1), (5, 7), (6, 1), (7, 7), (60, 7)])
def test_results_come_in_the_order_of_the_parts(count: int, work: int, engine: DaskEngine) -> None:
    drawn = []

    def asked() -> Iterator[Part]:
        for part in parts(count):
            drawn.append(part)
            yield part

    found = engine.map(parts_of_tests.waited, {"modulus": work}, asked())
    for number, result in enumerate(found):
        assert result == 2 * number
        assert len(drawn) <= number + 1 + 3 * engine.workers  # no more are drawn than are needed
    assert len(drawn) == count


def test_items_come_with_their_results(engine: DaskEngine) -> None:
    items = [f"{n}" for n in range(20)]
    found = mapped(engine, parts_of_tests.waited, {}, items, lambda each: Part(each, int(each)))
    assert list(found) == [(each, 2 * int(each)) for each in items]


def test_who_takes_no_more_leaves_nothing_behind(engine: DaskEngine, cluster: Any) -> None:
    found = engine.map(parts_of_tests.waited, {}, parts(100))
    assert next(found) == 0
    found.close()
    for _ in range(100):
        if not cluster.run_on_scheduler(_keys):
            return
        time.sleep(0.05)
    raise AssertionError(cluster.run_on_scheduler(_keys))


def _keys(dask_scheduler: Any) -> list[str]:
    return [key for key in map(str, dask_scheduler.tasks) if "duckplets" in key]


def test_a_part_that_raises_thrice_is_named(engine: DaskEngine, tmp_path: Path) -> None:
    job = {"at": 5, "times": 2, "folder": str(tmp_path)}
    assert list(engine.map(parts_of_tests.failing, job, parts(9))) == list(range(9))
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(dp.EngineError, match=r"part 5 failed 3 times: OSError: \[Errno 28\] No sp"):
        list(engine.map(parts_of_tests.failing, job | {"times": 99}, parts(9)))


def test_arrays_come_where_processors_like_them() -> None:
    """A transport puts them wherever they fall; whoever reads them warns of it, or is slow."""
    off = np.frombuffer(b"x" + np.arange(5).tobytes(), np.int64, offset=1)
    assert not off.flags.aligned
    sent = (Lists(off, off), [1, 2], ("a", off))
    lists, numbers, (name, array) = unpacked(packed(sent))
    for found in (lists.starts, lists.values, array):
        assert found.flags.aligned
        assert found.tolist() == [0, 1, 2, 3, 4]
    assert (numbers, name) == ([1, 2], "a")
    table = pa.table({"x": list(range(100))}).slice(3, 2)
    assert unpacked(packed((table, 1))) == (table, 1)
    source = dp.TextFileSource("x.txt")
    assert unpacked(packed((source,)))[0] is source


def test_errors_of_ours_come_as_they_are(engine: DaskEngine) -> None:
    with pytest.raises(dp.SourceError, match=r"^row 3 is wrong$"):
        list(engine.map(parts_of_tests.refusing, {}, parts(9)))


def test_lost_workers_cost_time_only(engine: DaskEngine, tmp_path: Path) -> None:
    job = {"at": 5, "times": often(3, less=1), "folder": str(tmp_path)}
    assert list(engine.map(parts_of_tests.deadly, job, parts(12))) == list(range(12))
    assert len(list(tmp_path.iterdir())) == job["times"] + 1


def test_what_ends_twenty_workers_is_named(
    engine: DaskEngine, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = often(3, less=1)
    monkeypatch.setattr(dask, "MOST_LOSSES", most)
    cluster.run_on_scheduler(_allowing, allowed=most // 2)
    few = dask.of_client(cluster)
    job = {"at": 5, "times": 99, "folder": str(tmp_path)}
    wanted = (
        rf"part 5: {most + 1} workers ended while they worked at it, so it is likely what ends them"
    )
    with pytest.raises(dp.EngineError, match=wanted):
        list(few.map(parts_of_tests.deadly, job, parts(9)))
    cluster.run_on_scheduler(_allowing, allowed=dask.MOST_LOSSES)
    assert len(list(tmp_path.iterdir())) == most + 1  # the scheduler gave up twice


def _allowing(dask_scheduler: Any, allowed: int) -> None:
    dask_scheduler.allowed_failures = allowed


def test_a_worker_of_another_version_is_refused(
    engine: DaskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = versions()
    monkeypatch.setattr(dask, "versions", lambda: ours | {"duckplets": "9.9.9"})
    with pytest.raises(dp.EngineError, match=r"has duckplets .* \(wanted: 9\.9\.9\); .* install"):
        list(engine.map(parts_of_tests.waited, {}, parts(3)))


SCRIPT = """
import sys
sys.path.append(sys.argv[1])
import numpy as np
import parts_of_tests
import pyarrow as pa
from duckplets.base.parts import Part
from duckplets.engines import opened

with opened("local:1") as engine:  # and no if __name__ == "__main__"
    pids = []
    for result in engine.map(parts_of_tests.pid, {}, (Part(str(n), n) for n in range(200))):
        if not pids:
            print(result, flush=True)
            pids.append(result)
"""


def test_workers_end_with_whoever_started_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), str(HERE)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)])}
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        assert driver.stdout is not None
        worker = int(driver.stdout.readline())
        driver.kill()
        driver.wait()
        _wait_for_end(worker)
    finally:
        driver.kill()
        if driver.stdout:
            driver.stdout.close()
        driver.wait()


def _wait_for_end(pid: int) -> None:
    for _ in range(600):
        with suppress(FileNotFoundError):
            if Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z":
                time.sleep(0.1)
                continue
        return
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"worker {pid} outlived its driver")
