"""Tools for your own tests: a toy corpus, and a check that a sampler resumes anywhere."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from duckplets.corpus.corpus import Corpus
from duckplets.runs.sampler import Sampler
from duckplets.samples.batch import Batch
from duckplets.sources.memory import MemorySource

_WORDS = [
    *("river", "bridge", "stone", "window", "garden", "letter", "winter", "paper", "silver"),
    *("copper", "engine", "harbour", "market", "valley", "cotton", "candle", "mirror"),
    *("ladder", "basket", "anchor", "timber", "pepper", "violin"),
]


def toy_corpus(
    path: str | Path, records: int = 200, *, seed: int = 0, sources: Sequence[str] = ("toy",)
) -> Corpus:
    """Create a small corpus, split into train, validation and test.

    Args:
        path: The path of a new file.
        records: Number of records in each source. A record has a title, a body, a date and a topic.
        seed: Another seed gives other texts.
        sources: Names of the sources.
    """
    corpus = Corpus(path)
    for name in sources:
        source = MemorySource(
            toy_records(records, seed=f"{name} {seed}"),
            anchor="title",
            positive="body",
            id="id",
            date="date",
            meta=["topic"],
        )
        corpus.ingest(source, name=name, progress=False)
    corpus.split(train=0.8, validation=0.1, test=0.1, seed=seed)
    return corpus


def toy_records(count: int, *, seed: int | str = 0) -> list[dict[str, str]]:
    """Return records for ``MemorySource``: ``id``, ``title``, ``body``, ``date``, ``topic``."""
    draw = random.Random(seed)  # noqa: S311 - test data, not secrets
    return [
        {
            "id": f"r{i}",
            "title": f"{' '.join(draw.choices(_WORDS, k=3))} {i}",
            "body": " ".join(draw.choices(_WORDS, k=draw.randint(5, 30))) + f" {i}",
            "date": f"2024-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
            "topic": draw.choice(["news", "law", "sport"]),
        }
        for i in range(count)
    ]


def assert_resumes_everywhere(sampler: Sampler, steps: int = 20) -> None:
    """Check that loading the state of any of the next steps yields the same batches again.

    For every step it loads the state and compares the remaining batches in every column, and
    ``batch_at`` too. The sampler ends at its earlier position.

    Raises:
        AssertionError: A batch differs; the message names its step.
    """
    start = sampler.state_dict()
    states, batches, whole = [], [], []
    for _ in range(steps):
        states.append(sampler.state_dict())
        whole.append(sampler.position == sampler.step * sampler.settings.global_batch)
        batch = next(sampler, None)
        if batch is None:
            states.pop()
            break
        batches.append(batch)
    for i, state in enumerate(states):
        sampler.load_state_dict(state)
        for expected in batches[i:]:
            _assert_equal(next(sampler), expected)
    for expected, is_whole in zip(batches, whole, strict=False):
        if is_whole:
            _assert_equal(sampler.batch_at(expected.step), expected)
    sampler.load_state_dict(start)


def _assert_equal(found: Batch, expected: Batch) -> None:
    if found.position != expected.position or not found.table.equals(expected.table):
        raise AssertionError(
            f"step {expected.step} differs when it is drawn again: {found!r} instead of "
            f"{expected!r}"
        )
