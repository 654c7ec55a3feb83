"""A corpus with everything that a report tells of: sources, gates, minings and saved runs."""

from __future__ import annotations

import random
from pathlib import Path

from prebuilt import prebuilt

import duckplets as dp
from duckplets.quality.settings import Quality
from duckplets.testing import toy_records

HOSTILE = [
    "</script><script>document.title = 'acted'</script>",
    "<!-- <script> <img src=x onerror=\"document.title='acted'\">",
    "\"quoted\" 'single' `back` & &amp; {{ 7 * 7 }} {% raw %}",
    "\x1b[2J controls \x00\x07 and \u202eturned round\u202c \u2066isolated \u2028 lines \ufeff",
    "javascript:document.title='acted' $texts $value found_list -- '); DROP TABLE records; --",
]
"""Texts and names that try to be something else."""

NAMES = ("plain", "<b>bold<img src=x onerror=document.title=1> 'quoted\" &amp; $texts עברית")
"""Names of the sources."""

HARD = dp.TripletRecipe(
    "hard",
    dp.role("anchor"),
    dp.role("context"),
    dp.role("context"),
    by=dp.Negatives(by="bm25", range_max=4),
    sources=[NAMES[1]],
)
EASY = dp.TripletRecipe("easy", dp.role("anchor"), dp.role("context"), dp.role("context"))
MIXTURE = dp.Mixture(
    {NAMES[0]: 3, NAMES[1]: 1}, phases=[dp.Phase(12, {NAMES[0]: 1, NAMES[1]: 3}, lr_scale=0.5)]
)


def _gated(count: int, seed: int) -> list[dict[str, str]]:
    """Rows of which some are too short, some equal, and some hold personal data."""
    draw, rows = random.Random(seed), toy_records(count, seed=seed)
    for number, row in enumerate(rows):
        row["body"] = f"The {row['body']}. It is of the {row['topic']}, and that is all there is."
        if number % 9 == 0:
            row["body"] = rows[0]["body"]
            row["title"] = rows[0]["title"]
        if number % 11 == 0:
            row["body"] += f" Write to jane{draw.randint(1, 9)}@example.org or call 212-555-0123."
    return rows


@prebuilt
def told_corpus(path: Path, count: int = 30) -> dp.Corpus:
    """Two sources, one through gates; hostile texts; two recipes, one mined."""
    corpus = dp.Corpus(path)
    mapping = {"id": "id", "anchor": "title", "positive": "body", "meta": ["topic"]}
    hostile = [
        {"id": f"h{i}", "title": text, "body": f"{text} and {i}", "topic": text}
        for i, text in enumerate(HOSTILE * 4)
    ]
    rows = [*toy_records(count), *hostile, {"id": "blank", "title": "x", "body": " ", "topic": ""}]
    corpus.ingest(rows, name=NAMES[1], **mapping)
    gates = Quality(language=None, pii="reject")
    corpus.ingest(_gated(count, 5), name=NAMES[0], quality=gates, **mapping)
    corpus.split(0.7, 0.15, 0.15, seed=1)
    for recipe in (HARD, EASY):
        corpus.add_recipe(recipe)
    corpus.mine(split="train")
    return corpus


def train(corpus: dp.Corpus, steps: int = 20) -> None:
    """Draw and save a run, half of it."""
    with corpus.sampler(mixture=MIXTURE, batch_size=8, steps=2 * steps) as sampler:
        for _ in range(steps):
            next(sampler)
        sampler.save()
