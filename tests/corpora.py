"""Corpora for tests, and plain-Python views of them to check against."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from prebuilt import prebuilt

import duckplets as dp
from duckplets.samples.columns import slot_names


def counts_of(sampler: Any) -> dict[str, float]:
    """What a sampler has taken of every source, of its metrics: that does not depend on time."""
    return {name: of for name, of in sampler.metrics().items() if name.startswith("data/")}


WORDS = [
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"),
    *("lambda", "mu", "nu", "xi", "omicron", "pi"),
]


@dataclass(frozen=True)
class Window:
    """A chunk with everything a rule may look at."""

    key: int
    record: int
    record_id: str
    source: str
    split: str
    role: str
    position: int
    kind: str
    text: str
    date: date | None
    topic: str | None
    area: str | None
    section: str  # the whole text


def odd_records(count: int, seed: int, *, repeats: float = 0.2) -> list[dict[str, Any]]:
    """Records with everything that complicates drawing: repeated texts, gaps, long bodies."""
    draw = random.Random(seed)
    records = []
    for i in range(count):
        body = " ".join(draw.choices(WORDS, k=draw.randint(1, 40)))
        notes = [" ".join(draw.choices(WORDS, k=draw.randint(1, 25))) for _ in range(2)]
        if draw.random() < repeats:
            body = "the same body everywhere"
        title = f"title {i}" if draw.random() > repeats else draw.choice(["twin", body])
        day = date(2024, 1, 1) + timedelta(days=draw.randint(0, 20))
        records.append(
            {
                "id": f"r{i}",
                "title": title,
                "body": body,
                "notes": notes[: draw.randint(1, 2)],
                "day": day if draw.random() > repeats else None,
                "topic": draw.choice(["news", "law", "sport"]),
                "area": draw.choice(["north", "south"]),
            }
        )
    return records


ODD_MAPPING: dict[str, Any] = {
    "id": "id",
    "anchor": "title",
    "positive": "body",
    "context": "notes",
    "date": "day",
    "taxonomy": "area",
    "meta": ["topic"],
}


@prebuilt
def odd_corpus(
    path: Path, count: int, seed: int, *, repeats: float = 0.2, sources: int = 1
) -> dp.Corpus:
    """A corpus of odd records with windows of twelve tokens."""
    corpus = dp.Corpus(path)
    for n in range(sources):
        corpus.ingest(odd_records(count, seed + n, repeats=repeats), name=f"odd{n}", **ODD_MAPPING)
    corpus.split(0.6, 0.2, 0.2, seed=seed)
    corpus.chunk(dp.Chunking(max_tokens=12, overlap=(3,), summary_tokens=6))
    return corpus


def all_windows(corpus: dp.Corpus) -> list[Window]:
    """Every window of a corpus."""
    rows = corpus.sql(
        """
        SELECT c.chunk_key, c.record_key, r.record_id, r.source, r.split, s.role, s.position,
            c.kind, substring(s.text, c.start + 1, c.length), r.date, r.meta['topic'],
            r.taxonomy[1], s.text
        FROM chunks c JOIN sections s USING (section_key)
        JOIN live_records r ON r.record_key = c.record_key
        ORDER BY c.chunk_key
        """
    )
    return [Window(*row.values()) for row in rows.to_pylist()]


def by_record(windows: list[Window]) -> dict[int, list[Window]]:
    """Windows grouped by record."""
    groups: dict[int, list[Window]] = defaultdict(list)
    for window in windows:
        groups[window.record].append(window)
    return groups


def samples(sampler: dp.Sampler, count: int) -> Iterator[dict[str, Any]]:
    """The next so many samples, row by row."""
    left = count
    for batch in sampler:
        rows = batch.to_pylist()[:left]
        yield from rows
        left -= len(rows)
        if not left:
            return


def batches_of(sampler: Any, steps: int) -> list[Any]:
    """The batches of a run's first steps, wherever it stands; by blocks, as one costs 8 ms."""
    size = sampler.settings.batch_size * sampler.settings.world_size
    return [*sampler.reader.between(0, steps * size)]


def rows_of(sampler: Any, steps: int) -> list[dict[str, Any]]:
    """The samples of a run's first steps, wherever it stands."""
    return [row for batch in batches_of(sampler, steps) for row in batch.to_pylist()]


def negative_slots(negatives: int) -> list[str]:
    """The columns of the negatives of a triplet."""
    return slot_names("triplets", negatives)[2:]
