"""Draw and fetch messages: whole conversations of sources.

The unit is the record: a sample is one whole conversation, so pools list record keys instead of
chunk keys. DuckDB parses the stored JSON, so no row passes through Python.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers
from duckplets.errors import EmptyPoolError
from duckplets.pools.arrays import Anchors
from duckplets.recipes.recipes import TextRecipe, any_section
from duckplets.recipes.store import SourceRecipes
from duckplets.sources.converters.turns import KEPT

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.order.mixture import Mixture
    from duckplets.pools.compile import CompiledPool

_FUNCTION = {"name": "VARCHAR", "arguments": "VARCHAR"}
_CALLS = [{"id": "VARCHAR", "type": "VARCHAR", "function": _FUNCTION}]
_MORE: dict[str, Any] = {"tool_calls": _CALLS} | dict.fromkeys(("tool_call_id", *KEPT), "VARCHAR")
_COLUMNS = {  # by their names in the statement
    "chosen": "messages",
    "rejected": "rejected_messages",
    "chosen_json": "messages_json",
    "rejected_json": "rejected_messages_json",
}
_RECIPE = TextRecipe("messages", any_section())


def resolve(database: Database, mixture: Mixture, version: int) -> list[SourceRecipes]:
    """Return the sources with conversations, and the sources that the mixture names."""
    rows = database.run("runs/messages/sources", {"version": version})
    if rows and not any(conversations for _, conversations, _ in rows):
        names = ", ".join(repr(name) for name, _, _ in rows)
        raise EmptyPoolError(
            f"no source has conversations to draw messages from; there are {names}. Ingest "
            f"instruction data with a converter, as in converter='alpaca'"
        )
    named = mixture.named
    return [SourceRecipes(name, (_RECIPE,)) for name, count, _ in rows if count or name in named]


def shape_of(database: Database, version: int, part: str = "text") -> list[Any]:
    """Return the shape of messages for ``from_json``; with keys of tool calls if there are any."""
    ((has_more,),) = database.run("runs/messages/calls_tools", {"version": version})
    message: dict[str, Any] = {"role": "VARCHAR", "content": [{"type": "VARCHAR", part: "VARCHAR"}]}
    return [message | (_MORE if has_more else {}) | {"loss_weight": "DOUBLE"}]


def has_pairs(database: Database, sources: Sequence[str], version: int) -> bool:
    """Return whether some of the sources have preference pairs."""
    rows = database.run("runs/messages/sources", {"version": version})
    return any(pairs for name, _, pairs in rows if name in sources)


def anchors(
    database: Database, compiled: CompiledPool, listed: Integers | None, *, hashed: bool
) -> Anchors:
    """Return the conversations that a run may draw."""
    where = {name: compiled.parameters[name] for name in ("source", "split", "version")}
    rows = database.table("runs/messages/pool", where | {"hashed": hashed})
    if listed is not None:
        rows = rows.filter(pa.array(np.isin(rows["record_key"].to_numpy(), listed)))
    keys, count = rows["record_key"].to_numpy(), rows.num_rows
    zeros, starts = np.zeros(count, np.int64), np.arange(count + 1)
    ids = rows["id_hash"].to_numpy()
    return Anchors(keys, rows["text_hash"].to_numpy(), zeros, keys, ids, starts)


@dataclass(frozen=True, slots=True)
class MessageParser:
    """Parse stored conversations into columns for a ``Fetcher``."""

    shape: Sequence[Any]  # shape of the messages of the run's version
    columns: Collection[str]

    def __call__(self, database: Database, texts: pa.Array) -> dict[str, pa.Array]:
        """Return the columns of conversations in order; columns not requested are null."""
        wanted: dict[str, Any] = {"shape": json.dumps(self.shape)}
        wanted |= {which: name in self.columns for which, name in _COLUMNS.items()}
        stored = pa.table({"request": np.arange(len(texts), dtype=np.int64), "text": texts})
        with database.registered(stored_messages=stored):
            rows = database.table("runs/messages/parsed", wanted).combine_chunks()
        request = rows["request"].to_numpy()
        if (request[1:] < request[:-1]).any():
            rows = rows.take(np.argsort(request)).combine_chunks()
        return {name: rows[name].combine_chunks() for name in _COLUMNS.values()}
