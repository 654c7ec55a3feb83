"""Turn a table of anchors, candidates and scores into negatives of a recipe.

    table ─blocks→ external_scores ─judge, for each source and split→ candidates by anchor
          ─Guards→ the best of each anchor ─→ NAME.candidates/

A table is read once, a block at a time, into temporary tables, which DuckDB may move to disk. After
that only a block of anchors is in memory. Refused rows are counted by reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import IntegerLists
from duckplets.base.progress import Progress
from duckplets.base.settings import Bounds, checked
from duckplets.base.stages import stage
from duckplets.base.tables import blocks, one_of, typed
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.inline import INLINE
from duckplets.engine.work import working
from duckplets.errors import RecipeError
from duckplets.ingest import records, splits
from duckplets.mining import store
from duckplets.mining.blocks import REASONS, top_of
from duckplets.mining.guards import BLOCK_ANCHORS, Guards
from duckplets.mining.job import MOST, Job, Scorer, Searched, own_name
from duckplets.mining.report import MiningReport, PairReport
from duckplets.mining.views import show
from duckplets.recipes import store as recipe_store
from duckplets.recipes.recipes import USUAL, TripletRecipe

ROWS = ("anchor_id", "negative_id", "score")
LISTS = ("query_id", "document_ids", "scores")  # one anchor a row

JUDGED = "judged"  # the scorer with labels of 0 or less as scores
_WHAT = "add_negatives", RecipeError
_KINDS = dict(zip(ROWS, (pa.string(), pa.string(), pa.float64()), strict=True))
_MOST = 1e300
_BLOCK_ROWS = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenReport(MiningReport):
    """Report one call of ``Corpus.add_negatives``.

    Attributes:
        rows: Rows of the table.
        refused: Refused rows outside ``pairs``, by reason.
    """

    rows: int
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Rows by outcome; a row counts once for each pair of sections of its records."""
        counts = Counter(self.refused)
        for pair in self.pairs:
            counts.update(pair.counts)
        return dict(counts)


@stage("add negatives to")
def add_negatives(
    corpus: CorpusFile,
    /,
    table: Any,
    *,
    name: str | TripletRecipe,
    scorer: str = "given",
    source: str | None = None,
    split: str | None = None,
    depth: int = MOST,
    progress: Progress | bool | None = None,
) -> GivenReport:
    """Store candidates that another program has ranked, under the same guards as mined ones.

    The corpus may be open read-only, as for ``mine``.

    Args:
        table: Columns ``anchor_id``, ``negative_id`` (record ids) and ``score``: an Arrow table or
            reader, data frame, dicts, mapping of columns, or Parquet file. Or one anchor a row,
            with lists: ``query_id``, ``document_ids``, ``scores``. A record means all its
            sections that fit the recipe. A row whose negative is a positive of the anchor sets
            the score of that positive, for margins.
        name: The recipe that will draw from them, or its name.
        scorer: Name of the scorer, as in ``dp.Negatives(by=scorer)``.
        source: Use rows of this source only.
        split: Use rows of this split only.
        depth: Number of best candidates stored per anchor, 1 to 2,048.
        progress: As for ``mine``.

    Raises:
        RecipeError: The table or an argument is wrong.
    """
    database, started = corpus.database, time.monotonic()
    splits.need_splits(database)
    version = records.current_version(database)
    recipe = recipe_store.find(database, name, version)
    if not isinstance(recipe, TripletRecipe):
        raise RecipeError(f"recipe {recipe.name!r} makes texts; give a triplet recipe")
    depth = checked("depth", depth, Annotated[int, Bounds(1, MOST)], RecipeError)
    if source is not None:
        recipe_store.check_source(database, source, version)
    split = None if split is None else splits.checked_split(split)
    scores, pairs, refused = _Scores(own_name(scorer, "scorer")), list[PairReport](), Counter[str]()
    made: dict[str, Any] = {"database": database, "scorer": scores, "depth": depth}
    with store.writing(database) as folder, working(INLINE, progress, "anchors") as work:
        try:
            rows = _staged(database, table)
            for row_source, row_split, count in database.run("mining/external/pairs"):
                is_of_recipe = row_source in (recipe.sources or [row_source])
                is_wanted = source in (None, row_source) and split in (None, row_split)
                if row_split is None or not (is_of_recipe and is_wanted):
                    why = "unknown anchor" if row_source is None else "other source or split"
                    refused[why] += count
                    continue
                where = {"source": row_source, "split": row_split}
                job = Job(**made, **where, recipe=recipe, version=version, work=work)
                guards = job.guards()
                if scores.judge(job, guards):
                    pairs.append(job.mined(folder, guards, fresh=True))
                else:
                    refused.update(scores.outcomes)
        finally:
            database.run("mining/external/drop")
        if not pairs:
            reasons = ", ".join(f"{n} {reason}" for reason, n in refused.most_common())
            raise RecipeError(
                f"recipe {recipe.name!r}: no row names an anchor and a negative of it: "
                f"{reasons}. The id of a record is 'source/key', as in the table records"
            )
        show(database)
    seconds = round(time.monotonic() - started, 3)
    return GivenReport(pairs=tuple(pairs), seconds=seconds, rows=rows, refused=dict(refused))


def judged(
    corpus: CorpusFile,
    recipe: str | TripletRecipe | Sequence[str | TripletRecipe] | None,
    *,
    source: str | None,
    progress: Progress | bool | None,
    **options: Any,
) -> MiningReport:
    """Store the documents with labels of 0 or less as candidates."""
    if source is not None:
        version = records.current_version(corpus.database)
        recipe_store.check_source(corpus.database, source, version)
    rows = corpus.database.table("mining/external/judged", {"source": source})
    if not rows.num_rows:
        raise RecipeError(
            "by='judged': no label of 0 or less names a record; give labels with corpus.relabel, "
            "or mine by='bm25'"
        )
    names = [recipe or USUAL] if isinstance(recipe, str | TripletRecipe | None) else recipe
    options |= {"scorer": JUDGED, "source": source, "progress": progress}
    reports = [add_negatives(corpus, rows, name=name, **options) for name in names]
    pairs = tuple(pair for report in reports for pair in report.pairs)
    return MiningReport(pairs=pairs, seconds=sum(report.seconds for report in reports))


def _staged(database: Database, table: Any) -> int:
    """Read a table and look up its records; return the number of rows."""
    database.run("mining/external/create")
    read = rows = 0
    for block in blocks(table, *_WHAT):
        checked_rows = _checked(block, read, rows)
        with database.registered(incoming=checked_rows):
            database.run("mining/external/stage")
        read, rows = read + block.num_rows, rows + checked_rows.num_rows
    if not rows:
        raise RecipeError("add_negatives: the table has no rows")
    database.run("mining/external/resolve")
    return rows


class _Scores(Scorer):
    """Rank by the scores of a table, which wait in temporary tables."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes = Counter[str]()  # of the rows of one source and split

    def settings(self, job: Job) -> dict[str, Any]:
        """Return no settings: candidates of a table are never continued."""
        return {}

    def judge(self, job: Job, guards: Guards) -> bool:
        """Classify the rows of a source and split; return whether any is a candidate."""
        with job.database.registered(**_numbers(guards)):
            documents = job.ground["source"]
            where = {"source": job.source, "split": job.split, "documents": documents}
            job.database.run("mining/external/judge", where)
        self.outcomes = Counter(dict(job.database.run("mining/external/fates")))
        return bool(self.outcomes["candidate"])

    def search(self, job: Job, guards: Guards, start: int) -> Searched:
        """Yield the candidates of every block of anchors."""
        database, count = job.database, len(guards.anchors)
        known = database.table("mining/external/positives")
        anchors, positive_records, positive_scores = (column.to_numpy() for column in known.columns)
        scored = IntegerLists.of(anchors, positive_records, count)
        positive_scores = np.append(positive_scores, np.nan)  # for positives without a row
        records = guards.sections.record_keys[guards.sections.records]
        others = dict(self.outcomes)
        most = max(1, min(_BLOCK_ROWS * count // others.pop("candidate"), BLOCK_ANCHORS))
        for block in guards.blocks(start, most=most):
            bounds = {"start": block.start, "stop": block.stop}
            rows = database.table("mining/external/block", bounds)
            owners, documents, scores, times = (column.to_numpy() for column in rows.columns)
            owners = owners - block.start
            reasons = guards.exclude(block).reasons_of(owners, documents)
            legal, positives = reasons < 0, guards.positives_of(block)
            at = scored.find(block.start + positives.owners(), records[positives.values])
            yield (
                block,
                top_of(
                    (owners[legal], documents[legal], scores[legal]),
                    (positives, positive_scores[at]),
                    job.depth,
                    matched=len(owners),
                    guarded=np.bincount(reasons[~legal], minlength=len(REASONS)),
                    others={**others, "duplicate row": int(times.sum()) - len(times)},
                ),
            )
            others = {}


def _numbers(guards: Guards) -> dict[str, pa.Table]:
    """Return the number of every anchor and document, and the positives of every record."""
    sections, positives = guards.sections, guards.positives
    records, anchors = sections.record_keys[sections.records], np.arange(len(guards.anchors))
    owners = sections.record_keys[positives.owners()]
    owners, others = np.unique(np.stack([owners, records[positives.values]]), axis=1)
    columns = {
        "anchors": {"record_key": records[guards.anchors], "anchor": anchors},
        "documents": {"record_key": records[guards.documents], "document": guards.documents},
        "positives": {"record_key": owners, "positive": others},
    }
    return {f"external_{name}": pa.table(values) for name, values in columns.items()}


def _checked(table: pa.Table, block: int, first: int) -> pa.Table:
    """Return anchors, negatives and scores of a block that begins at row ``first``."""
    if one_of((ROWS, LISTS), table.column_names, *_WHAT) == LISTS:
        table = _expanded(table, block)
    rows = typed(table, _KINDS, *_WHAT, first)
    usable = pc.less(pc.abs(rows["score"]), _MOST)  # false for NaN
    if (row := pc.index(usable, False).as_py()) >= 0:
        raise RecipeError(
            f"add_negatives: row {first + row}: score {rows['score'][row].as_py()} is not finite; "
            f"give finite numbers"
        )
    return rows


def _expanded(table: pa.Table, first: int) -> pa.Table:
    """Return one row per document for rows with lists."""
    query, documents, scores = (table[name].combine_chunks() for name in LISTS)
    for name, column in ((LISTS[1], documents), (LISTS[2], scores)):
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            raise RecipeError(f"add_negatives: {name} is of type {column.type}; give lists")
    sizes, others = (pc.list_value_length(column).to_numpy(False) for column in (documents, scores))
    if (wrong := np.flatnonzero(sizes != others)).size:
        row = int(wrong[0])
        raise RecipeError(
            f"add_negatives: row {first + row} has {sizes[row]} document_ids and {others[row]} "
            f"scores; give one score for each document"
        )
    rows = [query.take(pc.list_parent_indices(documents)), documents.flatten(), scores.flatten()]
    return pa.table(dict(zip(ROWS, rows, strict=True)))
