"""Open a run in the process that iterates it, at the start of the iteration."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed

from duckplets.base.checks import MAX_POSITION, integer
from duckplets.corpus.corpus import Corpus
from duckplets.errors import SamplerError, StateMismatchError, nearest
from duckplets.runs import passes
from duckplets.runs.sampler import Sampler
from duckplets.runs.state import RunPosition
from duckplets.tokens.dataset import TokenShards

log = logging.getLogger("duckplets")

State = dict[str, Any]

_MEMORY = 1024  # MB of DuckDB for all workers of a machine, as for one process
_LEAST_MEMORY = 256  # MB


@dataclass(frozen=True)
class RunOpening:
    """Arguments to open a run: of ``sampler`` or ``resume``, and in ``how`` of the file."""

    kind: type[Corpus | TokenShards]
    path: Path
    arguments: dict[str, Any]
    rank: int | None
    world_size: int | None
    how: Mapping[str, Any]
    resumed: bool = False

    def open(self, workers: int | None = None) -> Sampler:
        """Open the run in one of ``workers``; closing the sampler closes the corpus."""
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
        how = {name: value for name, value in self.how.items() if value is not None}
        if self.kind is TokenShards:
            return TokenShards(self.path, **how)
        return Corpus(self.path, read_only=True, **_shares(workers) | how)

    def resolved(self) -> RunOpening:
        """Return a copy with the ranks of ``torch.distributed``, if it has started."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return self
        rank = distributed.get_rank() if self.rank is None else self.rank
        size = distributed.get_world_size() if self.world_size is None else self.world_size
        return replace(self, rank=rank, world_size=size)


def _shares(workers: int | None) -> dict[str, Any]:
    """Return memory and threads of one of ``workers``; nothing for None, a single process."""
    if workers is None:
        return {}
    local = os.environ.get("LOCAL_WORLD_SIZE", "")  # ranks on this machine, set by the launcher
    processes = workers * (int(local) if local.isdecimal() and int(local) else 1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = max(_LEAST_MEMORY, _MEMORY // processes)
    return {"memory_limit": f"{memory}MB", "threads": max(1, (cores or 1) // processes)}


@dataclass(frozen=True)
class RunStates:
    """Facts for the states of a pass; ``batch`` is the global batch."""

    start: State  # the state before its iteration
    first: int  # first position of the pass
    batch: int
    end: int | None
    mixture: dict[str, Any]
    sources: list[str]
    run_id: str
    world_size: int

    @classmethod
    def of(cls, sampler: Sampler, number: int) -> RunStates:
        """Return the facts of a sampler before its iteration."""
        settings, (first, end) = sampler.settings, passes.bounds(sampler, number)
        return cls(
            start=state_of(sampler, 0, 1, number),
            first=first,
            batch=settings.global_batch,
            end=end,
            mixture=settings.mixture.to_dict(),
            sources=[*settings.versions[-1].names],
            run_id=sampler.run_id,
            world_size=settings.world_size,
        )

    @property
    def steps(self) -> int:
        """Return the number of batches in the pass."""
        if self.end is None:
            raise TypeError("an endless run has no length; bound it with steps= or epochs=")
        return -(-(self.end - self.first) // self.batch)

    def at(self, step: int) -> State:
        """Return the state before the batch of a step of the pass."""
        least, most = self.first // self.batch, MAX_POSITION // self.batch
        step = integer("step", step, 0, most)
        last = None if self.end is None else least + self.steps
        step = integer("step", step, least, last)
        start = self.start["position"]
        # A run resumed with another batch size may start inside a batch.
        position = step * self.batch + self.first % self.batch
        if step == start // self.batch:
            position = max(start, self.first)
        if self.end is not None:
            position = min(position, self.end)
        return self.start | {"position": position}


_HERE, _REPLACED = 1, 2  # who started a pass: this process; none, because another state was loaded
_OTHERS = (1 << 32) - 3  # a set of workers by its seed, from 3
_WORKERS = 256
MOST_PASSES = 1 << 24


class Pass(NamedTuple):
    """A pass; its number counts from the run's or loaded position, or from 0."""

    by: int  # who started the pass before
    number: int
    is_set: bool  # by set_epoch: it counts from 0
    is_whole: bool  # set after an iteration started at the loaded state


class Passes:
    """Number the iterations, in this process or in a set of workers."""

    # Workers copy the dataset, so the number is in shared memory; the first worker of a set
    # advances it. A DataLoader gives its workers a new seed for each iteration, which
    # distinguishes sets. If a user fixes the seed, the number of passes of each worker does.

    def __init__(self, loaded: State | None = None, allow_drift: tuple[str, ...] = ()) -> None:
        self.loaded = loaded
        self.allow_drift = allow_drift
        self._shared = torch.zeros(1 + _WORKERS, dtype=torch.int64)
        self._put(Pass(0, 0, False, False))
        self.__setstate__({})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        try:  # spawned workers of a DataLoader share it already; other copies count separately
            self._shared.share_memory_()
        except (RuntimeError, OSError):
            log.warning(
                "this process cannot share memory with workers of a DataLoader, so they do not "
                "count passes: call set_epoch(epoch) before each pass"
            )

    def _put(self, due: Pass) -> None:
        by, number, *flags = due
        self._shared[0] = ((by << 24 | number) << 2) | flags[0] << 1 | flags[1]

    @property
    def _next(self) -> Pass:
        rest, flags = divmod(int(self._shared[0]), 4)
        return Pass(rest >> 24, rest % MOST_PASSES, bool(flags & 2), bool(flags & 1))

    @property
    def now(self) -> Pass:
        """Return the last started pass, or the first pass."""
        due = self._next
        is_started = due.by not in (0, _REPLACED)
        return due._replace(by=0, number=due.number - is_started)

    @property
    def by_workers(self) -> bool:
        """Return whether workers started it."""
        return self._next.by > _REPLACED

    def take(self, worker_info: Any) -> Pass:
        """Start the next pass and return it."""
        due = self._next
        if worker_info is None:
            self._put(due._replace(by=_HERE, number=due.number + 1))
            return due
        if due.by == _REPLACED:
            raise SamplerError(
                "a state was loaded after these workers started, so they do not have it; make a "
                "new DataLoader, or remove persistent_workers=True"
            )
        by, own = _set_of(worker_info), 1 + worker_info.id % _WORKERS
        if due.by == by and int(self._shared[own]) < due.number:  # another worker started it
            due = due._replace(number=due.number - 1)
        self._shared[own] = due.number + 1
        self._put(due._replace(by=by, number=due.number + 1))
        return due

    def ask(self, number: int) -> None:
        """Set the pass of the next iteration, counted from 0."""
        due = self._next
        self._shared[1:] = 0
        self._put(Pass(0, number, True, due.is_whole or due.by != 0))

    def replaced(self, worker_info: Any, state: State) -> None:
        """Note another loaded state: of this process, or of one worker, by torchdata."""
        if worker_info is None:
            self._put(Pass(_REPLACED, 0, False, False))
            return
        self.take(worker_info)
        if "pass" in state:  # an endless run has none
            self._put(Pass(_set_of(worker_info), state["pass"] + 1, True, True))


def _set_of(worker_info: Any) -> int:
    return int(3 + (worker_info.seed - worker_info.id) % _OTHERS)


def state_of(sampler: Sampler, worker: int, workers: int, number: int) -> State:
    """Return the state of a worker's sampler, without its counters of one worker."""
    found = {name: value for name, value in sampler.state_dict().items() if name != "counts"}
    if (number or workers > 1) and sampler.reader.end is not None:
        found["pass"] = number  # its end is the start of the next pass
    return found if workers == 1 else found | {"worker": [worker, workers]}


def put(
    sampler: Sampler, loaded: Passes, due: Pass, worker: int, workers: int
) -> tuple[int, RunStates]:
    """Move a worker's sampler to the start of a pass; return the pass's number and states."""
    # The state of one worker (by torchdata) has its own next batch, another state the next batch
    # of all workers.
    state, own, base = loaded.loaded, None, passes.at(sampler, sampler.position)
    if state is not None:
        at = RunPosition.of_plain(state).position
        base = integer("pass", state.get("pass", passes.at(sampler, at)), 0, MOST_PASSES)
    number = due.number if due.is_set else base + due.number
    continues = number == base and not due.is_whole
    if state is not None or not continues:
        passes.begin(sampler, number)
    if state is not None:
        own = state.get("worker") if continues else None
        if own is not None:
            if list(own) != [worker, workers]:
                raise StateMismatchError(
                    f"this is the state of worker {own[0]} of {own[1]}, not of {worker} of "
                    f"{workers}: use num_workers={own[1]} in the StatefulDataLoader"
                )
            sampler.stride(worker, workers)
        if not continues:
            state = {**state, "position": sampler.position}
        sampler.load_state_dict(state, allow_drift=loaded.allow_drift)
    run = RunStates.of(sampler, number)
    if own is None:
        sampler.stride(worker, workers)
    if worker:
        sampler.notes.clear()  # the first worker reports them
    return number, run


def check_arguments(owner: str, method: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse an argument that a method does not take."""
    known = list(inspect.signature(method).parameters)[1:]  # without self
    for name in arguments:
        if name not in known:
            raise SamplerError(f"{owner}: no argument {name!r}{nearest(name, known)}")
