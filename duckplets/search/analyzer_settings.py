"""Set how text becomes terms of a full-text index, named as in DuckDB's create_fts_index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from duckplets.base.settings import check, from_plain, to_plain
from duckplets.errors import RecipeError

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

    Accents are stripped, letters become small, what matches ``ignore`` becomes a blank; the
    tokens are what stands between blanks. Stop words are left out, the others stemmed.

    Attributes:
        stemmer: One of 27 of the Snowball project, such as ``porter``, ``english`` or ``german``;
            or ``none``. All but ``none`` need DuckDB's fts extension.
        stop_words: Tokens to leave out, in any case and with any accents; or ``english``, the
            571 of the fts extension.
        ignore: A regular expression (RE2) for what separates tokens; by default whatever is
            neither a letter nor a digit, of any script.
    """

    stemmer: Stemmer = "porter"
    stop_words: Literal["english"] | Sequence[str] = ()
    ignore: str = LETTERS_AND_DIGITS

    def __post_init__(self) -> None:
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
        """Return all settings as plain values."""
        return dict(to_plain(self))

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Terms:
        """Return the settings of a dict: what ``to_dict`` made, or some of it.

        Raises:
            RecipeError: A setting is unknown or its value is wrong.
        """
        return from_plain(cls, settings, RecipeError, "terms")
