"""``duckplets cursor …`` and ``duckplets migrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckplets.cli import tables
from duckplets.cli.app import CORPUS, existing, say

if TYPE_CHECKING:
    from duckplets.migrate import Kind


def list_cursors(corpus: CORPUS) -> None:
    """List where the saved runs of a corpus stand.

    Example:
        duckplets cursor list faq.duckdb
    """
    from duckplets import state

    cursors = state.cursors(state.state_path(existing(corpus)))
    columns = ("run", "tag", "kind", "corpus_version", "position", "step", "epoch", "saved_at")
    tables.show_dicts(columns, cursors)


def reset(
    corpus: CORPUS, run: Annotated[str, typer.Option(help="Name of the run to forget.")]
) -> None:
    """Forget a saved run and its checkpoints, so that its name is free.

    Example:
        duckplets cursor reset faq.duckdb --run default
    """
    from duckplets import state

    removed = state.reset(state.state_path(existing(corpus)), run)
    say(f"forgot run {run} and its {removed:,} cursor{'' if removed == 1 else 's'}")


def migrate(corpus: CORPUS) -> None:
    """Bring a corpus and its state file to the schema of this version.

    Example:
        duckplets migrate faq.duckdb
    """
    from duckplets import state

    _migrate(existing(corpus), "corpus")
    if state.state_path(corpus).exists():
        _migrate(state.state_path(corpus), "state")


def _migrate(path: Path, kind: Kind) -> None:
    from duckplets.database import Database
    from duckplets.migrate import migrate as apply

    database = Database.open(path)
    try:
        done = apply(database, kind)
    finally:
        database.close()
    print(f"{path}: {'applied ' + ', '.join(done) if done else 'up to date'}")
