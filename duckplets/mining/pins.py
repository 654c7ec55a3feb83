"""Pin a run to the minings that it draws from, so later minings do not change it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from duckplets.base.settings import check, from_plain
from duckplets.errors import StateMismatchError


@dataclass(frozen=True, slots=True)
class Pin:
    """Name a mining by its number and the digest of its candidates."""

    mining: int
    digest: str

    def __post_init__(self) -> None:
        check(self, StateMismatchError, "mining")


@dataclass(frozen=True, slots=True)
class Pins:
    """Name the minings of a run, by source, recipe and scorer."""

    by_source: Mapping[str, Mapping[str, Mapping[str, Pin]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self, StateMismatchError, "minings")

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Pins:
        """Return the pins of JSON values."""
        return from_plain(cls, plain, StateMismatchError, "minings")

    def __bool__(self) -> bool:
        return bool(self.by_source)

    def of(self, source: str, recipe: str) -> Mapping[str, Pin]:
        """Return the minings of a recipe of a source by scorer."""
        return self.by_source.get(source, {}).get(recipe, {})

    def without(self, sources: Collection[str]) -> Pins:
        """Return the minings of other sources."""
        return Pins({s: pins for s, pins in self.by_source.items() if s not in sources})

    def renewed(self, newest: Pins) -> Pins:
        """Return the newest minings for the same recipes; without one the old pin stays."""
        return Pins(
            {
                source: {recipe: newest.of(source, recipe) or pins[recipe] for recipe in pins}
                for source, pins in self.by_source.items()
            }
        )

    def digests(self) -> dict[str, dict[str, list[str]]]:
        """Return the digests of the candidates, which do not depend on the minings' numbers."""
        return {
            source: {name: [pin.digest for pin in ps.values()] for name, ps in recipes.items()}
            for source, recipes in self.by_source.items()
        }


@dataclass(frozen=True, slots=True)
class InBatch:
    """Hold the scorer and margin of ``in_batch_margin``, and the minings with scores."""

    scorer: str
    margin: float
    minings: Pins = Pins()
