"""Commands of search and hard negatives: `search`, `mine`, and `export` for trainers."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.sanitize import counted, listed
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, say
from duckplets.cli.inputs import names
from duckplets.cli.verbs import of_verb
from duckplets.errors import CorpusLockedError, MigrationError, QueryError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.export import ExportReport
    from duckplets.mining.report import MiningReport, PairReport

STEMMER = Annotated[
    str | None,
    typer.Option(help="How words are stemmed from now on: porter, english, german, …, none."),
]
STOP_WORDS = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|english|none",
        help="Words to leave out from now on: one a line, or 571 English ones.",
    ),
]
_FOUND = ("record_id", "split", "role", "snippet")


@of_verb("vectors.knn:search", places={"text": "TEXT"})
def search(
    corpus: CORPUS,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="bm25|NAME,…",
            help="By bm25, by the vectors of that name, or by several, whose ranks are fused. "
            "[default: bm25]",
        ),
    ] = None,
    stemmer: STEMMER = None,
    stop_words: STOP_WORDS = None,
    json: JSON = False,
    **given: Any,
) -> None:
    """Show the sections that fit a text best.

    By BM25, by vectors, or by both. Indexes that are missing or stale are built first. Vectors
    are made by `duckplets embed`.

    Example:
        duckplets search faq.duckdb "how do I change my password" --k 5
        duckplets search faq.duckdb "forgot my login" --by bm25,default
    """
    from duckplets.corpus.corpus import Corpus
    from duckplets.search.search import UnfitIndexError
    from duckplets.sources.converters.registry import search_first

    if given.get("encoder") is not None:
        with suppress(OSError):  # the folder was deleted
            search_first(os.getcwd())
    several = names(by) or ["bm25"]
    given["by"] = several if len(several) > 1 else several[0]
    scope = {"source": given.get("source"), "split": given.get("split")}
    if stemmer is not None or stop_words is not None:
        with Corpus(existing(corpus)) as opened:
            set_terms(opened, scope["source"], stemmer, stop_words)
    try:
        with Corpus(corpus, read_only=True) as opened:
            found = opened.search(**given)
    except UnfitIndexError:
        try:
            with Corpus(corpus) as opened:
                opened.index(**scope, progress=False)
        except (CorpusLockedError, MigrationError, QueryError) as error:
            raise type(error)(f"the index has to be built before searching, but {error}") from None
        with Corpus(corpus, read_only=True) as opened:
            found = opened.search(**given)
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
    elif several == ["bm25"]:
        say("no section shares a term with it")
    else:
        say("no section has a vector")


@of_verb("mining.mine:mine", places={"recipe": "[RECIPE]…"})
def mine(
    corpus: CORPUS,
    stemmer: STEMMER = None,
    stop_words: STOP_WORDS = None,
    json: JSON = False,
    **given: Any,
) -> None:
    """Mine hard negatives by BM25, where they are missing.

    Runs that are opened then draw them. Interrupted, it goes on where it was. The tables
    negatives and negative_texts have the result.

    Example:
        duckplets mine faq.duckdb
        duckplets mine faq.duckdb anchor_context --top-k 16 --range-min 2
        duckplets mine faq.duckdb --stemmer english --stop-words english
    """
    from duckplets.corpus.corpus import Corpus

    with Corpus(existing(corpus)) as opened:
        set_terms(opened, given.get("source"), stemmer, stop_words)
        report = opened.mine(**given)
    if json:
        output.print_document([asdict(pair) for pair in report.pairs])
    else:
        _tell_mining(report)


@of_verb("export:export_negatives", places={"path": "PATH"}, without={"corpus"})
def export(
    corpus: CORPUS,
    documents: Annotated[
        str | None, typer.Option(metavar="split|all", help="Of beir: documents of which splits.")
    ] = None,
    **given: Any,
) -> None:
    """Write mined negatives or an evaluation set for a trainer.

    Mined negatives come with their anchors and positives. Files appear whole or not at all.
    Anchors that are left out are counted. The format beir, of queries, documents and which are
    relevant, needs no mining.

    Example:
        duckplets export faq.duckdb train.parquet --format sentence-transformers --negatives 4
        duckplets export faq.duckdb pairs.parquet --format sentence-transformers --negatives 0
        duckplets export faq.duckdb train.jsonl --format flagembedding --scores
        duckplets export faq.duckdb 8.jsonl --format flagembedding --negatives 8 --when-short random
        duckplets export faq.duckdb evaluation --format beir --split test --documents all
    """
    from duckplets.corpus.corpus import Corpus

    with Corpus(corpus, read_only=True) as opened:
        report = opened.export_negatives(**given, corpus=documents)  # type: ignore[arg-type]
    _tell_export(report)


def set_terms(
    corpus: Corpus, source: str | None, stemmer: str | None, stop_words: str | None
) -> None:
    """Set how text becomes terms, where something is given; indexes are then built anew."""
    given: dict[str, Any] = {} if stemmer is None else {"stemmer": stemmer}
    if stop_words is not None:
        given["stop_words"] = _stop_words(stop_words)
    if given:
        terms = corpus.terms(source, **given)
        corpus.index(terms, source=source)
        words = terms.stop_words if isinstance(terms.stop_words, str) else len(terms.stop_words)
        say(f"terms: stemmer {terms.stemmer}, stop words {words}")


def _stop_words(given: str) -> str | list[str]:
    """Return the words of a file, one a line, or what one of two words means."""
    if given in ("none", "english"):
        return given if given == "english" else []
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
