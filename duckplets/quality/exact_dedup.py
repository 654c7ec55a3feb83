"""Which of equal texts, and of rows with one id, is the one that is kept.

The decision that matters: rows are taken in the order of (source rank, row), and one holds its text
and its id only if nothing else rejects it. So what survives does not depend on batches, on
interruptions or on the timing of reading. Only rows that share a text or an id with another one
are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

GATE = "duplicates"
SAME_TEXT = "same text"
SAME_ID = "same id"
OTHER_TEXT = "same id, other content"


class Candidate(NamedTuple):
    """A row that shares its text or its id with another one.

    Attributes:
        place: What it is told by.
        record_id: Its id.
        content: What is equal where the content is: rows with one id are the same by it.
        digest: Of its text.
        passes: Whether no other gate rejects it.
    """

    place: int
    record_id: str
    content: int
    digest: bytes
    passes: bool


def settle(
    rows: Iterable[Candidate],
    ids: Mapping[str, int],
    digests: Iterable[bytes],
    *,
    texts: bool,
) -> dict[int, str]:
    """Return the rule that rejects rows as copies, by their places.

    Args:
        rows: In order.
        ids: Of records that are there, with what is equal where the content is.
        digests: Of the texts of records that are there.
        texts: Whether equal texts are copies; equal ids always are.
    """
    held_ids, held = dict(ids), set(digests)
    found: dict[int, str] = {}
    for row in rows:
        content = held_ids.get(row.record_id)
        if content is not None and content == row.content:
            found[row.place] = SAME_ID
        elif texts and row.digest in held:
            found[row.place] = SAME_TEXT
        elif row.passes and content is not None:
            found[row.place] = OTHER_TEXT
        elif row.passes:
            held_ids[row.record_id] = row.content
            held.add(row.digest)
    return found
