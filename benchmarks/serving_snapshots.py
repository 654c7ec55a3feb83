"""Measures making snapshots: time, memory, and bytes on disk."""

from __future__ import annotations

import time
from pathlib import Path

import serving_corpora as corpora
import serving_memory

MORE = 10_000  # records

Found = dict[str, float]


def snapshot(folder: Path, records: int) -> Found:
    """All of it, with the pools of the default runs."""
    path = corpora.plain(folder, records)
    corpora.forget_snapshot(path)
    return _prepare(path) | _sizes(path)


def snapshot_of_more(folder: Path, records: int) -> Found:
    """What comes to it after a further ingest, into a copy of corpus and snapshot."""
    import duckplets as dp

    copy = corpora.copied(corpora.prepared(corpora.plain(folder, records)), "grown")
    made = [(f"new{i}", f"title {i}", f"{i} " + "a body of words " * 25) for i in range(MORE)]
    rows = [dict(zip(("id", "title", "body"), row, strict=True)) for row in made]
    source = dp.sources.MemorySource(rows, anchor="title", positive="body", id="id")
    try:
        with dp.Corpus(copy) as corpus:
            corpus.ingest(source, name="text", progress=False)
        return {"seconds": _prepare(copy)["seconds"]}
    finally:
        corpora.remove(copy)


def snapshot_mined(folder: Path, records: int) -> Found:
    """With candidates, when a run that draws them is opened."""
    import duckplets as dp

    path = corpora.mined(folder, records)
    corpora.forget_snapshot(path)
    found = _prepare(path)
    with dp.Corpus(path, read_only=True) as corpus:
        corpus.sampler(recipes=[corpora.recipe()]).close()
    return found | _sizes(path)


def _prepare(corpus: Path) -> Found:
    import duckplets as dp

    serving_memory.warm([corpus])
    with dp.Corpus(corpus, read_only=True) as opened, serving_memory.Peak() as peak:
        started = time.perf_counter()
        opened.prepare(progress=False)
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "anonymous_mb": peak.mb}


def _sizes(corpus: Path) -> Found:
    """Return the bytes of a snapshot on disk, and of what it holds."""
    import duckplets as dp

    with dp.Corpus(corpus, read_only=True) as opened:
        asked = {
            "text_mb": "SELECT sum(strlen(text)) / 1e6 FROM sections",
            "chunks": "SELECT count(*) FROM chunks",
            "candidates": "SELECT count(*) FROM negatives",
        }
        held = {name: float(opened.sql(query)[0][0].as_py()) for name, query in asked.items()}
    files = corpora.served_from(corpus)
    allowed = 1.2 * held["text_mb"] + (80 * held["chunks"] + 12 * held["candidates"]) / 1e6
    return held | {
        "disk_mb": sum(file.stat().st_size for file in files) / 1e6,
        "allowed_mb": allowed,  # 1.2 bytes for one of text, 80 a chunk, 12 a candidate
    }


MEASUREMENTS = (snapshot, snapshot_of_more, snapshot_mined)
