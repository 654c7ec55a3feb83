"""What the tests of ingests share: an empty corpus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prebuilt import empty_corpus

import duckplets as dp


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        yield corpus
