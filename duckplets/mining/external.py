"""Turn a table of anchors, candidates and scores from elsewhere into negatives of a recipe.

    table ─blocks→ external_scores ─judge, for each source and split→ candidates by anchor
          ─Guards→ the best of each anchor ─→ NAME.candidates/

A table is read once, a block at a time. Rows are staged in temporary tables, which DuckDB moves to
disk when they are many; from there on a block of anchors is all that is in memory. What a row names
and the recipe or a guard refuses is counted, by reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.artifacts.folder import ArtifactFolder
from duckplets.base.arrays import Floats, IntegerLists, Integers, places
from duckplets.base.progress import Progress
from duckplets.base.settings import Bounds, checked
from duckplets.base.stages import stage
from duckplets.base.tables import blocks, one_of, typed
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.work import Work, working
from duckplets.errors import RecipeError
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import content_of
from duckplets.mining import store
from duckplets.mining.bm25 import TopDocuments, top_of
from duckplets.mining.guards import BLOCK_ANCHORS, REASONS, Excluded, Guards
from duckplets.mining.mine import MOST, report_of
from duckplets.mining.report import MiningReport
from duckplets.mining.store import Mining, OpenMining
from duckplets.pools.compile import compile_pool
from duckplets.pools.read import PoolReader, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.mined import BM25, Mined, policy_of
from duckplets.recipes.recipes import TripletRecipe

ANCHORS = ("anchor_id", "anchor_section_key")
NEGATIVES = ("negative_id", "negative_section_key")
LISTS = ("query_id", "document_ids", "scores")  # the same with an anchor a row

_WHAT = "add_negatives", RecipeError
_KINDS = {ANCHORS[0]: pa.string(), ANCHORS[1]: pa.int64(), NEGATIVES[0]: pa.string()}
_KINDS |= {NEGATIVES[1]: pa.int64(), "score": pa.float64()}
_MOST = 1e300
_BLOCK_ROWS = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenReport(MiningReport):
    """What ``Corpus.add_negatives`` did with the rows of a table.

    Attributes:
        rows: Rows of the table.
        refused: Rows of no pair that was mined, by reason.
    """

    rows: int
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Outcome of every row.

        A row that names records with several sections of the recipe counts once per pair of these.
        """
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
    """Keep candidates that something else has ranked, under the same guards as mined ones.

    The corpus may be open to read only, as for ``mine``.

    Args:
        table: Rows of ``anchor_id``, ``negative_id`` (record ids) and ``score``: an Arrow table or
            reader, data frame, dicts, mapping of columns, or Parquet file. For scores of sections,
            ``anchor_section_key`` and ``negative_section_key`` instead; or an anchor a row, with
            lists: ``query_id``, ``document_ids``, ``scores``. Rows whose negative is a positive
            of the anchor tell its score, for margins.
        name: The recipe they are for, or its name; samplers with it draw from them.
        scorer: What they are called, as in ``dp.mined(scorer)``.
        source: Only rows of this source.
        split: Only rows of this split.
        depth: How many candidates an anchor keeps, the best, 1 to 2,048.
        progress: As for ``mine``.

    Raises:
        RecipeError: The table or an argument is wrong.
    """
    database, started = corpus.database, time.monotonic()
    splits.need_splits(database)
    version = records.current_version(database)
    recipe = recipe_store.find(database, name, version) if isinstance(name, str) else name
    if not isinstance(recipe, TripletRecipe):
        raise RecipeError(f"recipe {recipe.name!r} makes texts, and only triplets have negatives")
    if scorer == BM25:
        raise RecipeError(f"scorer={scorer!r}: that is what mine() calls its own; give another")
    depth = checked("depth", depth, Annotated[int, Bounds(1, MOST)], RecipeError)
    kept_by = policy_of(recipe.by)
    if kept_by is None or kept_by.scorer != scorer:
        kept_by = Mined(scorer)
    if source is not None:
        recipe_store.check_source(database, source, version)
    split = None if split is None else splits.checked_split(split)
    mined = replace(recipe, by=scorer)
    with store.writing(database) as folder, working(None, progress, "anchors") as work:
        scores = _Scores(database, folder, mined, depth, version, work)
        try:
            rows = scores.stage(table)
            kept = scores.keep(source, split)
        finally:
            database.run("mining/external/drop")
        store.show(database)
    pairs = tuple(report_of(database, mining, kept_by) for mining in kept)
    seconds = round(time.monotonic() - started, 3)
    return GivenReport(pairs=pairs, seconds=seconds, rows=rows, refused=dict(scores.refused))


@dataclass(frozen=True, slots=True)
class _Scores:
    """External scores of one recipe, on their way from a table to minings."""

    database: Database
    folder: ArtifactFolder
    recipe: TripletRecipe
    depth: int
    version: int
    work: Work
    refused: Counter[str] = field(default_factory=Counter)
    by_section: list[bool] = field(default_factory=list)  # of anchors, and of negatives

    def stage(self, table: Any) -> int:
        """Read the table and look up what its rows name; return the number of rows."""
        self.database.run("mining/external/create")
        read = rows = 0
        for block in blocks(table, *_WHAT):
            given = _checked(_expanded(block, read), rows)
            self.by_section[:] = [name in given.column_names for name in (ANCHORS[1], NEGATIVES[1])]
            with self.database.registered(incoming=given):
                self.database.run("mining/external/stage")
            read, rows = read + block.num_rows, rows + given.num_rows
        if not rows:
            raise RecipeError("add_negatives: the table has no rows")
        self.database.run("mining/external/resolve", {"version": self.version})
        return rows

    def keep(self, source: str | None, split: str | None) -> list[Mining]:
        """Store the candidates of every source and split; all replace earlier ones at the end."""
        limits = self.recipe.sources
        done = list[OpenMining]()
        for of_source, of_split, rows in self.database.run("mining/external/pairs"):
            asked = source in (None, of_source) and split in (None, of_split)
            if of_source is None:
                self.refused["unknown anchor"] += rows
            elif of_split is None or not asked or (limits and of_source not in limits):
                self.refused["other source or split"] += rows
            else:
                done += self._store(of_source, of_split)
        if not done:
            reasons = ", ".join(f"{n} {reason}" for reason, n in self.refused.most_common())
            raise RecipeError(
                f"recipe {self.recipe.name!r}: no row names an anchor and a negative of it: "
                f"{reasons}. The id of a record is 'source/key', as in the table records"
            )
        return [mining.finish() for mining in done]

    def _store(self, source: str, split: str) -> Iterator[OpenMining]:
        """Yield a mining to be finished, if there is any candidate."""
        database = self.database
        where: dict[str, Any] = {"source": source, "split": split, "version": self.version}
        labels = labels_of(database, self.version).get(source)
        compiled = compile_pool(self.recipe, **where, labels=labels)
        with PoolReader(database, [compiled]) as reader:
            guards = Guards(database, reader, compiled)
        with database.registered(**self._numbers(guards)):
            database.run("mining/external/judge", {"source": source, "split": split})
        fates = Counter(dict(database.run("mining/external/fates")))
        if not (candidates := fates.pop("candidate", 0)):
            self.refused.update(fates)
            return
        count = len(guards.anchors)
        target = Mining(
            recipe=self.recipe.name,
            source=source,
            split=split,
            scorer=str(self.recipe.by),
            definition=store.definition_of(self.recipe),
            settings={"depth": self.depth},
            content=content_of(database, source, split, self.version),
            corpus_version=self.version,
            anchors=count,
            searched=len(guards.documents),
        )
        opened = OpenMining(self.folder, target, fresh=True)
        positives = np.full(count, np.nan)
        known = database.table("mining/external/positives")
        positives[known["anchor"].to_numpy()] = known["score"].to_numpy()
        database.run("mining/external/rank")
        most = max(1, min(_BLOCK_ROWS * count // candidates, BLOCK_ANCHORS))
        for block in guards.blocks(most=most):
            scores = database.table(
                "mining/external/block", {"start": block.start, "stop": block.stop}
            )
            excluded = guards.exclude(block)
            found = _found(scores, self.depth, block, excluded, positives[block])
            rows = store.rows_of(
                guards.sections.keys, guards.sections.keys[guards.anchors[block]], found
            )
            times = pc.sum(scores["times"]).as_py() or 0
            counts = Counter(store.counts_of(found)) + Counter(fates)
            counts["duplicate row"] = times - scores.num_rows
            opened.append(rows, block.stop - block.start, counts)
            fates.clear()
            self.work.tell(block.stop, count)
        yield opened

    def _numbers(self, guards: Guards) -> dict[str, pa.Table]:
        """Return the number of every anchor and document, and the positives of every record."""
        sections = guards.sections
        of_record = sections.record_keys[sections.records]
        anchors, others = (sections.keys if by else of_record for by in self.by_section)
        owners = sections.record_keys[guards.positives.owners()]
        targets = others[guards.positives.values]
        owners, targets = np.unique(np.stack([owners, targets]), axis=1)
        return {
            "external_anchors": pa.table(
                {"target": anchors[guards.anchors], "anchor": np.arange(len(guards.anchors))}
            ),
            "external_documents": pa.table(
                {"target": others[guards.documents], "document": guards.documents}
            ),
            "external_positives": pa.table({"record_key": owners, "target": targets}),
        }


def _expanded(table: pa.Table, first: int) -> pa.Table:
    """Return a row per document where rows have an anchor with lists."""
    if not {*LISTS} <= {*table.column_names}:
        return table
    query, documents, scores = (table[name].combine_chunks() for name in LISTS)
    for name, column in ((LISTS[1], documents), (LISTS[2], scores)):
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            raise RecipeError(f"add_negatives: {name} is of type {column.type}; give lists")
    sizes, others = (pc.list_value_length(column).to_numpy(False) for column in (documents, scores))
    if (wrong := np.flatnonzero(sizes != others)).size:
        row = int(wrong[0])
        raise RecipeError(
            f"add_negatives: row {first + row} has {sizes[row]} document_ids and {others[row]} "
            f"scores"
        )
    rows = [query.take(pc.list_parent_indices(documents)), documents.flatten(), scores.flatten()]
    return pa.table(dict(zip((ANCHORS[0], NEGATIVES[0], "score"), rows, strict=True)))


def _checked(table: pa.Table, first: int) -> pa.Table:
    """Return anchors, negatives and scores of a block that begins at row ``first``."""
    forms = [(anchor, negative, "score") for anchor in ANCHORS for negative in NEGATIVES]
    names = one_of(forms, table.column_names, *_WHAT)
    rows = typed(table, {name: _KINDS[name] for name in names}, *_WHAT, first)
    usable = pc.less(pc.abs(rows["score"]), _MOST)  # false for NaN
    if (row := pc.index(usable, False).as_py()) >= 0:
        raise RecipeError(
            f"add_negatives: row {first + row} has the score {rows['score'][row].as_py()}; give "
            f"finite numbers"
        )
    return rows


def _found(
    scores: pa.Table, depth: int, block: slice, excluded: Excluded, positives: Floats
) -> TopDocuments:
    """Return the candidates of a block of anchors in the form of a search result."""
    owners = scores["anchor"].to_numpy() - block.start
    documents, values = scores["document"].to_numpy(), scores["score"].to_numpy()
    matched = np.bincount(owners, minlength=len(positives))
    reasons = _reasons(excluded, owners, documents)
    legal = reasons < 0
    guarded = np.zeros((len(REASONS), len(positives)), np.int64)
    np.add.at(guarded, (reasons[~legal], owners[~legal]), 1)
    pairs = owners[legal], documents[legal], values[legal]
    depth = min(depth, int(np.bincount(pairs[0]).max(initial=1)))  # most anchors have far fewer
    return top_of(pairs, positives, depth, matched=matched, guarded=guarded)


def _reasons(excluded: Excluded, owners: Integers, documents: Integers) -> Integers:
    """Return the guard that refuses each pair of an anchor and a document, or -1."""
    listed = [lists for lists in (excluded.documents, excluded.allowed) if lists is not None]
    width = 1 + max(int(of.max(initial=0)) for of in (documents, *(each.values for each in listed)))

    def among(lists: IntegerLists) -> Integers:
        """Return where each pair stands in the lists, or -1."""
        return places(lists.owners() * width + lists.values, owners * width + documents)

    refused = among(excluded.documents)
    reasons = np.full(len(owners), -1, np.int64)
    reasons[refused >= 0] = excluded.reasons[refused[refused >= 0]]
    if excluded.allowed is not None:
        reasons[(refused < 0) & (among(excluded.allowed) < 0)] = REASONS.index("strategy")
    return reasons
