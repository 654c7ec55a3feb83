"""Minings written straight into the tables, and what an export of them must hold."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mined_corpora import Rows, write_mining
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
        corpus.ingest(records, name=name, id="id", anchor="title", context="bodies")
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
    left: tuple[str, ...] = ("full", "full", "short", "none"),
    lucky: bool = False,
) -> int:
    """Write minings with random candidates; returns the number of anchors.

    Short anchors have fewer negatives; every seventh positive has no score (none of this if lucky).
    """
    total = 0
    for name in sources or tuple(corpus.sources()["name"].to_pylist()):
        found = sections(corpus, name, split)
        anchors = [s for s in found if s["role"] == role]
        documents = [s for s in found if s["role"] == "context"] or found
        draw = random.Random(f"{name} {split}")
        rows: Rows = {}
        positives = {}
        for i, anchor in enumerate(anchors):
            outcome = "full" if lucky else left[i % len(left)]
            legal = [d for d in documents if d["record_key"] != anchor["record_key"]]
            count = {"none": 0, "short": draw.randint(1, most - 1)}
            kept = draw.sample(legal, min(len(legal), count.get(outcome, most)))
            scores = sorted((draw.random() * 9 for _ in kept), reverse=True)
            keys = [document["section_key"] for document in kept]
            rows[anchor["section_key"]] = list(zip(keys, scores, strict=True))
            if i % 7 != 3 or lucky:
                positives[anchor["section_key"]] = draw.random() * 9
        write_mining(corpus, recipe, rows, source=name, split=split, positives=positives, block=37)
        total += len(anchors)
    return total


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
        anchors = [s for s in every.values() if s["role"] == "anchor"]
        rows = corpus.sql(
            """
            SELECT negatives.*, positive_score FROM negatives
            JOIN candidates USING (recipe, source, split, scorer, anchor_section_key, rank)
            WHERE source = $source AND split = $split ORDER BY rank
            """,
            where,
        ).to_pylist()
        for anchor in anchors:
            of = [n for n in rows if n["anchor_section_key"] == anchor["section_key"]]
            of = of[:negatives]
            found.append(
                Anchor(
                    id=f"{anchor['record_id']}#{anchor['position']}",
                    text=anchor["text"],
                    positives=[
                        (ids[d["section_key"]], d["text"])
                        for d in documents
                        if d["record_key"] == anchor["record_key"] and d["text"] != anchor["text"]
                    ],
                    negatives=[
                        (ids[n["negative_section_key"]], every[n["negative_section_key"]]["text"])
                        for n in of
                    ],
                    positive_score=of[0]["positive_score"] if of else None,
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
        if not anchor.positives:
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
