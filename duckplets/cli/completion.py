"""Shell completion of names in a corpus: sources, recipes, saved runs and tags.

Completion only reads. A file that is missing, locked, damaged or of another schema offers no names.
Names with characters that a shell interprets are not offered: the data is not trusted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from duckplets.db.database import Database

Complete = Callable[[typer.Context, str], list[str]]

_SPLITS = ("train", "validation", "test")
_PLAIN = re.compile(r"\w[\w@%+./-]*")  # no character is special to a shell


def splits(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the splits."""
    return _fitting(_SPLITS, incomplete)


def sources(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the sources of the corpus."""
    return _fitting(_read(_path(context, "corpus"), _sources), incomplete)


def recipes(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the stored recipes of the corpus and the recipes of its sources."""
    return _fitting(_read(_path(context, "corpus"), _recipes), incomplete)


def several_recipes(context: typer.Context, incomplete: str) -> list[str]:
    """Offer recipes for the last item of a comma-separated list."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{n}" for n in recipes(context, last) if n not in taken]


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the saved runs."""
    return _fitting([run for run, _ in _saved(context)], incomplete)


def tags(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the tags of the named run, or of the default one."""
    named = context.params.get("run") or "default"
    return _fitting([tag for run, tag in _saved(context) if tag and run == named], incomplete)


def _saved(context: typer.Context) -> list[tuple[str, str | None]]:
    from duckplets.runs.state import state_path

    corpus, sets = _path(context, "corpus"), context.params.get("changes") or ()
    states = [key for text in sets if (key := text.removeprefix("options."))[:6] == "state="]
    state = Path(states[-1][6:].strip("'\"")).expanduser() if states else None
    return _read(state or (corpus and state_path(corpus)), _cursors)


def _sources(database: Database) -> list[str]:
    return [name for name, _ in database.run("recipes/store/sources", _newest(database))]


def _recipes(database: Database) -> list[str]:
    from duckplets.recipes import store

    return store.names(database, **_newest(database))


def _cursors(database: Database) -> list[tuple[str, str | None]]:
    return [(row[0], row[1]) for row in database.run("runs/state/saves", {"run": None})]


def _newest(database: Database) -> dict[str, int]:
    from duckplets.ingest.records import current_version

    return {"version": current_version(database)}


def _path(context: typer.Context, name: str) -> Path | None:
    path = context.params.get(name)
    if path is None and name == "corpus":  # as after an option without its value
        path = next(iter(context.args), None)
    return Path(os.path.expanduser(path)) if isinstance(path, str | Path) else None


def _read(path: Path | None, names: Callable[[Database], list[Any]]) -> list[Any]:
    """Return names from a file; none if it cannot be read at once."""
    if path is None or not path.is_file():
        return []
    from duckplets.db.database import Database

    try:
        with closing(Database.open(path, read_only=True, threads=1)) as database:
            return names(database)
    except Exception:  # the next command reports the error
        return []


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    fitting = (name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name))
    return list(dict.fromkeys(fitting))
