"""What an evaluator keeps of each query, and what two models differ by."""

import json

import numpy as np
import pytest

import duckplets as dp

METRICS = ("ndcg@10", "mrr@10", "recall@10")


def write(path, values, *, families=None):
    rows = [
        {"query": f"q{i}", "family": str(i if families is None else families[i])}
        | dict(zip(METRICS, map(float, row), strict=True))
        for i, row in enumerate(values)
    ]
    path.write_text(json.dumps({"name": "test", "queries": rows}))
    return path


def test_means_and_intervals_are_those_of_the_paired_differences(tmp_path):
    draw = np.random.default_rng(3)
    ours, effect = draw.random((400, 3)), draw.normal([0.1, 0, -0.05], 0.2, (400, 3))
    first, second = write(tmp_path / "a", ours), write(tmp_path / "b", ours + effect)
    found = dp.compare(first, second)
    assert (found.queries, found.families) == (400, 400)
    for at, row in enumerate(found.metrics):
        assert row["metric"] == METRICS[at]
        assert row["difference"] == pytest.approx(effect[:, at].mean())
        error = effect[:, at].std() / 20  # of a mean of 400
        assert row["low"] == pytest.approx(row["difference"] - 1.96 * error, abs=0.2 * error)
        assert row["high"] == pytest.approx(row["difference"] + 1.96 * error, abs=0.2 * error)
    assert dp.compare(first, second).metrics == found.metrics
    assert "400 queries of 400 families" in str(found)
    narrow = dp.compare(first, second, confidence=0.5).metrics[0]
    assert found.metrics[0]["low"] < narrow["low"] < narrow["high"] < found.metrics[0]["high"]


def test_queries_of_one_family_are_no_more_evidence_than_one(tmp_path):
    effect = np.repeat(np.random.default_rng(4).normal(0.1, 0.3, (40, 3)), 10, axis=0)
    alone = [write(tmp_path / "a", effect * 0), write(tmp_path / "b", effect)]
    family = [*range(40)] * 10
    grouped = [
        write(tmp_path / "c", effect * 0, families=sorted(family)),
        write(tmp_path / "d", effect, families=sorted(family)),
    ]
    width = [
        row["high"] - row["low"]
        for row in (dp.compare(*alone).metrics[0], dp.compare(*grouped).metrics[0])
    ]
    assert width[1] == pytest.approx(width[0] * 10**0.5, rel=0.15)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "has no results"),
        ('{"queries": []}', "has no results"),
        ('{"queries": [{"query": "q0", "family": "f"}]}', "has no results"),
        ('{"queries": {"a": 1}}', "has no results"),
        (b"\xff", "has no results"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, content, said):
    first, second = write(tmp_path / "a", np.zeros((2, 3))), tmp_path / "b"
    if content is not None:
        second.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(dp.errors.QualityError, match=said):
        dp.compare(first, second)


def test_other_queries_are_refused(tmp_path):
    first, second = write(tmp_path / "a", np.zeros((2, 3))), write(tmp_path / "b", np.zeros((3, 3)))
    with pytest.raises(dp.errors.QualityError, match="1 are in one file only, such as 'q2'"):
        dp.compare(first, second)
    with pytest.raises(dp.errors.QualityError, match="confidence=1"):
        dp.compare(first, first, confidence=1)


def test_an_evaluator_keeps_what_came_of_each_query(tmp_path):
    pytest.importorskip("sentence_transformers")
    rows = [
        {"a": f"question {i}", "b": f"answer {i}", "g": f"g{i // 2}" if i < 20 else None}
        for i in range(60)
    ]
    with dp.Corpus(tmp_path / "e.duckdb") as corpus:
        corpus.ingest(rows, anchor="a", positive="b", group="g")
        corpus.split(0, 0, 1)
        evaluator = corpus.evaluator("test", results=tmp_path / "r.json")
        with pytest.raises(dp.errors.QualityError, match="the folder does not exist"):
            corpus.evaluator("test", results=tmp_path / "none" / "r.json")
    assert len(evaluator.corpus) == 60
    asked = dict(zip(evaluator.queries_ids, evaluator.queries, strict=True))
    answer = dict(zip(evaluator.corpus, evaluator.corpus_ids, strict=True))
    # The other answer of its family comes first, then another one, and only then its own.
    hits = []
    for question in asked.values():
        i = int(question.split()[1])
        found = [i ^ 1, (i + 2) % 60, i]
        hits.append(
            [{"corpus_id": answer[f"answer {n}"], "score": 3 - at} for at, n in enumerate(found)]
        )
    evaluator._found = None
    metrics = evaluator.compute_metrics(hits)

    def expected(i):
        return 1.0 if i < 20 else 1 / 3

    assert metrics["mrr@k"][10] == pytest.approx(sum(map(expected, range(60))) / 60)
    evaluator.compute_all_metrics = lambda *_, **__: {"cosine": evaluator.compute_metrics(hits)}
    evaluator.score_functions, evaluator.score_function_names = {"cosine": None}, ["cosine"]
    evaluator._score_functions_from_model = False
    evaluator.store_metrics_in_model_card_data = lambda *_: None
    evaluator(None)
    stored = json.loads((tmp_path / "r.json").read_text())["queries"]
    assert len(stored) == 60
    assert len({row["family"] for row in stored}) == 50
    for row in stored:
        assert row["mrr@10"] == pytest.approx(expected(int(asked[row["query"]].split()[1])))
        assert row["recall@10"] == 1
    for name in METRICS[:2]:
        mean = metrics["ndcg@k" if "ndcg" in name else "mrr@k"][10]
        assert np.mean([row[name] for row in stored]) == pytest.approx(mean)
    assert dp.compare(tmp_path / "r.json", tmp_path / "r.json").metrics[0]["high"] == 0
