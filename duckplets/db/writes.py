"""The open corpus file as verbs see it, and the decorator of verbs that write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from duckplets.base.live_set import LiveSet
from duckplets.base.stages import stage
from duckplets.db.database import Database

P = ParamSpec("P")
R = TypeVar("R")


class CorpusFile(Protocol):
    """The part that verbs need of a ``Corpus``, whose class lies above their rooms."""

    database: Database
    path: Path
    read_only: bool
    opened: LiveSet[Any]  # samplers and readers to close with it

    @property
    def version(self) -> int:
        """The newest committed version; 0 for an empty corpus."""
        ...


def changes(verb: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a verb that writes to its corpus: lock it, and log the verb."""
    return stage(verb, lambda corpus: corpus.database.changing(verb))
