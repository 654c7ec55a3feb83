"""Collections come out as they came in: read, written and read again they are equal."""

import pytest
from beir_folders import content, made
from commands import ok
from effort import often

import duckplets as dp
from duckplets.errors import EmptyPoolError, SplitError


@pytest.mark.parametrize("seed", range(often(20, less=3)))
def test_a_beir_folder_is_written_as_it_was(tmp_path, seed):
    first = made(tmp_path / "first", seed)
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(first, name="set")
        report = corpus.export(tmp_path / "second", "beir")
        assert content(tmp_path / "second") == content(first)
        assert report.rows == len(content(first)[2])
        assert report.anchors == 12
        corpus.export(tmp_path / "test", "beir", split="test")
        documents, queries, labels = content(tmp_path / "test")
        assert documents == content(first)[0]
        assert {query for _, query, _ in labels} <= {*queries}
        assert labels == {of: n for of, n in content(first)[2].items() if of[0] == "test"}
        with pytest.raises(SplitError):
            corpus.export(tmp_path / "other", "beir", split="dev")
        assert not (tmp_path / "other").exists()
    with dp.Corpus(tmp_path / "d.duckdb") as corpus:
        corpus.ingest(tmp_path / "second", name="set")
        corpus.export(tmp_path / "third", "beir")
    assert content(tmp_path / "third") == content(first)
    ok("export", str(tmp_path / "d.duckdb"), str(tmp_path / "shell"), "--format", "beir")
    assert content(tmp_path / "shell") == content(first)


def held(corpus):
    """Return texts of documents and queries by id, and labels."""
    rows = corpus.sql("SELECT source, record_id, text FROM section_texts").to_pylist()
    texts = {row["record_id"].split("/", 1)[1] + row["source"][3:]: row["text"] for row in rows}
    labels = corpus.sql("FROM qrels WHERE split = 'train'").to_pylist()
    return texts, {(r["query_id"], r["document_id"]): r["label"] for r in labels}


READ = {
    "tevatron": lambda of: dp.Collection(documents=of / "corpus.jsonl", queries=of / "train.jsonl"),
    "lighton": lambda of: dp.Collection(
        documents=of / "documents.jsonl",
        queries=of / "queries.jsonl",
        qrels={"train": of / "train.jsonl"},
    ),
    "automodel": lambda of: of / "train.json",
}


@pytest.mark.parametrize("form", READ)
def test_mined_formats_have_ids_as_they_came(tmp_path, form):
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(made(tmp_path / "first", 5), name="set")
        corpus.split(1, 0, 0)
        corpus.mine(progress=False)
        report = corpus.export(tmp_path / form, form, negatives=3)
        texts, labels = held(corpus)
    assert report.anchors > 0
    with dp.Corpus(tmp_path / "d.duckdb") as corpus:
        corpus.ingest(READ[form](tmp_path / form), name="set")
        if form != "lighton":
            corpus.split(1, 0, 0)
        found, again = held(corpus)
    positive = {pair: 1.0 for pair, label in labels.items() if label >= 1}
    assert again == positive  # labels other than 1 are lost
    assert found.items() <= texts.items()
    assert {name for name in texts if name.endswith(".documents")} <= {*found}


def test_a_set_without_queries_of_a_split_is_refused(tmp_path):
    folder = made(tmp_path / "first", 1)
    for path in (folder / "qrels").glob("test.tsv"):
        path.unlink()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(folder, name="set")
        with pytest.raises(EmptyPoolError, match="there is no query to write"):
            corpus.export(tmp_path / "test", "beir", split="test")
