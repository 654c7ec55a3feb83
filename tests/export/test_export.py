"""Exports, read again with plain JSON, csv and pyarrow, say what the tables say, row for row."""

import csv
import hashlib
import json
from dataclasses import replace
from itertools import product

import pyarrow.parquet as pq
import pytest
from effort import some, thorough
from mined_by_hand import (
    RECIPE,
    document_ids,
    expected,
    kept,
    mine_by_hand,
    odd_text_corpus,
    sections,
)

import duckplets as dp
from duckplets.base import block_size
from duckplets.export import ExportReport, examples

SHAPES = ["triplet", "n-tuple", "labeled-pair", "labeled-list"]
ST = "sentence-transformers"

# The published schemas: keys in their order, and what a value is.
FLAGEMBEDDING = {"query": "str", "pos": "[str]", "neg": "[str]"}
FLAGEMBEDDING_SCORES = {"pos_scores": "[float]", "neg_scores": "[float]"}
TEVATRON = {
    "query_id": "str",
    "query_text": "str",
    "positive_document_ids": "[str]",
    "negative_document_ids": "[str]",
}
TEVATRON_CORPUS = {"docid": "str", "text": "str"}
BEIR_CORPUS = {"_id": "str", "title": "str", "text": "str"}
BEIR_QUERIES = {"_id": "str", "text": "str"}
_SEVERAL = {f"negative_{n}": "str" for n in (1, 2, 3)}
MINE_HARD_NEGATIVES = {  # what it adds to the first two columns, of strings
    ("triplet", False): {"negative": "str"},
    ("triplet", True): {"negative": "str", "scores": "[float]"},
    ("n-tuple", False): _SEVERAL,
    ("n-tuple", True): {**_SEVERAL, "scores": "[float]"},
    ("labeled-pair", False): {"label": "int"},
    ("labeled-pair", True): {"score": "float"},
    ("labeled-list", False): {"labels": "[int]"},
    ("labeled-list", True): {"scores": "[float]"},
}


def kind_of(value):
    if isinstance(value, list):
        kinds = {kind_of(item) for item in value}
        assert len(kinds) == 1, value
        return f"[{kinds.pop()}]"
    if isinstance(value, dict):
        return f"{{{', '.join(value)}}}"
    return type(value).__name__


def assert_schema(rows, schema):
    assert rows
    for row in rows:
        assert {name: kind_of(value) for name, value in row.items()} == schema
        assert list(row) == list(schema)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "odd.duckdb"
    with odd_text_corpus(path) as corpus:
        mine_by_hand(corpus)
        yield corpus


def written(corpus, path, /, **options):
    return corpus.export(path, recipe=options.pop("recipe", RECIPE), **options)


def json_rows(path):
    data = path.read_bytes()
    lines = data.decode("utf-8").splitlines()
    assert data.endswith(b"\n")
    assert len(lines) == data.count(b"\n"), "something in a text ends a line"
    return [json.loads(line) for line in lines]


def rows_of(path):
    return pq.read_table(path).to_pylist() if path.suffix == ".parquet" else json_rows(path)


def st_rows(anchors, shape, *, scores):
    """The values of rows, written down from what mine_hard_negatives makes of each shape."""
    for a in anchors:
        texts, all_scores = [text for _, text in a.negatives], [a.positive_score, *a.scores]
        for _, positive in a.positives:
            if shape == "triplet":
                for text, score in zip(texts, a.scores, strict=True):
                    extra = [[a.positive_score, score]] if scores else []
                    yield [a.text, positive, text, *extra]
            elif shape == "n-tuple":
                yield [a.text, positive, *texts, *([all_scores] if scores else [])]
            elif shape == "labeled-list":
                labels = all_scores if scores else [1] + [0] * len(texts)
                yield [a.text, [positive, *texts], labels]
            else:
                yield [a.text, positive, a.positive_score if scores else 1]
        if shape == "labeled-pair":
            for text, score in zip(texts, a.scores, strict=True):
                yield [a.text, text, score if scores else 0]


@pytest.mark.parametrize(
    ("shape", "scores", "suffix"),
    some(product(SHAPES, [False, True], [".parquet", ".jsonl"]), less=4),
)
def test_sentence_transformers_rows_are_those_of_the_tables(
    corpus, tmp_path, shape, scores, suffix
):
    path = tmp_path / f"out{suffix}"
    report = written(corpus, path, format=ST, shape=shape, scores=scores, negatives=3)
    exactly = 3 if shape == "n-tuple" else None
    anchors, left_out = kept(expected(corpus, negatives=3), scores=scores, exactly=exactly)
    rows = rows_of(path)
    assert [list(row.values()) for row in rows] == list(st_rows(anchors, shape, scores=scores))
    second = {"triplet": "positive", "n-tuple": "positive", "labeled-pair": "document"}
    first = {
        "anchor": "str",
        second.get(shape, "documents"): "[str]" if shape[-4:] == "list" else "str",
    }
    assert_schema(rows, first | MINE_HARD_NEGATIVES[shape, scores])
    assert report == ExportReport(
        path=path,
        format=ST,
        rows=len(rows),
        anchors=len(anchors),
        negatives=sum(len(a.negatives) for a in anchors),
        left_out=left_out,
        sources=["one", "two"],
        files=[path.name],
    )
    assert {"no positive", "no negative"} <= left_out.keys()


@pytest.mark.parametrize(
    ("scores", "instruction"),
    some(product([False, True], [None, "Find the body – «von» diesem Titel"]), less=2),
)
def test_flagembedding_rows_are_those_of_the_tables(corpus, tmp_path, scores, instruction):
    path = tmp_path / "out.jsonl"
    recipe = replace(RECIPE, instruction=instruction)
    report = written(corpus, path, format="flagembedding", scores=scores, recipe=recipe)
    anchors, left_out = kept(expected(corpus), scores=scores)
    rows = json_rows(path)
    schema = FLAGEMBEDDING | (FLAGEMBEDDING_SCORES if scores else {})
    assert_schema(rows, schema | ({"prompt": "str"} if instruction else {}))
    for row, a in zip(rows, anchors, strict=True):
        assert row["query"] == a.text
        assert row["pos"] == [text for _, text in a.positives]
        assert row["neg"] == [text for _, text in a.negatives]
        assert row.get("prompt") == instruction
        if scores:
            assert row["pos_scores"] == [a.positive_score] * len(a.positives)
            assert row["neg_scores"] == a.scores
    assert (report.rows, report.left_out) == (len(rows), left_out)


def test_ms_swift_rows_are_messages_of_the_tables(corpus, tmp_path):
    path, recipe = tmp_path / "out.jsonl", replace(RECIPE, instruction="Find the body")
    report = written(corpus, path, format="ms-swift", recipe=recipe)
    anchors, left_out = kept(expected(corpus))
    wanted = [
        {
            "messages": [
                {"role": "system", "content": "Find the body"},
                {"role": "user", "content": a.text},
            ],
            "positive_messages": [[{"role": "user", "content": positive}]],
            "negative_messages": [[{"role": "user", "content": text}] for _, text in a.negatives],
        }
        for a in anchors
        for _, positive in a.positives
    ]
    assert json_rows(path) == wanted
    assert (report.rows, report.left_out) == (len(wanted), left_out)


def test_tevatron_ids_lead_to_the_texts_of_the_tables(corpus, tmp_path):
    out = tmp_path / "out"
    report = written(corpus, out, format="tevatron", negatives=4)
    assert report.files == ["corpus.jsonl", "train.jsonl"]
    anchors, left_out = kept(expected(corpus, negatives=4))
    assert report.left_out == left_out
    rows, documents = (json_rows(out / f"{name}.jsonl") for name in ("train", "corpus"))
    assert_schema(rows, TEVATRON)
    assert_schema(documents, TEVATRON_CORPUS)
    every = []
    for source in ("one", "two"):
        found = [s for s in sections(corpus, source, "train") if s["role"] == "context"]
        ids = document_ids(found)
        every += [{"docid": ids[d["section_key"]], "text": d["text"]} for d in found]
    assert documents == every
    for row, a in zip(rows, anchors, strict=True):
        assert (row["query_id"], row["query_text"]) == (a.id, a.text)
        assert row["positive_document_ids"] == [id_ for id_, _ in a.positives]
        assert row["negative_document_ids"] == [id_ for id_, _ in a.negatives]
    assert len({row["query_id"] for row in rows}) == len(rows)


def test_ids_with_scores_lead_to_queries_and_documents(corpus, tmp_path):
    report = written(corpus, tmp_path / "out", format="pylate", negatives=4)
    anchors, left_out = kept(expected(corpus, negatives=4), scores=True)
    assert report.left_out == left_out
    rows, queries, documents = (
        json_rows(tmp_path / "out" / f"{name}.jsonl") for name in ("train", "queries", "documents")
    )
    assert_schema(rows, {"query_id": "str", "document_ids": "[str]", "scores": "[float]"})
    text_of = {row["document_id"]: row["text"] for row in documents}
    assert [(row["query_id"], row["text"]) for row in queries] == [(a.id, a.text) for a in anchors]
    for row, a in zip(rows, anchors, strict=True):
        texts = [text_of[name] for name in row["document_ids"]]
        assert texts == [text for _, text in [*a.positives, *a.negatives]]
        assert row["scores"] == [a.positive_score] * len(a.positives) + a.scores


def judgements(path):
    with path.open(encoding="utf-8") as stream:
        header, *rows = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
    assert header == ["query-id", "corpus-id", "score"]
    assert {row[2] for row in rows} == {"1"}
    assert len({tuple(row) for row in rows}) == len(rows)
    return [(row[0], row[1]) for row in rows]


def test_beir_judges_the_positives_of_every_anchor(corpus, tmp_path):
    report = written(corpus, tmp_path / "out", format="beir", split="train")
    assert report.files == ["corpus.jsonl", "qrels/train.tsv", "queries.jsonl"]
    documents, queries = (json_rows(tmp_path / f"out/{n}.jsonl") for n in ("corpus", "queries"))
    assert_schema(documents, BEIR_CORPUS)
    assert_schema(queries, BEIR_QUERIES)
    anchors = [a for a in expected(corpus) if a.positives]
    assert queries == [{"_id": a.id, "text": a.text} for a in anchors]
    judged = judgements(tmp_path / "out/qrels/train.tsv")
    assert judged == [(a.id, id_) for a in anchors for id_, _ in a.positives]
    texts = {document["_id"]: document["text"] for document in documents}
    assert len(texts) == len(documents)
    assert texts.keys() >= {id_ for _, id_ in judged}
    assert not texts.keys() & {query["_id"] for query in queries}, "evaluators drop equal ids"
    assert (report.rows, report.anchors, report.negatives) == (len(judged), len(queries), 0)
    # The pool has no anchor whose only positive has its own text, so none is left out here.
    assert report.left_out == {}


def test_a_question_asked_twice_is_one_query_with_all_answers(tmp_path):
    records = [
        {"id": f"r{i}", "title": "which?" if i % 3 else f"title {i}", "body": f"answer {i}"}
        for i in range(30)
    ]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        for name in ("one", "two"):
            corpus.ingest(records, name=name, id="id", anchor="title", positive="body")
        corpus.split(0, 0, 1)
        report = written(corpus, tmp_path / "out", format="beir")
    queries = json_rows(tmp_path / "out/queries.jsonl")
    assert [q["_id"] for q in queries if q["text"] == "which?"] == ["one/r1#0", "two/r1#0"]
    assert report.left_out == {"repeated question": 38}
    assert report.anchors == len(queries) == 22
    found = [d for q, d in judgements(tmp_path / "out/qrels/test.tsv") if q == "one/r1#0"]
    assert found == [f"one/r{i}" for i in range(30) if i % 3]
    assert report.rows == 60


def digests(folder):
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }


def everything(corpus, folder):
    """Export in all formats; returns what was written."""
    folder.mkdir()
    for shape, name in (("triplet", "s.parquet"), ("labeled-list", "s.jsonl")):
        written(corpus, folder / name, format=ST, shape=shape, scores=True)
    written(corpus, folder / "f.jsonl", format="flagembedding")
    written(corpus, folder / "t", format="tevatron")
    written(corpus, folder / "b", format="beir")
    found = digests(folder)
    assert len(found) == 8
    return found


@thorough
def test_bytes_do_not_depend_on_threads_blocks_or_the_process(tmp_path, monkeypatch):
    path = tmp_path / "c.duckdb"
    with odd_text_corpus(path, 15) as corpus:
        mine_by_hand(corpus)
        first = everything(corpus, tmp_path / "first")
    for threads, block, size in some(((4, 5, 1 << 30), (1, 2, 1)), less=1):
        monkeypatch.setattr(block_size, "FIRST_ROWS", block)
        monkeypatch.setattr(examples, "_LARGEST_BLOCK", block)
        monkeypatch.setattr(examples, "_BLOCK_BYTES", size)
        with dp.Corpus(path, read_only=True, threads=threads) as corpus:
            assert everything(corpus, tmp_path / f"{threads}") == first


def test_what_only_a_run_heeds_is_said(corpus, tmp_path, caplog):
    for name, value in {"sampling": "score", "in_batch_margin": ("bm25", 0.05)}.items():
        asked = dp.Negatives(4, **{name: value})
        caplog.clear()
        written(corpus, tmp_path / f"{name}.jsonl", format="flagembedding", negatives=asked)
        assert f"export: {name} is for batches of a run" in caplog.text
    caplog.clear()
    written(corpus, tmp_path / "plain.jsonl", format="flagembedding", negatives=4)
    assert "export:" not in caplog.text


def test_short_anchors_are_filled_up_at_random_and_marked(corpus, tmp_path):
    out = tmp_path / "out"
    how = {"format": "tevatron", "negatives": dp.Negatives(7, when_short="random")}
    report = written(corpus, out, **how)
    rows, mined = json_rows(out / "train.jsonl"), {a.id: a for a in expected(corpus)}
    texts = {row["docid"]: row["text"] for row in json_rows(out / "corpus.jsonl")}
    filled = 0
    for row in rows:
        had = [id_ for id_, _ in mined[row["query_id"]].negatives][:7]
        ids, ways = row["negative_document_ids"], row["negative_by"]
        added = ids[len(had) :]
        assert ids[: len(had)] == had
        assert len(set(ids)) == len(ids) == len(ways) == 7
        assert set(ways[len(had) :]) <= {"random"}
        filled += len(added)
        record = row["query_id"].split("#")[0]
        assert record not in {id_.split("#")[0] for id_ in added}
        own = {texts[id_] for id_ in row["positive_document_ids"]} | {row["query_text"]}
        assert not own & {texts[id_] for id_ in added}
    assert report.filled == filled > 0
    some_mined = sum(bool(mined[row["query_id"]].negatives) for row in rows)
    assert len(rows) > some_mined, "anchors without any negative are filled up too"


def test_an_evaluation_set_may_have_the_documents_of_all_splits(corpus, tmp_path):
    for name in ("split", "all"):
        written(corpus, tmp_path / name, format="beir", split="validation", documents=name)
    every = {
        section["text"]
        for source, split in product(("one", "two"), ("train", "validation", "test"))
        for section in sections(corpus, source, split)
        if section["role"] == "context"
    }
    alone, whole = (
        {row["text"] for row in json_rows(tmp_path / name / "corpus.jsonl")}
        for name in ("split", "all")
    )
    assert alone < whole == every
    for file in ("queries.jsonl", "qrels/validation.tsv"):
        counts = {(tmp_path / name / file).read_text().count("\n") for name in ("split", "all")}
        assert len(counts) == 1


def test_a_mining_of_a_recipe_that_is_not_stored_is_no_default(tmp_path):
    with odd_text_corpus(tmp_path / "odd.duckdb") as corpus:
        corpus.mine(RECIPE, progress=False)
        corpus.export(tmp_path / "beir", format="beir", split="validation")
        with pytest.raises(dp.RecipeError, match="'title_body' was mined, but is not stored"):
            corpus.export(tmp_path / "rows.jsonl", format=ST)
        corpus.add_recipe(RECIPE)
        assert corpus.export(tmp_path / "rows.jsonl", format=ST).rows
