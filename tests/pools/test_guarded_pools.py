"""Pools of recipes whose negatives are mined: exactly the anchors that have legal negatives."""

import pytest
from mined_corpora import ANCHOR, CASES, CONTEXT, guarded_corpus, rules_of, write_mining

import duckplets as dp


def test_near_date_positives_are_guarded_too(tmp_path):
    records = [
        {"id": f"r{i}", "t": f"title {i}", "b": ["Same", "sâme  ", "other"][i % 3] + f" {i // 6}",
         "d": f"2024-01-{1 + i % 28:02}"}
        for i in range(40)
    ]  # fmt: skip
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(
            dp.sources.MemorySource(records, id="id", anchor="t", positive="b", date="d"), name="a"
        )
        corpus.split(1, 0, 0)
        recipe = dp.TripletRecipe("r", ANCHOR, dp.near_date(1), CONTEXT, by="bm25")
        write_mining(corpus, recipe, {}, source="a")
        columns = ["positive", "negative", "positive_record_id", "negative_record_id"]
        sampler = corpus.sampler(
            recipes=[recipe], columns=columns, epochs=30, options=dp.Options(swap=False)
        )
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
        recipe = dp.TripletRecipe(
            "r", **case["recipe"], by=dp.Negatives(by="bm25", when_short="drop")
        )
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
        kept = corpus.sampler(**how, negatives=dp.Negatives(by="bm25"))
        assert kept.epoch_length == len(whole)
        with pytest.raises(dp.EmptyPoolError, match="the policy cuts all candidates"):
            corpus.sampler(
                **how, negatives=dp.Negatives(by="bm25", max_score=0.5, when_short="drop")
            )
