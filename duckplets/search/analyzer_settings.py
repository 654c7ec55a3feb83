"""Set how text becomes terms of a full-text index, named as in DuckDB's create_fts_index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from duckplets.base.settings import check, from_plain, to_plain
from duckplets.errors import RecipeError
from duckplets.search.segmenters import Segmenter, checked

__all__ = ["STEMMERS", "Terms"]

# fmt: off
Stemmer = Literal[
    "arabic", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali",
    "norwegian", "porter", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish",
    "tamil", "turkish", "none",
]
# fmt: on
STEMMERS = get_args(Stemmer)
ENGLISH = "english"
LETTERS_AND_DIGITS = r"[^\p{L}\p{N}\p{M}]+"


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    r"""How text becomes terms, of documents and of what is searched for.

    Letters become small and full-width ones ASCII. Accents are stripped from Latin, Greek,
    Cyrillic, Arabic and Hebrew letters. What matches ``ignore`` becomes a blank, and tokens stand
    between blanks. A run of Han, kana, Thai, Lao, Khmer or Burmese letters becomes its pairs of
    neighbouring characters. Stop words are left out, the others stemmed.

    Attributes:
        stemmer: One of 27 of the Snowball project, such as ``porter``, ``english`` or ``german``;
            or ``none``. All but ``none`` need DuckDB's fts extension.
        stop_words: Tokens to leave out, in any case and with any accents; or ``english``, the
            571 of the fts extension.
        ignore: A regular expression (RE2) for what separates tokens; by default whatever is
            neither a letter, a mark nor a digit, of any script.
        words: A segmenter that splits texts into words instead of pairs: a name that
            ``register_words`` has given a function. Default: None.
    """

    stemmer: Stemmer = "porter"
    stop_words: Literal["english"] | Sequence[str] = ()
    ignore: str = LETTERS_AND_DIGITS
    words: str | Segmenter | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", checked(self.words))
        check(self, RecipeError, "terms")
        if self.stop_words != ENGLISH:  # their order means nothing
            words = sorted({word.strip() for word in self.stop_words} - {""})
            object.__setattr__(self, "stop_words", tuple(words))
        if not self.ignore:
            raise RecipeError("terms: ignore='': give a regular expression for what is no token")

    @property
    def needs_extension(self) -> bool:
        """Whether DuckDB's fts extension is needed."""
        return self.stemmer != "none" or self.stop_words == ENGLISH

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain values; ``words`` only if set."""
        return {k: v for k, v in to_plain(self).items() if k != "words" or v is not None}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Terms:
        """Return the settings of a dict: what ``to_dict`` made, or some of it.

        Raises:
            RecipeError: A setting is unknown or its value is wrong.
        """
        return from_plain(cls, settings, RecipeError, "terms")
