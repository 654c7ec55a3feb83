"""A collection is evaluated as it came: all documents one by one, gains by label."""

import json
import math
import random

import pytest
from beir_folders import content, made

import duckplets as dp


def plain_ndcg(ranked, labels, k):
    """nDCG with linear gains as trec_eval has it."""
    gains = [max(labels.get(name, 0), 0) for name in ranked[:k]]
    best = sorted((label for label in labels.values() if label > 0), reverse=True)[:k]
    return sum(g / math.log2(i + 2) for i, g in enumerate(gains)) / sum(
        g / math.log2(i + 2) for i, g in enumerate(best)
    )


@pytest.mark.parametrize("seed", range(3))
def test_ndcg_is_graded_and_documents_stay_apart(tmp_path, seed):
    folder = made(tmp_path / "set", seed)
    documents, _, labels = content(folder)
    of_test = {}
    for (split, query, document), label in labels.items():
        if split == "test":
            of_test.setdefault(query, {})[document] = float(label)
    of_test = {query: of for query, of in of_test.items() if max(of.values()) >= 1}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(folder, name="set")
        path = tmp_path / "results.json"
        evaluator = corpus.evaluator("test", results=path, ndcg_at_k=[3, 10], batch_size=4)
    assert {*evaluator.queries_ids} == {*of_test}
    assert {*evaluator.corpus_ids} == {*documents}
    assert evaluator.relevant_docs == {
        query: {d for d, label in of.items() if label >= 1} for query, of in of_test.items()
    }
    draw = random.Random(seed)
    ranked = {q: draw.sample([*documents], len(documents)) for q in evaluator.queries_ids}
    hits = [
        [{"corpus_id": name, "score": -at} for at, name in enumerate(ranked[query])]
        for query in evaluator.queries_ids
    ]
    found = evaluator.compute_metrics(hits)
    for k in (3, 10):
        expected = [plain_ndcg(ranked[q], of_test[q], k) for q in evaluator.queries_ids]
        assert found["ndcg@k"][k] == pytest.approx(sum(expected) / len(expected), abs=1e-9)
    from duckplets.adapters.evaluation import _write

    _write(path, evaluator, hits)
    for row in json.loads(path.read_text())["queries"]:
        expected = plain_ndcg(ranked[row["query"]], of_test[row["query"]], 10)
        assert row["ndcg@10"] == pytest.approx(expected, abs=1e-9)
