"""Find records with equal or nearly equal texts, and mark or remove them except one a cluster."""

# Bands only propose candidates. All n-grams of both texts decide, for a signature of 84 numbers
# errs by .04 at .85. The texts of a bucket are compared with the first one, and then with their
# neighbours.

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Floats, Integers, Words, stretches
from duckplets.base.sanitize import Reported, counted
from duckplets.base.settings import checked
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.engine.protocol import Part, mapped
from duckplets.engine.work import Work
from duckplets.errors import SamplerError
from duckplets.ingest.records import current_version
from duckplets.quality.minhash import ALGORITHM, NearSettings, bands_of, grams_of
from duckplets.quality.texts import LiveTexts
from duckplets.quality.verdicts import scratch_of_worker

Action = Literal["mark", "remove"]

_ROWS = 65_536  # rows of buckets processed together
_BYTES = 8 << 20  # bytes of the texts of pairs compared together
_PAIRS = 8_192
_MEMORY = "300MB"  # memory for bands; the others are on disk
_EXAMPLES = 5
_STATEMENTS = "quality/near_dedup/forget", "quality/near_dedup/store"


@dataclass(frozen=True, kw_only=True, slots=True)
class NearReport(Reported):
    """The result of ``deduplicate``.

    Attributes:
        records: Number of records that were compared: all with text.
        clusters: Number of groups of equal or nearly equal records.
        duplicates: Number of records in clusters, without the survivors.
        pairs: Number of candidate pairs that were compared word by word.
        recall: The expected share of pairs of similarity ``near`` that bands propose. It is
            larger for pairs of a higher similarity.
        by_source: For each source and split ``records`` and ``duplicates``.
        examples: The first five clusters: ``survivor`` and ``duplicates``, each a ``record_id``
            with its ``similarity`` to the survivor.
        settings: The settings of the search.
        action: ``mark`` or ``remove``; ``none`` for a dry run.
        version: Version of the corpus that was searched; after a removal, the new version.
        seconds: Wall time.
    """

    records: int
    clusters: int
    duplicates: int
    pairs: int
    recall: float
    by_source: list[dict[str, Any]]
    examples: list[dict[str, Any]] = field(default_factory=list)
    settings: NearSettings
    action: str
    version: int
    seconds: float


def checked_action(action: Any) -> Action:
    """Return the action for found records, or refuse it."""
    return checked("action", action, Action, SamplerError)  # type: ignore[no-any-return]


def deduplicate(
    database: Database,
    settings: NearSettings,
    *,
    action: Action,
    dry_run: bool,
    work: Work,
) -> NearReport:
    """Find clusters of equal or nearly equal records; see ``Corpus.deduplicate``."""
    started = time.monotonic()
    checked_action(action)
    texts = LiveTexts.of(database, current_version(database))
    links = _Links(texts, settings)
    with closing(Database.scratch()) as scratch, scratch.frugal(_MEMORY):
        _note_bands(scratch, texts, settings, work)
        links.join_near(scratch)
    found, version = links.clusters(), texts.version
    gone = found["place"].to_numpy()[~found["survivor"].to_numpy()]
    if not dry_run:
        stored = asdict(settings) | {"algorithm": ALGORITHM}
        rows = found.append_column("record_key", [texts.keys[found["place"].to_numpy()]])
        version = texts.store("deduplicate", _STATEMENTS, gone, rows, action, stored)
    return NearReport(
        records=len(texts.keys),
        clusters=found.num_rows - len(gone),
        duplicates=len(gone),
        pairs=links.compared,
        recall=round(settings.recall, 4),
        by_source=texts.by_source(gone, "duplicates"),
        examples=_examples(texts, found),
        settings=settings,
        action="none" if dry_run else action,
        version=version,
        seconds=round(time.monotonic() - started, 3),
    )


# -- candidates and links -------------------------------------------------------------------------


class _BandsJob(NamedTuple):
    """Settings of band making, and locally a connection."""

    settings: NearSettings
    database: Database | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only."""
        return _BandsJob, (self.settings,)


def _note_bands(
    scratch: Database,
    texts: LiveTexts,
    settings: NearSettings,
    work: Work,
) -> None:
    """Store the bands of every text in the table of buckets."""
    scratch.run("quality/near_dedup/create")
    done = 0

    def part_of(block: tuple[Integers, pa.Array]) -> Part:
        return Part(f"duplicates: {counted(len(block[0]), 'record')}", block[1])

    job = _BandsJob(settings, texts.database)
    with closing(mapped(work.engine, bands_part, job, texts.blocks(), part_of)) as found:
        for (places, _), bands in found:
            place = np.repeat(places, settings.bands)
            with scratch.registered(incoming=pa.table({"bucket": bands.ravel(), "place": place})):
                scratch.run("quality/near_dedup/add")
            done += len(places)
            work.tell(done, len(texts.keys))


def bands_part(job: _BandsJob, texts: pa.Array) -> Words:
    """Return the bands of texts; uint64[texts, bands]."""
    grams = grams_of(job.database or scratch_of_worker(), texts, job.settings.ngram, whole=True)
    return bands_of(grams, job.settings)


class _Links:
    """The clusters of records found so far."""

    def __init__(self, texts: LiveTexts, settings: NearSettings) -> None:
        self.texts = texts
        self.settings = settings
        self.compared = 0
        self.first = np.arange(len(texts.keys))  # first place of each text's cluster
        self.other = self.first.copy()  # an earlier text near to it
        self.similarity = np.ones(len(texts.keys))  # of the two

    def join_near(self, scratch: Database) -> None:
        """Link texts near enough to the first of a bucket, then to earlier neighbours."""
        for pairs in ("firsts", "neighbours"):
            for batch in scratch.stream(query(f"quality/near_dedup/{pairs}"), rows=_ROWS):
                self._compare(batch["one"].to_numpy(), batch["place"].to_numpy())

    def clusters(self) -> pa.Table:
        """Return all linked records by cluster, the survivor first."""
        size = np.bincount(self.first, minlength=len(self.first))
        places = np.flatnonzero(size[self.first] > 1)
        places = places[np.lexsort((places, self.first[places]))]
        head = self.first[places]
        similarity = self.similarity[places]
        others = np.flatnonzero(self.other[places] != head)
        similarity[others] = self._similarities(head[others], places[others])
        columns = {"place": places, "cluster": np.cumsum(np.diff(head, prepend=-1) != 0)}
        return pa.table(columns | {"survivor": places == head, "similarity": similarity})

    def _compare(self, one: Integers, other: Integers) -> None:
        """Compare pairs not yet linked, and link the near ones."""
        sizes = self.texts.sizes[one] + self.texts.sizes[other]
        for part in stretches(sizes, rows=_PAIRS, total=_BYTES):
            first, second = one[part], other[part]
            separate = self.first[first] != self.first[second]  # earlier portions may link them
            first, second = first[separate], second[separate]
            if len(first):
                self.compared += len(first)
                found = self._similarities(first, second)
                near = found >= self.settings.near
                first, second = first[near], second[near]
                self.other[second], self.similarity[second] = first, found[near]
                self._join(first, second)

    def _similarities(self, one: Integers, other: Integers) -> Floats:
        """Return the Jaccard similarity of pairs."""
        found = np.empty(len(one))
        sizes = self.texts.sizes[one] + self.texts.sizes[other]
        for part in stretches(sizes, rows=_PAIRS, total=_BYTES):
            places = np.unique(np.concatenate([one[part], other[part]]))
            texts = self.texts.texts(places)
            grams = grams_of(self.texts.database, texts, self.settings.ngram, whole=True)
            pair = (np.searchsorted(places, side[part]) for side in (one, other))
            found[part] = grams.similarities(*pair)
        return found

    def _join(self, one: Integers, other: Integers) -> None:
        """Link pairs: connected texts share the first place of all."""
        first = self.first
        while True:
            a, b = first[one], first[other]
            separate = a != b
            if not separate.any():
                return
            a, b = a[separate], b[separate]
            np.minimum.at(first, np.maximum(a, b), np.minimum(a, b))
            while not np.array_equal(shorter := first[first], first):
                first[:] = shorter


def _examples(texts: LiveTexts, found: pa.Table) -> list[dict[str, Any]]:
    """Return the first clusters, with their first records."""
    found = found.filter(pc.less_equal(found["cluster"], _EXAMPLES))
    examples: list[dict[str, Any]] = []
    names = texts.record_ids(found["place"].to_numpy())
    for name, row in zip(names, found.to_pylist(), strict=True):
        if row["survivor"]:
            examples.append({"survivor": name, "duplicates": []})
        elif len(examples[-1]["duplicates"]) < _EXAMPLES:
            similar = {"record_id": name, "similarity": row["similarity"]}
            examples[-1]["duplicates"].append(similar)
    return examples
