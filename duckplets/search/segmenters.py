"""Register users' functions that split texts into words, for languages without spaces."""

# A corpus stores name and version; a stored name imports nothing.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.base.registry import Registry
from duckplets.base.sanitize import shown
from duckplets.base.settings import SlashedName, check
from duckplets.errors import RecipeError

Splitter = Callable[[list[str]], Sequence[Sequence[str]]]
_SHOWN = 40  # characters of a value in a message


@dataclass(frozen=True, kw_only=True, slots=True)
class Segmenter:
    """Name a registered segmenter by name and version, as stored in a corpus.

    Attributes:
        name: The registered name.
        version: Version of the function; an index of another version is built again.
    """

    name: SlashedName
    version: SlashedName = "1"

    def __post_init__(self) -> None:
        """Check both fields."""
        check(self, RecipeError, "words")


def register_words(name: str, function: Splitter, version: int | str = 1) -> Segmenter:
    """Register a function that splits texts into words, for ``Terms(words=name)``.

    Register it in every process that builds an index, searches or mines such a corpus.

    Args:
        name: The name that the corpus stores.
        function: Takes a list of texts and returns a list of words for each text, in the same
            order. Each word must occur in its text. Words may overlap, and punctuation may be
            missing. The same text must give the same words.
        version: Change it whenever the function's results change.

    Returns:
        A value for ``Terms(words=...)``, which takes the name too.

    Raises:
        RecipeError: The name or version is wrong, or the function is not one.
    """
    segmenter = Segmenter(name=name, version=REGISTRY.version_of(version))
    REGISTRY.add(name, segmenter.version, function)
    return segmenter


def checked(words: Any) -> Any:
    """Return a segmenter for a name, which means its newest version; other values unchanged."""
    if not isinstance(words, str):
        return words
    return Segmenter(name=words, version=REGISTRY.newest(words))


def segmented(segmenter: Segmenter, texts: pa.Array) -> pa.Array:
    """Return texts with blanks between the words that a function returns."""
    function = REGISTRY.find(segmenter.name, segmenter.version)
    originals = texts.to_pylist()
    who = f"the function of words={segmenter.name!r}"
    try:
        found = function(list(originals))
    except Exception as error:
        raise RecipeError(f"{who} failed: {type(error).__name__}: {shown(error, 120)}") from error
    if not isinstance(found, list | tuple) or len(found) != len(originals):
        raise RecipeError(
            f"{who} returned {shown(repr(found), _SHOWN)} for {len(originals):,} texts: return a "
            f"list of words for each text"
        )
    for text, words in zip(originals, found, strict=True):
        is_list = isinstance(words, list | tuple)
        for word in words if is_list else [words]:
            if not is_list or not isinstance(word, str) or word not in text:
                raise RecipeError(
                    f"{who} returned {shown(repr(word), _SHOWN)} for the text "
                    f"{shown(repr(text), _SHOWN)}: return a list of words that occur in it"
                )
    return pa.array([" ".join(words) for words in found], pa.string())


REGISTRY: Registry[Splitter] = Registry(
    "words", RecipeError, "a function from a list of texts to a list of words for each"
)
