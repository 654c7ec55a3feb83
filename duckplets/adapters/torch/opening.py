"""Open a run in whichever process iterates it, where that iteration begins.

An iteration begins where a loaded state says, which is informed once, to whoever iterates next.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.corpus.corpus import Corpus
from duckplets.errors import SamplerError, StateMismatchError, nearest
from duckplets.runs.sampler import Sampler
from duckplets.tokens.dataset import TokenShards

State = dict[str, Any]

_MEMORY = 1024  # MB of DuckDB's for all workers of a machine together: what one process has
_LEAST_MEMORY = 256  # MB


@dataclass(frozen=True)
class RunOpening:
    """How to open a run, with arguments of ``sampler`` or ``resume`` of what it is of.

    ``how`` has arguments for opening the corpus file or folder of token shards.
    """

    kind: type[Corpus | TokenShards]
    path: Path
    arguments: dict[str, Any]
    rank: int | None
    world_size: int | None
    how: Mapping[str, Any]
    resumed: bool = False

    def open(self, workers: int | None = None) -> Sampler:
        """Open the run at its start, in one of so many workers or in the process they serve.

        Closing the sampler closes the corpus.

        Raises:
            CorpusLockedError: Some process has the file open for writing.
        """
        opened = self._opened(workers)
        try:
            ranks = self.resolved()
            size = 1 if ranks.world_size is None else ranks.world_size
            arguments = self.arguments | {"rank": ranks.rank or 0, "world_size": size}
            sampler: Sampler = (opened.resume if self.resumed else opened.sampler)(**arguments)
        except BaseException:
            opened.close()
            raise
        sampler.owned = opened
        return sampler

    def _opened(self, workers: int | None) -> Corpus | TokenShards:
        given = {name: value for name, value in self.how.items() if value is not None}
        if self.kind is TokenShards:
            return TokenShards(self.path, **given)
        return Corpus(self.path, read_only=True, **_shares(workers) | given)

    def resolved(self) -> RunOpening:
        """Return this with the ranks of ``torch.distributed``, once that has been started."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return self
        rank = distributed.get_rank() if self.rank is None else self.rank
        size = distributed.get_world_size() if self.world_size is None else self.world_size
        return replace(self, rank=rank, world_size=size)


def _shares(workers: int | None) -> dict[str, Any]:
    """Return memory and threads of one of so many workers; None for what one process has."""
    if workers is None:
        return {}
    local = os.environ.get("LOCAL_WORLD_SIZE", "")  # ranks on this machine, says the launcher
    processes = workers * (int(local) if local.isdecimal() and int(local) else 1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = max(_LEAST_MEMORY, _MEMORY // processes)
    return {"memory_limit": f"{memory}MB", "threads": max(1, (cores or 1) // processes)}


@dataclass(frozen=True)
class RunStates:
    """What the states of a run are made of; ``batch`` is that of all ranks."""

    start: State
    batch: int
    end: int | None
    mixture: dict[str, Any]
    sources: list[str]
    run_id: str
    world_size: int

    @classmethod
    def of(cls, sampler: Sampler) -> RunStates:
        """Return that of a sampler at its start."""
        settings, end = sampler.settings, sampler._reader.end
        start, mixture = standing(sampler, 0, 1), settings.mixture.to_dict()
        names = settings.versions[-1].sources
        id_of, size = sampler.run_id, settings.world_size
        return cls(start, settings.global_batch, end, mixture, names, id_of, size)

    @property
    def steps(self) -> int:
        """Number of batches.

        Raises:
            TypeError: The run is endless.
        """
        if self.end is None:
            raise TypeError("an endless run has no length; bound it with steps= or epochs=")
        return -(-self.end // self.batch)

    def at(self, step: int, loaded: Mapping[str, Any] | None) -> State:
        """Return the state before the batch of a step, in an iteration from a loaded state.

        Raises:
            SamplerError: There is no such step.
        """
        most = MAX_POSITION // self.batch
        step = integer("step", step, 0, most)
        step = integer("step", step, 0, None if self.end is None else self.steps)
        begun = loaded or self.start
        # A run that was taken over with another batch size may stand inside a batch.
        position = step * self.batch
        if step == begun["position"] // self.batch:
            position = begun["position"]
        if self.end is not None:
            position = min(position, self.end)
        return self.start | {"position": position, "events": begun.get("events", [])}


class LoadedState:
    """Tell where the next iteration begins, once: to this process or to one set of workers.

    Workers have copies of the dataset, so who was informed lies in memory that they share. A
    DataLoader seeds its workers anew for every iteration, which tells one set from another.
    """

    def __init__(self, loaded: State | None = None, allow_drift: tuple[str, ...] = ()) -> None:
        self.loaded = loaded
        self.allow_drift = allow_drift
        self._taken = False  # in this process
        # 0 for nobody, -1 if another state was loaded since, else the seed of those informed first.
        self._informed = torch.zeros(1, dtype=torch.int64).share_memory_()

    @property
    def told_workers(self) -> bool:
        """Whether workers began there."""
        return int(self._informed) > 0

    def take(self, worker_info: Any) -> State | None:
        """Return what was loaded to the first that ask, None to all others.

        Raises:
            SamplerError: This is a worker, and a state was loaded since it was started.
        """
        first = self._is_for(worker_info) and not self._taken
        self._taken = True
        return self.loaded if first else None

    def _is_for(self, worker_info: Any) -> bool:
        informed = int(self._informed)
        if worker_info is None:
            self._informed.fill_(0)
            return informed == 0
        if informed < 0:
            raise SamplerError(
                "a state was loaded after these workers had started, so they do not know it; make "
                "a new DataLoader, or leave out persistent_workers=True"
            )
        asking = (worker_info.seed - worker_info.id) % (1 << 62) + 1
        if informed == 0:
            self._informed.fill_(asking)
        return informed in (0, asking)

    def replaced(self, worker_info: Any) -> None:
        """Note that another state was loaded: here, or by torchdata in a worker of its own."""
        if worker_info is None:
            self._informed.fill_(-1)
        else:
            self.take(worker_info)


def standing(sampler: Sampler, worker: int, workers: int) -> State:
    """Return the state of a worker's sampler, without counters: each counts only its own."""
    found = {name: value for name, value in sampler.state_dict().items() if name != "counts"}
    return found if workers == 1 else found | {"worker": [worker, workers]}


def put(
    sampler: Sampler,
    state: State | None,
    worker: int,
    workers: int,
    *,
    allow_drift: Collection[str],
) -> None:
    """Put a worker's sampler where it begins, to take its share of the batches.

    A state that a worker made (for torchdata) is of that worker's next batch; any other is of the
    next batch of all workers.

    Raises:
        StateMismatchError: The state is of another run, or of another worker.
    """
    own = None if state is None else state.get("worker")
    if own is not None:
        if list(own) != [worker, workers]:
            raise StateMismatchError(
                f"this is the state of worker {own[0]} of {own[1]}, not of {worker} of {workers}: "
                f"give the StatefulDataLoader the num_workers that its state was saved with"
            )
        sampler.stride(worker, workers)
    if state is not None:
        sampler.load_state_dict(state, allow_drift=allow_drift)
    if own is None:
        sampler.stride(worker, workers)
    if worker:
        sampler.notes.clear()  # the first one says them


def check_taken(what: str, takes: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse an argument that what opens a run does not take, or a dataset cannot."""
    known = list(inspect.signature(takes).parameters)[1:]  # but for what it is a method of
    for name in arguments:
        if name not in known:
            raise SamplerError(f"{what}: no argument {name!r}{nearest(name, known)}")
