"""What the tests of adapters share: one corpus and its batches, as one process has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prebuilt import toy_corpus

import duckplets as dp

BATCH = 16
SEED = 7


def pytest_configure(config: pytest.Config) -> None:
    for expected in (
        # The tests use more workers than the smallest machine has cores.
        "ignore:This DataLoader will create:UserWarning",
        # torchdata 0.11 with torch 2.13
        "ignore:'set_vital' is deprecated:UserWarning",
    ):
        config.addinivalue_line("filterwarnings", expected)


@pytest.fixture(scope="session")
def corpus_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two sources, closed."""
    path = tmp_path_factory.mktemp("adapters") / "toy.duckdb"
    toy_corpus(path, 118, sources=("one", "two")).close()
    return path


@pytest.fixture(scope="session")
def alone(corpus_path: Path) -> list[dict[str, Any]]:
    """The batches of four epochs, taken by one process; the last is short."""
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        batches = [
            {**batch.to_pydict(), "step": batch.step}
            for batch in corpus.sampler(batch_size=BATCH, seed=SEED, epochs=4)
        ]
    assert len(batches) % 2
    assert len(batches) % 3
    assert 0 < len(batches[-1]["anchor"]) < BATCH
    return batches
