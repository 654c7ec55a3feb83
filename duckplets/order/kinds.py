"""Types of weights, factors and steps, wherever a user or a file gives some."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal, TypeAlias

from duckplets.base.checks import MAX_POSITION
from duckplets.base.settings import Bounds

Weight: TypeAlias = float | Fraction
Shares = Annotated[
    Mapping[str, Annotated[float, Bounds(0)]], "a weight for each name, as in {'web': 0.7}"
]
Epochs = Annotated[
    Mapping[str, Annotated[int, Bounds(1)]], "a number of epochs for each name, as in {'books': 3}"
]
Factor = Annotated[float, Bounds(above=0)]
Step = Annotated[int, Bounds(0, MAX_POSITION)]
Word: TypeAlias = Literal["proportional", "equal"]
