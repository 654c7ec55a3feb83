"""How fast texts are measured and judged, and how often the rules agree with datatrove's.

    python benchmarks/quality_gates.py [--documents 4000] [--rows 100000 1000000]

Prints JSON; > benchmarks/quality_gates.json is what report.py writes the page from. Documents are definitions of WordNet, or English docstrings where that is not there,
with source files and pages of the running Python among them, of about 1,500 characters each.
Languages are measured where py3langid is installed. Beside datatrove where it is: its own filters,
one process, on the same documents (pip install datatrove spacy); rates are documents a second of
processor time.
Intakes are processes of their own, with gates and without, in turns; of documents of 1.5 kB what
they cost, of so many rows of a sentence what they hold in memory, and how long judging takes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import duckplets as dp
from duckplets.db.database import Database
from duckplets.quality.decide import decide
from duckplets.quality.measure import KEYWORD, measure
from duckplets.quality.tokens import counts

WORDNET = Path(__file__).parents[2] / "shared" / "corpora" / "wordnet.parquet"
SIZE = 1500  # characters
ROUNDS = 3


def documents(count: int) -> list[str]:
    """Return prose, and a third of it source files and pages cut at 1,500 characters."""
    draw = random.Random(1)
    library = Path(os.__file__).parent
    files = sorted(library.glob("*.py")) + sorted(library.rglob("*.rst"))
    cut = [
        text[at : at + SIZE]
        for text in (f.read_text(encoding="utf-8", errors="replace") for f in files)
        for at in range(0, min(len(text), 10 * SIZE), SIZE)
        if text[at : at + SIZE].strip()
    ]
    draw.shuffle(cut)
    found = [*cut[: count // 3], *prose(count - min(len(cut), count // 3))]
    draw.shuffle(found)
    return found


def prose(count: int, *, plain: bool = False) -> list[str]:
    """Return texts of sentences; two in five repeat some, and lines end in several ways."""
    draw = random.Random(2)
    if WORDNET.exists():
        parts = pq.read_table(WORDNET, columns=["definition"])["definition"].to_pylist()
    else:
        sources = [
            f.read_text(encoding="utf-8", errors="replace")
            for f in sorted(Path(os.__file__).parent.glob("*.py"))
        ]
        parts = [line.strip("# ") for s in sources for line in s.splitlines() if "    # " in line]
    draw.shuffle(parts)
    found: list[str] = []
    at = 0
    while len(found) < count:
        text, end = "", draw.choice([". ", ".\n", ".\n\n", "\n", " ... ", ".\n- "])
        some = 1000 if plain else draw.choice([3, 10, 1000, 1000, 1000])  # different sentences
        own = parts[at : at + min(some, 60)]
        for n in range(60):
            sentence = own[n % len(own)]
            text += sentence[:1].upper() + sentence[1:] + (end if n % 4 == 0 else ". ")
            if len(text) > SIZE:
                break
        at = (at + 60) % (len(parts) - 60)
        found.append(text)
    return found


def rate(work: Callable[[], Any], count: int) -> float:
    """Return the best rate of some rounds, per second of processor time, of all threads together.

    Others use the machine too, so that wall time would tell of them.
    """
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return round(count / min(times), 1)


def rates(table: pa.Table) -> dict[str, float]:
    """Return how many documents a second are measured and decided."""
    database, count = Database.reader(), table.num_rows
    database.rows("SET threads = 2")
    general = dp.Quality(language=None)

    def gates(quality: dp.Quality) -> None:
        decide(database, measure(database, table, quality), quality)

    measured = measure(database, table, general)
    found = {"all_gates_without_language": rate(lambda: gates(general), count)}
    found["decided_from_metrics"] = rate(lambda: decide(database, measured, general), count)
    texts = table["text"].combine_chunks()
    found["tokens_and_repetition_alone"] = rate(lambda: counts(texts, 8192), count)
    if importlib.util.find_spec("py3langid"):
        found["all_gates"] = rate(lambda: gates(dp.Quality()), count)
    return found


def beside_datatrove(table: pa.Table) -> dict[str, Any]:
    """Return datatrove's rate, and how often it decides as we do, by preset and rule."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
    )

    theirs = {
        "gopher": [GopherQualityFilter(), GopherRepetitionFilter()],
        "c4": [C4QualityFilter()],
        "fineweb": [FineWebQualityFilter()],
    }
    database, texts = Database.reader(), table["text"].to_pylist()
    metrics = measure(database, table, dp.Quality(preset="gopher"))
    found: dict[str, Any] = {}
    seconds = 0.0
    for preset, filters in theirs.items():
        ours = decide(database, metrics, dp.Quality(preset=preset))["rule"].to_pylist()
        start = time.process_time()
        reasons = [_reason(filters, Document(text=text, id="")) for text in texts]
        seconds += time.process_time() - start
        differ = Counter(
            f"{our or 'accepted'} / {their or 'accepted'}"
            for our, their in zip(ours, reasons, strict=True)
            if (our is None) != (their is None)
        )
        same = len(texts) - sum(differ.values())
        found[preset] = {
            "agreed": round(same / len(texts), 4),
            "rejected_by_us": sum(our is not None for our in ours),
            "rejected_by_datatrove": sum(their is not None for their in reasons),
            "differences_ours_and_theirs": dict(differ.most_common()),
        }
    return {"datatrove_rate_of_all_four_filters": round(len(texts) / seconds, 1), **found}


def _reason(filters: list[Any], document: Any) -> str | None:
    for each in filters:
        result = each.filter(document)
        if result is not True:
            return str(result[1]) if isinstance(result, tuple) else "rejected"
    return None


def code_scores() -> dict[str, Any]:
    """Return at which thresholds how much of Python's source is taken for code, and of prose."""
    library = Path(os.__file__).parent
    files = sorted(library.glob("*.py"))[:150]
    kinds = {
        "source": [f.read_text(encoding="utf-8", errors="replace") for f in files],
        "prose": prose(150, plain=True),
    }
    database, found = Database.reader(), {}
    for kind, texts in kinds.items():
        table = pa.table({"row": np.arange(len(texts)), "text": texts})
        metrics = measure(database, table, dp.Quality(preset="code"))
        choices: dict[str, dict[str, Any]] = {
            "at .15": {"code_score": 0.15},
            "at .30": {"code_score": 0.30},
            "at .43": {"code_score": 0.43},
            "at .43 with the early gate": {"code_score": 0.43, "code_early_gate": True},
        }
        for name, settings in choices.items():
            quality = dp.Quality(preset="code", pii=None, min_characters=None, **settings)
            outcome = decide(database, metrics, quality)["outcome"].to_pylist()
            found[f"{kind} {name}"] = round(outcome.count("accepted") / len(outcome), 3)
    return {"keywords": KEYWORD.count("|") + 1, **found}


def intake(file: str, gated: bool, judged: bool) -> dict[str, float]:
    """Ingest a file into a new corpus, in this process; judge it by other thresholds, if asked."""
    more = {"quality": dp.Quality(language=None)} if gated else {}
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "c.duckdb") as corpus:
        source = dp.sources.ParquetSource(file, id="id", text="text")
        wall, processor = time.perf_counter(), time.process_time()
        report = corpus.ingest(source, name="s", progress=False, **more)
        found = {
            "rows": report.read,
            "seconds": round(time.perf_counter() - wall, 2),
            "processor_seconds": round(time.process_time() - processor, 2),
            "peak_mb": _peak_mb(),
        }
        if judged:
            wall, processor = time.perf_counter(), time.process_time()
            stricter = dp.Quality(language=None, min_characters=60, max_pii_density=0.005)
            change = corpus.quality(apply=stricter, dry_run=True)
            found["judge_seconds"] = round(time.perf_counter() - wall, 2)
            found["judge_processor_seconds"] = round(time.process_time() - processor, 2)
            found["judged_otherwise"] = change.newly_rejected + change.newly_accepted
    return found


def _peak_mb() -> int:
    """Return the peak of this process; that of ``getrusage`` counts its parent's as well."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmHWM")) // 1024


def intakes(texts: list[str], sizes: list[int]) -> dict[str, Any]:
    """Return what intakes cost with gates and without, of documents and of many short rows."""
    spawn = multiprocessing.get_context("spawn")

    def alone(*arguments: Any) -> dict[str, float]:
        with spawn.Pool(1) as pool:  # so that its peak is its own
            return pool.apply(intake, arguments)

    found: dict[str, Any] = {}
    sentences = [part for text in prose(2000, plain=True) for part in text.split(". ")]
    with tempfile.TemporaryDirectory() as folder:
        for size in (len(texts), *sizes):
            file = f"{folder}/{size}.parquet"
            rows = texts if size == len(texts) else _sentences(sentences, size)
            ids = [str(n) for n in range(size)]
            pq.write_table(pa.table({"id": ids, "text": rows}), file, row_group_size=50_000)
            plain = alone(file, False, False)
            gated = alone(file, True, size in sizes)
            times = gated["processor_seconds"] / plain["processor_seconds"]
            name = "documents" if size == len(texts) else str(size)
            found[name] = {"plain": plain, "gated": gated, "times": round(times, 2)}
    return found


def _sentences(parts: list[str], count: int) -> list[str]:
    """Return different texts of some sentences each."""
    return [
        f"{parts[n % len(parts)]}. {parts[(n * 7 + n // len(parts)) % len(parts)]} {n}."
        for n in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000])
    given = parser.parse_args()
    texts = documents(given.documents)
    table = pa.table({"row": np.arange(len(texts)), "text": texts})
    found: dict[str, Any] = {
        "documents": len(texts),
        "characters": round(sum(map(len, texts)) / len(texts)),
        "rates": rates(table),
        "code": code_scores(),
        "intakes": intakes(texts, given.rows),
    }
    if importlib.util.find_spec("datatrove"):
        found["datatrove"] = beside_datatrove(table.slice(0, 1500))
    json.dump(found, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
