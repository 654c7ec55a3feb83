"""Deadlines: what runs over a pool too long is stopped, and named."""

import time

import pytest
from prebuilt import prebuilt

import duckplets as dp

SLOW = "levenshtein(anchor.text[:100], negative.text[:100]) > 600"


@prebuilt
def long_texts(path):
    corpus = dp.Corpus(path)
    records = [
        {"id": i, "q": f"q{i} " + "ab " * 34, "a": f"a{i} " + "ba " * 34} for i in range(400)
    ]
    corpus.ingest(dp.MemorySource(records, anchor="q", positive="a", id="id"), name="s")
    corpus.split(1, 0, 0)
    corpus.add_recipe(
        dp.TripletRecipe(
            "slow", dp.role("anchor"), dp.role("context"), dp.role("context"), strategy=dp.sql(SLOW)
        )
    )
    return corpus


ROWS = [{"anchor_id": "s/0", "negative_id": "s/1", "score": 1.0}]
WHERE_CONDITIONS_RUN = {
    "sampler": lambda corpus: corpus.sampler(),
    "pool": lambda corpus: corpus.pool("slow"),
    "status": lambda corpus: corpus.status(),
    "mine": lambda corpus: corpus.mine("slow"),
    "add_negatives": lambda corpus: corpus.add_negatives(ROWS, name="slow"),
}


def test_a_statement_over_a_pool_is_stopped_and_named(tmp_path):
    for seconds in (0, -1, "60", True, float("nan"), float("inf"), 1e30):
        with pytest.raises(dp.QueryError, match="statement_timeout="):
            dp.Corpus(tmp_path / "a.duckdb", statement_timeout=seconds)
    assert not list(tmp_path.iterdir())
    long_texts(path := tmp_path / "long.duckdb").close()
    with dp.Corpus(path, statement_timeout=0.05) as corpus:
        for name, run in WHERE_CONDITIONS_RUN.items():
            started = time.monotonic()
            with pytest.raises(dp.DeadlineError, match=r"'slow'.*levenshtein.*statement_timeout"):
                run(corpus)
            assert time.monotonic() - started < 10, name
            assert corpus.count() == 400  # nothing was left behind that is in the way
