"""``duckplets ingest``: files become records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from duckplets.cli import jsonlines, tables
from duckplets.cli.app import CORPUS, JSON
from duckplets.cli.inputs import FORMATS, Inputs, Options
from duckplets.cli.inputs import names as columns

if TYPE_CHECKING:
    from duckplets.records import IngestReport

_COLUMNS = "Repeat it, or separate by commas."


def _option(text: str, metavar: str = "COLUMN") -> typer.models.OptionInfo:
    return typer.Option(metavar=metavar, help=text, show_default=False)  # type: ignore[no-any-return]


def ingest(
    corpus: CORPUS,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, globs, folders of text files, or - for JSON lines on stdin.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the source; by default that of the file.")
    ] = None,
    format: Annotated[  # noqa: A002 - it is the option's name
        str | None,
        typer.Option(metavar="FORMAT", help=f"{', '.join(FORMATS)}; by default of the suffix."),
    ] = None,
    anchor: Annotated[
        list[str] | None, _option(f"Text of the anchor: the first that is filled. {_COLUMNS}")
    ] = None,
    positive: Annotated[
        list[str] | None, _option(f"Text that goes with it: the first that is filled. {_COLUMNS}")
    ] = None,
    context: Annotated[list[str] | None, _option(f"More texts, all required. {_COLUMNS}")] = None,
    text: Annotated[
        list[str] | None, _option(f"The only text, in place of an anchor. {_COLUMNS}")
    ] = None,
    id: Annotated[str | None, _option("Identifies a row.")] = None,  # noqa: A002
    date: Annotated[
        str | None, _option("Date of a row; for a folder 'path': dates are in the paths.")
    ] = None,
    group: Annotated[str | None, _option("Rows of a group share a split.")] = None,
    taxonomy: Annotated[
        list[str] | None, _option(f"Categories, the broadest first. {_COLUMNS}")
    ] = None,
    meta: Annotated[list[str] | None, _option(f"Kept as metadata. {_COLUMNS}")] = None,
    trust: Annotated[
        str | None, _option("Trust from 0 to 1, or a column.", "NUMBER|COLUMN")
    ] = None,
    on_conflict: Annotated[
        Literal["error", "skip", "replace"], typer.Option(help="For known ids with new content.")
    ] = "error",
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="Of CSV files; 'tab' for a tab.")
    ] = None,
    pattern: Annotated[
        str, typer.Option(metavar="GLOB", help="Files of a folder that are read.")
    ] = "*.txt",
    json: JSON = False,
) -> None:
    """Store the records of files; the corpus is created if it is new.

    Each SOURCE becomes a source of its own, named after its file; with --name all are one.
    Nothing of a source is stored if it fails. Ingesting it again adds what is new.

    Example:
        duckplets ingest faq.duckdb faq.csv --anchor question --positive answer
        duckplets ingest faq.duckdb 'news/*.parquet' --name news --text body --date day
        zcat dump.jsonl.gz | duckplets ingest faq.duckdb - --name dump --text text --id url
    """
    options = Options(
        columns={
            "anchor": columns(anchor),
            "positive": columns(positive),
            "context": columns(context),
            "text": columns(text),
            "taxonomy": columns(taxonomy),
            "meta": columns(meta),
            "id": id,
            "date": date,
            "group": group,
        },
        trust=trust,
        delimiter=delimiter,
        pattern=pattern,
    )
    inputs = Inputs(sources, form=format, name=name, options=options)
    _ingest(corpus, inputs, on_conflict, json=json)


def _ingest(
    path: Path, inputs: Inputs, on_conflict: Literal["error", "skip", "replace"], *, json: bool
) -> None:
    from duckplets.corpus import Corpus

    found = inputs.sources()
    reports: list[tuple[str, IngestReport]] = []
    with Corpus(path) as corpus:
        try:
            for name, source in found:
                reports.append((name, corpus.ingest(source, name=name, on_conflict=on_conflict)))
        finally:
            # Those before one that failed are stored, and said so.
            _print(reports, json=json)


def _print(reports: Sequence[tuple[str, IngestReport]], *, json: bool) -> None:
    if json:
        jsonlines.print_lines({"source": name, **asdict(report)} for name, report in reports)
    elif reports:
        counts = ("read", "added", "replaced", "skipped", "failed", "seconds")
        rows = [
            (name, *(getattr(r, c) for c in counts), tables.counts(r.reasons) or "-")
            for name, r in reports
        ]
        tables.show(("source", *counts, "reasons"), rows)
