"""Documents: a source of every split, with the positives and negatives of queries of others."""

import random
from collections import Counter
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from collections_by_hand import collection
from effort import THOROUGH, often, some

import duckplets as dp
from duckplets.recipes.recipes import default_recipes
from duckplets.testing import assert_resumes_everywhere

WORDS = ("red", "blue", "green", "grey", "teal", "pink")
COLUMNS = ["anchor_record_id", "positive", "positive_label", "negative", "negative_record_id"]


def made(path, seed):
    """Two sources of queries over one of documents, with repeated texts, groups and all labels."""
    draw, corpus = random.Random(seed), dp.Corpus(path)
    corpus.split(0.6, 0.2, 0.2, seed=seed)
    documents = [
        {
            "id": f"d{n}",
            "text": " ".join(draw.choices(WORDS, k=draw.choice([2, 3]))) + f" {draw.randrange(25)}",
            "group": draw.choice([None, None, f"g{draw.randrange(5)}"]),
        }
        for n in range(60)
    ]
    labels = {}
    for name in ("one", "two"):
        queries = [
            {"id": f"q{n}", "q": f"{draw.choice(WORDS)} {draw.randrange(16)}?"}
            | ({"own": f"own answer {n}"} if name == "two" and n % 3 else {})
            for n in range(30)
        ]
        labels[name] = {
            (query["id"], draw.choice(documents)["id"]): draw.choice([1, 1, 2, 3, 0.5, 0, -1])
            for query in queries
            for _ in range(draw.choice([0, 1, 2, 5]))
        }
        rows = [(query, document, label) for (query, document), label in labels[name].items()]
        of = documents if name == "one" else "one.documents"
        columns = {"context": "own?"} if name == "two" else {}
        collection(corpus, name, queries, of, rows, **columns)
    return corpus


def world_of(corpus):
    """Return the label of each query and text, and texts by document, in plain Python."""
    rows = corpus.sql(
        "SELECT record_id, split, role, text, group_key FROM section_texts "
        "JOIN records USING (record_id)"
    ).to_pylist()
    texts = {row["record_id"]: row["text"] for row in rows if row["split"] == "every"}
    groups = {row["record_id"]: row["group_key"] for row in rows if row["split"] == "every"}
    asked = {row["record_id"]: row["text"] for row in rows if row["role"] == "anchor"}
    own = {
        row["record_id"]: row["text"]
        for row in rows
        if row["role"] == "context" and row["split"] != "every"
    }
    splits = {row["record_id"]: row["split"] for row in rows}
    return texts, groups, asked, own, splits


def labels_of(corpus, texts):
    ids = {row["h"]: row["i"] for row in corpus.sql(
        "SELECT id_hash AS h, record_id AS i FROM records").to_pylist()}  # fmt: skip
    found = {}
    for row in corpus.sql("SELECT anchor, document, label FROM labels").to_pylist():
        query, document = ids[row["anchor"]], ids[row["document"]]
        key = query, texts[document]
        found[key] = max(found.get(key, row["label"]), row["label"])
    return found


@pytest.mark.parametrize("seed", range(often(20, less=2)))
@pytest.mark.parametrize("by", [None, "bm25"])
def test_no_negative_has_a_label_above_0_and_positives_rotate(tmp_path, seed, by):
    with made(tmp_path / "c.duckdb", seed) as corpus:
        if by:
            assert corpus.mine(split="train", progress=False).counts["labelled"] > 0
        texts, groups, asked, own, splits = world_of(corpus)
        labels = labels_of(corpus, texts)
        positives = {query: set() for query in asked}
        for (query, text), label in labels.items():
            positives[query] |= {text} if label >= 1 else set()
        for query, text in own.items():
            positives[query] |= {text} if labels.get((query, text), 1) >= 1 else set()
        out = {}
        for query in asked:
            alike = [q for q in asked if asked[q] == asked[query] and splits[q] == splits[query]]
            above = {t for (q, t), label in labels.items() if q in alike and label > 0}
            above |= {own[q] for q in alike if q in own}
            theirs = {groups[d] for d, t in texts.items() if t in above} - {None}
            out[query] = above | {t for d, t in texts.items() if groups[d] in theirs}
        sampler = corpus.sampler(
            batch_size=8, columns=COLUMNS, seed=seed, options=dp.Options(empty="skip")
        )
        rows = [
            row
            for step in range(-(-4 * sampler.epoch_length // 8))
            for row in sampler.batch_at(step).to_pylist()
        ]
        came = {}
        for row in rows:
            query = row["anchor_record_id"]
            came.setdefault(query, set()).add(row["positive"])
            assert row["positive"] in positives[query]
            label = labels.get((query, row["positive"]))
            assert row["positive_label"] == label
            assert row["negative"] not in out[query]
            assert row["negative_record_id"].startswith("one.documents/")
        train = {query for query in asked if splits[query] == "train"}
        assert came.keys() == {query for query in train if positives[query]}
        assert any(len(of) > 1 for of in came.values())
        if by:
            assert "negatives mined among" in sampler.describe()
            assert not any(row["stale"] for row in corpus.status()["mining"])
        assert_resumes_everywhere(sampler, 2)


@pytest.mark.parametrize("seed", range(often(20, less=1)))
def test_labels_come_with_pairs_and_with_lists(tmp_path, seed):
    with made(tmp_path / "c.duckdb", seed) as corpus:
        corpus.mine(split="train", progress=False)
        texts, _, _, _, splits = world_of(corpus)
        labels = labels_of(corpus, texts)
        asked = {"columns": ["anchor_record_id", "other", "label"], "epochs": 1}
        with corpus.sampler("labelled_pairs", batch_size=5, **asked) as sampler:
            rows = [row for batch in sampler for row in batch.to_pylist()]
            assert len(rows) == sampler.epoch_length
        assert {(r["anchor_record_id"], r["other"]): r["label"] for r in rows} == {
            pair: label for pair, label in labels.items() if splits[pair[0]] == "train"
        }
        scores = {
            (row["record_id"], row["text"]): row["score"]
            for row in corpus.sql(
                "SELECT record_id, p.text, score FROM mined_positives "
                "JOIN sections AS a ON a.section_key = anchor_section_key "
                "JOIN records ON records.record_key = a.record_key "
                "JOIN sections AS p ON p.section_key = positive_section_key"
            ).to_pylist()
        }
        columns = ["documents", "labels", "scores", "documents_by", "documents_record_id"]
        columns = ["anchor_record_id", *columns, "weight", "negative_by"]
        policy = dp.Negatives(3, by="bm25")
        sampler = corpus.sampler("lists", batch_size=4, negatives=policy, columns=columns)
        rows = [row for step in range(40) for row in sampler.batch_at(step).to_pylist()]
        assert {len(row["documents"]) for row in rows} > {4, 5}
        for row in rows:
            query, places = row["anchor_record_id"], len(row["documents"])
            assert all(len(row[name]) == places for name in columns[1:6])
            assert places == len({*row["documents"]})
            assert row["documents_by"].count(None) == places - 3
            for text, label, score, by, record in zip(*(row[n] for n in columns[1:6]), strict=True):
                said = labels.get((query, text))
                if by is None:
                    assert label == (1 if said is None else said) >= 1
                    assert score == scores[query, text]
                    assert record == query if said is None else texts[record] == text
                else:
                    assert label == (0 if said is None else said) <= 0
                    assert (score is None) == (by != "bm25")
                    assert texts[record] == text
        served = sampler.served(0, 8)["documents_record_id"].to_pylist()
        assert served == [row["documents_record_id"] for row in rows[:8]]
        assert_resumes_everywhere(sampler, 2)
        for apart in (True, "negatives"):
            asked = {"no_duplicates": apart, "negatives": dp.Negatives(2, by="bm25")}
            unlike = corpus.sampler("lists", batch_size=3, **asked)
            for step in range(often(60, less=20)):
                batch = unlike.batch_at(step).to_pylist()
                every = Counter(text for r in batch for text in (r["anchor"], *r["documents"]))
                for row in batch:
                    negatives = row["documents"][-2:]
                    texts = negatives if apart == "negatives" else row["documents"]
                    assert {every[text] for text in texts} == {1}
        with pytest.raises(dp.SamplerError, match="no anchor and positive to swap"):
            corpus.sampler("lists", options=dp.Options(swap=True))


def test_later_documents_and_labels_join_and_older_runs_stay(tmp_path):
    with made(tmp_path / "c.duckdb", 5) as corpus:
        corpus.mine(progress=False)
        columns = [*COLUMNS, "anchor"]
        sampler = corpus.sampler(batch_size=4, columns=columns, mixture={"one": 1})
        before = [sampler.batch_at(step).to_pydict() for step in range(8)]
        sampler.save()
        query = sampler.batch_at(0).to_pylist()[0]["anchor_record_id"]
        corpus.ingest(
            dp.sources.MemorySource(
                [{"id": "new", "text": "fresh answer", "group": None}],
                id="id", text="text", group="group",
            ),
            name="one.documents", progress=False,
        )  # fmt: skip
        new = "one.documents/new"
        assert corpus.sql(f"SELECT split FROM live_records WHERE record_id = '{new}'")[
            "split"
        ].to_pylist() == ["every"]
        corpus.split(0.5, 0.3, 0.2, reassign=True)
        counts = corpus.sql(
            "SELECT split, records FROM split_counts WHERE source = 'one.documents'"
        )
        assert counts.to_pylist() == [{"split": "every", "records": 61}]
        corpus.relabel([{"anchor_id": query, "document_id": new, "label": 1}])
        corpus.split(0.6, 0.2, 0.2, seed=5, reassign=True)
        with corpus.resume() as old:
            assert [old.batch_at(step).to_pydict() for step in range(8)] == before
        with pytest.raises(dp.StateMismatchError, match="records have changed"):
            corpus.sampler(batch_size=4)
        report = corpus.mine(progress=False)
        assert {pair.source for pair in report.pairs} == {"one", "two"}
        rows = corpus.sampler(batch_size=4, columns=columns, mixture={"one": 1})
        every = [row for step in range(40) for row in rows.batch_at(step).to_pylist()]
        assert {"fresh answer"} <= {r["positive"] for r in every if r["anchor_record_id"] == query}
        assert "fresh answer" not in {
            r["negative"] for r in every if r["anchor_record_id"] == query
        }
        sampler.close()
        rows.close()
        corpus.compact()
        with corpus.resume() as old:
            assert [old.batch_at(step).to_pydict() for step in range(8)] == before


def test_documents_serve_texts_of_train_and_are_never_without_a_recipe(tmp_path):
    with made(tmp_path / "c.duckdb", 6) as corpus:
        assert not corpus.sampler(batch_size=4).notes
        texts = corpus.sampler("texts", batch_size=8, columns=["source", "text_record_id"])
        assert "one.documents" in {
            row for step in range(20) for row in texts.batch_at(step)["source"]
        }
        held_out = corpus.sampler("texts", split="test", batch_size=2, columns=["source"])
        assert "one.documents" not in held_out.describe()
        wide = replace(default_recipes("roles")[0], name="wide", negatives_from="split")
        with pytest.raises(dp.RecipeError, match=r"all documents of 'one\.documents' already"):
            corpus.sampler(recipes=[wide])


def test_documents_may_be_read_before_in_place_gated_or_by_workers(tmp_path):
    draw = random.Random(3)
    texts = [" ".join(draw.choices(WORDS, k=12)) + f" {n}" for n in range(80)]
    documents = pa.table({"id": [f"d{n}" for n in range(80)], "text": texts})
    pq.write_table(documents, tmp_path / "documents.parquet")
    queries = [{"id": f"q{n}", "text": f"{draw.choice(WORDS)} {n}"} for n in range(30)]
    labels = {(f"q{n}", f"d{draw.randrange(80)}"): draw.choice([0, 1, 2]) for n in range(60)}
    rows = [{"query_id": q, "document_id": d, "label": label} for (q, d), label in labels.items()]
    ways = {
        "at once": {},
        "before": {},
        "in place": {"options": dp.IngestOptions(in_place=True)},
        "by workers": {"options": dp.IngestOptions(engine="local:2")},
        "gated": {"quality": dp.Quality(language=None)},
    }
    columns, drawn = ["anchor", "positive_record_id", "negative_record_id"], set()
    for number, (way, how) in enumerate(some(ways.items(), less=3)):
        asked = {"queries": queries, "qrels": {"train": rows}}
        with dp.Corpus(tmp_path / f"{number}.duckdb") as corpus:
            theirs = tmp_path / "documents.parquet"
            if way in ("before", "in place", "gated"):
                source = dp.sources.ParquetSource(theirs, id="id", text="text")
                corpus.ingest(source, name="c.documents", progress=False, **how)
                theirs, how = "c.documents", {}
            corpus.ingest(dp.Collection(documents=theirs, **asked), name="c", progress=False, **how)
            corpus.mine(progress=False)
            for swap in (False, True):
                options = dp.Options(swap=swap)
                sampler = corpus.sampler(batch_size=64, columns=columns, options=options)
                batch = sampler.batch_at(1).to_pylist()
                drawn.add((swap, str(batch)))
                for row in batch:
                    query, document = row["anchor"], row["positive_record_id"]
                    if swap and document.startswith("c/"):
                        continue
                    key = f"q{query.split()[1]}", row["negative_record_id"].partition("/")[2]
                    assert labels.get(key, 0) <= 0
    assert len(drawn) == 2, "each way draws the same"


FOUND = """
    SELECT count(*) FROM served JOIN texts ON texts.id = served.negative_record_id
    JOIN answers ON answers.query = served.anchor_record_id AND answers.text = texts.text
"""


def test_among_ten_million_draws_no_negative_is_an_answer(tmp_path):
    with made(tmp_path / "c.duckdb", 9) as corpus:
        corpus.mine(split="train", progress=False)
        texts, *_ = world_of(corpus)
        above = [pair for pair, label in labels_of(corpus, texts).items() if label > 0]
        answers = pa.table({"query": [q for q, _ in above], "text": [t for _, t in above]})
        by = dp.Negatives(2, by={"bm25": 0.5, "random": 0.5})
        sampler, step = corpus.sampler(batch_size=1000, negatives=by), often(500_000, less=10_000)
        with duckdb.connect() as reader:
            reader.register("texts", pa.table({"id": [*texts], "text": [*texts.values()]}))
            reader.register("answers", answers)
            for start in range(0, 10 * step if THOROUGH else step, step):
                served = sampler.served(start, start + step)
                for name in ("negative_1_record_id", "negative_2_record_id"):
                    columns = ["anchor_record_id", "negative_record_id"]
                    asked = served.select(["anchor_record_id", name]).rename_columns(columns)
                    reader.register("served", asked)
                    assert reader.execute(FOUND).fetchall() == [(0,)]


def test_documents_are_removed_with_their_last_source(tmp_path):
    with made(tmp_path / "c.duckdb", 7) as corpus:
        with pytest.raises(dp.SourceError, match=r"has the documents of one, two; remove 'one'"):
            corpus.remove("one.documents")
        assert corpus.remove("one") == 30
        assert corpus.sampler(batch_size=4).notes == []
        assert corpus.remove("two") == 90
        assert corpus.status()["labels"] == []
        assert corpus.sql("SELECT 1 FROM live_records").num_rows == 0


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "6 no positive: no label names a query of it"),
        ([("q1", "d1", 0.2), ("q2", "d1", 0.7)], "2 pairs have grades; give the least grade"),
    ],
)
def test_queries_without_a_positive_are_refused_with_the_reason(tmp_path, labels, said):
    queries = [{"id": f"q{n}", "q": f"question {n}"} for n in range(6)]
    documents = [{"id": f"d{n}", "text": f"answer {n}"} for n in range(6)]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.split(1, 0, 0)
        collection(corpus, "c", queries, documents, labels)
        with pytest.raises(dp.EmptyPoolError, match=said):
            corpus.sampler(batch_size=2)
        if labels:
            above = dp.role("context", "label >= 0.5")
            recipe = dp.TripletRecipe("r", dp.role("anchor"), above, dp.role("context"))
            sampler = corpus.sampler(batch_size=1, recipes=[recipe], columns=["anchor", "positive"])
            assert sampler.batch_at(0).to_pylist() == [
                {"anchor": "question 2", "positive": "answer 1"}
            ]
        else:
            with pytest.raises(dp.EmptyPoolError, match=r"split\(reassign=True, given=False\)"):
                corpus.sampler(batch_size=2, split="test")


def test_every_scorer_searches_the_documents(tmp_path):
    with made(tmp_path / "c.duckdb", 8) as corpus:
        (query, *_) = corpus.pool("anchor_context", source="one")["record_id"].to_pylist()
        rows = [
            {"anchor_id": query, "negative_id": f"one.documents/d{n}", "score": n}
            for n in range(60)
        ]
        report = corpus.add_negatives(rows, name="anchor_context")
        assert report.counts["kept"]
        assert not report.counts.get("other source or split")
        corpus.embed(lambda texts: np.array([[len(t), 1.0] for t in texts], np.float32), name="v")
        corpus.mine(by=dp.Dense("v"), source="two", split="train", progress=False)
        corpus.mine(source="two", split="train", scope="shard", shard_documents=7, progress=False)
        overlap = corpus.rescore(
            lambda pairs: [len({*a} & {*b}) for a, b in pairs],
            "letters",
            source="two",
            split="train",
        )
        assert overlap.candidates
        for by in ("bm25", "dense", "letters"):
            policy = dp.Negatives(by=by, relative_margin=-9.0)
            given = {"mixture": {"two": 1}, "columns": ["negative_by"]}
            sampler = corpus.sampler(batch_size=4, negatives=policy, **given)
            assert by in sampler.batch_at(0)["negative_by"]
        found = corpus.search("red", k=3, split="train", source="one.documents")
        assert {row["split"] for row in found.to_pylist()} == {"every"}
