"""Draw and fetch messages: from the sources that have conversations to blocks of whole ones.

The unit is the record: one sample is the whole conversation of one. What a pool lists is
therefore record keys, where that of another kind of samples lists chunks. What is stored as JSON
is taken apart by DuckDB, so that no row passes through Python.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.errors import EmptyPoolError
from duckplets.pools.arrays import Anchors
from duckplets.recipes.recipes import TextRecipe
from duckplets.recipes.selectors import any_section
from duckplets.recipes.store import SourceRecipes
from duckplets.samples.batch import Block
from duckplets.samples.columns import OF_MESSAGES
from duckplets.samples.fetch import NEEDED, Fetcher, as_array

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.order.mixture import Mixture
    from duckplets.pools.compile import CompiledPool
    from duckplets.samples.planned import Plan

_FUNCTION = {"name": "VARCHAR", "arguments": "VARCHAR"}
_TOOLS: dict[str, Any] = {
    "tool_calls": [{"id": "VARCHAR", "type": "VARCHAR", "function": _FUNCTION}],
    "tool_call_id": "VARCHAR",
    "name": "VARCHAR",
}
_TEXTS, _DETAILS = OF_MESSAGES[:4], OF_MESSAGES[4:]
_RECIPE = TextRecipe("messages", any_section())


def resolve(database: Database, mixture: Mixture, version: int) -> list[SourceRecipes]:
    """Return the sources that messages are drawn from: those that have some, and those named.

    Raises:
        EmptyPoolError: No source has a conversation.
    """
    rows = database.run("runs/messages/sources", {"version": version})
    if rows and not any(conversations for _, conversations, _ in rows):
        names = ", ".join(repr(name) for name, _, _ in rows)
        raise EmptyPoolError(
            f"no source has conversations to draw messages from; there are {names}. Ingest "
            f"instruction data with a converter, as in converter='alpaca'"
        )
    return [
        SourceRecipes(name, (_RECIPE,)) for name, held, _ in rows if held or name in mixture.named
    ]


def shape_of(database: Database, version: int, part: str = "text") -> list[Any]:
    """Return the shape of messages of a version, as DuckDB's ``from_json`` takes it.

    They have keys for tools only where some conversation calls one: chat templates ask whether a
    message has such a key, and Arrow gives a null one to all. ``part`` is the key of a part's text.
    """
    ((tools,),) = database.run("runs/messages/calls_tools", {"version": version})
    said: dict[str, Any] = {"role": "VARCHAR", "content": [{"type": "VARCHAR", part: "VARCHAR"}]}
    return [said | (_TOOLS if tools else {}) | {"loss_weight": "DOUBLE"}]


def type_of(shape: Any) -> pa.DataType:
    """Return the Arrow type of a shape."""
    if isinstance(shape, list):
        return pa.list_(type_of(shape[0]))
    if isinstance(shape, dict):
        return pa.struct([(name, type_of(of)) for name, of in shape.items()])
    return pa.float64() if shape == "DOUBLE" else pa.string()


def has_pairs(database: Database, sources: Sequence[str], version: int) -> bool:
    """Return whether some of the sources have preference pairs."""
    rows = database.run("runs/messages/sources", {"version": version})
    return any(pairs for name, _, pairs in rows if name in sources)


def anchors(
    database: Database, compiled: CompiledPool, of: Integers | None, *, hashed: bool
) -> Anchors:
    """Return the conversations that a run may draw, of the records with some keys or of all.

    ``hashed``: whether texts are compared.
    """
    where = {name: compiled.parameters[name] for name in ("source", "split", "version")}
    rows = database.table("runs/messages/pool", where | {"hashed": hashed})
    if of is not None:
        rows = rows.filter(pa.array(np.isin(rows["record_key"].to_numpy(), of)))
    keys, count = rows["record_key"].to_numpy(), rows.num_rows
    zeros, starts = np.zeros(count, np.int64), np.arange(count + 1)
    return Anchors(keys, rows["text_hash"].to_numpy(), zeros, keys, starts)


class MessageFetcher(Fetcher):
    """Turn plans of messages into blocks; its arguments are those of ``Fetcher``."""

    shape: Sequence[Any] = ()  # of the messages of the run's version

    def fetch(self, plan: Plan, *, start: int, stop: int) -> Block:
        """Return the samples of a plan as the block of batches from ``start`` to ``stop``."""
        keys = plan.chunks[0]
        rows, chunks = self._messages(keys), self._texts.columns(NEEDED, keys)
        found = self._basics(plan, chunks) | self._details(plan, keys, self._columns)
        place = np.empty(len(keys), dtype=np.int64)
        place[rows["request"].to_numpy()] = np.arange(len(keys))
        for name in set(_TEXTS[1:]).intersection(self._columns):
            found[name] = rows[name].combine_chunks().take(pa.array(place))
        columns = {c: None if c in self.slots else as_array(found[c]) for c in self._columns}
        texts = rows["messages"].combine_chunks()
        return Block(start, stop, columns, texts, {"messages": place})

    @property
    def _identifying(self) -> list[str]:
        return ["record_id"]

    def _messages(self, keys: Integers) -> pa.Table:
        """Return conversations taken apart, in any order; ``request`` says which is which."""
        which = ("chosen", "rejected", "chosen_json", "rejected_json")
        wanted: dict[str, Any] = {"shape": json.dumps(self.shape)}
        wanted |= {w: name in self._columns for w, name in zip(which, _TEXTS, strict=True)}
        request = np.arange(len(keys), dtype=np.int64)
        with self._lock:  # refuses a forked process, as reading from the corpus does
            stored = pa.table({"request": request, "text": self._texts.spans(keys).take(request)})
            with self._database.registered(stored_messages=stored):
                return self._database.table("runs/messages/parsed", wanted)

    def _details(self, plan: Plan, keys: Integers, columns: Sequence[str]) -> dict[str, Any]:
        """Return those of the columns that tell of the record."""
        wanted = [name for name in columns if name in _DETAILS]
        if not wanted:
            return {}
        rows = self._of_records("details", keys)
        return {name: rows[name].combine_chunks() for name in wanted}

    def _of_records(self, name: str, keys: Integers) -> pa.Table:
        """Run a statement of ``sql/runs/messages`` over records."""
        asked = pa.table({"request": np.arange(len(keys), dtype=np.int64), "record_key": keys})
        with self._lock, self._database.registered(asked_messages=asked):
            return self._database.table(f"runs/messages/{name}")
