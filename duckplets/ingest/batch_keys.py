"""Store tables of keys, by which samples of a run can share batches (``batch_by=``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.sanitize import Reported, shown
from duckplets.base.settings import Named, checked
from duckplets.base.tables import one_of, table_of, typed
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import SamplerError

WORDS = ("source", "recipe", "length")  # what ``batch_by=`` takes for something else
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
        database.run("ingest/batch_keys/clear", {"name": name})
        return None
    of, rows = _checked(table_of(table, "batch keys", SamplerError))
    kept = rows.filter(pc.is_valid(rows["key"]))
    coded = kept["key"].combine_chunks().dictionary_encode()  # in the order of first rows
    missing = pa.nulls(len(kept))
    columns = {n: kept[of] if n == of else missing.cast(kind) for n, kind in _OF.items()}
    new = pa.table({"number": coded.indices, "key": kept["key"], **columns})
    with database.transaction(), database.registered(new_keys=new):
        database.run("ingest/batch_keys/clear", {"name": name})
        database.run("ingest/batch_keys/append", {"name": name})
        ((unknown,),) = database.run("ingest/batch_keys/unknown")
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
