"""Bind verbs to the class ``Corpus`` before their modules are imported."""

from __future__ import annotations

from importlib import import_module
from types import MethodType
from typing import Any

from duckplets.base.old_names import refusing_old


class Room:
    """A module of the package; ``room.verb`` binds a verb in a class body.

    Args:
        name: Of the module, in the package.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, verb: str) -> Verb:
        return Verb(self._name, verb)


class Verb:
    """A verb that replaces itself by the imported function when first used."""

    def __init__(self, room: str, name: str) -> None:
        self._room, self._name = room, name

    def __get__(self, corpus: object, owner: type) -> Any:
        function = getattr(import_module(f"duckplets.{self._room}"), self._name)
        function = refusing_old(self._name, function)
        setattr(owner, self._name, function)
        return function if corpus is None else MethodType(function, corpus)
