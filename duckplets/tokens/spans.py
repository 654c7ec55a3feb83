"""Name the texts of one source, or of one of its buckets, that adjoin in a token file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from duckplets.base.arrays import Integers
from duckplets.errors import DamagedFileError
from duckplets.tokens.token_file import TokenFile, damaged


@dataclass(frozen=True)
class TextSpan:
    """Texts that adjoin in a token file.

    Attributes:
        file: The token file.
        first: Number of the first.
        stop: After the last.
    """

    file: TokenFile
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def offsets(self) -> Integers:
        """Where each begins in the file, and the end of the last."""
        return self.file.offsets[self.first : self.stop + 1]

    @cached_property
    def span(self) -> tuple[int, int]:
        """Where they begin and end in the file.

        Raises:
            DamagedFileError: Not within it.
        """
        low, high = int(self.offsets[0]), int(self.offsets[-1])
        if not 0 <= low <= high <= len(self.file.tokens):
            raise self.damage()
        return low, high

    def damage(self) -> DamagedFileError:
        """Return the error for offsets that lead nowhere."""
        return damaged(self.file.path, "offsets of texts lead nowhere")
