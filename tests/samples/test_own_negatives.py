"""Negatives of the anchor's own record: rejected replies, and ready ones, filled up from others."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import ClassVar

import pyarrow as pa
import pytest
from corpora import negative_slots, rows_of
from effort import often, some
from frozen_runs import titled
from prebuilt import reading

import duckplets as dp
from duckplets.pools.compile import compile_pool
from duckplets.recipes.recipes import default_recipes
from duckplets.sources.rows import ROW_SCHEMA, Rows

ANCHOR, CONTEXT, REJECTED = (dp.role(role) for role in ("anchor", "context", "rejected"))
CHOSEN = dp.TripletRecipe("chosen_rejected", ANCHOR, CONTEXT, REJECTED, strategy="same_record")
READY, _ = default_recipes("ready")
WORDS = ["one", "two", "three", "four", "five", "six", "seven"]


@dataclass(frozen=True)
class Pairs:
    """Records with any number of prompts, chosen and rejected replies."""

    records: Sequence[tuple[list[str], list[str], list[str]]]
    defaults: str = "pairs"

    kind: ClassVar[str] = "memory"
    uri: ClassVar[None] = None
    trust: ClassVar[None] = None

    def default_name(self):
        return self.defaults

    def open(self, reader):
        rows = [self.row(i, *texts) for i, texts in enumerate(self.records)]
        return Rows(iter([pa.RecordBatch.from_pylist(rows, schema=ROW_SCHEMA)]), self.defaults)

    def row(self, i, *texts):
        sections = [
            {"role": role, "heading": None, "text": text}
            for role, of_role in zip(("anchor", "context", "rejected"), texts, strict=True)
            for text in of_role
        ]
        content = int.from_bytes(sha256(repr(sections).encode()).digest()[:8], "little")
        return {"row": i + 1, "key": f"r{i}", "content_hash": content, "sections": sections}


def made(path, records, defaults="pairs"):
    corpus = dp.Corpus(path)
    corpus.ingest(Pairs(records, defaults), name=defaults)
    corpus.split(1, 0, 0)
    return corpus


def some_records(count, seed):
    """Records with gaps and with texts that come again, in one record and in others."""
    draw = random.Random(seed)

    def texts(low, high, what):
        common = [f"{draw.choice(WORDS)} {draw.choice(WORDS)}" for _ in range(high)]
        own = [f"{what} {i} {draw.choice(WORDS)}" for i in range(high)]
        chosen = [a if draw.random() < 0.3 else b for a, b in zip(common, own, strict=True)]
        return (chosen + chosen)[: draw.randint(low, high + 1)]

    return [(texts(1, 2, "ask"), texts(0, 2, "good"), texts(0, 3, "bad")) for _ in range(count)]


def served(corpus, steps, negatives=1, **more):
    """Open a run, and draw its first batches with all that tells whose texts they are."""
    slots = negative_slots(negatives)
    columns = ["anchor", "positive", "recipe", "negative_by", "source", "positive_record_id"]
    columns += [f"{slot}_record_id" for slot in ("anchor", *slots)]
    columns += [*slots, *(f"{slot}_by" for slot in slots if negatives > 1)]
    how = {"columns": columns, "negatives": negatives, "options": dp.Options(swap=False)} | more
    sampler = corpus.sampler(**how)
    return sampler, rows_of(sampler, steps)


# ---- rejected replies


def windowed(path):
    """Records of preference pairs in windows of two tokens."""
    corpus = made(path, some_records(60, 0))
    corpus.chunk(dp.Chunking(max_tokens=2, overlap=(0,), summary_tokens=0))
    return corpus


pairs = reading(windowed)


@pytest.mark.parametrize(
    ("per", "negatives"), some([("record", 1), ("record", 2), ("chunk", 1), ("chunk", 2)], less=2)
)
def test_negatives_are_legal_texts_of_the_anchors_own_record(pairs, per, negatives):
    rows = pairs.sql(
        "SELECT r.record_id, s.role, substring(s.text, c.start + 1, c.length) AS text "
        "FROM chunks c JOIN sections s USING (section_key) "
        "JOIN records r ON r.record_key = c.record_key"
    )
    own = defaultdict(set)
    allowed = defaultdict(set)
    for row in rows.to_pylist():
        (allowed if row["role"] == "rejected" else own)[row["record_id"]].add(row["text"])
    how = {"recipes": [replace(CHOSEN, per=per)], "batch_size": 24}
    for row in served(pairs, 20, negatives, **how)[1]:
        slots = negative_slots(negatives)
        texts = [row[slot] for slot in slots]
        assert {row[f"{slot}_record_id"] for slot in slots} == {row["anchor_record_id"]}
        assert row["positive_record_id"] == row["anchor_record_id"]
        assert len({row["anchor"], row["positive"], *texts}) == 2 + negatives
        assert set(texts) <= allowed[row["anchor_record_id"]] - own[row["anchor_record_id"]]


def test_every_negative_says_so_and_ranked_ones_are_refused(pairs):
    _, rows = served(pairs, 1, 2, recipes=[CHOSEN])
    assert {row[f"negative{slot}_by"] for row in rows for slot in ("_1", "_2")} == {"same_record"}
    told = "takes sections of the anchor's own"
    with pytest.raises(dp.RecipeError, match=told):
        replace(CHOSEN, by="bm25")
    with pytest.raises(dp.RecipeError, match=told):
        pairs.mine("chosen_rejected")


@pytest.mark.parametrize(
    ("rejected", "negatives"), some([(1, 1), (3, 1), (4, 2), (3, 2), (5, 3)], less=2)
)
def test_visits_go_through_all_rejected_replies_in_turn(rejected, negatives, tmp_path):
    bad = {
        "ask": [f"bad {i}" for i in range(rejected)],
        "ask more": ["ill"] * 2 + [f"worse {i}" for i in range(rejected)],
    }
    records = [([ask], [f"{ask} good"], texts) for ask, texts in bad.items()]
    with made(tmp_path / "pairs.duckdb", records) as corpus:
        how = {"recipes": [CHOSEN], "batch_size": 2}
        _, rows = served(corpus, rejected * (rejected + 1), negatives, **how)
    slots = negative_slots(negatives)
    for anchor, texts in bad.items():
        visits = [[row[slot] for slot in slots] for row in rows if row["anchor"] == anchor]
        times = Counter(text for visit in visits for text in visit)
        soonest = visits[: -(-len({*texts}) // negatives)]
        assert {text for visit in soonest for text in visit} == set(times) == set(texts)
        # Each as often as any other, but for the turn that is under way.
        assert max(times.values()) - min(times.values()) <= 2
        assert times.total() == len(visits) * negatives


def test_default_recipes_of_preference_pairs_and_frozen_draws(tmp_path, golden):
    assert default_recipes("pairs")[0] == replace(CHOSEN, weight=0.75)
    compiled = compile_pool(CHOSEN, source="it's", split="train", version=3)
    golden("sql/pairs_chosen_rejected.sql", compiled.sql() + ";\n")
    records = [([f"ask {i}"], [f"good {i}"], [f"bad {i}"]) for i in range(12)]
    with made(tmp_path / "pairs.duckdb", records) as corpus:
        _, rows = served(corpus, 5, recipes=[CHOSEN], batch_size=8, seed=1)
        golden("order/pairs.txt", "".join(f"{r['anchor']}|{r['negative']}\n" for r in rows))
        columns = ["recipe", "negative_by", "negative_score", "negative_rank"]
        rows = corpus.sampler(columns=columns, batch_size=400).batch_at(0).to_pylist()
        assert Counter(tuple(row.values()) for row in rows) == {
            ("chosen_rejected", "same_record", None, None): 300,
            ("anchor_context", "random", None, None): 100,
        }
        for selector, expected in [
            (dp.any_section(), {"ask", "good"}),
            (dp.any_section(where="text LIKE '%1%'"), {"ask", "good"}),
            (CONTEXT, {"good"}),
            (REJECTED, {"bad"}),
            (dp.position(2), {"bad"}),
        ]:
            recipe = dp.TextRecipe("all", selector, per="chunk")
            found = corpus.sampler("texts", recipes=[recipe], batch_size=36).batch_at(0)["text"]
            assert {text.split()[0] for text in found} == expected


# ---- ready negatives


@pytest.mark.parametrize("negatives", some([2, 1, 3], less=1))
@pytest.mark.parametrize("seed", range(often(9, less=1)))
def test_every_negative_is_given_or_marked(tmp_path, negatives, seed):
    records = some_records(40, seed)
    own = {f"ready/r{i}": texts for i, texts in enumerate(records)}
    every = {text for _, _, rejected in records for text in rejected}
    slots = negative_slots(negatives)
    with made(tmp_path / "c.duckdb", records, "ready") as corpus:
        sampler, rows = served(corpus, 10, negatives, batch_size=40, seed=seed)
        shares = Counter(row["recipe"] for row in rows)
        assert shares == {"ready_negative": 300, "anchor_context": 100}
        short, lacking = set(), 0
        for row in rows:
            asks, good, bad = own[row["anchor_record_id"]]
            assert row["anchor"] in asks
            assert row["positive"] in good
            if row["recipe"] != "ready_negative":
                continue
            usable = set(bad) - set(asks) - set(good)
            ways = [row[f"{slot}_by"] for slot in slots]
            given = min(negatives, len(usable))
            assert ways == ["given"] * given + ["random"] * (negatives - given)
            assert row["negative_by"] == ways[-1]
            texts = [row[slot] for slot in slots]
            assert len(set(texts)) == negatives
            assert set(texts[:given]) <= usable
            assert set(texts[given:]) <= every - set(asks) - set(good)
            others = {row[f"{slot}_record_id"] for slot in slots[given:]}
            assert row["anchor_record_id"] not in others
            lacking += negatives - given
            short |= {row["anchor_record_id"]} if given < negatives else set()
        assert lacking > 0
        table = sampler.forecast().table.to_pylist()
        [told] = [found for found in table if found["recipe"] == "ready_negative"]
        assert (told["negatives"], told["fallback_anchors"]) == ("given", len(short))
        sampler.move(10 * 40)
        assert sampler.metrics()["data/ready/fallbacks"] == lacking


def test_dropping_leaves_them_out_and_counts_them(tmp_path):
    records = [
        ([f"ask {i}"], [f"good {i}"], [f"bad {i} {n}" for n in range(i % 3)]) for i in range(12)
    ]
    with made(tmp_path / "c.duckdb", records, "ready") as corpus:
        dropping = replace(READY, name="dropping", when_short="drop")
        _, rows = served(corpus, 2, 2, recipes=[dropping], batch_size=8)
        assert {row["anchor_record_id"] for row in rows} == {f"ready/r{i}" for i in (2, 5, 8, 11)}
        assert {row["negative_by"] for row in rows} == {"same_record"}
        corpus.add_recipe(dropping)
        corpus.add_recipe(READY)
        pools = {row["recipe"]: row for row in corpus.status()["pools"] if row["split"] == "train"}
        for name, anchors, left_out in (
            ("dropping", 8, {"no negative": 4}),
            ("ready_negative", 12, {}),
        ):
            assert (pools[name]["anchors"], pools[name]["left_out"]) == (anchors, left_out)


@pytest.mark.parametrize("negatives", some([3, 1], less=1))
def test_a_source_too_small_for_its_own_negatives_draws_from_the_split(tmp_path, negatives):
    sizes = {"one": 1, "three": 3, "many": 30}
    lending = dp.TripletRecipe("wide", ANCHOR, CONTEXT, CONTEXT, negatives_from="split")
    with titled(tmp_path / "c.duckdb", sizes) as corpus:
        plain = replace(lending, negatives_from="source")
        with pytest.raises(dp.EmptyPoolError, match="no negative"):
            corpus.sampler(recipes=[plain], negatives=negatives, options=dp.Options(empty="error"))
        sampler, rows = served(corpus, 20, negatives, recipes=[lending], batch_size=30)
        wide = {"one", "three"} if negatives == 3 else {"one"}
        forecast = sampler.forecast()
        found = {row["source"]: row["fallback_anchors"] for row in forecast.table.to_pylist()}
        assert found == {name: size * (name in wide) for name, size in sizes.items()}
        assert sum("draw from all sources" in w for w in forecast.warnings) == len(wide)
        lenders = {name: set() for name in sizes}
        for row in rows:
            expected = "random_split" if row["source"] in wide else "random"
            assert row["negative_by"] == expected
            others = {row[f"{slot}_record_id"] for slot in negative_slots(negatives)}
            assert row["anchor_record_id"] not in others
            lenders[row["source"]] |= {name.split("/")[0] for name in others}
        every = {*sizes}
        assert lenders["one"] == every - {"one"}
        assert lenders["three"] == (every if negatives == 3 else {"three"})
        assert lenders["many"] == {"many"}
        sampler.move(20 * 30)
        lent = sum(row["negative_by"] == "random_split" for row in rows)
        metrics = sampler.metrics()
        counted = sum(metrics.get(f"data/{name}/fallbacks", 0) for name in sizes)
        assert counted == negatives * lent > 0
