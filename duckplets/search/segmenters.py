"""Segmenters: users' functions that split texts into words, for languages without spaces."""

# A corpus stores name and version; nothing is imported by a stored name.

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
    """A registered segmenter by name and version, as a corpus remembers it.

    Attributes:
        name: The name it was registered under.
        version: Of the function; an index of another version is built again.
    """

    name: SlashedName
    version: SlashedName = "1"

    def __post_init__(self) -> None:
        """Check both fields."""
        check(self, RecipeError, "words")


def register_words(name: str, function: Splitter, version: int | str = 1) -> Segmenter:
    """Give a function that splits texts into words a name, for ``Terms(words=name)``.

    Register it in every process that builds an index, searches or mines such a corpus.

    Args:
        name: What the corpus stores.
        function: Called with a list of texts. It returns a list of words for each text, in the
            same order. Words stand in the text as they are; they may overlap, and punctuation
            may be left out. The same text must give the same words.
        version: Change it whenever the function's results change.

    Returns:
        A value for ``Terms(words=...)``, which takes the name too.

    Raises:
        RecipeError: A wrong name or version, or not a function.
    """
    segmenter = Segmenter(name=name, version=REGISTRY.version_of(version))
    REGISTRY.add(name, segmenter.version, function)
    return segmenter


def checked(given: Any) -> Any:
    """Return a segmenter named by a user or stored in a corpus; a name means its newest version."""
    if not isinstance(given, str):
        return given
    return Segmenter(name=given, version=REGISTRY.newest(given))


def segmented(segmenter: Segmenter, texts: pa.Array) -> pa.Array:
    """Return texts with blanks between the words that a function returns."""
    function = REGISTRY.find(segmenter.name, segmenter.version)
    asked = texts.to_pylist()
    who = f"the function of words={segmenter.name!r}"
    try:
        found = function(list(asked))
    except Exception as error:
        raise RecipeError(f"{who} failed: {type(error).__name__}: {shown(error, 120)}") from error
    if not isinstance(found, list | tuple) or len(found) != len(asked):
        raise RecipeError(
            f"{who} returned {shown(repr(found), _SHOWN)} for {len(asked):,} texts: return a list "
            f"of words for each text"
        )
    for text, words in zip(asked, found, strict=True):
        is_list = isinstance(words, list | tuple)
        for word in words if is_list else [words]:
            if not is_list or not isinstance(word, str) or word not in text:
                raise RecipeError(
                    f"{who} returned {shown(repr(word), _SHOWN)} for the text "
                    f"{shown(repr(text), _SHOWN)}: return a list of words as they stand in it"
                )
    return pa.array([" ".join(words) for words in found], pa.string())


REGISTRY: Registry[Splitter] = Registry(
    "words", RecipeError, "a function from a list of texts to a list of words for each"
)
