"""Vectors that follow from texts, so that every one can be compared with what it should be."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import duckplets as dp
from duckplets.vectors.store import VectorSet, VectorStore

DIMENSION = 6
SHARED = "one text that many records have"


def vector(text: str) -> npt.NDArray[np.float32]:
    """Return the vector of a text; each of another text is another."""
    found = hashlib.sha256(text.encode()).digest()[:DIMENSION]
    return np.frombuffer(found, np.uint8).astype(np.float32)


def vectors(texts: list[str]) -> npt.NDArray[np.float32]:
    return np.stack([vector(text) for text in texts])


def hashed(text: str) -> int:
    """Return what a text is known by: the lower 64 bits of its MD5."""
    return int.from_bytes(hashlib.md5(text.encode()).digest()[8:], "little")


def records(prefix: str, count: int) -> list[dict[str, Any]]:
    """Return records: long ones with several windows, and some with equal texts."""
    return [
        {
            "id": f"r{i}",
            "title": f"{prefix} title {i}",
            "body": SHARED if i % 5 == 0 else " ".join(f"{prefix}{i}w{j}" for j in range(4 + i)),
            "topic": "a" if i % 2 else "b",
        }
        for i in range(count)
    ]


def windowed(path: Path) -> dp.Corpus:
    """Make a corpus of windows, prefixes, equal texts, and records that were replaced."""
    corpus = dp.Corpus(path)
    corpus.chunk(dp.Chunking(max_tokens=8, overlap=(2,), summary_tokens=3))
    prefix = dp.Prefix(0.7, [[dp.Field("kind", ["a", "b"], 0.8)]])
    for prefix_of, count in (("old", 12), ("new", 24)):
        corpus.ingest(
            records(prefix_of, count),
            name="s",
            on_conflict="replace",
            options=dp.IngestOptions(prefix=prefix),
            anchor="title",
            positive="body",
            id="id",
            meta=["topic"],
        )
    corpus.split(train=1, validation=0, test=0)
    return corpus


def texts_of(corpus: dp.Corpus) -> dict[int, str]:
    """Return the bare text of every chunk by its key."""
    found = corpus.sql(
        "SELECT chunk_key, substr(text, start + 1, length) AS text "
        "FROM chunks JOIN sections USING (section_key) ORDER BY chunk_key"
    )
    return dict(zip(found["chunk_key"].to_pylist(), found["text"].to_pylist(), strict=True))


def filled(
    corpus: dp.Corpus,
    name: str = "default",
    *,
    commits: int = 1,
    texts: Collection[str] | None = None,
) -> VectorStore:
    """Give texts of a corpus, or all, their vectors in some commits."""
    store = VectorStore(corpus.path)
    of = VectorSet(name, DIMENSION, "float32", {"by": "a test"})
    texts = sorted(set(texts_of(corpus).values()) if texts is None else texts)
    for part in range(commits):
        mine = texts[part::commits]
        store.append(of, [(np.array([hashed(t) for t in mine], np.uint64), vectors(mine))])
    return store


class Oracle:
    """Says what vector a slot of a sample must have: that of its span of its section.

    Args:
        corpus: Of the samples.
    """

    DETAILS = ("record_id", "section", "start", "length")

    def __init__(self, corpus: dp.Corpus) -> None:
        rows = corpus.sql(
            "SELECT record_id, position, text FROM sections JOIN records USING (record_key) "
            "WHERE removed_version IS NULL"
        ).to_pylist()
        self._texts = {(row["record_id"], row["position"]): row["text"] for row in rows}

    def columns(self, slots: list[str]) -> list[str]:
        return [f"{s}_{d}" for s in slots for d in self.DETAILS]

    def expected(self, batch: dp.Batch, slot: str) -> npt.NDArray[np.float32]:
        details = zip(*(batch[f"{slot}_{d}"] for d in self.DETAILS), strict=True)
        return vectors([self._texts[r, s][at : at + size] for r, s, at, size in details])
