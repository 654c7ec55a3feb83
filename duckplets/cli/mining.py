"""Commands of search and hard negatives: `search`, `mine`, `advise` and `export`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import typer

from duckplets.cli import output
from duckplets.cli.app import corpus_at, interrupted, say
from duckplets.cli.verbs import command
from duckplets.errors import CorpusLockedError, MigrationError, QueryError


@command("vectors.knn:search", only="k source", places={"text": "TEXT"})
def search(
    corpus: Path,
    by: list[str] | None = None,
    json: bool = False,
    **settings: Any,
) -> None:
    """Show the sections most similar to a text.

    Search by BM25, by vectors, or by both. The command first builds missing or stale indexes.
    `duckplets embed` computes vectors.

    Args:
        by (bm25|NAME,…): bm25, the name of a set of vectors, or several, whose ranks are fused.
            [default: bm25]

    Example:
        duckplets search faq.duckdb "how do I change my password" --k 5
        duckplets search faq.duckdb "forgot my login" --by bm25,default
    """
    from duckplets.search.index import index
    from duckplets.search.search import UnfitIndexError

    if by:
        settings["by"] = by if len(by) > 1 else by[0]
    try:
        with corpus_at(corpus, read_only=True) as opened:
            found = opened.search(**settings)
    except UnfitIndexError:
        try:
            with corpus_at(corpus) as opened:
                index(opened, source=settings.get("source"), progress=False)
        except (CorpusLockedError, MigrationError, QueryError) as error:
            raise type(error)(f"the search needs an index, but {error}") from None
        with corpus_at(corpus, read_only=True) as opened:
            found = opened.search(**settings)
    if not json:
        ranks = [name for name in found.column_names if name.startswith("rank_")]
        found = found.select(["score", *ranks, "record_id", "split", "role", "snippet"])
        own = (rank.replace("_", " ", 1) for rank in ranks)
        found = found.rename_columns(["score", *own, "record", "split", "role", "text"])
    output.show_rows(found.to_pylist(), json=json)
    if not found.num_rows:
        say("no section has a vector" if by and "bm25" not in by else "no section is similar to it")


@command("mining.mine:mine", only="depth source split", places={"recipe": "RECIPE"})
def mine(
    corpus: Path,
    by: str | None = None,
    stemmer: str | None = None,
    json: bool = False,
    **settings: Any,
) -> None:
    """Mine missing hard negatives.

    New runs then draw them. Repeat an interrupted command to continue. While other processes have
    the corpus open, the command only reads the corpus. The views candidates, negatives and
    hard_negatives show the result.

    Args:
        by (bm25|judged|NAME): The scorer. bm25: words. judged: documents with a label of 0 or less.
            NAME: the cosine of this set of vectors. [default: bm25]
        stemmer: Change the stemmer of the corpus: porter, english, german, …, none.

    Example:
        duckplets mine faq.duckdb
        duckplets mine faq.duckdb anchor_context --depth 200
        duckplets mine faq.duckdb --stemmer english
    """
    from duckplets.mining.external import JUDGED
    from duckplets.recipes.mined import BM25
    from duckplets.search.analyzer_settings import Terms
    from duckplets.search.index import terms_of
    from duckplets.vectors.dense import Dense

    try:
        opened = corpus_at(corpus)
    except CorpusLockedError:
        if stemmer is not None:
            raise
        opened = corpus_at(corpus, read_only=True)
    with opened:
        if stemmer is not None:
            settings["terms"] = Terms.from_dict(
                terms_of(opened.database).to_dict() | {"stemmer": stemmer}
            )
        scorer: Any = by or BM25
        report = opened.mine(by=scorer if scorer in (BM25, JUDGED) else Dense(scorer), **settings)
    if json:
        output.print_document([asdict(pair) for pair in report.pairs])
    elif report.pairs:
        output.show(report)
    elif not report.notes:
        say("nothing to mine: the mined negatives of all recipes are current")


@command("advise:advise", only="recipe source seconds")
def advise(
    corpus: Path,
    write: Path | None = None,
    page: Path | None = None,
    json: bool = False,
    **settings: Any,
) -> None:
    """Recommend negatives for training, by a small experiment.

    The command copies a sample of train, and trains small models on it in eight ways for about two
    minutes. The table shows their differences from in-batch negatives, with intervals. The corpus
    is only read. Ctrl-C prints the results so far.

    Args:
        write (FILE.toml): Write the recommendation to a file of a run, for --config.
        page (FILE.html): Write the page of `status` with a plot of the results.

    Example:
        duckplets advise faq.duckdb
        duckplets advise faq.duckdb --write run.toml --page advice.html
    """
    from duckplets.base.atomic import written_aside

    for path in (write, page):
        if path is not None and path.exists():
            raise typer.BadParameter(f"{path} exists; give another path, or remove the file")
    with corpus_at(corpus, read_only=True) as opened:
        found = opened.advise(**settings)
        output.show(found, json=json)
        if write is not None:
            with written_aside(write) as file:
                file.write(found.run.encode())
        if page is not None:
            say(f"the page: {opened.report(page, advice=found).path}")
    if found.cut_short == "interrupted":
        sys.stdout.flush()
        interrupted()


@command(
    "export:export",
    places={"path": "PATH"},
    without={"negatives", "recipe", "source", "shape", "documents", "split", "consistent"},
)
def export(
    corpus: Path,
    config: Path | None = None,
    negatives: int | None = None,
    relative_margin: float | None = None,
    when_short: Literal["keep", "drop", "random"] | None = None,
    split: str | None = None,
    **settings: Any,
) -> None:
    """Write mined negatives, an evaluation set or all records to a file.

    Mined negatives come with their anchors and positives. A file appears only when it is complete.
    Excluded anchors are counted. Two formats need no mining: beir has queries, documents and
    relevance labels, and jsonl has all records. A collection written as beir keeps its ids, titles
    and labels. hf://USER/NAME instead of PATH is a data set on the Hub. The command creates it as
    private, with a card that describes its origin. HF_TOKEN must allow this.

    Args:
        config (FILE.toml): Use [negatives], split, consistent and the first recipe of a run's file.
        negatives: Write at most N negatives of each anchor, hardest first; 0 writes pairs.
            [default: all]
        relative_margin: Exclude a candidate if its score is above the positive's score minus this
            fraction. [default: 0.05 for dense, otherwise none]
        when_short: How to handle an anchor with fewer negatives. keep it. drop it. random: add
            random negatives. [default: keep]
        split: The split. [default: train; for beir test; for a collection as beir all]

    Example:
        duckplets export faq.duckdb train.parquet --format sentence-transformers --negatives 4
        duckplets export faq.duckdb pairs.parquet --format sentence-transformers --negatives 0
        duckplets export faq.duckdb train.jsonl --format flagembedding --scores
        duckplets export faq.duckdb 8.jsonl --format flagembedding --negatives 8 --when-short random
        duckplets export faq.duckdb evaluation --format beir --split test
        duckplets export faq.duckdb records.jsonl --format jsonl
        duckplets export faq.duckdb hf://me/faq --format sentence-transformers
    """
    from duckplets.corpus import run_file

    tables = run_file.read_tables(config) if config else run_file.no_tables()
    own = {"num": negatives, "relative_margin": relative_margin, "when_short": when_short}
    options = {name: value for name, value in own.items() if value is not None}
    if options or tables["negatives"]:
        tables["negatives"] = {"num": None, **tables["negatives"], **options}
    of_run = run_file.opened(tables, config)
    keys = ("negatives", "split", "consistent")
    settings |= {name: of_run[name] for name in keys if name in of_run}
    settings |= {"recipe": of_run["recipes"][0]} if of_run.get("recipes") else {}
    settings |= {} if split is None else {"split": split}
    with corpus_at(corpus, read_only=True) as opened:
        if settings["path"].startswith("hf://"):
            if (form := settings.pop("format", None)) != "sentence-transformers":
                raise typer.BadParameter(f"--format {form}: the Hub takes sentence-transformers")
            output.show(opened.push(settings.pop("path"), **settings))
        else:
            output.show(opened.export(**settings))
