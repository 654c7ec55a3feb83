"""Settings that are declared: what fits comes out uniform, what does not is named with the way."""

from __future__ import annotations

import copy
import json
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
    bounds_of,
    check,
    checked,
    from_plain,
    kinds_of,
    to_plain,
)
from duckplets.errors import ChunkingError, SamplerError

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


PLAIN: list[tuple[dict[str, Any], Outer]] = [
    ({"name": "a"}, Outer("a")),
    ({"name": "a", "rate": False}, Outer("a")),
    ({"name": "a", "inner": {"days": 3}}, Outer("a", inner=Inner(3))),
    ({"name": "a", "inner": "3"}, Outer("a", inner=Inner(3))),
    (
        {"name": "a", "inner": ["3", {"word": "right"}]},
        Outer("a", inner=(Inner(3), Inner(0, "right"))),
    ),
    ({"name": "a", "shares": {"x": 1}, "path": "p"}, Outer("a", shares={"x": 1.0}, path=Path("p"))),
]


@pytest.mark.parametrize(("plain", "made"), PLAIN)
def test_plain_values_go_in_and_out(plain: dict[str, Any], made: Outer) -> None:
    assert from_plain(Outer, plain, ChunkingError) == made
    for defaults in (True, False):
        out = json.loads(json.dumps(to_plain(made, defaults=defaults)))
        assert from_plain(Outer, out, ChunkingError) == made
    assert to_plain(Outer("a"), defaults=False) == {"name": "a"}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (3, "^it: give a table of name, size, .*, not 3"),
        ({}, "^it: name is missing"),
        ({"name": "a", "sise": 3}, r"unknown key 'sise' \(did you mean 'size'\?\); keys: n"),
        ({"name": "a", "made": "x"}, "unknown key 'made'"),
        ({"name": "a", "inner": {"day": 3}}, r"^it: inner: unknown key 'day' \(did you mean"),
        ({"name": "a", "inner": [{"days": "x"}]}, r"^it: inner\[0\]: inner: days='x': give an i"),
        ({"name": "a", "size": "3"}, "^outer 'a': size='3': give an integer"),
    ],
)
def test_plain_values_that_are_none_are_refused(plain: Any, message: str) -> None:
    with pytest.raises(ChunkingError, match=message):
        from_plain(Outer, plain, ChunkingError, "it")


def test_kinds_are_for_single_arguments_and_options_too() -> None:
    assert checked("k", np.int8(3), Annotated[int, Bounds(1)], SamplerError) == 3
    with pytest.raises(SamplerError, match=r"^a: k=0: give an integer from 1$"):
        checked("k", 0, Annotated[int, Bounds(1)], SamplerError, "a")
    kinds = kinds_of(Outer)
    assert (bounds_of(kinds["rate"]), bounds_of(kinds["flag"])) == (Bounds(above=0), Bounds())
