"""The consistency filter, and the ranks of positives that it reads."""

import json
import random
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from collections_by_hand import collection
from commands import ok
from corpora import rows_of
from effort import often, some

import duckplets as dp
from duckplets.errors import RecipeError, SamplerError, StateMismatchError
from duckplets.testing import assert_resumes_everywhere

WORDS = ("red", "blue", "green", "grey", "teal", "pink", "gold", "rust")
TRIPLETS = ["anchor", "positive", "negative"]


def pairs(path, seed):
    """Records with one to three positives, some equal questions and some equal texts."""
    draw, corpus = random.Random(seed), dp.Corpus(path)
    rows = [
        {
            "id": f"r{n}",
            "q": " ".join(draw.choices(WORDS, k=2)) + f" {draw.randrange(30)}",
            "a": [" ".join(draw.choices(WORDS, k=5)) for _ in range(draw.choice([1, 1, 3]))],
        }
        for n in range(60)
    ]
    corpus.ingest(rows, name="s", id="id", anchor="q", context="a")
    corpus.split(1, 0, 0)
    return corpus


def documents(path, seed):
    """A collection whose queries have several labels, 0 and below included."""
    draw, corpus = random.Random(seed), dp.Corpus(path)
    texts = [" ".join(draw.choices(WORDS, k=4)) for _ in range(50)]
    rows = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    queries = [{"id": f"q{n}", "q": " ".join(draw.choices(WORDS, k=2))} for n in range(30)]
    labels = {
        (query["id"], f"d{draw.randrange(50)}"): draw.choice([1, 1, 2, 0, -1])
        for query in queries
        for _ in range(4)
    }
    collection(corpus, "s", queries, rows, [(*pair, label) for pair, label in labels.items()])
    corpus.split(1, 0, 0)
    return corpus


def ranked(corpus):
    """Return score and rank of each pair of texts, as the view has them."""
    rows = corpus.sql(
        "SELECT a.text AS anchor, p.text AS positive, records.record_id, score, rank "
        "FROM mined_positives "
        "JOIN sections AS a ON a.section_key = anchor_section_key "
        "JOIN records ON records.record_key = a.record_key "
        "JOIN sections AS p ON p.section_key = positive_section_key"
    ).to_pylist()
    return {(row["record_id"], row["positive"]): (row["score"], row["rank"]) for row in rows}


def vectors(texts, _=None):
    return np.array([[text.count(word) for word in WORDS] for text in texts], "float32") + 0.01


def overlap(found):
    return [len({*one.split()} & {*other.split()}) for one, other in found]


SCORERS = {
    "bm25": lambda corpus: corpus.mine(),
    "dense": lambda corpus: (corpus.embed(vectors), corpus.mine(by=dp.Dense())),
    "overlap": lambda corpus: (corpus.mine(), corpus.rescore(overlap, "overlap")),
}

FILTERS = [("bm25", None), ("dense", None), ("dense", 0.6)]


@pytest.mark.parametrize(("scorer", "made"), some(product(SCORERS, [pairs, documents]), less=3))
@pytest.mark.parametrize("seed", range(often(5, less=1)))
def test_every_positive_has_its_rank_among_legal_negatives(tmp_path, scorer, made, seed):
    with made(tmp_path / "c.duckdb", seed) as corpus:
        SCORERS[scorer](corpus)
        rows = corpus.sql(
            f"FROM mined_positives WHERE scorer = '{scorer}' ORDER BY ALL"
        ).to_pylist()
        candidates = defaultdict(list)
        lowest = {}
        for row in corpus.sql(f"FROM candidates WHERE scorer = '{scorer}'").to_pylist():
            candidates[row["anchor_section_key"]].append(row["score"])
            lowest[row["anchor_section_key"]] = row["positive_score"], row["positive_rank"]
        scores = defaultdict(list)
        for row in rows:
            above = [s for s in candidates[row["anchor_section_key"]] if s > (row["score"] or 0)]
            assert row["rank"] in (None, 1 + len(above))
            assert (row["rank"] is None) == (row["score"] is None)
            scores[row["anchor_section_key"]].append((row["score"] or 0, row["rank"]))
        for anchor, (score, rank) in lowest.items():
            assert min(of[0] for of in scores[anchor]) == (score or 0)
            assert rank in {of[1] for of in scores[anchor]}
        assert len({(r["anchor_section_key"], r["positive_section_key"]) for r in rows}) == len(
            rows
        )


@pytest.mark.parametrize(
    ("made", "scorer", "least"),
    some([(m, *f) for f in FILTERS for m in (pairs, documents)], less=3),
)
@pytest.mark.parametrize("seed", range(often(10, less=1)))
def test_pairs_are_drawn_whose_positive_is_ranked_high_enough(tmp_path, made, scorer, least, seed):
    with made(tmp_path / "c.duckdb", seed) as corpus:
        SCORERS[scorer](corpus)
        asked = {"scorer": scorer, "within": 9, "min_score": least}
        known = {
            pair
            for pair, (score, rank) in ranked(corpus).items()
            if rank is not None and rank <= 9 and (least is None or score >= least)
        }
        sampler = corpus.sampler(batch_size=8, consistent=asked, seed=seed)
        columns = ["anchor_record_id", *TRIPLETS]
        whole = corpus.sampler(batch_size=8, columns=columns, run="whole")
        drawn = corpus.sampler(batch_size=8, columns=columns, consistent=asked, run="drawn")
        rows = rows_of(drawn, 60)
        found = {(row["anchor_record_id"], row["positive"]) for row in rows}
        everything = {(row["anchor_record_id"], row["positive"]) for row in rows_of(whole, 60)}
        assert found == known & everything
        assert 0 < len(found) < len(everything)
        # a text that is left out as a positive is no negative either
        for row in rows:
            assert (row["anchor_record_id"], row["negative"]) not in everything
        (stream,) = sampler.planner.streams
        left = {record for record, _ in everything} - {record for record, _ in found}
        assert sampler.epoch_length == len({record for record, _ in found})
        kept = stream.pool.filtered
        assert kept.anchors - kept.consistent_anchors == len(left)
        assert f"consistent ({scorer} within 9" in sampler.describe()
        assert_resumes_everywhere(sampler, 3)


def test_filters_are_checked(tmp_path):
    path = tmp_path / "c.duckdb"
    with pairs(path, 3) as corpus:
        with pytest.raises(StateMismatchError, match="has not ranked the positives"):
            corpus.sampler(consistent=("bm25", 5))
        for wrong in ("bm25", ("bm25",), 5, {"scorer": "bm25"}, ("bm25", 0), ("random", 5)):
            with pytest.raises(SamplerError, match="consistent"):
                corpus.sampler(consistent=wrong)
        with pytest.raises(SamplerError, match="texts have no pairs"):
            corpus.sampler("texts", consistent=("bm25", 5))
        corpus.mine()
        usual = corpus.sampler(batch_size=8)
        filtered = corpus.sampler(batch_size=8, consistent=("bm25", 5), run="filtered")
        assert filtered.epoch_length < usual.epoch_length
        next(filtered)
        filtered.save()
        with pytest.raises(SamplerError, match="cannot change consistent="):
            corpus.resume("filtered", consistent=("bm25", 9))
        expected = [filtered.batch_at(step).to_pydict() for step in range(9)]
        whole, left = usual.epoch_length, filtered.epoch_length
        usual.close()
        filtered.close()
        # another mining changes no saved run, and compacting keeps what it reads
        corpus.mine(terms=dp.Terms(stemmer="none"), depth=120)
        corpus.compact()
        with corpus.resume("filtered") as resumed:
            assert [resumed.batch_at(step).to_pydict() for step in range(9)] == expected
        # recipes say it too, in Python and files, and keep it in exports and the bare CLI
        anchor, context = dp.role("anchor"), dp.role("context")
        strict = dp.TripletRecipe("strict", anchor, context, context, consistent=("bm25", 5))
        corpus.add_recipe(strict)
        by_recipe = corpus.sampler(batch_size=8, recipes=["strict"], run="by recipe")
        assert by_recipe.epoch_length == left
        report = corpus.export(tmp_path / "p.jsonl", "flagembedding", recipe="strict", negatives=0)
        assert report.anchors == left
        known = {pair for pair, (_, rank) in ranked(corpus).items() if rank and rank <= 5}
        written = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
        assert {text for row in written for text in row["pos"]} <= {text for _, text in known}
        mined = corpus.export(tmp_path / "m.jsonl", "flagembedding", recipe="strict", negatives=2)
        assert mined.anchors == report.anchors
        assert mined.left_out["inconsistent"] == whole - report.anchors
        reasons = corpus.sql("SELECT DISTINCT reason FROM left_out.strict('s')")
        assert reasons["reason"].to_pylist() == ["inconsistent"]
        assert corpus.pool("strict").num_rows == report.anchors
        (told,) = (row for row in corpus.negatives().to_pylist() if row["scorer"] == "bm25")
        assert told["within_5"] == sum(bool(r) and r <= 5 for _, r in ranked(corpus).values())
        assert told["positives"] == len(ranked(corpus))
    with dp.Corpus(path) as again:  # its macros are the ones that it makes anew
        assert again.pool("strict").num_rows == report.anchors
    with pytest.raises(RecipeError, match="consistent"):
        dp.TripletRecipe("x", anchor, context, context, consistent="dense")


def test_a_run_file_and_the_shell_have_the_filter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pairs(tmp_path / "c.duckdb", 3) as corpus:
        corpus.mine()
        run = {"consistent": ("bm25", 5), "batch_size": 8}
        expected = corpus.sampler(**run).batch_at(0)["positive"]
    ok("forecast", "c.duckdb", "--consistent", "bm25=5", "--write", "run.toml")
    assert dp.load_run("run.toml")["consistent"] == {"scorer": "bm25", "within": 5}
    for how in (["--consistent", "bm25=5"], ["--config", "run.toml"]):
        printed = ok("sample", "c.duckdb", "--batch-size", "8", *how)
        assert [json.loads(line)["positive"] for line in printed.splitlines()] == expected
    for file, how in (("some", ["--config", "run.toml"]), ("all", [])):
        write = ("export", "c.duckdb", f"{file}.jsonl", "--format", "flagembedding")
        ok(*write, "--negatives", "0", "--split", "train", *how)
    some, every = (Path(f"{name}.jsonl").read_text().splitlines() for name in ("some", "all"))
    assert 0 < len(some) < len(every)
