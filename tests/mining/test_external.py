"""Given negatives: guarded, counted, kept and drawn as plain Python says."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effort import often, some
from questions import (
    AMONG_ANCHORS,
    OTHER_TOPIC,
    RECIPE,
    SAME_TOPIC,
    SOME_TOPIC,
    Expected,
    Rows,
    build,
    legal_rows,
    random_rows,
    records_of,
    stored,
)

import duckplets as dp
from duckplets.mining import external as given
from duckplets.recipes.mined import Mined


def counted(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


RECIPES = {
    "any": RECIPE,
    "same topic": SAME_TOPIC,
    "other topic": OTHER_TOPIC,
    "anchors": AMONG_ANCHORS,
    "some topics": SOME_TOPIC,
}
KNOBS: list[dict[str, Any]] = [
    {},
    {"range_max": 3, "absolute_margin": 0.5},
    {"range_max": 2, "max_score": 2.0, "min_score": -1.0},
]


SEEDS = often(len(KNOBS), less=2)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of corpora, to copy: building one takes longer than what is tested."""
    folder = tmp_path_factory.mktemp("given")
    for seed in range(SEEDS):
        build(folder / f"{seed}.duckdb", seed).close()
    return folder


@pytest.mark.parametrize("name", some(RECIPES, less=2))
def test_rows_are_guarded_counted_and_kept(name: str, made: Path, tmp_path: Path) -> None:
    plain, seen = RECIPES[name], Counter()
    for seed, knobs in enumerate(KNOBS[:SEEDS]):
        with dp.Corpus(shutil.copy(made / f"{seed}.duckdb", tmp_path)) as corpus:
            # With fewer rows some topics have no anchor of a source and split.
            count = 3000 if plain is SOME_TOPIC else often(3000, less=1500)
            rows, policy = random_rows(corpus, seed, count), Mined("given", **knobs)
            recipe = replace(plain, by=policy)
            corpus.add_recipe(recipe)
            report = corpus.add_negatives(rows, name=recipe)
            expected = Expected(corpus, plain)
            kept, counts = expected.kept(rows, policy)
            assert stored(corpus) == {anchor: mine for anchor, mine in kept.items() if mine}
            assert counted(report.counts) == counted(counts)
            assert sum(report.counts.values()) == report.rows == len(rows)
            assert report.anchors == len(expected.anchors)
            seen.update(report.counts)
    reasons = {"unknown anchor", "unknown negative", "positive", "other source or split"}
    reasons |= {"same group", "same text", "duplicate row", "kept", "range"}
    reasons |= {"strategy"} if "topic" in name and plain is not SOME_TOPIC else set()
    if plain is SOME_TOPIC:
        reasons |= {"not an anchor of the recipe", "not a negative of the recipe"}
    assert reasons <= set(counted(seen))


@pytest.fixture
def corpus(made: Path, tmp_path: Path) -> Iterator[dp.Corpus]:
    with dp.Corpus(shutil.copy(made / "1.duckdb", tmp_path)) as copied:
        yield copied


# -- sections, sources, what was there before ---------------------------------------------------


def test_section_keys_name_single_sections(corpus: dp.Corpus) -> None:
    records, rows = records_of(corpus), legal_rows(corpus)
    by_id = corpus.add_negatives(rows, name=RECIPE)
    expected = stored(corpus)
    keyed = [
        {
            "anchor_section_key": records[row["anchor_id"]].sections["anchor"][0],
            "negative_section_key": records[row["negative_id"]].sections["context"][0],
            "score": row["score"],
        }
        for row in rows
    ]
    by_key = corpus.add_negatives(keyed, name=RECIPE)
    assert stored(corpus) == expected
    assert by_key.counts == by_id.counts
    wrong = [row | {"negative_section_key": row["anchor_section_key"]} for row in keyed]
    wrong += [row | {"anchor_section_key": 10**9} for row in keyed]
    report = corpus.add_negatives(keyed + wrong, name=RECIPE)
    assert report.counts["not a negative of the recipe"] == len(keyed)
    assert report.counts["unknown anchor"] == len(keyed)
    assert stored(corpus) == expected


def test_a_record_stands_for_all_its_sections_that_fit(tmp_path: Path) -> None:
    records = [
        {"id": f"r{i}", "q": f"question {i}", "a": f"answer {i}", "b": f"another answer {i}"}
        for i in range(8)
    ]
    rows = [
        {"anchor_id": f"s/r{i}", "negative_id": f"s/r{j}", "score": float(j)}
        for i in range(8)
        for j in (1, 4, 6)
    ]
    with dp.Corpus(tmp_path / "lists.duckdb") as corpus:
        source = dp.MemorySource(records, id="id", anchor="q", context=["a", "b"])
        corpus.ingest(source, name="s", progress=False)
        corpus.split(1, 0, 0)
        report = corpus.add_negatives(rows, name=RECIPE)
        assert report.counts["positive"] == 3
        assert report.counts["kept"] == 2 * (len(rows) - 3)
        found = corpus.sql(
            """
            SELECT negative, rank FROM negative_texts WHERE anchor_record_id = 's/r0' ORDER BY rank
            """
        )
        texts = [f"{kind} {j}" for j in (6, 4, 1) for kind in ("answer", "another answer")]
        assert found["negative"].to_pylist() == texts


def failing(rows: Rows) -> Iterator[dict[str, Any]]:
    yield from rows
    raise KeyboardInterrupt


def test_an_interrupted_one_changes_nothing(
    corpus: dp.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = legal_rows(corpus)
    corpus.add_negatives(rows, name=RECIPE)
    before = corpus.sql("SELECT * FROM negatives ORDER BY ALL")
    with pytest.raises(KeyboardInterrupt):
        corpus.add_negatives(failing(rows), name=RECIPE)
    calls = []

    def interrupt(done: int, total: int | None) -> None:
        calls.append((done, total))
        if len(calls) == 3:
            raise KeyboardInterrupt

    turned = [row | {"score": -row["score"]} for row in rows]
    with monkeypatch.context() as patch:
        patch.setattr(given, "_BLOCK_ROWS", 1)
        with pytest.raises(KeyboardInterrupt):
            corpus.add_negatives(turned, name=RECIPE, progress=interrupt)
    assert corpus.sql("SELECT * FROM negatives ORDER BY ALL").equals(before)
    assert not corpus.sql("SELECT * FROM duckdb_tables() WHERE temporary").num_rows
    corpus.add_negatives(turned, name=RECIPE)
    expected, _ = Expected(corpus, RECIPE).kept(turned, Mined())
    assert stored(corpus) == expected, "nothing of the interrupted one is left in it"
    folder = corpus.path.with_name(f"{corpus.path.stem}.candidates")
    told = [json.loads(path.read_text())["content"] for path in folder.glob("mining-*.json")]
    assert all(mining["finished_at"] for mining in told)
    parts = {part["file"]["name"] for mining in told for part in mining["parts"]}
    assert parts == {path.name for path in folder.glob("part-*")}


# -- drawing --------------------------------------------------------------------------------------


def test_a_sampler_draws_what_was_given(corpus: dp.Corpus) -> None:
    rows = [row for row in legal_rows(corpus) if row["anchor_id"] != row["negative_id"]]
    corpus.add_negatives(rows, name=RECIPE, split="train")
    scores = {(row["anchor_id"], row["negative_id"]): row["score"] for row in rows}
    columns = ["anchor_record_id", "negative_record_id", "negative_by", "negative_score"]
    sampler = corpus.sampler(
        recipes=[RECIPE],
        mixture=dp.Mixture({"two": 0}, omitted=1),
        columns=columns,
        swap=False,
        batch_size=8,
        epochs=4,
    )
    drawn: dict[str, list[str]] = defaultdict(list)
    for batch in sampler:
        for row in batch.to_pylist():
            anchor, negative = row["anchor_record_id"], row["negative_record_id"]
            assert row["negative_score"] == scores[anchor, negative]
            assert row["negative_by"] == "given"
            drawn[anchor].append(negative)
    assert drawn
    for anchor, negatives in drawn.items():
        given_to = {name for owner, name in scores if owner == anchor}
        assert set(negatives) == given_to, "four epochs go once around four candidates"
