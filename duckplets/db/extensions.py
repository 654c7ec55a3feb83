"""Find extensions of DuckDB: installed, in a wheel, or downloaded."""

# The stemmers of ``fts`` are loaded into memory, since a sealed instance loads nothing.

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from duckplets.db.database import Database, engine_version
from duckplets.errors import ExtensionError, QueryError

_FTS = "pip install 'duckplets[fts]', or, with a network: duckdb -c 'INSTALL fts'"
_WITHOUT = "duckplets mine CORPUS --stemmer none (Terms(stemmer='none')) needs no extension"


def stemming() -> Database:
    """Open an in-memory instance that can stem."""
    database = Database.scratch()
    try:
        need(database, "fts", f"{_FTS}; {_WITHOUT}")
    except BaseException:
        database.close()
        raise
    return database


def fts_found() -> str:
    """Return where the extension is found, in a few words, without downloading."""
    database = Database.scratch()
    try:
        way, reasons = load(database, "fts")
    finally:
        database.close()
    return f"not installed; for stemming and BM25: {_FTS}" if reasons else way


def load(database: Database, name: str) -> tuple[str, list[str]]:
    """Load an extension from this machine; return how, or why each way failed."""
    try:
        database.load_extension(name)
    except QueryError as error:
        reasons = [f"it is not installed ({error})"]
    else:
        return "installed", []
    wheel = f"duckdb-extension-{name}"
    try:
        database.load_extension(str(wheel_file(name)))
    except (QueryError, FileNotFoundError) as error:
        return "", [*reasons, f"the wheel {wheel}: {error}"]
    return f"from the wheel {wheel} {engine_version()}", []


def need(database: Database, name: str, ways: str) -> None:
    """Load an extension, or download it from DuckDB's repository."""
    _, reasons = load(database, name)
    if not reasons:
        return
    try:
        database.install_extension(name)
        database.load_extension(name)
    except QueryError as error:
        why = "; ".join([*reasons, f"it could not be installed ({error})"])
        raise ExtensionError(f"DuckDB's extension {name} is missing: {ways} — {why}") from error


def wheel_file(name: str) -> Path:
    """Return the file of an extension in its wheel, made for one version of DuckDB."""
    spec = find_spec(f"duckdb_extension_{name}")  # finds it without importing
    folders = [
        Path(place) / "extensions" for place in (spec and spec.submodule_search_locations) or []
    ]
    if not folders:
        raise FileNotFoundError("not installed")
    version = f"v{engine_version()}"
    for folder in folders:
        file = folder / version / f"{name}.duckdb_extension"
        if file.is_file():
            return file
    others = sorted(place.name for folder in folders for place in folder.glob("v*"))
    raise FileNotFoundError(f"it is for DuckDB {', '.join(others) or '(none)'}, this is {version}")
