"""Preference pairs: the rejected reply of an anchor's own record is its negative."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from conftest import Golden
from effort import some

import duckplets as dp
from duckplets.pools.compile import compile_pool
from duckplets.recipes.recipes import default_recipes
from duckplets.sources.rows import ROW_SCHEMA, Rows

pytestmark = pytest.mark.usefixtures("pools_once")

ANCHOR, CONTEXT, REJECTED = (dp.role(role) for role in ("anchor", "context", "rejected"))
CHOSEN = dp.TripletRecipe("chosen_rejected", ANCHOR, CONTEXT, REJECTED, strategy="same_record")
WORDS = ["one", "two", "three", "four", "five", "six", "seven"]


@dataclass(frozen=True)
class Pairs:
    """Records with any number of prompts, chosen and rejected replies."""

    records: Sequence[tuple[list[str], list[str], list[str]]]
    defaults: str = "pairs"

    kind: ClassVar[str] = "memory"
    uri: ClassVar[None] = None
    trust: ClassVar[None] = None

    def default_name(self) -> str:
        return "pairs"

    def open(self, reader: Any) -> Rows:
        rows = [self.row(i, *texts) for i, texts in enumerate(self.records)]
        return Rows(iter([pa.RecordBatch.from_pylist(rows, schema=ROW_SCHEMA)]), self.defaults)

    def row(self, i: int, *texts: list[str]) -> dict[str, Any]:
        sections = [
            {"role": role, "heading": None, "text": text}
            for role, of_role in zip(("anchor", "context", "rejected"), texts, strict=True)
            for text in of_role
        ]
        content = int.from_bytes(sha256(repr(sections).encode()).digest()[:8], "little")
        return {"row": i + 1, "key": f"r{i}", "content_hash": content, "sections": sections}


def made(path: Path, records: Sequence[Any], **chunking: Any) -> dp.Corpus:
    corpus = dp.Corpus(path)
    corpus.ingest(Pairs(records), name="pairs", progress=False)
    corpus.split(1, 0, 0)
    if chunking:
        corpus.chunk(dp.Chunking(**chunking))
    return corpus


def some_records(count: int, seed: int) -> list[tuple[list[str], list[str], list[str]]]:
    """Records with gaps and with texts that come again, in one record and in others."""
    draw = random.Random(seed)

    def texts(low: int, high: int, what: str) -> list[str]:
        common = [f"{draw.choice(WORDS)} {draw.choice(WORDS)}" for _ in range(high)]
        own = [f"{what} {i} {draw.choice(WORDS)}" for i in range(high)]
        chosen = [a if draw.random() < 0.3 else b for a, b in zip(common, own, strict=True)]
        return (chosen + chosen)[: draw.randint(low, high + 1)]

    return [(texts(1, 2, "ask"), texts(0, 2, "good"), texts(0, 3, "bad")) for _ in range(count)]


def legal(corpus: dp.Corpus) -> dict[str, set[str]]:
    """The rejected texts that each record may have for a negative."""
    rows = corpus.sql(
        "SELECT r.record_id, s.role, substring(s.text, c.start + 1, c.length) AS text "
        "FROM chunks c JOIN sections s USING (section_key) "
        "JOIN records r ON r.record_key = c.record_key"
    )
    own: dict[str, set[str]] = defaultdict(set)
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows.to_pylist():
        (found if row["role"] == "rejected" else own)[row["record_id"]].add(row["text"])
    return {record: texts - own[record] for record, texts in found.items()}


def drawn(corpus: dp.Corpus, steps: int, **more: Any) -> list[dict[str, Any]]:
    negatives = more.get("negatives", 1)
    names = ["negative"] if negatives == 1 else [f"negative_{i + 1}" for i in range(negatives)]
    slots = ["anchor", "positive", *names]
    columns = [*slots, *(f"{slot}_record_id" for slot in slots), "recipe", "source"]
    arguments = {"recipes": [CHOSEN], "batch_size": 8, "swap": False, "columns": columns}
    arguments |= {"prefetch": 0} | more
    sampler = corpus.sampler(**arguments)
    return [row for batch in islice(sampler, steps) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("per", "seed", "negatives"),
    some([("record", 0, 1), ("record", 1, 2), ("chunk", 0, 1), ("chunk", 1, 2)], less=2),
)
def test_negatives_are_legal_texts_of_the_anchors_own_record(
    seed: int, negatives: int, per: Any, tmp_path: Path
) -> None:
    recipe = replace(CHOSEN, per=per)
    chunking = {"max_tokens": 2, "overlap": (0,), "summary_tokens": 0}
    with made(tmp_path / "pairs.duckdb", some_records(50, seed), **chunking) as corpus:
        allowed = legal(corpus)
        names = ["negative"] if negatives == 1 else ["negative_1", "negative_2"]
        for row in drawn(corpus, 20, recipes=[recipe], negatives=negatives, batch_size=24):
            texts = [row[name] for name in names]
            assert {row[f"{name}_record_id"] for name in names} == {row["anchor_record_id"]}
            assert row["positive_record_id"] == row["anchor_record_id"]
            assert len({row["anchor"], row["positive"], *texts}) == 2 + negatives
            assert set(texts) <= allowed[row["anchor_record_id"]]


@pytest.mark.parametrize(
    ("rejected", "negatives"), some([(1, 1), (3, 1), (4, 2), (3, 2), (5, 3)], less=2)
)
def test_visits_go_through_all_rejected_replies_in_turn(
    rejected: int, negatives: int, tmp_path: Path
) -> None:
    bad = {
        "ask": [f"bad {i}" for i in range(rejected)],
        "ask more": ["ill"] * 2 + [f"worse {i}" for i in range(rejected)],
    }
    records = [([ask], [f"{ask} good"], texts) for ask, texts in bad.items()]
    with made(tmp_path / "pairs.duckdb", records) as corpus:
        columns = [f"negative_{i + 1}" for i in range(negatives)] if negatives > 1 else ["negative"]
        rows = drawn(corpus, rejected * (rejected + 1), batch_size=2, negatives=negatives)
    for anchor, texts in bad.items():
        visits = [[row[column] for column in columns] for row in rows if row["anchor"] == anchor]
        times = Counter(text for visit in visits for text in visit)
        soonest = visits[: -(-len({*texts}) // negatives)]
        assert {text for visit in soonest for text in visit} == set(times) == set(texts)
        # Each as often as any other, but for the turn that is under way.
        assert max(times.values()) - min(times.values()) <= 2
        assert times.total() == len(visits) * negatives


def test_the_statement_is_golden(golden: Golden) -> None:
    compiled = compile_pool(CHOSEN, source="it's", split="train", version=3)
    golden("sql/pairs_chosen_rejected.sql", compiled.sql() + ";\n")


def test_only_their_role_and_their_position_find_rejected_replies(tmp_path: Path) -> None:
    records = [([f"ask {i}"], [f"good {i}"], [f"bad {i}"]) for i in range(20)]
    with made(tmp_path / "pairs.duckdb", records) as corpus:
        for selector, expected in [
            (dp.any_section(), {"ask", "good"}),
            (dp.any_section(where="text LIKE '%1%'"), {"ask", "good"}),
            (CONTEXT, {"good"}),
            (REJECTED, {"bad"}),
            (dp.position(2), {"bad"}),
        ]:
            recipe = dp.TextRecipe("all", selector, per="chunk")
            found = corpus.sampler("texts", recipes=[recipe], batch_size=60).batch_at(0)["text"]
            assert {text.split()[0] for text in found} == expected


def test_pairs_have_the_rejected_reply_as_the_negative_of_three_samples_in_four(
    tmp_path: Path,
) -> None:
    assert default_recipes("pairs")[0] == replace(CHOSEN, weight=0.75)
    with made(tmp_path / "pairs.duckdb", some_records(60, 0)) as corpus:
        columns = ["recipe", "negative_by", "negative_score", "negative_rank"]
        rows = corpus.sampler(columns=columns, batch_size=400).batch_at(0).to_pylist()
        assert Counter(tuple(row.values()) for row in rows) == {
            ("chosen_rejected", "same_record", None, None): 300,
            ("anchor_context", "random", None, None): 100,
        }
        several = corpus.sampler(
            recipes=[CHOSEN], negatives=2, columns=["negative_by", "negative_2_by"]
        ).batch_at(0)
        assert set(several["negative_by"]) == set(several["negative_2_by"]) == {"same_record"}


def test_ranked_negatives_of_the_same_record_are_refused(tmp_path: Path) -> None:
    told = "takes those of the anchor's own"
    with pytest.raises(dp.RecipeError, match=told):
        replace(CHOSEN, by="bm25")
    with made(tmp_path / "pairs.duckdb", some_records(30, 0)) as corpus:
        corpus.add_recipe(CHOSEN)
        with pytest.raises(dp.RecipeError, match=told):
            corpus.mine("chosen_rejected")


def test_the_draws_never_change(tmp_path: Path, golden: Golden) -> None:
    records = [([f"ask {i}"], [f"good {i}"], [f"bad {i}"]) for i in range(12)]
    with made(tmp_path / "pairs.duckdb", records) as corpus:
        rows = drawn(corpus, 5, seed=1)
    golden("order/pairs.txt", "".join(f"{r['anchor']}|{r['negative']}\n" for r in rows))
