"""The benchmark runs on a small corpus, and its page says what was measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(FOLDER))  # as for a script
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


def test_the_page_is_written_from_the_results() -> None:
    report = load("report")
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), (
        "docs/benchmarks.md is not from benchmarks/*.json: python benchmarks/report.py"
    )


def test_every_measurement_of_ours_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, text = load("run"), load("text")
    monkeypatch.setattr(run, "SECONDS", 0.1)
    monkeypatch.setattr(run.index_order, "SECONDS", 0.02)
    text.write(tmp_path, 2_000)
    for name, measure in run.MEASUREMENTS.items():
        if "grain" not in name:
            found = measure(tmp_path, 2_000)
            assert all(value > 0 for value in found.values()), name
    assert run.MEASUREMENTS.keys() == load("report").TITLES.keys()
    assert str(FOLDER) not in sys.path


def test_every_measurement_of_mining_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mining = load("mining")
    sizes = {"SMALL": 4500, "LARGE": 4600, "QUERIES": 1000, "RECORDS": 2000}
    for name, size in sizes.items():
        monkeypatch.setattr(mining, name, size)
    monkeypatch.setattr(mining, "ANCHORS", 4200)
    monkeypatch.syspath_prepend(str(FOLDER))
    for name, measure in mining.MEASUREMENTS.items():
        if name not in ("bm25s_numba", "wordnet"):  # a peer that is not installed; half a minute
            found = measure(tmp_path)
            assert all(value > 0 for value in found.values()), name
