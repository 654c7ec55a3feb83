"""Commands for texts that are there more than once: `deduplicate` and `decontaminate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, tell
from duckplets.cli.inputs import names
from duckplets.cli.options import ENGINE

if TYPE_CHECKING:
    from duckplets.quality.decontaminate import DecontaminationReport
    from duckplets.quality.near_dedup import NearReport

DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Store nothing, and only report.")]


def deduplicate(
    corpus: CORPUS,
    near: Annotated[
        float | None,
        typer.Option(
            help="Least Jaccard similarity of two texts, above 0 and up to 1. [default: 0.85]"
        ),
    ] = None,
    equal: Annotated[bool, typer.Option("--equal", help="Equal texts only.")] = False,
    action: Annotated[
        Literal["remove", "mark"],
        typer.Option(help="Remove all of a cluster but one, or only note clusters."),
    ] = "remove",
    ngram: Annotated[int, typer.Option(help="Words of an n-gram.")] = 5,
    bands: Annotated[
        int | None,
        typer.Option(help="Of a MinHash signature; such that 99 % of pairs at --near are found."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Hash functions of a band. [default: as near asks]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the hash functions.")] = 42,
    dry_run: DRY_RUN = False,
    engine: ENGINE = None,
    json: JSON = False,
) -> None:
    """Find records whose texts are equal or nearly so, and keep the first of each cluster.

    The first is the one that was ingested first, whatever its split. Clusters are in the table
    clusters. Removing makes a new version; saved runs keep what they have. What was removed comes
    again if its source is ingested again.

    Example:
        duckplets deduplicate faq.duckdb --dry-run
        duckplets deduplicate faq.duckdb --near 0.9 --action mark
    """
    from duckplets.corpus.corpus import Corpus

    if equal and near is not None:
        raise typer.BadParameter("--equal is for equal texts only: leave out --near")
    with Corpus(existing(corpus), read_only=dry_run) as opened:
        report = opened.deduplicate(
            None if equal else 0.85 if near is None else near,
            action=action,
            dry_run=dry_run,
            ngram=ngram,
            bands=bands,
            rows=rows,
            seed=seed,
            engine=engine,
        )
    _show(report, json=json)


def decontaminate(
    corpus: CORPUS,
    against: Annotated[
        str,
        typer.Argument(
            metavar="AGAINST",
            help="test or validation, a source of the corpus, a file, or a folder of texts.",
        ),
    ],
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Of a file: texts to compare. Repeat it."),
    ] = None,
    ngram: Annotated[int, typer.Option(help="Words of an n-gram.")] = 13,
    action: Annotated[
        Literal["mark", "remove"], typer.Option(help="Only note what was found, or remove it.")
    ] = "mark",
    dry_run: DRY_RUN = False,
    json: JSON = False,
) -> None:
    """Find records that share an n-gram of words with an evaluation set.

    With test, records of train and validation are compared with the test split. What was found is
    in the table contaminations. Removing makes a new version; saved runs keep what they have.

    Example:
        duckplets decontaminate faq.duckdb test --action remove
        duckplets decontaminate faq.duckdb exam.csv --text question --ngram 8
    """
    from duckplets.corpus.corpus import Corpus

    with Corpus(existing(corpus), read_only=dry_run) as opened:
        report = opened.decontaminate(
            against, text=names(text), ngram=ngram, action=action, dry_run=dry_run
        )
    _show(report, json=json)


def _show(report: NearReport | DecontaminationReport, *, json: bool) -> None:
    if json:
        output.print_document(asdict(report))
    else:
        tell(*str(report).splitlines())
