"""Commands that turn texts into numbers: `embed`, `tokenizer train`, `shard`, `verify`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from duckplets.base.sanitize import shown
from duckplets.cli import output
from duckplets.cli.app import corpus_at, say, search_here, tell
from duckplets.cli.verbs import command


@command("vectors.embed:embed", places={"model": "MODEL"}, without={"prompts"})
def embed(corpus: Path, prompts: list[str] | None = None, json: bool = False, **given: Any) -> None:
    """Give a vector to every text that has none yet.

    They are kept in NAME.vectors.duckdb. Stopped or killed, it goes on where it was when it is
    called again, and no text is embedded twice. The corpus is only read, so runs may draw from
    it meanwhile.

    Args:
        prompts (--prompt ROLE=TEXT): What stands before texts of a role: anchor, context or
            rejected.

    Example:
        duckplets embed faq.duckdb sentence-transformers/all-MiniLM-L6-v2
        duckplets embed faq.duckdb intfloat/e5-small-v2 --name e5 --prompt 'anchor=query: '
        duckplets embed faq.duckdb mypkg.teacher:vectors --name teacher --dtype float16
    """
    search_here()
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


@command("tokens.train:train_tokenizer", places={"out": "OUT"}, without={"sources"})
def train(corpus: Path, sources: list[str] | None = None, json: bool = False, **given: Any) -> None:
    """Train a byte-level BPE tokenizer on the text of a split, never of the test split.

    Writes tokenizer.json, tokenizer-vocab.json and tokenizer-merges.txt. It is not trained again
    while corpus, settings and library are the same and the files are whole.

    Args:
        sources (--source NAME,…): Names of sources. [default: all]

    Example:
        duckplets tokenizer train faq.duckdb tokenizer --vocab-size 50000
    """
    from duckplets.tokens.train import train_tokenizer

    with corpus_at(corpus, read_only=True) as opened:
        report = train_tokenizer(opened, **given, sources=sources)
    output.show(report, json=json)


@command("tokens.shards:shard", places={"out": "OUT"}, without={"corpus"})
def shard(
    corpus: str,
    out: str | None = None,
    tokenizer: Path | None = None,
    sources: list[str] | None = None,
    mixture: Path | None = None,
    status: bool = False,
    json: bool = False,
    **given: Any,
) -> None:
    """Write the texts of a corpus as token shards.

    They are Parquet files of like lengths, with a manifest. Interrupted or killed, it goes on
    where it was when it is called again. When it is finished, it compares checksums and repairs
    the files that verify calls wrong.

    Args:
        out (OUT): A folder, or s3://bucket/prefix in an object store; left out with --status.
        tokenizer: A tokenizers file, or the folder of tokenizer train.
        sources (--source NAME,…): Names of sources. [default: all]
        mixture (FILE.toml): Phases and weights for mixtures.json.
        status: Only say how far the export in a folder has come.

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
        report = opened.shard(out, tokenizer=tokenizer, sources=sources, **given)
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


@command()
def verify(out: str, json: bool = False) -> None:
    """Compare token shards with their manifest.

    The exit code is 1 where a file differs. Finds files that are damaged or missing, shards
    that no manifest lists, and a manifest of another run.

    Args:
        out (OUT): A folder, or s3://bucket/prefix in an object store.

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
            f"the command that made the shards repairs them: duckplets shard CORPUS {report.path} …"
        )
        raise SystemExit(1)
