"""Select the sections that may stand in a slot of a recipe: by role, position or date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from duckplets.base.settings import Bounds, check, from_plain
from duckplets.errors import RecipeError
from duckplets.recipes.conditions import where_condition

Role = Literal["anchor", "context", "rejected"]
SelectorKind = Literal["role", "position", "near_date", "any_section"]

_MOST = 4_000_000  # sections or days (11,000 years): a date plus so many is still one to DuckDB


@dataclass(frozen=True, slots=True)
class Selector:
    """Which sections may stand in a slot; made by the four functions below.

    Attributes:
        role: The role of the section.
        position: Or the position of the section in its record, from 0.
        near_date: Or days from the anchor's date to the one looked for.
        any_section: Or True: any of them.
        where: SQL condition over columns of records, sections and chunks, or None.
    """

    role: Role | None = None
    position: Annotated[int, Bounds(0, _MOST)] | None = None
    near_date: Annotated[int, Bounds(-_MOST, _MOST)] | None = None
    any_section: Literal[True] | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        check(self, RecipeError, "selector")
        given = [name for name in _KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise RecipeError(f"selector: give one of {', '.join(_KINDS)}, not {found} of them")
        if self.where is not None:
            where_condition(self.where)

    @property
    def kind(self) -> SelectorKind:
        """Which of the four it is."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @classmethod
    def from_text(cls, text: str) -> Selector:
        """Read ``role:anchor``, ``position:1``, ``near_date:-3`` or ``any_section``."""
        kind, colon, value = text.partition(":")
        whole = value.removeprefix("-").isdecimal() and len(value) < 20
        argument = (int(value) if whole else value) if colon else kind == "any_section"
        return from_plain(cls, {kind: argument}, RecipeError, "selector")


_KINDS: tuple[SelectorKind, ...] = ("role", "position", "near_date", "any_section")


def role(r: Role, where: str | None = None) -> Selector:
    """Select sections of a role: ``anchor``, ``context``, or ``rejected`` of preference pairs."""
    return Selector(role=r, where=where)


def position(i: int, where: str | None = None) -> Selector:
    """Select the section at a position in its record, counted from 0."""
    return Selector(position=i, where=where)


def any_section(where: str | None = None) -> Selector:
    """Select any section, but for the rejected replies of preference pairs."""
    return Selector(any_section=True, where=where)


def near_date(days: int, where: str | None = None) -> Selector:
    """Select context of the record whose date is nearest to the anchor's plus ``days``.

    It is another record of the same source and split, or one that shares ``taxonomy[0]``. Days
    may be negative. As it looks from an anchor, it is no anchor itself and not for text recipes.
    """
    return Selector(near_date=days, where=where)
