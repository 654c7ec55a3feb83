"""What the tests of sources share: the instance that reads, made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duckplets.db.database import Database


@pytest.fixture(scope="session")
def reader() -> Iterator[Database]:
    database = Database.reader()
    yield database
    database.close()
