"""Commands of tokens: `tokenizer train`, `shard` and `verify`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.base.sanitize import counted, shown
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, say, tell
from duckplets.cli.inputs import names
from duckplets.cli.options import ENGINE

if TYPE_CHECKING:
    from duckplets.tokens.shards import ShardReport
    from duckplets.tokens.train import TokenizerReport

OUT = Annotated[Path, typer.Argument(metavar="OUT", help="A folder.")]
PLACE = "A folder, or s3://bucket/prefix in an object store"
SOURCES = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="NAME,…", help="Names of sources. [default: all]"),
]
CODE = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,…", help="Sources of code, whose white space stays."),
]


def train(
    corpus: CORPUS,
    out: OUT,
    split: Annotated[
        Literal["train", "validation"], typer.Option(help="Whose text it sees.")
    ] = "train",
    sources: SOURCES = None,
    code: CODE = None,
    vocab_size: Annotated[int, typer.Option(help="Tokens at most.")] = 32_000,
    min_frequency: Annotated[
        int, typer.Option(help="How often a pair has to occur to become a token.")
    ] = 2,
    special: Annotated[
        list[str] | None,
        typer.Option(metavar="TOKEN", help="Repeat it. [default: <s> </s> <pad> <unk> <mask>]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the tenth that is held out.")] = 42,
    texts: Annotated[
        bool,
        typer.Option("--texts", help="Also write train.txt and val.txt, what is held out."),
    ] = False,
    json: JSON = False,
) -> None:
    """Train a byte-level BPE tokenizer on the text of a split, never of the test split.

    Writes tokenizer.json, tokenizer-vocab.json and tokenizer-merges.txt. It is not trained again
    while corpus, settings and library are the same and the files are whole.

    Example:
        duckplets tokenizer train faq.duckdb tokenizer --vocab-size 50000
    """
    from duckplets.corpus.corpus import Corpus
    from duckplets.tokens.train import SPECIAL, train_tokenizer

    with Corpus(existing(corpus), read_only=True) as opened:
        report = train_tokenizer(
            opened,
            out,
            split=split,
            sources=names(sources) or None,
            code=names(code) or (),
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            special=special or SPECIAL,
            seed=seed,
            texts=texts,
        )
    if json:
        output.print_document(asdict(report) | {"path": str(report.path)})
    else:
        _tell_tokenizer(report)


def _tell_tokenizer(report: TokenizerReport) -> None:
    how = f"trained in {report.seconds:.1f} s ({report.why})" if report.trained else "as it was"
    rate = report.bytes_per_token
    held_out = counted(report.held_out, "text")
    tell(
        f"{shown(str(report.path))}: {report.vocab_size:,} tokens, {how}",
        f"  trained on {counted(report.texts, 'text')}"
        + ("" if rate is None else f"; {rate:.2f} bytes a token in {held_out} held out"),
        f"  fingerprint {report.fingerprint}",
    )


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
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help="Texts of this split. [default: train]"),
    ] = None,
    sources: SOURCES = None,
    code: CODE = None,
    buckets: Annotated[
        str, typer.Option(metavar="N,…", help="Boundaries of lengths in tokens.")
    ] = "128,256,512,1024",
    longer: Annotated[
        Literal["own", "cut", "drop"],
        typer.Option(help="Longer texts have a bucket of their own, are cut, or dropped."),
    ] = "own",
    shard_mb: Annotated[
        float, typer.Option(help="Size of a shard in 10^6 bytes, of four a token.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Of the order of rows.")] = 42,
    compression: Annotated[
        Literal["zstd", "snappy", "gzip", "lz4", "none"], typer.Option(help="Of Parquet.")
    ] = "zstd",
    row_group_size: Annotated[int, typer.Option(help="Rows of a row group, at most.")] = 8192,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Also which characters each token is of.")
    ] = False,
    mixture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Phases and weights for mixtures.json."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the shards of another run.")
    ] = False,
    engine: ENGINE = None,
    status: Annotated[
        bool, typer.Option("--status", help="Only say how far the export in a folder has come.")
    ] = False,
    json: JSON = False,
) -> None:
    """Write the texts of a corpus as token shards: Parquet files of like lengths, with a manifest.

    Interrupted or killed, it goes on where it was when it is called again. Called again when it is
    finished, it compares every file with what was written, and writes again what is damaged.

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
    from duckplets.corpus.corpus import Corpus
    from duckplets.order.mixture import Mixture

    with Corpus(existing(Path(corpus)), read_only=True) as opened:
        report = opened.shard(
            out,
            tokenizer=tokenizer,
            split=names(split) or "train",
            sources=names(sources) or None,
            code=names(code) or (),
            buckets=_numbers(buckets),
            longer=longer,
            shard_mb=shard_mb,
            seed=seed,
            compression=compression,
            row_group_size=row_group_size,
            offsets=offsets,
            mixture=None if mixture is None else Mixture.from_toml(mixture),
            overwrite=overwrite,
            engine=engine,
        )
    if json:
        output.print_document(asdict(report) | {"path": str(report.path)})
    else:
        _tell_shards(report)


def _numbers(given: str) -> list[int]:
    try:
        return [int(each) for each in given.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--buckets {given}: give numbers, as 128,256,512,1024") from None


def _tell_shards(report: ShardReport) -> None:
    others = [f"{count:,} left out: {reason}" for reason, count in report.left_out.items()]
    others += [f"{report.cut:,} cut"] if report.cut else []
    again = f", {report.damaged:,} of them again: damaged" if report.damaged else ""
    tell(
        f"{shown(str(report.path))}: {counted(report.shards, 'shard')} "
        f"({report.made:,} written in {report.seconds:.1f} s{again}) of "
        f"{counted(report.records, 'record')}, {report.tokens:,} tokens",
        *(f"  {each}" for each in others),
    )


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
    """Compare every file of a folder of token shards with its manifest; exit code 1 if it differs.

    Finds files that are damaged or missing, shards that no manifest lists, and a manifest of
    another run.

    Example:
        duckplets verify shards
        duckplets verify s3://bucket/shards
    """
    from duckplets.tokens.verify import verify as verified

    report = verified(out)
    if json:
        told = asdict(report) | {"path": str(report.path), "ok": report.ok}
        told["problems"] = [{"file": file, "what": what} for file, what in report.problems]
        output.print_document(told)
    else:
        rate = report.bytes / 1e6 / max(report.seconds, 1e-9)
        tell(
            f"{shown(str(report.path))}: {counted(report.shards, 'shard')}, "
            f"{report.bytes:,} bytes, {rate:,.0f} MB/s: {'as written' if report.ok else 'WRONG'}"
        )
        say(*(f"  {shown(file)}: {what}" for file, what in report.problems))
        if not report.ok:
            say(
                f"The command that made it writes again what is damaged or missing: "
                f"duckplets shard CORPUS {shown(str(report.path))} …; what is unlisted stays"
            )
    if not report.ok:
        raise SystemExit(1)
