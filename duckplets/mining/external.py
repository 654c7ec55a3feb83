"""Turn a table of anchors, candidates and scores from elsewhere into negatives of a recipe.

    table ─batches→ external_scores ─judge, for each source and split→ candidates by anchor
          ─Guards→ the best of each anchor ─→ NAME.candidates/

Whatever speaks Arrow's stream protocol (tables of pyarrow, pandas, polars, DuckDB) or yields dicts
is read once, a batch at a time. Rows are staged in a temporary table of keys, which DuckDB moves to
disk when they are many; from there on a block of anchors is all that is in memory. What a row names
and the recipe or a guard refuses is counted, by reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.artifacts.folder import ArtifactFolder
from duckplets.base.arrays import Floats, IntegerLists, Integers, places
from duckplets.base.progress import Progress
from duckplets.base.sanitize import listed
from duckplets.base.settings import Bounds, checked
from duckplets.base.stages import stage
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile
from duckplets.engine.work import Work, working
from duckplets.errors import RecipeError, nearest
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import content_of
from duckplets.mining import store
from duckplets.mining.bm25 import TopDocuments
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
SCORE = "score"
LISTS = ("query_id", "document_ids", "scores")  # the same with an anchor a row

_TYPES = {ANCHORS[0]: pa.string(), ANCHORS[1]: pa.int64(), NEGATIVES[0]: pa.string()}
_TYPES |= {NEGATIVES[1]: pa.int64(), SCORE: pa.float64()}
_SCHEMA = pa.schema(_TYPES.items())
_MEANING = {pa.string(): "text", pa.int64(): "integers", pa.float64(): "numbers"}
_ROWS = 1 << 20  # rows per batch: looking up ids reads the ids of all records once
_MOST = 1e300
_DICTS = 1 << 16


def batches(table: Any) -> Iterator[pa.Table]:
    """Yield the rows of a table in batches with all five columns.

    Of ids and section keys the table has the one or the other for anchors, and the one or the
    other for negatives; what it has not is null throughout.

    Raises:
        RecipeError: A column is missing, or holds something else; naming column and row.
    """
    names: Sequence[str] | None = None
    waiting: list[pa.Table] = []
    first = 0
    for batch in map(_expanded, _read(table)):
        names = _chosen(batch.column_names) if names is None else names
        waiting.append(_checked(batch, names, first))
        first += batch.num_rows
        if sum(part.num_rows for part in waiting) >= _ROWS:
            yield from _sliced(waiting)
            waiting = []
    if waiting:
        yield from _sliced(waiting)
    if not first:
        raise RecipeError("the table of negatives has no rows")


def _read(table: Any) -> Iterator[pa.Table]:
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if hasattr(table, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(table)
        for batch in reader:
            yield pa.Table.from_batches([batch])
        return
    if isinstance(table, Mapping | str | bytes) or not isinstance(table, Iterable):
        raise RecipeError(
            f"a table of negatives is a table that speaks Arrow (pyarrow, pandas, polars), or an "
            f"iterable of dicts, not {type(table).__name__}"
        )
    rows = iter(table)
    while chunk := list(islice(rows, _DICTS)):
        yield _of_dicts(chunk)


def _expanded(table: pa.Table) -> pa.Table:
    """Return a row per document where rows have an anchor with lists."""
    if not {*LISTS} <= {*table.column_names}:
        return table
    query, documents, scores = (table[name].combine_chunks() for name in LISTS)
    for name, column in ((LISTS[1], documents), (LISTS[2], scores)):
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            raise _wrong(name, f"{column.type}, not lists")
    sizes, others = (pc.list_value_length(column).to_numpy(False) for column in (documents, scores))
    if (wrong := np.flatnonzero(sizes != others)).size:
        row = int(wrong[0])
        raise RecipeError(
            f"row {row} of the negatives has {sizes[row]} document_ids and {others[row]} scores"
        )
    rows = [query.take(pc.list_parent_indices(documents)), documents.flatten(), scores.flatten()]
    return pa.table(dict(zip((ANCHORS[0], NEGATIVES[0], SCORE), rows, strict=True)))


def _keys(row: Any) -> list[str]:
    if isinstance(row, Mapping):
        return list(row)
    raise RecipeError(f"a row of negatives is a dict, not {type(row).__name__}: {row!r:.80}")


def _of_dicts(rows: list[Any]) -> pa.Table:
    columns = {}
    for name in _keys(rows[0]):
        values = [row.get(name) if isinstance(row, Mapping) else _keys(row) for row in rows]
        if name in (*_TYPES, *LISTS):
            try:
                columns[name] = pa.array(values)
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise _wrong(name, f"mixed values: {error}") from error
        else:
            columns[name] = pa.nulls(len(rows))
    return pa.table(columns)


def _chosen(names: Sequence[str]) -> tuple[str, str, str]:
    """Return the columns to read."""
    anchor, negative = _one_of(ANCHORS, names), _one_of(NEGATIVES, names)
    return anchor, negative, _one_of((SCORE,), names)


def _one_of(choices: tuple[str, ...], names: Sequence[str]) -> str:
    found = [choice for choice in choices if choice in names]
    if len(found) > 1:
        raise RecipeError(f"a table of negatives has either {' or '.join(choices)}, not both")
    if found:
        return found[0]
    others = [name for name in names if name not in _TYPES]
    hint = next(filter(None, (nearest(name, choices) for name in others)), "")
    have = listed(map(repr, names)) or "none"
    raise RecipeError(
        f"a table of negatives needs a column {' or '.join(map(repr, choices))}; it has {have}"
        f"{hint}"
    )


def _checked(batch: pa.Table, names: Sequence[str], first: int) -> pa.Table:
    """Return the chosen columns of a batch beginning at row ``first``, under all five names."""
    columns = {name: _typed(name, batch[name], first) for name in names}
    missing = pa.nulls(batch.num_rows)
    arrays = [columns.get(name, missing.cast(kind)) for name, kind in _TYPES.items()]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _typed(name: str, column: pa.ChunkedArray, first: int) -> pa.ChunkedArray:
    wanted = _TYPES[name]
    if column.null_count:
        raise _wrong(name, f"null in row {first + pc.index(pc.is_null(column), True).as_py()}")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not _fits(kind, wanted):
        raise _wrong(name, str(kind))
    try:
        column = column.cast(wanted)
    except pa.ArrowException as error:
        raise _wrong(name, str(error)) from error
    if wanted == pa.float64():
        usable = pc.less(pc.abs(column), _MOST)  # false for NaN
        if not pc.all(usable, min_count=0).as_py():
            row = pc.index(usable, False).as_py()
            raise _wrong(name, f"{column[row].as_py()} in row {first + row}")
    return column


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted == pa.string():
        text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        return any(is_text(kind) for is_text in text)
    if wanted == pa.int64():
        return bool(pa.types.is_integer(kind))
    number = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
    return any(is_number(kind) for is_number in number)


def _wrong(name: str, what: str) -> RecipeError:
    meaning = _MEANING.get(_TYPES.get(name), "lists")
    example = ", as in 'source/key'" if meaning == "text" else ""
    return RecipeError(
        f"column {name!r} of the negatives holds {what}; it must be {meaning}{example}"
    )


def _sliced(parts: list[pa.Table]) -> Iterator[pa.Table]:
    whole = pa.concat_tables(parts)
    for start in range(0, whole.num_rows, _ROWS):
        yield whole.slice(start, _ROWS).combine_chunks()


_BLOCK_ROWS = 1 << 20
_STAGED = (
    "mining/external/drop_scores",
    "mining/external/drop_entries",
    "mining/external/drop_ranked",
)


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
        table: Rows of ``anchor_id``, ``negative_id`` (record ids) and ``score``: an Arrow
            table or reader, a data frame, or dicts. For scores of sections,
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
            for statement in _STAGED:
                database.run(statement)
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
        rows = 0
        for batch in batches(table):
            if not rows:
                names = (ANCHORS[1], NEGATIVES[1])
                self.by_section[:] = [not batch[name].null_count for name in names]
            with self.database.registered(external_rows=batch):
                self.database.run("mining/external/stage", {"version": self.version})
            rows += batch.num_rows
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


def _found(
    scores: pa.Table, depth: int, block: slice, excluded: Excluded, positives: Floats
) -> TopDocuments:
    """Return the candidates of a block of anchors in the form of a search result."""
    owners = scores["anchor"].to_numpy() - block.start
    documents, values = scores["document"].to_numpy(), scores["score"].to_numpy()
    matched = np.bincount(owners, minlength=len(positives))
    reasons = _reasons(excluded, owners, documents)
    legal = reasons < 0
    guarded = np.zeros((len(REASONS) + 1, len(positives)), np.int64)
    np.add.at(guarded, (reasons[~legal], owners[~legal]), 1)
    owners, documents, values = owners[legal], documents[legal], values[legal]
    better = np.bincount(owners[values > positives[owners]], minlength=len(positives))
    place = np.arange(len(owners)) - np.searchsorted(owners, owners)
    near = place < depth
    cells = (owners[near], place[near])
    shape = (len(positives), int(cells[1].max(initial=0)) + 1)
    best, best_scores = np.full(shape, -1, np.int64), np.zeros(shape)
    best[cells], best_scores[cells] = documents[near], values[near]
    ranks = np.where(np.isnan(positives), 0, better + 1)
    return TopDocuments(best, best_scores, matched, guarded, positives, ranks)


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
