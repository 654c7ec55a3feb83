"""Open an in-memory instance with DuckDB's fts extension, which has the stemmers.

Tried in order: an installed extension, the wheel of the extra ``fts`` (works offline), a download
from DuckDB's repository. It is loaded into an in-memory instance: corpus files are sealed, and a
sealed instance loads nothing.
"""

from __future__ import annotations

from duckplets.db import extensions
from duckplets.db.database import Database, engine_version

_NAME = "fts"
_WAYS = "pip install 'duckplets[fts]', or, with a network: duckdb -c 'INSTALL fts'"
_WITHOUT = "duckplets mine CORPUS --stemmer none (Terms(stemmer='none')) needs no extension"
_NEWEST = "1.5.5"  # newest DuckDB version with a published wheel


def stemming() -> Database:
    """Open an in-memory instance that can stem.

    Raises:
        ExtensionError: The extension is missing and cannot be downloaded.
    """
    database = Database.scratch()
    try:
        extensions.need(database, _NAME, f"{_ways()}; {_WITHOUT}")
    except BaseException:
        database.close()
        raise
    return database


def found() -> str:
    """Return where the extension is found, in a few words, without downloading."""
    database = Database.scratch()
    try:
        way, reasons = extensions.load(database, _NAME)
    finally:
        database.close()
    return f"not installed; for stemming and BM25: {_ways()}" if reasons else way


def _ways() -> str:
    """Return how to get the extension for the running version of DuckDB."""
    numbers = [[int(n) for n in v.split(".")[:2]] for v in (engine_version(), _NEWEST)]
    if numbers[0] <= numbers[1]:
        return _WAYS
    return (
        f"{_WAYS}. The wheel of the extra exists for DuckDB up to {_NEWEST} and brings that "
        f"version; this is {engine_version()}"
    )
