"""Where an iteration begins: a loaded state is told once, to whoever iterates next."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from duckplets.errors import SamplerError, StateMismatchError
from duckplets.sampling.sampler import Sampler

State = dict[str, Any]


class Start:
    """Where the next iteration begins: told once, to this process or to one set of workers.

    Workers have copies of the dataset, so who was told lies in memory that they share. A
    DataLoader seeds its workers anew for every iteration, which tells one set from another.

    Args:
        loaded: A loaded state; None for the start of the run.
        allow_drift: Names of fingerprint fields that may differ from it.

    Attributes:
        loaded: As given.
        allow_drift: As given.
    """

    def __init__(self, loaded: State | None = None, allow_drift: tuple[str, ...] = ()) -> None:
        self.loaded = loaded
        self.allow_drift = allow_drift
        self._taken = False  # in this process
        # 0 for nobody, -1 if another state was loaded since, else the seed of those told first.
        self._told = torch.zeros(1, dtype=torch.int64).share_memory_()

    @property
    def told_workers(self) -> bool:
        """Whether workers began there."""
        return int(self._told) > 0

    def take(self, worker_info: Any) -> State | None:
        """Return what was loaded to the first that ask, None to all others.

        Raises:
            SamplerError: This is a worker, and a state was loaded since it was started.
        """
        first = self._is_for(worker_info) and not self._taken
        self._taken = True
        return self.loaded if first else None

    def _is_for(self, worker_info: Any) -> bool:
        told = int(self._told)
        if worker_info is None:
            self._told.fill_(0)
            return told == 0
        if told < 0:
            raise SamplerError(
                "a state was loaded after these workers had started, so they do not know it; make "
                "a new DataLoader, or leave out persistent_workers=True"
            )
        asking = (worker_info.seed - worker_info.id) % (1 << 62) + 1
        if told == 0:
            self._told.fill_(asking)
        return told in (0, asking)

    def replaced(self, worker_info: Any) -> None:
        """Note that another state was loaded: here, or by torchdata in a worker of its own."""
        if worker_info is None:
            self._told.fill_(-1)
        else:
            self.take(worker_info)


def worker_of(worker_info: Any) -> tuple[int, int]:
    """Return which of how many workers this process is."""
    return (0, 1) if worker_info is None else (worker_info.id, worker_info.num_workers)


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
    if own is not None and list(own) != [worker, workers]:
        raise StateMismatchError(
            f"this is the state of worker {own[0]} of {own[1]}, not of {worker} of {workers}: give "
            f"the StatefulDataLoader the num_workers that its state was saved with"
        )
    if own is not None:
        sampler.stride(worker, workers)
    if state is not None:
        sampler.load_state_dict(state, allow_drift=allow_drift)
    if own is None:
        sampler.stride(worker, workers)
