"""Bind verbs to the class of a corpus before their rooms are imported, which takes a while."""

from __future__ import annotations

from importlib import import_module
from types import MethodType
from typing import Any


class Room:
    """A module of the package, of which ``room.verb`` is bound in the body of a class.

    Args:
        name: Of the module, in the package.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, verb: str) -> Verb:
        return Verb(self._name, verb)


class Verb:
    """A function of a room, which takes its own place in the class when it is first asked for."""

    def __init__(self, room: str, name: str) -> None:
        self._room, self._name = room, name

    def __get__(self, corpus: object, owner: type) -> Any:
        function = getattr(import_module(f"duckplets.{self._room}"), self._name)
        setattr(owner, self._name, function)
        return function if corpus is None else MethodType(function, corpus)
