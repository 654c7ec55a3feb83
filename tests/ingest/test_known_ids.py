"""Where stored ids are looked for: among few records, and never too few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.db.database import Database
from duckplets.ingest.append import HeldHashes

hashes_of = st.lists(st.integers(0, 12), max_size=9)  # few, so that ids share hashes


@settings(max_examples=200, deadline=None)
@given(
    batches=st.lists(hashes_of, max_size=9),
    asked=hashes_of,
    most=st.sampled_from([0, 3, 20, 100]),
    step=st.integers(1, 3),
)
def test_the_range_is_that_of_all_records_of_such_ids(
    batches: list[list[int]], asked: list[int], most: int, step: int
) -> None:
    held, stored, key = HeldHashes(most), dict[int, int](), 0
    for batch in batches:
        keys = np.arange(key, key + step * len(batch), step)
        held.add(np.array(batch, np.uint64), keys)
        stored |= dict(zip(keys.tolist(), batch, strict=True))
        key += step * len(batch)
    keys = [key for key, hash_ in stored.items() if key < most and hash_ in asked]
    if any(key >= most for key in stored):
        assert held.between(np.array(asked, np.uint64)) == (min([most, *keys]), 2**63 - 1)
    else:
        expected = (min(keys), max(keys)) if keys else None
        assert held.between(np.array(asked, np.uint64)) == expected


def test_records_that_are_not_held_may_have_any_id() -> None:
    asked = np.array([1], np.uint64)
    assert HeldHashes(5, next_key=5).between(asked) is None
    assert HeldHashes(5, next_key=6).between(asked) == (5, 2**63 - 1)


def test_batches_of_new_rows_are_not_compared_with_all_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    table = Database.table

    def told(self: Database, name: str, parameters: Any = None) -> Any:
        if name == "ingest/records/classify":
            asked.append((parameters["first_key"], parameters["last_key"]))
        return table(self, name, parameters)

    monkeypatch.setattr(Database, "table", told)
    monkeypatch.setattr("duckplets.sources.row_batches.MAX_ROWS", 10)
    rows = [{"id": f"{number}", "text": f"text {number}"} for number in range(100)]

    def ingest(*rows: dict[str, str]) -> dict[str, int]:
        source = dp.MemorySource(rows, id="id", text="text")
        return corpus.ingest(source, name="s", progress=False).reasons

    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        assert ingest(*rows) == {}
        assert asked == [(0, 2**63 - 1)]  # the first batch
        asked.clear()
        assert ingest(*rows) == {"duplicate id, same content": 100}
        assert asked[1:] == [(first, first + 9) for first in range(11, 101, 10)]
