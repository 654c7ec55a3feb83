"""The benchmark runs on a small corpus, and its page says what was measured."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from benchmark_scripts import FOLDER, load
from effort import THOROUGH, often, thorough

SAMPLE = ["ingest_parquet", "save"]  # unless in full


def test_the_page_is_written_from_the_results() -> None:
    report = load("report")
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), (
        "docs/benchmarks.md is not from benchmarks/*.json: python benchmarks/report.py"
    )


@thorough
def test_every_measurement_of_ours_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, text = load("run"), load("text")
    monkeypatch.setattr(run, "SECONDS", 0.1)
    monkeypatch.setattr(run.index_order, "SECONDS", 0.02)
    records = often(1_000, less=300)
    text.write(tmp_path, records)
    for name, measure in run.MEASUREMENTS.items():
        if "grain" not in name and (THOROUGH or name in SAMPLE):
            found = measure(tmp_path, records)
            assert all(value > 0 for value in found.values()), name
    assert run.MEASUREMENTS.keys() == load("report").TITLES.keys()
    assert str(FOLDER) not in sys.path


def test_every_measurement_of_token_batches_runs(tmp_path: Path) -> None:
    measures = load("token_batches")
    measures.make(tmp_path / "shards", often(400_000, less=100_000))
    for name, measure in measures.MEASUREMENTS.items():
        if THOROUGH or not name.startswith("peer"):
            found = measure(tmp_path / "shards", 0.02)
            assert all(value > 0 for value in found.values()), name


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


def test_every_measurement_of_serving_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = load("serving")
    monkeypatch.setattr(serving, "SECONDS", 0.05)
    monkeypatch.setattr(serving, "CALLS", 8)
    opening, sources = sys.modules["serving_opening"], sys.modules["serving_corpora"]
    # Not everybody may make a control group.
    monkeypatch.setattr(sys.modules["serving_memory"], "Held", lambda size: nullcontext())
    for name, value in {"SAMPLING": 0.05, "COLD": 0.3, "OPENINGS": 1, "SOURCES": 3}.items():
        monkeypatch.setattr(opening, name, value)
    monkeypatch.setattr(sources, "SMALL", 300)
    monkeypatch.setattr(sources.text, "VOCABULARY", 2000)
    records = often(1000, less=400)
    for name, measure in serving.MEASUREMENTS.items():
        if THOROUGH or name in ("lists_256", "set_weights_one"):
            found = measure(tmp_path, records)
            assert all(value >= 0 for value in found.values()), name
            assert all(found.get(rate, 1) > 0 for rate in ("per_s", "seconds", "cpu_s")), name
