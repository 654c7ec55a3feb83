"""Pools of many sources, read together: the same as each alone, by as few statements as one's."""

import random
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from corpora import ODD_MAPPING, odd_records
from effort import THOROUGH, often, some, thorough
from prebuilt import prebuilt

import duckplets as dp
from duckplets.db.database import Database
from duckplets.pools import read as reading
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import PoolReader

ANCHOR, CONTEXT, ANY = dp.role("anchor"), dp.role("context"), dp.any_section()
REJECTED = dp.role("rejected")
NEWS = dp.any_section(where="meta['topic'] = 'news' and length(text) > 12")


def triplet(positive=CONTEXT, negative=CONTEXT, *, anchor=ANCHOR, where=None, **options):
    if where:
        options["strategy"] = dp.sql(where)
    return dp.TripletRecipe("r", anchor, positive, negative, **options)


TOPICS = "negative.meta['topic'] {} anchor.meta['topic']"
OWN = {"strategy": "same_record"}
QUESTION = {"strategy": "question_answer_mismatch"}
RECIPES = {
    "plain": triplet(),
    "chunks": triplet(negative=ANY, anchor=ANY, per="chunk"),
    "simcse": triplet(ANY, ANY, anchor=ANY, allow_same_anchor_positive=True),
    "other_date": triplet(strategy="other_date"),
    "question": triplet(negative=ANY, anchor=ANY, **QUESTION),
    "own": triplet(negative=REJECTED, **OWN),
    "filled": triplet(negative=REJECTED, **OWN, when_short="random"),
    "near_positive": triplet(dp.near_date(2)),
    "near_negative": triplet(negative=dp.near_date(-1)),
    "equal": triplet(negative=ANY, where=TOPICS.format("=")),
    "unequal": triplet(negative=ANY, anchor=NEWS, where=TOPICS.format("<>")),
    "later": triplet(negative=ANY, where="negative.date > anchor.date"),
    "mined": triplet(by="bm25"),
    "mined_question": triplet(negative=ANY, anchor=ANY, by="bm25", **QUESTION),
    "split": triplet(negatives_from="split"),
    "split_question": triplet(negative=ANY, anchor=ANY, negatives_from="split", **QUESTION),
    "texts": dp.TextRecipe("r", (ANCHOR, NEWS)),
    "dollars": triplet(negative=dp.role("context", where="text <> '$source asked.source'")),
}


@prebuilt
def scattered_corpus(path, seed, sources):
    """Odd records whose sources take turns at random, so that keys of one lie among others'."""
    draw, corpus = random.Random(seed), dp.Corpus(path)
    records = odd_records(12 * sources, seed, repeats=0.4)
    for record in records:
        record["g"] = draw.choice([None, None, "one", "two"])
        record["bad"] = draw.choice([[], ["no"], ["no", "never"], [record["body"]]])
    whole = dp.sources.MemorySource(records, **ODD_MAPPING, group="g", negative="bad")
    corpus.ingest(whole, name="s00", progress=False)
    corpus.split(0.8, 0.1, 0.1, seed=seed)
    corpus.chunk(dp.Chunking(max_tokens=12, overlap=(3,), summary_tokens=6))
    database = corpus.database
    database.rows(
        "INSERT INTO sources BY NAME SELECT s.* REPLACE (n AS source_id, format('s{:02d}', n - 1) "
        "AS name) FROM sources AS s, range(2, $sources + 1) AS t(n)",
        {"sources": sources},
    )
    taken = np.sort(np.random.default_rng(seed).integers(0, sources**2, 12 * sources)) % sources
    database.rows(
        "UPDATE records SET source_id = 1 + ($numbers::INTEGER[])[record_key]",
        {"numbers": draw.sample(taken.tolist(), len(taken))},
    )
    return corpus


def values(found):
    """A pool, or a part of it, as plain values with the types of its arrays."""
    if isinstance(found, np.ndarray):
        return found.dtype, found.tolist()
    if is_dataclass(found) and not isinstance(found, CompiledPool):
        return {field.name: values(getattr(found, field.name)) for field in fields(found)}
    return found


def read(reader, pool, of, *, spare):
    """A pool, or why there is none."""
    try:
        return values(reader.read(pool, of, spare=spare))
    except dp.EmptyPoolError as error:
        return str(error)


@pytest.mark.parametrize(("number", "name"), some(enumerate(RECIPES), less=3))
@pytest.mark.parametrize("seed", range(often(6, less=1)))
def test_read_together_as_alone(number, name, seed, tmp_path, monkeypatch):
    draw = random.Random(100 * seed + number)
    sources = often(draw.randint(2, 24), less=3)
    at_once = draw.choice([1, 60, 200, 10**9])
    monkeypatch.setattr(reading, "_TOGETHER", at_once)
    monkeypatch.setattr(reading, "_MOST_PAIRS", max(4000, at_once))
    where = {"split": "train", "version": 1, "negatives": draw.choice([1, 1, 2, 3])}
    with scattered_corpus(tmp_path / "c.duckdb", seed, sources) as corpus:
        found = [name for (name,) in corpus.database.rows("SELECT name FROM sources ORDER BY 1")]
        keys = np.array(draw.sample(range(1, 12 * sources), 8 * sources), dtype=np.int64)
        controls = {s: np.sort(keys) if draw.random() < 0.3 else None for s in found}
        found.append("none such")
        others = draw.sample([*RECIPES.values()], 2)
        several = [
            compile_pool(recipe, source=s, **where)
            for recipe in (RECIPES[name], *others)
            for s in found
        ]
        spare, told, empty = draw.random() < 0.5, 0, 0
        with PoolReader(corpus.database, several) as together:
            counts = [together.count(pool) for pool in several]
            pools = [
                read(together, pool, controls.get(pool.parameters["source"]), spare=spare)
                for pool in several
            ]
        checked = range(len(several)) if THOROUGH else draw.sample(range(len(found)), 4)
        for i in checked:
            with PoolReader(corpus.database, several[i : i + 1]) as alone:
                of = controls.get(several[i].parameters["source"])
                assert read(alone, several[i], of, spare=spare) == pools[i]
                assert alone.count(several[i]) == counts[i]
            told, empty = told + (not isinstance(pools[i], str)), empty + isinstance(pools[i], str)
        assert told + empty == len(checked)


@pytest.fixture
def statements(monkeypatch):
    """The statements that are run, as they are run."""
    ran = []
    for way in ("rows", "arrow"):
        plain = getattr(Database, way)

        def noting(self, sql, parameters=None, plain=plain):
            ran.append(sql)
            return plain(self, sql, parameters)

        monkeypatch.setattr(Database, way, noting)
    return ran


@thorough
@pytest.mark.parametrize("kind", ["triplets", "texts"])
def test_statements_do_not_grow_with_sources(kind, tmp_path, statements):
    ran = []
    for sources in (3, often(15, less=9)):
        with scattered_corpus(tmp_path / f"{sources}.duckdb", 0, sources) as corpus:
            statements.clear()
            sampler = corpus.sampler(
                kind, batch_size=4, options=dp.Options(prefetch=0, empty="skip")
            )
            next(sampler)
            ran.append(len(statements))
            assert len({s.source for s in sampler.reader.planner.streams}) > sources // 2
            statements.clear()
            corpus.status()
            ran[-1] += len(statements)
    assert ran[1] <= ran[0] + 4  # of twelve sources more; some may have an empty pool to count
