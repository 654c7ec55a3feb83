"""What a verb is given, a corpus file that is open, and the mark of verbs that change it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from duckplets.base.stages import stage
from duckplets.db.database import Database

P = ParamSpec("P")
R = TypeVar("R")


class CorpusFile(Protocol):
    """What verbs need of a ``Corpus``, whose class lies above the rooms they are in."""

    database: Database
    path: Path
    read_only: bool

    @property
    def version(self) -> int:
        """The newest committed version; 0 for an empty corpus."""
        ...

    def state_path(self, given: str | Path | None = None) -> Path:
        """Return the state file that is given, or the one beside the corpus."""
        ...

    def owns(self, opened: Any) -> None:
        """Close a sampler or a reader when the corpus is closed."""
        ...


def changes(verb: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a verb change its corpus, as ``Database.changing`` allows, and log that it does.

    Args:
        verb: What it does to the corpus, for messages: "cannot VERB FILE".
    """
    return stage(verb, lambda corpus: corpus.database.changing(verb))
