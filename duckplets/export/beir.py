"""An evaluation set as BEIR has it: documents, queries, and which are relevant to which.

Queries are the recipe's anchors in a held-out split, documents what its negatives could be, and
its positives; no mining is needed. Anchors of one text are one query, to which the positives of
all of them are relevant. No query has the id of another document: evaluators drop hits that have
the id of the query.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from duckplets.db.queries import query
from duckplets.errors import SamplerError
from duckplets.export.form import Form, Progress
from duckplets.export.reader import Reader
from duckplets.export.sinks import json_lines
from duckplets.export.wanted import Tally, Wanted
from duckplets.export.whole import Place

_CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"
_FILES = (_CORPUS, _QUERIES, "qrels/*.tsv")
_HEADER = ("query-id", "corpus-id", "score")


def write(reader: Reader, wanted: Wanted, path: Path, progress: Progress | None) -> Tally:
    """Write a folder with documents, queries, and ``qrels`` named by the split."""
    recipe, own = reader.subject.recipe, reader.subject.pools[0].own_positive
    reader.run_with("export/queries", "anchors", ["chunk_key"])
    same = {"own": own, "same": recipe.allow_same_anchor_positive}
    reader.database.run("export/judgements", same)
    anchors, queries, judged = reader.database.run("export/query_counts")[0]
    tally = Tally(anchors=judged)
    tally.left_out.update({"no positive": queries - judged, "repeated question": anchors - queries})
    with json_lines(path / _CORPUS) as sink:
        for document in reader.documents():
            sink.write({"_id": _id(document.id), "title": "", "text": document.text})
    with json_lines(path / _QUERIES) as sink:
        for done, row in enumerate(_stream(reader, "export/query_texts"), 1):
            sink.write({"_id": _query_id(row), "text": row["text"]})
            if progress:
                progress(done, judged)
    judgements = path / "qrels" / f"{reader.subject.split}.tsv"
    judgements.parent.mkdir()
    with judgements.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
        writer.writerow(_HEADER)
        for row in _stream(reader, "export/judgement_ids"):
            writer.writerow((_query_id(row), _id(row["id"]), 1))
            tally.rows += 1
    return tally


def _stream(reader: Reader, statement: str) -> Iterator[dict[str, Any]]:
    for batch in reader.database.stream(query(statement), rows=4096):
        yield from batch.to_pylist()


def _query_id(row: dict[str, Any]) -> str:
    return _id(f"{row['record_id']}#{row['position']}")


def _id(name: str) -> str:
    """Return an id if it fits into a line of tab-separated values."""
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise SamplerError(
            f"record {name!r}: format='beir' keeps ids in tab-separated files, so they can have "
            f"no control characters; give this record another id"
        )
    return name


FORM = Form(places={"": Place(files=_FILES)}, mined=False, write=write)
