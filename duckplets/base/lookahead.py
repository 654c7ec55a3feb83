"""One step ahead: the next item of an iterator is made in a thread while this one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def one_ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield the items in order, making each while the one before is used.

    Errors surface where the item would have come. Closing waits for the item being made, after
    telling the iterator to ``stop()`` if it can be told.
    """
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="duckplets-ahead") as thread:
        try:
            coming = thread.submit(next, items, end)
            while True:
                item = coming.result()
                if item is end:
                    return
                coming = thread.submit(next, items, end)
                yield item  # type: ignore[misc]
        finally:
            # What is being made may wait for a thread of its own, and that one for a server.
            stop(items)


def stop(items: Iterator[Any]) -> None:
    """Tell an iterator that nothing more will be asked of it, if it can be told."""
    getattr(items, "stop", lambda: None)()
