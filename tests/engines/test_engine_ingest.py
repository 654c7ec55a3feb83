"""Text comes in by an engine: the same tables, errors and notes as one process makes."""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import WORDS
from effort import THOROUGH, often, some
from gated_rows import QUALITY, check, contents, lines_of
from gated_sources import Pages, assert_nothing_is_left
from local_engine import Shuffled
from programs import python
from test_kills import Child

import duckplets as dp
from duckplets.engines import dask
from duckplets.sources import paths
from duckplets.sources.resumable import Resumable

COLUMNS: dict[str, Any] = {"id": "id", "anchor": "title", "positive": "body"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two files or two row groups, and rows that wait in files."""
    monkeypatch.setattr(paths, "AT_ONCE", 6_000)
    monkeypatch.setattr("duckplets.sources.parts._GROUPS", 4_000)
    monkeypatch.setattr("duckplets.ingest.workers._SMALL", 3_000)
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 0)


def rows_of(draw: random.Random, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return rows, some without an anchor, with a text twice, or a date that is none."""
    found: list[dict[str, Any]] = []
    for number in range(first, first + count):
        body = " ".join(draw.choices(WORDS, k=draw.randrange(8, 60))).capitalize() + "."
        if found and draw.random() < 0.1:
            body = draw.choice(found)["body"]
        found.append(
            {
                "id": f"r{number}",
                "title": draw.choice(["", *[" ".join(body.split()[:3])] * 9]),
                "body": draw.choice([" ", *[body] * 19]),
                "other": " ".join(draw.choices(WORDS, k=3)),
                "day": draw.choice(["2024-02-30", "soon", *["2024-02-29"] * 18]),
                "group": draw.choice(["a", "b", None]),
                "trust": draw.choice([0.1, 0.9]),
                "same": draw.choice(["1", "0", "1", "yes"]),
                "set": {"pos": [body[:20]], "kind": draw.choice(["x", None])},
            }
        )
    return found


def files_of(folder: Path, form: str, seed: int, count: int = 300, several: int = 5) -> str:
    """Write rows to several files of very different sizes; return a glob for them."""
    draw = random.Random(seed)
    rows = rows_of(draw, count)
    bounds = [0, *sorted(draw.choices(range(count), k=several - 1)), count]
    folder.mkdir(parents=True, exist_ok=True)
    for number, (first, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        part = rows[first:end] or rows[:1]
        path = folder / f"{number:02}.{form}"
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(part), path, row_group_size=11)
        elif form == "arrow":
            table = pa.Table.from_pylist(part)
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
                file.write_table(table, max_chunksize=17)
        elif form == "csv":
            names = [name for name in part[0] if name != "set"]
            lines = [",".join(json.dumps(row[n] or "") for n in names) for row in part]
            path.write_text("\n".join([",".join(names), *lines]) + "\n")
        elif form == "txt":
            path.write_text("\n".join(row["body"] for row in part) + "\n")
        else:
            lines = [json.dumps(row) + "\n" for row in part]
            lines.insert(1, "\n")  # a line without a row
            data = "".join(lines).encode()
            path.write_bytes(gzip.compress(data) if form.endswith("gz") else data)
    return str(folder / f"*.{form}")


def texts_of(folder: Path, seed: int) -> Path:
    """Write a folder of texts, with files in it that are none."""
    draw = random.Random(seed)
    for row in rows_of(draw, 60):
        place = folder / draw.choice(["a", "b/c", "2024-03-04", "."])
        place.mkdir(parents=True, exist_ok=True)
        heading = draw.choice(["# A heading\n\n", ""])
        (place / f"{row['id']}.md").write_text(heading + row["body"])
    (folder / "broken.md").write_bytes(b"\xff\xfe\x00" * 400)
    (folder / "page.html").write_text("<p>one</p>")
    (folder / "other.bin").write_text("none")
    return folder


Case = tuple[Callable[[Path], Any], dict[str, Any]]
GATED: dict[str, Any] = {"quality": QUALITY}
CASES: dict[str, Case] = {
    "jsonl": (lambda at: dp.JsonSource(files_of(at, "jsonl", 1), **COLUMNS, date="day"), {}),
    "gz": (lambda at: dp.JsonSource(files_of(at, "jsonl.gz", 2), **COLUMNS), GATED),
    "csv": (
        lambda at: dp.CsvSource(
            files_of(at, "csv", 3), **COLUMNS, date="day", group="group", trust="trust"
        ),
        {},
    ),
    "csv fails": (
        lambda at: dp.CsvSource(files_of(at, "csv", 4), **COLUMNS, date="day", on_bad_date="fail"),
        {"on_error": "quarantine"},
    ),
    "parquet": (
        lambda at: dp.ParquetSource(
            files_of(at, "parquet", 5), id="id", anchor="set.pos[0]", positive="body",
            meta=["set.kind", "other"],
        ),
        {},
    ),
    "parquet gated": (
        lambda at: dp.ParquetSource(files_of(at, "parquet", 6), text="body", meta="group"),
        {**GATED, "where": "meta['group'] = 'a'", "limit": 40},
    ),
    "arrow": (
        lambda at: dp.ArrowSource(
            files_of(at, "arrow", 7), **COLUMNS, label="same", negative="other"
        ),
        {"on_error": "quarantine"},
    ),
    "lines": (lambda at: dp.TextLinesSource(files_of(at, "txt", 8)), {**GATED, "size_mb": 0.01}),
    "texts": (
        lambda at: dp.TextFileSource(texts_of(at, 9), pattern=["*.md", "*.html"], date="path"),
        {"on_error": "quarantine"},
    ),
    "resumable": (lambda at: Resumable(dp.JsonSource(files_of(at, "jsonl", 10), text="body")), {}),
    "late key": (lambda at: dp.JsonSource(late(at), text="body", meta="rare"), GATED),
    "memory": (
        lambda at: dp.MemorySource(rows_of(random.Random(11), 300), text="body", id="id"),
        GATED,
    ),
    "pages": (
        lambda at: Pages(
            "own", [{"id": r["id"], "text": r["body"]} for r in rows_of(random.Random(12), 90)]
        ),
        {**GATED, "on_conflict": "skip"},
    ),
}  # fmt: skip


def late(folder: Path) -> str:
    """Write files of which only the last has a key that is mapped."""
    found = files_of(folder, "jsonl", 13)
    (folder / "99.jsonl").write_text(json.dumps({"body": "The last of all.", "rare": "x"}) + "\n")
    return found


def cleaned(corpus: dp.Corpus) -> None:
    """Have texts of a corpus cleaned, some of them dropped, by what is built in and by a user's."""
    dp.register_preprocessor("no ants", without_ants)
    corpus.chunk(dp.Chunking(max_tokens=12, preprocessors=(dp.Denoiser(), without_ants)))


def without_ants(text: str) -> str | None:
    """Drop texts that begin so, and change the others."""
    return None if text.lower().startswith("a") else text.replace("e", "3")


def told(corpus: dp.Corpus, report: Any) -> dict[str, Any]:
    """Return all that is stored and said of an ingest, but times."""
    found = contents(corpus)
    said = {name: value for name, value in vars_of(report).items() if name != "seconds"}
    said["notes"] = [n for n in said["notes"] if "this process" not in n]
    check(corpus)
    return found | {"report": said}


def vars_of(report: Any) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__dataclass_fields__}


def ingested(
    path: Path, source: Any, engine: Any, *, clean: bool = False, **asked: Any
) -> dict[str, Any]:
    """Return what an ingest into a new corpus leaves and says, or its error."""
    with dp.Corpus(path) as corpus:
        if clean:
            cleaned(corpus)
        try:
            report = corpus.ingest(source, name="s", engine=engine, progress=False, **asked)
        except dp.DuckpletsError as error:
            return contents(corpus) | {"error": (type(error), str(error))}
        return told(corpus, report)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("clean", [False, True])
def test_tables_are_the_same(case: str, clean: bool, tmp_path: Path) -> None:
    make, asked = CASES[case]
    alone = ingested(tmp_path / "a.duckdb", make(tmp_path / "in"), None, clean=clean, **asked)
    assert "error" not in alone
    for seed in range(often(6, less=1)):
        engine = Shuffled(seed)
        path = tmp_path / f"{seed}.duckdb"
        found = ingested(path, make(tmp_path / "in"), engine, clean=clean, **asked)
        for table in alone:
            assert found[table] == alone[table], (table, seed)
        assert bool(engine.labels)
    assert_nothing_is_left(tmp_path)
    assert not list(tmp_path.glob(".*.parts"))
