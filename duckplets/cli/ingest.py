"""Commands from files to chunks: `ingest` stores records, `split` and `chunk` divide them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, say
from duckplets.cli.options import ENGINE, NORMALISE
from duckplets.cli.rows import SourceOptions, reads_rows
from duckplets.cli.storing import remove_empty, store

_SHARE = "from 0 to 1; those not given divide the rest as usual, 8 : 1 : 1."


@reads_rows
def ingest(
    corpus: CORPUS,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Files, globs, text files or folders of them, s3://bucket/key (also a glob, or a "
            "folder ending with /), hf://org/name/config/split with its keys, data-set files "
            "(.yaml, .toml), or - for JSON lines on stdin.",
        ),
    ] = None,
    *,
    rows: SourceOptions,
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
    remap: Annotated[
        bool,
        typer.Option("--remap", help="Replace the records of a source that was read otherwise."),
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            help="Leave the texts in their Parquet files, which must stay as they are.",
        ),
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
    engine: ENGINE = None,
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
    from duckplets import engine as engines
    from duckplets.corpus.corpus import Corpus

    arguments = {**rows.arguments, "on_conflict": on_conflict, "restart": restart, "remap": remap}
    arguments["in_place"] = in_place
    found, problems = rows.found(sources or [], keep_going=keep_going)
    say(*(f"failed: {problem}" for problem in problems))
    if preview is not None:
        output.show_records(found, preview, arguments["on_error"], arguments["limits"], json=json)
        if problems:
            raise typer.Exit(1)
        return
    is_new = not corpus.exists()
    with Corpus(corpus) as opened, engines.opened(engine) as arguments["engine"]:
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
    from duckplets.corpus.corpus import Corpus

    with Corpus(existing(corpus)) as opened:
        report = opened.split(
            train, validation, test, seed, keep_together=keep_together, reassign=reassign
        )
    if None in (train, validation, test) and (train, validation, test) != (None,) * 3:
        used = report.settings
        say(f"shares: train {used.train:g}, validation {used.validation:g}, test {used.test:g}")
    output.show_split(report, keep_together)
