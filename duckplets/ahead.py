"""One step ahead: the next item of an iterator is made in a thread while this one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items in order, making each while the one before is used.

    Errors surface where the item would have come. Closing waits for the item being made.
    """
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="duckplets-ahead") as thread:
        coming = thread.submit(next, items, end)
        while True:
            item = coming.result()
            if item is end:
                return
            coming = thread.submit(next, items, end)
            yield item  # type: ignore[misc]
