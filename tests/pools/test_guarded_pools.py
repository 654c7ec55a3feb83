"""Pools of recipes whose negatives are mined: exactly the anchors that have legal negatives."""

from itertools import product

import pytest
from effort import some
from mined_corpora import ANCHOR, CASES, CONTEXT, guarded_corpus, hash_texts, rules_of, write_mining

import duckplets as dp
from duckplets.pools.compile import compile_pool
from duckplets.pools.read import PoolReader

SIZES = (5, 18, 50)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    corpora = [guarded_corpus(folder / f"{n}.duckdb", n, n) for n in SIZES]
    for share, corpus in enumerate(corpora):
        if share:  # the rest is worked out as it is needed
            hash_texts(corpus, share=share)
    yield corpora
    for corpus in corpora:
        corpus.close()


@pytest.mark.parametrize(("name", "size"), some(product(CASES, range(len(SIZES))), less=3))
def test_a_pool_has_the_anchors_with_enough_legal_negatives(corpora, name, size):
    corpus, recipe = corpora[size], dp.TripletRecipe("r", **CASES[name]["recipe"], by="bm25")
    rules = rules_of(corpus, CASES[name], "s0", "train")
    legal = sorted(rules.legal_texts(a) for a in rules.paired())
    tried = {1, legal[len(legal) // 2], legal[-1] + 1}
    for negatives in sorted(tried - {0}):
        expected = rules.pool(negatives)
        compiled = compile_pool(recipe, source="s0", split="train", version=2, negatives=negatives)
        with PoolReader(corpus.database, [compiled]) as reader:
            windows = reader.list(compiled, "anchors")["chunk_key"].to_pylist()
            sections = reader.list(compiled, "mined_anchors")["section_key"].to_pylist()
            counts = reader.count(compiled)
        assert sorted(windows) == sorted(a.key for of in expected.values() for a in of)
        assert set(sections) == {a.section for of in expected.values() for a in of}
        assert counts.get(None, 0) == len(expected)
    assert not expected  # the last one asks for more than there are


def test_near_date_positives_are_guarded_too(tmp_path):
    records = [
        {"id": f"r{i}", "t": f"title {i}", "b": ["Same", "sâme  ", "other"][i % 3] + f" {i // 6}",
         "d": f"2024-01-{1 + i % 28:02}"}
        for i in range(40)
    ]  # fmt: skip
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(
            dp.MemorySource(records, id="id", anchor="t", positive="b", date="d"), name="a"
        )
        corpus.split(1, 0, 0)
        recipe = dp.TripletRecipe("r", ANCHOR, dp.near_date(1), CONTEXT, by="bm25")
        write_mining(corpus, recipe, {}, source="a")
        columns = ["positive", "negative", "positive_record_id", "negative_record_id"]
        sampler = corpus.sampler(recipes=[recipe], columns=columns, swap=False, epochs=30)
        rows = [row for batch in sampler for row in batch.to_pylist()]
        assert {"Same", "sâme"} & {row["positive"].split()[0] for row in rows}
        for row in rows:
            one, other = (row[s].replace("â", "a").lower().split() for s in columns[:2])
            assert one != other, row


def test_a_policy_may_drop_the_anchors_it_leaves_too_little(tmp_path):
    case = CASES["plain"]
    with guarded_corpus(tmp_path / "c.duckdb", 40, 1) as corpus:
        rules = rules_of(corpus, case, "s0", "train")
        whole = rules.pool(1)
        sections = sorted({a.section for of in whole.values() for a in of})
        dropped = sections[::3]
        recipe = dp.TripletRecipe("r", **case["recipe"], by=dp.bm25(when_short="drop"))
        other = next(p.section for p in rules.pieces if rules.is_negative(p))
        rows = {s: [] if s in dropped else [(other, 1.0)] for s in sections}
        write_mining(corpus, recipe, rows)
        how = {"recipes": [recipe], "mixture": {"s0": 1}}
        sampler = corpus.sampler(**how)
        assert sampler.epoch_length == len(rules.pool(1, dropped)) < len(whole)
        (source,) = {*sampler.forecast().table["fallback_anchors"].to_pylist()}
        assert source == 0
        corpus.add_recipe(recipe)
        listed = corpus.pool("r", source="s0")["anchors"].to_pylist()
        kept = {a.key for of in rules.pool(1, dropped).values() for a in of}
        assert {key for keys in listed for key in keys} == kept
        assert len(listed) == sampler.epoch_length
        kept = corpus.sampler(**how, by=dp.bm25())
        assert kept.epoch_length == len(whole)
        with pytest.raises(dp.EmptyPoolError, match="the policy leaves no anchor a candidate"):
            corpus.sampler(**how, by=dp.bm25(max_score=0.5, when_short="drop"))
