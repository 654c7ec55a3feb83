"""Preprocessors, which clean texts before they are cut: built-in ones and users' functions.

Denoiser, Normaliser, function ─checked→ settings of the chunking ─REGISTRY→ texts to texts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from duckplets.base.registry import Registry
from duckplets.base.settings import SlashedName, check, from_plain, to_plain
from duckplets.errors import ChunkingError
from duckplets.text.denoiser import Denoiser
from duckplets.text.normaliser import Normaliser

Cleaner = Callable[[str], str | None]

NAMES: dict[type[Denoiser] | type[Normaliser], str] = {
    Denoiser: "denoiser",
    Normaliser: "normaliser",
}
REGISTRY: Registry[Cleaner] = Registry(
    "preprocessor", ChunkingError, "a function of a text that returns a text or None"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessor:
    """A registered function by name and version, as a corpus remembers it.

    Attributes:
        name: The name it was registered under.
        version: Of the function; text is cleaned anew when it changes.
    """

    name: SlashedName
    version: SlashedName = "1"

    def __post_init__(self) -> None:
        """Check both fields."""
        for made, built_in in NAMES.items():
            if self.name == built_in:
                raise ChunkingError(
                    f"preprocessor name {built_in!r} is taken: that is dp.plugins.{made.__name__}()"
                )
        check(self, ChunkingError, "preprocessor")


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
    preprocessor = Preprocessor(name=name, version=REGISTRY.version_of(version))
    REGISTRY.add(name, preprocessor.version, function)
    return preprocessor


def with_cleaners(
    given: tuple[AnyPreprocessor, ...], denoise: Any, normalise: Any
) -> tuple[AnyPreprocessor, ...]:
    """Return preprocessors with a denoiser or a normaliser in place of another of its kind."""
    made: list[AnyPreprocessor] = []
    if denoise is not False:
        made.append(Denoiser() if denoise is True else denoise)
    if normalise is not False:
        is_named = normalise in (True, "text", "code")
        made.append(Normaliser(code=normalise == "code") if is_named else normalise)
    for one in made:
        if type(one) not in NAMES:
            raise ChunkingError(
                f"{one!r} cleans no text: give denoise=True or a Denoiser, and normalise=True, "
                f"'text', 'code' or a Normaliser"
            )
    kinds = {type(one) for one in made}
    return (*(one for one in given if type(one) not in kinds), *made)


def name_of(preprocessor: AnyPreprocessor) -> str:
    """Return the name of a preprocessor in reports."""
    return str(to_json(preprocessor)["name"])


def to_json(preprocessor: AnyPreprocessor) -> dict[str, Any]:
    """Return a preprocessor as JSON values with its name."""
    if isinstance(preprocessor, Preprocessor):
        return dict(to_plain(preprocessor))
    name = NAMES[type(preprocessor)]
    return {"name": name} | {f.name: getattr(preprocessor, f.name) for f in fields(preprocessor)}


def from_json(settings: Any) -> AnyPreprocessor:
    """Return a preprocessor from JSON values."""
    if not isinstance(settings, Mapping) or "name" not in settings:
        raise ChunkingError(
            f"preprocessors: {settings!r} has no name; expected an object such as "
            f'{{"name": "denoiser"}} or {{"name": "…", "version": "1"}}'
        )
    name = settings["name"]
    for made, built_in in NAMES.items():
        if built_in == name:
            own = {key: value for key, value in settings.items() if key != "name"}
            return from_plain(made, own, ChunkingError, f"preprocessor {name!r}")
    return from_plain(Preprocessor, settings, ChunkingError, f"preprocessor {name!r}")


def checked(given: Any) -> tuple[AnyPreprocessor, ...]:
    """Return preprocessors as storable values."""
    if not isinstance(given, list | tuple):
        raise ChunkingError(
            f"preprocessors={given!r}: expected several, such as (dp.plugins.Denoiser(),), each a "
            f"Denoiser, Normaliser or a registered function"
        )
    return tuple(_checked(one) for one in given)


def _checked(given: Any) -> AnyPreprocessor:
    if isinstance(given, AnyPreprocessor):
        return given
    if given in (Denoiser, Normaliser):
        name = given.__name__
        raise ChunkingError(f"preprocessors: {name} is a class; write dp.plugins.{name}()")
    if not callable(given):
        raise ChunkingError(
            f"preprocessors: {given!r} is no preprocessor; expected dp.plugins.Denoiser(), "
            f"dp.plugins.Normaliser() or a function of dp.plugins.register_preprocessor"
        )
    if place := REGISTRY.name_of(given):
        return Preprocessor(name=place[0], version=place[1])
    called = getattr(given, "__name__", None) or type(given).__name__
    raise ChunkingError(
        f"preprocessors: the function {called} has no name that a corpus could store; first call: "
        f"dp.plugins.register_preprocessor({called!r}, {called}, version=1)"
    )
