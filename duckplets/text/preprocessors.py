"""Name and find what cleans texts before they are cut: what is built in, and a user's functions.

    Denoiser, Normaliser, function ─checked→ settings of the chunking ─cleaner→ texts to texts

The decision that matters: a corpus stores the name and version of a function, never the function.
So whoever draws samples from it needs no such code; only what cleans text anew looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from duckplets.base.checks import checked_name
from duckplets.errors import ChunkingError, nearest
from duckplets.text.denoiser import NAME, Denoiser
from duckplets.text.normaliser import NORMALISER, Normaliser

__all__ = [
    "AnyPreprocessor",
    "Cleaner",
    "Preprocessor",
    "checked",
    "from_json",
    "name_of",
    "register_preprocessor",
    "registered",
]

Cleaner = Callable[[str], str | None]

_REGISTERED: dict[tuple[str, str], Cleaner] = {}  # by name and version, the newest last


_BUILT_IN: dict[str, type[Denoiser] | type[Normaliser]] = {NAME: Denoiser, NORMALISER: Normaliser}


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessor:
    """A registered function by name and version, as a corpus remembers it.

    Attributes:
        name: The name it was registered under.
        version: Of the function; text is cleaned anew when it changes.
    """

    name: str
    version: str = "1"

    def __post_init__(self) -> None:
        """Check both fields."""
        if self.name == NAME:
            raise ChunkingError(f"preprocessor name {NAME!r} is taken: that is dp.Denoiser()")
        for what, text in (("name", self.name), ("version", self.version)):
            checked_name(f"preprocessor {what} {text!r}", text, ChunkingError, slash=True)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {"name": self.name, "version": self.version}


AnyPreprocessor = Denoiser | Normaliser | Preprocessor


def register_preprocessor(name: str, function: Cleaner, version: int | str = 1) -> Preprocessor:
    """Give a function that cleans text a name, so that chunking settings can ask for it.

    Register it in every process that ingests into such a corpus or chunks it; drawing samples
    needs no function. Another function under the same name and version takes its place.

    Args:
        name: What the corpus stores.
        function: Called with the text of every section, returns the clean text, or None to drop
            the section. The same text must give the same result.
        version: Change it whenever the function's results change.

    Returns:
        What to put into ``Chunking(preprocessors=...)``; the function itself will do, too.

    Raises:
        ChunkingError: A wrong name or version, or not a function.
    """
    if not isinstance(version, int | str) or isinstance(version, bool):
        raise ChunkingError(f"preprocessor version {version!r}: expected a number or a text")
    preprocessor = Preprocessor(name=name, version=str(version))
    if not callable(function):
        raise ChunkingError(
            f"preprocessor {name!r} is {function!r}: expected a function of a text that returns "
            f"a text or None"
        )
    _REGISTERED.pop((name, preprocessor.version), None)
    _REGISTERED[name, preprocessor.version] = function
    return preprocessor


def registered(preprocessor: Preprocessor) -> Cleaner:
    """Return the function of a preprocessor.

    Raises:
        ChunkingError: It is not registered in this process.
    """
    name, version = preprocessor.name, preprocessor.version
    if function := _REGISTERED.get((name, version)):
        return function
    if versions := [other for known, other in _REGISTERED if known == name]:
        raise ChunkingError(
            f"preprocessor {name!r} is asked for in version {version!r}, and registered in "
            f"{', '.join(map(repr, versions))}: register that version, or chunk the corpus with "
            f"the other"
        )
    close = nearest(name, {known for known, _ in _REGISTERED})
    raise ChunkingError(
        f"preprocessor {name!r} is not registered{close}; before ingest or chunk call: "
        f"dp.register_preprocessor({name!r}, function, version={version!r})"
    )


def name_of(preprocessor: AnyPreprocessor) -> str:
    """Return the name that reports show."""
    if isinstance(preprocessor, Preprocessor):
        return preprocessor.name
    return NAME if isinstance(preprocessor, Denoiser) else NORMALISER


def checked(given: Any) -> tuple[AnyPreprocessor, ...]:
    """Return the preprocessors a user gave as values that a corpus can store.

    Raises:
        ChunkingError: One of them is neither built in nor a registered function.
    """
    if not isinstance(given, list | tuple):
        raise ChunkingError(
            f"preprocessors={given!r}: expected several, such as (dp.Denoiser(),), each a "
            f"Denoiser, Normaliser or a registered function"
        )
    return tuple(_checked(one) for one in given)


def from_json(settings: Any) -> AnyPreprocessor:
    """Return a preprocessor from what ``to_json`` gave, or a user put in a file.

    Raises:
        ChunkingError: It has no name, or a key or value that it cannot have.
    """
    if not isinstance(settings, Mapping) or "name" not in settings:
        raise ChunkingError(
            f"preprocessors: {settings!r} has no name; expected an object such as "
            f'{{"name": "denoiser"}} or {{"name": "…", "version": "1"}}'
        )
    built_in = _BUILT_IN.get(settings["name"])
    if "version" in settings and settings["name"] != NAME:
        built_in = None  # a user's function, which had the name before there was one of ours
    known = ["name", "version"]
    if built_in is not None:
        known = ["name", *(each.name for each in fields(built_in))]
    for key in settings:
        if key not in known:
            raise ChunkingError(
                f"unknown setting {key!r} of preprocessor {settings['name']!r}"
                f"{nearest(str(key), known)}; known: {', '.join(known)}"
            )
    if built_in is None:
        return Preprocessor(**settings)
    return built_in(**{key: value for key, value in settings.items() if key != "name"})


def _checked(given: Any) -> AnyPreprocessor:
    if isinstance(given, AnyPreprocessor):
        return given
    if given in (Denoiser, Normaliser):
        name = given.__name__
        raise ChunkingError(f"preprocessors: {name} is a class; write dp.{name}()")
    if not callable(given):
        raise ChunkingError(
            f"preprocessors: {given!r} is no preprocessor; expected dp.Denoiser(), dp.Normaliser() "
            f"or a function that dp.register_preprocessor has given a name"
        )
    for (name, version), function in reversed(_REGISTERED.items()):
        if function == given:
            return Preprocessor(name=name, version=version)
    shown = getattr(given, "__name__", None) or type(given).__name__
    raise ChunkingError(
        f"preprocessors: the function {shown} has no name that a corpus could store; first call: "
        f"dp.register_preprocessor({shown!r}, {shown}, version=1)"
    )
