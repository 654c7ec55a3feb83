"""Set the text analysis of a full-text index, with the names of DuckDB's create_fts_index."""

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
    r"""Turn documents and queries into terms.

    Letters become lower case, and full-width letters ASCII. Accents are stripped from Latin, Greek,
    Cyrillic, Arabic and Hebrew letters. Matches of ``ignore`` become blanks, and blanks separate
    tokens. A run of Han, kana, Thai, Lao, Khmer or Burmese letters becomes its pairs of
    neighbouring characters. Stop words are removed, and other tokens are stemmed.

    Attributes:
        stemmer: One of 27 stemmers of the Snowball project, such as ``porter``, ``english`` or
            ``german``; or ``none``. Every stemmer needs DuckDB's fts extension.
        stop_words: Tokens to remove, in any case and with any accents; or ``english``, the 571
            stop words of the fts extension.
        ignore: A regular expression (RE2) for the separators of tokens. Default: all characters
            except letters, marks and digits of any script.
        words: A segmenter that splits texts into words instead of pairs: the name of a function
            that ``register_words`` registered. Default: None.
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
            raise RecipeError("terms: ignore='': give a regular expression for separators")

    @property
    def needs_extension(self) -> bool:
        """Whether the settings need DuckDB's fts extension."""
        return self.stemmer != "none" or self.stop_words == ENGLISH

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain values; ``words`` only if set."""
        return {k: v for k, v in to_plain(self).items() if k != "words" or v is not None}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Terms:
        """Return the settings of a dict: the result of ``to_dict``, or a part of it.

        Raises:
            RecipeError: A setting is unknown or its value is wrong.
        """
        return from_plain(cls, settings, RecipeError, "terms")
