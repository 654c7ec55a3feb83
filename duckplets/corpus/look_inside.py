"""Look inside a corpus with SQL of one's own: saved questions, and the page of DuckDB's ``ui``.

The corpus is attached to an in-memory instance that is not sealed: what is asked there is the
user's own SQL. Questions are views of that instance; the corpus is not changed.
"""

from __future__ import annotations

import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from duckplets.db import extensions
from duckplets.db.database import Database
from duckplets.db.queries import bound, query
from duckplets.errors import ExtensionError, QueryError

QUESTIONS = (
    *("what_is_in_it", "which_texts_are_longest", "which_texts_come_twice", "which_anchors_leak"),
    *("what_was_left_out", "what_did_gates_decide", "which_negatives_are_hardest"),
    "which_negatives_may_be_false",
)
"""The views, each named for what it answers."""

_WAYS = "pip install 'duckplets[ui]', or, with a network: duckdb -c 'INSTALL ui'"
_SECONDS = 20.0  # for the page to come


def script(path: Path, rows: int = 20) -> str:
    """Return the questions as a script for the duckdb CLI, with the first rows of each."""
    shows = (
        bound(query("corpus/questions/show"), {"view": name, "rows": rows}) for name in QUESTIONS
    )
    return "\n".join(f"{statement.rstrip()};\n" for statement in (*_views(path), *shows))


def open_page(path: Path) -> tuple[Database, str]:
    """Serve DuckDB's page on 127.0.0.1, with the corpus and the questions; return its address.

    Raises:
        ExtensionError: The extension is missing, or its page does not come.
    """
    database = Database.scratch()
    try:
        (Path.home() / ".duckdb").mkdir(exist_ok=True)  # the extension keeps its notebooks there
        extensions.need(database, "ui", _WAYS)
        for statement in _views(path):
            database.rows(statement)
        try:
            ((told,),) = database.run("corpus/questions/serve")
            address = told.split()[-1]
            _await(address)
            database.run("corpus/questions/browse")
        except (QueryError, OSError) as error:
            raise ExtensionError(
                f"DuckDB's page does not come from its makers' site; is there a network? ({error})"
            ) from None
    except BaseException:
        database.close()
        raise
    return database, address


def _await(address: str) -> None:
    """Wait until a page comes: at first the extension may not be listening yet."""
    end = time.monotonic() + _SECONDS
    while True:
        try:
            urlopen(address, timeout=_SECONDS).close()  # noqa: S310 - it is on this machine
            return
        except URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > end:
                raise
            time.sleep(0.05)


def _views(path: Path) -> list[str]:
    whole = str(path.resolve())
    return [
        bound(query("corpus/questions/beside"), {"folder": f"{whole}.tmp"}),
        bound(query("corpus/questions/attach"), {"path": whole}),
        *(query(f"corpus/questions/{name}") for name in QUESTIONS),
    ]
