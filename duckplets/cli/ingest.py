"""Commands from files to chunks: `ingest` stores records, `split` and `chunk` divide them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, say
from duckplets.cli.inputs import FORMATS, Options, found_in, names
from duckplets.cli.options import NORMALISE, option
from duckplets.cli.storing import remove_empty, store

if TYPE_CHECKING:
    pass

_SHARE = "from 0 to 1; those not given divide the rest as usual, 8 : 1 : 1."
_COLUMNS = "Repeat it, or separate by commas."


def ingest(
    corpus: CORPUS,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Files, globs, text files or folders of them, hf://org/name/config/split with its "
            "keys, data-set files (.yaml, .toml), or - for JSON lines on stdin.",
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
        list[str] | None,
        option(f"Text of the anchor: the first there is, also of a list. {_COLUMNS}"),
    ] = None,
    positive: Annotated[
        list[str] | None, option(f"Text that goes with it: the first that is filled. {_COLUMNS}")
    ] = None,
    context: Annotated[list[str] | None, option(f"More texts, all required. {_COLUMNS}")] = None,
    text: Annotated[
        list[str] | None, option(f"The only text, in place of an anchor. {_COLUMNS}")
    ] = None,
    negative: Annotated[
        list[str] | None, option(f"Ready negatives of the anchor, or lists of them. {_COLUMNS}")
    ] = None,
    label: Annotated[
        str | None, option("Judges anchor and positive: true or false, 1 or 0, a name, a grade.")
    ] = None,
    labels: Annotated[
        str | None, option("What its names mean, as in 'dup:1,other:0'.", "NAME:NUMBER,…")
    ] = None,
    sections: Annotated[
        str | None, option("Sections given whole: a list of role, heading and text.")
    ] = None,
    text_of: Annotated[
        Literal["json"] | None,
        typer.Option(help="json takes the JSON of what is no text; else its row fails."),
    ] = None,
    id: Annotated[str | None, option("Identifies a row.")] = None,  # noqa: A002
    date: Annotated[
        str | None, option("Date of a row; for a folder 'path': dates are in the paths.")
    ] = None,
    created_at: Annotated[str | None, option("When the record was made.")] = None,
    updated_at: Annotated[str | None, option("When it was last changed.")] = None,
    group: Annotated[str | None, option("Rows of a group share a split.")] = None,
    taxonomy: Annotated[
        list[str] | None, option(f"Categories, the broadest first. {_COLUMNS}")
    ] = None,
    meta: Annotated[list[str] | None, option(f"Kept as metadata. {_COLUMNS}")] = None,
    trust: Annotated[str | None, option("Trust from 0 to 1, or a column.", "NUMBER|COLUMN")] = None,
    converter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="In place of texts: alpaca, sharegpt, pair or openai rows; or MODULE:FUNCTION, "
            "which is imported, from this folder too, and called for every row.",
        ),
    ] = None,
    on_error: Annotated[
        Literal["raise", "skip", "quarantine"] | None,
        typer.Option(
            help="For rows that cannot be used: skip (counted); with a --converter raise; "
            "quarantine is a table."
        ),
    ] = None,
    date_format: Annotated[
        list[str] | None,
        typer.Option(metavar="FORM", help="How dates are written, as in '%d.%m.%Y'. Repeat it."),
    ] = None,
    on_bad_date: Annotated[
        Literal["null", "fail"] | None,
        typer.Option(help="A date that cannot be read leaves its record without, or fails; null."),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of text, such as latin-1; UTF-8.")
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
    normalise: NORMALISE = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard what an unfinished ingest has stored.")
    ] = False,
    on_conflict: Annotated[
        Literal["error", "skip", "replace"], typer.Option(help="For known ids with new content.")
    ] = "error",
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="Of CSV files; 'tab' for a tab.")
    ] = None,
    no_quote: Annotated[
        bool, typer.Option("--no-quote", help="In CSV files a quote is plain text.")
    ] = False,
    pattern: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Files of a folder that are read; *.txt. Repeat it."),
    ] = None,
    remap: Annotated[
        bool,
        typer.Option("--remap", help="Replace the records of a source that was read otherwise."),
    ] = False,
    preview: Annotated[
        int | None,
        typer.Option(metavar="N", help="Only show the first N rows as records; nothing is stored."),
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="After a source that fails, or is not there, go on with the others.",
        ),
    ] = False,
    max_row: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of a row or line, as in 256MB; 128MB.")
    ] = None,
    max_field: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of a value of a row; 64MB.")
    ] = None,
    reader_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What reading may take; 512MB.")
    ] = None,
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
        duckplets ingest faq.duckdb docs --pattern '*.md' --pattern '*.rst' --preview 3
        zcat dump.jsonl.gz | duckplets ingest faq.duckdb - --name dump --text text --id url
    """
    from duckplets.corpus import Corpus
    from duckplets.sources.limits import Limits

    options = Options(
        columns={
            "anchor": names(anchor),
            "positive": names(positive),
            "context": names(context),
            "text": names(text),
            "negative": names(negative),
            "label": label,
            "labels": labels,
            "sections": sections,
            "text_of": text_of,
            "created_at": created_at,
            "updated_at": updated_at,
            "taxonomy": names(taxonomy),
            "meta": names(meta),
            "id": id,
            "date": date,
            "group": group,
            "converter": converter,
            "date_format": date_format or None,
            "on_bad_date": on_bad_date,
        },
        trust=trust,
        delimiter=delimiter,
        no_quote=no_quote,
        pattern=pattern,
        encoding=encoding,
    )
    sizes: dict[str, Any] = {"row": max_row, "field": max_field, "memory": reader_memory}
    arguments: dict[str, Any] = {"on_conflict": on_conflict, "prefix": prefix, "restart": restart}
    arguments |= {"remap": remap, "on_error": on_error}
    arguments["limits"] = Limits(**{name: size for name, size in sizes.items() if size})
    found, problems = found_in(
        sources or [], hub_list or [], format, name, options, keep_going=keep_going
    )
    say(*(f"failed: {problem}" for problem in problems))
    if preview is not None:
        output.show_records(found, preview, on_error, arguments["limits"], json=json)
        if problems:
            raise typer.Exit(1)
        return
    is_new = not corpus.exists()
    with Corpus(corpus) as opened:
        try:
            if denoise:
                opened.denoise()
            if normalise is not None:
                from duckplets.text.normaliser import Normaliser

                opened.normalise(Normaliser(code=normalise == "code"))
            store(
                opened, found, arguments, problems, command=ingest, json=json, keep_going=keep_going
            )
        finally:
            if is_new:
                remove_empty(opened)


def split(
    corpus: CORPUS,
    train: Annotated[
        float | None, typer.Option(help=f"Share of training records, {_SHARE}")
    ] = None,
    validation: Annotated[float | None, typer.Option(help="Share of validation records.")] = None,
    test: Annotated[float | None, typer.Option(help="Share of test records.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives another assignment.")] = 42,
    keep_together: Annotated[
        Literal["group", "text"],
        typer.Option(help="What shares a split: a group; or all that groups or texts connect."),
    ] = "group",
    reassign: Annotated[
        bool, typer.Option("--reassign", help="Move records of a corpus split otherwise.")
    ] = False,
) -> None:
    """Assign every record to train, validation or test, for good.

    Records ingested later get theirs by the same shares and seed. With --keep-together text no
    anchor of validation or test is one of train, but for case, accents and white space.

    Example:
        duckplets split faq.duckdb --train 0.9
        duckplets split faq.duckdb --keep-together text --reassign
    """
    from duckplets.corpus import Corpus

    with Corpus(existing(corpus)) as opened:
        report = opened.split(
            train, validation, test, seed, keep_together=keep_together, reassign=reassign
        )
    if None in (train, validation, test) and (train, validation, test) != (None,) * 3:
        used = report.settings
        say(f"shares: train {used.train:g}, validation {used.validation:g}, test {used.test:g}")
    output.show_split(report, keep_together)
