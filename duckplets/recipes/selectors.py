"""Select the sections that may stand in a slot of a recipe: by role, position or date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from duckplets.errors import RecipeError, nearest
from duckplets.recipes.conditions import where_condition

Role = Literal["anchor", "context", "rejected"]
SelectorKind = Literal["role", "position", "any_section", "near_date"]

ARGUMENTS = {"role": "role", "position": "index", "near_date": "days"}
_MOST = 4_000_000  # sections or days (11,000 years): a date plus so many is still one to DuckDB


@dataclass(frozen=True, slots=True)
class Selector:
    """Which sections may stand in a slot; made by the four functions below.

    Attributes:
        kind: ``role``, ``position``, ``any_section`` or ``near_date``.
        role: The role of the section, for ``role``.
        index: The position of the section in its record, from 0, for ``position``.
        days: Days from the anchor's date to the one looked for, for ``near_date``.
        where: SQL condition over columns of records, sections and chunks, or None.
    """

    kind: SelectorKind
    role: Role | None = None
    index: int | None = None
    days: int | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        check_choice("selector kind", self.kind, get_args(SelectorKind))
        if self.kind == "role":
            check_choice("selector role", self.role, get_args(Role))
        if self.kind == "position" and not _is_integer(self.index, least=0):
            raise RecipeError(f"selector position must be 0, 1, 2, …, not {self.index!r}")
        if self.kind == "near_date" and not _is_integer(self.days, least=-_MOST):
            raise RecipeError(f"selector near_date must be a number of days, not {self.days!r}")
        for argument in ARGUMENTS.values():
            value = getattr(self, argument)
            if value is not None and argument != ARGUMENTS.get(self.kind):
                raise RecipeError(f"selector {self.kind} takes no {argument}, but got {value!r}")
        if self.where is not None:
            where_condition(self.where)


def role(r: Role, where: str | None = None) -> Selector:
    """Select sections of a role: ``anchor``, ``context``, or ``rejected`` of preference pairs."""
    return Selector("role", role=r, where=where)


def position(i: int, where: str | None = None) -> Selector:
    """Select the section at a position in its record, counted from 0."""
    return Selector("position", index=i, where=where)


def any_section(where: str | None = None) -> Selector:
    """Select any section, but for the rejected replies of preference pairs."""
    return Selector("any_section", where=where)


def near_date(days: int, where: str | None = None) -> Selector:
    """Select context of the record whose date is nearest to the anchor's plus ``days``.

    It is another record of the same source and split, or one that shares ``taxonomy[0]``. Days
    may be negative. As it looks from an anchor, it is no anchor itself and not for text recipes.
    """
    return Selector("near_date", days=days, where=where)


def check_choice(what: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is none of some choices.

    Raises:
        RecipeError: It is not.
    """
    if value not in choices:
        hint = nearest(value, choices) if isinstance(value, str) else ""
        names = ", ".join(map(repr, choices))
        raise RecipeError(f"{what} must be one of {names}, not {value!r}{hint}")


def _is_integer(value: Any, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MOST
