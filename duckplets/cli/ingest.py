"""``duckplets ingest``: files become records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.cli import jsonlines, tables
from duckplets.cli.app import CORPUS, JSON, say
from duckplets.cli.inputs import FORMATS, Inputs, Options, is_data_sets
from duckplets.cli.inputs import names as columns

if TYPE_CHECKING:
    from duckplets.corpus import Corpus
    from duckplets.ingest.records import IngestReport
    from duckplets.sources import Source

_COLUMNS = "Repeat it, or separate by commas."


def _option(text: str, metavar: str = "COLUMN") -> typer.models.OptionInfo:
    return typer.Option(metavar=metavar, help=text, show_default=False)  # type: ignore[no-any-return]


def ingest(
    corpus: CORPUS,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Files, globs, folders of text files, hf://org/name/config/split with its keys, "
            "data-set files (.yaml, .toml), or - for JSON lines on stdin.",
        ),
    ] = None,
    hub_list: Annotated[
        list[Path] | None,
        typer.Option("--list", metavar="FILE", help="A file of hf:// lines, each a source."),
    ] = None,
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
    converter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="In place of texts: alpaca, sharegpt, pair or openai rows."
        ),
    ] = None,
    on_error: Annotated[
        Literal["raise", "skip", "quarantine"] | None,
        typer.Option(help="For rows a converter cannot read; quarantine is a table; raise."),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,…", help="Metadata shown before half of the texts: source, date, …"
        ),
    ] = None,
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Clean texts from now on, as chunk --denoise does.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard what an unfinished ingest has stored.")
    ] = False,
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
    Nothing of a source is stored if it fails. Ingesting it again adds what is new. From the Hub
    texts come in pieces: what was interrupted goes on where it stopped, by the same command.

    Example:
        duckplets ingest faq.duckdb faq.csv --anchor question --positive answer
        duckplets ingest faq.duckdb 'news/*.parquet' --name news --text body --date day
        duckplets ingest faq.duckdb hf://org/faq/default/train anchor=question positive=answer
        duckplets ingest faq.duckdb chats.jsonl --converter sharegpt --on-error quarantine
        zcat dump.jsonl.gz | duckplets ingest faq.duckdb - --name dump --text text --id url
    """
    from duckplets.corpus import Corpus

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
            "converter": converter,
            "on_error": on_error,
        },
        trust=trust,
        delimiter=delimiter,
        pattern=pattern,
    )
    arguments: dict[str, Any] = {"on_conflict": on_conflict, "prefix": prefix, "restart": restart}
    files = [Path(given) for given in sources or [] if is_data_sets(given)]
    others = [given for given in sources or [] if not is_data_sets(given)]
    if not (files or others or hub_list):
        raise typer.BadParameter("give a SOURCE, or a --list of them")
    said = name or format or delimiter or any(options.mapping().values())
    for file in [*files, *(hub_list or [])]:
        if said:
            raise typer.BadParameter(f"{file} says itself what its data sets are named and hold")
    inputs = Inputs(others, form=format, name=name, options=options)
    found = [*inputs.sources(), *_listed(hub_list or [])]
    reports: list[tuple[str, IngestReport]] = []
    with Corpus(corpus) as opened:
        if denoise:
            opened.denoise()
        try:
            for each, source in found:
                reports.append((each, opened.ingest(source, name=each, **arguments)))
            for file in files:
                reports += opened.ingest_data_sets(file, **arguments).items()
        except KeyboardInterrupt:
            _say_what_is_kept(opened)
            raise
        finally:
            # Those before one that failed are stored, and said so.
            _print(reports, json=json)


def _listed(lists: Sequence[Path]) -> list[tuple[str, Source]]:
    """Return the sources that lists of data sets on the Hub name."""
    if not lists:
        return []
    from duckplets.sources.hub import read_hub_list

    return [(s.default_name(), s) for file in lists for s in read_hub_list(file)]


def _say_what_is_kept(corpus: Corpus) -> None:
    for kept in corpus.unfinished():
        say(
            f"{kept['rows']:,} rows of {kept['source']} are kept: the same command goes on from "
            f"there, and --restart discards them"
        )


def _print(reports: Sequence[tuple[str, IngestReport]], *, json: bool) -> None:
    if json:
        jsonlines.print_lines({"source": name, **asdict(report)} for name, report in reports)
    elif reports:
        counts = ("read", "added", "replaced", "skipped", "failed", "seconds")
        rows = [
            (
                name,
                *(getattr(r, c) for c in counts),
                tables.counts(r.reasons | r.dropped_sections) or "-",
            )
            for name, r in reports
        ]
        tables.show(("source", *counts, "reasons"), rows)
