"""Datasets of sentence-transformers: exactly the columns a loss takes, in their order.

Shapes and columns are those of ``output_format`` and ``output_scores`` of its
``mine_hard_negatives``, where the first two columns are the dataset's own. With several
positives, all but labeled pairs repeat the negatives for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from duckplets.export.example import Example
from duckplets.export.form import Form, Progress, write_examples
from duckplets.export.reader import Reader
from duckplets.export.sinks import Row, Sink, json_lines, parquet
from duckplets.export.wanted import Tally, Wanted
from duckplets.export.whole import Place

_FILE = Place(suffixes=(".parquet", ".jsonl"))


def write(reader: Reader, wanted: Wanted, path: Path, progress: Progress | None) -> Tally:
    """Write a dataset, as Parquet or JSON lines by the suffix of the path."""
    if wanted.shape == "n-tuple":
        negatives = wanted.negatives or reader.most_negatives()
        wanted = replace(wanted, negatives=negatives, exactly=True)
    rows = _rows(wanted)
    with _sink(path, wanted) as sink:
        return write_examples(reader, wanted, rows, sink, progress)


def schema(wanted: Wanted) -> pa.Schema:
    """Return the columns of a shape."""
    text, scores = pa.string(), pa.list_(pa.float64())
    if wanted.shape == "labeled-pair":
        last = ("score", pa.float64()) if wanted.scores else ("label", pa.int64())
        return pa.schema([("anchor", text), ("document", text), last])
    if wanted.shape == "labeled-list":
        last = ("scores", scores) if wanted.scores else ("labels", pa.list_(pa.int64()))
        return pa.schema([("anchor", text), ("documents", pa.list_(text)), last])
    names = ["negative"]
    if wanted.shape == "n-tuple":
        names = [f"negative_{n}" for n in range(1, (wanted.negatives or 0) + 1)]
    columns = [("anchor", text), ("positive", text), *((name, text) for name in names)]
    return pa.schema([*columns, ("scores", scores)] if wanted.scores else columns)


def _sink(path: Path, wanted: Wanted) -> AbstractContextManager[Sink]:
    return parquet(path, schema(wanted)) if path.suffix.lower() == ".parquet" else json_lines(path)


def _rows(wanted: Wanted) -> Callable[[Example], Iterator[Row]]:
    """Return what makes rows of an example: values by shape, named by the schema."""
    names, values = schema(wanted).names, _VALUES[wanted.shape]

    def rows(example: Example) -> Iterator[Row]:
        return (dict(zip(names, row, strict=True)) for row in values(example, wanted.scores))

    return rows


def _triplets(example: Example, scores: bool) -> Iterator[list[Any]]:
    for positive in example.positives:
        for negative, score in zip(example.negatives, example.scores, strict=True):
            last = [[example.positive_score, score]] if scores else []
            yield [example.text, positive.text, negative.text, *last]


def _tuples(example: Example, scores: bool) -> Iterator[list[Any]]:
    last = [example.all_scores] if scores else []
    for positive in example.positives:
        yield [example.text, positive.text, *(n.text for n in example.negatives), *last]


def _pairs(example: Example, scores: bool) -> Iterator[list[Any]]:
    for positive in example.positives:
        yield [example.text, positive.text, example.positive_score if scores else 1]
    for negative, score in zip(example.negatives, example.scores, strict=True):
        yield [example.text, negative.text, score if scores else 0]


def _lists(example: Example, scores: bool) -> Iterator[list[Any]]:
    last = example.all_scores if scores else [1, *(0 for _ in example.negatives)]
    for positive in example.positives:
        yield [example.text, [positive.text, *(n.text for n in example.negatives)], last]


_VALUES = {
    "triplet": _triplets,
    "n-tuple": _tuples,
    "labeled-pair": _pairs,
    "labeled-list": _lists,
}
FORM = Form(places=dict.fromkeys(_VALUES, _FILE), scored=tuple(_VALUES), write=write)
