"""Opening a run in whichever process iterates it, and what its states are made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import distributed

from duckplets.base.checks import integer
from duckplets.corpus import Corpus
from duckplets.errors import CorpusLockedError
from duckplets.sampling.sampler import Sampler
from duckplets.torch.start import State, standing

_MEMORY = 1024  # MB of DuckDB's for all workers of a machine together: what one process has
_LEAST_MEMORY = 256  # MB


@dataclass(frozen=True)
class Opening:
    """How to open a run.

    Attributes:
        path: The corpus file.
        arguments: Of ``Corpus.sampler`` or ``Corpus.resume``.
        rank: As given, or None.
        world_size: As given, or None.
        memory_limit: As given, or None.
        threads: As given, or None.
        resumed: Whether it is a saved run.
    """

    path: Path
    arguments: dict[str, Any]
    rank: int | None
    world_size: int | None
    memory_limit: str | None
    threads: int | None
    resumed: bool = False

    def open(self, workers: int | None = None) -> Sampler:
        """Open the run at its start, in one of so many workers or in the process they serve.

        Closing the sampler closes the corpus.

        Raises:
            CorpusLockedError: This is a worker that was forked while the file was open.
        """
        memory, threads = _shares(workers)
        memory, threads = self.memory_limit or memory, self.threads or threads
        try:
            corpus = Corpus(self.path, read_only=True, memory_limit=memory, threads=threads)
        except CorpusLockedError as error:
            if workers is None:
                raise
            raise CorpusLockedError(
                f"{error}. What a process has open counts as open in workers that it forks: close "
                f"it before, or give the DataLoader multiprocessing_context='spawn'"
            ) from error
        try:
            ranks = self.resolved()
            arguments = self.arguments | {"rank": ranks.rank or 0}
            arguments["world_size"] = 1 if ranks.world_size is None else ranks.world_size
            sampler = (corpus.resume if self.resumed else corpus.sampler)(**arguments)
        except BaseException:
            corpus.close()
            raise
        sampler.own(corpus)
        return sampler

    def resolved(self) -> Opening:
        """Return this with the ranks of ``torch.distributed``, once that has been started."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return self
        rank = distributed.get_rank() if self.rank is None else self.rank
        size = distributed.get_world_size() if self.world_size is None else self.world_size
        return replace(self, rank=rank, world_size=size)


def _shares(workers: int | None) -> tuple[str | None, int | None]:
    """Return memory and threads of one of so many workers; None for what one process has.

    A worker never has the settings of its parent. So a worker that is forked while the parent has
    the file open is refused by DuckDB, and does not get an instance whose threads are not there.
    """
    if workers is None:
        return None, None
    local = os.environ.get("LOCAL_WORLD_SIZE", "")  # ranks on this machine, says the launcher
    processes = workers * (int(local) if local.isdecimal() and int(local) else 1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = max(_LEAST_MEMORY, _MEMORY // processes)
    return f"{memory}MB", max(1, (cores or 1) // processes)


@dataclass(frozen=True)
class Run:
    """What the states of a run are made of.

    Attributes:
        start: State at the start of the run.
        batch: Samples of a batch of all ranks.
        end: The position a bounded run ends at, or None.
    """

    start: State
    batch: int
    end: int | None

    @classmethod
    def of(cls, sampler: Sampler) -> Run:
        """Return that of a sampler at its start."""
        end = sampler.settings.end(sampler.epoch_length)
        return cls(standing(sampler, 0, 1), sampler.settings.global_batch, end)

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
        step = integer("step", step, 0, None if self.end is None else self.steps)
        begun = loaded or self.start
        # A run that was taken over with another batch size need not stand at a multiple of it.
        position = step * self.batch + begun["position"] % self.batch
        if self.end is not None:
            position = min(position, self.end)
        return self.start | {"position": position, "events": begun.get("events", [])}
