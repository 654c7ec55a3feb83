"""Rows that gates judge, and what is stored of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from described import ingested
from stored_rows import TIMES, stored_rows

import duckplets as dp
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.quality.settings import Quality

QUALITY = Quality(language=None)
GOOD = "A plain sentence about the weather and the garden, number {}, long enough."
LONG = "and so the story goes on for a while with quite ordinary words "


def written(path: Path, texts: list[Any], start: int = 0, mode: str = "w") -> dp.sources.JsonSource:
    """Write a file of rows with ids, and return it as a source."""
    with path.open(mode, encoding="utf-8") as file:
        for i, text in enumerate(texts, start):
            row = text if isinstance(text, dict) else {"text": text}
            file.write(json.dumps({"id": str(i), **row}) + "\n")
    return dp.sources.JsonSource(path, text="text", id="id")


def take(corpus: dp.Corpus, source: Any, name: str = "s", **arguments: Any) -> Any:
    given: dict[str, Any] = {"quality": QUALITY, "progress": False}
    return ingested(corpus, source, name=name, **given | arguments)


def texts(corpus: dp.Corpus) -> list[str]:
    """Return the live texts in order."""
    rows = corpus.sql(
        "SELECT text FROM sections JOIN records USING (record_key) WHERE removed_version IS NULL "
        "ORDER BY section_key"
    )
    return list(rows["text"].to_pylist())


def ends(corpus: dp.Corpus) -> list[tuple[str, int, str, str]]:
    """Return how rows ended: source, row, outcome, reason."""
    rows = corpus.sql("SELECT * FROM judgements ORDER BY acquisition_id, row").to_pylist()
    return [
        (r["source"], r["row"], r["outcome"], f"{r['gate'] or 'unreadable'}: {r['rule']}")
        for r in rows
    ]


def contents(corpus: dp.Corpus) -> dict[str, Any]:
    """Return all that is stored but for times, and for how often it was committed."""
    return stored_rows(corpus, without=(*TIMES, "started_at", "ended_at", "cursor"))


def check(corpus: dp.Corpus) -> None:
    """Check that the counts add up, for every source, and that rows are told once."""
    for row in corpus.sql("FROM acquisitions ORDER BY acquisition_id").to_pylist():
        ended = (row[n] for n in ("accepted", "filtered", "rejected", "unreadable"))
        assert row["read"] == sum(ended), row
    counts = corpus.sql(
        "SELECT count(*) AS n, count(DISTINCT (source, coalesce(file, ''), row)) AS places, "
        "count(record_key) AS keys FROM judgements"
    ).to_pylist()[0]
    assert counts["n"] == counts["places"]
    assert counts["n"] == sum(
        corpus.sql("FROM acquisitions ORDER BY acquisition_id")["read"].to_pylist()
    )


def oracle(rows: list[dict[str, Any]]) -> list[str]:
    """Return how rows end one after the other."""
    held: set[str] = set()
    ids: dict[str, str] = {}
    found = []
    for row in rows:
        text = row["text"]
        if ids.get(row["id"]) == text:
            found.append("same id")
        elif text in held:
            found.append("same text")
        elif len(text) < 50:
            found.append("min_characters")
        elif row["id"] in ids:
            found.append("same id, other content")
        else:
            held.add(text)
            ids[row["id"]] = text
            found.append("accepted")
    return found


def lines_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes().decode()
    assert text.splitlines() == text.split("\n")[:-1]  # whatever a reader takes for a line's end
    return [json.loads(line) for line in text.splitlines()]


def agrees(corpus: dp.Corpus, path: Path) -> None:
    """Check that a file has a line of every record, in order, those of an unfinished one too."""
    rows = corpus.sql(
        "WITH texts AS (SELECT record_key, encode(string_agg(text, E'\\n\\n' ORDER BY position)) "
        "AS text FROM sections GROUP BY record_key) SELECT sources.name, records.record_id, "
        "CASE WHEN judgements.row > 0 THEN judgements.row END, texts.text FROM records "
        "JOIN sources USING (source_id) JOIN texts USING (record_key) "
        "LEFT JOIN judgements USING (record_key) "
        f"WHERE coalesce(records.removed_version, {UNPUBLISHED}) = {UNPUBLISHED} "
        "ORDER BY record_key"
    )
    told = [(line["meta"], line["text"].encode()) for line in lines_of(path)]
    assert [(meta["source"], meta["record_id"], meta["row"], text) for meta, text in told] == [
        tuple(row.values()) for row in rows.to_pylist()
    ]
