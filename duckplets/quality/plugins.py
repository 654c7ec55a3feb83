"""Register users' gates and language detectors."""

# Settings store name and version. Another version is another measurement.

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from duckplets.base.registry import Registry
from duckplets.base.sanitize import shown
from duckplets.base.settings import Name, Named, checked
from duckplets.errors import DuckpletsError, QualityError

_CODE = 40  # longest language code


class Gate(NamedTuple):
    """A registered function that judges texts."""

    name: str
    function: Callable[[list[str]], Sequence[bool | float]]
    version: str


class Detector(NamedTuple):
    """A registered function that identifies languages."""

    name: str
    function: Callable[[list[str]], Sequence[tuple[str, float]]]
    version: str
    languages: frozenset[str]


_WANTED = "a function of a list of texts"
GATES: Registry[Any] = Registry("gate", QualityError, _WANTED)
DETECTORS: Registry[Any] = Registry("detector", QualityError, _WANTED)
_LANGUAGES: dict[str, frozenset[str]] = {}  # codes it may return


def register_gate(
    name: str, function: Callable[[list[str]], Sequence[bool | float]], version: str = "1"
) -> str:
    """Register a function that judges texts, for ``Quality(gates=...)``.

    Register it in every process that ingests with such settings. A function registered later under
    the same name replaces it.

    Args:
        name: Name in settings and stored metrics: a lower-case identifier that is no metric.
        function: Gets a list of texts, and returns one value for each, in the same order. The value
            of a text must not depend on the other texts. A gate given by its name alone returns
            bools, and True lets a text pass. A condition such as ``gates=("toxicity < 0.5",)``
            compares numbers.
        version: Change it whenever the values of the function change.

    Returns:
        The name.

    Raises:
        QualityError: The name or the version is wrong, or ``function`` is no function.
    """
    _check("gate", name, version)
    if not name.isidentifier() or name != name.lower():
        raise QualityError(
            f"gate name {name!r}: expected a lower-case identifier, as in 'toxicity'"
        )
    GATES.add(name, version, function)
    return name


def register_detector(
    name: str,
    function: Callable[[list[str]], Sequence[tuple[str, float]]],
    version: str = "1",
    *,
    languages: Collection[str],
) -> str:
    """Register a function that identifies languages, for ``Quality(detector=...)``.

    Args:
        name: Name in settings.
        function: Gets a list of texts, and returns a language code and a probability from 0 to 1
            for each, in the same order.
        version: Change it whenever the results of the function change.
        languages: All codes that it may return, such as ``{"en", "de"}``.

    Returns:
        The name.

    Raises:
        QualityError: The name, the version or a code is wrong, or ``function`` is no function.
    """
    _check("detector", name, version)
    codes = frozenset([languages] if isinstance(languages, str) else languages)
    for code in codes or {""}:
        checked("language", code, Annotated[str, Name(_CODE)], QualityError, f"detector {name!r}")
    DETECTORS.add(name, version, function)
    _LANGUAGES[name] = codes
    return name


def _check(kind: str, name: str, version: str) -> None:
    for part, text in (("name", name), ("version", version)):
        checked(part, text, Named, QualityError, kind)


def register_all(registered: Iterable[Gate | Detector]) -> None:
    """Register the functions that another process had registered."""
    for plugin in registered:
        if isinstance(plugin, Gate):
            GATES.add(plugin.name, plugin.version, plugin.function)
        else:
            DETECTORS.add(plugin.name, plugin.version, plugin.function)
            _LANGUAGES[plugin.name] = plugin.languages


def gate(name: str) -> Gate:
    """Return the gate last registered under a name."""
    version = GATES.newest(name)
    return Gate(name, GATES.find(name, version), version)


def detector(name: str) -> Detector:
    """Return the detector last registered under a name."""
    version = DETECTORS.newest(name)
    return Detector(name, DETECTORS.find(name, version), version, _LANGUAGES[name])


def judged(name: str, texts: list[str], *, only_bools: bool) -> list[float]:
    """Call a gate and return its values as numbers; refuse other values."""
    values = _call("gate", name, gate(name).function, texts)
    bools = (bool, np.bool_)
    kinds = bools if only_bools else (*bools, int, float, np.integer, np.floating)
    for value in values:
        if not isinstance(value, kinds) or not math.isfinite(float(cast("Any", value))):
            advice = "bools or finite numbers"
            if only_bools:
                advice = f"bools, or compare it in a condition such as '{name} < 0.5'"
            raise QualityError(f"gate {name!r} returned {shown(repr(value))}: expected {advice}")
    return [float(value) for value in values]


def detected(found: Detector, texts: list[str]) -> list[tuple[str, float]]:
    """Call a detector and return codes and probabilities."""
    pairs = _call("detector", found.name, found.function, texts)
    for pair in pairs:
        fits = isinstance(pair, tuple | list) and len(pair) == 2 and pair[0] in found.languages
        if not fits or not isinstance(pair[1], int | float | np.floating) or not 0 <= pair[1] <= 1:
            raise QualityError(
                f"detector {found.name!r} returned {shown(repr(pair))}: expected a pair of one of "
                f"its languages and a probability from 0 to 1"
            )
    return [(code, float(share)) for code, share in pairs]


def _call(kind: str, name: str, function: Callable[..., Any], texts: list[str]) -> list[Any]:
    try:
        values = list(function(list(texts)))
    except DuckpletsError:
        raise
    except Exception as error:
        raise QualityError(
            f"{kind} {name!r} failed on {len(texts):,} texts: {type(error).__name__}: {error}; "
            f"these texts were not stored"
        ) from error
    if len(values) != len(texts):
        raise QualityError(
            f"{kind} {name!r} returned {len(values):,} values for {len(texts):,} texts: expected "
            f"one for each"
        )
    return values
