"""Pin a run to the minings that it draws from, so that later ones change nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from duckplets.base.settings import check, from_plain
from duckplets.errors import StateMismatchError


@dataclass(frozen=True, slots=True)
class Pin:
    """A mining by its number, with the digest of its candidates."""

    mining: int
    digest: str

    def __post_init__(self) -> None:
        check(self, StateMismatchError, "mining")


@dataclass(frozen=True, slots=True)
class Pins:
    """The minings of a run, by source, recipe and scorer."""

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
        return Pins({name: of for name, of in self.by_source.items() if name not in sources})

    def renewed(self, newest: Pins) -> Pins:
        """Return the newest minings, where there are some, for the same recipes."""
        every = self.by_source.items()
        return Pins({s: {name: newest.of(s, name) or of[name] for name in of} for s, of in every})

    def digests(self) -> dict[str, dict[str, list[str]]]:
        """Return what identifies the candidates, whatever their numbers."""
        return {
            source: {name: [pin.digest for pin in of.values()] for name, of in recipes.items()}
            for source, recipes in self.by_source.items()
        }


@dataclass(frozen=True, slots=True)
class InBatch:
    """The scorer and margin by which texts are kept from a batch, and the minings with scores."""

    scorer: str
    margin: float
    minings: Pins = Pins()
