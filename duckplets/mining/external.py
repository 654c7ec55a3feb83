"""Turn a table of anchors, candidates and scores from elsewhere into negatives of a recipe.

    table ─batches→ external_scores ─judge, for each source and split→ candidates by anchor
          ─Guards, settings→ mined_negatives

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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Floats, IntegerLists, Integers, places
from duckplets.base.progress import Progress
from duckplets.base.sanitize import listed
from duckplets.base.settings import from_plain, to_plain
from duckplets.db.database import Database
from duckplets.db.writes import CorpusFile, changes
from duckplets.engine.work import Work, working
from duckplets.errors import RecipeError, nearest
from duckplets.ingest import records, splits
from duckplets.mining.backfill import rows_of
from duckplets.mining.bm25 import SCALE, TopDocuments
from duckplets.mining.cutoffs import ceilings, count_above, count_below
from duckplets.mining.guards import REASONS, Excluded, Guards
from duckplets.mining.report import MiningReport, PairReport
from duckplets.mining.store import OpenMining, Target
from duckplets.pools.compile import compile_pool
from duckplets.pools.read import PoolReader, labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.bm25 import Bm25, RangeOn, Sampling, given_settings, settled
from duckplets.recipes.bm25 import WhenShort as Policy
from duckplets.recipes.recipes import TripletRecipe

ANCHORS = ("anchor_id", "anchor_section_key")
NEGATIVES = ("negative_id", "negative_section_key")
SCORE = "score"

_TYPES = {ANCHORS[0]: pa.string(), ANCHORS[1]: pa.int64(), NEGATIVES[0]: pa.string()}
_TYPES |= {NEGATIVES[1]: pa.int64(), SCORE: pa.float64()}
_SCHEMA = pa.schema(_TYPES.items())
_MEANING = {pa.string(): "text", pa.int64(): "integers", pa.float64(): "numbers"}
_ROWS = 1 << 20  # rows a batch: looking up its ids reads the ids of all records once
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
    for batch in _read(table):
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
    names: Sequence[str] | None = None
    while chunk := list(islice(rows, _DICTS)):
        names = _chosen(_keys(chunk[0])) if names is None else names
        yield _of_dicts(chunk, names)


def _keys(row: Any) -> list[str]:
    if isinstance(row, Mapping):
        return list(row)
    raise RecipeError(f"a row of negatives is a dict, not {type(row).__name__}: {row!r:.80}")


def _of_dicts(rows: list[Any], names: Sequence[str]) -> pa.Table:
    columns = {}
    for name in names:
        values = [row.get(name) if isinstance(row, Mapping) else _keys(row) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise _wrong(name, f"mixed values: {error}") from error
    return pa.table(columns)


def _chosen(names: Sequence[str]) -> tuple[str, str, str]:
    """Return which of the columns to read."""
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
    """Return the chosen columns of a batch that begins at row ``first``, with all five names."""
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
    meaning = _MEANING[_TYPES[name]]
    example = ", as in 'source/key'" if meaning == "text" else ""
    return RecipeError(
        f"column {name!r} of the negatives holds {what}; it must be {meaning}{example}"
    )


def _sliced(parts: list[pa.Table]) -> Iterator[pa.Table]:
    whole = pa.concat_tables(parts)
    for start in range(0, whole.num_rows, _ROWS):
        yield whole.slice(start, _ROWS).combine_chunks()


_BLOCK_ROWS = 1 << 20
_BLOCK_ANCHORS = 2048
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
        """What became of every row.

        Where a row names records of which the recipe knows several sections, it counts once for
        each pair of these.
        """
        counts = Counter(self.refused)
        for pair in self.pairs:
            counts.update(pair.counts)
        return dict(counts)


@changes("add negatives to")
def add_negatives(
    corpus: CorpusFile,
    /,
    table: Any,
    *,
    name: str | TripletRecipe,
    source: str | None = None,
    split: str | None = None,
    top_k: int | None = None,
    range_min: int | None = None,
    range_max: int | None = None,
    min_score: float | None = None,
    max_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    range_on: RangeOn | None = None,
    sampling: Sampling | None = None,
    rotation: int | None = None,
    when_short: Policy | None = None,
    progress: Progress | bool | None = None,
) -> GivenReport:
    """Take negatives that something else has ranked, under the same guards as mined ones.

    Args:
        table: Rows of ``anchor_id``, ``negative_id`` (record ids) and ``score``: an Arrow
            table or reader, a data frame, or dicts. For scores of sections,
            ``anchor_section_key`` and ``negative_section_key`` instead. Rows whose negative
            is a positive of the anchor tell its score, for margins.
        name: The recipe they are for, or its name; samplers with it draw from them.
        source: Only rows of this source.
        split: Only rows of this split.
        top_k: As for ``mine``, like the others up to ``when_short``. What a recipe says
            itself, in ``by=dp.bm25(...)``, holds.
        range_min: As for ``mine``.
        range_max: As for ``mine``.
        min_score: As for ``mine``.
        max_score: As for ``mine``.
        absolute_margin: As for ``mine``.
        relative_margin: As for ``mine``.
        range_on: As for ``mine``.
        sampling: As for ``mine``.
        rotation: As for ``mine``.
        when_short: As for ``mine``.
        progress: As for ``mine``.

    Raises:
        RecipeError: The table or an argument is wrong.
    """
    settings = given_settings(locals())
    database, started = corpus.database, time.monotonic()
    splits.need_splits(database)
    version = records.current_version(database)
    recipe = recipe_store.find(database, name, version) if isinstance(name, str) else name
    if not isinstance(recipe, TripletRecipe):
        raise RecipeError(f"recipe {recipe.name!r} makes texts, and only triplets have negatives")
    chosen = _choosing(recipe, settings)
    if source is not None:
        recipe_store.check_source(database, source, version)
    mined = recipe if recipe.mined else replace(recipe, by="bm25")
    with working(None, progress, "anchors") as work:
        scores = _Scores(database, mined, chosen, version, work)
        try:
            rows = scores.stage(table)
            pairs = scores.keep(source, None if split is None else splits.checked_split(split))
        finally:
            for statement in _STAGED:
                database.run(statement)
    seconds = round(time.monotonic() - started, 3)
    return GivenReport(pairs=pairs, seconds=seconds, rows=rows, refused=dict(scores.refused))


class _Scores:
    """The external scores of one recipe, on their way from a table to its minings."""

    def __init__(
        self,
        database: Database,
        recipe: TripletRecipe,
        settings: Bm25,
        version: int,
        work: Work,
    ) -> None:
        self.database, self.recipe, self.settings = database, recipe, settings
        self.version, self.work = version, work
        self.refused: Counter[str] = Counter()
        self.by_section = (False, False)

    def stage(self, table: Any) -> int:
        """Read the table and look up what its rows name; return how many rows there are."""
        self.database.run("mining/external/create")
        rows = 0
        for batch in batches(table):
            if not rows:
                names = (ANCHORS[1], NEGATIVES[1])
                self.by_section = (not batch[names[0]].null_count, not batch[names[1]].null_count)
            with self.database.registered(external_rows=batch):
                self.database.run("mining/external/stage", {"version": self.version})
            rows += batch.num_rows
        return rows

    def keep(self, source: str | None, split: str | None) -> tuple[PairReport, ...]:
        """Store the negatives of every source and split; all replace earlier ones at the end."""
        with self.database.transaction():
            self.database.run("mining/mine/hash_texts")
        limits = self.recipe.sources
        done = []
        for of_source, of_split, rows in self.database.run("mining/external/pairs"):
            asked = source in (None, of_source) and split in (None, of_split)
            if of_source is None:
                self.refused["unknown anchor"] += rows
            elif of_split is None or not asked or (limits and of_source not in limits):
                self.refused["other source or split"] += rows
            elif (pair := _Pair(self, of_source, of_split)).is_of_use:
                done.append(pair.store())
            else:
                self.refused.update(pair.fates)
        if not done:
            raise self._useless()
        return tuple(mining.finish() for mining in done)

    def _useless(self) -> RecipeError:
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.refused.most_common())
        return RecipeError(
            f"recipe {self.recipe.name!r}: no row names an anchor and a negative of it: {reasons}. "
            f"The id of a record is 'source/key', as in the table records"
        )


class _Pair:
    """The external scores of one source and split."""

    def __init__(self, scores: _Scores, source: str, split: str) -> None:
        self._started = time.monotonic()
        self._scores = scores
        self._database, self._settings = scores.database, scores.settings
        where: dict[str, Any] = {"source": source, "split": split, "version": scores.version}
        labels = labels_of(scores.database, scores.version).get(source)
        compiled = compile_pool(scores.recipe, **where, labels=labels)
        with PoolReader(self._database, [compiled]) as reader:
            self._guards = Guards(self._database, reader, compiled)
        self._target = Target(
            recipe=scores.recipe,
            method="given",
            settings={"bm25": to_plain(self._settings, defaults=False)},
            anchors=len(self._guards.anchors),
            searched=len(self._guards.documents),
            **where,
        )
        with self._database.registered(**self._numbers()):
            self._database.run("mining/external/judge", {"source": source, "split": split})
        self.fates = Counter(dict(self._database.run("mining/external/fates")))

    @property
    def is_of_use(self) -> bool:
        """Whether there is any candidate."""
        return self.fates["candidate"] > 0

    def store(self) -> OpenMining:
        """Store the candidates that are kept, block by block, in a mining yet to be finished."""
        database = self._database
        positives = np.full(len(self._guards.anchors), np.nan)
        known = database.table("mining/external/positives")
        positives[known["anchor"].to_numpy()] = known["score"].to_numpy()
        database.run("mining/external/rank")
        mining = OpenMining(database, self._target, fresh=True)
        candidates = self.fates.pop("candidate")  # they are counted by what becomes of them
        mining.counts.update(self.fates)
        most = max(1, _BLOCK_ROWS * len(positives) // candidates)
        for block in self._guards.blocks(most=min(most, _BLOCK_ANCHORS)):
            excluded = self._guards.exclude(block)
            stretch = {"start": block.start, "stop": block.stop}
            scores = database.table("mining/external/block", stretch)
            found = _found(scores, self._settings, block, excluded, positives[block])
            anchors, negatives, counts = rows_of(
                self._settings, self._guards, block, excluded, found
            )
            counts["duplicate row"] = (pc.sum(scores["times"]).as_py() or 0) - scores.num_rows
            mining.seconds = time.monotonic() - self._started
            mining.append(anchors, negatives, counts)
            self._scores.work.tell(block.stop, len(self._guards.anchors))
        return mining

    def _numbers(self) -> dict[str, pa.Table]:
        """Return the number of every anchor and document, and the positives of every record."""
        guards, sections = self._guards, self._guards.sections
        of_record = sections.record_keys[sections.records]
        anchors, others = (sections.keys if by else of_record for by in self._scores.by_section)
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


def _choosing(recipe: TripletRecipe, given: Mapping[str, Any]) -> Bm25:
    """Return what chooses among scores that came from elsewhere, as ``mine`` would have it."""
    asked = from_plain(Bm25, given, RecipeError, "bm25")
    by = recipe.by.choosing() if isinstance(recipe.by, Bm25) else recipe.by
    return settled(recipe.name, by, asked if given else None)


def _found(
    scores: pa.Table, settings: Bm25, block: slice, excluded: Excluded, positives: Floats
) -> TopDocuments:
    """Return the candidates of a block of anchors as a search would have found them."""
    owners = scores["anchor"].to_numpy() - block.start
    documents, values = scores["document"].to_numpy(), scores["score"].to_numpy()
    matched = np.bincount(owners, minlength=len(positives))
    reasons = _reasons(excluded, owners, documents)
    legal = reasons < 0
    guarded = np.zeros((len(REASONS) + 1, len(positives)), np.int64)
    np.add.at(guarded, (reasons[~legal], owners[~legal]), 1)
    owners, documents, values = owners[legal], documents[legal], values[legal]
    starts = np.searchsorted(owners, np.arange(len(positives) + 1))
    above = count_above(ceilings(settings, positives), starts, values)
    known = ~np.isnan(positives)
    better = count_above(np.where(known, positives, np.inf)[None], starts, values)[0]
    # The first rows suffice that no ceiling removes.
    place = np.arange(len(owners)) - (starts[:-1] + above.max(axis=0))[owners]
    near = (place >= 0) & (place < settings.range_min + settings.top_k)
    cells = (owners[near], place[near])
    shape = (len(positives), int(cells[1].max(initial=-1)) + 1)
    best = np.full(shape, -1, np.int64)
    best_scores: Any = np.zeros(shape)
    best[cells] = documents[near]
    # Scores are kept in units: a power of two, which takes nothing from a float.
    best_scores[cells] = values[near] * SCALE
    return TopDocuments(
        documents=best,
        scores=best_scores,
        matched=matched,
        guarded=guarded,
        above=above,
        below=count_below(settings, starts, values),
        positive_scores=positives,
        positive_ranks=np.where(known, better + 1, 0),
    )


def _reasons(excluded: Excluded, owners: Integers, documents: Integers) -> Integers:
    """Return which guard refuses each pair of an anchor and a document, or -1."""
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
