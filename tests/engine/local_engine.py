"""An engine of this process alone: parts are made in any order, and only bytes go to and fro."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Any

from duckplets.engine.protocol import Part


class Shuffled:
    """Runs some parts at a time in a random order, and makes some of them twice.

    Args:
        seed: Of the order.
        before: Called with the input of every part before it is made.
    """

    workers = 2

    def __init__(self, seed: int = 0, before: Callable[[Any], None] = lambda _: None) -> None:
        self._draw, self._before = random.Random(seed), before
        self.labels: list[str] = []

    def map(
        self, function: Callable[[Any, Any], Any], job: Any, parts: Iterable[Part]
    ) -> Generator[Any, None, None]:
        coming = iter(parts)
        while some := list(islice(coming, self._draw.randrange(1, 5))):
            found: dict[int, Any] = {}
            order = self._draw.choices(range(len(some)), k=len(some) // 2)
            for place in [*order, *self._draw.sample(range(len(some)), len(some))]:
                given = pickle.loads(pickle.dumps((job, some[place].input)))
                self._before(given[1])
                found[place] = pickle.loads(pickle.dumps(function(*given)))
            self.labels += [part.label for part in some]
            yield from (found[place] for place in range(len(some)))
