"""The command `ui`: DuckDB's own page on a corpus."""

from __future__ import annotations

import threading
from pathlib import Path

from duckplets.cli.app import corpus_at, say, tell
from duckplets.cli.verbs import command


@command()
def ui(corpus: Path, sql: bool = False) -> None:
    """Open DuckDB's own page on a corpus, with saved questions.

    What is asked there is SQL of your own, outside the seal that other commands have, in an
    instance in memory that has the corpus attached to read: it cannot be changed, and nothing can
    be written to it meanwhile. The page itself comes from its makers' site each time; data stays
    on this machine. Without the extension or a network the questions are printed.

    Args:
        sql: Print the questions for the duckdb CLI instead.

    Example:
        duckplets ui faq.duckdb
        duckplets ui faq.duckdb --sql | duckdb
    """
    from duckplets.corpus import look_inside
    from duckplets.errors import ExtensionError

    with corpus_at(corpus, read_only=True):
        pass  # it is a corpus of this schema
    corpus = corpus.resolve()
    database = None
    if not sql:
        try:
            database, address = look_inside.open_page(corpus)
        except ExtensionError as error:
            say(f"{error}. The questions, for the duckdb CLI:")
    if database is None:
        tell(*look_inside.script(corpus).splitlines())
        return
    say(
        f"{address} shows {corpus} until Ctrl-C; its questions are the views of memory.main",
        "the page comes from its makers' site, ui.duckdb.org, each time; data stays here",
        "it runs your own SQL, outside the seal; nothing can be ingested meanwhile",
    )
    try:
        threading.Event().wait()
    finally:
        database.close()
