"""The promises over real text: WordNet's titles and definitions, as one source and as two."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import often, some

import duckplets as dp

WORDNET = Path(__file__).parents[2] / "shared" / "corpora" / "wordnet.parquet"
pytestmark = pytest.mark.skipif(not WORDNET.exists(), reason="the WordNet file is not here")

TITLE, DEFINITION = dp.role("anchor"), dp.role("context")
RECIPE = dp.TripletRecipe("title_definition", TITLE, DEFINITION, DEFINITION)
COLUMNS = ["anchor", "positive", "negative", "source", "swapped"]
COLUMNS += [f"{slot}_record_id" for slot in COLUMNS[:3]]
ROWS = often(1_000_000, less=12_000)  # of each source; the file has 117,000
DRAWN = often(200_000, less=8_000)


@pytest.fixture(scope="module", params=some(["one source", "two sources"][::-1], less=1))
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wordnet") / "wordnet.duckdb"
    mapping = {"id": "id", "anchor": "title", "positive": "definition", "meta": ["domain"]}
    with dp.Corpus(path) as corpus:
        if request.param == "one source":
            corpus.ingest(dp.ParquetSource(WORDNET, **mapping), name="wordnet", progress=False)
        else:
            for name, negation in [("nouns", ""), ("others", "NOT")]:
                query = f"FROM '{WORDNET}' WHERE {negation} domain LIKE 'noun.%' LIMIT {ROWS}"
                corpus.ingest(dp.SqlSource(query, **mapping), name=name, progress=False)
        corpus.split(seed=3)
    return path


def drawn(path: Path, threads: int | None = None) -> pa.Table:
    with dp.Corpus(path, read_only=True, threads=threads) as corpus:
        sampler = corpus.sampler(recipes=[RECIPE], batch_size=1000, columns=COLUMNS, seed=5)
        return pa.concat_tables(next(sampler).table for _ in range(DRAWN // 1000))


def test_every_eligible_anchor_comes_once_an_epoch(corpus: Path) -> None:
    with dp.Corpus(corpus, read_only=True) as opened:
        for source in opened.sources()["name"].to_pylist():
            mixture = dict.fromkeys(opened.sources()["name"].to_pylist(), 0) | {source: 1}
            eligible = opened.sql(
                "SELECT DISTINCT record_id FROM section_texts a JOIN section_texts p "
                "USING (record_id) WHERE a.split = 'train' AND a.source = $source "
                "AND a.role = 'anchor' AND p.role = 'context' AND a.text <> p.text",
                {"source": source},
            )["record_id"]
            sampler = opened.sampler(
                recipes=[RECIPE],
                mixture=mixture,
                epochs=often(2, less=1),
                swap=False,
                batch_size=4096,
                columns=["anchor_record_id", "position"],
            )
            table = pa.concat_tables(batch.table for batch in sampler)
            for epoch in range(often(2, less=1)):
                part = table.slice(epoch * sampler.epoch_length, sampler.epoch_length)
                assert sorted(part["anchor_record_id"].to_pylist()) == sorted(eligible.to_pylist())


def test_no_sample_breaks_a_rule(corpus: Path) -> None:
    table = drawn(corpus)
    ids = {slot: table[f"{slot}_record_id"] for slot in ("anchor", "positive", "negative")}
    assert pc.all(pc.equal(ids["anchor"], ids["positive"])).as_py()
    assert not pc.any(pc.equal(ids["anchor"], ids["negative"])).as_py()
    for first, second in [("anchor", "positive"), ("anchor", "negative"), ("positive", "negative")]:
        assert not pc.any(pc.equal(table[first], table[second])).as_py()
    with dp.Corpus(corpus, read_only=True) as opened:
        records = opened.sql("SELECT record_id, source, split FROM live_records")
    train = records.filter(pc.equal(records["split"], "train"))
    for slot in ids:
        assert pc.all(pc.is_in(ids[slot], train["record_id"])).as_py()
        source = pc.list_element(pc.split_pattern(ids[slot], "/", max_splits=1), 0)
        assert pc.all(pc.equal(source, table["source"])).as_py()


def test_a_run_saved_and_resumed_fifty_times_is_the_unbroken_run(corpus: Path) -> None:
    draw = random.Random(7)
    with dp.Corpus(corpus, read_only=True) as opened:
        times = often(50, less=4)
        whole = opened.sampler(recipes=[RECIPE], batch_size=64)
        expected = [next(whole).table for _ in range(5 * times)]
        opened.sampler(recipes=[RECIPE], batch_size=64).save()
        step = 0
        for _ in range(times):
            sampler = opened.resume()
            assert sampler.step == step
            for _ in range(draw.randint(1, 5)):
                assert next(sampler).table.equals(expected[step])
                step += 1
            sampler.save()
            sampler.close()
    assert step > 2 * times
    assert np.all([t.num_rows == 64 for t in expected])
