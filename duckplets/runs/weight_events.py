"""Write the weights that are set during a run into its state file, beside the run.

To open a state file and to commit takes tens of milliseconds, and a training loop may set weights
at every step. So a thread writes what was set last, at most once in a while; whoever reads the file
in this process, saves the run or closes it waits for that. The thread lasts as long as there is
something to write, and Python waits for it when it ends.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.base.dropped import LiveSet
from duckplets.base.fork_guard import Home
from duckplets.runs import state
from duckplets.runs.state_conflicts import refuse_farther

if TYPE_CHECKING:
    from duckplets.order.schedule import Schedule
    from duckplets.runs.settings import RunSettings

_PAUSE = 1.0  # seconds between two writes: what a kill may lose is set again after the last save


class EventWriter:
    """Writes the events of one run.

    Args:
        path: The state file.
        settings: Of the run.
    """

    def __init__(self, path: Path, settings: RunSettings) -> None:
        self._path = path
        self._run, self._fingerprint = settings.run, settings.fingerprint()
        self._farthest: tuple[str, int] | None = None  # checkpoint; its step is -1 if there is none
        self._home = Home()
        self._changed = threading.Condition()
        self._waiting: Schedule | None = None
        self._thread: threading.Thread | None = None
        self._hurry = False
        self._error: Exception | None = None
        _AT_WORK.add(self)

    def put(self, schedule: Schedule, step: int) -> None:
        """Have the events of a schedule written, in the place of those that are still waiting.

        Nothing is written where the run was not saved yet: a save does it.

        Args:
            schedule: Of the run; its events are listed when they are written.
            step: From which on they are new.

        Raises:
            StateMismatchError: A checkpoint needs those that were set before.
            DuckpletsError: An earlier write has failed.
        """
        if not self._path.exists():
            return
        if self._farthest is None:
            found = state.farthest_tag(self._path, self._run, self._fingerprint)
            self._farthest = found or ("", -1)
        refuse_farther(self._run, *self._farthest, step)
        with self._changed:
            self._raise()
            self._waiting = schedule
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="duckplets-weights")
                self._thread.start()

    def flush(self) -> None:
        """Wait until all is written; what the file has is looked at anew after that.

        Raises:
            DuckpletsError: A write has failed.
        """
        if self._home.is_left or threading.current_thread() is self._thread:
            return
        self._farthest = None
        with self._changed:
            thread, self._hurry = self._thread, True
            self._changed.notify_all()
        if thread is not None:
            thread.join()
        with self._changed:
            self._hurry = False
            self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while True:
            with self._changed:
                schedule, self._waiting = self._waiting, None
                if schedule is None:
                    self._thread = None
                    return
            try:
                state.save_events(self._path, self._run, self._fingerprint, schedule.events)
            except Exception as error:
                self._error = error
            with self._changed:
                self._changed.wait_for(lambda: self._hurry, timeout=_PAUSE)

    def writes(self, path: Path) -> bool:
        """Whether it writes into a file."""
        return self._path == path


_AT_WORK: LiveSet[EventWriter] = LiveSet()


def written(path: Path) -> None:
    """Wait for what runs of this process are writing into a state file."""
    for writer in _AT_WORK:
        if writer.writes(path):
            writer.flush()
