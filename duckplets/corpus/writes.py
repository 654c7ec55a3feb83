"""Mark the verbs that change a corpus: one thread at a time, and none where it is read-only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from duckplets.base.stages import stage
from duckplets.db.database import Database

P = ParamSpec("P")
R = TypeVar("R")


class _Corpus(Protocol):
    database: Database


C = TypeVar("C", bound=_Corpus)
Verb = Callable[Concatenate[C, P], R]


def changes(verb: str) -> Callable[[Verb[C, P, R]], Verb[C, P, R]]:
    """Let a method change its corpus, as ``Database.changing`` allows, and log that it does.

    Args:
        verb: What it does to the corpus, for messages: "cannot VERB FILE".
    """

    def marked(method: Verb[C, P, R]) -> Verb[C, P, R]:
        @stage(verb)
        @functools.wraps(method)
        def changing(self: C, /, *arguments: P.args, **named: P.kwargs) -> R:
            with self.database.changing(verb):
                return method(self, *arguments, **named)

        return changing

    return marked
