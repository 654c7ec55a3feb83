"""What the tests of sources share: a hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_data import point_to
from hub_server import Hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with Hub() as server:
        point_to(server, monkeypatch, tmp_path / "cache")
        yield server
