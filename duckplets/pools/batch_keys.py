"""Keys by which samples share batches: of streams, lengths, values of records, or tables.

batch_by= ─resolved→ a rule, pinned ─BatchKeys→ the number of each anchor's key, in their order
set_batch_keys ─→ the table batch_keys
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, places
from duckplets.base.checks import integer
from duckplets.base.sanitize import Reported, counted, listed, percent, shown
from duckplets.base.settings import Named, checked
from duckplets.base.tables import one_of, table_of, typed
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import SamplerError, StateMismatchError, nearest
from duckplets.ingest import families
from duckplets.pools.arrays import Anchors

WORDS = ("source", "recipe", "length")
_BUCKETS = 16  # of lengths
_OF = {"record_id": pa.string(), "text_hash": pa.uint64()}


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchKeysReport(Reported):
    """What ``set_batch_keys`` stored; ``read == stored + without_key``.

    Attributes:
        name: What ``batch_by=`` calls them.
        of: ``records`` or ``texts``.
        read: Rows of the table.
        stored: Rows that were stored.
        without_key: Rows whose key is null: these go into mixed batches.
        unknown: Stored rows of no record, or no text, of the corpus now.
        keys: Distinct keys.
    """

    name: str
    of: Literal["records", "texts"]
    read: int
    stored: int
    without_key: int
    unknown: int
    keys: int


@changes("set batch keys of")
def set_batch_keys(corpus: CorpusFile, /, name: str, table: Any) -> BatchKeysReport | None:
    """Store a table of keys, so that ``batch_by=NAME`` puts samples of one key into a batch.

    It replaces one of that name; runs saved with another are then refused.

    Args:
        name: For ``batch_by=``; not ``source``, ``recipe`` or ``length``.
        table: Rows of ``record_id`` or ``text_hash`` (as in the table ``chunks``, of anchors), and
            ``key``: an Arrow table, data frame, mapping of columns, or path of a Parquet file.
            Keys are ordered by their first row: neighbours share mixed batches. None removes it.

    Raises:
        SamplerError: A column is missing or of another type, or a record or text comes twice.
    """
    name = checked("name", name, Named, SamplerError)
    if name in WORDS:
        raise SamplerError(f"name={name!r}: batch_by={name!r} means something else; give another")
    database = corpus.database
    if table is None:
        database.run("pools/batch_keys/clear", {"name": name})
        return None
    of, rows = _checked(table_of(table, "batch keys", SamplerError))
    kept = rows.filter(pc.is_valid(rows["key"]))
    coded = kept["key"].combine_chunks().dictionary_encode()  # in the order of first rows
    missing = pa.nulls(len(kept))
    columns = {n: kept[of] if n == of else missing.cast(kind) for n, kind in _OF.items()}
    new = pa.table({"number": coded.indices, "key": kept["key"], **columns})
    with database.transaction(), database.registered(new_keys=new):
        database.run("pools/batch_keys/clear", {"name": name})
        database.run("pools/batch_keys/append", {"name": name})
        ((unknown,),) = database.run("pools/batch_keys/unknown")
    return BatchKeysReport(
        name=name,
        of="texts" if of == "text_hash" else "records",
        read=len(rows),
        stored=len(kept),
        without_key=len(rows) - len(kept),
        unknown=int(unknown),
        keys=len(coded.dictionary),
    )


def _checked(table: pa.Table) -> tuple[str, pa.Table]:
    """Return what the rows are of, and that column with the keys as text."""
    what = "batch keys", SamplerError
    of, _ = one_of([(name, "key") for name in _OF], table.column_names, *what)
    found = typed(table, {of: _OF[of]}, *what)[of]
    try:
        keys = table["key"].cast(pa.string())
    except (pa.ArrowException, KeyError) as error:  # two columns are called so
        raise SamplerError(f"batch keys: {shown(str(error))}") from error
    counts = pc.value_counts(found)
    if len(counts) < len(found):
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
        raise SamplerError(
            f"batch keys: {of} {shown(repr(twice.as_py()))} comes twice; give one key"
        )
    return of, pa.table({of: found, "key": keys})


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
            order = np.lexsort((anchors.records, numbers))
            numbers = np.empty(len(order), np.int64)
            numbers[order] = np.arange(len(order)) * _BUCKETS // len(order)
            return numbers
        # numbers without gaps: a stream has some of all keys
        known, dense = np.unique(numbers, return_inverse=True)
        return dense - int(len(known) > 0 and known[0] < 0)


def in_words(rule: Mapping[str, Any], streams: Sequence[Any]) -> Iterator[str]:
    """Yield what samples of a batch share, and of each stream what cannot."""
    by = rule["by"]
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
