"""``duckplets search`` and ``duckplets index``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckplets.cli import jsonlines, tables
from duckplets.cli.app import CORPUS, JSON, existing, say
from duckplets.errors import CorpusLockedError

SOURCE = Annotated[str | None, typer.Option(help="Of this source only; by default of all.")]
SPLIT = Annotated[
    str | None, typer.Option(metavar="train|validation|test", help="Of this split only.")
]


def search(
    corpus: CORPUS,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for: any text.")],
    k: Annotated[int, typer.Option("--k", help="At most so many sections.")] = 10,
    source: SOURCE = None,
    split: SPLIT = None,
    json: JSON = False,
) -> None:
    """Show the sections that fit a text best, by BM25.

    Indexes that are missing or stale are built first.

    Example:
        duckplets search faq.duckdb "how do I change my password" --k 5
    """
    from duckplets.corpus import Corpus

    read_only = _fits(corpus, source, split)
    try:
        opened = Corpus(corpus, read_only=read_only)
    except CorpusLockedError as error:
        if read_only:
            raise
        raise CorpusLockedError(
            f"the index has to be built before searching, but {error}"
        ) from None
    with opened:
        found = opened.search(text, k, source, split)
    if json:
        jsonlines.print_document(found.to_pylist())
        return
    rows = (
        (f"{row['score']:.4f}", row["record_id"], row["split"], row["role"], row["snippet"])
        for row in found.to_pylist()
    )
    if found.num_rows:
        tables.show(("score", "record", "split", "role", "text"), rows)
    else:
        say("no section shares a term with it")


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
            help="Words to leave out from now on: one a line, or 571 English ones; none.",
        ),
    ] = None,
) -> None:
    """Build the full-text indexes that are missing or stale.

    Searching and mining do that as well. The settings are kept, for one source or for all; with
    one of them given, the other is set to its default.

    Example:
        duckplets index faq.duckdb --stemmer english --stop-words english
    """
    from duckplets.corpus import Corpus
    from duckplets.search.terms import Terms

    terms = None
    if stemmer is not None or stop_words is not None:
        terms = Terms(stemmer=stemmer or Terms().stemmer, stop_words=_stop_words(stop_words))
    with Corpus(existing(corpus)) as opened:
        reports = opened.index(terms, source=source, split=split)
    if not reports:
        say("all indexes fit already")
        return
    columns = ("source", "split", "why", "documents", "tokens", "terms", "seconds")
    rows = (
        (r.source, r.split, r.reason, r.documents, r.tokens, r.terms, round(r.seconds, 1))
        for r in reports
    )
    tables.show(columns, rows)


def _fits(corpus: Path, source: str | None, split: str | None) -> bool:
    """Whether a corpus can be searched as it is."""
    from duckplets.db import migrate
    from duckplets.db.database import Database
    from duckplets.search import index

    database = Database.open(corpus, read_only=True)
    try:
        migrate.check(database, "corpus")
        return not index.stale(database, source=source, split=split)
    finally:
        database.close()


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
