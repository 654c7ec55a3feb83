"""Commands from full-text indexes to hard negatives: `index`, `search`, `mine`, `export`."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.base.sanitize import counted, listed
from duckplets.cli import completion, output
from duckplets.cli.app import CORPUS, JSON, existing, say
from duckplets.cli.inputs import names
from duckplets.cli.options import ENGINE, PRESET
from duckplets.errors import CorpusLockedError, MigrationError, QueryError

if TYPE_CHECKING:
    from duckplets.export import ExportReport
    from duckplets.mining.report import MiningReport, PairReport

SOURCE = Annotated[
    str | None,
    typer.Option(help="Of this source only. [default: of all]", autocompletion=completion.sources),
]
SPLIT = Annotated[
    str | None,
    typer.Option(
        metavar="train|validation|test",
        help="Of this split only.",
        autocompletion=completion.splits,
    ),
]
Split = Literal["train", "validation", "test"]

_FOUND = ("record_id", "split", "role", "snippet")


def index(
    corpus: CORPUS,
    source: SOURCE = None,
    split: SPLIT = None,
    stemmer: Annotated[
        str | None,
        typer.Option(help="How words are stemmed from now on: porter, english, german, …, none."),
    ] = None,
    stop_words: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|english|none",
            help="Words to leave out from now on: one a line, or 571 English ones. [default: none]",
        ),
    ] = None,
    engine: ENGINE = None,
) -> None:
    """Build the full-text indexes that are missing or stale.

    Searching and mining do that as well. The settings are kept, for one source or for all; what
    is not named stays as it is.

    Example:
        duckplets index faq.duckdb --stemmer english --stop-words english
    """
    from duckplets.corpus.corpus import Corpus

    given: dict[str, Any] = {} if stemmer is None else {"stemmer": stemmer}
    if stop_words is not None:
        given["stop_words"] = _stop_words(stop_words)
    with Corpus(existing(corpus)) as opened:
        terms = opened.terms(source, **given) if given else None
        reports = opened.index(terms, source=source, split=split, engine=engine)
    if terms is not None:
        words = terms.stop_words if isinstance(terms.stop_words, str) else len(terms.stop_words)
        say(f"terms: stemmer {terms.stemmer}, stop words {words}")
    if not reports:
        say("all indexes fit already")
        return
    columns = ("source", "split", "why", "documents", "tokens", "terms", "seconds")
    rows = (
        (r.source, r.split, r.reason, r.documents, r.tokens, r.terms, round(r.seconds, 1))
        for r in reports
    )
    output.show_table(columns, rows)


def search(
    corpus: CORPUS,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for: any text.")],
    k: Annotated[int, typer.Option("--k", help="At most so many sections.")] = 10,
    source: SOURCE = None,
    split: SPLIT = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="bm25|NAME,…",
            help="By bm25, by the vectors of that name, or by several, whose ranks are "
            "fused. [default: bm25]",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|module:function",
            help="What makes a vector of the text. [default: the model that made the set]",
        ),
    ] = None,
    json: JSON = False,
) -> None:
    """Show the sections that fit a text best, by BM25, by vectors, or by both.

    Indexes that are missing or stale are built first. Vectors are made by `duckplets embed`.

    Example:
        duckplets search faq.duckdb "how do I change my password" --k 5
        duckplets search faq.duckdb "forgot my login" --by bm25,default
    """
    from duckplets.corpus.corpus import Corpus
    from duckplets.search.search import UnfitIndexError
    from duckplets.sources.converters.registry import search_first

    if encoder is not None:
        with suppress(OSError):  # the folder was deleted
            search_first(os.getcwd())
    several = names(by) or ["bm25"]
    how: dict[str, Any] = {"by": several if len(several) > 1 else several[0], "encoder": encoder}
    try:
        with Corpus(corpus, read_only=True) as opened:
            found = opened.search(text, k, source, split, **how)
    except UnfitIndexError:
        try:
            with Corpus(corpus) as opened:
                opened.index(source=source, split=split, progress=False)
        except (CorpusLockedError, MigrationError, QueryError) as error:
            raise type(error)(f"the index has to be built before searching, but {error}") from None
        with Corpus(corpus, read_only=True) as opened:
            found = opened.search(text, k, source, split, **how)
    if json:
        output.print_document(found.to_pylist())
        return
    ranks = [name for name in found.column_names if name.startswith("rank_")]
    rows = (
        (f"{row['score']:.4f}", *(row[rank] for rank in ranks), *(row[name] for name in _FOUND))
        for row in found.to_pylist()
    )
    if found.num_rows:
        own = (rank.replace("_", " ", 1) for rank in ranks)
        output.show_table(("score", *own, "record", "split", "role", "text"), rows)
    else:
        say(
            "no section shares a term with it" if several == ["bm25"] else "no section has a vector"
        )


def mine(
    corpus: CORPUS,
    recipe: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of recipes. [default: all that a sampler draws, if they can be mined]",
            autocompletion=completion.recipes,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="For this source only.", autocompletion=completion.sources),
    ] = None,
    split: Annotated[Split | None, typer.Option(help="For this split only.")] = None,
    preset: PRESET = None,
    top_k: Annotated[
        int | None, typer.Option(help="Negatives kept for each anchor. [default: 32]")
    ] = None,
    range_min: Annotated[
        int | None, typer.Option(help="Pass over so many of the first. [default: 0]")
    ] = None,
    range_max: Annotated[
        int | None, typer.Option(help="Ranks that are looked at. [default: all]")
    ] = None,
    min_score: Annotated[float | None, typer.Option(help="Drop what scores less.")] = None,
    max_score: Annotated[float | None, typer.Option(help="Drop what scores more.")] = None,
    absolute_margin: Annotated[
        float | None,
        typer.Option(
            help="Drop what is not so far below the positive, which by BM25 often scores 0."
        ),
    ] = None,
    relative_margin: Annotated[
        float | None, typer.Option(help="The same, as a share of the positive's score.")
    ] = None,
    range_on: Annotated[
        Literal["survivors", "raw"] | None,
        typer.Option(help="What --range-min passes over: survivors of the filters, or all ranks."),
    ] = None,
    query_tokens: Annotated[
        int | None, typer.Option(help="Tokens of an anchor that are looked for. [default: 64]")
    ] = None,
    sampling: Annotated[
        Literal["rotate", "top", "random"] | None,
        typer.Option(help="How samples draw from those kept. [default: rotate]"),
    ] = None,
    rotation: Annotated[
        int | None, typer.Option(help="Samples draw from the first so many. [default: from all]")
    ] = None,
    when_short: Annotated[
        Literal["backfill", "random", "drop", "keep"] | None,
        typer.Option(
            help="What to do about anchors with too few: take from beyond --range-max (nothing "
            "without it), fill up at random, drop or keep them. [default: backfill]"
        ),
    ] = None,
    scope: Annotated[
        Literal["pool", "shard"] | None,
        typer.Option(
            help="Search the whole pool, or the anchor's own shard of it. [default: pool]"
        ),
    ] = None,
    shard_documents: Annotated[
        int | None, typer.Option(help="Documents of a shard. [default: 65536]")
    ] = None,
    engine: ENGINE = None,
    json: JSON = False,
) -> None:
    """Mine hard negatives by BM25, where they are missing or stale; runs opened then draw them.

    Interrupted, it goes on where it was. The tables negatives and negative_texts have the result.

    Example:
        duckplets mine faq.duckdb
        duckplets mine faq.duckdb anchor_context --top-k 16 --range-min 2
    """
    given = dict(locals())
    from duckplets.corpus.corpus import Corpus
    from duckplets.recipes.bm25 import given_settings

    settings = given_settings(given)
    with Corpus(existing(corpus)) as opened:
        where: dict[str, Any] = {"source": source, "split": split, "preset": preset}
        report = opened.mine(recipe or None, **where, engine=engine, **settings)
    if json:
        output.print_document([asdict(pair) for pair in report.pairs])
    else:
        _tell_mining(report)


def export(
    corpus: CORPUS,
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="FILE.parquet, FILE.jsonl or a folder, by format."),
    ],
    format: Annotated[  # noqa: A002 - it is the option's name
        Literal["sentence-transformers", "flagembedding", "tevatron", "beir"],
        typer.Option(help="Whose files to write."),
    ],
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Name of a recipe. [default: the one with the most mined anchors]",
            autocompletion=completion.recipes,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="From this source only. [default: from all]", autocompletion=completion.sources
        ),
    ] = None,
    split: Annotated[
        Literal["train", "validation", "test"] | None,
        typer.Option(help="Of this split. [default: train, of beir test]"),
    ] = None,
    preset: PRESET = None,
    shape: Annotated[
        Literal["triplet", "n-tuple", "labeled-pair", "labeled-list", "documents", "passages"]
        | None,
        typer.Option(
            help="Of sentence-transformers triplet, n-tuple, labeled-pair or labeled-list; of "
            "tevatron documents or passages. [default: the first]"
        ),
    ] = None,
    negatives: Annotated[
        int | None,
        typer.Option(
            help="Of an anchor at most; in an n-tuple exactly; 0 for plain pairs, which need no "
            "mining. [default: all]"
        ),
    ] = None,
    when_short: Annotated[
        Literal["keep", "drop", "random"] | None,
        typer.Option(
            help="What to do about anchors with fewer than --negatives: keep or drop them, or "
            "fill them up at random, marked. An n-tuple drops, all else keeps them."
        ),
    ] = None,
    documents: Annotated[
        Literal["split", "all"] | None,
        typer.Option(
            help="Of beir: documents of the split alone, or of all splits. [default: split]"
        ),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write scores as well.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier export wrote there.")
    ] = False,
    allow_stale: Annotated[
        bool, typer.Option("--allow-stale", help="Even if records or the recipe have changed.")
    ] = False,
) -> None:
    """Write mined negatives with their anchors and positives for a trainer, or an evaluation set.

    Files appear whole or not at all. Anchors that are left out are counted. The format beir, of
    queries, documents and which are relevant, needs no mining.

    Example:
        duckplets export faq.duckdb train.parquet --format sentence-transformers --negatives 4
        duckplets export faq.duckdb pairs.parquet --format sentence-transformers --negatives 0
        duckplets export faq.duckdb train.jsonl --format flagembedding --scores
        duckplets export faq.duckdb 8.jsonl --format flagembedding --negatives 8 --when-short random
        duckplets export faq.duckdb evaluation --format beir --split test --documents all
    """
    from duckplets.corpus.corpus import Corpus

    with Corpus(corpus, read_only=True) as opened:
        report = opened.export_negatives(
            path,
            format=format,
            recipe=recipe,
            source=source,
            split=split,
            preset=preset,
            shape=shape,
            negatives=negatives,
            when_short=when_short,
            corpus=documents,
            scores=scores,
            overwrite=overwrite,
            allow_stale=allow_stale,
        )
    _tell_export(report)


def _stop_words(given: str | None) -> str | list[str]:
    """Return the words of a file, one a line, or what one of two words means."""
    if given is None or given == "none":
        return []
    if given == "english":
        return given
    try:
        lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(
            f"--stop-words {given}: give english, none, or a file with one word a line ({reason})"
        ) from None
    return [word for word in map(str.strip, lines) if word]


def _tell_mining(report: MiningReport) -> None:
    if not report.pairs:
        if not report.notes:
            say("nothing to mine: what samplers draw is there and current")
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
    output.show_table(columns, (_mined_row(pair) for pair in report.pairs))
    removed = {name: n for name, n in report.counts.items() if name not in ("kept", "not_needed")}
    counts = ", ".join(f"{name} {n:,}" for name, n in removed.items() if n)
    say(f"{report.queries_per_second:,.0f} anchors a second; left out: {counts or 'nothing'}")


def _mined_row(pair: PairReport) -> tuple[Any, ...]:
    rank = pair.quantiles["positive_rank"].get("50 %", "")
    return (pair.recipe, pair.source, pair.split, pair.anchors, pair.candidates, pair.short, rank)


def _tell_export(report: ExportReport) -> None:
    rows, of = counted(report.rows, "row"), listed(report.sources)
    say(f"wrote {rows} to {report.path}: recipe {report.recipe}, from {of}")
    if report.others:
        say(f"note: there are other recipes, with --recipe: {listed(report.others)}")
    what = "queries" if report.format == "beir" else "anchors"
    counts = {what: report.anchors, "negatives": report.negatives}
    counts["of them drawn at random to fill up"] = report.filled
    counts |= {f"left out: {reason}": n for reason, n in report.left_out.items()}
    output.show_table(("what", "count"), ((name, n) for name, n in counts.items() if n))
