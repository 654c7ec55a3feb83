"""The command `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckplets.base.sanitize import counted
from duckplets.cli import completion
from duckplets.cli.app import CORPUS, corpus_at, tell
from duckplets.cli.verbs import option


def report(
    corpus: CORPUS,
    html: Annotated[
        Path | None, option("The page. [default: CORPUS with .html for .duckdb]", "FILE.html")
    ] = None,
    run: Annotated[
        str | None,
        option(
            "A saved run, as it stands. [default: what a new one would draw]",
            "NAME",
            autocompletion=completion.runs,
        ),
    ] = None,
    mixture: Annotated[
        Path | None, option("Its mixture instead of the declared one.", "FILE.toml")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--force", help="Replace the page.")] = False,
) -> None:
    """Make one HTML page of a corpus to look at.

    It opens from disk: figures, plots, samples to leaf through. Sources and lengths, recipes
    with samples, mined negatives, the mixture over steps and what was served of it, gates with
    examples; each table with the SQL that made it. No network is needed, nothing is saved.

    Example:
        duckplets report faq.duckdb
        duckplets report faq.duckdb --run default --html faq-run.html --force
    """
    path = corpus.with_suffix(".html") if html is None else html
    with corpus_at(corpus, read_only=True) as opened:
        page = opened.report(path, run=run, mixture=mixture, overwrite=overwrite)
    tables = sum(len(section["tables"]) for section in page.data["sections"])
    tell(f"{path}: {counted(tables, 'table')}, {path.stat().st_size:,} bytes")
