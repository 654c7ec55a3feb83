"""Sources that are read side by side, and what their reading leaves."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from effort import often
from gated_rows import GOOD, written

import duckplets as dp

READING = ("duckplets-source", "duckplets-ahead")


def assert_nothing_is_left(folder: Path) -> None:
    """Check that no thread reads any more, and no rows wait on disk."""
    deadline = time.monotonic() + 10
    while [t for t in threading.enumerate() if t.name.startswith(READING)]:
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.01)
    assert not list(folder.glob("**/.*.parts"))


class Pages:
    """A source of a user's own, a page at a time.

    Args:
        name: Of the source.
        rows: All of them.
        page: Rows of a page.
        sleep: Seconds before each.
        fails: Numbers of rows before which it fails, once each, however many times one is given.
        error: What it raises then.
    """

    def __init__(
        self,
        name: str,
        rows: list[dict[str, Any]],
        *,
        page: int = 4,
        sleep: float = 0,
        fails: tuple[int, ...] = (),
        error: Exception | None = None,
    ) -> None:
        self.name, self.rows, self.page, self.sleep = name, rows, page, sleep
        self.fails, self.error = list(fails), error or ConnectionResetError("gone")
        self.calls: list[Any] = []

    def batches(self, cursor: Any) -> Iterator[tuple[Any, Any]]:
        self.calls.append(cursor)
        for start in range(int(cursor or 0), len(self.rows), self.page):
            time.sleep(self.sleep)
            yield self._page(start), start + self.page

    def _page(self, start: int) -> Iterator[dict[str, Any]]:
        for at, row in enumerate(self.rows[start : start + self.page], start):
            if at in self.fails:
                self.fails.remove(at)
                raise self.error
            yield row


def some_rows(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Return rows of few different texts, some of them bad."""
    words = [GOOD.format(i) for i in range(40)] + ["short", ""]
    return [{"id": str(i), "text": draw.choice(words)} for i in range(count)]


def sources_of(seed: int, folder: Path) -> list[Any]:
    """Return a few sources of several kinds, the later ones quicker."""
    draw = random.Random(seed)
    found: list[Any] = []
    for number in range(3):
        rows = some_rows(draw, draw.randrange(0, often(60, less=30)))
        name, kind = f"s{number}", draw.choice(["file", "pages", "memory"])
        if kind == "file":
            path = folder / f"{seed}-{name}.jsonl"
            written(path, rows)
            with path.open("a", encoding="utf-8") as file:
                file.write("{bad\n" if rows else '{"id": "1", "text": "short"}\n')
            found.append(dp.sources.JsonSource(path, text="text", id="id"))
        elif kind == "memory":
            named = dp.sources.MemorySource(
                rows or [{"id": "0", "text": "short"}], text="text", id="id"
            )
            found.append(named)
        else:
            usable = [row for row in rows if row["text"]] or [{"id": "0", "text": "short"}]
            sleep = draw.choice([0, 0.002 * (3 - number)])
            fails = tuple(draw.choices(range(often(60, less=30)), k=draw.choice([0, 2])))
            made = Pages(name, usable, page=draw.randrange(1, 9), sleep=sleep, fails=fails)
            found.append(made)
    return found
