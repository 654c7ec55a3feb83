"""Clean texts before they are cut, by built-in preprocessors and users' functions.

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
    """The name and version of a registered function, as a corpus stores them.

    Attributes:
        name: The registered name.
        version: Version of the function. Text is cleaned again when it changes.
    """

    name: SlashedName
    version: SlashedName = "1"

    def __post_init__(self) -> None:
        for kind, built_in in NAMES.items():
            if self.name == built_in:
                raise ChunkingError(
                    f"preprocessor name {built_in!r} is taken: it is dp.plugins.{kind.__name__}()"
                )
        check(self, ChunkingError, "preprocessor")


AnyPreprocessor = Denoiser | Normaliser | Preprocessor


def register_preprocessor(name: str, function: Cleaner, version: int | str = 1) -> Preprocessor:
    """Register a function that cleans text, for ``Chunking(preprocessors=...)``.

    Register it in every process that ingests into such a corpus or chunks it. Drawing samples
    needs no function. A function registered later under the same name and version replaces it.

    Args:
        name: Name that the corpus stores.
        function: Gets the text of every section, and returns the clean text, or None to drop the
            section. The same text must give the same result.
        version: Change it whenever the results of the function change.

    Returns:
        A value for ``Chunking(preprocessors=...)``. The function works, too.

    Raises:
        ChunkingError: The name or the version is wrong, or ``function`` is no function.
    """
    preprocessor = Preprocessor(name=name, version=REGISTRY.version_of(version))
    REGISTRY.add(name, preprocessor.version, function)
    return preprocessor


def with_cleaners(
    others: tuple[AnyPreprocessor, ...], denoise: Any, normalise: Any
) -> tuple[AnyPreprocessor, ...]:
    """Return preprocessors with cleaners in place of others of their kind; None changes none."""
    added: list[AnyPreprocessor] = []
    if denoise is not None and denoise is not False:
        added.append(Denoiser() if denoise is True else denoise)
    if normalise is not None and normalise is not False:
        is_named = normalise in (True, "text", "code")
        added.append(Normaliser(code=normalise == "code") if is_named else normalise)
    for cleaner in added:
        if type(cleaner) not in NAMES:
            raise ChunkingError(
                f"{cleaner!r} cleans no text: give denoise=True or a Denoiser, and normalise=True, "
                f"'text', 'code' or a Normaliser"
            )
    off = {Denoiser: denoise is False, Normaliser: normalise is False}
    kinds = {type(cleaner) for cleaner in added} | {kind for kind, is_off in off.items() if is_off}
    return (*(other for other in others if type(other) not in kinds), *added)


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
    for kind, built_in in NAMES.items():
        if built_in == name:
            values = {key: value for key, value in settings.items() if key != "name"}
            return from_plain(kind, values, ChunkingError, f"preprocessor {name!r}")
    return from_plain(Preprocessor, settings, ChunkingError, f"preprocessor {name!r}")


def checked(values: Any) -> tuple[AnyPreprocessor, ...]:
    """Return preprocessors as storable values."""
    if not isinstance(values, list | tuple):
        raise ChunkingError(
            f"preprocessors={values!r}: expected a list, such as (dp.plugins.Denoiser(),), of "
            f"Denoiser, Normaliser or registered functions"
        )
    return tuple(map(_checked, values))


def _checked(value: Any) -> AnyPreprocessor:
    if isinstance(value, AnyPreprocessor):
        return value
    if value in (Denoiser, Normaliser):
        name = value.__name__
        raise ChunkingError(f"preprocessors: {name} is a class; write dp.plugins.{name}()")
    if not callable(value):
        raise ChunkingError(
            f"preprocessors: {value!r} is no preprocessor; expected dp.plugins.Denoiser(), "
            f"dp.plugins.Normaliser() or a function of dp.plugins.register_preprocessor"
        )
    if found := REGISTRY.name_of(value):
        return Preprocessor(name=found[0], version=found[1])
    name = getattr(value, "__name__", None) or type(value).__name__
    raise ChunkingError(
        f"preprocessors: the function {name} has no name that a corpus could store; first call: "
        f"dp.plugins.register_preprocessor({name!r}, {name}, version=1)"
    )
