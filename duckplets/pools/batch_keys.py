"""Keys by which samples share batches: of streams, lengths, values of records, or tables.

batch_by= ─resolved→ a rule, pinned ─BatchKeys→ the number of each anchor's key, in their order
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from duckplets.base.arrays import Integers, places
from duckplets.base.checks import integer
from duckplets.base.sanitize import counted, listed, percent
from duckplets.db.database import Database
from duckplets.errors import SamplerError, StateMismatchError, nearest
from duckplets.ingest import families
from duckplets.ingest.batch_keys import WORDS
from duckplets.pools.arrays import Anchors

_BUCKETS = 16  # of lengths


def checked_batch_by(
    given: Any, several: Any, *, batch_size: int, samples_per_draw: int
) -> dict[str, Any]:
    """Return the rule of ``batch_by``: what keys are of, and how many a batch has."""
    saved = given if isinstance(given, dict) else {}
    given, several = saved.get("by", given), saved.get("several", several)
    if not isinstance(given, str) or not given.strip():
        raise SamplerError(
            f"batch_by={given!r}: give 'source', 'recipe', 'length', the name of stored keys, or a "
            f"value of records such as \"meta['topic']\""
        )
    if batch_size % samples_per_draw:
        raise SamplerError(
            f"batch_by={given!r}: {samples_per_draw} pairs are drawn together, and a batch of one "
            f"key holds them whole; give a multiple of {samples_per_draw} as batch_size"
        )
    draws = batch_size // samples_per_draw
    several = integer("keys_per_batch", several, 1, draws)
    if several > 1 and given in ("source", "recipe"):
        raise SamplerError(
            f"keys_per_batch={several}: a batch is of one source and recipe; leave it out"
        )
    if draws % several:
        fitting = [n for n in range(1, draws + 1) if draws % n == 0]
        raise SamplerError(
            f"keys_per_batch={several} does not divide the {draws} samples of a rank's batch; "
            f"these would: {listed(map(str, fitting))}"
        )
    return {**saved, "by": given, "several": several}


def pinned(database: Database, rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule with the digest of the table of keys that it names, if it names one."""
    if not rule or rule["by"] in WORDS:
        return dict(rule)
    stored = {name: digest for name, _, digest in database.run("pools/batch_keys/digests")}
    if rule["by"] in stored or "digest" in rule:  # of a saved run the table may be gone
        return {**rule, "digest": stored.get(rule["by"])}
    try:
        families.statement(rule["by"], "batch_by")
    except SamplerError as error:
        hint = nearest(rule["by"], [*WORDS, *stored])
        raise SamplerError(f"{error}{hint}") from error
    return dict(rule)


class BatchKeys:
    """The keys of the anchors of a run at one version."""

    def __init__(
        self, database: Database, rule: Mapping[str, Any], where: Mapping[str, Any]
    ) -> None:
        self.several, self._of_texts, by = rule["several"], False, rule["by"]
        self._is_length = by == "length"
        if self._is_length:
            rows = database.table("pools/batch_keys/lengths", where)
        elif "digest" in rule:
            stored = {n: of for n, *of in database.run("pools/batch_keys/digests")}
            self._of_texts, digest = stored.get(by, (False, None))
            if digest != rule["digest"]:
                raise StateMismatchError(
                    f"batch_by={by!r}: the stored keys are not those the run was opened with; set "
                    f"them again with corpus.set_batch_keys, or open another run"
                )
            asked = {"name": by, **({} if self._of_texts else {"version": where["version"]})}
            name = "of_texts" if self._of_texts else "of_records"
            rows = database.table(f"pools/batch_keys/{name}", asked)
        else:
            rows = families.values(database, by, where, "batch_by")
        self._known = rows.column(0).to_numpy()
        self._numbers = rows["number"].to_numpy()

    def of(self, anchors: Anchors) -> Integers:
        """Return the number of each anchor's key in the order of keys; -1 for none."""
        asked = anchors.hashes[anchors.starts[:-1]] if self._of_texts else anchors.records
        at = places(self._known, asked)
        numbers = np.append(self._numbers, -1)[at]  # the last for what has none
        if self._is_length:  # buckets of equal count
            order = np.argsort(numbers, kind="stable")
            numbers = np.empty(len(order), np.int64)
            numbers[order] = np.arange(len(order)) * _BUCKETS // len(order)
            return numbers
        # numbers without gaps: a stream has some of all keys
        known, dense = np.unique(numbers, return_inverse=True)
        return dense - int(len(known) > 0 and known[0] < 0)


def in_words(rule: Mapping[str, Any], streams: Sequence[Any], mixed: float) -> Iterator[str]:
    """Yield what samples of a batch share, and the part of them that cannot."""
    by = rule["by"]
    if mixed:
        yield (
            f"each batch of all ranks is of one source; {percent(mixed)} of the samples, the rest "
            f"of each source's epoch, are in batches of several"
        )
        return
    if by in ("source", "recipe"):
        also = "" if by == "source" else " and recipe"
        yield f"each batch of all ranks is of one source{also}; shares hold for batches"
        return
    what = "length class" if by == "length" else f"value of {by}"
    what = f"key of {by!r}" if "digest" in rule else what
    several = f"one {what}" if rule["several"] == 1 else f"{rule['several']} keys: {what}"
    yield f"each batch of all ranks is of one source, recipe and {several}; shares hold for batches"
    for stream in streams:
        order = stream.keyed
        without = int((order.keys < 0).sum())
        lacking = f", {counted(without, 'anchor')} without one" if without else ""
        yield (
            f"source {stream.source!r}, recipe {stream.recipe.name!r}: "
            f"{counted(int(order.keys.max(initial=-1)) + 1, 'key')}{lacking}; "
            f"{percent(order.mixed / len(order))} of its samples are in mixed batches"
        )
