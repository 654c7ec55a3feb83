"""What the tests of sources share: the instance that reads, made once, and a hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_data import point_to
from hub_server import Hub

from duckplets.db.database import Database


@pytest.fixture(scope="session")
def reader() -> Iterator[Database]:
    database = Database.reader()
    yield database
    database.close()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with Hub() as server:
        point_to(server, monkeypatch, tmp_path / "cache")
        yield server
