"""Choose which ranked candidates of an anchor are kept: its settings, as arithmetic on ranks.

Pure NumPy, for a block of anchors at a time. An anchor's *legal* candidates, best first, have raw
ranks 0, 1, …; positives and whatever a guard excludes never count. Because they are sorted, every
filter cuts a stretch off one end: what scores above the lowest of three ceilings comes first, what
scores below ``min_score`` comes last, and the *survivors* lie between. What is kept is a run of
survivors. So the ranks alone decide, and the same rules serve scores computed here, of which only
the first survivors are ever looked at, and external scores.

``ceilings`` says how high a negative may score; ``count_above`` and ``count_below`` measure lists
held in full; ``select`` chooses among the survivors; ``tally`` says what became of all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckplets.base.arrays import Bytes, Flags, Floats, Integers
from duckplets.recipes.bm25 import Bm25

MARGINS = ("absolute_margin", "relative_margin")
CEILINGS = (*MARGINS, "max_score")
OUTCOMES = ("full", "backfilled", "random", "dropped", "short", "none")

_FULL, _BACKFILLED, _RANDOM, _DROPPED, _SHORT, _NONE = range(len(OUTCOMES))


@dataclass(frozen=True, slots=True)
class Selection:
    """What is kept for each of n anchors.

    Attributes:
        kept: Positions in the scores given to ``select``, by anchor, best first.
        starts: First entry of ``kept`` for every anchor, and the end; int64[n + 1].
        outcomes: Index in ``OUTCOMES`` for every anchor; uint8[n]. Where it is ``random`` fewer
            are kept than were asked for, and the caller fills up.
    """

    kept: Integers
    starts: Integers
    outcomes: Bytes


def ceilings(settings: Bm25, positive_scores: Floats) -> Floats:
    """Return the highest scores that the margins and ``max_score`` allow.

    ``score > ceiling`` is true for exactly the scores that the rule, computed in float64 as
    written, drops: ``s + absolute_margin > s_pos``, ``s > s_pos - abs(s_pos) * relative_margin``
    and ``s > max_score``.

    Args:
        settings: The margins and the maximum.
        positive_scores: Score of every anchor's lowest-scoring positive, float64[n]; NaN where it
            has none that is known.

    Returns:
        float64[3, n] in the order of ``CEILINGS``; infinite where nothing is dropped: the value is
        off, or it is a margin and the positive's score is unknown.
    """
    high = np.full((len(CEILINGS), len(positive_scores)), np.inf)
    known = ~np.isnan(positive_scores)
    positives = positive_scores[known]
    if settings.absolute_margin is not None:
        high[0, known] = _highest_with_margin(positives, settings.absolute_margin)
    if settings.relative_margin is not None:
        with np.errstate(over="ignore"):
            high[1, known] = positives - np.abs(positives) * settings.relative_margin
    if settings.max_score is not None:
        high[2] = settings.max_score
    return high


def count_above(high: Floats, starts: Integers, scores: Floats) -> Integers:
    """Count, for lists held in full, the candidates above each ceiling: int64[3, n].

    Args:
        high: What ``ceilings`` returned, float64[3, n].
        starts: First candidate of every anchor, and the end; int64[n + 1].
        scores: Of every candidate.
    """
    lengths = np.diff(starts)
    return np.stack([_counts(scores > np.repeat(row, lengths), starts) for row in high])


def count_below(settings: Bm25, starts: Integers, scores: Floats) -> Integers:
    """Count, for lists held in full, the candidates below ``min_score``: int64[n]."""
    if settings.min_score is None:
        return np.zeros(len(starts) - 1, np.int64)
    return _counts(scores < settings.min_score, starts)


def select(settings: Bm25, starts: Integers, scores: Floats, above: Integers) -> Selection:
    """Choose among the candidates that no ceiling removes.

    Args:
        settings: Of mining.
        starts: First candidate of every anchor, and the end; int64[n + 1].
        scores: Of the candidates, best first for each anchor. Its first
            ``settings.range_min + settings.top_k`` suffice.
        above: How many of each anchor's legal candidates were removed because they score above a
            ceiling; int64[n]. So the raw rank of its candidate i is ``above + i``.
    """
    passing = np.diff(starts) - count_below(settings, starts, scores)
    first, stop, _ = _runs(settings, above, passing)
    outcomes = _outcomes(settings, above, passing)
    lengths = np.where(outcomes == _DROPPED, 0, stop - first)
    ends = _running(lengths)
    kept = np.arange(ends[-1]) + np.repeat(starts[:-1] + first - ends[:-1], lengths)
    return Selection(kept, ends, outcomes)


def tally(settings: Bm25, legal: Integers, above: Integers, below: Integers) -> dict[str, int]:
    """Return what became of all legal candidates; the values add up to ``legal.sum()``.

    A candidate counts where it was removed first: ``absolute_margin``, ``relative_margin``,
    ``max_score``, ``min_score``; ``range``, passed over by ``range_min`` or outside the window
    and not needed to fill up; ``not_needed``, within the window but beyond ``top_k``; ``dropped``,
    it would have been kept, but its anchor was dropped; ``kept``.

    Args:
        settings: Of mining.
        legal: Legal candidates of every anchor, int64[n].
        above: How many of them score above each ceiling (one that is above two of them counts
            for both); int64[3, n].
        below: How many of them score below ``min_score``, whether or not above a ceiling;
            int64[n].
    """
    reached = np.maximum.accumulate(above, axis=0)
    removed = reached[-1]
    too_low = np.minimum(below, legal - removed)
    passing = legal - removed - too_low
    first, stop, window = _runs(settings, removed, passing)
    chosen = stop - first
    dropped = np.where(_outcomes(settings, removed, passing) == _DROPPED, chosen, 0)
    not_needed = np.maximum(window - stop, 0)
    counts = dict(zip(CEILINGS, np.diff(reached, axis=0, prepend=0), strict=True))
    counts["min_score"] = too_low
    counts["range"] = passing - chosen - not_needed
    counts["not_needed"] = not_needed
    counts["dropped"] = dropped
    counts["kept"] = chosen - dropped
    return {name: int(values.sum()) for name, values in counts.items()}


def _runs(
    settings: Bm25, above: Integers, passing: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return where the kept run of survivors begins and ends, and where the window does."""
    window = _window(settings, above, passing)
    first = np.minimum(_passed_over(settings, above), passing)
    end = passing if settings.when_short == "backfill" else window
    stop = np.maximum(np.minimum(first + settings.wanted, end), first)
    return first, stop, window


def _window(settings: Bm25, above: Integers, passing: Integers) -> Integers:
    """Return how many survivors have a raw rank below ``range_max``."""
    if settings.range_max is None:
        return passing
    return np.clip(settings.range_max - above, 0, passing)


def _passed_over(settings: Bm25, above: Integers) -> Integers:
    """Return how many survivors ``range_min`` passes over, if there are so many."""
    if settings.range_on == "raw":
        return np.maximum(settings.range_min - above, 0)
    return np.full(len(above), settings.range_min)


def _outcomes(settings: Bm25, above: Integers, passing: Integers) -> Bytes:
    first, stop, window = _runs(settings, above, passing)
    count = stop - first
    within = np.minimum(window - first, settings.wanted)
    short = {"drop": np.full(len(count), _DROPPED), "random": np.full(len(count), _RANDOM)}
    found = np.where(count > 0, _SHORT, _NONE)
    codes = np.where(count >= settings.wanted, _BACKFILLED, short.get(settings.when_short, found))
    return np.where(within >= settings.wanted, _FULL, codes).astype(np.uint8)


def _counts(matches: Flags, starts: Integers) -> Integers:
    return np.diff(_running(matches)[starts])


def _running(values: npt.NDArray[np.generic]) -> Integers:
    """Return the sums of the first 0, 1, … values."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _highest_with_margin(positives: Floats, margin: float) -> Floats:
    """Return the highest s for which ``s + margin > positive`` is false in float64.

    ``positive - margin`` rounds in another place, so it is only near it.
    """
    with np.errstate(over="ignore"):
        near = positives - margin
        slack = 8 * np.spacing(np.maximum(np.abs(positives), abs(margin)))
        return _bisected(near - slack, near + slack, lambda s: s + margin <= positives)


def _bisected(low: Floats, high: Floats, holds: Callable[[Floats], Flags]) -> Floats:
    """Return the highest floats from ``low`` up to below ``high`` for which a test holds.

    It must hold for ``low``, not for ``high``, and nowhere above a number for which it does not.
    """
    bottom, top = _ordered(low), _ordered(high)
    while np.any(bottom + 1 < top):
        middle = (bottom >> 1) + (top >> 1) + (bottom & top & 1)
        good = holds(_unordered(middle))
        bottom, top = np.where(good, middle, bottom), np.where(good, top, middle)
    return _unordered(bottom)


def _ordered(values: Floats) -> Integers:
    """Return integers that are in the order of the floats, neighbours for neighbours."""
    bits = values.view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _unordered(integers: Integers) -> Floats:
    bits = np.where(integers < 0, np.iinfo(np.int64).min - integers, integers)
    return bits.view(np.float64)
