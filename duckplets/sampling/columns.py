"""Columns: what a batch of each kind of samples can have, and what it has when nobody asks."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from duckplets.errors import SamplerError, nearest
from duckplets.sampling.negative_columns import negative_columns
from duckplets.sampling.plan import SINGLE

DETAILS = ("record_id", "section", "heading", "window", "tokens", "trust", "date", "meta")
PREFIX_DETAILS = ("prefix", "prefix_meta")
OF_MESSAGES = (
    *("messages", "rejected_messages", "messages_json", "rejected_messages_json"),
    *("record_id", "trust", "date", "meta"),
)
MESSAGES = pa.list_(  # the type of messages and rejected_messages
    pa.struct(
        [
            ("role", pa.string()),
            ("content", pa.list_(pa.struct([("type", pa.string()), ("value", pa.string())]))),
            ("loss_weight", pa.float64()),
        ]
    )
)
_BASICS = ("weight", "instruction", "recipe", "source")


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
        known += [f"{slot}_{d}" for slot in slot_names(kind, negatives) for d in details]
    known += ["position", "padded"]
    if kind not in SINGLE:
        known += ["swapped", *negative_columns(kind, negatives)]
    if columns is None:
        return default_columns(kind, negatives, padded=padded, rejected=rejected)
    if isinstance(columns, str):
        columns = [columns]
    for column in columns:
        if column not in known:
            raise SamplerError(
                f"columns: {kind} have no {column!r}{nearest(column, known)}; there are "
                f"{', '.join(known)}"
            )
    return list(dict.fromkeys(columns))
