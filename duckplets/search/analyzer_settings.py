"""Set how text becomes terms of a full-text index, named as in DuckDB's create_fts_index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from duckplets.errors import RecipeError, nearest

__all__ = ["STEMMERS", "Terms"]

STEMMERS = (
    *("arabic", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german"),
    *("greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali"),
    *("norwegian", "porter", "portuguese", "romanian", "russian", "serbian", "spanish"),
    *("swedish", "tamil", "turkish", "none"),
)
ENGLISH = "english"
LETTERS_AND_DIGITS = r"[^\p{L}\p{N}]+"


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    r"""How text becomes terms, of documents and of what is searched for.

    Accents are stripped, letters become small, what matches ``ignore`` becomes a blank; the
    tokens are what stands between blanks. Stop words are left out, the others stemmed.

    Attributes:
        stemmer: One of 27 of the Snowball project, such as ``porter``, ``english`` or ``german``;
            or ``none``. All but ``none`` need DuckDB's fts extension.
        stop_words: Tokens to leave out, treated for case and accents as the text is; or
            ``english``, the 571 of the fts extension.
        ignore: A regular expression (RE2) for what separates tokens; by default whatever is
            neither a letter nor a digit, of any script.
        strip_accents: Whether é becomes e.
        lower: Whether E becomes e.
    """

    stemmer: str = "porter"
    stop_words: str | Sequence[str] = ()
    ignore: str = LETTERS_AND_DIGITS
    strip_accents: bool = True
    lower: bool = True

    def __post_init__(self) -> None:
        if self.stemmer not in STEMMERS:
            raise RecipeError(
                f"stemmer={self.stemmer!r}{nearest(str(self.stemmer), STEMMERS)}: give one of "
                f"{', '.join(STEMMERS)}"
            )
        object.__setattr__(self, "stop_words", _stop_words(self.stop_words))
        if not isinstance(self.ignore, str) or not self.ignore:
            raise RecipeError(
                f"ignore={self.ignore!r}: give a regular expression for what separates tokens, "
                f"such as {LETTERS_AND_DIGITS!r}"
            )
        for name in ("strip_accents", "lower"):
            if not isinstance(getattr(self, name), bool):
                raise RecipeError(f"{name}={getattr(self, name)!r}: give True or False")

    @property
    def needs_extension(self) -> bool:
        """Whether DuckDB's fts extension is needed."""
        return self.stemmer != "none" or self.stop_words == ENGLISH

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain values."""
        plain = asdict(self)
        if self.stop_words != ENGLISH:
            plain["stop_words"] = list(self.stop_words)
        return plain

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Terms:
        """Return the settings of a dict: what ``to_dict`` made, or some of it.

        Raises:
            RecipeError: A setting is unknown or its value is wrong.
        """
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise RecipeError(
                    f"terms: no setting {name!r}{nearest(str(name), known)}; there are "
                    f"{', '.join(known)}"
                )
        return cls(**settings)


def _stop_words(given: Any) -> str | tuple[str, ...]:
    """Return the words sorted, each once: their order means nothing."""
    if isinstance(given, str):
        if given == ENGLISH:
            return given
        raise RecipeError(
            f"stop_words={given!r}{nearest(given, [ENGLISH])}: give {ENGLISH!r}, or a list of words"
        )
    try:
        words = list(given)
    except TypeError:
        words = [given]
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise RecipeError(f"stop_words: {word!r} is no word; give {ENGLISH!r}, or words")
    return tuple(sorted({word.strip() for word in words}))
