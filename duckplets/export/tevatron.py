"""Training data of Tevatron: ids with a corpus beside them, or passages in every row.

The texts of ``corpus.jsonl`` are called ``text``, which is what its code reads; so does that of
version 1 the passages. A passage has no title of its own: it is empty. Scores, which its
distillation takes from each passage, are for passages only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from duckplets.export.example import Document, Example
from duckplets.export.form import Form, Progress, write_examples
from duckplets.export.reader import Reader
from duckplets.export.sinks import json_lines
from duckplets.export.wanted import Tally, Wanted
from duckplets.export.whole import Place

_TRAIN, _CORPUS = "train.jsonl", "corpus.jsonl"


def write(reader: Reader, wanted: Wanted, path: Path, progress: Progress | None) -> Tally:
    """Write a folder of ids and documents, or a file with passages."""
    if wanted.shape == "passages":
        with json_lines(path) as sink:
            return write_examples(reader, wanted, _passages(wanted.scores), sink, progress)
    with json_lines(path / _TRAIN) as sink:
        tally = write_examples(reader, wanted, _documents, sink, progress)
    with json_lines(path / _CORPUS) as sink:
        for document in reader.documents():
            sink.write({"docid": document.id, "text": document.text})
    return tally


def _documents(example: Example) -> list[dict[str, Any]]:
    row = {
        "query_id": example.id,
        "query_text": example.text,
        "positive_document_ids": [document.id for document in example.positives],
        "negative_document_ids": [document.id for document in example.negatives],
    }
    return [row]


def _passages(scores: bool) -> Any:
    def rows(example: Example) -> list[dict[str, Any]]:
        own = [example.positive_score] * len(example.positives)
        row = {
            "query_id": example.id,
            "query": example.text,
            "positive_passages": list(map(passage, example.positives, own)),
            "negative_passages": list(map(passage, example.negatives, example.scores)),
        }
        return [row]

    def passage(document: Document, score: float | None) -> dict[str, Any]:
        plain = {"docid": document.id, "title": "", "text": document.text}
        return {**plain, "score": score} if scores else plain

    return rows


FORM = Form(
    places={
        "documents": Place(files=(_TRAIN, _CORPUS)),
        "passages": Place(suffixes=(".jsonl",)),
    },
    scored=("passages",),
    write=write,
)
