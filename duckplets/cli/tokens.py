"""Commands that turn texts into numbers: `embed`, `tokenizer train`, `shard`, `verify`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.sanitize import shown
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, corpus_at, say, tell
from duckplets.cli.verbs import names, of_verb, option

if TYPE_CHECKING:
    pass

PLACE = "A folder, or s3://bucket/prefix in an object store"
SOURCES = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="NAME,…", help="Names of sources. [default: all]"),
]


@of_verb("vectors.embed:embed", places={"model": "MODEL"}, without={"prompts"})
def embed(
    corpus: CORPUS,
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            "--prompt",
            metavar="ROLE=TEXT",
            help="What stands before texts of a role: anchor, context or rejected.",
        ),
    ] = None,
    json: JSON = False,
    **given: Any,
) -> None:
    """Give a vector to every text that has none yet.

    They are kept in NAME.vectors.duckdb. Stopped or killed, it goes on where it was when it is
    called again, and no text is embedded twice. The corpus is only read, so runs may draw from
    it meanwhile.

    Example:
        duckplets embed faq.duckdb sentence-transformers/all-MiniLM-L6-v2
        duckplets embed faq.duckdb intfloat/e5-small-v2 --name e5 --prompt 'anchor=query: '
        duckplets embed faq.duckdb mypkg.teacher:vectors --name teacher --dtype float16
    """
    from duckplets.sources.converters.registry import search_first

    with suppress(OSError):  # the working folder was deleted
        search_first(os.getcwd())
    try:
        with corpus_at(corpus, read_only=True) as opened:
            report = opened.embed(prompts=_prompts(prompts or ()), **given)
    except KeyboardInterrupt as error:
        say(str(error) or "interrupted")
        raise
    output.show(report, json=json)
    if report.failed:
        say("what failed is in vector_failures, and is tried again when this is called again")


def _prompts(given: Sequence[str]) -> dict[str, str] | None:
    prompts: dict[str, str] = {}
    for each in given:
        role, equals, text = each.partition("=")
        if not equals or role in prompts:
            raise typer.BadParameter(f"--prompt {each}: give ROLE=TEXT, each role once")
        prompts[role] = text
    return prompts or None


@of_verb("tokens.train:train_tokenizer", places={"out": "OUT"}, without={"sources"})
def train(corpus: CORPUS, sources: SOURCES = None, json: JSON = False, **given: Any) -> None:
    """Train a byte-level BPE tokenizer on the text of a split, never of the test split.

    Writes tokenizer.json, tokenizer-vocab.json and tokenizer-merges.txt. It is not trained again
    while corpus, settings and library are the same and the files are whole.

    Example:
        duckplets tokenizer train faq.duckdb tokenizer --vocab-size 50000
    """
    from duckplets.tokens.train import train_tokenizer

    with corpus_at(corpus, read_only=True) as opened:
        report = train_tokenizer(opened, **given, sources=names(sources))
    output.show(report, json=json)


@of_verb("tokens.shards:shard", without={"out", "sources", "mixture", "tokenizer"})
def shard(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="The corpus file.")],
    out: Annotated[
        str | None, typer.Argument(metavar="OUT", help=f"{PLACE}; left out with --status.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A tokenizers file, or the folder of tokenizer train.", exists=True
        ),
    ] = None,
    sources: SOURCES = None,
    mixture: Annotated[
        Path | None,
        option("Phases and weights for mixtures.json.", "FILE.toml"),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Only say how far the export in a folder has come.")
    ] = False,
    json: JSON = False,
    **given: Any,
) -> None:
    """Write the texts of a corpus as token shards.

    They are Parquet files of like lengths, with a manifest. Interrupted or killed, it goes on
    where it was when it is called again. Called again when it is finished, it compares every
    file with what was written, and writes again what is damaged.

    Example:
        duckplets shard faq.duckdb shards --tokenizer tokenizer --shard-mb 100
        duckplets shard faq.duckdb s3://bucket/shards --tokenizer tokenizer
        duckplets shard --status shards
    """
    if status:
        _tell_status(out or corpus, json=json)
        return
    if out is None or tokenizer is None:
        raise typer.BadParameter("give CORPUS, OUT and --tokenizer, or --status and a folder")
    from duckplets.order.mixture import Mixture

    given["mixture"] = None if mixture is None else Mixture.from_toml(mixture)
    with corpus_at(Path(corpus), read_only=True) as opened:
        report = opened.shard(out, tokenizer=tokenizer, sources=names(sources), **given)
    output.show(report, json=json)


def _tell_status(folder: str, *, json: bool) -> None:
    from duckplets.tokens.locations import status

    found: dict[str, Any] = status(folder)
    if json:
        output.print_document(found)
        return
    counters = found["counters"]
    tell(
        f"{shown(str(folder))}: {found['stage']}, {found['last_updated']}",
        f"  {counters['records']:,} records, {counters['tokens']:,} tokens, "
        f"{counters['shards']:,} shards of {counters['buckets']:,} buckets",
    )


def verify(
    out: Annotated[str, typer.Argument(metavar="OUT", help=f"{PLACE}.")], json: JSON = False
) -> None:
    """Compare token shards with their manifest.

    The exit code is 1 where a file differs. Finds files that are damaged or missing, shards
    that no manifest lists, and a manifest of another run.

    Example:
        duckplets verify shards
        duckplets verify s3://bucket/shards
    """
    from duckplets.tokens.verify import verify as verified

    report = verified(out)
    if json:
        document = asdict(report) | {"path": str(report.path), "ok": report.ok}
        document["problems"] = [{"file": file, "what": what} for file, what in report.problems]
        output.print_document(document)
    else:
        output.show(report)
        tell("all files are as written" if report.ok else "WRONG: not all files are as written")
    if not report.ok:
        say(
            f"The command that made them writes again what is damaged or missing: duckplets shard "
            f"CORPUS {report.path} …; what is unlisted stays"
        )
        raise SystemExit(1)
