"""Run tasks on a cluster of Dask's ``distributed``."""

# A worker may be lost with all its results. So a task carries its whole input: scattered data would
# be lost with the worker. Dask retries tasks that raise. Here only lost workers are counted.

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from duckplets.engine.protocol import (
    AHEAD,
    MOST_LOSSES,
    TRIES,
    Part,
    described,
    failed,
    lethal,
    name_of,
    run_part,
    versions,
    windowed,
)
from duckplets.engine.serialization import packed, unpacked
from duckplets.errors import EngineError, ExtensionError

if TYPE_CHECKING:
    from distributed import Client, Future

_CONNECTING = 10  # seconds
_PATIENCE = 60.0  # seconds without any worker
_LOOK = 2.0  # seconds between two checks for workers

_CARRYING = {"distributed.admin.large-graph-warning-threshold": "1GB"}  # tasks carry their input
_MISSING = "engine= needs the package distributed: pip install 'duckplets[dask]'"


@contextmanager
def connected(address: str) -> Iterator[DaskEngine]:
    """Connect to the scheduler at ``dask://HOST:PORT``."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ExtensionError(_MISSING) from error
    try:
        client = Client(address.replace("dask://", "tcp://", 1), timeout=_CONNECTING)
    except (OSError, ValueError) as error:
        raise EngineError(
            f"engine={address!r}: no scheduler of Dask answers there ({described(error)}); "
            f"'dask scheduler' prints its address when it starts"
        ) from error
    with client:
        yield of_client(client)


def of_client(client: Client) -> DaskEngine:
    """Return the engine of a client, once it has a worker."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
        allowed = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.allowed_failures)
    except Exception as error:  # errors of Dask, of sockets, or of the other side
        raise EngineError(f"the cluster has no worker; start one: {described(error)}") from error
    return DaskEngine(client, int(allowed))


def _unchanged(job: Any) -> Any:
    """Return a job: Dask runs this task again if a worker lost the job."""
    return job


@dataclass(slots=True)
class _Sent:
    """A submitted task."""

    part: Part
    future: Future[Any]
    losses: int = 0


class DaskEngine:
    """Runs tasks on the workers of a cluster."""

    def __init__(self, client: Client, allowed: int) -> None:
        self.client = client
        self._allowed = allowed  # lost workers after which the scheduler stops a task

    @property
    def workers(self) -> int:
        """Number of tasks that run at the same time."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    def map(
        self, function: Callable[[Any, Any], Any], job: Any, parts: Iterable[Part]
    ) -> Generator[Any, None, None]:
        """Yield the results of a function for every task, in order; see ``Engine.map``."""
        with closing(_DaskJob(self.client, self._allowed, function, job)) as work:
            yield from windowed(parts, self.workers * (1 + AHEAD), work.send, work.take)


class _DaskJob:
    """One function over some tasks."""

    def __init__(
        self, client: Client, allowed: int, function: Callable[[Any, Any], Any], job: Any
    ) -> None:
        self._client, self._allowed = client, allowed
        self._function = name_of(function)
        self._key = f"duckplets-{uuid4().hex}"
        self._versions = versions()
        self._job = client.submit(_unchanged, job, key=f"{self._key}-job", retries=TRIES - 1)
        self._number = 0
        self.sent: deque[_Sent] = deque()

    def send(self, part: Part) -> None:
        """Submit a task."""
        self.sent.append(_Sent(part, self._submitted(part)))

    def take(self) -> Any:
        """Wait for the earliest task and return its result."""
        from distributed.scheduler import KilledWorker

        first = self.sent[0]
        while True:
            self._wait(first.future)
            try:
                found = unpacked(first.future.result())
            except KilledWorker:
                first.losses += self._allowed + 1
            except Exception as error:
                if first.future.status == "error":
                    raise failed(first.part.label, error) from None
                first.losses += 1  # the worker was lost with its result
            else:
                self.sent.popleft()
                return found
            if first.losses > MOST_LOSSES:
                raise lethal(first.part.label, first.losses)
            first.future = self._submitted(first.part)

    def close(self) -> None:
        """Release the remaining tasks."""
        with suppress(Exception):  # the scheduler may have stopped
            for future in [*(task.future for task in self.sent), self._job]:
                future.release()

    def _submitted(self, part: Part) -> Future[Any]:
        import dask

        self._number += 1
        try:
            with dask.config.set(_CARRYING):
                return self._client.submit(
                    run_part,
                    self._versions,
                    self._function,
                    self._job,
                    packed(part.input),
                    key=f"{self._key}-{self._number}",
                    retries=TRIES - 1,
                )
        except Exception as error:
            raise self._gone(error) from error

    def _wait(self, future: Future[Any]) -> None:
        from distributed import wait

        seen = time.monotonic()
        while not future.done():
            with suppress(TimeoutError):
                wait(future, timeout=_LOOK)
            if self._client.status != "running":
                raise self._gone(None)
            if self._client.scheduler_info()["workers"]:
                seen = time.monotonic()
            elif time.monotonic() - seen > _PATIENCE:
                raise EngineError(
                    f"the cluster has had no worker for {_PATIENCE:.0f} s; start one, and make "
                    f"the same call again: committed work stays"
                )

    def _gone(self, error: BaseException | None) -> EngineError:
        why = f" ({described(error)})" if error is not None else ""
        return EngineError(
            f"the scheduler of the cluster does not answer{why}; start it, and make the same call "
            f"again: committed work stays"
        )
