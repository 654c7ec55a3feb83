"""Read the options by which commands that take text in say what is read, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from duckplets.base.formats import FORMATS
from duckplets.cli.inputs import FoundSource, Options, found_in, names
from duckplets.cli.options import option

_COLUMNS = "Repeat it, or separate by commas."


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What options say of the sources of a command.

    Attributes:
        lists: Files of lines that each name a source.
        form: Format of all files, or None to go by their suffixes.
        name: Of the one source that they make together, or None.
        options: What their rows hold.
        arguments: Other arguments of ``Corpus.ingest``.
    """

    lists: Sequence[Path]
    form: str | None
    name: str | None
    options: Options
    arguments: dict[str, Any]

    def found(
        self, sources: Sequence[str], *, keep_going: bool, meta: Sequence[str] = ()
    ) -> tuple[list[FoundSource], list[str]]:
        """Return the sources that arguments and lists name, and what is wrong with the others.

        Args:
            sources: As typed.
            keep_going: Whether what is wrong is passed over.
            meta: Columns that are kept as metadata besides those that were given.
        """
        columns, kept = self.options.columns, self.options.columns["meta"] or []
        wanted = [*kept, *(name for name in meta if name not in kept)] or None
        options = replace(self.options, columns={**columns, "meta": wanted})
        return found_in(sources, self.lists, self.form, self.name, options, keep_going=keep_going)


def given(
    *,
    hub_list: Annotated[
        list[Path] | None,
        typer.Option("--list", metavar="FILE", help="A file of hf:// lines, each a source."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the source. [default: that of the file]")
    ] = None,
    format: Annotated[  # noqa: A002 - it is the option's name
        str | None,
        typer.Option(metavar="FORMAT", help=f"{', '.join(FORMATS)}. [default: of the suffix]"),
    ] = None,
    anchor: Annotated[
        list[str] | None,
        option(f"Text of the anchor: the first there is, also of a list. {_COLUMNS}"),
    ] = None,
    positive: Annotated[
        list[str] | None, option(f"Text that goes with it: the first that is filled. {_COLUMNS}")
    ] = None,
    context: Annotated[
        list[str] | None, option(f"More texts, all required but those with a ? behind. {_COLUMNS}")
    ] = None,
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
    turns: Annotated[
        Literal["last", "each"],
        typer.Option(
            help="Of conversations: a pair of the last reply and all before it, or of each reply "
            "and what the user said before it."
        ),
    ] = "last",
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
        typer.Option(
            help="A date that cannot be read leaves its record without, or fails. [default: null]"
        ),
    ] = None,
    null_values: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD,…", help="Words for no value, as in N/A,nan,NULL."),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of text, such as latin-1. [default: UTF-8]")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,…", help="Metadata shown before half of the texts: source, date, …"
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="Of CSV files; 'tab' for a tab.")
    ] = None,
    no_quote: Annotated[
        bool, typer.Option("--no-quote", help="In CSV files a quote is plain text.")
    ] = False,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Files of a folder that are read. Repeat it. [default: *.txt]"
        ),
    ] = None,
    by_heading: Annotated[
        bool,
        typer.Option(
            "--by-heading",
            help="Of text each section is a record; its anchor is 'Title > Section', its group the "
            "file.",
        ),
    ] = False,
    max_row: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Of a row or line, as in 256MB. [default: 128MB]"),
    ] = None,
    max_field: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of a value of a row. [default: 64MB]")
    ] = None,
    reader_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What reading may take. [default: 512MB]")
    ] = None,
) -> SourceOptions:
    """Return what options say; its parameters are those of every command that reads sources."""
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
            "turns": turns if converter or turns != "last" else None,
            "date_format": date_format or None,
            "on_bad_date": on_bad_date,
            "null_values": names(null_values),
        },
        trust=trust,
        delimiter=delimiter,
        no_quote=no_quote,
        pattern=pattern,
        by_heading=by_heading,
        encoding=encoding,
    )
    sizes: dict[str, Any] = {"row": max_row, "field": max_field, "memory": reader_memory}
    limits = Limits(**{name: size for name, size in sizes.items() if size})
    return SourceOptions(
        lists=hub_list or [],
        form=format,
        name=name,
        options=options,
        arguments={"prefix": prefix, "on_error": on_error, "limits": limits},
    )


def source_parameters() -> dict[str, Parameter]:
    """Return the options of a command that reads sources, by name."""
    return dict(signature(given, eval_str=True).parameters)


def given_of(values: Mapping[str, Any]) -> SourceOptions:
    """Return what the options of a command say of sources."""
    return given(**{name: value for name, value in values.items() if name in source_parameters()})
