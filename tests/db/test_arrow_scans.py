"""Arrow tables of hashes in statements: joins hand them no lists, and have them elsewhere."""

from __future__ import annotations

import pyarrow as pa
import pytest

from duckplets.db.database import Database
from duckplets.errors import QueryError


def lists(database: Database) -> bool:
    """Tell whether joins hand scans lists of what they want."""
    return database.rows("SELECT current_setting('dynamic_or_filter_threshold') > 0") == [(True,)]


def test_joins_hand_tables_of_hashes_no_lists() -> None:
    database = Database.reader()
    hashes, keys = pa.table({"hash": pa.array([1], pa.uint64())}), pa.table({"key": [1]})
    with database.registered(keys=keys):
        assert lists(database)
    with database.registered(keys=keys, hashes=hashes):
        with database.registered(others=hashes):
            assert not lists(database)
        assert not lists(database)
    assert lists(database)


def test_a_statement_that_fails_leaves_lists_on() -> None:
    database = Database.reader()
    hashes = pa.table({"hash": pa.array([1], pa.uint64())})
    with pytest.raises(QueryError), database.registered(hashes=hashes):
        database.rows("SELECT nothing FROM hashes")
    assert lists(database)
