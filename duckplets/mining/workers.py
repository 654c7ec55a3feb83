"""Search blocks of queries on all cores, in worker processes that hand back what they found.

    blocks of queries ─files→ python -m duckplets.mining.workers FOLDER ─files→ what was found

NumPy holds Python's lock between its many short calls: two threads scored no more than one.
Workers map document shards, queries and findings from files: nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

import numpy as np

from duckplets.base.arrays import IntegerLists
from duckplets.engine.protocol import Engine, Part
from duckplets.errors import EngineError, QueryError
from duckplets.mining.bm25 import DocumentShard, Queries, TopDocuments, search
from duckplets.recipes.bm25 import Bm25, bm25_from

_WAITING = 2  # blocks for each worker: one it works at, one that waits


@dataclass(frozen=True)
class DocumentShards:
    """The document shards in a folder, mapped one by one each time they are gone through.

    Attributes:
        folder: Where ``DocumentShard.save`` wrote them, by number.
        count: How many there are.
    """

    folder: Path
    count: int

    def __iter__(self) -> Iterator[DocumentShard]:
        return (DocumentShard.load(self.folder, str(number)) for number in range(self.count))


def _opened(shards: DocumentShards) -> Iterable[DocumentShard]:
    """Return the document shards; a single one need not be mapped anew for every block."""
    return list(shards) if shards.count == 1 else shards


def scored(
    shards: DocumentShards,
    blocks: Iterable[Queries],
    settings: Bm25,
    *,
    guards: int,
    workers: int,
    engine: Engine | None = None,
) -> Iterator[TopDocuments]:
    """Yield what is found for every block of queries, in their order.

    Args:
        shards: What is searched.
        blocks: Taken as they are needed: a few more than there are workers.
        settings: Of the search.
        guards: How many different reasons the queries have.
        workers: How many processes; with 1 this process searches itself.
        engine: What searches instead of processes of this machine.

    Raises:
        QueryError: A process ended before its work was done.
        EngineError: A block could not be searched by the engine.
    """
    if engine is not None:
        job = _MiningJob(uuid4().hex, shards.folder.absolute(), shards.count, settings, guards)
        parts = (Part(f"mining: block {n + 1}", each) for n, each in enumerate(blocks))
        with closing(engine.map(search_part, job, parts)) as results:
            yield from results
        return
    if workers == 1:
        mapped = _opened(shards)
        for queries in blocks:
            yield search(mapped, queries, settings, guards=guards)
        return
    told = {"shards": shards.count, "settings": settings.to_dict(), "guards": guards}
    (shards.folder / "job.json").write_text(json.dumps(told), encoding="utf-8")
    crew = _Crew(shards.folder, workers)
    try:
        yield from crew.work(blocks)
    finally:
        crew.dismiss()


@dataclass(frozen=True, slots=True)
class _MiningJob:
    """What all blocks of a mining have in common, for the workers of an engine."""

    name: str  # no other has it: one after the other has its postings in the same folder
    folder: Path
    count: int
    settings: Bm25
    guards: int

    @lru_cache(maxsize=1)  # noqa: B019 # of the mining that a worker is at
    def opened(self) -> Iterable[DocumentShard]:
        if not self.folder.is_dir():
            raise EngineError(
                f"mining: a worker does not see {self.folder}, where the postings lie: the corpus "
                f"must be in a folder that all workers share"
            )
        return _opened(DocumentShards(self.folder, self.count))


def search_part(job: _MiningJob, queries: Queries) -> TopDocuments:
    """Search a block of queries on a worker of an engine.

    Raises:
        EngineError: The folder of postings is not one that this worker sees.
    """
    return search(job.opened(), queries, job.settings, guards=job.guards)


class _Crew:
    """Worker processes, each with a thread that hands it blocks."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor(workers, "duckplets-mining")
        self._idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._processes = [self._started(number) for number in range(workers)]
        for process in self._processes:
            self._idle.put(process)

    def work(self, blocks: Iterable[Queries]) -> Iterator[TopDocuments]:
        waiting: deque[Future[TopDocuments]] = deque()
        for number, queries in enumerate(blocks):
            if len(waiting) >= _WAITING * len(self._processes):
                yield waiting.popleft().result()
            waiting.append(self._threads.submit(self._one, number, queries))
        while waiting:
            yield waiting.popleft().result()

    def dismiss(self) -> None:
        """Stop all processes, whatever they are at."""
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            process.wait()

    def _started(self, number: int) -> subprocess.Popen[str]:
        home = str(Path(__file__).parent.parent.parent)
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        with (self._folder / f"{number}.err").open("w") as talk:
            return subprocess.Popen(
                [sys.executable, "-m", "duckplets.mining.workers", str(self._folder), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=talk,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )

    def _one(self, number: int, queries: Queries) -> TopDocuments:
        asked, answer = self._folder / f"{number}.queries.npz", _answer(self._folder, number)
        _save(asked, queries)
        process = self._idle.get()
        try:
            with suppress(BrokenPipeError):
                print(number, file=process.stdin, flush=True)
            if process.stdout is None or not process.stdout.readline():
                raise self._died(process)
        finally:
            self._idle.put(process)
        with np.load(answer) as arrays:
            found = TopDocuments(**arrays)
        asked.unlink()
        answer.unlink()
        return found

    def _died(self, process: subprocess.Popen[str]) -> QueryError:
        talk = self._folder / f"{self._processes.index(process)}.err"
        said = talk.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return QueryError(
            f"a worker process ended with code {process.wait()} ({said[-1] if said else 'silent'}"
            f"); if memory is short, open the corpus with threads=1. What was mined so far is "
            f"kept, and mining again goes on from there"
        )


# -- files ------------------------------------------------------------------------------------


def _answer(folder: Path, number: int) -> Path:
    return folder / f"{number}.found.npz"


def _save(path: Path, queries: Queries) -> None:
    arrays: dict[str, Any] = {}
    for field in fields(Queries):
        value = getattr(queries, field.name)
        if isinstance(value, IntegerLists):
            arrays[f"{field.name}.starts"] = value.starts
            arrays[f"{field.name}.values"] = value.values
        elif value is not None:
            arrays[field.name] = value
    np.savez(path, **arrays)


def _load(path: Path) -> Queries:
    with np.load(path) as arrays:
        found: dict[str, Any] = {name: arrays[name] for name in arrays.files if "." not in name}
        for name in {n.split(".")[0] for n in arrays.files if "." in n}:
            found[name] = IntegerLists(arrays[f"{name}.starts"], arrays[f"{name}.values"])
    return Queries(**found)


def main(folder: Path) -> None:
    """Search the blocks whose numbers come in on stdin, and answer each with its number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever mines
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    mapped, settings = _opened(DocumentShards(folder, job["shards"])), bm25_from(job["settings"])
    for line in sys.stdin:
        number = int(line)
        queries = _load(folder / f"{number}.queries.npz")
        found = search(mapped, queries, settings, guards=job["guards"])
        np.savez(
            _answer(folder, number),
            **{f.name: getattr(found, f.name) for f in fields(TopDocuments)},
        )
        print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
