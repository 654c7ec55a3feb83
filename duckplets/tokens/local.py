"""Decide on a local order, where tokens are read from row groups, and say what that means.

    manifest → tokens of a block, blocks of a region ─rows of a stream→ rows of a block

It follows from the manifest alone, so all ranks have the same, whatever memory they have. It is
kept with a run: what room there is when that goes on is no matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from duckplets.base.sanitize import counted
from duckplets.tokens.manifest import ShardManifest
from duckplets.tokens.row_groups import RowGroups
from duckplets.tokens.rows import TokenRows

# Tokens of a block, and blocks in the regions of all streams together. The largest row group that
# an export writes has as many tokens, so a block lies in two of them at worst, and half of what is
# decoded is served. Regions of 11 such blocks are 185 MB, and 369 MB with what they cut.
_BLOCK, _REGIONS = 1 << 22, 11


def local_order(manifest: ShardManifest, split: str, *, by_bucket: bool) -> dict[str, int]:
    """Return the local order of a run: tokens of a ``block``, and ``blocks`` of a region."""
    shards = (shard for shard in manifest.shards if shard.split == split)
    streams = {(shard.source, by_bucket and shard.bucket) for shard in shards}
    return {"block": _BLOCK, "blocks": max(1, _REGIONS // len(streams))}


def region_of(rows: TokenRows, local: Mapping[str, int] | None) -> tuple[int, int] | None:
    """Return the rows of a block, and the blocks of a region, of a stream in a local order."""
    if local is None:
        return None
    low, high = rows.of.span
    return max(1, local["block"] * len(rows) // (high - low)), local["blocks"]


def words(local: Mapping[str, int]) -> str:
    """Return a sentence on a local order."""
    return (
        f"rows come in a local order: an epoch shuffles blocks of {local['block']:,} tokens of a "
        f"source, and rows within regions of {counted(local['blocks'], 'block')}"
    )


def note(
    file: RowGroups, streams: Iterable[TokenRows], local: Mapping[str, int] | None, no_room: str
) -> str:
    """Say how tokens are read without a token file, and what is odd about it.

    Args:
        file: What reads them.
        streams: Rows of each.
        local: The order of the run, or None for one over all rows.
        no_room: Why there is no token file, if it was wanted.
    """
    need = 0
    for rows in streams:
        blocks = (local["block"], local["blocks"]) if local else (len(file), 1)
        need += file.need(rows.of.first, rows.of.stop, *blocks)
    why = f"{no_room}. Meanwhile tokens" if no_room else "tokens"
    order = words(local) if local else "rows come in the order over all rows that the run has"
    told = f"{why} are read from the row groups of {file.path}; {order}"
    if need <= file.most:
        return told
    return (
        f"{told}. Of these {need / 1e6:,.0f} MB are used at a time and {file.most / 1e6:,.0f} MB "
        f"kept, so they are decoded again and again; give memory_mb={-(-need // 10**6)}"
    )
