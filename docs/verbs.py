"""Show the verbs that a class binds by name as its methods, in the reference pages."""

from __future__ import annotations

from typing import Any

import griffe


class Verbs(griffe.Extension):
    """Replace ``verb = _room.verb`` in a class by the function of that room."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Put the functions in place of the names that are bound to them."""
        cls = pkg["corpus.corpus.Corpus"]
        for name, member in list(cls.members.items()):
            room, _dot, verb = str(getattr(member, "value", "")).partition(".")
            if not verb or room not in cls.module.members:
                continue
            function = cls.module[room].final_target[verb]
            if first := [p.name for p in function.parameters if p.name in ("self", "corpus")]:
                del function.parameters[first[0]]
            cls.set_member(name, griffe.Alias(name, function))
