"""Command that gives every text of a corpus a vector: `embed`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from duckplets.base.sanitize import counted, shown
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, say

if TYPE_CHECKING:
    from duckplets.vectors.embed import EmbedReport


def embed(
    corpus: CORPUS,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A sentence-transformers model, by name or folder; or module:function, which "
            "takes a list of texts and whose code then runs.",
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the set.")] = "default",
    split: Annotated[
        Literal["train", "validation", "test"] | None,
        typer.Option(help="Texts of this split only. [default: all]"),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Texts of one call, at most.")] = 256,
    retries: Annotated[int, typer.Option(help="How often a call that fails is made again.")] = 2,
    max_failures: Annotated[
        float, typer.Option(help="Stop when more than this share of the last 200 texts fail.")
    ] = 0.05,
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="Of the numbers that are kept.")
    ] = "float32",
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            "--prompt",
            metavar="ROLE=TEXT",
            help="What stands before texts of a role: anchor, context or rejected.",
        ),
    ] = None,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Divide every vector by its length.")
    ] = False,
    made_by: Annotated[
        str | None, typer.Option(help="What the set is tied to. [default: the function's name]")
    ] = None,
    json: JSON = False,
) -> None:
    """Give a vector to every text that has none yet; they are kept in NAME.vectors.duckdb.

    Stopped or killed, it goes on where it was when it is called again, and no text is embedded
    twice. The corpus is only read, so runs may draw from it meanwhile.

    Example:
        duckplets embed faq.duckdb sentence-transformers/all-MiniLM-L6-v2
        duckplets embed faq.duckdb intfloat/e5-small-v2 --name e5 --prompt 'anchor=query: '
        duckplets embed faq.duckdb mypkg.teacher:vectors --name teacher --dtype float16
    """
    from duckplets.corpus.corpus import Corpus
    from duckplets.sources.converters.registry import search_first

    with suppress(OSError):  # the folder was deleted
        search_first(os.getcwd())
    try:
        with Corpus(existing(corpus), read_only=True) as opened:
            report = opened.embed(
                model,
                name,
                split=split,
                batch_size=batch_size,
                retries=retries,
                max_failures=max_failures,
                dtype=dtype,
                prompts=_prompts(prompts or ()),
                normalise=normalise,
                made_by=made_by,
            )
    except KeyboardInterrupt as error:
        say(str(error) or "interrupted")
        raise
    if json:
        output.print_document(asdict(report) | {"path": str(report.path)})
    else:
        _tell(report)


def _prompts(given: Sequence[str]) -> dict[str, str] | None:
    prompts: dict[str, str] = {}
    for each in given:
        role, equals, text = each.partition("=")
        if not equals or role in prompts:
            raise typer.BadParameter(f"--prompt {each}: give ROLE=TEXT, each role once")
        prompts[role] = text
    return prompts or None


def _tell(report: EmbedReport) -> None:
    dimension = "" if report.dimension is None else f" of {report.dimension} {report.dtype}"
    say(
        f"{report.name}: {counted(report.embedded, 'text')} embedded{dimension}, "
        f"{report.there:,} were there, {report.failed:,} failed, {report.rate:,.0f} texts a second"
    )
    if report.prompted:
        say(f"with a prompt, though in other roles too: {counted(report.prompted, 'text')}")
    for reason, count in report.reasons.items():
        say(f"failed: {count:,} so: {shown(reason)}")
    if report.failed:
        say("they are in vector_failures, and are tried again when this is called again")
    say(f"kept in {report.path}")
