"""Training data of FlagEmbedding: a query a line, with its positives and negatives.

With scores it fits ``--knowledge_distillation``. The instruction of the recipe is the ``prompt``,
which the trainer reads where it is given ``--query_instruction_for_retrieval``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from duckplets.export.example import Example
from duckplets.export.form import Form, Progress, write_examples
from duckplets.export.reader import Reader
from duckplets.export.sinks import json_lines
from duckplets.export.wanted import Tally, Wanted
from duckplets.export.whole import Place


def write(reader: Reader, wanted: Wanted, path: Path, progress: Progress | None) -> Tally:
    """Write a file of JSON lines."""

    def rows(example: Example) -> list[dict[str, Any]]:
        row: dict[str, Any] = {
            "query": example.text,
            "pos": [document.text for document in example.positives],
            "neg": [document.text for document in example.negatives],
        }
        if wanted.scores:
            row["pos_scores"] = [example.positive_score] * len(example.positives)
            row["neg_scores"] = example.scores
        if wanted.instruction is not None:
            row["prompt"] = wanted.instruction
        return [row]

    with json_lines(path) as sink:
        return write_examples(reader, wanted, rows, sink, progress)


FORM = Form(places={"": Place(suffixes=(".jsonl", ".json"))}, scored=("",), write=write)
