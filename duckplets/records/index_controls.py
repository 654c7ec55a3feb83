"""Index controls: how often a data index lists the records of each source.

They affect the index of a corpus, ``data_index``, alone; a sampler's shares come from recipes and
mixtures.
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
    """Replace the stored controls of a source; within a transaction."""
    database.run("records/controls/clear", {"source_id": source_id})
    if made != IndexControls():
        database.run("records/controls/set", asdict(made) | {"source_id": source_id})


def keep_controls(database: Database, name: str, made: IndexControls) -> None:
    """Store the controls of a source if it exists: a size limit may leave it out."""
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
    """Set how many of a source's records ``data_index`` lists, and how often.

    Args:
        source: Its name.
        size: So many records, by ``size_mode`` the first or a sample of them; more than there
            are: whole copies and a remainder. None for all.
        size_mode: ``first`` or ``sample``.
        weight: Copies of each record; a fraction of a copy is a sample. Applied after size.
        seed: Of what is sampled.

    Raises:
        SourceError: There is no such source.
        SamplerError: A value is wrong.
    """
    source_id = records.source_id_of(corpus.database, source)
    with corpus.database.transaction():
        made = IndexControls(size, size_mode, weight, seed)
        _set_controls(corpus.database, source_id, made)


def data_index(corpus: CorpusFile, /, split: str | None = None) -> DataIndex:
    """Return the index of all sources, each with its size and weight; ``read`` takes it.

    Args:
        split: Of the records of this split only.
    """
    database, version = corpus.database, corpus.version
    if split is not None and checked_split(split):
        need_splits(database, f"split={split!r}: ")
    indexes = [DataIndex({}, split=split)]
    rows = database.run("records/controls/sources", {"split": split, "version": version})
    for name, _, count, *said in rows:
        of = IndexControls(*said) if said[1] is not None else IndexControls()
        index = DataIndex({name: count}, split=split)
        if count:
            index = index.adjust(of.size, of.weight, mode=of.size_mode, seed=of.seed)
        indexes.append(index)
    return DataIndex.concatenate(indexes)
