"""Corpora of a test run on one thread, unless it says how many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from effort import THOROUGH

from duckplets.db import database


@pytest.fixture(scope="module", autouse=not THOROUGH)
def one_thread() -> Iterator[None]:
    """A second thread takes twice the time of the first to run the small statements of a test.

    Tests of threads ask for theirs, and the thorough suite runs with those of the machine.
    """
    settings = database._settings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_settings", lambda memory, threads: settings(memory, threads or 1))
        yield
