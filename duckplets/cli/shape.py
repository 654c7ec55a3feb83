"""``duckplets split`` and ``duckplets chunk``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.cli import tables
from duckplets.cli.app import CORPUS, existing, say
from duckplets.cli.inputs import names

if TYPE_CHECKING:
    from duckplets.text.denoiser import Denoiser

_SHARE = "from 0 to 1; the three add up to 1."


def split(
    corpus: CORPUS,
    train: Annotated[float, typer.Option(help=f"Share of training records, {_SHARE}")] = 0.8,
    validation: Annotated[float, typer.Option(help="Share of validation records.")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of test records.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Another seed gives another assignment.")] = 42,
    reassign: Annotated[
        bool, typer.Option("--reassign", help="Move records of a corpus split otherwise.")
    ] = False,
) -> None:
    """Assign every record to train, validation or test, for good.

    Records ingested later get theirs by the same shares and seed.

    Example:
        duckplets split faq.duckdb --train 0.9 --validation 0.05 --test 0.05
    """
    from duckplets.corpus import Corpus

    with Corpus(existing(corpus)) as opened:
        counts = opened.split(train, validation, test, seed, reassign=reassign)
    tables.show(("split", "records"), counts.items())


def chunk(
    corpus: CORPUS,
    max_tokens: Annotated[
        int | None, typer.Option(help="A longer section is cut into windows of so many; 1024.")
    ] = None,
    overlap: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKENS", help="Tokens shared by neighbours; several make several sets; 64."
        ),
    ] = None,
    summary_tokens: Annotated[
        int | None, typer.Option(help="Length of a longer section's summary, 0 for none; 512.")
    ] = None,
    summary_weight: Annotated[
        float | None, typer.Option(help="Weight of a summary, from 0 to 1; 0.35.")
    ] = None,
    weight_floor: Annotated[
        float | None, typer.Option(help="No chunk weighs less, from 0 to 1; 0.1.")
    ] = None,
    position_weight: Annotated[
        str | None,
        typer.Option(metavar="window|start_ratio", help="How later windows weigh less; window."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A Hugging Face tokenizers file; else words count."),
    ] = None,
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Clean texts of digits, tables, lines of no letter.")
    ] = False,
    max_digit_ratio: Annotated[
        float | None, typer.Option(help="Of digits to letters and digits, in a clean line; 0.35.")
    ] = None,
    keep_tables: Annotated[
        bool, typer.Option("--keep-tables", help="Leave Markdown tables as they are.")
    ] = False,
) -> None:
    """Cut the sections into windows again, with other settings.

    Ingest cuts what it adds, so this is needed only for settings other than the corpus has.
    What is left out is set to its default: without --denoise the texts are again as they came.

    Example:
        duckplets chunk faq.duckdb --max-tokens 256 --overlap 32,64
        duckplets chunk faq.duckdb --denoise --max-digit-ratio 0.25
    """
    from duckplets.corpus import Corpus
    from duckplets.text.chunking import Chunking

    given: dict[str, Any] = {
        "max_tokens": max_tokens,
        "overlap": _integers("--overlap", overlap),
        "summary_tokens": summary_tokens,
        "summary_weight": summary_weight,
        "weight_floor": weight_floor,
        "position_weight": position_weight,
        "tokenizer": tokenizer,
        "preprocessors": _denoiser(denoise, max_digit_ratio, keep_tables=keep_tables),
    }
    chunking = Chunking(**{name: value for name, value in given.items() if value is not None})
    with Corpus(existing(corpus)) as opened:
        sections = opened.chunk(chunking)
    say(f"cut {sections:,} sections again" if sections else "these are the settings it has already")


def _denoiser(
    wanted: bool, max_digit_ratio: float | None, *, keep_tables: bool
) -> tuple[Denoiser, ...] | None:
    if not wanted:
        if max_digit_ratio is not None or keep_tables:
            raise typer.BadParameter("--max-digit-ratio and --keep-tables are about --denoise")
        return None
    from duckplets.text.denoiser import Denoiser

    ratio = {} if max_digit_ratio is None else {"max_digit_ratio": max_digit_ratio}
    return (Denoiser(strip_markdown=not keep_tables, **ratio),)


def _integers(option: str, values: list[str] | None) -> tuple[int, ...] | None:
    try:
        return tuple(int(value) for value in names(values) or []) or None
    except ValueError:
        raise typer.BadParameter(f"{option} {','.join(values or [])}: give integers") from None
