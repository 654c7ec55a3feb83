"""Fetching messages: the conversations of a plan, one statement a block.

What is stored as JSON is taken apart by DuckDB, so that no row passes through Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.errors import StateMismatchError
from duckplets.sampling.batch import Block, Tally
from duckplets.sampling.columns import OF_MESSAGES
from duckplets.sampling.fetch import Fetcher, as_array

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.sampling.plan import Plan

_TEXTS = OF_MESSAGES[:4]


class ConversationIndex:
    """What every conversation of a corpus is, apart from its messages, by key of its record.

    Args:
        database: The corpus.
        chunking: Fingerprint of the chunks: what they were made with.
    """

    def __init__(self, database: Database, chunking: Mapping[str, Any]) -> None:
        rows = database.table("sampling/messages/index", {"weight_floor": chunking["weight_floor"]})
        self._keys = rows["record_key"].to_numpy()
        self._tokens = rows["tokens"].to_numpy()
        self._weights = rows["weight"].to_numpy()

    def __getitem__(self, records: Integers) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weight of records."""
        return {"weight": self._weights[self.rows(records)]}

    def tokens(self, records: Integers) -> Integers:
        """Return how many tokens the sections of each record have."""
        return np.asarray(self._tokens[self.rows(records)], np.int64)

    def rows(self, records: Integers) -> Integers:
        """Return where each record is among all that have a conversation."""
        return np.searchsorted(self._keys, records)


class MessageFetcher(Fetcher):
    """Turns plans of messages into blocks; its arguments are those of ``Fetcher``."""

    def fetch(self, plan: Plan, tally: Tally, *, start: int, stop: int) -> Block:
        """Return the samples of a plan as the block of batches from ``start`` to ``stop``."""
        keys = plan.chunks[0]
        rows = self._messages(plan, keys)
        place = np.empty(len(keys), dtype=np.int64)
        place[rows["request"].to_numpy()] = np.arange(len(keys), dtype=np.int64)
        found = self._basics(plan, self._index[keys]) | self._details(plan, keys, self._columns)
        order = pa.array(place)
        found |= {
            name: rows[name].combine_chunks().take(order)
            for name in _TEXTS[1:]
            if name in self._columns
        }
        columns = {c: None if c in self.slots else as_array(found[c]) for c in self._columns}
        texts = rows["messages"].combine_chunks()
        return Block(start, stop, columns, texts, {"messages": place}, tally)

    def identities(self, plan: Plan, batch: int) -> pa.Table:
        """Return what a plan's samples are, without their messages; ``batch`` positions a step.

        Columns: ``step``, ``position``, ``source``, ``recipe``, ``record_id``.
        """
        keys = plan.chunks[0]
        basics = self._basics(plan, self._index[keys])
        found = {"step": plan.positions // batch}
        found |= {name: basics[name] for name in ("position", "source", "recipe")}
        found |= self._details(plan, keys, ["record_id"])
        return pa.table({name: as_array(values) for name, values in found.items()})

    def _messages(self, plan: Plan, keys: Integers) -> pa.Table:
        asked = pa.table({"request": np.arange(len(keys), dtype=np.int64), "record_key": keys})
        which = ("chosen", "rejected", "chosen_json", "rejected_json")
        wanted = {w: name in self._columns for w, name in zip(which, _TEXTS, strict=True)}
        with self._lock, self._database.registered(asked_messages=asked):
            rows = self._database.table("sampling/messages/fetch", wanted)
        if rows.num_rows != len(keys):
            raise StateMismatchError(
                f"{len(keys) - rows.num_rows} conversations of positions "
                f"{int(plan.positions[0])} to {int(plan.positions[-1])} are not in the corpus any "
                f"more; it is another file"
            )
        return rows

    def _details(self, plan: Plan, keys: Integers, columns: Any) -> dict[str, Any]:
        """Return those of the columns that tell of the record."""
        wanted = [name for name in columns if name in OF_MESSAGES[4:]]
        if not wanted:
            return {}
        asked = pa.table({"request": np.arange(len(keys), dtype=np.int64), "record_key": keys})
        with self._lock, self._database.registered(asked_messages=asked):
            rows = self._database.table("sampling/messages/details")
        return {name: rows[name].combine_chunks() for name in wanted}
