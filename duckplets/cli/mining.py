"""Commands of search and hard negatives: `search`, `mine`, `advise`, and `export` for trainers."""

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
    **given: Any,
) -> None:
    """Show the sections that fit a text best.

    By BM25, by vectors, or by both. Indexes that are missing or stale are built first. Vectors
    are made by `duckplets embed`.

    Args:
        by (bm25|NAME,…): By bm25, by the vectors of that name, or by several, whose ranks are
            fused. [default: bm25]

    Example:
        duckplets search faq.duckdb "how do I change my password" --k 5
        duckplets search faq.duckdb "forgot my login" --by bm25,default
    """
    from duckplets.search.index import index
    from duckplets.search.search import UnfitIndexError

    if by:
        given["by"] = by if len(by) > 1 else by[0]
    try:
        with corpus_at(corpus, read_only=True) as opened:
            found = opened.search(**given)
    except UnfitIndexError:
        try:
            with corpus_at(corpus) as opened:
                index(opened, source=given.get("source"), progress=False)
        except (CorpusLockedError, MigrationError, QueryError) as error:
            raise type(error)(f"the index has to be built before searching, but {error}") from None
        with corpus_at(corpus, read_only=True) as opened:
            found = opened.search(**given)
    if not json:
        ranks = [name for name in found.column_names if name.startswith("rank_")]
        found = found.select(["score", *ranks, "record_id", "split", "role", "snippet"])
        own = (rank.replace("_", " ", 1) for rank in ranks)
        found = found.rename_columns(["score", *own, "record", "split", "role", "text"])
    output.show_rows(found.to_pylist(), json=json)
    if not found.num_rows:
        say("no section has a vector" if by and "bm25" not in by else "no section fits it")


@command("mining.mine:mine", only="depth source split", places={"recipe": "RECIPE"})
def mine(
    corpus: Path,
    by: str | None = None,
    stemmer: str | None = None,
    json: bool = False,
    **given: Any,
) -> None:
    """Mine hard negatives, where they are missing.

    Runs that are opened then draw them. An interrupted mining continues when it is called again.
    While other processes have the corpus open it is only read. The views candidates, negatives and
    hard_negatives have the result.

    Args:
        by (bm25|judged|NAME): The scorer: bm25; judged, for documents with a label of 0 or less;
            or the cosine of a set of vectors. [default: bm25]
        stemmer: How words are stemmed from now on: porter, english, german, …, none.

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
            given["terms"] = Terms.from_dict(
                terms_of(opened.database).to_dict() | {"stemmer": stemmer}
            )
        named: Any = by or BM25
        report = opened.mine(by=named if named in (BM25, JUDGED) else Dense(named), **given)
    if json:
        output.print_document([asdict(pair) for pair in report.pairs])
    elif report.pairs:
        output.show(report)
    elif not report.notes:
        say("nothing to mine: what samplers draw is there and current")


@command("advise:advise", only="recipe source seconds")
def advise(
    corpus: Path,
    write: Path | None = None,
    page: Path | None = None,
    json: bool = False,
    **given: Any,
) -> None:
    """Say which negatives are worth training with, by a small probe.

    A sample of train is copied aside and eight ways to draw are tried on it for about two minutes.
    The table has their differences from in-batch negatives, with intervals. Nothing is written into
    the corpus. Ctrl-C shows what is done.

    Args:
        write (FILE.toml): Write the recommendation as a file of a run, for --config.
        page (FILE.html): Write a page with a plot, and all that `status` has on its page.

    Example:
        duckplets advise faq.duckdb
        duckplets advise faq.duckdb --write run.toml --page advice.html
    """
    from duckplets.base.atomic import written_aside

    for path in (write, page):
        if path is not None and path.exists():
            raise typer.BadParameter(f"{path} exists already; give another, or remove it")
    with corpus_at(corpus, read_only=True) as opened:
        found = opened.advise(**given)
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
    **given: Any,
) -> None:
    """Write mined negatives, an evaluation set or all records to a file.

    Mined negatives come with their anchors and positives. Files appear whole or not at all.
    Anchors that are left out are counted. The formats beir, of queries, documents and which are
    relevant, and jsonl, of all records, need no mining. A collection comes out as beir with its own
    ids, titles and labels. hf://USER/NAME in the place of PATH is a
    data set on the Hub, made private, with a card that says what it was made from; HF_TOKEN may
    write there.

    Args:
        config (FILE.toml): A file of a run: its [negatives], split, consistent and first recipe.
        negatives: Negatives of each anchor at most, the hardest first; 0 for plain pairs. [default:
            all]
        relative_margin: Leave out a candidate with a score above that of the positive, less this
            part of it. [default: 0.05 for dense, otherwise none]
        when_short: Handling of an anchor with fewer negatives: keep it, drop it, or fill up at
            random. [default: keep]
        split: The split. [default: train, of beir test, of collections as beir all]

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
    asked = {name: value for name, value in own.items() if value is not None}
    if asked or tables["negatives"]:
        tables["negatives"] = {"num": None, **tables["negatives"], **asked}
    of_run = run_file.opened(tables, config)
    keys = ("negatives", "split", "consistent")
    given |= {name: of_run[name] for name in keys if name in of_run}
    given |= {"recipe": of_run["recipes"][0]} if of_run.get("recipes") else {}
    given |= {} if split is None else {"split": split}
    with corpus_at(corpus, read_only=True) as opened:
        if given["path"].startswith("hf://"):
            if (form := given.pop("format", None)) != "sentence-transformers":
                raise typer.BadParameter(f"--format {form}: the Hub takes sentence-transformers")
            output.show(opened.push(given.pop("path"), **given))
        else:
            output.show(opened.export(**given))
