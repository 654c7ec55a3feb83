"""What messages count has its grammatical number."""

from __future__ import annotations

import pytest

from duckplets.base.sanitize import counted, size


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


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (0, "0"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (3_944_448, "3.9 MB"),
        (2_500_000_000, "2.5 GB"),
        (1_234_500_000_000_000, "1,234.5 TB"),
    ],
)
def test_a_size_in_words(number: int, told: str) -> None:
    assert size(number) == told
