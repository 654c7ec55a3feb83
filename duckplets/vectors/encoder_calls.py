"""Call what embeds texts, check what it returns, and find the texts that it fails on.

    batch ─call→ as it should be? ─yes→ vectors
                      └─no→ again, ``retries`` times → halves, until the texts that fail are alone

Where only some vectors are not finite, the others are kept and those texts are alone at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckplets.base.arrays import Flags, Integers
from duckplets.base.sanitize import shown
from duckplets.errors import VectorError
from duckplets.vectors.encoders import Encoder

Matrix = NDArray[Any]

WINDOW = 200  # texts that decide whether too many fail
_REASON = 300  # characters
_NUMBERS = "fiu"  # kinds of NumPy


class _UnfitError(Exception):
    """What was returned is not what it should be."""


class _OneForAllError(_UnfitError):
    """What was returned is one vector for several texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What became of a batch.

    Attributes:
        rows: Numbers of the texts that have a vector now, ascending.
        vectors: Theirs, (rows, dimension).
        failed: Why not, by the numbers of texts that failed; a text may be in neither.
    """

    rows: Integers
    vectors: Matrix
    failed: dict[int, str]


class Calls:
    """Calls of one encoder.

    Args:
        encoder: What to call.
        dtype: Of vectors, ``float32`` or ``float16``.
        dimension: Of vectors; None for that of the first that come.
        retries: How often a call that fails is made again.
        max_failures: Share of the last 200 texts; more of them failed is enough.
        normalise: Whether to divide vectors by their length.

    Attributes:
        dimension: Of vectors, once it is known.
        max_failures: As given.
        reasons: How many texts have failed, by reason.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        dtype: str,
        dimension: int | None,
        retries: int = 0,
        max_failures: float = 1.0,
        normalise: bool = False,
    ) -> None:
        self.dimension = dimension
        self.reasons: Counter[str] = Counter()
        self._encoder = encoder
        self._dtype = np.dtype(dtype)
        self._retries = retries
        self._normalise = normalise
        self.max_failures = max_failures
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self._tells_apart = False  # whether a call with several texts has returned as many vectors

    @property
    def failures(self) -> int:
        """How many of the last 200 texts have failed."""
        return sum(self._last)

    @property
    def is_enough(self) -> bool:
        """Whether too many of them have."""
        return self.failures > self.max_failures * WINDOW

    def embed(self, texts: Sequence[str], prompt: str | None) -> Embedded:
        """Embed a batch; where too many texts fail, it ends before the last of them.

        Raises:
            VectorError: One vector is returned for several texts that alone have one each.
        """
        rows, vectors = [], []
        failed: dict[int, str] = {}
        left = [np.arange(len(texts))]
        while left and not self.is_enough:
            some = left.pop()
            tries = 1 + self._retries if len(some) in (1, len(texts)) else 1
            found, fits, reason = self._tried([texts[row] for row in some.tolist()], prompt, tries)
            rows.append(some[fits])
            vectors.append(found[fits])
            self._last.extend([False] * int(fits.sum()))
            unfit = some[~fits]
            if len(unfit) and len(some) == 1:
                failed[int(some[0])] = reason
                self.reasons[reason] += 1
                self._last.append(True)
            elif len(unfit):
                parts = 2 if len(unfit) == len(some) else len(unfit)
                left += np.array_split(unfit, parts)[::-1]
        every = np.concatenate(rows)
        order = np.argsort(every)
        found = np.concatenate([part for part in vectors if len(part)] or vectors[:1])
        return Embedded(rows=every[order], vectors=found[order], failed=failed)

    def one(self, text: str, prompt: str | None) -> Matrix:
        """Return the vector of one text, (dimension,).

        Raises:
            VectorError: The call fails, or returns something else.
        """
        found, fits, reason = self._tried([text], prompt, 1 + self._retries)
        if not fits[0]:
            raise VectorError(f"the text cannot be embedded: {reason}")
        return np.asarray(found[0])

    def _tried(self, texts: list[str], prompt: str | None, tries: int) -> tuple[Matrix, Flags, str]:
        """Return vectors, which of them are good, and why the others are not."""
        reason = ""
        for _ in range(tries):
            try:
                found = self._checked(self._encoder.call(texts, prompt), len(texts))
            except Exception as error:
                if isinstance(error, _OneForAllError) and not self._tells_apart:
                    self._refuse_one_for_all(texts, prompt)
                said = str(error) if isinstance(error, _UnfitError) else _told(error)
                reason = shown(said, _REASON)
                continue
            fits: Flags = np.asarray(np.isfinite(found).all(axis=1))
            if fits.any():
                self.dimension = found.shape[1]
                return found, fits, self._not_finite()
            reason = self._not_finite()
        nothing = np.zeros((len(texts), self.dimension or 0), self._dtype)
        return nothing, np.zeros(len(texts), bool), reason

    def _refuse_one_for_all(self, texts: list[str], prompt: str | None) -> None:
        """Refuse what returns one vector for two texts as it does for each of them.

        Called with each text alone it would look as it should, and all have the same vector.
        """
        for some in (texts[:2], texts[:1], texts[1:2]):
            try:
                if len(_array(self._encoder.call(some, prompt))) != 1:
                    return
            except Exception:  # it fails on a text, and tells it apart by that
                return
        raise VectorError(
            f"it returned one vector for {len(texts):,} texts: give an array (texts, dimension), "
            f"a vector for each text in their order"
        )

    def _not_finite(self) -> str:
        return f"its vector has numbers that are not finite in {self._dtype}"

    def _checked(self, returned: Any, count: int) -> Matrix:
        """Return what a call has returned as (count, dimension) of the type that is kept."""
        found = _array(returned)
        if found.ndim != 2:
            raise _UnfitError(f"it returned an array of shape {found.shape}, not ({count}, d)")
        if found.shape[0] != count:
            unfit = _OneForAllError if found.shape[0] == 1 else _UnfitError
            raise unfit(f"it returned {found.shape[0]:,} vectors for {count:,} texts")
        self._tells_apart = self._tells_apart or count > 1
        if found.shape[1] != (self.dimension or found.shape[1] or 1):
            raise _UnfitError(
                f"it returned vectors of {found.shape[1]:,} numbers, not of {self.dimension or 1:,}"
            )
        if self._normalise:
            found = _of_length_one(found)
        with np.errstate(over="ignore"):
            return found.astype(self._dtype, copy=False)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _array(returned: Any) -> Matrix:
    """Return numbers of NumPy, of a tensor or of lists of either as an array."""
    if isinstance(returned, list | tuple):
        returned = [_plain(each) for each in returned]
    try:
        found = np.asarray(_plain(returned))
    except (ValueError, TypeError):
        kind = type(returned).__name__
        raise _UnfitError(f"it returned a {kind} of vectors that differ in length") from None
    if found.dtype.kind not in _NUMBERS:
        kind = (
            f"{type(returned).__name__} of {found.dtype}" if found.ndim else type(returned).__name__
        )
        raise _UnfitError(f"it returned a {kind}, no numbers: give an array (texts, dimension)")
    return found


def _plain(value: Any) -> Any:
    """Return a tensor as an array of the main memory; other values as they are."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return (value if value.dtype.itemsize > 2 else value.float()).numpy()  # NumPy has no bfloat16


def _of_length_one(vectors: Matrix) -> Matrix:
    """Return vectors divided by their length; those of zeros stay."""
    found = vectors.astype(np.float32, copy=False)
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
        return np.asarray(found / np.where(lengths > 0, lengths, 1), np.float32)
