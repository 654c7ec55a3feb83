"""Index controls: size and weight of each source in the data index of a corpus.

They affect only ``data_index``; a sampler's shares come from recipes and mixtures.
"""

from __future__ import annotations

from dataclasses import asdict

from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile, changes
from duckplets.ingest import records
from duckplets.ingest.splits import checked_split, need_splits
from duckplets.order.copies import IndexControls, SizeMode
from duckplets.records.data_index import DataIndex


def _set_controls(database: Database, source_id: int, made: IndexControls) -> None:
    database.run("records/controls/clear", {"source_id": source_id})
    if made != IndexControls():
        database.run("records/controls/set", asdict(made) | {"source_id": source_id})


def keep_controls(database: Database, name: str, made: IndexControls) -> None:
    """Store the controls of a source if it exists: a size limit may exclude it."""
    for source_id, other, *_ in database.run("ingest/records/live_sources"):
        if other == name:
            with database.transaction():
                _set_controls(database, source_id, made)


@changes("set index controls in")
def set_index_controls(
    corpus: CorpusFile,
    /,
    source: str,
    *,
    size: int | None = None,
    size_mode: SizeMode = "first",
    weight: float = 1.0,
    seed: int = 42,
) -> None:
    """Set the size and weight of a source in ``data_index``.

    Args:
        source: Name of the source.
        size: Number of records: the first ones or a sample, by ``size_mode``. A larger size than
            the source gives whole copies and a remainder. None: all.
        size_mode: ``first`` or ``sample``.
        weight: Copies of each record; a fraction of a copy is a sample. Applied after size.
        seed: Seed of the samples.

    Raises:
        SourceError: The source does not exist.
        SamplerError: A value is wrong.
    """
    source_id = records.source_id_of(corpus.database, source)
    with corpus.database.transaction():
        controls = IndexControls(size, size_mode, weight, seed)
        _set_controls(corpus.database, source_id, controls)


def data_index(corpus: CorpusFile, /, split: str | None = None) -> DataIndex:
    """Return the index of all sources, each with its size and weight; ``read`` takes it.

    Args:
        split: Number the records of this split only.
    """
    database, version = corpus.database, corpus.version
    if split is not None and checked_split(split):
        need_splits(database, f"split={split!r}: ")
    indexes = [DataIndex({}, split=split)]
    rows = database.run("records/controls/sources", {"split": split, "version": version})
    for name, _, count, *values in rows:
        made = IndexControls(*values) if values[1] is not None else IndexControls()
        index = DataIndex({name: count}, split=split)
        if count:
            index = index.adjust(made.size, made.weight, mode=made.size_mode, seed=made.seed)
        indexes.append(index)
    return DataIndex.concatenate(indexes)
