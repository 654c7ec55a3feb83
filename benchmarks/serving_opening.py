"""Measures processes to their first batch: small corpora and large ones, resumed, cold, and so on.

Each is started several times; see first_batch.py.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import first_batch
import serving_corpora as corpora
import serving_memory

SAMPLING = 5.0  # seconds until memory is looked at again
COLD = 10.0  # seconds from the start of a process that finds no page in memory
OPENINGS = 3  # after one that does not count
SOURCES = 0  # besides a hundred

Found = dict[str, float]


def hurry() -> None:
    """Measure shortly, for what does not count."""
    global SAMPLING, COLD, OPENINGS
    SAMPLING, COLD, OPENINGS = 0.1, 0.5, 1


def _child(corpus: Path, state: Path | str = "", seconds: float = 0.0) -> Found:
    command = [sys.executable, first_batch.__file__]
    told = [str(time.monotonic()), str(corpus), str(state), str(seconds)]
    done = subprocess.run([*command, *told], stdout=subprocess.PIPE, text=True, check=True)
    found: Found = json.loads(done.stdout)
    return found


def _opening(corpus: Path, state: Path | str = "") -> Found:
    """Return the medians of several processes to their first batch, and of one that goes on."""
    if OPENINGS > 1:
        _child(corpus, state)
    every = [_child(corpus, state) for _ in range(OPENINGS)]
    found = {name: statistics.median(one[name] for one in every) for name in every[0]}
    later = _child(corpus, state, found["wall_s"] + SAMPLING)
    return found | {name: later[name] for name in ("later_anonymous_mb", "later_peak_mb")}


def open_small(folder: Path, records: int) -> Found:
    return _opening(corpora.plain(folder, corpora.SMALL))


def open_small_snapshot(folder: Path, records: int) -> Found:
    copy = corpora.copied(corpora.plain(folder, corpora.SMALL), "prepared")
    return _opening(corpora.prepared(copy))


def open_all(folder: Path, records: int) -> Found:
    return _opening(corpora.prepared(corpora.plain(folder, records)))


def open_far(folder: Path, records: int) -> Found:
    path = corpora.prepared(corpora.plain(folder, records))
    return _opening(path, corpora.saved_far(path))


def open_100_sources(folder: Path, records: int) -> Found:
    return _opening(corpora.many(folder, 100))


def open_100_sources_snapshot(folder: Path, records: int) -> Found:
    copy = corpora.copied(corpora.many(folder, 100), "prepared")
    return _opening(corpora.prepared(copy))


def open_many_sources(folder: Path, records: int) -> Found:
    return _opening(corpora.prepared(corpora.many(folder, SOURCES))) | {"sources": SOURCES}


def cold(folder: Path, records: int) -> Found:
    """A process that finds no page of the corpus and its snapshot in memory."""
    path = corpora.prepared(corpora.plain(folder, records))
    files = [path, *corpora.served_from(path)]
    serving_memory.evict(files)
    left = sum(map(serving_memory.resident_mb, files))
    found = _child(path, "", COLD)
    return found | {"resident_before_mb": left}


MEASUREMENTS = (
    *(open_small, open_small_snapshot, open_all, open_far),
    *(open_100_sources, open_100_sources_snapshot, open_many_sources, cold),
)
