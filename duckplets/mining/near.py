"""List the texts that must not share a batch with an anchor, for ``in_batch_margin``.

positives of the pool, by anchor text ──────────────────┬─by anchor→ NearTexts
candidates of a scorer close to the positive, as texts ─┘

A text of another sample is a false negative if it is a known positive of the anchor, or a candidate
near its lowest-scoring positive. Both are known before the run, so batches are arranged by short
lists of hashes; drawing compares no vectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers, Words, places, ranges
from duckplets.base.sanitize import counted, listed
from duckplets.db.database import Database
from duckplets.errors import StateMismatchError
from duckplets.mining.pins import InBatch
from duckplets.mining.store import Mining, Minings, folder_of
from duckplets.pools.arrays import Pool
from duckplets.recipes.mined import no_scorer


@dataclass(frozen=True, slots=True)
class NearTexts:
    """List the texts excluded from the batch of each anchor of a stream, as hashes."""

    groups: Integers  # the list of each anchor; int64[anchors]
    starts: Integers  # first text of every list, and the end; int64[lists + 1]
    words: Words  # the texts
    full: int  # anchors whose candidates are all near; documents beyond the depth may be near too
    unranked: int  # anchors whose positive has no rank: only their positives are known
    is_mined: bool  # the stream has candidates

    def of(self, anchors: Integers) -> tuple[Integers, Words]:
        """Return the number of texts of each anchor, and the texts."""
        lists = self.groups[anchors]
        counts = self.starts[lists + 1] - self.starts[lists]
        return counts, self.words[ranges(self.starts[lists], counts)]


def read(database: Database, pool: Pool, mining: Mining | None, margin: float) -> NearTexts:
    """Read the texts excluded from the anchors of a pool: positives, and near candidates."""
    anchors, full, unranked = pool.anchors, 0, 0
    # anchors of equal text share a list, because a frequent text would repeat its list often
    texts, groups = np.unique(anchors.hashes[anchors.starts[:-1]], return_inverse=True)
    owners, words = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
    if (positives := pool.positives) is not None and not pool.compiled.own_positive:
        owners.append(np.repeat(groups, positives.counts))
        words.append(positives.hashes[ranges(positives.starts, positives.counts)])
    if pool.compiled.relabelled:
        version = {"version": pool.compiled.parameters["version"]}
        rows = database.table("mining/labels/kept_apart", version)
        at = places(texts, rows["anchor_hash"].to_numpy())
        owners.append(at[at >= 0])
        words.append(rows["text_hash"].to_numpy()[at >= 0])
    if mining is not None and (files := mining.files(folder_of(database))):
        values: dict[str, Any] = {"files": files, "margin": margin}
        rows = database.table("mining/near/texts", values)
        order = np.argsort(anchors.records, kind="stable")
        at = places(anchors.records[order], rows["record_key"].to_numpy())
        owners.append(groups[order[at[at >= 0]]])
        words.append(rows["text_hash"].to_numpy()[at >= 0])
        values["depth"] = mining.settings["depth"]
        ((full, unranked),) = database.run("mining/near/counts", values)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(texts) + 1))
    hashes = np.concatenate(words)[order]
    return NearTexts(groups, starts, hashes, full, unranked, is_mined=mining is not None)


# -- messages -------------------------------------------------------------------------------------


def refuse_unknown(database: Database, in_batch: InBatch, split: str) -> None:
    """Refuse a scorer that has no candidates of any recipe of a run."""
    scorer, known = in_batch.scorer, {m.scorer for m in Minings(database).found(split=split)}
    raise StateMismatchError(
        f"in_batch_margin={(scorer, in_batch.margin)}: no recipe of this run has its candidates in "
        f"split {split!r} ({no_scorer(scorer, known)}); mine them with corpus.mine"
    )


def warnings(streams: Iterable[Any], in_batch: InBatch) -> Iterator[str]:
    """Yield warnings of anchors whose near texts are not all known."""
    without = defaultdict[str, list[str]](list)
    for stream in streams:
        near = stream.near
        if not near.is_mined:
            without[stream.recipe.name].append(stream.source)
        what = f"source {stream.source!r}, recipe {stream.recipe.name!r}, in_batch_margin"
        if near.full:
            yield (
                f"{what}: all candidates of {counted(near.full, 'anchor')} are near, and more "
                f"documents may be near; mine deeper, or give less than {in_batch.margin:g}"
            )
        if near.unranked:
            yield (
                f"{what}: {in_batch.scorer} has not ranked a positive of "
                f"{counted(near.unranked, 'anchor')}, so only their positives are excluded"
            )
    for name, sources in without.items():
        yield (
            f"recipe {name!r} has no candidates of {in_batch.scorer} in source {listed(sources)}, "
            f"so in_batch_margin knows only the positives of its anchors there"
        )


def in_words(no_duplicates: bool | str, in_batch: InBatch | None) -> str:
    """Describe the uniqueness within a batch of all ranks."""
    if no_duplicates == "negatives":
        return "no negative comes twice in a batch, nor as another text of it"
    family = {True: "", "group": " and no family"}.get(no_duplicates, f" and no {no_duplicates}")
    rule = f"no text{family} comes twice in a batch"
    if in_batch is None:
        return rule
    return (
        f"{rule}; no text shares a batch with an anchor if it is a positive of it, or a "
        f"candidate of {in_batch.scorer} within {in_batch.margin:g} of the positive's score"
    )
