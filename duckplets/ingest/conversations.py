"""Stores what converters make besides sections: messages, and the rows they could not read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.db.database import Database
from duckplets.ingest.sections import sliced


def append(
    database: Database,
    record_keys: np.ndarray[Any, Any],
    messages: pa.Array,
    rejected: pa.Array | None,
) -> None:
    """Store the messages of new records.

    Args:
        database: The corpus, within a transaction.
        record_keys: Of n records.
        messages: n JSON lists of messages; null for a record without any.
        rejected: n JSON lists of the rejected messages of preference pairs, or None.
    """
    columns = {
        "record_key": pa.array(record_keys, pa.int64()),
        "messages": messages,
        "rejected_messages": pa.nulls(len(messages), pa.string()) if rejected is None else rejected,
    }
    with database.registered(new_conversations=sliced(pa.table(columns))):
        database.run("ingest/conversations/append")


def quarantine(database: Database, source: str, version: int, rows: pa.Table) -> None:
    """Set aside rows that a converter could not read.

    Args:
        database: The corpus, within a transaction.
        source: Name of their source.
        version: Of the ingest.
        rows: Columns ``row`` (number in the source), ``skip`` (what is wrong) and ``quarantined``
            (the row as JSON).
    """
    with database.registered(set_aside=rows):
        database.run("ingest/conversations/quarantine", {"source": source, "version": version})
