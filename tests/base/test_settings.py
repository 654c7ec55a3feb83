"""Settings that are declared: what fits comes out uniform, what does not is named with the way."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from duckplets.base.settings import (
    Bounds,
    Name,
    check,
)
from duckplets.errors import ChunkingError

Share = Annotated[float, Bounds(0)]


@dataclass(frozen=True, slots=True)
class Inner:
    days: int = 0
    word: Literal["left", "right"] = "left"

    def __post_init__(self) -> None:
        check(self, ChunkingError, "inner")

    @classmethod
    def from_text(cls, text: str) -> Inner:
        return cls(int(text))


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    name: Annotated[str, Name(9)] = field(kw_only=False)
    size: Annotated[int, Bounds(1, 10)] = 5
    rate: Annotated[float, Bounds(above=0)] | None = None
    sizes: tuple[Annotated[int, Bounds(0)], ...] = (1,)
    shares: Literal["equal"] | Annotated[Mapping[str, Share], "a share for each name"] = "equal"
    inner: Inner | tuple[Inner, ...] = Inner()
    flag: bool = False
    path: Path | None = None
    made: str = field(default="", init=False)

    def __post_init__(self) -> None:
        check(self, ChunkingError, f"outer {self.name!r}")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"size": 0}, "size=0: give an integer from 1 to 10"),
    ({"size": True}, "size=True: give an integer from 1"),
    ({"size": 1.0}, "size=1.0: give an integer from 1"),
    ({"size": 1 << 9999}, "size=(a number of 10000 bits): give"),
    ({"rate": 0}, "rate=0: give a finite number above 0 or None"),
    ({"rate": float("nan")}, "rate=nan: give a finite number above 0"),
    ({"rate": 10**400}, "bits): give a finite number above 0"),
    ({"rate": "1"}, "rate='1': give a finite number"),
    ({"sizes": 3}, "sizes=3: give a list of integers"),
    ({"sizes": [1, -1]}, "sizes[1]=-1: give an integer from 0"),
    (
        {"shares": "eqal"},
        "shares='eqal': give 'equal' or a share for each name (did you mean 'equa",
    ),
    ({"shares": {"a": -1}}, "shares['a']=-1: give a finite number from 0"),
    ({"shares": {3: 1}}, "shares[3]=3: give text"),
    ({"inner": "1"}, "inner='1': give Inner(…) or a list of Inner(…)"),
    ({"flag": 1}, "flag=1: give True or False"),
    ({"path": 3}, "path=3: give a path or None"),
    ({"name": "a/b"}, "name='a/b': give up to 9 printable characters without '/', not only blanks"),
    ({"name": "\ud800"}, "name='\\ud800': give up to 9"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_what_does_not_fit_is_named_with_what_would(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ChunkingError) as caught:
        Outer(**{"name": "a", **given})
    assert message in str(caught.value)
    assert str(caught.value).startswith("outer ")


def test_what_fits_comes_out_uniform() -> None:
    odd: Any = {"size": np.int64(3), "rate": Fraction(1, 4), "sizes": [1, 2], "path": "a"}
    made = Outer("a", shares={"x": np.float32(2), "y": -0.0}, inner=[Inner()], **odd)  # type: ignore[arg-type]
    assert (type(made.size), type(made.rate), made.rate) == (int, float, 0.25)
    assert (made.sizes, made.path, made.inner) == ((1, 2), Path("a"), (Inner(),))
    assert made.shares == {"x": 2.0, "y": 0.0}
    assert "-0.0" not in repr(made.shares)
    assert hash(made) == hash(copy.deepcopy(made)) == hash(pickle.loads(pickle.dumps(made)))
    with pytest.raises(TypeError, match="item assignment"):
        made.shares["x"] = 3  # type: ignore[index]
