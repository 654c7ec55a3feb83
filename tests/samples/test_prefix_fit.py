"""A prefix and its text are no longer than a window: the text gives way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from effort import some
from test_prefix_draws import set_source
from tokenizer_files import byte_level, encoder, lossy, word_level

import duckplets as dp
from duckplets.text.prefix import Field, Prefix


def long_records(seed: int, words: Sequence[str]) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    spaces = [" ", "  ", "\n", "\t", " \u3000"]
    return [
        {
            "id": i,
            "text": "".join(
                draw.choice(words) + draw.choice(spaces) for _ in range(draw.randint(1, 60))
            )
            + str(i),
        }
        for i in range(60)
    ]


LONG = Prefix(
    0.8,
    [
        [Field("key", ["one two three", "four", "five six"], 0.7), Field("naïve", "the fox!")],
        [Field("w", [" ".join(["word"] * n) for n in (1, 7, 8, 9, 15)])],
    ],
)


@pytest.mark.parametrize("most", some([1, 2, 8, 9, 20, 60], less=3))
def test_prefix_and_text_are_no_longer_than_a_window(tmp_path: Path, most: int) -> None:
    words = ["the", "fox", "café", "漢字漢字", "dog—the", "x"]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.chunk(dp.Chunking(max_tokens=most, overlap=(0,), summary_tokens=0))
        corpus.ingest(dp.MemorySource(long_records(1, words), text="text", id="id"), name="s")
        corpus.split(train=1.0, validation=0.0, test=0.0)
        recipes = [dp.TextRecipe("all", dp.any_section(), per="chunk")]
        arguments: dict[str, Any] = {"kind": "texts", "recipes": recipes, "batch_size": 64}
        plain = corpus.sampler(**arguments, columns=["text"], steps=30)
        before = [text for batch in plain for text in batch["text"]]
        set_source(corpus, LONG)
        columns = ["text", "text_prefix", "text_tokens"]
        after = corpus.sampler(**arguments, columns=columns, steps=30)
        rows = [row for batch in after for row in batch.to_pylist()]
    cut = alone = 0
    for text, row in zip(before, rows, strict=True):
        line, served = row["text_prefix"], row["text"]
        assert row["text_tokens"] == len(text.split())
        if line is None:
            assert served == text
            continue
        # Exactly as many words as fit, and not a character changed up to there.
        whole = f"{line}\n{text}"
        assert served.split() == whole.split()[:most]
        assert whole.startswith(served)
        if len(line.split()) >= most:
            assert served == line
            alone += 1
        cut += served != whole
    assert cut > 50 or most == 60
    assert alone > 50 or most >= 20


@pytest.mark.parametrize(
    ("make", "most"), some(product([word_level, byte_level, lossy], [3, 12, 40]), less=3)
)
def test_with_a_tokenizer_file_too(tmp_path: Path, make: Any, most: int) -> None:
    path = make(tmp_path / "tokenizer.json")
    words = ["the", "fox", "café", "ab", "b!", "quick brown", "!", "漢é😀", "over", "abab"]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        chunking = dp.Chunking(max_tokens=most, overlap=(0,), summary_tokens=0, tokenizer=str(path))
        corpus.chunk(chunking)
        corpus.ingest(dp.MemorySource(long_records(2, words), text="text", id="id"), name="s")
        corpus.split(train=1.0, validation=0.0, test=0.0)
        set_source(corpus, LONG)
        recipes = [dp.TextRecipe("all", dp.any_section(), per="chunk")]
        sampler = corpus.sampler(
            "texts", recipes=recipes, batch_size=64, steps=20, columns=["text", "text_prefix"]
        )
        rows = [row for batch in sampler for row in batch.to_pylist()]
    encode = encoder(path).encode
    longest = 0
    for row in rows:
        if row["text_prefix"] is not None:
            assert row["text"].startswith(row["text_prefix"])
            longest = max(longest, len(encode(row["text"], add_special_tokens=False).ids))
    assert most * 3 // 4 <= longest <= most
