"""Register what judges texts by code of the user's own: gates, and detectors of language.

    name, function, version ─register→ looked up by settings that name it ─call→ checked values

Settings store the name and the version, never the function. So what was
decided says by which version, and another version counts as something else that is to be measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from duckplets.base.checks import checked_name
from duckplets.base.sanitize import shown
from duckplets.errors import DuckpletsError, QualityError, nearest

__all__ = [
    "Detector",
    "Gate",
    "detected",
    "detector",
    "gate",
    "judged",
    "names",
    "register_all",
    "register_detector",
    "register_gate",
]

_CODE = 40  # characters of a language code


class Gate(NamedTuple):
    """A registered function that looks at texts."""

    name: str
    function: Callable[[list[str]], Sequence[bool | float]]
    version: str


class Detector(NamedTuple):
    """A registered function that names the language of texts."""

    name: str
    function: Callable[[list[str]], Sequence[tuple[str, float]]]
    version: str
    languages: frozenset[str]


_GATES: dict[str, Gate] = {}
_DETECTORS: dict[str, Detector] = {}


def register_gate(
    name: str, function: Callable[[list[str]], Sequence[bool | float]], version: str = "1"
) -> str:
    """Give a function that judges texts a name, so that ``Quality(gates=...)`` can ask for it.

    Register it in every process that ingests by such settings. Another function under the same
    name takes its place.

    Args:
        name: What settings and stored metrics call it: a lower-case identifier that is no metric.
        function: Called with a list of texts; returns as many values, in the same order. The same
            text must give the same value whatever stands beside it. Named by itself among the
            gates it returns bools, of which True lets a text pass; numbers are compared by a
            condition, as in ``gates=("toxicity < 0.5",)``.
        version: Change it whenever the function's values change.

    Returns:
        The name.

    Raises:
        QualityError: A wrong name or version, or not a function.
    """
    _check("gate", name, function, version)
    if not name.isidentifier() or name != name.lower():
        raise QualityError(
            f"gate name {name!r}: expected a lower-case identifier, as in 'toxicity'"
        )
    _GATES[name] = Gate(name, function, version)
    return name


def register_detector(
    name: str,
    function: Callable[[list[str]], Sequence[tuple[str, float]]],
    version: str = "1",
    *,
    languages: Collection[str],
) -> str:
    """Give a function that names languages a name, for ``Quality(detector=...)``.

    Args:
        name: What settings call it.
        function: Called with a list of texts; returns for each a language code and a probability
            from 0 to 1, in the same order.
        version: Change it whenever the function's results change.
        languages: All codes that it may return, such as ``{"en", "de"}``.

    Returns:
        The name.

    Raises:
        QualityError: A wrong name, version or code, or not a function.
    """
    _check("detector", name, function, version)
    codes = frozenset([languages] if isinstance(languages, str) else languages)
    for code in codes or {""}:
        checked_name(f"detector {name!r}: language {code!r}", code, QualityError, longest=_CODE)
    _DETECTORS[name] = Detector(name, function, version, codes)
    return name


def _check(what: str, name: str, function: Any, version: str) -> None:
    for part, text in (("name", name), ("version", version)):
        checked_name(f"{what} {part} {text!r}", text, QualityError)
    if not callable(function):
        raise QualityError(
            f"{what} {name!r} is {function!r}: expected a function of a list of texts"
        )


def names() -> tuple[str, ...]:
    """Return the names of all gates."""
    return tuple(_GATES)


def register_all(registered: Iterable[Gate | Detector]) -> None:
    """Register what another process had registered."""
    for each in registered:
        if isinstance(each, Gate):
            _GATES[each.name] = each
        else:
            _DETECTORS[each.name] = each


def gate(name: str) -> Gate:
    """Return a registered gate.

    Raises:
        QualityError: There is none of that name.
    """
    if name in _GATES:
        return _GATES[name]
    raise QualityError(
        f"gate {name!r} is not registered{nearest(name, _GATES)}; before that call "
        f"dp.register_gate({name!r}, function, version='1')"
    )


def detector(name: str) -> Detector:
    """Return a registered detector of language.

    Raises:
        QualityError: There is none of that name.
    """
    if name in _DETECTORS:
        return _DETECTORS[name]
    known = ["py3langid", *_DETECTORS]
    raise QualityError(
        f"detector={name!r} is not registered{nearest(name, known)}; known: {', '.join(known)}; "
        f"before that call dp.register_detector({name!r}, function, version='1', languages=...)"
    )


def judged(name: str, texts: list[str], *, alone: bool) -> list[float]:
    """Call a gate and return its values as numbers, True as 1.

    Named by itself (``alone``) it has to return bools.

    Raises:
        QualityError: It raised an error, or returned something else than a value a text.
    """
    values = _call("gate", name, gate(name).function, texts)
    kinds = (bool, np.bool_) if alone else (bool, np.bool_, int, float, np.integer, np.floating)
    for value in values:
        if not isinstance(value, kinds) or not math.isfinite(float(cast("Any", value))):
            advice = "bools or finite numbers"
            if alone:
                advice = f"bools, or compare it in a condition such as '{name} < 0.5'"
            raise QualityError(f"gate {name!r} returned {shown(repr(value))}: expected {advice}")
    return [float(value) for value in values]


def detected(found: Detector, texts: list[str]) -> list[tuple[str, float]]:
    """Call a detector and return language codes and probabilities.

    Raises:
        QualityError: It raised an error, or returned something else.
    """
    pairs = _call("detector", found.name, found.function, texts)
    for pair in pairs:
        fits = isinstance(pair, tuple | list) and len(pair) == 2 and pair[0] in found.languages
        if not fits or not isinstance(pair[1], int | float | np.floating) or not 0 <= pair[1] <= 1:
            raise QualityError(
                f"detector {found.name!r} returned {shown(repr(pair))}: expected a pair of one of "
                f"its languages and a probability from 0 to 1"
            )
    return [(code, float(share)) for code, share in pairs]


def _call(what: str, name: str, function: Callable[..., Any], texts: list[str]) -> list[Any]:
    try:
        values = list(function(list(texts)))
    except DuckpletsError:
        raise
    except Exception as error:
        raise QualityError(
            f"{what} {name!r} failed on {len(texts):,} texts: {type(error).__name__}: {error}; "
            f"nothing of them was stored"
        ) from error
    if len(values) != len(texts):
        raise QualityError(
            f"{what} {name!r} returned {len(values):,} values for {len(texts):,} texts: expected "
            f"one for each"
        )
    return values
