"""Run tasks in processes of this machine."""

# Each thread here owns a process, which has one task at a time. If the process is lost, the thread
# starts another process for the task. A ``ProcessPoolExecutor`` breaks as a whole, and outlives its
# parent. The processes are programs, not forks: a script needs no ``__main__`` guard.

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from io import BytesIO
from queue import SimpleQueue
from types import FunctionType
from typing import IO, Any

from duckplets.base.sanitize import counted
from duckplets.engine.protocol import (
    AHEAD,
    MOST_LOSSES,
    TRIES,
    Part,
    PartError,
    described,
    failed,
    lethal,
    name_of,
    run_part,
    versions,
    windowed,
)
from duckplets.engine.serialization import packed, unpacked
from duckplets.errors import DuckpletsError, EngineError

_log = logging.getLogger("duckplets")

# Each process is one worker: libraries in it must not start a thread per core.
_THREADS = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from duckplets.engine.local import serve; serve()"
)
_WORTH = 3.0  # seconds that justify a process; starting it takes one of them
_LEAVING = 1.0  # seconds in which a process may end by itself
_LOST = (EOFError, OSError, pickle.UnpicklingError)  # errors of a pipe whose other end is gone


@contextmanager
def local(workers: int, *, most_losses: int = MOST_LOSSES) -> Iterator[LocalEngine]:
    """Yield an engine of at most ``workers`` processes, each started on demand."""
    engine = LocalEngine(workers, most_losses)
    try:
        yield engine
    finally:
        engine.close()
    engine.warn_if_small()


class _LocalJob:
    """A function, by name, over tasks that share a pickled job."""

    def __init__(self, function: str, job: bytes) -> None:
        self.function, self.job = function, job
        self.is_over = False  # the caller wants no more results
        self.running: set[_Process] = set()  # processes that run its tasks


class LocalEngine:
    """Runs tasks in processes of this machine; see ``local``."""

    def __init__(self, workers: int, most_losses: int = MOST_LOSSES) -> None:
        self.workers = workers
        self._name = f"engine='local:{workers}'"
        self._most_losses = most_losses
        self._own = threading.local()  # one process per thread
        self._processes: set[_Process] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._worked = 0.0  # seconds of work, over all processes
        self._threads = ThreadPoolExecutor(workers, "duckplets-engine", _leave_ctrl_c)

    def map(
        self, function: Callable[[Any, Any], Any], job: Any, parts: Iterable[Part]
    ) -> Generator[Any, None, None]:
        """Yield the results of a function for every task, in order; see ``Engine.map``."""
        work = _LocalJob(name_of(function), self._sent(job))
        futures: list[Future[bytes]] = []

        def send(part: Part) -> None:
            data = self._sent(packed(part.input))
            futures.append(self._threads.submit(self._made, work, part.label, data))

        def take() -> Any:
            found = futures[0].result()  # stays in the list until done: Ctrl-C may end the wait
            del futures[0]
            return unpacked(pickle.loads(found))

        try:
            yield from windowed(parts, self.workers * (1 + AHEAD), send, take)
        finally:
            # Stop unwanted work: after this it writes no file.
            running = [future for future in futures if not future.cancel()]
            with self._lock:
                work.is_over = True
                for process in work.running:
                    process.kill()
            wait(running)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._is_closed = True
            processes = list(self._processes)
        for process in processes:
            process.leave()
        self._threads.shutdown(cancel_futures=True)
        for process in processes:
            process.end(patience=2 * _LEAVING)

    def warn_if_small(self) -> None:
        """Log a warning if the work was too small for processes."""
        if self._processes and self._worked < _WORTH * len(self._processes):
            _log.warning(
                "%s: %s worked for %.1f s, less than their start takes: such small work is as fast "
                "without engine=",
                self._name,
                counted(len(self._processes), "process", "processes"),
                self._worked,
            )

    def _sent(self, value: Any) -> bytes:
        """Return a value serialised for sending."""
        try:
            return _pickled(value)
        except Exception as error:  # an object of the user may raise anything
            raise EngineError(
                f"{self._name}: a value cannot be sent to workers ({described(error)}); define "
                f"functions in a module that can be imported, or pip install cloudpickle for "
                f"functions of a script or a notebook"
            ) from error

    # -- in a thread with its process -------------------------------------------------------------

    def _made(self, work: _LocalJob, label: str, data: bytes) -> bytes:
        """Return the result of a task, computed by the process of this thread."""
        raised = lost = 0
        while True:
            with self._lock:
                if work.is_over or self._is_closed:
                    raise CancelledError
                process = self._process()
                work.running.add(process)
            begun = time.monotonic()
            try:
                is_made, answer = process.request(work, data)
            except _LOST:
                self._drop(process)
                lost += 1
                if lost > self._most_losses:
                    raise lethal(label, lost) from None
                continue
            finally:
                with self._lock:
                    work.running.discard(process)
                    self._worked += time.monotonic() - begun
            if is_made:
                return answer
            raised += 1
            if raised == TRIES:
                raise failed(label, pickle.loads(answer))

    def _process(self) -> _Process:
        """Return the process of this thread; start it if there is none."""
        process: _Process | None = getattr(self._own, "process", None)
        if process is None:
            try:
                process = self._own.process = _Process()
            except OSError as error:
                raise EngineError(
                    f"{self._name}: no process can be started: {described(error)}"
                ) from error
            self._processes.add(process)
        return process

    def _drop(self, process: _Process) -> None:
        """Discard a lost process."""
        self._own.process = None
        with self._lock:
            self._processes.discard(process)
        process.end()


class _Process:
    """A worker process and its pipes."""

    def __init__(self) -> None:
        path = json.dumps([place for place in sys.path if isinstance(place, str)])
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict.fromkeys(_THREADS, "1") | os.environ,
        )
        self._requests: IO[bytes] = self._popen.stdin  # type: ignore[assignment] # a pipe
        self._answers: IO[bytes] = self._popen.stdout  # type: ignore[assignment]
        self._has: _LocalJob | None = None  # the work whose job the process has

    def request(self, work: _LocalJob, part: bytes) -> tuple[bool, bytes]:
        """Send a task; return whether it succeeded, and the result or the error."""
        job = None if self._has is work else work.job
        self._has = None
        try:
            pickle.dump((job, work.function, part), self._requests, pickle.HIGHEST_PROTOCOL)
            self._requests.flush()
            is_made, answer = pickle.load(self._answers)
        except BaseException:  # the pipes may be in the middle of a message
            self.kill()
            raise
        self._has = work if is_made else None
        return is_made, answer

    def kill(self) -> None:
        self._popen.kill()

    def leave(self) -> None:
        """Let the process end when it is idle, or soon if it is busy."""
        with suppress(OSError):  # it has ended and did not read all input
            self._requests.close()

    def end(self, patience: float = 0.0) -> None:
        """Wait ``patience`` seconds for the process, then kill it."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(patience)
        self._popen.kill()
        self.leave()
        self._answers.close()
        self._popen.wait()


def _leave_ctrl_c() -> None:
    """Block SIGINT in this thread and the processes it starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


class _Pickler(pickle.Pickler):
    """Refuses objects that a worker would look up in its own ``__main__``."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType | type) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"{value.__qualname__} is defined in the script itself")
        return NotImplemented


def _pickled(value: Any) -> bytes:
    try:
        from cloudpickle import dumps
    except ImportError:
        sink = BytesIO()
        _Pickler(sink, pickle.HIGHEST_PROTOCOL).dump(value)
        return sink.getvalue()
    return dumps(value, pickle.HIGHEST_PROTOCOL)  # type: ignore[no-any-return]


# -- in a worker process --------------------------------------------------------------------------


def serve() -> None:
    """Answer tasks from stdin on stdout until the pipe closes."""
    queue: SimpleQueue[Any] = SimpleQueue()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # user functions must not read the requests
    os.dup2(2, 1)  # or write to the answers
    threading.Thread(target=_receive, args=(requests, queue), daemon=True).start()
    with suppress(BrokenPipeError):
        job = None
        while (request := queue.get()) is not None:
            new_job, function, part = request
            try:
                job = job if new_job is None else pickle.loads(new_job)
                result = run_part(versions(), function, job, pickle.loads(part))
                found = True, pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # as a class that the parent can load
                is_known = isinstance(error, DuckpletsError | PartError)
                found = False, pickle.dumps(error if is_known else PartError(described(error)))
            del request, new_job, part
            pickle.dump(found, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()


def _receive(requests: IO[bytes], queue: SimpleQueue[Any]) -> None:
    """Forward requests; when the pipe closes, end the process at any point of its work."""
    try:
        while True:
            queue.put(pickle.load(requests))
    except _LOST:
        queue.put(None)
        time.sleep(_LEAVING)
    finally:
        os._exit(1)
