"""What messages count has its grammatical number."""

from __future__ import annotations

import pytest

from duckplets.base.shown import counted


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2000, ("record",), "2,000 records"),
        (1, ("family", "families"), "1 family"),
        (3, ("family", "families"), "3 families"),
    ],
)
def test_a_number_and_what_it_counts(number: int, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told
