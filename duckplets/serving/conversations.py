"""Keep the messages of conversations in a snapshot, by ranges of record keys.

    conversations ─a range at a time→ arrays ─kept by range→ mapped, gathered by record

A record is never changed, so a range that is full stays as it is; the last one is kept anew when
there is more in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.db.database import Database
from duckplets.ingest.unfinished import UNPUBLISHED
from duckplets.serving.facts import Part
from duckplets.serving.kept import key_of
from duckplets.serving.snapshot import Snapshot
from duckplets.serving.texts import Segment, Texts

_RANGE = 65_536  # record keys; what is kept at once is held in memory


@dataclass(frozen=True, slots=True)
class Conversations:
    """The messages of a range of records, as JSON.

    Attributes:
        keys: Of the records, ascending.
        tokens: Of the sections of each.
        weight: Of each as a sample.
        span: First byte in ``data`` of the messages of each.
        bytes: How many they are.
        rejected_span: The same of the rejected messages of a preference pair.
        rejected_bytes: The same; -1 where there are none.
        data: The bytes of all.
    """

    keys: Integers
    tokens: Integers
    weight: np.ndarray[Any, np.dtype[np.float64]]
    span: Integers
    bytes: Integers
    rejected_span: Integers
    rejected_bytes: Integers
    data: np.ndarray[Any, np.dtype[np.uint8]]

    @classmethod
    def read(cls, database: Database, low: int, high: int, weight_floor: float) -> Conversations:
        """Read those of a range of records."""
        where = {"low": low, "high": high}
        rows = database.table("serving/conversations", where)
        facts = database.table("serving/conversation_facts", where | {"weight_floor": weight_floor})
        chosen, rejected = (_bytes(rows[n]) for n in ("messages", "rejected_messages"))
        return cls(
            keys=facts["record_key"].to_numpy(),
            tokens=facts["tokens"].to_numpy(),
            weight=facts["weight"].to_numpy(),
            span=chosen[0][:-1],
            bytes=np.diff(chosen[0]),
            rejected_span=rejected[0][:-1] + len(chosen[1]),
            rejected_bytes=np.where(
                rows["rejected_messages"].is_null().to_numpy(), -1, np.diff(rejected[0])
            ),
            data=np.concatenate([chosen[1], rejected[1]]),
        )

    def segment(self) -> Segment:
        """Return them as what texts are gathered from."""
        names = ("tokens", "weight", "span", "bytes", "rejected_span", "rejected_bytes")
        columns = {name: getattr(self, name) for name in names}
        return Segment(Part(self.keys, columns), pa.py_buffer(self.data))


def _bytes(texts: pa.ChunkedArray) -> tuple[Integers, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return where in their bytes texts begin, and the end; and the bytes."""
    whole = texts.combine_chunks().cast(pa.large_string())
    if not len(whole):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset :][: len(whole) + 1]
    data = np.frombuffer(whole.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])]
    return ends - ends[0], data


def mapped(
    database: Database, snapshot: Snapshot, version: int, chunking: Mapping[str, Any]
) -> Texts | None:
    """Return the messages of all conversations, with what else is known of them.

    What the snapshot does not keep yet is added to it.

    Args:
        database: The corpus.
        snapshot: Valid for the version.
        version: Of the run.
        chunking: Fingerprint of its chunks.

    Returns:
        None where they cannot be kept.
    """
    floor = chunking["weight_floor"]
    ranges = database.run(
        "serving/conversation_ranges", {"size": _RANGE, "unpublished": UNPUBLISHED}
    )
    keys = {part: key_of("conversations", _RANGE, floor, part, last) for part, last in ranges}
    there = snapshot.find([*keys.values()])
    for part, last in ranges:
        if keys[part] not in there:
            found = Conversations.read(database, part * _RANGE, last, floor)
            if snapshot.keep(version, {keys[part]: found}):
                return None
    there = snapshot.find([*keys.values()])
    return Texts([there[key].get(key, Conversations).segment() for key in keys.values()])
