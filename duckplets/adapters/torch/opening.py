"""Open a run in whichever process iterates it, where that iteration begins."""

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

_MEMORY = 1024  # MB of DuckDB's for all workers of a machine together: what one process has
_LEAST_MEMORY = 256  # MB


@dataclass(frozen=True)
class RunOpening:
    """How to open a run: arguments of ``sampler`` or ``resume``, and in ``how`` of the file."""

    kind: type[Corpus | TokenShards]
    path: Path
    arguments: dict[str, Any]
    rank: int | None
    world_size: int | None
    how: Mapping[str, Any]
    resumed: bool = False

    def open(self, workers: int | None = None) -> Sampler:
        """Open the run in one of some workers; closing the sampler closes the corpus."""
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
    """What the states of a pass are made of; ``batch`` is that of all ranks."""

    start: State  # where its iteration begins
    first: int  # first position of the pass
    batch: int
    end: int | None
    mixture: dict[str, Any]
    sources: list[str]
    run_id: str
    world_size: int

    @classmethod
    def of(cls, sampler: Sampler, number: int) -> RunStates:
        """Return that of a sampler where its iteration begins."""
        settings = sampler.settings
        start, (first, end) = standing(sampler, 0, 1, number), passes.bounds(sampler, number)
        mixture, names = settings.mixture.to_dict(), [*settings.versions[-1].names]
        id_of, size = sampler.run_id, settings.world_size
        return cls(start, first, settings.global_batch, end, mixture, names, id_of, size)

    @property
    def steps(self) -> int:
        """Number of batches of the pass."""
        if self.end is None:
            raise TypeError("an endless run has no length; bound it with steps= or epochs=")
        return -(-(self.end - self.first) // self.batch)

    def at(self, step: int) -> State:
        """Return the state before the batch of a step of the pass."""
        least, most = self.first // self.batch, MAX_POSITION // self.batch
        step = integer("step", step, 0, most)
        last = None if self.end is None else least + self.steps
        step = integer("step", step, least, last)
        begun = self.start["position"]
        # A run that was taken over with another batch size may stand inside a batch.
        position = step * self.batch + self.first % self.batch
        if step == begun // self.batch:
            position = max(begun, self.first)
        if self.end is not None:
            position = min(position, self.end)
        return self.start | {"position": position}


_HERE, _REPLACED = 1, 2  # who began a pass: this process; nobody, and another state was loaded
_OTHERS = (1 << 32) - 3  # a set of workers by its seed, from 3 on
_WORKERS = 256
MOST_PASSES = 1 << 24


class Pass(NamedTuple):
    """A pass: its number counts from where the run or the loaded state is, or from 0."""

    by: int  # who began the one before
    number: int
    is_asked: bool  # by set_epoch: it counts from 0
    is_whole: bool  # asked after an iteration began at the loaded state

    def pass_of(self, base: int) -> int:
        """Return the number of the pass from 0."""
        return self.number if self.is_asked else base + self.number


class Passes:
    """Tell each iteration its pass, in this process or in a set of workers."""

    # Workers copy the dataset, so the number is in shared memory; the first worker of a set
    # advances it. A DataLoader seeds its workers anew for each iteration, which tells sets apart;
    # if a user fixes the seed, the passes that each worker has begun do.

    def __init__(self, loaded: State | None = None, allow_drift: tuple[str, ...] = ()) -> None:
        self.loaded = loaded
        self.allow_drift = allow_drift
        self._shared = torch.zeros(1 + _WORKERS, dtype=torch.int64)
        self._put(Pass(0, 0, False, False))
        self.__setstate__({})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        try:  # what a DataLoader spawns shares it already; other copies count for themselves
            self._shared.share_memory_()
        except (RuntimeError, OSError):
            log.warning(
                "this process has no memory to share with workers of a DataLoader, so they do not "
                "count passes: call set_epoch(epoch) before each"
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
        """The pass that was begun last, or the first one before any."""
        due = self._next
        has_begun = due.by not in (0, _REPLACED)
        return due._replace(by=0, number=due.number - has_begun)

    @property
    def by_workers(self) -> bool:
        """Whether workers began it."""
        return self._next.by > _REPLACED

    def take(self, worker_info: Any) -> Pass:
        """Return the pass that begins."""
        due = self._next
        if worker_info is None:
            self._put(due._replace(by=_HERE, number=due.number + 1))
            return due
        if due.by == _REPLACED:
            raise SamplerError(
                "a state was loaded after these workers had started, so they do not know it; make "
                "a new DataLoader, or leave out persistent_workers=True"
            )
        by, own = 3 + (worker_info.seed - worker_info.id) % _OTHERS, 1 + worker_info.id % _WORKERS
        if due.by == by and int(self._shared[own]) < due.number:  # another one of the set began
            due = due._replace(number=due.number - 1)
        self._shared[own] = due.number + 1
        self._put(due._replace(by=by, number=due.number + 1))
        return due

    def ask(self, number: int) -> None:
        """Let the next iteration be a pass, counted from 0."""
        due = self._next
        self._shared[1:] = 0
        self._put(Pass(0, number, True, due.is_whole or due.by != 0))

    def replaced(self, worker_info: Any, state: State) -> None:
        """Note that another state was loaded: here, or by torchdata in a worker of its own."""
        if worker_info is None:
            self._put(Pass(_REPLACED, 0, False, False))
            return
        self.take(worker_info)
        if "pass" in state:  # else of an endless run
            by = 3 + (worker_info.seed - worker_info.id) % _OTHERS
            self._put(Pass(by, state["pass"] + 1, True, True))


def standing(sampler: Sampler, worker: int, workers: int, number: int) -> State:
    """Return the state of a worker's sampler, without counters: each counts only its own."""
    found = {name: value for name, value in sampler.state_dict().items() if name != "counts"}
    if (number or workers > 1) and sampler.reader.end is not None:
        found["pass"] = number  # whose end is where the next one begins
    return found if workers == 1 else found | {"worker": [worker, workers]}


def put(
    sampler: Sampler, of: Passes, due: Pass, worker: int, workers: int
) -> tuple[int, RunStates]:
    """Put a worker's sampler where a pass begins; return the number of the pass and its states."""
    # A state of a worker (for torchdata) is of its next batch, any other of all workers' next
    # batch.
    state, own, base = of.loaded, None, passes.at(sampler, sampler.position)
    if state is not None:
        at = RunPosition.of_plain(state).position
        base = integer("pass", state.get("pass", passes.at(sampler, at)), 0, MOST_PASSES)
    number = due.pass_of(base)
    goes_on = number == base and not due.is_whole
    if state is not None or not goes_on:
        passes.begin(sampler, number)
    if state is not None:
        own = state.get("worker") if goes_on else None
        if own is not None:
            if list(own) != [worker, workers]:
                raise StateMismatchError(
                    f"this is the state of worker {own[0]} of {own[1]}, not of {worker} of "
                    f"{workers}: give the StatefulDataLoader the num_workers that its state was "
                    f"saved with"
                )
            sampler.stride(worker, workers)
        if not goes_on:
            state = {**state, "position": sampler.position}
        sampler.load_state_dict(state, allow_drift=of.allow_drift)
    run = RunStates.of(sampler, number)
    if own is None:
        sampler.stride(worker, workers)
    if worker:
        sampler.notes.clear()  # the first one says them
    return number, run


def check_taken(what: str, takes: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse an argument that what opens a run does not take, or a dataset cannot."""
    known = list(inspect.signature(takes).parameters)[1:]  # but for what it is a method of
    for name in arguments:
        if name not in known:
            raise SamplerError(f"{what}: no argument {name!r}{nearest(name, known)}")
