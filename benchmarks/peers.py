"""Measures loaders of training data side by side: what they lose or repeat, shares, speed, memory.

    python benchmarks/peers.py [--folder /tmp/peers] [--records 1000000] [--counted 100003]
        [--seconds 10] [--only NAME …] > benchmarks/peers.json

Makes a virtual environment for each peer under the folder, with pip, and a copy of the rows in its
format, which is removed when its speed was measured; peers.json says which versions. What a peer
cannot do is missing, what fails says why. Each rank, and each measurement of speed, is a process of
its own, without worker processes; all ranks run at the same time. Without rows to count (0) only
speed is measured. Prints one JSON object; the machine may be shared, so compare within one run.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import os
import pickle
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peers_loaders import NAMES, PEERS, SHARDS, WEIGHTS, Part, Peer, blocks_of

HERE = Path(__file__).parent
GLOBAL = 64 * SHARDS  # samples of a step of all ranks, where rows are counted
EPOCHS = 2
RANKS = (1, 2, 3)
BEFORE, AFTER = 2, 3  # ranks before and after their number changes
SAMPLES = (100, 10_000)  # after which a mixture is looked at
SEEDS = 5
WARM = 2.0  # seconds
BESIDE_MB = 300  # what a process may have besides a tenth of the text
LIMIT_S, MAKE_LIMIT_S = 900, 3600
Found = dict[str, Any]


class FailedError(Exception):
    """A measurement of a peer failed; says why in one line."""


# ---- in a process of a peer's environment


def rows(peer: Peer, told: Found) -> Found:
    """Read epochs as one rank, from a state on or from the beginning, and keep the rows' ids."""
    assert peer.run
    run = peer.run(Path(told["place"]), Part(**told["part"]))
    if told["states"]:
        run.load([pickle.loads(Path(file).read_bytes()) for file in told["states"]])
    ids: list[list[str]] = []
    for number in range(told["epochs"]):
        ids.append([])
        batches = run.epoch(number)
        for taken, batch in enumerate(batches, 1):
            ids[-1] += batch["id"]
            if taken == told["batches"]:
                Path(told["state"]).write_bytes(pickle.dumps(run.state()))
                break
    Path(told["out"]).write_text(json.dumps(ids))
    return {}


def speed(peer: Peer, told: Found) -> Found:
    """Take triplets as lists for some time, and look at memory meanwhile."""
    import serving_memory

    load = os.getloadavg()[0]
    if told["held"]:  # whoever started this removes the group
        serving_memory.Held(told["held"]).__enter__()
    with serving_memory.Peak() as peak:
        batches = getattr(peer, told["negatives"])(Path(told["place"]), Part())
        assert len(next(batches)["negative"]) == Part.batch
        first = time.monotonic() - told["began"]
        until = time.monotonic() + WARM
        while time.monotonic() < until:
            next(batches)
        count, begun, before = 0, time.monotonic(), _cpu()
        while (took := time.monotonic() - begun) < told["seconds"]:
            found = next(batches)
            assert isinstance(found["anchor"], list)
            count += len(found["anchor"])
        used = _cpu() - before
    found = {"per_cpu_s": count / used, "per_s": count / took, "load": load}
    found |= {"private_mb": peak.mb, "first_batch_s": first}
    return {name: round(value, 3) for name, value in found.items()}


def mixed(peer: Peer, told: Found) -> Found:
    """Count how far the shares of two sources are from what was asked, at worst of some seeds."""
    assert peer.mixed
    off = dict.fromkeys(SAMPLES, 0.0)
    for seed in range(SEEDS):
        first = 0
        drawn = peer.mixed([Path(place) for place in told["places"]], seed)
        for number, source in enumerate(drawn, 1):
            first += source.startswith("first")
            if number in off:
                off[number] = max(off[number], abs(first - WEIGHTS[0] * number))
            if number == SAMPLES[-1]:
                break
    return {str(number): round(value) for number, value in off.items()}


def make(peer: Peer, told: Found) -> Found:
    peer.make(Path(told["file"]), Path(told["place"]))
    return {"version": importlib.metadata.version(peer.version or "duckplets")}


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


TASKS = {each.__name__: each for each in (make, rows, speed, mixed)}


# ---- here


class Bench:
    """One peer's environment, data and measurements."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.peer = folder, name, PEERS[name]
        self.python = Path(sys.executable)

    def install(self) -> None:
        """Make the environment, unless it is there."""
        if not self.peer.version:
            return
        home = self.folder / "env" / self.peer.version
        self.python, done = home / "bin" / "python", home / "installed"
        told = json.dumps([self.peer.packages, self.peer.alone])
        if done.exists() and done.read_text() == told:
            return
        venv.create(home, with_pip=True, clear=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--no-compile"]
        for packages in ([*self.peer.packages], ["--no-deps", *self.peer.alone]):
            if packages[-1] != "--no-deps":
                self._ended(subprocess.Popen([*pip, *packages], **_PIPES))
        site = next((home / "lib").iterdir()) / "site-packages"
        for path, text in self.peer.stubs.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        done.write_text(told)

    def made(self, file: Path) -> Path:
        """Return where this peer's copy of a Parquet file lies."""
        self.install()
        place = file.parent / (self.peer.format or self.name)
        if not (place / "made.json").exists():
            place.mkdir(exist_ok=True)
            begun = time.monotonic()
            making = self._start("make", {"file": str(file), "place": str(place)})
            found = self.apart(making, MAKE_LIMIT_S)
            found["make_s"] = time.monotonic() - begun
            found["mb"] = sum(p.stat().st_size for p in place.rglob("*") if p.is_file()) / 1e6
            (place / "made.json").write_text(json.dumps(found))
        return place

    def apart(self, process: subprocess.Popen[str], limit_s: float = LIMIT_S) -> Found:
        """Return what a process printed."""
        found: Found = json.loads(self._ended(process, limit_s).splitlines()[-1])
        return found

    def read(self, place: Path, world: int, tag: str, **how: Any) -> list[list[list[str]]]:
        """Return the ids that all ranks read: by rank, by epoch."""
        told = {"place": str(place), "states": [], "batches": 0, "epochs": 1} | how
        rescaled = told.pop("rescaled", False)
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        processes, outs = [], []
        for rank in range(world):
            files = {n: str(scratch / f"{self.name}.{tag}.{rank}.{n}") for n in ("out", "state")}
            part = Part(rank, world, GLOBAL // world, rescaled=rescaled)
            env = {"RANK": rank, "GLOBAL_RANK": rank, "LOCAL_RANK": rank, "NODE_RANK": 0}
            env |= {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
            outs.append(Path(files["out"]))
            processes.append(self._start("rows", {**told, **files, "part": asdict(part)}, env))
        try:
            for process in processes:
                self._ended(process)
        finally:
            for process in processes:
                _end(process)
        return [json.loads(out.read_text()) for out in outs]

    def states(self, tag: str, world: int) -> list[str]:
        """Return the files of what ranks kept."""
        folder = self.folder / "scratch"
        return [str(folder / f"{self.name}.{tag}.{rank}.state") for rank in range(world)]

    def _start(self, task: str, told: Found, env: Found | None = None) -> subprocess.Popen[str]:
        told = {"peer": self.name, "task": task, "began": time.monotonic(), **told}
        command = [str(self.python), str(HERE / "peers.py"), "--one", json.dumps(told)]
        plain = {"MASTER_ADDR": "localhost", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(HERE.parent)}
        given = os.environ | plain | {name: str(value) for name, value in (env or {}).items()}
        return subprocess.Popen(command, env=given, **_PIPES)

    def _ended(self, process: subprocess.Popen[str], limit_s: float = LIMIT_S) -> str:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise FailedError(f"not done after {limit_s} s") from error
        finally:
            _end(process)
        if process.returncode:
            lines = [line.strip() for line in err.splitlines() if line.strip()]
            killed = process.returncode == -signal.SIGKILL
            why = (
                "killed: out of memory" if killed else (lines or [f"exit {process.returncode}"])[-1]
            )
            raise FailedError(why[:200])
        return out

    # ---- what is measured

    def epochs(self, place: Path, records: int) -> Found:
        """Rows lost and repeated in whole epochs, by number of ranks."""
        found = {}
        for world in RANKS:
            read = self.read(place, world, "whole", epochs=EPOCHS)
            found[str(world)] = sums(read, records)
        return found

    def resumed(self, place: Path, records: int, after: int, rescaled: bool) -> Found:
        """Rows lost and repeated in an epoch that is left half way and gone on with."""
        half, tag = records // (2 * GLOBAL), "half"
        before = self.read(place, BEFORE, tag, batches=half, rescaled=rescaled)
        states = self.states(tag, BEFORE)
        rest = self.read(place, after, "rest", states=states, rescaled=rescaled)
        return sums([*before, *rest], records)

    def speed(self, place: Path, negatives: str, seconds: float, held: int = 0) -> Found:
        """Measure one way to get negatives: with files in memory, or without and with a limit."""
        import serving_memory

        files = [path for path in sorted(place.rglob("*")) if path.is_file()]
        ready = serving_memory.evict if held else serving_memory.warm
        ready([*place.parent.glob("*.parquet"), *files])
        told = {"place": str(place), "negatives": negatives, "seconds": seconds, "held": held}
        return self.apart(self._start("speed", told))

    def mixed(self, files: list[Path]) -> Found:
        """Measure the shares of a mixture."""
        places = [str(self.made(file)) for file in files]
        return self.apart(self._start("mixed", {"places": places}))


_PIPES: Any = {
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
    "text": True,
    "start_new_session": True,
}


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and what it started, and remove its control group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for group in Path("/sys/fs/cgroup").glob(f"**/duckplets-{process.pid}"):
        for _ in range(20):  # the kernel may need a moment
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


def sums(read: list[list[list[str]]], records: int) -> Found:
    """Add up, over epochs, rows that no rank had and rows that came again."""
    lost = repeated = 0
    for epoch in zip(*read, strict=True):
        seen = Counter(one for ids in epoch for one in ids)
        lost += records - len(seen)
        repeated += seen.total() - len(seen)
    return {"lost": lost, "repeated": repeated}


def written(folder: Path, name: str, records: int, letter: str) -> Path:
    """Write the rows of one source, unless they are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import text

    file = folder / "data" / name / f"{name}.parquet"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        making = file.with_suffix(".making")
        with pq.ParquetWriter(
            making, pa.schema([(n, pa.string()) for n in ("id", "title", "body")])
        ) as out:
            for number, batch in enumerate(text.batches(records)):
                ids = [f"{letter}{number * text.STEP + i}" for i in range(batch.num_rows)]
                out.write_batch(batch.set_column(0, "id", pa.array(ids)))
        making.rename(file)
    return file


def tried(say: str, measure: Any, *arguments: Any) -> Found:
    """Return what was measured, or why it was not."""
    begun = time.monotonic()
    try:
        found: Found = measure(*arguments)
    except FailedError as error:
        found = {"failed": str(error)}
    print(f"{say}: {found} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
    return found


def counted(bench: Bench, files: dict[str, Path], records: int) -> Found:
    """Count what a peer loses or repeats, and how far its mixtures are off."""
    peer, name = bench.peer, bench.name
    found: Found = {}
    try:
        place = bench.made(files["counted"])
    except FailedError as error:
        return {"failed": str(error)}
    if peer.run:
        found["epochs"] = tried(f"{name} epochs", bench.epochs, place, records)
        for what, after, can in (
            ("resumed", BEFORE, peer.resumes),
            ("rescaled", AFTER, peer.rescales),
        ):
            if can:
                how = (place, records, after, what == "rescaled")
                found[what] = tried(f"{name} {what}", bench.resumed, *how)
    if peer.mixed:
        sources = [files["first"], files["second"]]
        found["mixed"] = tried(f"{name} mixed", bench.mixed, sources)
    return found


def timed(bench: Bench, file: Path, seconds: float, held: int) -> Found:
    """Measure a peer's speed and memory."""
    found: Found = {"speed": {}, "held": {}}
    try:
        place = bench.made(file)
    except FailedError as error:
        return {"failed": str(error)}
    found |= json.loads((place / "made.json").read_text())
    for negatives in bench.peer.negatives:
        how = (bench.speed, place, negatives, seconds)
        found["speed"][negatives] = tried(f"{bench.name} speed {negatives}", *how)
        if held:
            found["held"][negatives] = tried(f"{bench.name} held {negatives}", *how, held)
    return found


def may_hold() -> bool:
    """Whether this user may make a control group."""
    import serving_memory

    try:
        with serving_memory.Held(4 << 30):
            return True
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("/tmp/peers"))
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--counted", type=int, default=100_003)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--one", type=json.loads)
    told = parser.parse_args()
    if told.one:
        print(json.dumps(TASKS[told.one["task"]](PEERS[told.one["peer"]], told.one)))
        return
    sizes = {"rows": (told.records, "r"), "counted": (told.counted, "r")}
    sizes |= {"first": (told.counted, "first"), "second": (told.counted, "second")}
    files = {
        name: written(told.folder, f"{name}{size}", size, letter)
        for name, (size, letter) in sizes.items()
        if size
    }
    texts = sum(block.select(NAMES[1:]).nbytes for block in blocks_of(files["rows"]))
    held = texts // 10 + (BESIDE_MB << 20) if may_hold() else 0
    benches = {name: Bench(told.folder, name) for name in told.only}
    peers = {
        name: counted(bench, files, told.counted) if told.counted else {}
        for name, bench in benches.items()
    }
    load = os.getloadavg()[0]
    for copy, names in itertools.groupby(peers, lambda name: PEERS[name].format or name):
        for name in names:
            if "failed" not in peers[name]:
                peers[name] |= timed(benches[name], files["rows"], told.seconds, held)
        shutil.rmtree(files["rows"].parent / copy, ignore_errors=True)  # not all may fit on a disk
    printed = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_before": load,
        "records": told.records,
        "counted": told.counted,
        "text_mb": texts / 1e6,
        "held_mb": held / 1e6,
        "seconds": told.seconds,
        "weights": WEIGHTS,
        "seeds": SEEDS,
        "peers": peers,
    }
    json.dump(printed, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
