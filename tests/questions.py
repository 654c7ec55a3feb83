"""Questions and answers with everything that guards look at, and the rules in plain Python."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mining_oracle import STRATEGIES, Section, sections
from prebuilt import prebuilt

import duckplets as dp
from duckplets.recipes.mined import Mined

ANCHOR, CONTEXT = dp.role("anchor"), dp.role("context")
RECIPE = dp.TripletRecipe("asked", ANCHOR, CONTEXT, CONTEXT, by="given")
SAME_TOPIC, OTHER_TOPIC = (
    dp.TripletRecipe("asked", ANCHOR, CONTEXT, CONTEXT, strategy=STRATEGIES[of][0], by="given")
    for of in ("equality", "inequality")
)
AMONG_ANCHORS = dp.TripletRecipe("asked", ANCHOR, CONTEXT, ANCHOR, by="given")
SOME_TOPIC = dp.TripletRecipe(
    *("asked", dp.role("anchor", where="meta['topic'] <> 'law'"), CONTEXT),
    dp.role("context", where="meta['topic'] <> 'art'"),
    by="given",
)

Rows = list[dict[str, Any]]


@prebuilt
def build(path: Path, seed: int = 1, count: int = 60) -> dp.Corpus:
    """Two sources of questions and answers, with groups, and texts that are nearly the same."""
    draw = random.Random(seed)
    corpus = dp.Corpus(path)
    for source in ("one", "two"):
        records = []
        for i in range(count):
            question, answer = f"question {source} {i}", f"answer {source} {i}"
            if draw.random() < 0.3:
                question = draw.choice(["Was ist  Käse?", "was ist käse?", "Wie alt?", "WIE ALT?"])
            if draw.random() < 0.3:
                answer = draw.choice(["Sehr alt", "sehr\talt ", "wie alt?", "Kase", "Ka\u0308se"])
            topic = draw.choice(["law", "art", "news"])
            group = draw.choice(["g1", "g2", None, None, None])
            records.append({"id": f"r{i}", "q": question, "a": answer, "topic": topic, "g": group})
        corpus.ingest(
            records, name=source, id="id", anchor="q", positive="a", meta=["topic"], group="g"
        )
    corpus.split(0.7, 0.0, 0.3, seed=seed)
    return corpus


Record = dict[str, Section]  # by role


def records_of(corpus: dp.Corpus) -> dict[str, Record]:
    records: dict[str, Record] = defaultdict(dict)
    for section in sections(corpus):
        records[section.record_id][section.role] = section
    return records


def fates_of(policy: Mined, scores: list[float], positive: float | None) -> list[str]:
    """Return what becomes of the candidates of one anchor, one by one."""
    fates, survivors = [], 0
    for score in scores:
        fate = _removed_by(policy, score, positive)
        if not fate:
            fate = "kept" if policy.range_min <= survivors < policy.range_max else "range"
            survivors += 1
        fates.append(fate)
    return fates


def _removed_by(policy: Mined, score: float, positive: float | None) -> str:
    absolute, relative = policy.absolute_margin, policy.relative_margin
    if positive is not None and absolute is not None and score + absolute > positive:
        return "absolute_margin"
    high = math.inf
    if positive is not None and relative is not None:
        high = positive - abs(positive) * relative
    if score > high:
        return "relative_margin"
    if policy.max_score is not None and score > policy.max_score:
        return "max_score"
    return "min_score" if policy.min_score is not None and score < policy.min_score else ""


def _asked(record: Record) -> tuple[str, str, str]:
    anchor = record["anchor"]
    return anchor.source, anchor.split, anchor.normal


def _family(record: Record) -> tuple[str, str]:
    return record["anchor"].split, record["anchor"].group or record["anchor"].record_id


class Expected:
    """The rules, row by row, for recipes of one anchor and one positive a record."""

    def __init__(self, corpus: dp.Corpus, recipe: dp.TripletRecipe) -> None:
        self.records, self.recipe = records_of(corpus), recipe
        self.role = "anchor" if recipe is AMONG_ANCHORS else "context"
        self.answers: dict[Any, set[str]] = defaultdict(set)
        self.anchors = set()
        self.own: dict[Any, set[str]] = defaultdict(set)  # of a group in all sources
        for name, record in self.records.items():
            self.answers[_asked(record)].add(record["context"].normal)
            self.own[_family(record)] |= {of.normal for of in record.values()}
            if recipe is not SOME_TOPIC or record["anchor"].topic != "law":
                self.anchors.add(name)
        self.anchors = {anchor for anchor in self.anchors if any(self.candidates(anchor))}

    def candidates(self, anchor: str) -> Iterator[str]:
        for name in self.records:
            if self.fate({"anchor_id": anchor, "negative_id": name}) == "candidate":
                yield name

    def fate(self, row: dict[str, Any]) -> str:
        if row["anchor_id"] not in self.records:
            return "unknown anchor"
        if row["negative_id"] not in self.records:
            return "unknown negative"
        if row["anchor_id"] not in self.anchors:
            return "not an anchor of the recipe"
        if row["anchor_id"] == row["negative_id"]:
            return "positive"
        record = self.records[row["anchor_id"]]
        anchor, negative = record["anchor"], self.records[row["negative_id"]][self.role]
        if (anchor.source, anchor.split) != (negative.source, negative.split):
            return "other source or split"
        if self.recipe is SOME_TOPIC and negative.topic == "art":
            return "not a negative of the recipe"
        if anchor.group is not None and anchor.group == negative.group:
            return "same group"
        if negative.normal in self.own[_family(record)] | self.answers[_asked(record)]:
            return "same text"
        same = anchor.topic == negative.topic
        refused = (self.recipe is SAME_TOPIC and not same) or (self.recipe is OTHER_TOPIC and same)
        return "strategy" if refused else "candidate"

    def kept(self, rows: Rows, settings: Mined) -> tuple[dict[str, list[Any]], Counter[str]]:
        """Kept (record, score) of every anchor, and what became of all rows."""
        counts: Counter[str] = Counter()
        best: dict[str, dict[str, float]] = defaultdict(dict)
        positives: dict[str, float] = {}
        seen = set()
        for row in rows:
            fate, anchor, score = self.fate(row), row["anchor_id"], row["score"]
            if fate in ("candidate", "same group", "same text", "strategy"):
                pair = (anchor, row["negative_id"])
                if pair in seen:
                    counts["duplicate row"] += 1
                elif fate != "candidate":
                    counts[fate] += 1
                seen.add(pair)
                if fate == "candidate":
                    before = best[anchor].get(pair[1], -math.inf)
                    best[anchor][pair[1]] = max(score, before)
                continue
            if fate == "positive":
                positives[anchor] = min(score, positives.get(anchor, math.inf))
            counts[fate] += 1
        kept = {}
        for anchor, mine in best.items():
            ranked = sorted(mine.items(), key=lambda pair: (-pair[1], pair[0]))
            fates = fates_of(settings, [score for _, score in ranked], positives.get(anchor))
            kept[anchor] = [one for one, fate in zip(ranked, fates, strict=True) if fate == "kept"]
            counts.update(fates)
        return kept, counts


def random_rows(corpus: dp.Corpus, seed: int, count: int) -> Rows:
    draw = random.Random(seed)
    names = [*records_of(corpus), "one/nothing", "nowhere"]
    rows = []
    for _ in range(count):
        anchor = draw.choice(names)
        negative = anchor if draw.random() < 0.05 else draw.choice(names)
        score = draw.choice([draw.randrange(-3, 4), draw.uniform(-4, 4)])
        rows.append({"anchor_id": anchor, "negative_id": negative, "score": float(score)})
    return rows


def stored(corpus: dp.Corpus) -> dict[str, list[Any]]:
    rows = corpus.sql(
        """
        SELECT anchor_record_id, negative_record_id, score FROM hard_negatives
        ORDER BY anchor_record_id, rank
        """
    )
    found = defaultdict(list)
    for anchor, negative, score in zip(*rows.to_pydict().values(), strict=True):
        found[anchor].append((negative, score))
    return dict(found)


def legal_rows(corpus: dp.Corpus) -> Rows:
    """Rows of four candidates for every anchor of the first source, and of its positive."""
    expected = Expected(corpus, RECIPE)
    rows: Rows = []
    for anchor in sorted(expected.anchors):
        if expected.records[anchor]["anchor"].source != "one":
            continue
        for i, name in enumerate(islice(expected.candidates(anchor), 4)):
            rows.append({"anchor_id": anchor, "negative_id": name, "score": 4.0 - i})
        rows.append({"anchor_id": anchor, "negative_id": anchor, "score": 2.0})
    return rows
