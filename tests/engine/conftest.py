"""Engines of this machine, started once for the tests of a session that want one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duckplets.engine.local import LocalEngine, local


@pytest.fixture(scope="session")
def processes() -> Iterator[LocalEngine]:
    """Two processes of this machine."""
    with local(2) as engine:
        yield engine


@pytest.fixture(scope="module")  # an idle cluster takes a tenth of a core
def cluster() -> Iterator[Any]:
    """A client of a Dask cluster of two workers."""
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        yield client
