"""A cluster of this machine, started once for the tests of a session that want one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from duckplets.engines import dask


@pytest.fixture(scope="session", autouse=True)
def _importable() -> Iterator[None]:
    """Let workers import what tests import."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A client of a cluster of two workers."""
    with dask.local(2) as engine:
        yield engine.client
