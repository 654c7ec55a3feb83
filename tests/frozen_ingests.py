"""Sources of every kind, with rows that cannot be used, whose records are frozen."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from described import sources_file
from frozen_runs import WORDNET, WORDNET_COLUMNS, chat, words

import duckplets as dp

Rows = list[dict[str, Any]]


def articles(count: int = 60) -> Rows:
    """Rows of texts as they come, among them blank ones, repeated ones and conflicting ids."""
    draw = random.Random(11)
    rows = [
        {
            "id": f"r{n}",
            "head": draw.choice(["", "  ", f"Head {n}"]),
            "title": draw.choice([f"title {n}", f"Títle «{n}»", "twin", ""]),
            "body": draw.choice(
                [words(draw, 40), f"{words(draw, 9)}\n\n{words(draw, 9)} 名前", None]
            ),
            "note": draw.choice([None, words(draw, 8)]),
            "day": draw.choice([f"2024-02-{n % 28 + 1:02}", "31.12.2023", "soon", None]),
            "family": draw.choice([None, f"f{n % 7}"]),
            "area": draw.choice(["north", "south"]),
            "topic": draw.choice(["news", "law", None]),
            "score": round(draw.random(), 3),
            "label": draw.choice(["yes", "no", "0.5", "odd", None]),
        }
        for n in range(count)
    ]
    good = [row for row in rows if row["head"] and row["title"] and row["body"]]
    return [*rows, good[3], good[5] | {"body": "another body"}, good[8]]


def nested(count: int = 60) -> Rows:
    """The rows with texts in fields of fields, lists and values that are no text."""
    odd = [3, True, ["a", "b"], ["a", 1], {"x": 1}, [], None]
    return [
        {
            "key": {"id": row["id"]},
            "set": {"query": row["title"], "pos": [row["body"], row["note"]], "neg": ["no", "nay"]},
            "odd": odd[n % 7] if n % 3 else row["body"],
            "times": {"made": f"2023-01-{n % 28 + 1:02}T10:00:00Z", "changed": "2023-06-01"},
            "trust": n % 11 / 10,
        }
        for n, row in enumerate(articles(count))
    ]


def instructions(converter: str) -> Rows:
    """Rows for a converter, every seventh of which it cannot use."""
    draw = random.Random(17)
    rows: Rows = []
    for n in range(40):
        ask, say, other = (f"{words(draw, 12)} {n} {what}" for what in ("ask", "say", "other"))
        messages = chat(draw, n)["messages"]
        turns = [{"from": {"assistant": "gpt"}.get(m["role"], m["role"])} for m in messages]
        turns = [turn | {"value": m["content"]} for turn, m in zip(turns, messages, strict=True)]
        row: dict[str, Any] = {
            "alpaca": {"instruction": ask, "input": other if n % 2 else "", "output": say},
            "sharegpt": {"system": "Be kind." if n % 5 else None, "conversations": turns},
            "openai": {"tools": None if n % 5 else [{"name": "w"}], "messages": messages},
            "pair": {"prompt": ask, "chosen": say, "rejected": other},
        }[converter]
        rows.append(row if n % 7 else row | {list(row)[-1]: [None, "", 3][n % 3]})
    return rows


def record(number: int) -> dict[str, Any]:
    """A record with all keys that one may bring, and now and then too few."""
    draw = random.Random(number)
    found: dict[str, Any] = {
        "id": f"p{number}",
        "anchor": words(draw, 6) if number % 9 else None,
        "positive": [words(draw, 20), words(draw, 20)],
        "date": date(2024, 1, 1) + timedelta(days=number),
        "created_at": datetime(2022, 1, 1, number % 24, tzinfo=UTC),
        "group": f"g{number % 4}",
        "taxonomy": ["a", f"b{number % 3}"],
        "meta": {"n": str(number), "even": str(number % 2 == 0)},
        "trust": number % 10 / 10,
    }
    more = [{"role": "context", "heading": "more", "text": words(draw, 20)}]
    found |= {} if number % 5 else {"sections": more}
    return found if number % 4 else found | {"negative": [words(draw, 9)]}


class Pages:
    """A custom source of three pages that says its own recipes."""

    name = "pages"
    trust = 0.3
    recipes = (dp.TripletRecipe("own", dp.position(0), dp.position(1), dp.any_section()),)

    def batches(self, cursor: Any) -> Iterator[tuple[Rows, int]]:
        for page in range(cursor or 0, 3):
            yield [record(page * 10 + n) for n in range(10)], page + 1


# ---- files


def file(path: Path, rows: Rows) -> Path:
    """Write rows to a file of the form that its suffix says."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=25)
    elif path.suffix == ".arrow":
        pa.feather.write_feather(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    else:
        lines = [json.dumps(row, ensure_ascii=bool(n % 2)) for n, row in enumerate(rows)]
        path.write_text("\n".join([*lines[:9], "{not json", "", *lines[9:]]), encoding="utf-8")
    return path


def documents(root: Path) -> Path:
    """Write a folder of text, Markdown and compressed files, all of one time."""
    draw = random.Random(13)
    start = f"---\ntitle: Start here\n---\n# Start\n{words(draw, 30)}\n\n## Install *it*\n"
    texts: dict[str, str | bytes] = {
        "plain/2024-03-01/one.txt": f"First line\n\n{words(draw, 60)}\n",
        "plain/two_words.txt": words(draw, 60),
        "plain/empty.txt": "  \n",
        "plain/binary.txt": b"\x00\x01\xff",
        "plain/packed.txt.gz": gzip.compress(f"# Packed\n{words(draw, 60)}".encode()),
        "guide/start.md": f"{start}more\n\n```\n# no heading\n```\n### Linux\n- a\n- b\n",
        "guide/deep/end.md": f"Setext\n======\n{words(draw, 9)}\n\n## Install\n\n## Install\nagain",
        "guide/other.rst": "Title\n=====\n\ntext\n\nPart\n----\nmore\n",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, (1.7e9, 1.7e9))
    return root


def data_sets(folder: Path) -> Path:
    """Write a file that describes data sets."""
    file(folder / "faq.csv", articles(30))
    file(folder / "chats.jsonl", instructions("openai"))
    faq = {"path": "faq.csv", "id": "id", "anchor": "title", "positive": "body"}
    chats = {"path": "chats.jsonl", "converter": "openai", "size": 10, "weight": 2.0}
    return sources_file(folder / "sets.yaml", {"faq": faq, "chats": chats})


# ---- sources: a kind, the file it reads, its rows, how they are mapped, how they are ingested

FLAT: dict[str, Any] = dict(
    id="id", anchor=["head", "title"], positive="body", context="note?", date="day"
) | dict(group="family", taxonomy="area", meta=["topic", "score"])
NESTED: dict[str, Any] = dict(
    anchor="set.query", positive="set.pos[0]", context="set.pos[1]?", id="key.id"
) | dict(created_at="times.made", updated_at="times.changed", trust="trust")
DATED: dict[str, Any] = FLAT | dict(date_format="%d.%m.%Y", on_bad_date="fail", trust="score")
LABELS: dict[str, Any] = dict(anchor="title", positive="body", label="label")
OWN_LABELS: dict[str, Any] = LABELS | dict(labels={"odd": 1, "yes": 0.25, "no": 0})
MARKDOWN: dict[str, Any] = dict(pattern=["*.md", "*.rst"])
GATES: dict[str, Any] = dict(quality=dp.Quality(language=None, min_characters=60), limit=20)
ALTERED = [row | {"odd": ""} for row in nested()]  # a column of Parquet has one type

INGESTS: dict[str, tuple[type, str, Rows, dict[str, Any], dict[str, Any]]] = {
    "csv": (dp.sources.CsvSource, "a.csv", articles(), FLAT, {}),
    "csv_dates": (dp.sources.CsvSource, "a.csv", articles(), DATED, {"on_error": "quarantine"}),
    "csv_replaced": (dp.sources.CsvSource, "a.csv", articles(), FLAT, {"on_conflict": "replace"}),
    "csv_texts": (dp.sources.CsvSource, "a.csv", articles(), dict(text=["head", "title"]), {}),
    "json_lines": (dp.sources.JsonSource, "a.jsonl", nested(), NESTED, {"on_error": "quarantine"}),
    "json": (dp.sources.JsonSource, "a.json", nested(), NESTED | dict(positive="odd"), {}),
    "json_of": (dp.sources.JsonSource, "a.json", nested(), dict(text="odd", text_of="json"), {}),
    "parquet": (dp.sources.ParquetSource, "a.parquet", articles(), FLAT, {}),
    "negatives": (
        dp.sources.ParquetSource,
        "a.parquet",
        ALTERED,
        NESTED | dict(negative="set.neg"),
        {},
    ),
    "gates": (dp.sources.ParquetSource, "a.parquet", articles(90), FLAT, GATES),
    "where": (
        dp.sources.ParquetSource,
        "a.parquet",
        articles(),
        FLAT,
        {"where": "group_key > 'f2'"},
    ),
    "arrow": (dp.sources.ArrowSource, "a.arrow", articles(), FLAT, {}),
    "text": (dp.TextFileSource, "", [], dict(date="path", trust_by_folder={"plain": 0.9}), {}),
    "markdown": (dp.TextFileSource, "", [], MARKDOWN, {}),
    "by_heading": (dp.TextFileSource, "", [], MARKDOWN | dict(by_heading=True), {}),
    "memory": (dp.sources.MemorySource, "", articles(), FLAT, {"trust": 0.9}),
    "memory_labels": (dp.sources.MemorySource, "", articles(), LABELS, {}),
    "memory_own_labels": (dp.sources.MemorySource, "", articles(), OWN_LABELS, {}),
    "sql": (dp.SqlSource, "a.parquet", articles(), FLAT, {}),
    "custom": (Pages, "", [], {}, {}),
    "indexed": (dp.IndexedSource, "", [record(n) for n in range(30)], dict(name="own"), {}),
    "wordnet": (dp.SqlSource, "", [], WORDNET_COLUMNS, {}),
    "wordnet_whole": (dp.sources.ParquetSource, "", [], WORDNET_COLUMNS, {}),
    "data_sets": (Path, "", [], {}, {"on_error": "skip"}),
} | {
    name: (
        dp.sources.JsonSource,
        "a.jsonl",
        instructions(name),
        {"converter": name},
        {"on_error": "skip"},
    )
    for name in ("alpaca", "sharegpt", "openai", "pair")
}


def source_of(name: str, folder: Path) -> Any:
    """Return a source whose files lie in a folder; of data sets the file that describes them."""
    kind, written, rows, mapping, _ = INGESTS[name]
    if kind is Path:
        return data_sets(folder)
    if kind is Pages:
        return Pages()
    if mapping is WORDNET_COLUMNS:
        return kind(f"FROM '{WORDNET}' LIMIT 2000" if name == "wordnet" else WORDNET, **mapping)
    if kind is dp.TextFileSource:
        return kind(documents(folder / "documents"), **mapping)
    given: Any = file(folder / written, rows) if written else rows
    return kind(f"FROM '{given}' WHERE score > .2" if kind is dp.SqlSource else given, **mapping)


LONG = "\n".join(f"Part {n}.\n{words(random.Random(n), 90)}\n| a | b |" for n in range(12))
CHUNKINGS: dict[str, dp.Chunking] = {
    "defaults": dp.Chunking(),
    "overlaps": dp.Chunking(max_tokens=40, overlap=(10, 0)),
    "summaries": dp.Chunking(max_tokens=25, overlap=(5,), summary_tokens=8),
    "denoised": dp.Chunking(
        max_tokens=50, overlap=(9,), preprocessors=[dp.plugins.Denoiser(max_digit_ratio=0.2)]
    ),
    "normalised": dp.Chunking(max_tokens=50, overlap=(9,), preprocessors=[dp.plugins.Normaliser()]),
}

# ---- what a user reads in the file

TABLES: dict[str, str] = {
    "ids": "SELECT record_id, content_hash, added_version FROM records",
    "records": "SELECT record_id, date, group_key, taxonomy, list_sort(map_entries(meta)), trust, "
    "label, nullif(created_at, greatest(created_at, '2025-01-01')) AS created, "
    "nullif(updated_at, greatest(updated_at, '2025-01-01')) AS updated FROM records",
    "sections": "FROM section_texts",
    "chunks": "SELECT record_id, position, kind, window_index, overlap, start, length, "
    "c.token_count FROM chunks c JOIN sections s USING (section_key) JOIN records r "
    "ON r.record_key = s.record_key",
    "splits": "SELECT record_id, split FROM splits JOIN records USING (record_key)",
    "judgements": "SELECT source, row, outcome, gate, rule FROM judgements",
    "negatives": "WITH s AS (FROM sections JOIN records USING (record_key)) "
    "SELECT recipe, rank, score, a.record_id AS anchor, n.record_id AS negative FROM negatives "
    "JOIN s AS a ON a.section_key = anchor_section_key "
    "JOIN s AS n ON n.section_key = negative_section_key",
}
