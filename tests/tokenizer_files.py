"""Small tokenizers in files: of words, of bytes, and one that loses text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TRAINING = ["the quick brown fox jumps", "over the lazy dog\n\nand  over again", "naïve café"] * 4


def word_level(path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "the": 1, "fox": 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(path))
    return path


def prefixing(path: Path) -> Path:
    """A tokenizer of bytes that puts a space before every text."""
    return byte_level(path, add_prefix_space=True)


def byte_level(path: Path, *, add_prefix_space: bool = False) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TRAINING, trainer)
    made.enable_truncation(4)  # as in files saved for training: must not count here
    made.enable_padding(length=9)
    made.save(str(path))
    return path


def lossy(path: Path) -> Path:
    """A tokenizer that drops what it does not know, and exclamation marks."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Punctuation("removed")
    made.save(str(path))
    return path


def encoder(path: Path) -> Any:
    made = pytest.importorskip("tokenizers").Tokenizer.from_file(str(path))
    made.no_truncation()
    made.no_padding()
    return made
