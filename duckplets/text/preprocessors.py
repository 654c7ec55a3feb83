"""Name and find what cleans texts before they are cut: the denoiser, and a user's functions.

    Denoiser, function, Preprocessor ─checked→ settings of the chunking ─cleaner→ texts to texts

The decision that matters: a corpus stores the name and version of a function, never the function.
So whoever draws samples from it needs no such code; only what cleans text anew looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from duckplets.base.checks import checked_name
from duckplets.errors import ChunkingError, nearest
from duckplets.text.denoiser import NAME, Denoiser

__all__ = [
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


def register_preprocessor(name: str, function: Cleaner, version: str = "1") -> Preprocessor:
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
    preprocessor = Preprocessor(name=name, version=version)
    if not callable(function):
        raise ChunkingError(
            f"preprocessor {name!r} is {function!r}: expected a function of a text that returns "
            f"a text or None"
        )
    _REGISTERED.pop((name, version), None)
    _REGISTERED[name, version] = function
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


def name_of(preprocessor: Denoiser | Preprocessor) -> str:
    """Return the name that reports show."""
    return NAME if isinstance(preprocessor, Denoiser) else preprocessor.name


def checked(given: Any) -> tuple[Denoiser | Preprocessor, ...]:
    """Return the preprocessors a user gave as values that a corpus can store.

    Raises:
        ChunkingError: One of them is neither a denoiser nor a registered function.
    """
    if not isinstance(given, list | tuple):
        raise ChunkingError(
            f"preprocessors={given!r}: expected several, such as (dp.Denoiser(),), each a "
            f"Denoiser or a registered function"
        )
    return tuple(_checked(one) for one in given)


def from_json(settings: Any) -> Denoiser | Preprocessor:
    """Return a preprocessor from what ``to_json`` gave, or a user put in a file.

    Raises:
        ChunkingError: It has no name, or a key or value that it cannot have.
    """
    if not isinstance(settings, Mapping) or "name" not in settings:
        raise ChunkingError(
            f"preprocessors: {settings!r} has no name; expected an object such as "
            f'{{"name": "denoiser"}} or {{"name": "…", "version": "1"}}'
        )
    known = ["name", "max_digit_ratio", "strip_markdown"]
    if settings["name"] != NAME:
        known = ["name", "version"]
    for key in settings:
        if key not in known:
            raise ChunkingError(
                f"unknown setting {key!r} of preprocessor {settings['name']!r}"
                f"{nearest(str(key), known)}; known: {', '.join(known)}"
            )
    if settings["name"] != NAME:
        return Preprocessor(**settings)
    return Denoiser(**{key: settings[key] for key in known[1:] if key in settings})


def _checked(given: Any) -> Denoiser | Preprocessor:
    if isinstance(given, Denoiser | Preprocessor):
        return given
    if given is Denoiser:
        raise ChunkingError("preprocessors: Denoiser is a class; write dp.Denoiser()")
    if not callable(given):
        raise ChunkingError(
            f"preprocessors: {given!r} is no preprocessor; expected dp.Denoiser() or a function "
            f"that dp.register_preprocessor has given a name"
        )
    for (name, version), function in reversed(_REGISTERED.items()):
        if function == given:
            return Preprocessor(name=name, version=version)
    shown = getattr(given, "__name__", None) or type(given).__name__
    raise ChunkingError(
        f"preprocessors: the function {shown} has no name that a corpus could store; first call: "
        f"dp.register_preprocessor({shown!r}, {shown}, version='1')"
    )
