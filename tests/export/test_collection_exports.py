"""Collections come out of exports as they went in, and are evaluated by their labels."""

import csv
import json
import math
import random
from collections import Counter

import pytest
import test_collections as layouts
from effort import often, some
from test_collections import labels, lines, records, tsv

import duckplets as dp

TITLES = ["", "Title", "Gänse – ガチョウ", "two  words", '"quoted", twice']
KEYS = ["{}", "a/b {}", "sci.documents/{}", "é #{}", '"{}"', "D{}#1"]


def made(seed):
    """Return a random collection: odd ids and titles, long texts, labels from −1 to 3."""
    draw, plain = random.Random(seed), layouts.Plain()
    ids = [draw.choice(KEYS).format(number) for number in range(30)]
    for key in ids[:16]:
        words = draw.choice(["", "日本語", f"{key}, " * 2500]) if len(plain.documents) else ""
        plain.documents[key] = draw.choice(TITLES), f"text of {key} {words}".strip()
    for key in ids[8:20]:
        plain.queries[key] = f"what is {key}"
        plain.splits[key] = draw.choice(["train", "dev", "test"])
        for document in draw.sample([*plain.documents], draw.randint(0, 4)):
            plain.labels[key, document] = float(draw.choice([-1, 0, 1, 1, 2, 3]))
    plain.labels[ids[8], ids[0]] = 1.0
    plain.splits[ids[8]] = "train"
    return plain


def beir(folder, plain):
    lines(folder / "corpus.jsonl", layouts.documents(plain))
    lines(folder / "queries.jsonl", layouts.queries(plain))
    names = "query-id", "corpus-id", "score"
    for split in {plain.splits[q] for q, _ in plain.labels}:
        rows = layouts.grades(plain, names, split)
        tsv(folder / "qrels" / f"{split}.tsv", [_quoted(row) for row in rows])
    return folder


def _quoted(row):
    return {k: '"' + v.replace('"', '""') + '"' if '"' in str(v) else v for k, v in row.items()}


def metas(corpus, name):
    rows = corpus.sql(f"SELECT record_id, meta FROM live_records WHERE source = '{name}'")
    return {row["record_id"].removeprefix(f"{name}/"): row["meta"] for row in rows.to_pylist()}


def assert_same(one, name, other, again):
    for source in (name, f"{name}.documents"):
        there = source.replace(name, again, 1)
        assert records(one, source) == records(other, there)
        assert metas(one, source) == metas(other, there)
    assert labels(one, name) == labels(other, again)
    assert layouts.splits_of(one, name) == layouts.splits_of(other, again)


@pytest.fixture
def corpora(tmp_path):
    with dp.Corpus(tmp_path / "one.duckdb") as one, dp.Corpus(tmp_path / "two.duckdb") as two:
        yield one, two


@pytest.mark.parametrize("seed", range(often(30, less=2)))
def test_a_folder_of_beir_comes_out_as_it_went_in(corpora, tmp_path, seed):
    one, two = corpora
    plain = made(seed)
    one.ingest(beir(tmp_path / "sci", plain))
    report = one.export(tmp_path / "out", "beir")
    assert report.rows == len(plain.labels)
    assert report.anchors == len({q for q, _ in plain.labels})
    rows = map(json.loads, (tmp_path / "out" / "corpus.jsonl").read_bytes().splitlines())
    found = {row["_id"]: (row["title"], row["text"]) for row in rows}
    assert found == plain.documents
    two.ingest(tmp_path / "out", name="sci")
    assert_same(one, "sci", two, "sci")
    assert labels(two, "sci") == plain.labels
    two.split(train=1)
    two.export(tmp_path / "drawn", "beir", recipe="anchor_context", split="train")  # by pools
    _, *rows = (tmp_path / "drawn" / "qrels" / "train.tsv").read_text().splitlines()
    held = {pair for pair, label in plain.labels.items() if label >= 1}
    held = {(q, d) for q, d in held if plain.splits[q] == "train"}
    assert {tuple(row[:2]) for row in csv.reader(rows, delimiter="\t")} == held


@pytest.mark.parametrize("layout", some(layouts.FULL + layouts.OTHERS, less=3))
def test_every_layout_comes_out_as_beir(corpora, tmp_path, layout):
    one, two = corpora
    plain = layouts.made(5, titles=layout is not layouts.ms_marco)
    one.ingest(layout(tmp_path, plain, random.Random(5)), name="c")
    one.split(train=0.5, test=0.5)
    one.export(tmp_path / "out", "beir", source="c")
    two.ingest(tmp_path / "out", name="again")
    two.split(train=0.5, test=0.5)
    assert_same(one, "c", two, "again")


READ = {
    "tevatron": lambda of: dp.Collection(
        {"train": of / "train.jsonl"}, documents=of / "corpus.jsonl"
    ),
    "automodel": lambda of: of / "train.json",
    "lighton": lambda of: dp.Collection(
        documents=of / "documents.jsonl",
        queries=of / "queries.jsonl",
        qrels={"train": of / "scores.jsonl"},
    ),
}


@pytest.mark.parametrize("seed", range(often(10, less=1)))
def test_formats_of_trainers_keep_ids_texts_and_positives(corpora, tmp_path, seed):
    one, two = corpora
    plain = made(seed)
    one.ingest(beir(tmp_path / "sci", plain))
    one.split(train=1)  # of queries without a label
    held = {k: label for k, label in plain.labels.items() if plain.splits[k[0]] == "train"}
    wanted = {pair: 1.0 for pair, label in held.items() if label >= 1}
    for form, read in READ.items():
        report = one.export(tmp_path / form, form, negatives=0)
        assert report.left_out.get("label other than 1", 0) == sum(v != 1 for v in held.values())
        two.ingest(read(tmp_path / form), name=form)
        assert records(two, f"{form}.documents") == records(one, "sci.documents")
        assert records(two, form) == {q: plain.queries[q] for q, _ in wanted}
        assert labels(two, form) == wanted


def ndcg(ranking, gains, at=10):
    """Return nDCG as trec_eval defines it: linear gains, the ideal of all labels."""
    best = sorted((label for label in gains.values() if label > 0), reverse=True)[:at]
    found = [max(gains.get(name, 0), 0) for name in ranking[:at]]
    return math.fsum(g / math.log2(n + 2) for n, g in enumerate(found)) / math.fsum(
        g / math.log2(n + 2) for n, g in enumerate(best)
    )


def test_an_evaluator_has_the_gains_of_labels_and_each_document(corpora, tmp_path):
    pytest.importorskip("sentence_transformers")
    corpus, _ = corpora
    plain, draw = made(7), random.Random(7)
    plain.documents["same 1"] = plain.documents["same 2"] = "", "one text"
    plain.splits = dict.fromkeys(plain.splits, "test")
    corpus.ingest(beir(tmp_path / "sci", plain))
    asked = corpus.evaluator("test", results=tmp_path / "r.json")
    gains = {}
    for (query, document), label in plain.labels.items():
        gains.setdefault(f"sci/{query}", {})[f"sci.documents/{document}"] = label
    gains = {query: of for query, of in gains.items() if max(of.values()) >= 1}
    assert {*asked.queries_ids} == {*gains}
    assert {*asked.corpus_ids} == {f"sci.documents/{key}" for key in plain.documents}
    rankings = {query: draw.sample(asked.corpus_ids, 14) for query in asked.queries_ids}
    hits = [
        [{"corpus_id": name, "score": -at} for at, name in enumerate(of)]
        for of in rankings.values()
    ]
    found = asked.compute_metrics(hits)["ndcg@k"][10]
    wanted = [ndcg(of, gains[query]) for query, of in rankings.items()]
    assert found == pytest.approx(sum(wanted) / len(wanted), abs=1e-9)
    trec = pytest.importorskip("pytrec_eval")
    whole = {q: {d: int(label) for d, label in of.items()} for q, of in gains.items()}
    runs = {q: {d: -float(at) for at, d in enumerate(of)} for q, of in rankings.items()}
    theirs = trec.RelevanceEvaluator(whole, {"ndcg_cut_10"}).evaluate(runs)
    assert [theirs[q]["ndcg_cut_10"] for q in rankings] == pytest.approx(wanted, abs=1e-9)
    with pytest.raises(dp.EmptyPoolError, match="no anchor of it has a positive"):
        corpus.evaluator("validation")


def test_status_and_the_page_count_a_collection_as_one(corpora, tmp_path):
    corpus, _ = corpora
    plain = made(3)
    corpus.ingest(beir(tmp_path / "sci", plain))
    corpus.split(train=1)
    status = corpus.status()
    (found,) = status["collections"]
    held = {d for _, d in plain.labels}
    by_value = Counter(f"{label:g}" for label in plain.labels.values())
    assert found["documents"] == {
        "with a label": len(held),
        "without a label": len(plain.documents) - len(held),
    }
    assert found["labels"] == by_value
    assert sum(found["queries"].values()) == len(plain.queries)
    assert "queries" in str(status)
    asked = {q for q, _ in plain.labels if plain.splits[q] == "test"}
    positives = [q for (q, _), label in plain.labels.items() if q in asked and label >= 1]
    rows = {(row["source"], row["split"]): row for row in status["capacity"]}
    row, size = rows["sci", "test"], len(plain.documents)
    assert row["triplets"] == len(positives) * (size - 1)
    assert row["effective_triplets"] == 4 * len({*positives})
    assert row["pairs"] == len({*positives}) * size
    page = corpus.report(tmp_path / "page.html").path.read_text()
    assert "without a label" in page
