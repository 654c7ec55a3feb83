"""Minings written straight into the tables, and what an export of them must hold."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from mined_corpora import add_mining
from prebuilt import prebuilt

import duckplets as dp

RECIPE = dp.TripletRecipe(
    "title_body", dp.role("anchor"), dp.role("context"), dp.role("context"), by="bm25"
)
TEXTS = [
    "plain words",
    'a "quoted" \\ backslash, a comma\tand a tab',
    "one line\nanother\r\nand a third\rend",
    "line\u2028paragraph\u2029next\x85last\x0bvertical\x0cform",
    "nul \x00 bell \x07 escape \x1b delete \x7f",
    "Grüße, Ελληνικά, русский, 日本語, हिन्दी, עברית",
    "astral 😀 𝔘 and joined 👩‍👩‍👧 e\u0301",
    "\ufeff mark in front, nbsp \xa0, zero width \u200b",
    "{'json': [1, null]} </script> %s {0}",
    "2024-01-01T00:00:00Z",
]


@dataclass
class Anchor:
    """What an export must say about one anchor."""

    id: str
    text: str
    outcome: str
    positives: list[tuple[str, str]] = field(default_factory=list)
    negatives: list[tuple[str, str]] = field(default_factory=list)
    positive_score: float | None = None
    scores: list[float | None] = field(default_factory=list)


@prebuilt
def odd_text_corpus(
    path: Path, count: int = 40, sources: tuple[str, ...] = ("one", "two")
) -> dp.Corpus:
    """A corpus whose records have a title, one body or two, and every odd text somewhere."""
    corpus = dp.Corpus(path)
    for name in sources:
        draw = random.Random(name)
        records = [
            {
                "id": f"r{i}" if i % 7 else f"r{i}#1",
                "title": f"title {i} {TEXTS[i % len(TEXTS)]}",
                "bodies": [f"{name} {i} {n} {draw.choice(TEXTS)}" for n in range(1 + (i % 3 == 0))],
            }
            for i in range(count)
        ]
        records[1]["bodies"] = [records[1]["title"]]  # a positive with the anchor's text
        records[2]["bodies"] = ["r2", records[2]["title"]]
        source = dp.MemorySource(records, id="id", anchor="title", context="bodies")
        corpus.ingest(source, name=name, progress=False)
    corpus.split(0.8, 0.1, 0.1)
    return corpus


def sections(corpus: dp.Corpus, source: str, split: str) -> list[dict[str, Any]]:
    return corpus.sql(
        """
        SELECT s.section_key, s.record_key, r.record_id, s.position, s.role, s.text
        FROM sections s JOIN live_records r USING (record_key)
        WHERE r.source = $source AND r.split = $split ORDER BY s.section_key
        """,
        {"source": source, "split": split},
    ).to_pylist()


def mine_by_hand(
    corpus: dp.Corpus,
    recipe: dp.TripletRecipe = RECIPE,
    *,
    split: str = "train",
    sources: tuple[str, ...] | None = None,
    most: int = 5,
    role: str = "anchor",
    outcomes: tuple[str, ...] = ("full", "full", "short", "random", "none", "dropped"),
    lucky: bool = False,
) -> int:
    """Write minings with random candidates; returns the number of anchors.

    Anchors of outcome short have fewer negatives, of random some without a score; every seventh
    positive has no score (none of this if lucky).
    """
    total = 0
    for name in sources or tuple(corpus.sources()["name"].to_pylist()):
        found = sections(corpus, name, split)
        anchors = [s for s in found if s["role"] == role]
        documents = [s for s in found if s["role"] == "context"] or found
        key = add_mining(corpus, recipe, name, split, len(anchors))
        draw = random.Random(f"{name} {split}")
        mined: list[dict[str, Any]] = []
        negatives: list[dict[str, Any]] = []
        for i, anchor in enumerate(anchors):
            outcome = "full" if lucky else outcomes[i % len(outcomes)]
            legal = [d for d in documents if d["record_key"] != anchor["record_key"]]
            count = {"none": 0, "dropped": 0, "short": draw.randint(1, most - 1)}
            kept = draw.sample(legal, min(len(legal), count.get(outcome, most)))
            scores = sorted((draw.random() * 9 for _ in kept), reverse=True)
            last = 2 if outcome == "random" else 0
            negatives += [
                {
                    "mining_key": key,
                    "anchor_section_key": anchor["section_key"],
                    "rank": rank,
                    "negative_section_key": document["section_key"],
                    "score": None if rank > len(kept) - last else score,
                }
                for rank, (document, score) in enumerate(zip(kept, scores, strict=True), 1)
            ]
            mined.append(
                {
                    "mining_key": key,
                    "anchor_section_key": anchor["section_key"],
                    "candidates": len(kept),
                    "outcome": outcome,
                    "examined": len(legal),
                    "positive_score": None if i % 7 == 3 and not lucky else draw.random() * 9,
                    "positive_rank": None,
                }
            )
        draw.shuffle(negatives)  # no order of the tables is relied on
        draw.shuffle(mined)
        _append(corpus, "mined_anchors", mined)
        _append(corpus, "mined_negatives", negatives)
        total += len(anchors)
    return total


def _append(corpus: dp.Corpus, table: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        with corpus.database.registered(**{f"new_{table}": pa.Table.from_pylist(rows)}):
            corpus.database.rows(f"INSERT INTO {table} BY NAME SELECT * FROM new_{table}")


def expected(
    corpus: dp.Corpus,
    *,
    sources: tuple[str, ...] = ("one", "two"),
    split: str = "train",
    negatives: int | None = None,
) -> list[Anchor]:
    """Every mined anchor in order, worked out row by row from the tables."""
    found = []
    for name in sources:
        every = {s["section_key"]: s for s in sections(corpus, name, split)}
        documents = [s for s in every.values() if s["role"] == "context"]
        ids = document_ids(documents)
        where = {"source": name, "split": split}
        mined = corpus.sql(
            """
            SELECT a.* FROM mined_anchors a JOIN minings m USING (mining_key)
            JOIN sources s USING (source_id)
            WHERE s.name = $source AND m.split = $split AND m.superseded_at IS NULL
            ORDER BY anchor_section_key
            """,
            where,
        ).to_pylist()
        rows = corpus.sql(
            "SELECT * FROM negatives WHERE source = $source AND split = $split ORDER BY rank",
            where,
        ).to_pylist()
        for row in mined:
            anchor = every[row["anchor_section_key"]]
            of = [n for n in rows if n["anchor_section_key"] == row["anchor_section_key"]]
            of = of[:negatives]
            found.append(
                Anchor(
                    id=f"{anchor['record_id']}#{anchor['position']}",
                    text=anchor["text"],
                    outcome=row["outcome"],
                    positives=[
                        (ids[d["section_key"]], d["text"])
                        for d in documents
                        if d["record_key"] == anchor["record_key"] and d["text"] != anchor["text"]
                    ],
                    negatives=[
                        (ids[n["negative_section_key"]], every[n["negative_section_key"]]["text"])
                        for n in of
                    ],
                    positive_score=row["positive_score"],
                    scores=[n["score"] for n in of],
                )
            )
    return found


def document_ids(documents: list[dict[str, Any]]) -> dict[int, str]:
    counts = Counter(d["record_key"] for d in documents)
    return {
        d["section_key"]: f"{d['record_id']}#{d['position']}"
        if counts[d["record_key"]] > 1 or d["record_id"].endswith("#1")
        else d["record_id"]
        for d in documents
    }


def kept(anchors: list[Anchor], *, scores: bool = False, exactly: int | None = None) -> Any:
    """What is left of anchors, and why others are not."""
    left, reasons = [], Counter[str]()
    for anchor in anchors:
        if scores:
            scored = [i for i, s in enumerate(anchor.scores) if s is not None]
            reasons["negatives without a score"] += len(anchor.scores) - len(scored)
            anchor.negatives = [anchor.negatives[i] for i in scored]
            anchor.scores = [anchor.scores[i] for i in scored]
        if anchor.outcome == "dropped":
            reasons["dropped when mining"] += 1
        elif not anchor.positives:
            reasons["no positive"] += 1
        elif not anchor.negatives:
            reasons["no negative"] += 1
        elif exactly is not None and len(anchor.negatives) < exactly:
            reasons["too few negatives"] += 1
        elif scores and anchor.positive_score is None:
            reasons["no score of its positive"] += 1
        else:
            left.append(anchor)
    return left, {reason: count for reason, count in reasons.items() if count}
