"""Columns that say where a negative comes from: drawn at random, or mined, with score and rank.

Those of the anchor's own record (strategy ``same_record``) are neither, and marked so. A draw at
random in place of a candidate, or a candidate that was itself drawn at random to make up
the number, is a fallback: marked as such here, and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Integers
from duckplets.sampling.candidates import Candidates
from duckplets.sampling.plan import Plan
from duckplets.sampling.stream import Stream

_WHATS = ("by", "score", "rank")
_METHODS = ("bm25", "given")
_OWN = "same_record"  # as the strategy is named
_NAMES = [None, "random", *(name for m in _METHODS for name in (m, f"{m}_fallback")), _OWN]


def negative_columns(kind: str, negatives: int) -> list[str]:
    """Return the columns there are for a kind of sample.

    With several negatives ``negative_by`` is the worst of them: a fallback if one of them is.
    """
    if kind == "texts":
        return []
    if kind == "pairs" or negatives == 1:
        return [f"negative_{what}" for what in _WHATS]
    return ["negative_by", *(f"negative_{i + 1}_{w}" for i in range(negatives) for w in _WHATS)]


def needs_scores(columns: Collection[str]) -> bool:
    """Return whether one of the columns is a score."""
    return any(name.startswith("negative_") and name.endswith("_score") for name in columns)


def negative_values(
    plan: Plan, streams: Sequence[Stream], columns: Collection[str]
) -> dict[str, pa.Array]:
    """Return those of the columns that say where negatives come from."""
    slots = 1 if plan.labels is not None else len(plan.chunks) - 2
    if slots < 1:
        return {}
    names = ["negative"] if slots == 1 else [f"negative_{i + 1}" for i in range(slots)]
    codes = [_codes(plan, streams, slot) for slot in range(slots)]
    found: dict[str, pa.Array] = {}
    if "negative_by" in columns:
        found["negative_by"] = _named(np.max(codes, axis=0))
    for slot, name in enumerate(names):
        if f"{name}_by" in columns:
            found[f"{name}_by"] = _named(codes[slot])
        if f"{name}_score" in columns:
            found[f"{name}_score"] = _scores(plan, streams, slot)
        if f"{name}_rank" in columns:
            found[f"{name}_rank"] = _ranks(plan, streams, slot)
    return found


def fallbacks(plan: Plan, streams: Sequence[Stream]) -> Integers:
    """Return how many negatives of each sample are fallbacks."""
    counts = np.zeros(len(plan), dtype=np.int64)
    for slot in range(len(plan.candidates or ())):
        for rows, candidates, drawn in _mined(plan, streams, slot):
            counts[rows] += _is_fallback(candidates, drawn)
    if plan.labels is not None:
        counts[plan.labels == 1] = 0
    return counts


def _mined(
    plan: Plan, streams: Sequence[Stream], slot: int
) -> Iterator[tuple[Integers, Candidates, Integers]]:
    """Yield for every mined stream its samples, its candidates and which each negative is."""
    if plan.candidates is None:
        return
    for number, stream in enumerate(streams):
        if stream.pool.candidates is not None:
            rows = np.flatnonzero(plan.streams == number)
            yield rows, stream.pool.candidates, plan.candidates[slot][rows]


def _is_fallback(candidates: Candidates, drawn: Integers) -> Flags:
    missing: Flags = drawn < 0
    missing[~missing] = candidates.is_filled(drawn[~missing])
    return missing


def _codes(plan: Plan, streams: Sequence[Stream], slot: int) -> Integers:
    """Return for every sample a number in ``_NAMES``."""
    codes = np.full(len(plan), _NAMES.index("random"))
    for number, stream in enumerate(streams):
        if stream.pool.compiled.own_negatives:
            codes[plan.streams == number] = _NAMES.index(_OWN)
    for rows, candidates, drawn in _mined(plan, streams, slot):
        codes[rows] = _NAMES.index(candidates.method) + _is_fallback(candidates, drawn)
    if plan.labels is not None:
        codes[plan.labels == 1] = 0
    return codes


def _scores(plan: Plan, streams: Sequence[Stream], slot: int) -> pa.Array:
    scores = np.full(len(plan), np.nan)
    for rows, candidates, drawn in _mined(plan, streams, slot):
        if candidates.scores is not None:
            scores[rows[drawn >= 0]] = candidates.scores[drawn[drawn >= 0]]
    return pa.array(scores, pa.float64(), from_pandas=True)


def _ranks(plan: Plan, streams: Sequence[Stream], slot: int) -> pa.Array:
    ranks = np.zeros(len(plan), dtype=np.int64)
    for rows, candidates, drawn in _mined(plan, streams, slot):
        ranks[rows[drawn >= 0]] = candidates.rank(drawn[drawn >= 0])
    return pa.array(ranks, pa.int64(), mask=ranks == 0)


def _named(codes: Any) -> pa.Array:
    return pa.array(_NAMES, pa.string()).take(pa.array(codes))
