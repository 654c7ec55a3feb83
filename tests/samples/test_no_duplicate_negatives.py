"""Batches whose negatives differ, also from their anchors and positives, while there are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora import odd_corpus
from effort import often, some, thorough
from mined_corpora import CASES, guarded_corpus, rules_of, some_candidates, write_mining

import duckplets as dp

pytestmark = pytest.mark.usefixtures("pools_once")

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
PLAIN = dp.TripletRecipe("plain", ANCHOR, CONTEXT, CONTEXT)
DATED = dp.TripletRecipe("dated", ANCHOR, CONTEXT, ANCHOR, strategy="other_date", per="chunk")
MINED = dp.TripletRecipe("mined", **CASES["plain"]["recipe"], by="bm25")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dp.Corpus]]:
    folder = tmp_path_factory.mktemp("apart")
    found = {
        "odd": odd_corpus(folder / "odd.duckdb", 90, 3, sources=2),
        "guarded": guarded_corpus(folder / "guarded.duckdb", 40, 1),
    }
    rules = rules_of(found["guarded"], CASES["plain"], "s0", "train")
    write_mining(found["guarded"], MINED, some_candidates(rules, 1))
    yield found
    for corpus in found.values():
        corpus.close()


def texts_of(batch: dp.Batch, negatives: int, kind: str) -> tuple[list[str], list[str]]:
    """Return the negatives of a batch, and its other texts."""
    rows = batch.to_pylist()
    if kind == "pairs":
        others = [row["anchor"] for row in rows] + [r["other"] for r in rows if r["label"]]
        return [row["other"] for row in rows if not row["label"]], others
    names = ["negative"] if negatives == 1 else [f"negative_{i + 1}" for i in range(negatives)]
    return (
        [row[name] for row in rows for name in names],
        [row[name] for row in rows for name in ("anchor", "positive")],
    )


CASES_OF: list[tuple[str, dict[str, Any]]] = [
    ("odd", {"recipes": [PLAIN, DATED], "batch_size": 12}),
    ("odd", {"recipes": [PLAIN, DATED], "batch_size": 9, "negatives": 3, "swap": False}),
    ("odd", {"recipes": [PLAIN], "batch_size": 10, "negatives": 2, "kind": "pairs"}),
    ("odd", {"recipes": [PLAIN], "batch_size": 16, "epochs": 2}),
    ("guarded", {"recipes": [MINED], "batch_size": 6, "negatives": 2, "mixture": {"s0": 1}}),
]


@pytest.mark.parametrize("case", some(range(len(CASES_OF)), less=2))
@pytest.mark.parametrize("seed", range(often(12, less=1)))
def test_negatives_differ_and_anchors_keep_their_order(
    corpora: dict[str, dp.Corpus], case: int, seed: int
) -> None:
    name, arguments = CASES_OF[case]
    negatives, kind = arguments.get("negatives", 1), arguments.get("kind", "triplets")
    plain = corpora[name].sampler(**arguments, seed=seed, run="plain")
    sampler = corpora[name].sampler(**arguments, seed=seed, no_duplicates="negatives", run="apart")
    redrawn = 0
    for step in range(len(sampler) if "epochs" in arguments else 8):
        before, batch = plain.batch_at(step), sampler.batch_at(step)
        found, others = texts_of(batch, negatives, kind)
        assert len(set(found)) == len(found)
        assert not set(found) & set(others)
        assert texts_of(before, negatives, kind)[1] == others
        assert batch["source"] == before["source"]
        redrawn += texts_of(before, negatives, kind)[0] != found
    assert redrawn or seed, "a case in which nothing repeats shows nothing"


@thorough
@pytest.mark.parametrize(("size", "batch", "negatives"), [(8, 4, 1), (12, 4, 2), (20, 5, 3)])
def test_a_corpus_is_served_down_to_its_last_legal_negative(
    tmp_path: Path, size: int, batch: int, negatives: int
) -> None:
    """Every batch needs each text that is none of its own; a larger one is told of this one."""
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        rows = [{"q": f"q {i}", "a": f"a {i}"} for i in range(size)]
        corpus.ingest(dp.MemorySource(rows, anchor="q", positive="a"), name="s", progress=False)
        corpus.split(1, 0, 0)
        shared: dict[str, Any] = {"recipes": [PLAIN], "negatives": negatives, "swap": False}
        shared["no_duplicates"] = "negatives"
        for found in corpus.sampler(**shared, batch_size=batch, epochs=2):
            drawn, others = texts_of(found, negatives, "triplets")
            if len(set(others)) == 2 * batch:  # no anchor of two epochs
                assert set(drawn) == {f"a {i}" for i in range(size)} - set(others)
        with pytest.raises(dp.RecipeError, match="='negatives' cannot be kept: batch 0 wa") as e:
            corpus.sampler(**shared, batch_size=batch + 3, run="more")
        assert f"lower negatives, or batch_size to at most {batch} for all ranks" in str(e.value)


def test_marks_and_counts_are_those_of_what_is_served(corpora: dict[str, dp.Corpus]) -> None:
    name, arguments = CASES_OF[-1]
    how = arguments | {"negatives": 1, "batch_size": 8, "columns": ["anchor", "negative_by"]}
    sampler = corpora[name].sampler(**how, no_duplicates="negatives")
    said = Counter(row["negative_by"] for _ in range(9) for row in next(sampler).to_pylist())
    assert said["bm25"]
    assert sampler.metrics()["data/s0/fallbacks"] == said["bm25_fallback"] > 0


def test_the_argument_is_checked_and_part_of_the_run(
    corpora: dict[str, dp.Corpus], tmp_path: Path
) -> None:
    corpus = corpora["odd"]
    for wrong in ("negative", 1, None):
        with pytest.raises(dp.SamplerError, match="no_duplicates="):
            corpus.sampler(no_duplicates=wrong)  # type: ignore[arg-type]
    with pytest.raises(dp.SamplerError, match="no_duplicates='negatives': texts have none"):
        corpus.sampler("texts", no_duplicates="negatives")
    state = tmp_path / "s.duckdb"
    corpus.sampler(recipes=[PLAIN], batch_size=4, no_duplicates="negatives", state=state).save()
    with pytest.raises(dp.StateMismatchError, match="no_duplicates"):
        corpus.resume(state=state, no_duplicates=True)
    assert corpus.resume(state=state).settings.no_duplicates == "negatives"
