"""Candidates that a function over pairs has scored again."""

import hashlib
from collections import defaultdict

import numpy as np
import pytest
from effort import THOROUGH, often, some
from mining_oracle import BOTH, Oracle, odd_corpus, sections, source_of
from prebuilt import prebuilt

import duckplets as dp
from duckplets.vectors import rescore


def score(anchor, document):
    """A score that many pairs share."""
    word = hashlib.sha256(f"{anchor[:20]}\n{document[:20]}".encode()).digest()
    return word[0] % 16 / 8 - 1


def scores(pairs):
    return [score(*pair) for pair in pairs]


RECIPE = dp.TripletRecipe("mined", *BOTH)
SPLITS = ["train", "validation", "test"] if THOROUGH else ["train"]
MINED = {"recipe": RECIPE} | ({} if THOROUGH else {"split": "train"})


@prebuilt
def mined(path, count):
    corpus = odd_corpus(path, count, 4)
    for split in SPLITS:
        corpus.mine(RECIPE, depth=9, split=split)
    return corpus


@pytest.fixture
def corpus(tmp_path):
    with mined(tmp_path / "c.duckdb", often(150, less=40)) as opened:
        yield opened


def rows(corpus, scorer):
    found = defaultdict(list)
    order = "ORDER BY anchor_section_key, rank"
    table = corpus.sql(f"FROM candidates WHERE scorer = $of {order}", {"of": scorer})
    for row in table.to_pylist():
        found[row["anchor_section_key"]].append(row)
    return found


def test_candidates_are_ordered_by_the_new_scores(corpus):
    every = sections(corpus)
    by_key = {section.key: section for section in every}
    before = rows(corpus, "bm25")
    for depth in some([5, 1, 50], less=2):
        name = f"again {depth}"
        report = corpus.rescore(scores, name, **MINED, depth=depth, batch_size=7)
        after = rows(corpus, name)
        assert before.keys() == after.keys()
        assert report.candidates == sum(map(len, after.values()))
        for split in SPLITS:
            oracle = Oracle(every, "odd0", split)
            for anchor in oracle.anchors:
                found, all_before = after.get(anchor.key, []), before.get(anchor.key, [])
                others = [by_key[row["negative_section_key"]] for row in all_before[:depth]]
                scored = [
                    (-score(anchor.text, each.text), each.record_id, each.position, each.key)
                    for each in others
                ]
                told = [(-row["score"], row["negative_section_key"]) for row in found]
                assert told == [(each[0], each[-1]) for each in sorted(scored)]
                own = oracle.positives[anchor.record]
                lowest = min(score(anchor.text, positive.text) for positive in own)
                rank = 1 + sum(-each[0] > lowest for each in scored)
                said = {(row["positive_score"], row["positive_rank"]) for row in found}
                assert said <= {(lowest, rank)}


def test_finished_blocks_stay_and_the_next_call_continues(corpus, monkeypatch):
    asked = []
    failing = True

    def counting(pairs):
        if failing and len(asked) > 3:
            raise RuntimeError("out of order")
        asked.append(pairs)
        return scores(pairs)

    def of(scorer):
        return {key: [row["score"] for row in each] for key, each in rows(corpus, scorer).items()}

    monkeypatch.setattr(rescore, "_GROWTH", 1)
    options = {"recipe": RECIPE, "split": "train", "batch_size": 20}
    corpus.rescore(scores, "whole", **options)
    with pytest.raises(dp.RecipeError, match="out of order"):
        corpus.rescore(counting, "parts", max_failures=0, retries=0, **options)
    failing = False
    report, calls = corpus.rescore(counting, "parts", limit=11, **options), 1
    assert report.pairs[0].resumed > 0
    with pytest.raises(dp.StateMismatchError, match="no recipe of this run has"):
        corpus.sampler(recipes=[RECIPE], batch_size=2, negatives=dp.Negatives(by="parts"))
    while any("not done yet" in note for note in report.notes):
        report, calls = corpus.rescore(counting, "parts", limit=11, **options), calls + 1
    assert calls > 1
    of_train = corpus.sql("SELECT anchors FROM minings WHERE scorer = 'parts'")["anchors"][0]
    assert report.anchors == of_train.as_py()
    assert of("parts") == of("whole")
    done = len(asked)
    # Nothing is done again until the function or the candidates are others.
    assert not corpus.rescore(counting, "parts", **options).pairs
    assert not corpus.rescore(counting, "parts", depth=4, **options).pairs
    assert len(asked) == done
    assert corpus.rescore(counting, "parts", made_by="step 100", **options).pairs
    corpus.mine(RECIPE, depth=20, split="train")
    assert corpus.rescore(counting, "parts", made_by="step 100", **options).pairs


def test_pairs_that_fail_are_skipped_and_counted(corpus):
    def fails(pairs):
        found = scores(pairs)
        if any(value == -1 for value in found):
            raise RuntimeError("no such pair")
        return [np.nan if value == 0.5 else value for value in found]

    report = corpus.rescore(fails, "some", **MINED, max_failures=1, retries=0)
    before, after = rows(corpus, "bm25"), rows(corpus, "some")
    assert sum(map(len, before.values())) == report.counts["failed"] + report.candidates
    assert report.counts["failed"]
    assert not {row["score"] for found in after.values() for row in found} & {-1, 0.5}
    with pytest.raises(dp.RecipeError, match="pairs failed"):
        corpus.rescore(fails, "none", **MINED, max_failures=0, retries=0)


class Predicts:
    """A model over pairs."""

    def predict(self, pairs):
        return np.array(scores(pairs), np.float32)


def test_models_draw_as_functions_do(corpus):
    corpus.rescore(Predicts(), "model", **MINED)
    by = dp.Negatives(by="model", relative_margin=0.05, range_max=3)
    columns = ["negative_by", "negative_score", "positive_score", "anchor", "negative", "positive"]
    with corpus.sampler(recipes=[RECIPE], batch_size=8, columns=columns, negatives=by) as sampler:
        batch = next(iter(sampler)).to_pylist()
    assert {row["negative_by"] for row in batch} <= {"model", "model_fallback"}
    drawn = [row for row in batch if row["negative_by"] == "model"]
    assert drawn
    for row in drawn:
        assert row["negative_score"] == score(row["anchor"], row["negative"])
        assert row["positive_score"] <= score(row["anchor"], row["positive"])
        assert row["negative_score"] <= row["positive_score"] - abs(row["positive_score"]) * 0.05
    assert {row["positive_score"] for row in batch if row["negative_by"] != "model"} <= {None}


WRONG = [
    (lambda pairs: [1.0], "one score for .* pairs: return an array"),
    (lambda pairs: np.zeros((len(pairs), 2)), "scores of 2 numbers"),
    (lambda pairs: None, "no numbers: return an array .pairs"),
    (lambda pairs: [np.inf] * len(pairs), "its score is not finite"),
    (3, "a list of pairs"),
    ("nowhere:at_all", "cannot import"),
    ("nothing", "module:function"),
]


def test_invalid_scorers_and_other_mistakes_are_refused(corpus):
    for function, told in WRONG:
        with pytest.raises(dp.RecipeError, match=told):
            corpus.rescore(function, "wrong", made_by="wrong", **MINED, retries=0)
    for name in ("bm25", "random", "", 3):
        with pytest.raises(dp.RecipeError, match="name="):
            corpus.rescore(scores, name, **MINED)
    with pytest.raises(dp.RecipeError, match="limit=0"):
        corpus.rescore(scores, "again", **MINED, limit=0)
    with pytest.raises(dp.StateMismatchError, match="dense"):
        corpus.rescore(scores, "again", **MINED, scorer="dense")
    row = {"title": "fox", "body": ["a bank"], "group": None, "day": None, "topic": "law"}
    corpus.ingest(source_of([row | {"id": f"new{n}"} for n in range(9)]), name="odd0")
    with pytest.raises(dp.StateMismatchError, match="stale"):
        corpus.rescore(scores, "again", **MINED)
