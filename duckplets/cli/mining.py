"""Commands of search and hard negatives: `search`, `mine`, and `export` for trainers."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, corpus_at, say
from duckplets.cli.verbs import names, of_verb, option
from duckplets.errors import CorpusLockedError, MigrationError, QueryError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus

STEMMER = Annotated[
    str | None,
    option("How words are stemmed from now on: porter, english, german, …, none."),
]
STOP_WORDS = Annotated[
    str | None,
    option("Words to leave out from now on: one a line, or 571 English ones.", "FILE|english|none"),
]
_FOUND = ("record_id", "split", "role", "snippet")


@of_verb("vectors.knn:search", places={"text": "TEXT"})
def search(
    corpus: CORPUS,
    by: Annotated[
        list[str] | None,
        option(
            "By bm25, by the vectors of that name, or by several, whose ranks are fused. "
            "[default: bm25]",
            "bm25|NAME,…",
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
    from duckplets.search.search import UnfitIndexError
    from duckplets.sources.converters.registry import search_first

    if given.get("encoder") is not None:
        with suppress(OSError):  # the folder was deleted
            search_first(os.getcwd())
    several = names(by) or ["bm25"]
    given["by"] = several if len(several) > 1 else several[0]
    scope = {"source": given.get("source"), "split": given.get("split")}
    if stemmer is not None or stop_words is not None:
        with corpus_at(corpus) as opened:
            set_terms(opened, scope["source"], stemmer, stop_words)
    try:
        with corpus_at(corpus, read_only=True) as opened:
            found = opened.search(**given)
    except UnfitIndexError:
        try:
            with corpus_at(corpus) as opened:
                opened.index(**scope, progress=False)
        except (CorpusLockedError, MigrationError, QueryError) as error:
            raise type(error)(f"the index has to be built before searching, but {error}") from None
        with corpus_at(corpus, read_only=True) as opened:
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


@of_verb("mining.mine:mine", places={"recipe": "RECIPE"}, without={"scorer"})
def mine(
    corpus: CORPUS,
    vectors: Annotated[
        str | None, option("By the cosine of a set of vectors, in the place of BM25.", "NAME")
    ] = None,
    stemmer: STEMMER = None,
    stop_words: STOP_WORDS = None,
    json: JSON = False,
    **given: Any,
) -> None:
    """Mine hard negatives, where they are missing.

    Runs that are opened then draw them. Interrupted, it goes on where it was. While others have
    the corpus open it is only read. The views candidates, negatives and negative_texts have the
    result.

    Example:
        duckplets mine faq.duckdb
        duckplets mine faq.duckdb anchor_context --depth 200
        duckplets mine faq.duckdb --stemmer english --stop-words english
    """
    from duckplets.vectors.dense import Dense

    changes_terms = stemmer is not None or stop_words is not None
    try:
        opened = corpus_at(corpus)
    except CorpusLockedError:
        if changes_terms:
            raise
        opened = corpus_at(corpus, read_only=True)
    with opened:
        set_terms(opened, given.get("source"), stemmer, stop_words)
        if vectors is not None:
            given["scorer"] = Dense(vectors)
        report = opened.mine(**given)
    if json:
        output.print_document([asdict(pair) for pair in report.pairs])
    elif report.pairs:
        output.show(report)
    elif not report.notes:
        say("nothing to mine: what samplers draw is there and current")


@of_verb("export:export_negatives", places={"path": "PATH"}, without={"corpus"})
def export(
    corpus: CORPUS,
    documents: Annotated[
        str | None, option("Of beir: documents of which splits.", "split|all")
    ] = None,
    **given: Any,
) -> None:
    """Write mined negatives or an evaluation set for a trainer.

    Mined negatives come with their anchors and positives. Files appear whole or not at all.
    Anchors that are left out are counted. The format beir, of queries, documents and which are
    relevant, needs no mining. hf://USER/NAME in the place of PATH is a data set on the Hub, made
    private, with a card that says what it was made from; HF_TOKEN may write there.

    Example:
        duckplets export faq.duckdb train.parquet --format sentence-transformers --negatives 4
        duckplets export faq.duckdb pairs.parquet --format sentence-transformers --negatives 0
        duckplets export faq.duckdb train.jsonl --format flagembedding --scores
        duckplets export faq.duckdb 8.jsonl --format flagembedding --negatives 8 --when-short random
        duckplets export faq.duckdb evaluation --format beir --split test --documents all
        duckplets export faq.duckdb hf://me/faq --format sentence-transformers
    """
    if given["path"].startswith("hf://"):
        if (form := given.pop("format")) != "sentence-transformers" or documents is not None:
            raise typer.BadParameter(f"--format {form}: the Hub takes sentence-transformers")
        with corpus_at(corpus, read_only=True) as opened:
            output.show(opened.push(given.pop("path"), **given))
        return
    with corpus_at(corpus, read_only=True) as opened:
        report = opened.export_negatives(**given, corpus=documents)  # type: ignore[arg-type]
    output.show(report)


def set_terms(
    corpus: Corpus, source: str | None, stemmer: str | None, stop_words: str | None
) -> None:
    """Change how text becomes terms, if asked for; indexes are then rebuilt."""
    given: dict[str, Any] = {} if stemmer is None else {"stemmer": stemmer}
    if stop_words is not None:
        given["stop_words"] = _stop_words(stop_words)
    if given:
        terms = corpus.terms(source, **given)
        corpus.index(terms, source=source)
        words = terms.stop_words if isinstance(terms.stop_words, str) else len(terms.stop_words)
        say(f"terms: stemmer {terms.stemmer}, stop words {words}")


def _stop_words(given: str) -> str | list[str]:
    """Return the words of a file, one a line, or the meaning of a keyword."""
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
