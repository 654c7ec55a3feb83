"""The corpora that serving.py measures: made once a folder, by the number of records.

text.py ─Parquet→ one source ─→ plain, mined      ten sources, and as many as are asked for
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import serving_memory
import text

SMALL = 2_000
CANDIDATES = 8  # a mined anchor's, at random: drawing one costs the same as of any others
OF_A_SOURCE = 100  # records, where sources are many
STATE = "far.state.duckdb"


def parquet(folder: Path, records: int) -> Path:
    """Return the file of so many records."""
    return text.write(folder, records)[0]


def plain(folder: Path, records: int) -> Path:
    """All records as one source."""
    return _made(folder / f"plain{records}.duckdb", folder, records, sources=1)


def ten(folder: Path, records: int) -> Path:
    """The same records as ten sources, s0 … s9."""
    return _made(folder / f"ten{records}.duckdb", folder, records, sources=10)


def many(folder: Path, sources: int) -> Path:
    """Sources of a hundred records each."""
    records = sources * OF_A_SOURCE
    return _made(folder / f"sources{sources}.duckdb", folder, records, sources=sources)


def mined(folder: Path, records: int) -> Path:
    """All records, and for each anchor of the train split a few candidates with scores."""
    import numpy as np
    import pyarrow as pa

    import duckplets as dp

    path = folder / f"mined{records}.duckdb"
    if path.exists():
        return path
    making = _made(folder / f"making{records}.duckdb", folder, records, sources=1)
    with dp.Corpus(making) as corpus:
        found = corpus.sql("SELECT record_id FROM live_records WHERE split = 'train'")
        ids = found["record_id"].combine_chunks()
        draw = np.random.default_rng(1)
        anchors = np.repeat(np.arange(len(ids)), CANDIDATES)
        given = {
            "anchor_id": ids.take(pa.array(anchors)),
            "negative_id": ids.take(pa.array(draw.integers(len(ids), size=len(anchors)))),
            "score": draw.random(len(anchors)),
        }
        corpus.add_negatives(pa.table(given), name=recipe(), split="train", progress=False)
    candidates_of(making).rename(candidates_of(path))
    return _renamed(making, path)


def recipe() -> Any:
    """Return the recipe whose negatives are mined."""
    import duckplets as dp

    roles = (dp.role("anchor"), dp.role("context"), dp.role("context"))
    return dp.TripletRecipe("mined", *roles, by="given")


def saved_far(corpus: Path) -> Path:
    """Save a run of a corpus at position 10^9; returns the state file."""
    import duckplets as dp

    path = corpus.with_name(f"{corpus.stem}.{STATE}")
    path.unlink(missing_ok=True)
    with dp.Corpus(corpus, read_only=True) as opened:
        sampler = opened.sampler(batch_size=256, options=dp.Options(state=path))
        sampler.move(10**9)
        sampler.save()
    return path


def snapshot_of(corpus: Path) -> Path:
    """Return the folder of a corpus's snapshot."""
    return corpus.with_suffix(".snapshot")


def candidates_of(corpus: Path) -> Path:
    """Return the folder of a corpus's mined candidates."""
    return corpus.with_suffix(".candidates")


def texts_of(corpus: Path) -> Path:
    """Return the folder of a corpus's texts."""
    return corpus.with_suffix(".texts")


def served_from(corpus: Path) -> list[Path]:
    """Return the files that runs read: those of the snapshot, and the texts."""
    return [file for of in (snapshot_of, texts_of) for file in of(corpus).glob("*.*")]


def forget_snapshot(corpus: Path) -> None:
    """Remove the snapshot of a corpus."""
    shutil.rmtree(snapshot_of(corpus), ignore_errors=True)


def copied(corpus: Path, name: str) -> Path:
    """Copy a corpus, and its snapshot as links to the same files; returns the copy."""
    copy = corpus.with_name(f"{corpus.stem}.{name}.duckdb")
    if not copy.exists():
        remove(copy)
        shutil.copyfile(corpus, copy)
        for of in (snapshot_of, candidates_of, texts_of):
            if of(corpus).exists():
                shutil.copytree(of(corpus), of(copy), copy_function=os.link)
    return copy


def remove(corpus: Path) -> None:
    """Remove a corpus with its snapshot and its texts."""
    forget_snapshot(corpus)
    shutil.rmtree(texts_of(corpus), ignore_errors=True)
    corpus.unlink(missing_ok=True)


def prepared(corpus: Path) -> Path:
    """Make a corpus's snapshot, unless there is one, and have the pages of both in memory."""
    import duckplets as dp

    if not snapshot_of(corpus).exists():
        with dp.Corpus(corpus, read_only=True) as opened:
            opened.prepare(progress=False)
    serving_memory.warm([corpus, *served_from(corpus)])
    return corpus


def _made(path: Path, folder: Path, records: int, *, sources: int) -> Path:
    import pyarrow.parquet as pq

    import duckplets as dp

    if path.exists():
        return path
    making = path.with_suffix(".making.duckdb")
    for each in (path, making):
        remove(each)
    file, part = parquet(folder, records), folder / "part.parquet"
    few = sources <= 10
    with dp.Corpus(making) as corpus:
        corpus.split()
        for number in range(sources if few else 1):
            low, high = (k * records // (sources if few else 1) for k in (number, number + 1))
            source = file
            if (low, high) != (0, records):
                pq.write_table(pq.read_table(file).slice(low, high - low), part)
                source = part
            name = "text" if sources == 1 else f"s{number}"
            told = dp.sources.ParquetSource(source, anchor="title", positive="body", id="id")
            corpus.ingest(told, name=name, progress=False)
        if not few:
            _divided(corpus, sources)
    part.unlink(missing_ok=True)
    return _renamed(making, path)


def _renamed(corpus: Path, path: Path) -> Path:
    """Give a corpus and its texts another name."""
    if texts_of(corpus).exists():
        texts_of(corpus).rename(texts_of(path))
    return corpus.rename(path)


def _divided(corpus: Any, sources: int) -> None:
    """Give consecutive stretches of the records of a source to so many: an ingest each is long."""
    run = corpus.database.rows
    run(
        "INSERT INTO sources BY NAME SELECT s.* REPLACE (n AS source_id, format('s{}', n - 1) "
        "AS name) FROM sources AS s, range(2, $sources + 1) AS t(n)",
        {"sources": sources},
    )
    run(
        "UPDATE records SET source_id = 1 + (record_key - 1) // $each",
        {"each": OF_A_SOURCE},
    )


def changing_mixture() -> Any:
    """Ten weights that change every 500 steps."""
    import duckplets as dp

    weights = {f"s{i}": 1.0 + i for i in range(10)}
    phases = [
        dp.Phase(step, {f"s{step // 500 % 10}": 20.0}, lr_scale=0.5)
        for step in range(500, 50_000, 500)
    ]
    return dp.Mixture(weights, temperature=1.5, phases=phases)
