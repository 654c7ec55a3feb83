"""The laboratory of negatives trains, judges and compares, and repeats nothing."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

from effort import thorough

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # as for a script
    names = ("teach", "teach_report", "teach_corpora")
    try:
        yield importlib.import_module(names[0]), importlib.import_module(names[1])
    finally:
        for name in names:
            sys.modules.pop(name, None)


def rows() -> Iterator[dict[str, str]]:
    """Yield questions whose answers share words with others'."""
    for i in range(400):
        a, b = f"topic{i % 20}", f"thing{i % 47}"
        answer = f"The {b} of {a} is number {i}, near {i + 1}"
        yield {"id": str(i), "anchor": f"What is the {a} {b} {i}", "positive": answer}


@thorough
def test_arms_are_run_judged_and_compared_once(modules, tmp_path, monkeypatch, capsys):
    teach, report = modules
    small = {"STEPS": 2, "BATCH": 8, "DIMENSION": 8, "QUERIES": 40, "VOCABULARY": 200, "DEPTH": 20}
    for name, value in small.items():
        monkeypatch.setattr(teach, name, value)
    arms = {name: arm for name, arm in teach.ARMS.items() if arm.batch != 64}
    monkeypatch.setattr(teach, "ARMS", {n: replace(arm, batch=8) for n, arm in arms.items()})
    monkeypatch.setattr(teach, "CORPORA", {"python": rows, "gcide": absent})
    out = tmp_path / "teach.json"
    asked = ["--folder", str(tmp_path), "--out", str(out), "--seeds", "1", "2"]
    asked += ["--corpora", "python", "gcide"]
    teach.main([*asked, "--minutes", "0"])
    assert not out.exists()
    teach.main([*asked, "--arms", "random_1", "dense_1", "--minutes", "9"])
    teach.main([*asked, "--minutes", "9"])
    assert "gcide is left out" in capsys.readouterr().out
    found = json.loads(out.read_text())
    teach.main([*asked, "--minutes", "9"])
    assert json.loads(out.read_text()) == found, "nothing is run again"
    done = [(run["arm"], run["seed"]) for run in found["runs"]]
    assert sorted(done) == sorted((arm, seed) for arm in arms for seed in (1, 2))
    assert {*found["corpora"]["python"]["scorers"]} == {"bm25", "dense", "again"}
    assert found["compared"]["python"].keys() == arms.keys() - {"pairs"}
    assert found["compared"]["python"]["bm25_1"]["beside"] == "random_1"
    assert found["compared"]["python"]["bm25_1"]["seeds"] == 2
    assert "4 BM25, beside 4 random" in report.page(found)


def absent() -> Iterator[dict[str, str]]:
    raise FileNotFoundError("no such file")
    yield {}
