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

import duckplets as dp

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # as for a script
    names = ("teach", "teach_report", "teach_corpora")
    try:
        yield [importlib.import_module(name) for name in names]
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
    teach, report, corpora = modules
    small = {"BATCH": 8, "DIMENSION": 8, "QUERIES": 40, "VOCABULARY": 200, "DEPTH": 20}
    small["MINED_AT"] = (1,)
    for name, value in small.items():
        monkeypatch.setattr(teach, name, value)
    arms = {name: arm for name, arm in teach.ARMS.items() if arm.batch != 64}
    monkeypatch.setattr(teach, "ARMS", {n: replace(arm, batch=8) for n, arm in arms.items()})
    kinds = {
        "static": teach.Kind(2, 0.2, (*teach.ARMS,)),
        "transformer": teach.Kind(2, 1e-3, ("pairs", "random_1", "dense_1"), layers=1),
    }
    monkeypatch.setattr(teach, "MODELS", kinds)
    monkeypatch.setattr(corpora, "LONG", 20)
    halved = {"foldoc_planted": lambda: corpora.planted(rows)}
    monkeypatch.setattr(teach, "CORPORA", {"python": rows, "gcide": absent, **halved})
    out = tmp_path / "teach.json"
    asked = ["--out", str(out), "--seeds", "1", "2", "--corpora", "python", "gcide", *halved]
    before, asked = (
        [*asked, "--folder", str(tmp_path / "before")],
        [*asked, "--folder", str(tmp_path)],
    )
    teach.main([*asked, "--minutes", "0"])
    assert not out.exists()
    teach.main([*before, "--arms", "random_1", "dense_1", "--minutes", "9"])
    teach.main([*asked, "--minutes", "9"])
    assert "gcide is left out" in capsys.readouterr().out
    found = json.loads(out.read_text())
    teach.main([*asked, "--minutes", "9"])
    assert json.loads(out.read_text()) == found, "nothing is run again"
    done = sorted((run["corpus"], run["arm"], run["seed"]) for run in found["runs"])
    assert done == sorted(teach.works(["python", *halved], [*arms], [1, 2]))
    again = {(run["corpus"], run["arm"], run["seed"]) for run in found["run_again"]}
    assert again == {(c, a, s) for c, a, s in done if a in ("random_1", "dense_1")}
    assert {*found["corpora"]["python"]["scorers"]} == {"bm25", "dense", "again"}
    assert found["compared"]["python"].keys() == {a for c, a, _ in done if c == "python"} - {
        "pairs"
    }
    assert found["compared"]["python"]["bm25_1"]["beside"] == "random_1"
    assert found["compared"]["python"]["bm25_1"]["seeds"] == 2
    runs = {(run["corpus"], run["arm"]): run for run in found["runs"]}
    assert len(runs["python", "on_the_way"]["taken"]) == 1
    planted = found["corpora"]["foldoc_planted"]["planted"]
    assert planted["pairs"] > 100
    assert 0 <= planted["first"] <= planted["first_16"] <= 1
    assert planted["first_16"] > 0
    for verdict in ("positive", "ambiguous"):
        with dp.Corpus(
            tmp_path / "static" / "foldoc_planted" / f"{verdict}.duckdb", read_only=True
        ) as copy:
            assert copy.sql("SELECT DISTINCT label FROM labels")["label"].to_pylist() == [
                1.0 if verdict == "positive" else 0.5
            ]
    merged, asked = tmp_path / "merged.json", [*asked, "--minutes", "9"]
    with monkeypatch.context() as without:
        without.delattr(teach, "train")  # what lies in the folder is taken
        teach.main([*asked, "--out", str(merged)])
    taken = json.loads(merged.read_text())
    assert sorted((run["corpus"], run["arm"], run["seed"]) for run in taken["runs"]) == done
    assert taken["compared"]["python"].keys() == found["compared"]["python"].keys()
    small = tmp_path / "teach_transformer.json"
    teach.main([*asked, "--out", str(small), "--model", "transformer", "--seeds", "1"])
    trained = json.loads(small.read_text())
    assert {r["arm"] for r in trained["runs"] if r["corpus"] == "python"} == {
        *kinds["transformer"].arms
    }
    page = report.page(found, trained)
    assert "| 4 BM25 | 4 random | " in page
    assert "| 1 dense, relabelled positive | 1 dense | " in page
    assert f"{len(again)} of those differ" in page
    assert "A BERT of 4 layers and 8 numbers" in page


def absent() -> Iterator[dict[str, str]]:
    raise FileNotFoundError("no such file")
    yield {}
