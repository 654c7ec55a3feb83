"""Who may be a mined negative of whom, and in which order: DuckDB's match_bm25, rules in Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from peers import peer
from plain_text import normalised
from prebuilt import copied

import duckplets as dp
from duckplets.search.analyzer_settings import Terms

ODD = [
    "日本語 テスト",
    "日本語 テズト",
    "हनद भाषा 42",
    "हिन्दी भाषा 42",
    "Ünïcödé straße",
    "42",
    "1984 2001",
    "x",
    "…",
    "тест 7 тест",
]
WORDS = [
    *("running", "runs", "ran", "easily", "fox", "foxes", "river", "banks", "bank", "money"),
    *("the", "of", "and", "a", "to", "one's"),
]

BOTH = (dp.role("anchor"), dp.role("context"), dp.role("context"))


@dataclass(frozen=True)
class Section:
    """A section with everything a rule looks at."""

    key: int
    record: int
    record_id: str
    source: str
    split: str
    role: str
    position: int
    text: str
    group: str | None
    date: date | None
    topic: str

    @cached_property
    def normal(self) -> str:
        """The text but for case, accents, composition and white space."""
        return normalised(self.text)


def records(count: int, seed: int) -> list[dict[str, Any]]:
    """Texts of many scripts and lengths, a tenth of them repeated, in groups."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for i in range(count):
        title = " ".join(draw.choices(WORDS, k=draw.randint(1, 5)))
        bodies = [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(2)]
        if draw.random() < 0.3:
            bodies[0] = draw.choice(ODD)
        if draw.random() < 0.2:
            title = draw.choice(ODD)
        if rows and draw.random() < 0.1:
            bodies[0] = draw.choice(rows)["body"][0].upper() + "  "
        if rows and draw.random() < 0.1:
            title = draw.choice(rows)["title"]
        rows.append(
            {
                "id": f"r{draw.randint(0, 10**6)}-{i}",
                "title": title,
                "body": bodies[: draw.randint(1, 2)],
                "group": draw.choice([None, None, f"g{draw.randint(0, count // 4)}"]),
                "day": draw.choice([None, date(2024, 1, 1) + timedelta(draw.randint(0, 5))]),
                "topic": draw.choice(["news", "law", "sport"]),
            }
        )
    return rows


def source_of(rows: list[dict[str, Any]]) -> dp.sources.MemorySource:
    """Return such records as a source."""
    names = {"id": "id", "anchor": "title", "positive": "body", "group": "group", "date": "day"}
    return dp.sources.MemorySource(rows, meta=["topic"], **names)


def odd_corpus(path: Path, count: int, seed: int, *, sources: int = 1, **options: Any) -> dp.Corpus:
    """A corpus of such records, opened with options."""
    copied(path, _filled, count, seed, sources)
    return dp.Corpus(path, **options)


def _filled(path: Path, count: int, seed: int, sources: int) -> dp.Corpus:
    corpus = dp.Corpus(path)
    for number in range(sources):
        source = source_of(records(count, seed + number))
        corpus.ingest(source, name=f"odd{number}")
    corpus.split(0.7, 0.2, 0.1, seed=seed)
    return corpus


def sections(corpus: dp.Corpus) -> list[Section]:
    """Every live section."""
    rows = corpus.sql(
        """
        SELECT s.section_key, r.record_key, r.record_id, r.source, r.split, s.role, s.position,
            s.text, r.group_key, r.date, r.meta['topic']
        FROM sections s JOIN live_records r USING (record_key) ORDER BY s.section_key
        """
    )
    return [Section(*row.values()) for row in rows.to_pylist()]


def mined(corpus: dp.Corpus) -> list[tuple[Any, ...]]:
    """Return everything that was mined, but for keys of minings."""
    table = corpus.sql("SELECT * EXCLUDE (generation) FROM candidates ORDER BY ALL")
    return [tuple(row.values()) for row in table.to_pylist()]


Allowed = Callable[[Section, Section], bool]

# What a recipe is told, and the same in Python.
STRATEGIES: dict[str, tuple[Any, Allowed]] = {
    "other_record": ("other_record", lambda a, n: True),
    "other_date": ("other_date", lambda a, n: a.date != n.date),
    "equality": (
        dp.sql("negative.meta['topic'] = anchor.meta['topic']"),
        lambda a, n: a.topic == n.topic,
    ),
    "inequality": (
        dp.sql("negative.meta['topic'] <> anchor.meta['topic']"),
        lambda a, n: a.topic != n.topic,
    ),
    "order": (
        dp.sql("negative.date > anchor.date"),
        lambda a, n: a.date is not None and n.date is not None and n.date > a.date,
    ),
}


class Oracle:
    """Which documents each anchor of one source and split may get, with their scores."""

    def __init__(
        self,
        everything: list[Section],
        source: str,
        split: str,
        *,
        allowed: Allowed = lambda anchor, negative: True,
        negative_role: str = "context",
    ) -> None:
        here = [s for s in everything if (s.source, s.split) == (source, split)]
        self.documents = [s for s in here if s.role == negative_role]
        self.anchors = [s for s in here if s.role == "anchor"]
        self.positives = defaultdict(list)
        for section in here:
            if section.role == "context":
                self.positives[section.record].append(section)
        self.anchors = [
            a for a in self.anchors if any(p.text != a.text for p in self.positives[a.record])
        ]
        self._known, self._own = defaultdict(set), defaultdict(set)
        for anchor in here:
            if anchor.role == "anchor":
                self._known[anchor.normal] |= {p.normal for p in self.positives[anchor.record]}
        for section in everything:
            if section.split == split and section.role != "rejected":
                self._own[section.group or section.record].add(section.normal)
        self._allowed = allowed

    def legal(self, anchor: Section, negative: Section) -> bool:
        """Whether one may be the other's negative."""
        return (
            negative.record != anchor.record
            and (anchor.group is None or negative.group != anchor.group)
            and negative.normal not in self._own[anchor.group or anchor.record]
            and negative.normal not in self._known[anchor.normal]
            and self._allowed(anchor, negative)
        )

    def check(self, corpus: dp.Corpus, recipe: str, *, depth: int, sample: int = 10**9) -> int:
        """Compare what was mined with everything there is; returns the negatives compared."""
        rows = corpus.sql(
            "SELECT anchor_section_key, negative_section_key, score FROM candidates "
            "WHERE recipe = $recipe ORDER BY anchor_section_key, rank",
            {"recipe": recipe},
        )
        mined = defaultdict(list)
        for anchor, negative, score in zip(*(c.to_pylist() for c in rows.columns), strict=True):
            mined[anchor].append((negative, score))
        compared = 0
        anchors = random.Random(0).sample(self.anchors, min(sample, len(self.anchors)))
        by_key = {s.key: s for s in self.documents}
        index = peer({s.key: s.text for s in self.documents}, Terms())
        with closing(index.database):
            for anchor in anchors:
                scores = index.scores(anchor.text)
                ranked = sorted(
                    (by_key[key] for key in scores if self.legal(anchor, by_key[key])),
                    key=lambda s: (-round(scores[s.key], 5), s.record_id, s.position),
                )
                found = mined[anchor.key]
                assert len(found) == min(depth, len(ranked)), anchor
                for (key, score), best in zip(found, ranked, strict=False):
                    assert abs(score - scores[key]) < 1e-5
                    assert abs(scores[key] - scores[best.key]) < 1e-5
                    if key != best.key:  # else two that differ by less than an impact's rounding
                        assert scores[key] != scores[best.key]
                compared += len(found)
        return compared
