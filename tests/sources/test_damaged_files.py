"""Files damaged at random: rows or a typed error, never a foreign one, never a dead process."""

import pytest
from damaged import FORMS, tried
from effort import THOROUGH, some, thorough

# Cases that once failed: metadata at which PyArrow ends the process when asked for a column's.
FAILED = ["parquet:123:124", "parquet:361:362", "parquet:556:557"]
DEFAULT = [f"{form}:0:1" for form in FORMS]


@thorough
def test_some_damaged_files():
    assert tried(*DEFAULT, *some(FAILED, less=1)) == []


@pytest.mark.skipif(not THOROUGH, reason="500 cases of each form take some minutes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", FORMS)
def test_many_damaged_files(form):
    parts = [f"{form}:{first}:{first + 250}" for first in range(0, 500, 250)]
    assert [wrong for part in parts for wrong in tried(part)] == []
