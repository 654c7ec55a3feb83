"""The converters by name: built-in ones, and the user's functions.

A user's function is registered under a name, or named by its place, ``module:function``. Then its
module is imported: a name in a file of sources can run code, so a warning is logged first.
"""

from __future__ import annotations

import importlib
import logging
from functools import reduce
from typing import Any

from duckplets.base.sanitize import listed, shown
from duckplets.errors import DuckpletsError, SourceError, nearest
from duckplets.sources.converters.turns import BUILT_IN, Converter, Function, of_function

log = logging.getLogger("duckplets")

_OWN: dict[str, Converter] = {}


def register_converter(name: str, function: Function) -> None:
    """Register a function of your own under a name, for ``converter=`` of any source.

    The function is called once a row, in Python; a name registered again is replaced.

    Args:
        name: Any name that no built-in converter has.
        function: Takes a row as a dictionary, without keys whose value is null, and returns
            ``{"messages": [...]}``. Each message is ``{"role": ..., "content": ...}`` with the
            text or a list of ``{"type": "text", "text": ...}`` (``"value"`` is read as
            ``"text"``). ``"loss_weight"`` is 1.0 for the assistant and 0.0 for others by default.
            Batches have ``"text"``, batches of a data index ``"value"``. For a preference pair it
            returns ``"chosen_messages"`` and ``"rejected_messages"``.

    Raises:
        SourceError: The name is taken or no name, or the function cannot be called.
    """
    if not isinstance(name, str) or not name.strip():
        raise SourceError(f"converter {name!r}: give a name")
    if name in BUILT_IN:
        raise SourceError(f"converter {name!r} is built in; register yours under another name")
    if not callable(function):
        raise SourceError(f"converter {name!r}: {function!r} cannot be called")
    _OWN[name] = of_function(name, function)


def converter_names() -> tuple[str, ...]:
    """Return the names of all converters, sorted."""
    return tuple(sorted({*BUILT_IN, *_OWN}))


def converter_of(name: str) -> Converter:
    """Return a converter by name; ``module:function`` is imported."""
    found = BUILT_IN.get(name) or _OWN.get(name)
    if found is not None:
        return found
    if ":" in name:
        return of_function(name, imported(name))
    names = converter_names()
    raise SourceError(
        f"no converter {name!r}{nearest(name, names)}; there are: {listed(names)}; name one of "
        f"your own as 'module:function', or register it with "
        f"dp.plugins.register_converter(name, function)"
    )


# -- functions by their place ---------------------------------------------------------------------

_WARNED: set[str] = set()


def imported(
    name: str,
    what: str = "converter",
    each: str = "row",
    error: type[DuckpletsError] = SourceError,
) -> Function:
    """Import the function of ``module:function``, after a warning that its code runs."""
    module, _, path = name.partition(":")
    parts = path.split(".")
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        raise error(f"{what}={name!r}: write module:function, as in 'mypkg.convert:rows'")
    if name not in _WARNED:
        _WARNED.add(name)
        log.warning(
            "%s",
            f"{what} {shown(name)}: the code of module {shown(module)} runs here: it is "
            f"imported, and its {shown(path)} is called for every {each}",
        )
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as failed:
        raise error(
            f"{what}={name!r}: cannot import {module}: {type(failed).__name__}: {failed}"
        ) from failed
    try:
        function: Any = reduce(getattr, parts, found)
    except AttributeError as failed:
        where = getattr(found, "__file__", None) or "no file"
        names = [each for each in vars(found) if callable(vars(found)[each])]
        raise error(
            f"{what}={name!r}: {module} ({where}) has no {path!r}{nearest(path, names)}"
        ) from failed
    if not callable(function):
        raise error(
            f"{what}={name!r}: {path} of {module} is {shown(repr(function), 80)}, no function"
        )
    return function  # type: ignore[no-any-return]
