"""Find DuckDB's fts extension, which has the stemmers, and open an instance with it.

Tried in order: an installed extension, the wheel of the extra ``fts`` (works offline), a download
from DuckDB's repository. It is loaded into an in-memory instance: corpus files are sealed, and a
sealed instance loads nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from duckplets.db.database import Database, engine_version
from duckplets.errors import ExtensionError, QueryError

_NAME = "fts"
_WHEEL = "duckdb-extension-fts"
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
        _, reasons = _load(database)
        if reasons:
            _install(database, reasons)
    except BaseException:
        database.close()
        raise
    return database


def found() -> str:
    """Return where the extension is found, in a few words, without downloading."""
    database = Database.scratch()
    try:
        way, reasons = _load(database)
    finally:
        database.close()
    return f"not installed; for stemming and BM25: {_ways()}" if reasons else way


def _load(database: Database) -> tuple[str, list[str]]:
    """Load the extension from this machine; return how, or why each way failed."""
    try:
        database.load_extension(_NAME)
    except QueryError as error:
        reasons = [f"it is not installed ({error})"]
    else:
        return "installed", []
    try:
        database.load_extension(str(_wheel_file()))
    except (QueryError, FileNotFoundError) as error:
        return "", [*reasons, f"the wheel {_WHEEL}: {error}"]
    return f"from the wheel {_WHEEL} {engine_version()}", []


def _install(database: Database, reasons: list[str]) -> None:
    try:
        database.install_extension(_NAME)
        database.load_extension(_NAME)
    except QueryError as error:
        why = "; ".join([*reasons, f"it could not be installed ({error})"])
        raise ExtensionError(
            f"DuckDB's extension {_NAME} is missing: {_ways()}; {_WITHOUT} — {why}"
        ) from error


def _ways() -> str:
    """Return how to get the extension for the running version of DuckDB."""
    numbers = [[int(n) for n in v.split(".")[:2]] for v in (engine_version(), _NEWEST)]
    if numbers[0] <= numbers[1]:
        return _WAYS
    return (
        f"{_WAYS}. The wheel of the extra exists for DuckDB up to {_NEWEST} and brings that "
        f"version; this is {engine_version()}"
    )


def _wheel_file() -> Path:
    """Return the extension's file in the wheel, made for one version of DuckDB.

    Raises:
        FileNotFoundError: The wheel is missing, or for another version.
    """
    spec = find_spec(_WHEEL.replace("-", "_"))  # finds it without importing
    folders = [
        Path(place) / "extensions" for place in (spec and spec.submodule_search_locations) or []
    ]
    if not folders:
        raise FileNotFoundError("not installed")
    version = f"v{engine_version()}"
    for folder in folders:
        file = folder / version / f"{_NAME}.duckdb_extension"
        if file.is_file():
            return file
    others = sorted(place.name for folder in folders for place in folder.glob("v*"))
    raise FileNotFoundError(f"it is for DuckDB {', '.join(others) or '(none)'}, this is {version}")
