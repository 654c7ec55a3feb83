"""``duckplets cursor …`` and ``duckplets migrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckplets.cli import tables
from duckplets.cli.app import CORPUS, existing, say
from duckplets.cli.options import STATE
from duckplets.errors import QueryError, StateMismatchError

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.db.migrate import Kind


FILE = Annotated[
    Path, typer.Argument(metavar="FILE", help="A corpus file, or a state file kept elsewhere.")
]


def list_cursors(corpus: CORPUS, state: STATE = None) -> None:
    """List where the saved runs of a corpus stand.

    Example:
        duckplets cursor list faq.duckdb
    """
    from duckplets.sampling.state import cursors

    columns = ("run", "tag", "kind", "corpus_version", "position", "step", "epoch", "saved_at")
    tables.show_dicts(columns, cursors(_state_path(corpus, state)))


def reset(
    corpus: CORPUS,
    run: Annotated[str, typer.Option(help="Name of the run to forget.")],
    state: STATE = None,
) -> None:
    """Forget a saved run and its checkpoints, so that its name is free.

    Example:
        duckplets cursor reset faq.duckdb --run default
    """
    from duckplets.sampling.state import reset as forget

    removed = forget(_state_path(corpus, state), run)
    say(f"forgot run {run} and its {removed:,} cursor{'' if removed == 1 else 's'}")


def migrate(file: FILE) -> None:
    """Bring a corpus and the state file beside it to the schema of this version.

    Example:
        duckplets migrate faq.duckdb
    """
    from duckplets.sampling.state import state_path

    if _migrate(existing(file)) == "corpus" and state_path(file).exists():
        _migrate(state_path(file))


def _state_path(corpus: Path, given: Path | None) -> Path:
    from duckplets.sampling.state import state_path

    beside = state_path(existing(corpus))
    if given is not None and not given.exists():
        raise StateMismatchError(f"no run is saved: {given} does not exist")
    return given or beside


def _migrate(path: Path) -> Kind:
    from duckplets.db.database import Database
    from duckplets.db.migrate import migrate as apply

    database = Database.open(path)
    try:
        kind = _kind(database)
        done = apply(database, kind)
    finally:
        database.close()
    print(f"{path}: {'applied ' + ', '.join(done) if done else 'up to date'}")
    return kind


def _kind(database: Database) -> Kind:
    """Return what a file says it is; one that is none of ours is refused as no corpus."""
    if ("schema_migrations",) not in database.run("db/migrate/tables"):
        return "corpus"
    try:
        kinds = {row[2] for row in database.run("db/migrate/applied")}
    except QueryError:
        return "corpus"
    return "state" if kinds == {"state"} else "corpus"
