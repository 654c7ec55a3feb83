"""Name and check the columns of a batch, and work out those that say where negatives come from.

A negative is drawn at random, mined (with score and rank), or, by the strategy ``same_record``, one
of its anchor's own record; ``given`` where its recipe fills up records that have too few. What
stands in for one that lacked is a fallback, marked as such here and counted: one drawn at random in
place of a candidate, or a candidate that was itself drawn at random to make up the number; one of
another record in place of one of the own; one of all sources of the split in place of one of its
source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Integers
from duckplets.errors import SamplerError, nearest
from duckplets.samples.candidates import Candidates
from duckplets.samples.negatives import BY_CHANCE, FILLED, FROM_SPLIT, LACKING, OWN
from duckplets.samples.plan import SINGLE
from duckplets.samples.planned import Plan, without_negative
from duckplets.samples.stream import Stream

DETAILS = (
    *("record_id", "section", "heading", "window", "tokens", "trust", "date", "meta"),
    *("kind", "overlap", "start", "length", "start_ratio"),  # of the chunk
)
PREFIX_DETAILS = ("prefix", "prefix_meta")
OF_MESSAGES = (
    *("messages", "rejected_messages", "messages_json", "rejected_messages_json"),
    *("record_id", "trust", "date", "meta"),
)
VECTOR = "_vector"
_BASICS = ("weight", "instruction", "recipe", "source")
_WHATS = ("by", "score", "rank")
_METHODS = ("bm25", "given")
_OWN = "same_record"  # as the strategy is named
_NAMES = [
    *(None, "random", *(name for m in _METHODS for name in (m, f"{m}_fallback")), _OWN),
    # The worst of a sample's negatives names them all, so what stands in comes last.
    *("given", "random", "random_split"),
]
_GIVEN, _FILLED, _OF_SPLIT = range(len(_NAMES) - 3, len(_NAMES))
_TOLD = {BY_CHANCE: _NAMES.index("random"), OWN: _GIVEN, FILLED: _FILLED, FROM_SPLIT: _OF_SPLIT}


def slot_names(kind: str, negatives: int) -> list[str]:
    """Return the text columns of a kind of sample, in order; of messages theirs."""
    if kind == "messages":
        return ["messages"]
    if kind == "texts":
        return ["text"]
    if kind == "pairs":
        return ["anchor", "other"]
    if negatives == 1:
        return ["anchor", "positive", "negative"]
    return ["anchor", "positive", *(f"negative_{i + 1}" for i in range(negatives))]


def default_columns(
    kind: str, negatives: int, *, padded: bool = False, rejected: bool = False
) -> list[str]:
    """Return the columns of a batch when none are asked for.

    Args:
        kind: Of samples.
        negatives: How many a triplet has.
        padded: Whether a last batch is filled up.
        rejected: For messages, whether some are preference pairs.
    """
    labels = ["label", "reason"] if kind == "pairs" else []
    labels += ["rejected_messages"] if rejected and kind == "messages" else []
    return [*slot_names(kind, negatives), *labels, *_BASICS, *(["padded"] if padded else [])]


def checked_columns(
    columns: Sequence[str] | None,
    kind: str,
    negatives: int,
    *,
    padded: bool = False,
    rejected: bool = False,
) -> list[str]:
    """Return the columns of a batch, in order; ``default_columns`` has the arguments.

    Raises:
        SamplerError: There is no such column.
    """
    known = default_columns(kind, negatives)
    if kind == "messages":
        known += [name for name in OF_MESSAGES if name not in known]
    else:
        details = DETAILS + PREFIX_DETAILS
        slots = slot_names(kind, negatives)
        known += [f"{slot}_{d}" for slot in slots for d in details]
        known += [f"{slot}{VECTOR}" for slot in slots]
    known += ["position", "padded"]
    if kind not in SINGLE:
        known += ["swapped", *negative_columns(kind, negatives)]
    if columns is None:
        return default_columns(kind, negatives, padded=padded, rejected=rejected)
    if isinstance(columns, str):
        columns = [columns]
    for column in columns:
        base, _, name = column.partition(":")
        is_of_set = bool(name) and base.endswith(VECTOR)  # ``anchor_vector:NAME``
        if (base if is_of_set else column) not in known:
            raise SamplerError(
                f"columns: {kind} have no {column!r}{nearest(column, known)}; there are "
                f"{', '.join(known)}"
            )
    return list(dict.fromkeys(columns))


def vector_slots(columns: Sequence[str]) -> list[str]:
    """Return the slots whose vectors columns have, such as ``anchor`` of ``anchor_vector:NAME``."""
    bases = (name.partition(":")[0] for name in columns)
    return [base.removesuffix(VECTOR) for base in bases if base.endswith(VECTOR)]


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
        for rows, stream, drawn in _telling(plan, streams, slot):
            counts[rows] += _is_fallback(stream, drawn)
    counts[without_negative(plan)] = 0
    return counts


def _telling(
    plan: Plan, streams: Sequence[Stream], slot: int
) -> Iterator[tuple[Integers, Stream, Integers]]:
    """Yield every stream that tells where negatives are from, with its samples and what it told."""
    if plan.candidates is None:
        return
    for number, stream in enumerate(streams):
        if stream.tells:
            rows = np.flatnonzero(plan.streams == number)
            yield rows, stream, plan.candidates[slot][rows]


def _mined(
    plan: Plan, streams: Sequence[Stream], slot: int
) -> Iterator[tuple[Integers, Candidates, Integers]]:
    """Yield for every mined stream its samples, its candidates and which each negative is."""
    for rows, stream, drawn in _telling(plan, streams, slot):
        if stream.candidates is not None:
            yield rows, stream.candidates, drawn


def _is_fallback(stream: Stream, drawn: Integers) -> Flags:
    lacking: Flags = np.isin(drawn, LACKING)
    if stream.candidates is not None:
        mined = drawn >= 0
        lacking[mined] = stream.candidates.is_filled(drawn[mined])
    return lacking


def _codes(plan: Plan, streams: Sequence[Stream], slot: int) -> Integers:
    """Return for every sample a number in ``_NAMES``."""
    codes = np.full(len(plan), _NAMES.index("random"))
    for number, stream in enumerate(streams):
        if stream.pool.compiled.own_negatives:
            fills = stream.pool.compiled.fills_up
            codes[plan.streams == number] = _GIVEN if fills else _NAMES.index(_OWN)
    for rows, stream, drawn in _telling(plan, streams, slot):
        if stream.candidates is not None:
            method = _NAMES.index(stream.candidates.method)
            codes[rows] = method + _is_fallback(stream, drawn)
        for told, code in _TOLD.items():
            codes[rows[drawn == told]] = code
    codes[without_negative(plan)] = 0
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
