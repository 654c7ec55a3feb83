"""Clean texts of lines that are noise, such as OCR and spreadsheets leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckplets.errors import ChunkingError
from duckplets.text.noise import without_noise

__all__ = ["NAME", "Denoiser"]

NAME = "denoiser"


@dataclass(frozen=True, kw_only=True, slots=True)
class Denoiser:
    r"""Cleans texts of digits that nothing explains, of table rules and of lines without letters.

    Line ends become ``\n``. Then, line by line:

    1. With ``strip_markdown``, a line that starts with ``|``, white space aside, and holds another
       ``|`` is a row of a table. Rows of ``|``, ``-``, ``:`` and white space alone go; of the
       others the texts of the cells that have any stay, joined by a space.
    2. A line without a letter goes.
    3. Where digits / (digits + letters) is above ``max_digit_ratio``, the tokens between white
       space that hold a letter stay. Their neighbours on both sides join them in waves, as long as
       the ratio of all that stays is no higher than that; a wave that would raise it above is
       refused whole, and what is left of the line goes. Tokens are then joined by a space.

    Blank lines stay, so that prose comes out as it went in, paragraphs and all; where noise went
    from between two lines, the first run of blank ones there stays, and none at the top of a text.
    Letters and digits are those of every script: Unicode 14's letters (categories L), decimal
    digits (Nd), and characters for a single digit such as ``²`` and ``①``. What is both without
    letters and not a digit, such as marks, Roman numerals and fractions, counts as neither.

    Attributes:
        max_digit_ratio: From 0 to 1.
        strip_markdown: Whether tables are taken apart.
    """

    max_digit_ratio: float = 0.35
    strip_markdown: bool = True

    def __post_init__(self) -> None:
        """Check both fields."""
        ratio = self.max_digit_ratio
        if not isinstance(ratio, int | float) or isinstance(ratio, bool) or not 0 <= ratio <= 1:
            raise ChunkingError(f"max_digit_ratio={ratio!r}: expected a number from 0 to 1")
        object.__setattr__(self, "max_digit_ratio", float(ratio))
        if not isinstance(self.strip_markdown, bool):
            raise ChunkingError(f"strip_markdown={self.strip_markdown!r}: expected True or False")

    def __call__(self, text: str) -> str | None:
        """Return a text without its noise, or None if no line is left."""
        if not isinstance(text, str):
            raise ChunkingError(f"a text to clean is {type(text).__name__}: expected str")
        try:
            texts = pa.array([text], pa.large_string())
        except UnicodeEncodeError as error:
            raise ChunkingError(f"a text to clean is no Unicode text: {error}") from None
        cleaned: str | None = self.apply(texts)[0].as_py()
        return cleaned

    def apply(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return many texts without their noise, much faster than one by one.

        Args:
            texts: Strings, shape (n,).

        Returns:
            Strings, shape (n,), null where no line is left or the text was null.
        """
        if isinstance(texts, pa.ChunkedArray):
            texts = texts.combine_chunks()
        if texts.type not in (pa.string(), pa.large_string()):
            raise ChunkingError(f"texts to clean are {texts.type}: expected an array of strings")
        return without_noise(texts, self.max_digit_ratio, tables=self.strip_markdown)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values, with the name."""
        return {
            "name": NAME,
            "max_digit_ratio": self.max_digit_ratio,
            "strip_markdown": self.strip_markdown,
        }
