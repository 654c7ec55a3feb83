"""List the texts that must not share a batch with an anchor, for ``in_batch_margin``.

positives of the pool, by anchor text ──────────────────┬─by anchor→ NearTexts
candidates of a scorer close to the positive, as texts ─┘

A text that another sample brings into the batch is a false negative of an anchor where it is a
known positive of it, or about as near as one: a candidate whose score is above a part of that of
the anchor's lowest-scoring positive. Both are known before the run begins, so what a batch is
arranged by are short lists of hashes: no vector is compared when drawing.
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
    """The texts kept from the batch of each anchor of a stream, as hashes."""

    groups: Integers  # the list of each anchor; int64[anchors]
    starts: Integers  # first text of every list, and the end; int64[lists + 1]
    words: Words  # the texts
    full: int  # anchors all of whose candidates are as near, so that further ones may be
    unranked: int  # anchors whose positive was not ranked: of these only positives are known
    is_mined: bool  # whether there are candidates

    def of(self, anchors: Integers) -> tuple[Integers, Words]:
        """Return the texts of some anchors: their number for each, and the texts."""
        lists = self.groups[anchors]
        counts = self.starts[lists + 1] - self.starts[lists]
        return counts, self.words[ranges(self.starts[lists], counts)]


def read(database: Database, pool: Pool, mining: Mining | None, margin: float) -> NearTexts:
    """Read what is kept from the anchors of a pool: all positives, and near candidates if mined."""
    anchors, full, unranked = pool.anchors, 0, 0
    # records that ask the same share a list: one text may stand in a hundredth of all
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
        asked: dict[str, Any] = {"files": files, "margin": margin}
        rows = database.table("mining/near/texts", asked)
        order = np.argsort(anchors.records, kind="stable")
        at = places(anchors.records[order], rows["record_key"].to_numpy())
        owners.append(groups[order[at[at >= 0]]])
        words.append(rows["text_hash"].to_numpy()[at >= 0])
        asked["depth"] = mining.settings["depth"]
        ((full, unranked),) = database.run("mining/near/counts", asked)
    every = np.concatenate(owners)
    order = np.argsort(every, kind="stable")
    starts = np.searchsorted(every[order], np.arange(len(texts) + 1))
    found = np.concatenate(words)[order]
    return NearTexts(groups, starts, found, full, unranked, is_mined=mining is not None)


# -- what is said of it ---------------------------------------------------------------------------


def refuse_unknown(database: Database, of: InBatch, split: str) -> None:
    """Refuse a scorer that has no candidates of any recipe of a run."""
    known = {mining.scorer for mining in Minings(database).found(split=split)}
    raise StateMismatchError(
        f"in_batch_margin={(of.scorer, of.margin)}: no recipe of this run has mined negatives of "
        f"it in split {split!r} ({no_scorer(of.scorer, known)}); mine them with corpus.mine"
    )


def unknown(streams: Iterable[Any], in_batch: InBatch) -> Iterator[str]:
    """Yield of how many anchors not all that is near is known."""
    without = defaultdict[str, list[str]](list)
    for stream in streams:
        near = stream.near
        if not near.is_mined:
            without[stream.recipe.name].append(stream.source)
        of = f"source {stream.source!r}, recipe {stream.recipe.name!r}, in_batch_margin"
        if near.full:
            yield (
                f"{of}: all candidates of {counted(near.full, 'anchor')} are near, so texts beyond "
                f"them may be; mine deeper, or give less than {in_batch.margin:g}"
            )
        if near.unranked:
            yield (
                f"{of}: {in_batch.scorer} has not ranked a positive of "
                f"{counted(near.unranked, 'anchor')}, so only their positives are kept apart"
            )
    for name, sources in without.items():
        yield (
            f"recipe {name!r} has no candidates of {in_batch.scorer} in source {listed(sources)}, "
            f"so in_batch_margin knows only the positives of its anchors there"
        )


def in_words(no_duplicates: bool | str, in_batch: InBatch | None) -> str:
    """Return what a batch of all ranks has no two of."""
    if no_duplicates == "negatives":
        return "no negative comes twice in a batch, nor as another text of it"
    family = {True: "", "group": " and no family"}.get(no_duplicates, f" and no {no_duplicates}")
    said = f"no text{family} comes twice in a batch"
    if in_batch is None:
        return said
    return (
        f"{said}; none stands beside another sample's anchor that it is a positive of, or a "
        f"candidate of {in_batch.scorer} within {in_batch.margin:g} of the positive's score"
    )
