"""Register user functions by name and version.

Settings and corpora store name and version, never the function. So drawing samples needs no user
code, and stored results name the version of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from duckplets.errors import DuckpletsError, nearest

Function = TypeVar("Function", bound=Callable[..., Any])


class Registry(Generic[Function]):
    """Functions of one kind, in order of registration."""

    def __init__(
        self,
        kind: str,  # as in ``dp.plugins.register_KIND``
        error: type[DuckpletsError],
        wanted: str,  # description of a function in messages
        built_in: Mapping[str, Function] | None = None,  # functions that cannot be replaced
    ) -> None:
        self.kind, self.error, self.wanted = kind, error, wanted
        self._built_in = dict(built_in or {})
        self.clear()

    def clear(self) -> None:
        """Remove all functions except built-in ones."""
        self._functions = {(name, "1"): function for name, function in self._built_in.items()}

    def version_of(self, version: Any) -> str:
        """Return a version as text."""
        if not isinstance(version, int | str) or isinstance(version, bool):
            raise self.error(f"{self.kind} version {version!r}: expected a number or a text")
        return str(version)

    def add(self, name: str, version: str, function: Any) -> None:
        """Register a function; replace a function of the same name and version."""
        if name in self._built_in:
            raise self.error(f"{self.kind} name {name!r} is taken: it is built in; give another")
        if not callable(function):
            raise self.error(f"{self.kind} {name!r} is {function!r}: expected {self.wanted}")
        self._functions.pop((name, version), None)
        self._functions[name, version] = function

    def find(self, name: str, version: str) -> Function:
        """Return a function; the error for a missing one says how to register it."""
        if function := self._functions.get((name, version)):
            return function
        if versions := [other for known, other in self._functions if known == name]:
            raise self.error(
                f"{self.kind} {name!r} is needed in version {version!r}, and registered in "
                f"{', '.join(map(repr, versions))}: register the needed version, or chunk the "
                f"corpus with a registered one"
            )
        raise self.unknown(name, f", version={version!r}")

    def newest(self, name: str) -> str:
        """Return the version of a name registered last."""
        versions = [version for known, version in self._functions if known == name]
        if not versions:
            raise self.unknown(name)
        return versions[-1]

    def name_of(self, function: Any) -> tuple[str, str] | None:
        """Return the last registered name and version of a function, or None."""
        found = [key for key, known in self._functions.items() if known == function]
        return found[-1] if found else None

    def names(self) -> tuple[str, ...]:
        """Return all names."""
        return tuple(dict.fromkeys(name for name, _ in self._functions))

    def unknown(self, name: str, version: str = "") -> DuckpletsError:
        """Return the error for an unregistered name."""
        known = f"registered: {', '.join(self.names())}; " if self._functions else ""
        return self.error(
            f"{self.kind} {name!r} is not registered{nearest(name, self.names())}; {known}before "
            f"its use call: dp.plugins.register_{self.kind}({name!r}, function{version})"
        )
