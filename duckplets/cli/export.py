"""``duckplets export``: mined negatives, or an evaluation set, in the files of trainers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from duckplets.cli import tables
from duckplets.cli.app import CORPUS, say

if TYPE_CHECKING:
    from duckplets.export import ExportReport


def export(
    corpus: CORPUS,
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="FILE.parquet, FILE.jsonl or a folder, by format."),
    ],
    format: Annotated[  # noqa: A002 - it is the option's name
        Literal["sentence-transformers", "flagembedding", "tevatron", "beir"],
        typer.Option(help="Whose files to write."),
    ],
    recipe: Annotated[
        str | None, typer.Option(help="Name of a recipe; by default the one that was mined.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="From this source only; by default from all.")
    ] = None,
    split: Annotated[
        Literal["train", "validation", "test"] | None,
        typer.Option(help="By default train, of beir test."),
    ] = None,
    shape: Annotated[
        Literal["triplet", "n-tuple", "labeled-pair", "labeled-list", "documents", "passages"]
        | None,
        typer.Option(
            help="Of sentence-transformers triplet, n-tuple, labeled-pair or labeled-list; of "
            "tevatron documents or passages. By default the first."
        ),
    ] = None,
    negatives: Annotated[
        int | None, typer.Option(help="Of an anchor at most; in an n-tuple exactly. All.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write scores as well.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier export wrote there.")
    ] = False,
    allow_stale: Annotated[
        bool, typer.Option("--allow-stale", help="Even if records or the recipe have changed.")
    ] = False,
) -> None:
    """Write mined negatives with their anchors and positives for a trainer, or an evaluation set.

    Files appear whole or not at all. Anchors that are left out are counted. The format beir, of
    queries, documents and which are relevant, needs no mining.

    Example:
        duckplets export faq.duckdb train.parquet --format sentence-transformers --negatives 4
        duckplets export faq.duckdb train.jsonl --format flagembedding --scores
        duckplets export faq.duckdb evaluation --format beir --split test
    """
    from duckplets.corpus import Corpus

    with Corpus(corpus, read_only=True) as opened:
        report = opened.export_negatives(
            path,
            format=format,
            recipe=recipe,
            source=source,
            split=split,
            shape=shape,
            negatives=negatives,
            scores=scores,
            overwrite=overwrite,
            allow_stale=allow_stale,
        )
    _tell(report)


def _tell(report: ExportReport) -> None:
    say(f"wrote {report.rows:,} rows to {report.path}, from {', '.join(report.sources)}")
    what = "queries" if report.format == "beir" else "anchors"
    counts = {what: report.anchors, "negatives": report.negatives}
    counts |= {f"left out: {reason}": n for reason, n in report.left_out.items()}
    tables.show(("what", "count"), ((name, n) for name, n in counts.items() if n))
