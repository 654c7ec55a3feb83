"""Store mined candidates uncut, in files next to the corpus, and find them again.

    blocks of anchors ─256k rows at a time→ NAME.candidates/part-….parquet ─named in→ mining-….json
                         every positive →  NAME.candidates/positives-….parquet ─┘
    manifests ─newest of each recipe, source, split, scorer→ Minings ─of a ground→ samplers, exports

A mining is one (recipe, source, split, scorer); its key counts up. Records, the recipe's selectors
and strategy, and settings determine it. New runs use the newest. Older files stay for pinned runs
until the corpus is compacted. The ground of a mining is the set of possible negatives. Every recipe
with the same ground draws from its candidates, whatever its name, and applies its own law.

Every anchor keeps its best candidates to a depth. Each row repeats the score and rank of the
anchor's positive, so a policy is a filter over rows (``policy``). Rows are sorted by anchor and
rank. Keys and ranks are stored as deltas and scores split by bytes: 4.5 bytes a candidate on
WordNet. An anchor without candidates has one row of rank 0.

The manifest names a part when its file is complete, so a killed mining continues after the last
part. One process mines at a time.
"""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.artifacts.folder import ArtifactFolder, FileEntry, damaged, new_path
from duckplets.base.arrays import Integers, turns
from duckplets.base.atomic import naming
from duckplets.base.names import inside
from duckplets.base.sanitize import listed
from duckplets.db import files
from duckplets.db.database import Database
from duckplets.errors import DamagedFileError, QueryError, StateMismatchError
from duckplets.ingest import records
from duckplets.ingest.chunks import content_of
from duckplets.mining.blocks import REASONS, RankedPositives, TopDocuments
from duckplets.order.permute import mix
from duckplets.pools.compile import Ranked, compile_pool
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import to_dict
from duckplets.recipes.mined import Mined, no_scorer
from duckplets.recipes.recipes import Recipe, TextRecipe, TripletRecipe

SCHEMA = pa.schema(
    {
        "anchor_section_key": pa.int64(),
        "rank": pa.int32(),
        "negative_section_key": pa.int64(),
        "score": pa.float64(),
        "positive_score": pa.float64(),
        "positive_rank": pa.int32(),
    }
)
_ENCODED = {
    **dict.fromkeys(SCHEMA.names[:3], "DELTA_BINARY_PACKED"),
    "score": "BYTE_STREAM_SPLIT",
}
_REPEATED = SCHEMA.names[4:]  # equal for all rows of an anchor
POSITIVES = pa.schema(
    {
        "anchor_section_key": pa.int64(),
        "positive_section_key": pa.int64(),
        "score": pa.float64(),
        "rank": pa.int32(),
    }
)
_FORMAT = 2
_Kind = Literal["file", "positives"]
MANIFEST = "mining-{:06}.json"
_PART_ROWS, _PART_SECONDS = 1 << 18, 20.0  # size of a part: a kill loses at most this much
_DRAWING = {  # fields of a recipe that do not affect legality
    *("kind", "name", "by", "negatives_from", "when_short", "weight", "share", "instruction"),
    *("per", "sources", "consistent"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mining:
    """Describe the mining of one recipe, source and split by one scorer, as in its manifest."""

    key: int = 0  # its number, which counts up
    recipe: str
    source: str
    documents: str = ""  # the source of searched documents; empty for its own records
    split: str
    scorer: str
    definition: dict[str, Any]  # the recipe fields that determine it
    settings: dict[str, Any]  # of the search
    content: str  # fingerprint of its records
    corpus_version: int
    anchors: int  # sections
    searched: int  # documents that may be negatives
    parts: list[dict[str, Any]] = field(default_factory=list)  # file, anchors, candidates, sum
    counts: dict[str, int] = field(default_factory=dict)  # documents by outcome
    seconds: float = 0.0
    finished_at: str = ""  # UTC; empty before the end

    @property
    def pair(self) -> tuple[str, str, str, str]:
        """Its subject: a later mining of the same subject replaces it."""
        return self.recipe, self.source, self.split, self.scorer

    @property
    def candidates(self) -> int:
        """Number of candidates of all anchors."""
        return sum(part["candidates"] for part in self.parts)

    @property
    def done(self) -> int:
        """Number of anchors that were searched so far."""
        return sum(part["anchors"] for part in self.parts)

    @property
    def digest(self) -> str:
        """Digest of the candidates; the division into parts does not change it."""
        total = sum(part["sum"] for part in self.parts) % (1 << 64)
        return f"{self.anchors:x}:{self.candidates:x}:{total:016x}"

    def files(self, folder: ArtifactFolder, kind: _Kind = "file") -> list[str]:
        """Return the paths of its parts: candidates, or ``positives`` with score and rank."""
        paths = []
        for part in self.parts:
            entry = FileEntry(**part[kind])
            path = inside(folder.path, entry.name, DamagedFileError)
            size = path.stat().st_size if path.is_file() else 0
            if size != entry.size:
                raise damaged(path, f"it has {size:,} bytes instead of {entry.size:,}")
            paths.append(str(path))
        return paths

    def inputs(self) -> tuple[Any, ...]:
        """Return everything that determines its candidates."""
        return (*self.pair, self.definition, self.settings, self.content, self.anchors)


class Minings:
    """Look up the minings in the folder of a corpus."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.folder = folder_of(database)
        every, self.damaged = minings_in(self.folder)
        self.finished = {mining.key: mining for mining in every if mining.finished_at}
        self._newest: list[Mining] = []
        self._places = defaultdict[tuple[str, str], list[Mining]](list)
        if self.finished:
            sources = recipe_store.sources_of(database, records.current_version(database))
            newest = {m.pair: m for m in self.finished.values() if m.source in sources}
            self._newest = sorted(newest.values(), key=lambda mining: mining.key)
        for mining in self._newest:
            self._places[mining.source, mining.split].append(mining)

    def found(
        self,
        recipe: str | None = None,
        *,
        source: str | None = None,
        split: str | None = None,
        scorer: str | None = None,
    ) -> list[Mining]:
        """Return the minings that new runs would use, stale ones included, by key."""
        wanted = (recipe, source, split, scorer)
        return [
            mining
            for mining in self._newest
            if all(want in (None, own) for want, own in zip(wanted, mining.pair, strict=True))
        ]

    def serving(self, recipe: Recipe, source: str, split: str) -> dict[str, Mining]:
        """Return the mining that a recipe draws from, by scorer, the newest last."""
        here = self._places.get((source, split), [])
        if not here or not isinstance(recipe, TripletRecipe):
            return {}
        ground = _ground(definition_of(recipe))
        same = [mining for mining in here if _ground(mining.definition) == ground]
        by_scorer = defaultdict[str, list[Mining]](list)
        for mining in same or [mining for mining in here if mining.recipe == recipe.name]:
            by_scorer[mining.scorer].append(mining)
        fullest = (self._fullest(recipe, minings) for minings in by_scorer.values())
        return {mining.scorer: mining for mining in sorted(fullest, key=lambda m: m.key)}

    def _fullest(self, recipe: TripletRecipe, minings: Sequence[Mining]) -> Mining:
        """Return the mining with most anchors of a recipe, then the newest."""
        own = definition_of(recipe)
        same = [mining for mining in minings if mining.definition == own]
        same = same or [m for m in minings if m.definition["anchor"] == own["anchor"]]
        if len(minings) == 1 or same:
            return (same or minings)[-1]
        where: dict[str, Any] = {"source": minings[0].source, "split": minings[0].split}
        where["version"] = records.current_version(self._database)
        anchors = compile_pool(TextRecipe("anchors", recipe.anchor), **where)
        sections = self._database.arrow(*anchors.statement("anchors", staged=False))
        covered = list[int]()
        with self._database.registered(wanted=sections):
            for mining in minings:
                files = {"files": mining.files(self.folder)}
                rows = self._database.run("mining/store/covered", files) if mining.parts else [(0,)]
                covered.append(rows[0][0])
        return minings[max(range(len(minings)), key=lambda at: (covered[at], minings[at].key))]

    def drawn_by(
        self, recipe: Recipe, source: str | None = None, split: str | None = None
    ) -> list[Mining]:
        """Return the minings that a recipe draws from, of all sources and splits or of one."""
        return [
            mining
            for place in self._places
            if source in (None, place[0]) and split in (None, place[1])
            for mining in self.serving(recipe, *place).values()
        ]

    def as_drawn(self, recipe: Recipe, source: str, split: str) -> Recipe:
        """Return a recipe with the scorer that a new run uses for a source; see ``as_drawn``."""
        return as_drawn(recipe, next(reversed(self.serving(recipe, source, split)), None))

    def ranking(
        self,
        recipe: TripletRecipe,
        *,
        source: str,
        split: str,
        version: int,
        allow_stale: bool = False,
    ) -> Mining:
        """Return the mining that ranks the positives of a recipe with a consistency filter."""
        if (filtered := recipe.consistent) is None:
            raise AssertionError(recipe)
        scorer = filtered.scorer
        found = self.serving(recipe, source, split).get(scorer)
        if found is None:
            own = definition_of(recipe)
            for mining in self._places.get((source, split), []):
                is_same = all(mining.definition[n] == own[n] for n in ("anchor", "positive"))
                if mining.scorer == scorer and is_same:
                    found = mining
        what = f"consistent={scorer!r}: source {source!r}, split {split!r}"
        command = mine_command(self._database, recipe.name)
        if found is None:
            if self.damaged:
                raise self.damaged[0]
            raise StateMismatchError(
                f"{what}: it has not ranked the positives of recipe {recipe.name!r}; call "
                f"corpus.mine({recipe.name!r}, by=…), or run: {command} --by {scorer}"
            )
        if not allow_stale and (why := stale(self._database, found, None, version=version)):
            raise StateMismatchError(
                f"{what}: the ranks of positives are stale, {why}; run: {command}"
            )
        return found

    def ranks(self, mining: Mining) -> Ranked:
        """Return the files with the ranks of positives, for a pool."""
        return Ranked(mining.key, tuple(mining.files(self.folder, "positives")))

    def ranks_of(self, recipe: Recipe, **where: Any) -> Ranked | None:
        """Return the ranks for a recipe's consistency filter, or None without a filter."""
        if not isinstance(recipe, TripletRecipe) or recipe.consistent is None:
            return None
        return self.ranks(self.ranking(recipe, **where))

    def by_key(self, key: int) -> Mining:
        """Return a finished mining, newest or not."""
        if key not in self.finished:
            raise next(iter(self.damaged), None) or StateMismatchError(
                f"the negatives this run draws from (mining {key}) are not in "
                f"{self.folder.path}; it is another corpus, or they were deleted"
            )
        return self.finished[key]

    def current(
        self,
        recipe: TripletRecipe,
        *,
        source: str,
        split: str,
        version: int,
        scorer: str | None = None,
        allow_stale: bool = False,
        instead: str = "",
    ) -> Mining:
        """Return the mining that a new run of a recipe draws from: its scorer's, or the newest."""
        minings = self.serving(recipe, source, split)
        what = f"recipe {recipe.name!r}, source {source!r}, split {split!r}"
        command = mine_command(self._database, recipe.name)
        way = f"call corpus.mine({recipe.name!r}), or run: {command}"
        if scorer is None and len(minings) > 1:
            first, *_ = names = sorted(minings)
            even = {name: round(1 / len(names), 3) for name in names}
            raise StateMismatchError(
                f"{what}: {listed(names)} have candidates; choose one: "
                f"negatives=dp.Negatives(by={first!r}), or by={even}"
            )
        mining = next(iter(minings.values()), None) if scorer is None else minings.get(scorer)
        if mining is None:
            if self.damaged:
                raise self.damaged[0]
            why = "no negatives have been mined yet"
            if minings and scorer is not None:
                why = no_scorer(scorer, minings)
            raise StateMismatchError(f"{what}: {why}; {way}")
        reason = stale(self._database, mining, recipe, version=version)
        if reason and not allow_stale:
            raise StateMismatchError(
                f"{what}: the mined negatives are stale, {reason}; {way}{instead}"
            )
        return mining


def minings_in(folder: ArtifactFolder) -> tuple[list[Mining], list[DamagedFileError]]:
    """Return all minings by key, also unfinished ones, and the errors of damaged manifests."""
    minings, errors = list[Mining](), list[DamagedFileError]()
    for name in folder.manifests():
        try:
            if (manifest := folder.read(name)) is not None:
                minings.append(Mining(**manifest))
        except DamagedFileError as error:
            errors.append(error)
    return minings, errors


def folder_of(database: Database) -> ArtifactFolder:
    """Return the folder of a corpus's candidates, which may not exist."""
    return folder_at(Path(str(database.path)))


def folder_at(corpus: Path) -> ArtifactFolder:
    """Return the folder of the candidates of the corpus at a path, which may not exist."""
    path = files.next_to(corpus, files.CANDIDATES).absolute()
    return ArtifactFolder(path, "mined candidates", r"mining-[0-9]{6,}\.json", _FORMAT)


def mine_command(database: Database, recipe: str) -> str:
    """Return the command that mines the negatives of a recipe."""
    return shlex.join(["duckplets", "mine", str(database.path), recipe])


def content(database: Database, source: str, documents: str, split: str, version: int) -> str:
    """Return a fingerprint of the records of anchors, and of their documents."""
    own = content_of(database, source, split, version)
    return f"{own}+{content_of(database, documents, 'every', version)}" if documents else own


def stale(database: Database, mining: Mining, recipe: TripletRecipe | None, *, version: int) -> str:
    """Return why a mining does not fit a version and a recipe any more, or an empty text."""
    where = mining.source, mining.documents, mining.split
    if mining.content != content(database, *where, version):
        return (
            f"records have changed since corpus version {mining.corpus_version}, or their cleaning "
            f"has"
        )
    if recipe is None:
        return ""
    was, now = _ground(mining.definition), _ground(definition_of(recipe))
    differ = [name for name in now | was if was.get(name) != now.get(name)]
    return f"the recipe has changed: {', '.join(differ)}" if differ else ""


def definition_of(recipe: TripletRecipe) -> dict[str, Any]:
    """Return the recipe fields that determine legal negatives."""
    return {name: value for name, value in to_dict(recipe).items() if name not in _DRAWING}


def _ground(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a definition that determine the documents, whatever the anchor."""
    found = {name: definition.get(name) for name in ("negative", "strategy")}
    is_plain = found["strategy"] == "question_answer_mismatch"
    return found | ({"strategy": "other_record"} if is_plain else {})


def as_drawn(
    recipe: Recipe, scorer: str | None, policy: Callable[[str], Mined | None] | None = None
) -> Recipe:
    """Return a recipe with the scorer and policy of a run, where the recipe sets none."""
    if scorer is None or not isinstance(recipe, TripletRecipe):
        return recipe
    is_open = recipe.by is None and recipe.minable
    if policy and (is_open or recipe.mined) and (of_run := policy(scorer)):
        return replace(recipe, by=of_run)
    return replace(recipe, by=Mined(scorer)) if is_open else recipe


# -- writing --------------------------------------------------------------------------------------


@contextmanager
def writing(database: Database) -> Iterator[ArtifactFolder]:
    """Lock the folder of candidates for writing, one process at a time."""
    folder = folder_of(database)
    try:
        with folder.locked():
            folder.sweep()
            yield folder
    except OSError as error:
        where = error.filename or folder.path
        raise QueryError(
            f"mining cannot write to {where}: {error.strerror or error}; finished "
            f"parts are stored, and the next call continues after them"
        ) from error


class OpenMining:
    """Write a mining part by part: start or continue it, and finish it."""

    def __init__(self, folder: ArtifactFolder, target: Mining, *, fresh: bool = False) -> None:
        self._folder, self._rows = folder, list[pa.Table]()  # not written yet
        self._positives = list[pa.Table]()
        self._anchors, self._since = 0, time.monotonic()  # of these rows; of the last part
        last = max((int(name[7:-5]) for name in folder.manifests()), default=0)
        self.mining = replace(target, key=last + 1)
        for stored in minings_in(folder)[0]:
            if stored.pair != target.pair or stored.finished_at:
                continue
            if stored.inputs() == target.inputs() and not fresh:
                self.mining = stored
            else:
                (folder.path / MANIFEST.format(stored.key)).unlink()
        if self.mining.key > last:
            self._write_manifest()
        self._counts = Counter(self.mining.counts)

    def append(
        self, rows: pa.Table, positives: pa.Table, anchors: int, counts: Mapping[str, int]
    ) -> None:
        """Add the rows of the next anchors, and counts of documents by outcome."""
        self._rows.append(rows)
        self._positives.append(positives)
        self._anchors += anchors
        self._counts.update(counts)
        late = time.monotonic() - self._since > _PART_SECONDS
        if late or sum(table.num_rows for table in self._rows) >= _PART_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the waiting rows as a part, so that a later call continues after it."""
        if not self._rows:
            return
        rows, anchors = pa.concat_tables(self._rows).cast(SCHEMA).combine_chunks(), self._anchors
        positives = pa.concat_tables(self._positives)
        # a second call does not write rows whose write failed
        self._rows, self._positives, self._anchors = [], [], 0
        part = {
            "file": self._written("part", rows, use_dictionary=_REPEATED, column_encoding=_ENCODED),
            "positives": self._written("positives", positives),
            "anchors": anchors,
            "candidates": int(np.count_nonzero(rows["rank"].to_numpy())),
            "sum": _sum(rows),
        }
        parts = [*self.mining.parts, part]
        self.mining = replace(self.mining, parts=parts, counts=dict(self._counts))
        self._write_manifest()

    def _written(self, kind: str, rows: pa.Table, **options: Any) -> dict[str, Any]:
        """Write rows to a new file, and return its entry."""
        import pyarrow.parquet as pq  # not loaded by samplers

        path = new_path(self._folder.path, kind, ".parquet")
        with naming(path), path.open("wb") as file:
            pq.write_table(rows, file, compression="zstd", row_group_size=_PART_ROWS, **options)
            file.flush()
            os.fsync(file.fileno())
        return asdict(FileEntry.of(path))

    def finish(self) -> Mining:
        """Write the last part; new runs draw from the mining from now on."""
        self.flush()
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        self.mining = replace(self.mining, finished_at=now)
        self._write_manifest()
        return self.mining

    def _write_manifest(self) -> None:
        seconds = self.mining.seconds + time.monotonic() - self._since
        self.mining, self._since = replace(self.mining, seconds=round(seconds, 3)), time.monotonic()
        self._folder.write(MANIFEST.format(self.mining.key), asdict(self.mining))


def candidate_table(keys: Integers, anchors: Integers, found: TopDocuments) -> pa.Table:
    """Return the candidates of anchors (section keys); ``keys`` are the documents' section keys."""
    counts = np.bincount(found.owners, minlength=len(anchors))
    none = np.flatnonzero(counts == 0)  # these anchors get one row of rank 0
    at = np.searchsorted(found.owners, none)
    owners = np.insert(found.owners, at, none)
    lowest, ranks = (values[owners] for values in found.positives.lowest(len(anchors)))
    columns = {
        "anchor_section_key": anchors[owners],
        "rank": np.insert(turns(found.owners) + 1, at, 0).astype(np.int32),
        "negative_section_key": np.insert(keys[found.documents], at, 0),
        "score": np.insert(found.scores, at, 0.0),
        "positive_score": pa.array(lowest, mask=ranks == 0),
        "positive_rank": pa.array(ranks.astype(np.int32), mask=ranks == 0),
    }
    return pa.table(columns, schema=SCHEMA)


def positive_table(keys: Integers, anchors: Integers, found: RankedPositives) -> pa.Table:
    """Return the positives of anchors, with score and rank; null if they are not ranked."""
    columns = {
        "anchor_section_key": anchors[found.owners],
        "positive_section_key": keys[found.documents],
        "score": pa.array(found.scores, mask=(found.ranks == 0) | np.isnan(found.scores)),
        "rank": pa.array(found.ranks.astype(np.int32), mask=found.ranks == 0),
    }
    return pa.table(columns, schema=POSITIVES)


def counts_of(found: TopDocuments) -> dict[str, int]:
    """Count the documents by outcome; the values add up to all of them."""
    counts, stored = found.guarded.tolist(), len(found.documents)
    others = {"beyond depth": int(found.matched) - sum(counts) - stored, "candidates": stored}
    guarded = dict(zip(REASONS, counts, strict=True))
    if not guarded["labelled"]:  # most corpora have no labels
        del guarded["labelled"]
    return guarded | found.others | others


def _sum(rows: pa.Table) -> int:
    """Return an order-independent digest of rows: a sum of hashes."""
    anchors, ranks, negatives = (rows[n].to_numpy().astype(np.uint64) for n in SCHEMA.names[:3])
    words = mix(mix(mix(anchors) ^ ranks) ^ negatives) ^ rows["score"].to_numpy().view(np.uint64)
    return int(mix(words[ranks > 0]).sum(dtype=np.uint64))
