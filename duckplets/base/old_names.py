"""Look up the new names of old public names, members, parameters, commands and options.

``old_names.tsv`` has a line for each: old name, tab, new name. Old names are written ``dp.NAME``,
``Corpus.MEMBER``, ``Corpus.MEMBER(PARAMETER=)``, ``duckplets COMMAND`` and ``--OPTION``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib.resources import files
from typing import Any


@cache
def _names() -> dict[str, str]:
    text = files("duckplets.base").joinpath("old_names.tsv").read_text(encoding="utf-8")
    return dict(line.split("\t", 1) for line in text.splitlines())


def sentence(old: str) -> str | None:
    """Return the sentence about an old name, or None for another name."""
    new = _names().get(old)
    return None if new is None else f"{old} is now {new}"


def refusing_old(verb: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb of ``Corpus`` that refuses its old parameters and names the new ones."""
    start = f"Corpus.{verb}("
    if not any(old.startswith(start) for old in _names()):
        return function

    @wraps(function)
    def called(*args: Any, **arguments: Any) -> Any:
        for name in arguments:
            if message := sentence(f"{start}{name}=)"):
                raise TypeError(message)
        return function(*args, **arguments)

    return called
