"""The benchmark runs on a small corpus, and its page says what was measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from effort import THOROUGH

FOLDER = Path(__file__).parents[1] / "benchmarks"
SAMPLE = ["ingest_parquet", "first_batch", "resumed_batch"]  # unless in full


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
    text.write(tmp_path, 1_000)
    for name, measure in run.MEASUREMENTS.items():
        if "grain" not in name and (THOROUGH or name in SAMPLE):
            found = measure(tmp_path, 1_000)
            assert all(value > 0 for value in found.values()), name
    assert run.MEASUREMENTS.keys() == load("report").TITLES.keys()
    assert str(FOLDER) not in sys.path


def test_every_measurement_of_mining_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mining = load("mining")
    assert "index_small" in mining.MEASUREMENTS
    if not THOROUGH:
        return  # its sizes cannot be small: what is searched has to fill several shards
    sizes = {"SMALL": 4500, "LARGE": 4600, "QUERIES": 1000, "RECORDS": 2000}
    for name, size in sizes.items():
        monkeypatch.setattr(mining, name, size)
    monkeypatch.setattr(mining, "ANCHORS", 4200)
    monkeypatch.syspath_prepend(str(FOLDER))
    for name, measure in mining.MEASUREMENTS.items():
        if name not in ("bm25s_numba", "wordnet"):  # a peer that is not installed; half a minute
            found = measure(tmp_path)
            assert all(value > 0 for value in found.values()), name


def test_every_measurement_of_text_coming_in_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    if not THOROUGH:  # what it starts, programs and a hub, costs the same at any size
        assert all(load(name) for name in ("denoiser", "prefixes", "data_index", "hub"))
        return
    size = 3000
    monkeypatch.setenv("RECORDS", str(size))
    monkeypatch.setenv("RUNS", "1")
    denoiser, prefixes, data_index = (load(n) for n in ("denoiser", "prefixes", "data_index"))
    for name, size in {"BYTES": 40_000, "PLAIN_BYTES": 20_000, "TIMES": 1}.items():
        monkeypatch.setattr(denoiser, name, size)
    for name, size in {"BATCHES": 2, "WARM": 1, "TURNS": 1, "SIZE": 32}.items():
        monkeypatch.setattr(prefixes, name, size)
    monkeypatch.setattr(data_index, "SELECTED", size // 3)
    index = {
        "ours": data_index.ours(size),
        "list_of_tuples": data_index.listed(size),
        "ratios": {"time": 1.0},
    }
    found = {
        "load_before": 1.0,
        "hub": load("hub").measure(tmp_path, size, 1),
        "converters": load("converters").measure(),
        "denoiser": denoiser.measure(),
        "prefixes": prefixes.measure(tmp_path, size // 3),
        "data_index": index,
    }
    assert f"{size:,} rows in 8 Parquet shards" in load("text_in_report").section(found)
    assert set(load("text_in").SCRIPTS) == found.keys() - {"load_before"}
