"""What stands beside text that joins a run: labels, prefixes, vectors, weights, older files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from effort import some, thorough
from prebuilt import prebuilt
from text_vectors import DIMENSION, hashed, texts_of, vector, vectors

import duckplets as dp
from duckplets.vectors.store import VectorStore

pytestmark = pytest.mark.usefixtures("pools_once")

SIZES = (14, 25)  # records of the source at the first version, and at the second
NEW = 6  # of the source that comes with it
SLOTS = ("anchor", "positive", "negative")


def source(name: str, low: int, high: int, **more: Any) -> dp.MemorySource:
    rows = [
        {"id": str(i), "a": f"{name} asks {i}", "p": f"{name} says {i}", "l": i % 2, "t": i}
        for i in range(low, high)
    ]
    table = pa.Table.from_pylist(rows)
    return dp.MemorySource(table, anchor="a", positive="p", id="id", meta=["t"], **more)


def ingest(corpus: dp.Corpus, name: str, low: int, high: int, **more: Any) -> None:
    prefix = dp.Prefix(1, [[dp.Field("from", [name], 1)]])
    corpus.ingest(source(name, low, high, **more), name=name, prefix=prefix, progress=False)


@prebuilt
def first(path: Path, /) -> dp.Corpus:
    """A corpus with prefixes, of one source with labels and one without."""
    corpus = dp.Corpus(path)
    corpus.split(1, 0, 0)
    ingest(corpus, "judged", 0, SIZES[0], label="l")
    ingest(corpus, "plain", 0, SIZES[0])
    return corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[dp.Corpus]:
    with first(tmp_path / "c.duckdb") as corpus:
        yield corpus


def grow(corpus: dp.Corpus) -> None:
    ingest(corpus, "judged", *SIZES, label="l")
    ingest(corpus, "plain", *SIZES)
    ingest(corpus, "new", 0, NEW)


def rows_of(sampler: dp.Sampler, steps: int) -> list[dict[str, Any]]:
    return [row for batch in islice(sampler, steps) for row in batch.to_pylist()]


def test_judged_pairs_and_prefixes_of_both_versions(corpus: dp.Corpus) -> None:
    columns = ["anchor", "other", "label", "anchor_record_id", "other_record_id", "source"]
    how: dict[str, Any] = {"columns": [*columns, "anchor_prefix"], "batch_size": 7}
    steps, more = 3, 30
    with corpus.sampler("pairs", mixture={"judged": 1}, **how) as sampler:
        before = rows_of(sampler, steps)
        sampler.save()
    grow(corpus)
    with corpus.resume(version="newest") as sampler:
        after = rows_of(sampler, more)
        sampler.save()
    with corpus.resume() as sampler:  # replays
        sampler.move(0)
        assert rows_of(sampler, steps + more) == before + after
    rows = before + after
    for row in rows:
        assert row["anchor"].startswith(row["anchor_prefix"])
        assert f"from={row['source']}" in row["anchor_prefix"]
    for row in rows:
        assert row["anchor_record_id"] == row["other_record_id"]
        assert row["label"] == int(row["anchor_record_id"].split("/")[1]) % 2
    ids = [[row["anchor_record_id"] for row in of] for of in (before, after)]
    for found, size in zip(ids, SIZES, strict=True):  # each begins with an epoch of its own
        for start in range(0, len(found) - size, size):
            assert len({*found[start : start + size]}) == size


def embed(corpus: dp.Corpus, name: str, lacking: str = "no such text") -> None:
    """Give texts that have none their vector, but for those that hold some words."""
    store = VectorStore(corpus.path)
    of = store.begin(name, DIMENSION, "float32", {"by": "a test"})
    known = {*store.known(of).tolist()}
    texts = sorted({t for t in texts_of(corpus).values() if lacking not in t})
    texts = [text for text in texts if hashed(text) not in known]
    store.append(of, np.array([hashed(text) for text in texts], np.uint64), vectors(texts))


LACKING = ("judged asks 1", "new asks 2")  # before, and after the second version has joined
SET_OF = dict(some({"error": "all", "drop": "some", "null": "some"}.items(), less=2))


@thorough
def test_vectors_of_both_versions(corpus: dp.Corpus) -> None:
    embed(corpus, "all")
    embed(corpus, "some", LACKING[0])  # 1, 10, 11, …
    before: dict[str, list[Any]] = {}
    for missing, name in SET_OF.items():
        how: dict[str, Any] = {"columns": [*SLOTS, *(f"{slot}_vector:{name}" for slot in SLOTS)]}
        how |= {"vectors": missing, "batch_size": 20, "prefixes": False, "run": missing}
        with corpus.sampler(mixture=dp.Mixture({"judged": 3}, omitted=1), **how) as sampler:
            before[missing] = rows_of(sampler, 2)
            sampler.save()
    grow(corpus)
    with pytest.raises(dp.VectorError, match="of source new have none in 'all'"):
        corpus.resume("error", version="newest")
    with corpus.resume("error", version="newest", vectors="null") as sampler:
        assert any("their vectors are null" in note for note in sampler.notes)
    embed(corpus, "all")
    embed(corpus, "some", LACKING[1])
    after: dict[str, list[Any]] = {}
    for missing in SET_OF:
        with corpus.resume(missing, version="newest") as sampler:
            assert sum("vectors" in note for note in sampler.notes) <= 1
            after[missing] = rows_of(sampler, 12)
            sampler.save()
    embed(corpus, "some")  # comes too late
    for missing, name in SET_OF.items():
        with corpus.resume(missing) as sampler:
            sampler.move(0)
            assert rows_of(sampler, 14) == before[missing] + after[missing]
        for rows, lacking in zip((before[missing], after[missing]), LACKING, strict=True):
            found = [(row[slot], row[f"{slot}_vector:{name}"]) for row in rows for slot in SLOTS]
            texts = {text for text, _ in found}
            absent = {text for text in texts if lacking in text}
            assert bool(absent) == (missing != "drop")
            null = absent if missing == "null" else set()
            assert {text for text, got in found if got is None} == null
            assert all(got == vector(text).tolist() for text, got in found if text not in null)
        assert any(text.startswith("new") for text in texts)


@thorough
def test_a_recipe_that_finds_nothing_any_more_is_told(corpus: dp.Corpus) -> None:
    names = {"few": "meta['t'] = '3'", "some": None, "late": "meta['t'] = '20'"}
    text = dp.role("context")
    recipes = [dp.TripletRecipe(n, dp.role("anchor", w), text, text) for n, w in names.items()]
    how: dict[str, Any] = {"mixture": dp.Mixture({"judged": 0}, omitted=1), "batch_size": 4}
    corpus.sampler(recipes=recipes, empty="skip", **how).save()
    grow(corpus)
    with corpus.resume(version="newest") as sampler:
        assert not any("finds no anchor" in note for note in sampler.notes)
        assert {row["recipe"] for row in rows_of(sampler, 30)} >= {"few", "some", "late"}
    row = pa.table({"id": ["3"], "a": ["x"], "p": ["y"], "t": [0]})
    other = dp.MemorySource(row, anchor="a", positive="p", id="id", meta=["t"])
    corpus.ingest(other, name="plain", on_conflict="replace", progress=False)
    with corpus.resume(version="newest") as sampler:
        told = [note for note in sampler.notes if "'few' finds no anchor in corpus version" in note]
        assert "and is left out of it" in told[0]
        assert {row["recipe"] for row in rows_of(sampler, 20)} == {"late", "some", "anchor_context"}
