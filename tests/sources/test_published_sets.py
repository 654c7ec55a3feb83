"""Sets that others publish are read by their columns: pairs, triplets, n-tuples, passages, ids."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_data import parquet
from source_rows import rows_of, texts

import duckplets as dp
from duckplets.errors import SourceError


def passage(kind, i):
    return {"docid": f"{kind}{i}", "text": f"{kind} {i}", "title": ""}


# By name: rows as published, how they are mapped, and the texts by role of row i.
SETS = {
    # of sentence-transformers' collection
    "pair": (
        {"query": "q", "answer": "a"},
        "anchor=query positive=answer",
        [("anchor", "q"), ("context", "a")],
    ),
    "triplet": (
        {"anchor": "q", "positive": "a", "negative": "n"},
        "anchor=anchor positive=positive negative=negative",
        [("anchor", "q"), ("context", "a"), ("rejected", "n")],
    ),
    "n-tuple": (
        {"question": "q", "answer": "a"} | {f"negative_{i}": f"n{i}" for i in (1, 2, 3)},
        "anchor=question positive=answer negative=negative_1,negative_2,negative_3",
        [("anchor", "q"), ("context", "a"), *(("rejected", f"n{i}") for i in (1, 2, 3))],
    ),
    # RLHN, and what else is in Tevatron's form
    "passages": (
        {"query_id": "7f", "query": "q", "subset": "fiqa"}
        | {
            f"{kind}_passages": [passage(kind, i) for i in (1, 2)]
            for kind in ("positive", "negative")
        },
        "id=query_id anchor=query positive=positive_passages.text "
        "negative=negative_passages.text meta=subset",
        [
            *(("anchor", "q"), ("context", "positive 1"), ("context", "positive 2")),
            *(("rejected", "negative 1"), ("rejected", "negative 2")),
        ],
    ),
    "FlagEmbedding": (
        {"query": "q", "pos": ["a", "b"], "neg": ["n"]},
        "anchor=query positive=pos negative=neg",
        [("anchor", "q"), ("context", "a"), ("context", "b"), ("rejected", "n")],
    ),
}


def test_published_sets_are_read_by_their_columns(hub, reader):
    for name, (row, mapping, expected) in SETS.items():
        hub.add(f"org/{name}", {"data/train-00000-of-00001.parquet": parquet([row])})
        (found,) = rows_of(dp.HubSource(f"hf://org/{name}/default/train {mapping}"), reader)
        assert texts(found) == expected, name


def test_ids_and_scores_of_a_teacher_are_joined_with_their_texts(tmp_path):
    """LightOn's sets: queries, documents, and a row a query of ids with scores."""
    parts = {
        "queries": [{"query_id": i, "query": f"q{i}"} for i in range(9)],
        "documents": [{"document_id": i, "document": f"d{i}"} for i in range(40)],
        "scores": [
            {"query_id": i, "document_ids": [i + 30, i, i + 10], "scores": [0.1, 0.9, 0.5]}
            for i in range(9)
        ],
    }
    for name, rows in parts.items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    joined = f"""
        SELECT
            query_id, any_value(query) AS query, arg_max(document, score) AS positive,
            list(document ORDER BY score DESC)[2:] AS negatives
        FROM (
            SELECT query_id, unnest(document_ids) AS document_id, unnest(scores) AS score
            FROM '{tmp_path}/scores.parquet'
        )
        JOIN '{tmp_path}/queries.parquet' USING (query_id)
        JOIN '{tmp_path}/documents.parquet' USING (document_id)
        GROUP BY query_id
    """
    how = {"anchor": "query", "positive": "positive", "negative": "negatives"}
    with dp.Corpus(tmp_path / "teacher.duckdb") as corpus:
        report = corpus.ingest(dp.SqlSource(joined, id="query_id", **how), name="lighton")
        assert report.added == 9
        corpus.split(train=1, validation=0, test=0)
        batch = next(corpus.sampler(recipes=["ready_negative"], batch_size=9, negatives=2))
        for anchor, *others in zip(
            *(batch[c] for c in ("anchor", "positive", "negative_1", "negative_2")), strict=True
        ):
            i = int(anchor[1:])
            assert others[0] == f"d{i}"
            assert set(others[1:]) == {f"d{i + 10}", f"d{i + 30}"}


def test_what_is_no_object_in_a_list_is_not_left_out_in_silence(reader):
    there = {"q": "a", "p": [{"text": "x"}, None, {"other": "y"}]}
    cases = [(["z", {"text": "x"}], "no positive"), ([{"other": "x"}], "no positive"), ([], None)]
    rows = [there, *({"q": "a", "p": value} for value, _ in cases)]
    source = dp.MemorySource(rows, anchor="q", positive="p.text")
    first, *others = rows_of(source, reader)
    assert texts(first) == [("anchor", "a"), ("context", "x")]
    assert [row["skip"] for row in others] == ["no positive"] * 3
    with pytest.raises(SourceError, match=r"no row has 'p\.txt' \(did you mean 'text'"):
        rows_of(dp.MemorySource([there], anchor="q", positive="p.txt"), reader)
