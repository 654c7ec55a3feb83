"""Run the parts of a work on a cluster of Dask's ``distributed``.

    part ─submit→ scheduler ─→ worker: run_part ─result→ taken in order
                     └─worker lost→ another one, up to MOST_LOSSES times

The decision that matters: what a part needs is in its task, and nothing but the scheduler has to
remember it. So a worker may be lost at any moment, with all that it has made, and Dask makes that
again; what is scattered to workers would be lost with them. A part that raises is tried again by
Dask, where a worker is lost only that is counted.

The security of a cluster is its owner's: whoever reaches a scheduler can run code on its workers,
and workers on whoever asked.
"""

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
    failed,
    lethal,
    name_of,
    run_part,
    said,
    versions,
    windowed,
)
from duckplets.engine.serialization import packed, unpacked
from duckplets.errors import EngineError, ExtensionError

if TYPE_CHECKING:
    from distributed import Client, Future

_CONNECTING = 10  # seconds
_PATIENCE = 60.0  # seconds without any worker
_LOOK = 2.0  # seconds between two looks at whether there are workers

_CARRYING = {"distributed.admin.large-graph-warning-threshold": "1GB"}  # parts have their input
_MISSING = "engine= needs the package distributed: pip install 'duckplets[dask]'"


@contextmanager
def connected(address: str) -> Iterator[DaskEngine]:
    """Connect to a scheduler that runs at ``dask://HOST:PORT``.

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
            f"engine={address!r}: no scheduler of Dask answers there ({said(error)}); "
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
        raise EngineError(f"no worker came to the cluster: {said(error)}") from error
    return DaskEngine(client, int(allowed))


def _given(job: Any) -> Any:
    """Return a job: as a task it is made again wherever it was lost."""
    return job


@dataclass(slots=True)
class _Sent:
    """A part on its way."""

    part: Part
    future: Future[Any]
    losses: int = 0


class DaskEngine:
    """Runs parts on the workers of a cluster."""

    def __init__(self, client: Client, allowed: int) -> None:
        self.client = client
        self._allowed = allowed  # lost workers with which the scheduler gives up a part by itself

    @property
    def workers(self) -> int:
        """How many parts run at the same time."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    def map(
        self, function: Callable[[Any, Any], Any], job: Any, parts: Iterable[Part]
    ) -> Generator[Any, None, None]:
        """Yield what a function makes of every part, in their order; see ``Engine.map``."""
        with closing(_DaskJob(self.client, self._allowed, function, job)) as work:
            yield from windowed(parts, self.workers * (1 + AHEAD), work.send, work.take)


class _DaskJob:
    """One function over some parts."""

    def __init__(
        self, client: Client, allowed: int, function: Callable[[Any, Any], Any], job: Any
    ) -> None:
        self._client, self._allowed = client, allowed
        self._function = name_of(function)
        self._of = f"duckplets-{uuid4().hex}"
        self._versions = versions()
        self._job = client.submit(_given, job, key=f"{self._of}-job", retries=TRIES - 1)
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
            raise failed(sent.part.label, error)
        sent.losses += 1 if error is None else self._allowed + 1
        if sent.losses > MOST_LOSSES:
            raise lethal(sent.part.label, sent.losses)

    def _gone(self, error: BaseException | None) -> EngineError:
        why = f" ({said(error)})" if error is not None else ""
        return EngineError(
            f"the cluster's scheduler does not answer any more{why}; when it runs again, make the "
            f"same call again: what was stored for good stays"
        )


class _Lost(Exception):  # noqa: N818 # no error: it is made again
    """A result went with the worker that had it."""
