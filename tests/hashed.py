"""An embedder for tests: a vector is a hash of its text, so each can be told from all others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import duckplets as dp
from duckplets.vectors.store import VectorStore

DIMENSION = 8


def hashed(texts: Iterable[str]) -> NDArray[np.float32]:
    """Return a vector for each text, (texts, 8), with numbers from -1 to 1."""
    digests = [hashlib.blake2b(text.encode(), digest_size=DIMENSION).digest() for text in texts]
    numbers = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIMENSION)
    return np.asarray(numbers / 127.5 - 1, np.float32)


class Embedder:
    """Embeds so, and remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str]) -> Any:
        """Return the vectors of some texts."""
        self.calls.append(texts)
        return hashed(texts)

    @property
    def texts(self) -> list[str]:
        """All that it was called with."""
        return [text for call in self.calls for text in call]


def texts_of(corpus: dp.Corpus) -> dict[int, str]:
    """Return the texts of all chunks of live records by their hashes."""
    found = corpus.sql(
        """
        SELECT DISTINCT text_hash, substring(sections.text, start + 1, length) AS text
        FROM chunks
        JOIN sections USING (section_key)
        JOIN live_records ON live_records.record_key = chunks.record_key
        """
    )
    return dict(zip(found["text_hash"].to_pylist(), found["text"].to_pylist(), strict=True))


def kept(path: Path, name: str = "default") -> dict[int, NDArray[Any]]:
    """Return the vectors of a set by their hashes; none where there is no such set."""
    store = VectorStore(path)
    of = store.find(name)
    blocks = store.read(of) if of is not None else ()
    found = {
        int(each): vector
        for hashes, matrix in blocks
        for each, vector in zip(hashes, matrix, strict=True)
    }
    assert of is None or len(found) == of.vectors
    return found


def reasons(path: Path, name: str = "default") -> dict[int, str]:
    """Return why texts of a set failed, by their hashes."""
    store = VectorStore(path)
    table = store.failures(store.need(name))
    return dict(zip(table["text_hash"].to_pylist(), table["reason"].to_pylist(), strict=True))


def check_whole(corpus: dp.Corpus, name: str = "default") -> None:
    """Check that every text has its own vector, and nothing else one."""
    texts, vectors = texts_of(corpus), kept(corpus.path, name)
    assert vectors.keys() == texts.keys()
    wanted = hashed(texts.values())
    assert np.array_equal(np.stack([vectors[each] for each in texts]), wanted)
