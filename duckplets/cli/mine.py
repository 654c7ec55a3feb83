"""``duckplets mine``: hard negatives, by BM25."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.cli import jsonlines, tables
from duckplets.cli.app import CORPUS, JSON, existing, say

if TYPE_CHECKING:
    from duckplets.mining.report import MiningReport, PairReport

Split = Literal["train", "validation", "test"]


def mine(
    corpus: CORPUS,
    recipe: Annotated[
        list[str] | None,
        typer.Argument(help="Names of recipes; by default those whose negatives are by bm25."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="For this source only.")] = None,
    split: Annotated[Split | None, typer.Option(help="For this split only.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Negatives kept for each anchor; 32.")] = None,
    range_min: Annotated[
        int | None, typer.Option(help="Pass over so many of the first; 0.")
    ] = None,
    range_max: Annotated[int | None, typer.Option(help="Ranks that are looked at; all.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Drop what scores less.")] = None,
    max_score: Annotated[float | None, typer.Option(help="Drop what scores more.")] = None,
    absolute_margin: Annotated[
        float | None, typer.Option(help="Drop what is not so far below the positive.")
    ] = None,
    relative_margin: Annotated[
        float | None, typer.Option(help="The same, as a share of the positive's score.")
    ] = None,
    range_on: Annotated[
        Literal["survivors", "raw"] | None,
        typer.Option(help="What --range-min passes over: survivors of the filters, or all ranks."),
    ] = None,
    query_tokens: Annotated[
        int | None, typer.Option(help="Tokens of an anchor that are looked for; 64.")
    ] = None,
    sampling: Annotated[
        Literal["rotate", "top", "random"] | None,
        typer.Option(help="How samples draw from those kept; rotate."),
    ] = None,
    rotation: Annotated[
        int | None, typer.Option(help="Samples draw from the first so many; from all.")
    ] = None,
    when_short: Annotated[
        Literal["backfill", "random", "drop", "keep"] | None,
        typer.Option(help="What to do about anchors with too few; backfill."),
    ] = None,
    scope: Annotated[
        Literal["pool", "shard"] | None,
        typer.Option(help="Search the whole pool, or the anchor's own shard of it; pool."),
    ] = None,
    shard_documents: Annotated[
        int | None, typer.Option(help="Documents of a shard; 65536.")
    ] = None,
    json: JSON = False,
) -> None:
    """Mine hard negatives by BM25, where they are missing or stale.

    Interrupted, it goes on where it was. The tables negatives and negative_texts have the result.

    Example:
        duckplets mine faq.duckdb anchor_context --relative-margin 0.05 --top-k 16
    """
    from duckplets.corpus import Corpus

    given: dict[str, Any] = {
        "top_k": top_k,
        "range_min": range_min,
        "range_max": range_max,
        "min_score": min_score,
        "max_score": max_score,
        "absolute_margin": absolute_margin,
        "relative_margin": relative_margin,
        "range_on": range_on,
        "query_tokens": query_tokens,
        "sampling": sampling,
        "rotation": rotation,
        "when_short": when_short,
        "scope": scope,
        "shard_documents": shard_documents,
    }
    knobs = {name: value for name, value in given.items() if value is not None}
    with Corpus(existing(corpus)) as opened:
        report = opened.mine(recipe or None, source=source, split=split, **knobs)
    if json:
        jsonlines.print_document([asdict(pair) for pair in report.pairs])
    else:
        _tell(report)


def _tell(report: MiningReport) -> None:
    if not report.pairs:
        say(
            "nothing to mine: what recipes ask for is there and current. A recipe asks with "
            'by = "bm25"; or name one'
        )
        return
    columns = (
        "recipe",
        "source",
        "split",
        "anchors",
        "negatives",
        "short",
        "median rank of positive",
    )
    tables.show(columns, (_row(pair) for pair in report.pairs))
    removed = {name: n for name, n in report.counts.items() if name not in ("kept", "not_needed")}
    counts = ", ".join(f"{name} {n:,}" for name, n in removed.items() if n)
    say(f"{report.queries_per_second:,.0f} anchors a second; left out: {counts or 'nothing'}")


def _row(pair: PairReport) -> tuple[Any, ...]:
    rank = pair.quantiles["positive_rank"].get("50 %", "")
    return (pair.recipe, pair.source, pair.split, pair.anchors, pair.candidates, pair.short, rank)
