"""Writes WordNet as a BEIR folder: entries, sentences that use a word, and graded labels.

    python benchmarks/retrieval_set.py FOLDER [--documents 117659]

A document is an entry: its words as title, and its definition. A query is an example sentence with
a word of one entry. The label is 2 for that entry, and 1 for the other entries of the word with the
same part of speech. A fifth of the entries, by a hash, has its sentences in qrels/test.tsv.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

WORDNET = Path(__file__).parent.parent.parent / "shared" / "corpora" / "wordnet.parquet"
MOST_ENTRIES = 20  # words of more entries are left out: most are auxiliary verbs


def write(folder: Path, most: int | None = None, entries: Path = WORDNET) -> dict[str, int]:
    """Write the folder, and return how many documents, queries and labels it has."""
    rows = sorted(pq.read_table(entries).to_pylist(), key=lambda row: _hash(row["id"]))[:most]
    by_word: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for word in row["lemmas"]:
            by_word.setdefault((word.lower(), row["pos"]), []).append(row["id"])
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    _lines(
        folder / "corpus.jsonl",
        [{"_id": r["id"], "title": r["title"], "text": r["definition"]} for r in rows],
    )
    queries, labels = [], {"train": [], "test": []}
    for row in rows:
        split = labels["test" if int(_hash(row["id"]), 16) % 5 == 0 else "train"]
        for number, sentence in enumerate(row["examples"]):
            words = {word.lower() for word in row["lemmas"] if word.lower() in sentence.lower()}
            alike = {key for word in words for key in by_word[word, row["pos"]]} - {row["id"]}
            if not words or len(alike) > MOST_ENTRIES:
                continue
            query = f"{row['id']}-{number}"
            queries.append({"_id": query, "text": sentence})
            split.append((query, row["id"], 2))
            split += [(query, key, 1) for key in sorted(alike)]
    _lines(folder / "queries.jsonl", queries)
    for name, of in labels.items():
        with (folder / "qrels" / f"{name}.tsv").open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, delimiter="\t", lineterminator="\n")
            out.writerows([("query-id", "corpus-id", "score"), *of])
    return {
        "documents": len(rows),
        "queries": len(queries),
        "labels": sum(map(len, labels.values())),
    }


def _hash(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=8).hexdigest()


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int)
    given = parser.parse_args()
    print(json.dumps(write(given.folder, given.documents)))
