"""A prefix and its text are no longer than a window: the text gives way."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from effort import some
from test_prefix_draws import set_source
from tokenizer_files import byte_level, encoder, lossy, word_level

import duckplets as dp
from duckplets.text.prefix import Field, Prefix

LONG = Prefix(
    0.8,
    [
        [Field("key", ["one two three", "four", "five six"], 0.7), Field("naïve", "the fox!")],
        [Field("w", [" ".join(["word"] * n) for n in (1, 7, 8, 9, 15)])],
    ],
)


WORDS = ["the", "fox", "café", "ab", "b!", "quick brown", "!", "漢é😀", "over", "abab"]


def served(path: Path, chunking: dp.Chunking, *, prefix: bool) -> list[dict[str, Any]]:
    draw = random.Random(1)
    spaces = [" ", "  ", "\n", "\t", " \u3000"]
    texts = [
        "".join(draw.choice(WORDS) + draw.choice(spaces) for _ in range(draw.randint(1, 60)))
        for _ in range(60)
    ]
    with dp.Corpus(path) as corpus:
        corpus.chunk(chunking)
        rows = [{"id": i, "text": f"{text}{i}"} for i, text in enumerate(texts)]
        corpus.ingest(dp.MemorySource(rows, text="text", id="id"), name="s")
        corpus.split(train=1.0, validation=0.0, test=0.0)
        set_source(corpus, LONG if prefix else None)
        recipes = [dp.TextRecipe("all", dp.any_section(), per="chunk")]
        columns = ["text", "text_prefix", "text_tokens"]
        sampler = corpus.sampler("texts", recipes=recipes, batch_size=1600, columns=columns)
        return next(sampler).to_pylist()


@pytest.mark.parametrize("most", some([1, 2, 8, 9, 20, 60], less=3))
def test_prefix_and_text_are_no_longer_than_a_window(tmp_path: Path, most: int) -> None:
    chunking = dp.Chunking(max_tokens=most, overlap=(0,), summary_tokens=0)
    before, after = (
        served(tmp_path / f"{prefix}.duckdb", chunking, prefix=prefix) for prefix in (False, True)
    )
    cut = alone = 0
    for plain, row in zip(before, after, strict=True):
        line, text = row["text_prefix"], plain["text"]
        assert row["text_tokens"] == len(text.split())
        if line is None:
            assert row["text"] == text
            continue
        # Exactly as many words as fit, and not a character changed up to there.
        whole = f"{line}\n{text}"
        assert row["text"].split() == whole.split()[:most]
        assert whole.startswith(row["text"])
        if len(line.split()) >= most:
            assert row["text"] == line
            alone += 1
        cut += row["text"] != whole
    assert cut > 40 or most == 60
    assert alone > 40 or most >= 20


@pytest.mark.parametrize(
    ("make", "most"), some(product([word_level, byte_level, lossy], [3, 12, 40]), less=3)
)
def test_with_a_tokenizer_file_too(tmp_path: Path, make: Any, most: int) -> None:
    path = make(tmp_path / "tokenizer.json")
    chunking = dp.Chunking(max_tokens=most, overlap=(0,), summary_tokens=0, tokenizer=str(path))
    encode = encoder(path).encode
    longest = 0
    for row in served(tmp_path / "c.duckdb", chunking, prefix=True):
        if row["text_prefix"] is not None:
            assert row["text"].startswith(row["text_prefix"])
            longest = max(longest, len(encode(row["text"], add_special_tokens=False).ids))
    assert most * 3 // 4 <= longest <= most
