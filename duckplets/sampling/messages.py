"""Samples of messages: which sources have conversations, and the pools they are drawn from.

The unit is the record: one sample is the whole conversation of one. What a pool lists is
therefore record keys, where that of another kind of samples lists chunks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from duckplets.errors import EmptyPoolError
from duckplets.pools.arrays import Anchors, Pool
from duckplets.pools.compile import compile_pool
from duckplets.recipes.recipes import TextRecipe, any_section
from duckplets.recipes.store import SourceRecipes
from duckplets.sampling.stream import Stream

if TYPE_CHECKING:
    from duckplets.db.database import Database
    from duckplets.order.mixture import Mixture
    from duckplets.sampling.settings import RunSettings

RECIPE = TextRecipe("messages", any_section())


def resolve(database: Database, mixture: Mixture, version: int) -> list[SourceRecipes]:
    """Return the sources that messages are drawn from: those that have some, and those named.

    Raises:
        EmptyPoolError: No source has a conversation.
    """
    rows = database.run("sampling/messages/sources", {"version": version})
    if rows and not any(conversations for _, conversations, _ in rows):
        names = ", ".join(repr(name) for name, _, _ in rows)
        raise EmptyPoolError(
            f"no source has conversations to draw messages from; there are {names}. Ingest "
            f"instruction data with a converter, as in converter='alpaca'"
        )
    named = _named(mixture)
    return [SourceRecipes(name, (RECIPE,)) for name, held, _ in rows if held or name in named]


def has_pairs(database: Database, sources: Collection[str], version: int) -> bool:
    """Return whether some of the sources have preference pairs."""
    rows = database.run("sampling/messages/sources", {"version": version})
    return any(pairs for name, _, pairs in rows if name in sources)


def open_streams(database: Database, settings: RunSettings, sources: Sequence[str]) -> list[Stream]:
    """Read which conversations can be drawn of some sources.

    Raises:
        EmptyPoolError: A source has none in the split of the run.
    """
    return [
        Stream(source, _pool(database, settings, source), settings.seed, settings.negatives)
        for source in sources
    ]


def _pool(database: Database, settings: RunSettings, source: str) -> Pool:
    split, version = settings.split, settings.corpus_version
    where = {"source": source, "split": split, "version": version}
    rows = database.table("sampling/messages/pool", where | {"hashed": settings.no_duplicates})
    if rows.num_rows == 0:
        raise EmptyPoolError(
            f"source {source!r} has no conversation in split {settings.split!r}; ingest "
            f"instruction data with a converter, or give the source weight 0 in mixture="
        )
    keys, count = rows["record_key"].to_numpy(), rows.num_rows
    zeros, starts = np.zeros(count, np.int64), np.arange(count + 1)
    anchors = Anchors(keys, rows["text_hash"].to_numpy(), zeros, keys, starts)
    return Pool(
        compile_pool(RECIPE, source=source, split=split, version=version), anchors, None, None
    )


def _named(mixture: Mixture) -> set[str]:
    """Return the sources that a mixture gives a weight above 0 at some time."""
    changes = [phase.weights for phase in mixture.phases]
    changes += [] if mixture.anneal is None else [mixture.anneal.weights]
    return {name for weights in (mixture.weights, *changes) for name in weights}
