"""Compute the lists of a simple default pool by arithmetic.

A simple pool has no text or question in two records, and no groups. A record then loses its own
texts only, so an anchor needs a positive and enough texts of others. Other pools use the statement;
a test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from duckplets.base.columns import column
from duckplets.db.database import Database
from duckplets.pools.compile import CompiledPool, Part
from duckplets.recipes.recipes import TripletRecipe, role

_ANCHOR, _CONTEXT = role("anchor"), role("context")
_COLUMNS: Mapping[Part, tuple[str, ...]] = {
    "anchors": (
        *("record_key", "chunk_key", "text_hash", "family", "question", "section_key"),
        "position",
    ),
    "negatives": ("record_key", "chunk_key", "text_hash", "family", "section_key"),
    "positives": ("record_key", "chunk_key", "text_hash"),
}
_ORDER = ("added_version", "id_hash")
_PAIRS = pa.schema([("class", pa.uint64()), ("bin", pa.uint64())])
_ILLEGAL = pa.schema(
    [
        ("is_answer", pa.bool_()),
        ("family", pa.int64()),
        ("question", pa.uint64()),
        ("text_hash", pa.uint64()),
    ]
)


def is_plain(pool: CompiledPool) -> bool:
    """Return whether a pool is the default one, without conditions and labels."""
    recipe = pool.recipe
    if not isinstance(recipe, TripletRecipe):
        return False
    usual = TripletRecipe("usual", _ANCHOR, _CONTEXT, _CONTEXT)
    is_changed = pool.labels or pool.relabelled or pool.swaps or pool.narrow or pool.documents
    return recipe.of_pool() == usual.of_pool() and not is_changed


def lists_of(database: Database, pool: CompiledPool) -> dict[Part, pa.Table] | None:
    """Return the lists of a plain pool; None if records share texts or groups, or no anchor."""
    where = {name: pool.parameters[name] for name in ("source", "split", "version")}
    rows = database.table("pools/lists/plain", where)
    records, texts, questions = (
        rows[name].to_numpy() for name in ("record_key", "text_hash", "question")
    )
    if not np.array_equal(records, rows["family"].to_numpy()):
        return None
    sections = rows["section_key"].to_numpy()
    is_first = np.diff(sections, prepend=-1) != 0  # chunks of a section are together
    writings = np.sort(np.concatenate([texts, questions[is_first] ^ np.uint64(1)]))
    if (writings[1:] == writings[:-1]).any():
        return None
    starts = np.flatnonzero(np.diff(records, prepend=-1))
    is_context = ~rows["is_anchor"].to_numpy()
    own = np.add.reduceat(is_context, starts, dtype=np.int64) if len(starts) else starts
    has_both = (own > 0) & (is_context.sum() - own >= pool.negatives)
    is_anchor = ~is_context & np.repeat(has_both, np.diff(starts, append=len(records)))
    if not is_anchor.any():
        return None
    lists = {part: rows.select([*names, *_ORDER]) for part, names in _COLUMNS.items()}
    lists["anchors"] = lists["anchors"].filter(column(is_anchor))
    contexts = column(is_context)
    lists["negatives"] = lists["negatives"].filter(contexts)
    positives = lists["positives"].filter(contexts)
    by_record = np.argsort(positives["record_key"].to_numpy(), kind="stable")
    lists["positives"] = positives.take(column(by_record))
    return {**lists, "pairs": _PAIRS.empty_table(), "illegal": _ILLEGAL.empty_table()}
