"""What tests of the command line share: a folder of their own, and a corpus in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from prebuilt import copied

from duckplets import testing


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def toy(in_folder: None) -> str:
    """A corpus of two sources."""
    copied(Path("toy.duckdb"), testing.toy_corpus, 60, sources=("a", "b"))
    return "toy.duckdb"
