"""Commands that turn texts into numbers: `embed` and `shard`."""

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


@command("vectors.embed:embed", only="name batch_size", places={"model": "MODEL"})
def embed(
    corpus: Path, prompts: list[str] | None = None, json: bool = False, **settings: Any
) -> None:
    """Compute a vector for every text that has none.

    Vectors are stored in NAME.vectors.duckdb. Repeat a stopped or killed command to continue; each
    text is embedded once. The corpus is only read, so runs may draw from it at the same time.

    Args:
        prompts (--prompt ROLE=TEXT): Put TEXT before texts of a role: anchor, context or rejected.

    Example:
        duckplets embed faq.duckdb sentence-transformers/all-MiniLM-L6-v2
        duckplets embed faq.duckdb intfloat/e5-small-v2 --name e5 --prompt 'anchor=query: '
        duckplets embed faq.duckdb mypkg.teacher:vectors --name teacher
    """
    search_here()
    try:
        with corpus_at(corpus, read_only=True) as opened:
            report = opened.embed(prompts=_prompts(prompts or ()), **settings)
    except KeyboardInterrupt as error:
        say(str(error) or "interrupted")
        raise
    output.show(report, json=json)
    if report.failed:
        say("the table vector_failures has the failed texts; repeat the command to try them again")


def _prompts(options: Sequence[str]) -> dict[str, str] | None:
    prompts: dict[str, str] = {}
    for option in options:
        role, equals, text = option.partition("=")
        if not equals or role in prompts:
            raise typer.BadParameter(f"--prompt {option}: give ROLE=TEXT, each role once")
        prompts[role] = text
    return prompts or None


@command("tokens.shards:shard", only="split seed overwrite", places={"out": "OUT"})
def shard(
    corpus: str,
    out: str | None = None,
    tokenizer: Path | None = None,
    sources: list[str] | None = None,
    mixture: Path | None = None,
    verify: bool = False,
    json: bool = False,
    **settings: Any,
) -> None:
    """Write the texts of a corpus as token shards, and verify them.

    Shards are Parquet files of similar lengths, with a manifest. Repeat an interrupted command to
    continue. Repeated after its end, it compares checksums and repairs files. With a folder of
    shards alone, it prints the progress of the export. With --verify the exit code is 1 if a file
    differs from the manifest.

    Args:
        out (OUT): A folder, or s3://bucket/prefix in an object store.
        tokenizer: A tokenizers file, or the folder of dp.train_tokenizer.
        sources (--source NAME,…): Names of sources. [default: all]
        mixture (FILE.toml): Phases and weights for mixtures.json.
        verify: Compare the shards of a folder with their manifest: shard OUT --verify.

    Example:
        duckplets shard faq.duckdb shards --tokenizer tokenizer.json
        duckplets shard faq.duckdb s3://bucket/shards --tokenizer tokenizer.json
        duckplets shard shards
        duckplets shard shards --verify
    """
    if verify or (out is None and tokenizer is None and not Path(corpus).is_file()):
        (_verify if verify else _tell_status)(out or corpus, json=json)
        return
    if out is None or tokenizer is None:
        raise typer.BadParameter("give CORPUS, OUT and --tokenizer; or OUT alone, or with --verify")
    from duckplets.order.mixture import Mixture

    settings["mixture"] = None if mixture is None else Mixture.from_toml(mixture)
    with corpus_at(Path(corpus), read_only=True) as opened:
        report = opened.shard(out, tokenizer=tokenizer, sources=sources, **settings)
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


def _verify(out: str, *, json: bool) -> None:
    from duckplets.tokens.verify import verify as verified

    report = verified(out)
    if json:
        document = asdict(report) | {"path": str(report.path), "ok": report.ok}
        document["problems"] = [{"file": file, "what": text} for file, text in report.problems]
        output.print_document(document)
    else:
        output.show(report)
        tell("all files are as written" if report.ok else "WRONG: not all files are as written")
    if not report.ok:
        say(f"repeat the command that wrote the shards: duckplets shard CORPUS {report.path} …")
        raise SystemExit(1)
