"""Track live objects without keeping them alive.

``WeakSet`` runs Python code at the moment an object is dropped. Ctrl-C inside that code is printed
and lost. Here a C function notes the object, and the next call removes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class LiveSet(Generic[T]):
    """A set of weakly referenced objects."""

    def __init__(self) -> None:
        self._refs: set[ref[T]] = set()
        self._gone: deque[ref[T]] = deque()

    def add(self, item: T) -> None:
        """Add an object."""
        with suppress(IndexError):
            while True:
                self._refs.discard(self._gone.popleft())
        self._refs.add(ref(item, self._gone.append))

    def discard(self, item: T) -> None:
        """Remove an object."""
        self._refs.discard(ref(item))

    def clear(self) -> None:
        """Remove all objects."""
        self._refs.clear()

    def __iter__(self) -> Iterator[T]:
        items = (reference() for reference in list(self._refs))
        return iter([item for item in items if item is not None])
