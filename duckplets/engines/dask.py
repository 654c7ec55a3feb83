"""Run the parts of a work on a cluster of Dask's ``distributed``.

    part ─submit→ scheduler ─→ worker: run_part ─result→ taken in order
                     └─worker lost→ another one, up to MOST_LOSSES times

The decision that matters: what a part needs is in its task, and nothing but the scheduler has to
remember it. So a worker may be lost at any moment, with all that it has made, and Dask makes that
again; what is scattered to workers would be lost with them. A part that raises is tried again by
Dask, where a worker is lost only that is counted.

The security of a cluster is its owner's: whoever reaches a scheduler can run code on its workers.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from duckplets.base.packing import packed, unpacked
from duckplets.base.parts import (
    Part,
    PartError,
    given,
    name_of,
    run_part,
    versions,
)
from duckplets.base.shown import counted, shown
from duckplets.errors import DuckpletsError, EngineError, ExtensionError

if TYPE_CHECKING:
    from distributed import Client, Future

MOST_LOSSES = 20  # of workers that a part may be lost with
TRIES = 3  # of a part that raises
_AHEAD = 2  # parts for each worker, besides the one it is at
_CONNECTING = 10  # seconds
_PATIENCE = 60.0  # seconds without any worker
_LOOK = 2.0  # seconds between two looks at whether there are workers

_SETTINGS = {
    "distributed.scheduler.allowed-failures": MOST_LOSSES,
    "distributed.scheduler.worker-ttl": None,  # a long part holds Python's lock
    "distributed.nanny.pre-spawn-environ.RAYON_NUM_THREADS": 1,
    # Memory that goes back to the system at once is taken again for the next array: gates of
    # quality took twice the processor time by it.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # Looks at what runs, for a dashboard: a cluster of two workers that had nothing to do took a
    # seventh of a processor by them.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
_INHERITED = "DASK_INTERNAL_INHERIT_CONFIG"
_CARRYING = {"distributed.admin.large-graph-warning-threshold": "1GB"}  # parts have their input
_SCHEDULER = {"port": 0, "dashboard_address": "127.0.0.1:0"}  # nobody else may look
_MISSING = "engine= needs the package distributed: pip install 'duckplets[dask]'"


@contextmanager
def local(workers: int) -> Iterator[DaskEngine]:
    """Start worker processes on this machine, and end them afterwards.

    They are programs of their own, not forks: a script needs no ``if __name__ == "__main__"``.

    Args:
        workers: How many, of one thread each.
    """
    try:
        import dask
        from distributed import Client, Scheduler
        from distributed.deploy.spec import SpecCluster
        from distributed.deploy.subprocess import SubprocessWorker
    except ImportError as error:
        raise ExtensionError(_MISSING) from error
    here = {"host": "127.0.0.1"}
    each = {
        "cls": SubprocessWorker,
        "options": {"worker_kwargs": here | {"nthreads": 1, "silence_logs": 50}},
    }
    with ExitStack() as held:
        try:
            held.enter_context(dask.config.set(_SETTINGS))
            with _inherited():
                cluster = SpecCluster(
                    workers=dict.fromkeys(range(workers), each),
                    scheduler={"cls": Scheduler, "options": here | _SCHEDULER},
                    silence_logs=50,
                )
            held.enter_context(cluster)
            client = held.enter_context(Client(cluster, direct_to_workers=True))
            client.wait_for_workers(workers, timeout=_PATIENCE + workers)
        except (OSError, RuntimeError, TimeoutError) as error:
            raise EngineError(
                f"engine='local:{workers}': its processes did not start: {_said(error)}"
            ) from error
        yield of_client(client)


@contextmanager
def _inherited() -> Iterator[None]:
    """Have programs that are started meanwhile take the settings, too: they read none of ours."""
    from dask.config import serialize

    before = os.environ.get(_INHERITED)
    os.environ[_INHERITED] = serialize(_SETTINGS)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_INHERITED]
        else:
            os.environ[_INHERITED] = before


@contextmanager
def connected(address: str) -> Iterator[DaskEngine]:
    """Connect to a scheduler that runs.

    Args:
        address: ``dask://HOST:PORT``.

    Raises:
        EngineError: Nobody answers there, or no worker.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ExtensionError(_MISSING) from error
    try:
        client = Client(address.replace("dask://", "tcp://", 1), timeout=_CONNECTING)
    except (OSError, ValueError) as error:
        raise EngineError(
            f"engine={shown(repr(address))}: no scheduler of Dask answers there ({_said(error)}); "
            f"'dask scheduler' tells its address when it starts"
        ) from error
    with client:
        yield of_client(client)


def of_client(client: Client) -> DaskEngine:
    """Return the engine of a client, once a worker is there."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
        allowed = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.allowed_failures)
    except Exception as error:  # of Dask, of its sockets, or of the other side
        raise EngineError(f"no worker came to the cluster: {_said(error)}") from error
    return DaskEngine(client, int(allowed))


def _said(error: BaseException) -> str:
    said = str(error) if isinstance(error, PartError) else f"{type(error).__name__}: {error}"
    return shown(said, 300)


@dataclass(slots=True)
class _Sent:
    """A part on its way."""

    part: Part
    future: Future[Any]
    losses: int = 0


class DaskEngine:
    """Runs parts on the workers of a cluster.

    Args:
        client: Connected to its scheduler.
        allowed: With how many lost workers the scheduler gives up a part of its own accord.
    """

    def __init__(self, client: Client, allowed: int) -> None:
        self.client, self._allowed = client, allowed

    @property
    def workers(self) -> int:
        """How many parts run at the same time."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    def map(
        self, function: Callable[[Any, Any], Any], job: Any, parts: Iterable[Part]
    ) -> Generator[Any, None, None]:
        """Yield what a function makes of every part, in their order; see ``Engine.map``."""
        with closing(_Work(self.client, self._allowed, function, job)) as work:
            most = self.workers * (1 + _AHEAD)
            for part in parts:
                work.send(part)
                if len(work.sent) >= most:
                    yield work.take()
            while work.sent:
                yield work.take()


class _Work:
    """One function over some parts."""

    def __init__(
        self, client: Client, allowed: int, function: Callable[[Any, Any], Any], job: Any
    ) -> None:
        self._client, self._allowed = client, allowed
        self._function = name_of(function)
        self._of = f"duckplets-{uuid4().hex}"
        self._versions = versions()
        self._job = client.submit(given, job, key=f"{self._of}-job", retries=TRIES - 1)
        self._number = 0
        self.sent: deque[_Sent] = deque()

    def send(self, part: Part) -> None:
        """Have a part made."""
        self.sent.append(_Sent(part, self._submitted(part)))

    def take(self) -> Any:
        """Wait for the part that was sent first, and return what was made of it."""
        first = self.sent[0]
        while True:
            self._wait(first.future)
            if first.future.status == "finished":
                with suppress(_Lost):
                    found = self._gathered(first)
                    self.sent.popleft()
                    return found
            self._refuse_or_count(first)
            first.future = self._submitted(first.part)

    def close(self) -> None:
        """Let go of what nobody wants any more."""
        with suppress(Exception):  # the scheduler may be gone
            for future in [*(each.future for each in self.sent), self._job]:
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
                    key=f"{self._of}-{self._number}",
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
                    f"the cluster has had no worker for {_PATIENCE:.0f} s; start some, and make "
                    f"the same call again: what was stored for good stays"
                )

    def _gathered(self, sent: _Sent) -> Any:
        try:
            return unpacked(sent.future.result())
        except Exception as error:  # whoever had it is gone since
            if sent.future.status == "error":
                raise _Lost from error
            raise self._gone(error) from error

    def _refuse_or_count(self, sent: _Sent) -> None:
        """Raise what a part has failed by, or count the workers that were lost with it."""
        from distributed.scheduler import KilledWorker

        error = sent.future.exception() if sent.future.status == "error" else None
        if error is not None and not isinstance(error, KilledWorker):
            if isinstance(error, DuckpletsError):
                raise error
            raise EngineError(f"{sent.part.label} failed {TRIES} times: {_said(error)}") from error
        sent.losses += 1 if error is None else self._allowed + 1
        if sent.losses > MOST_LOSSES:
            raise EngineError(
                f"{sent.part.label}: {counted(sent.losses, 'worker')} ended while they worked at "
                f"it, so it is likely what ends them: does it need more memory than they have?"
            )

    def _gone(self, error: BaseException | None) -> EngineError:
        said = f" ({_said(error)})" if error is not None else ""
        return EngineError(
            f"the cluster's scheduler does not answer any more{said}; when it runs again, make the "
            f"same call again: what was stored for good stays"
        )


class _Lost(Exception):  # noqa: N818 # no error: it is made again
    """A result went with the worker that had it."""
