"""Pools by arithmetic equal pools of the statement, to the type of each array."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from corpora import ODD_MAPPING, odd_records
from effort import often

import duckplets as dp
from duckplets.errors import EmptyPoolError, SourceError
from duckplets.pools import plain, read
from duckplets.pools.compile import compile_pool
from duckplets.recipes.recipes import default_recipes

RECIPE = default_recipes("roles")[0]


def flat(value: Any) -> Any:
    """Return an object with its arrays as lists, and their types."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return {of.name: flat(getattr(value, of.name)) for of in fields(value)}
    return value


def pool_of(corpus: dp.Corpus, compiled: Any) -> Any:
    with read.PoolReader(corpus.database, [compiled]) as reader:
        try:
            return flat(reader.read(compiled)), reader._portions is None
        except EmptyPoolError as error:
            return str(error), False


# What a record is like, and whether its pool is arithmetic.
ODD: dict[str, tuple[dict[str, Any], bool]] = {
    "usual": ({}, True),
    "bare": ({"body": None, "notes": []}, True),
    "twin": ({"title": "title 1"}, True),
    "case": ({"title": "TITLE  1"}, True),
    "same": ({"body": "title 1"}, True),
    "copied": ({"body": "the same body", "notes": ["the same body"]}, True),
    "grouped": ({}, False),
}


@pytest.mark.parametrize("seed", range(often(20, less=1)))
def test_pools_by_arithmetic_equal_pools_of_the_statement(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=12, overlap=(3,), summary_tokens=6))
        for name, (changed, _) in ODD.items():
            found = odd_records(60, seed, repeats=0)
            for row in found:  # short ones would be equal by chance
                row["body"] += f" {row['id']}"
                row["notes"] = [f"{row['id']} {n} {note}" for n, note in enumerate(row["notes"])]
            found[2] |= changed
            given = ODD_MAPPING | ({"group": "topic"} if name == "grouped" else {})
            corpus.ingest(found, name=name, progress=False, **given)
        corpus.split(1.0, 0.0, 0.0)
        for name, (_, expected) in ODD.items():
            where = {"source": name, "split": "train", "version": corpus.version}
            contexts = corpus.sql(
                "SELECT count(*) AS n FROM chunks_of($name) WHERE role = 'context'", {"name": name}
            ).to_pylist()[0]["n"]
            for negatives in (1, contexts - 4, contexts) if name == "usual" else (1,):
                pool = compile_pool(RECIPE, negatives=negatives, **where)
                assert plain.is_plain(pool)
                monkeypatch.setattr(read, "_FEW", 8)
                one, is_plain = pool_of(corpus, pool)
                monkeypatch.setattr(read, "_FEW", 0)
                assert one == pool_of(corpus, pool)[0]
                assert is_plain == (expected and negatives < contexts)


def test_only_the_usual_pool_is_plain() -> None:
    where = {"source": "a", "split": "train", "version": 1}
    anchor, context = dp.role("anchor"), dp.role("context")
    assert plain.is_plain(compile_pool(RECIPE, **where))
    others: list[Any] = [
        *default_recipes("text"),
        *default_recipes("pairs")[:1],
        default_recipes("roles", "crate")[1],
        dp.TripletRecipe("a", anchor, context, context, per="chunk"),
        dp.TripletRecipe("a", anchor, dp.role("context", where="trust > 0"), context),
        dp.TripletRecipe("a", anchor, context, context, strategy="other_date"),
        dp.TripletRecipe("a", anchor, context, context, negatives_from="split"),
        dp.TripletRecipe("a", anchor, context, context, allow_same_anchor_positive=True),
    ]
    assert not any(plain.is_plain(compile_pool(recipe, **where)) for recipe in others)
    for how in ({"labels": "binary"}, {"relabelled": True}, {"swaps": True}, {"documents": "d"}):
        assert not plain.is_plain(compile_pool(RECIPE, **where, **how))


@pytest.mark.parametrize("seed", range(often(60, less=6)))
def test_pools_of_texts_that_repeat_equal_pools_of_the_statement(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    words = ["river", "Tree", "tree ", "stone", "a stone", "A  stone", "long " * 9, "LONG " * 20]
    few, many = words[: draw.randrange(2, len(words))], [f"text {n}" for n in range(60)]
    monkeypatch.setattr(plain, "_AT_ONCE", draw.choice([3, 16, 1 << 20]))

    def text(common: float) -> str | None:
        return draw.choice(few if draw.random() < common else [*many, None])

    def records(first: int, share: float) -> list[dict[str, Any]]:
        return [
            {
                "id": f"{number}",
                "title": text(share),
                "body": text(share),
                "notes": [text(share) for _ in range(draw.randrange(3))],
                "valued": draw.choice([1, 1, 1, 0]),
            }
            for number in range(first, first + draw.randrange(2, 80))
        ]

    mapping: Any = {"id": "id", "anchor": "title", "context": ["body?", "notes?"]}
    mapping |= {"on_error": "skip", "progress": False}
    arithmetic = set()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=12, overlap=(3,), summary_tokens=6))
        for name, share in (("rare", 0.1), ("usual", 0.5), ("often", 0.9), ("judged", 0.5)):
            label = {"label": "valued"} if name == "judged" else {}
            with suppress(SourceError):
                corpus.ingest(records(0, share), name=name, **mapping, **label)
                corpus.ingest(
                    records(40, share), name=name, on_conflict="replace", **mapping, **label
                )
        corpus.split(1.0, 0.0, 0.0)
        for source in corpus.sources()["name"].to_pylist():
            for version in {corpus.version, 1}:
                for negatives in (1, draw.randrange(1, 30)):
                    where = {"source": source, "split": "train", "version": version}
                    pool = compile_pool(RECIPE, negatives=negatives, **where)
                    monkeypatch.setattr(read, "_FEW", 8)
                    one, is_plain = pool_of(corpus, pool)
                    monkeypatch.setattr(read, "_FEW", 0)
                    assert one == pool_of(corpus, pool)[0]
                    arithmetic.add((source, is_plain))
    assert {is_plain for _, is_plain in arithmetic} == {False, True}


def test_a_pool_of_many_records_needs_little_memory_even_if_texts_repeat(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, path = 150_000, tmp_path / "c.duckdb"
    titles = pa.array([f"title {number // 2}" for number in range(count)])
    bodies = pa.array([f"body {number}" for number in range(count)])
    table = pa.table({"id": bodies, "title": titles, "body": bodies})
    source = dp.sources.MemorySource(table, id="id", anchor="title", positive="body")
    with dp.Corpus(path) as corpus:
        corpus.split(1.0, 0.0, 0.0)
        corpus.ingest(source, name="s", progress=False)
    monkeypatch.setattr(plain, "_AT_ONCE", 1 << 15)  # as a million is of ten
    with dp.Corpus(path, read_only=True, memory_limit="40MB") as corpus:
        pool = compile_pool(RECIPE, source="s", split="train", version=1)
        with read.PoolReader(corpus.database, [pool]) as reader:
            assert len(reader.read(pool).anchors) == count
            assert reader._portions is None, "the statement needs more with DuckDB 1.5"
