"""Find records whose texts are equal or nearly so, and mark or remove all of a cluster but one.

    words ─n-grams→ hashes ─MinHash→ bands (scratch) ─equal ones→ candidates
    candidates ─Jaccard of their n-grams→ links ─components→ clusters ─first of each→ survivors

The decision that matters: bands only propose, and what they propose is compared exactly, by all
n-grams of both texts. A signature of 84 numbers errs by .04 at .85 and would lose a good part of
the pairs just above the threshold. To keep that cheap, everything of a band's bucket is first
compared with the first record of it; only what that has not linked is compared with its neighbours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Floats, Integers, Words
from duckplets.base.sanitize import Reported, counted, shown
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.engine.protocol import Part, mapped
from duckplets.engine.work import QUIET, Work
from duckplets.errors import SamplerError
from duckplets.ingest.records import commit_version, current_version
from duckplets.quality.live_texts import LiveTexts, RecordTexts, portions
from duckplets.quality.minhash import ALGORITHM, NearSettings, bands_of

Action = Literal["mark", "remove"]

_ROWS = 65_536  # of buckets that are looked at together
_NEIGHBOURS = 16  # of a record in a bucket that it is compared with, besides the first
_BYTES = 8 << 20  # of the texts of pairs that are compared together
_PAIRS = 8_192
_MEMORY = "300MB"  # of the bands: what is more waits on disk
_EXAMPLES = 5
_DONE = {
    "none": ("would keep", "would remove"),
    "mark": ("kept", "marked"),
    "remove": ("kept", "removed"),
}


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class NearReport(Reported):
    """What ``deduplicate`` found.

    Attributes:
        records: Records that were compared: all that have text.
        clusters: Groups of equal or nearly equal ones.
        duplicates: Records of clusters that are not its survivor.
        pairs: Candidates that were compared word by word.
        recall: The share of the pairs whose similarity is just ``near`` that bands are expected
            to propose; of others more.
        by_source: For each source and split ``records`` and ``duplicates``.
        examples: The first five clusters: ``survivor`` and ``duplicates``, each a ``record_id``
            with its ``similarity`` to the survivor.
        settings: What was asked for.
        action: ``mark`` or ``remove``; ``none`` for a dry run.
        version: Of the corpus that was looked at; of a removal the one that it made.
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

    def __str__(self) -> str:
        """Say in plain lines what was found, and what became of it."""
        done = {"none": "nothing is stored", "mark": "marked", "remove": "removed"}[self.action]
        near = self.settings.near
        what = "equal texts"
        if near is not None:
            what = f"Jaccard similarity from {near:g}, {self.recall:.1%} of the pairs just there"
        lines = [
            f"{counted(self.records, 'record')} compared ({what}): "
            f"{counted(self.duplicates, 'duplicate')} in {counted(self.clusters, 'cluster')}, "
            f"{done} (version {self.version}, {self.seconds:g} s)"
        ]
        for row in self.by_source:
            place = shown(row["source"]) + (f", {row['split']}" if row["split"] else "")
            lines.append(f"  {place}: {row['duplicates']:,} of {counted(row['records'], 'record')}")
        if self.examples:
            lines.append("  of each cluster what was ingested first stays, whatever its split:")
        kept, gone = _DONE[self.action]
        for example in self.examples:
            others = ", ".join(
                f"{shown(each['record_id'], 80)} (similarity {each['similarity']:.3f})"
                for each in example["duplicates"]
            )
            lines.append(f"  {kept} {shown(example['survivor'], 80)}, {gone} {others}")
        return "\n".join(lines)

    __repr__ = __str__


def checked_action(action: Any) -> Action:
    """Return what is to become of records that were found.

    Raises:
        SamplerError: It is neither.
    """
    if action not in ("mark", "remove"):
        raise SamplerError(f"action={action!r}: give 'mark' or 'remove'")
    return action  # type: ignore[no-any-return]


def deduplicate(
    database: Database,
    settings: NearSettings,
    *,
    action: Action,
    dry_run: bool,
    work: Work = QUIET,
) -> NearReport:
    """Find clusters of equal or nearly equal records; see ``Corpus.deduplicate``."""
    started = time.monotonic()
    checked_action(action)
    version = current_version(database)
    texts = LiveTexts.of(database, version)
    links = _Links(texts, settings)
    if settings.near is None:
        links.join_equal()
    else:
        with closing(Database.scratch()) as scratch, scratch.frugal(_MEMORY):
            _note_bands(scratch, texts, settings, work)
            links.join_firsts(scratch)
            links.join_neighbours(scratch)
    found = links.clusters()
    if not dry_run:
        version = _store(database, texts, found, settings, action, version)
    gone = np.zeros(len(texts), np.bool_)
    gone[found.places[~found.survivor]] = True
    return NearReport(
        records=len(texts),
        clusters=int(found.survivor.sum()),
        duplicates=int(gone.sum()),
        pairs=links.compared,
        recall=round(settings.recall, 4),
        by_source=[
            {"source": r["source"], "split": r["split"]}
            | {"records": r["records"], "duplicates": r["found"]}
            for r in by_source(database, texts, gone)
        ],
        examples=_examples(texts, found),
        settings=settings,
        action="none" if dry_run else action,
        version=version,
        seconds=round(time.monotonic() - started, 3),
    )


# -- candidates and links -------------------------------------------------------------------------


def _note_bands(
    scratch: Database,
    texts: LiveTexts,
    settings: NearSettings,
    work: Work,
) -> None:
    """Fill the table of buckets: the bands of every text."""
    scratch.run("quality/near_dedup/create")
    done = 0

    def part_of(block: RecordTexts) -> Part:
        return Part(f"duplicates: {counted(len(block.places), 'record')}", block)

    with closing(mapped(work.engine, bands_part, settings, texts.texts(), part_of)) as found:
        for block, bands in found:
            place = np.repeat(block.places, settings.bands)
            with scratch.registered(incoming=pa.table({"bucket": bands.ravel(), "place": place})):
                scratch.run("quality/near_dedup/add")
            done += len(block.places)
            work.tell(done, len(texts))


def bands_part(settings: NearSettings, texts: RecordTexts) -> Words:
    """Return the bands of texts; uint64[texts, bands]."""
    grams = texts.block(settings.ngram, whole=True).grams
    return bands_of(grams.hashes(), grams.starts, settings.bands, settings.rows, settings.seed)


@dataclass(frozen=True, slots=True)
class _Clusters:
    """Records of clusters, by cluster, the survivor first.

    Attributes:
        places: Of the records.
        number: Of the cluster of each, from 1.
        survivor: Whether it is the one that stays.
        similarity: To the survivor.
    """

    places: Integers
    number: Integers
    survivor: Flags
    similarity: Floats


class _Links:
    """Which records belong together, as far as is known."""

    def __init__(self, texts: LiveTexts, settings: NearSettings) -> None:
        self.texts = texts
        self.settings = settings
        self.compared = 0
        self.first = np.arange(len(texts))  # the first place of the cluster of each

    def join_equal(self) -> None:
        """Link records whose texts are equal."""
        if not len(self.texts):
            return
        found = self.texts.digests()
        digests = np.array(found["digest"].to_pylist(), "S64")
        place = found["place"].to_numpy()
        order = np.lexsort((place, digests))
        digests, place = digests[order], place[order]
        same = digests[1:] == digests[:-1]
        self._join(place[:-1][same], place[1:][same])

    def join_firsts(self, scratch: Database) -> None:
        """Link records that are near enough to the first of one of their buckets."""
        for batch in scratch.stream(query("quality/near_dedup/firsts"), rows=_ROWS):
            self._compare(batch["first"].to_numpy(), batch["place"].to_numpy())

    def join_neighbours(self, scratch: Database) -> None:
        """Link records near enough to one of the 16 before it in a bucket, if nothing has yet."""
        known = pa.table({"place": np.arange(len(self.texts)), "first": self.first})
        with scratch.registered(known=known):
            scratch.run("quality/near_dedup/note_crowded")
        bucket, place = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        for batch in scratch.stream(query("quality/near_dedup/crowded"), rows=_ROWS):
            fresh = len(place)
            bucket = np.concatenate([bucket, batch["bucket"].to_numpy()])
            place = np.concatenate([place, batch["place"].to_numpy()])
            self._compare(*self._neighbours(bucket, place, fresh))
            bucket, place = bucket[-_NEIGHBOURS:], place[-_NEIGHBOURS:]

    def _neighbours(self, bucket: Words, place: Integers, fresh: int) -> tuple[Integers, Integers]:
        """Return pairs of one bucket that stand near each other and are not linked, each once."""
        found, size = [], len(place)
        for off in range(1, _NEIGHBOURS + 1):
            start = max(fresh, off)
            one, other = place[start - off : max(size - off, 0)], place[start:]
            pair = bucket[start - off : max(size - off, 0)] == bucket[start:]
            pair &= self.first[one] != self.first[other]
            found.append(one[pair] * len(self.texts) + other[pair])
        pairs = np.unique(np.concatenate(found))
        return pairs // len(self.texts), pairs % len(self.texts)

    def clusters(self) -> _Clusters:
        """Return all records that are linked to another."""
        size = np.bincount(self.first, minlength=len(self.first))
        places = np.flatnonzero(size[self.first] > 1)
        places = places[np.lexsort((places, self.first[places]))]
        head = self.first[places]
        number = np.cumsum(np.diff(head, prepend=-1) != 0)
        survivor = places == head
        similarity = np.ones(len(places))
        if self.settings.near is not None:
            others = np.flatnonzero(~survivor)
            similarity[others] = self._similarities(head[others], places[others])
        return _Clusters(places, number, survivor, similarity)

    def _compare(self, one: Integers, other: Integers) -> None:
        """Compare pairs that nothing links yet, and link those that are near enough."""
        least = 1.0 if self.settings.near is None else self.settings.near
        apart = self.first[one] != self.first[other]
        one, other = one[apart], other[apart]
        sizes = self.texts.sizes[one] + self.texts.sizes[other]
        for low, high in portions(sizes, _BYTES, _PAIRS):
            first, second = one[low:high], other[low:high]
            apart = self.first[first] != self.first[second]  # those before may have linked them
            first, second = first[apart], second[apart]
            if len(first):
                self.compared += len(first)
                near = self._similarities(first, second) >= least
                self._join(first[near], second[near])

    def _similarities(self, one: Integers, other: Integers) -> Floats:
        """Return the Jaccard similarity of pairs."""
        found = np.empty(len(one))
        sizes = self.texts.sizes[one] + self.texts.sizes[other]
        for low, high in portions(sizes, _BYTES, _PAIRS):
            places = np.unique(np.concatenate([one[low:high], other[low:high]]))
            block = self.texts.block(places, self.settings.ngram, whole=True)
            pair = (np.searchsorted(places, side[low:high]) for side in (one, other))
            found[low:high] = block.grams.similarities(*pair)
        return found

    def _join(self, one: Integers, other: Integers) -> None:
        """Link pairs: of what is linked, all have the first place of all."""
        first = self.first
        while True:
            a, b = first[one], first[other]
            apart = a != b
            if not apart.any():
                return
            a, b = a[apart], b[apart]
            np.minimum.at(first, np.maximum(a, b), np.minimum(a, b))
            while not np.array_equal(shorter := first[first], first):
                first[:] = shorter


# -- what becomes of them -------------------------------------------------------------------------


def _store(
    database: Database,
    texts: LiveTexts,
    found: _Clusters,
    settings: NearSettings,
    action: Action,
    version: int,
) -> int:
    """Store clusters, and remove their duplicates if asked to; return the version they are of."""
    said = asdict(settings) | {"algorithm": ALGORITHM}
    if settings.near is None:
        said = {"near": None}
    gone = found.places[~found.survivor]
    with database.transaction():
        if action == "remove" and len(gone):
            version += 1
            remove(database, texts, gone, version, "deduplicate", said)
        rows = pa.table(
            {
                "cluster": found.number,
                "record_key": texts.keys[found.places],
                "survivor": found.survivor,
                "similarity": found.similarity,
            }
        )
        with database.registered(incoming=rows):
            given = {"version": version, "action": action, "settings": json.dumps(said)}
            if action == "mark":
                database.run("quality/near_dedup/forget", {"version": version})
            database.run("quality/near_dedup/store", given)
    return version


def remove(
    database: Database,
    texts: LiveTexts,
    places: Integers,
    version: int,
    what: str,
    said: dict[str, Any],
) -> None:
    """Remove records in a new version, inside the transaction that makes it."""
    with database.registered(gone=pa.table({"record_key": texts.keys[places]})):
        database.run("quality/texts/remove", {"version": version})
    commit_version(database, version, what, None, {"removed": len(places), "settings": said})


def by_source(database: Database, texts: LiveTexts, found: Flags) -> list[dict[str, Any]]:
    """Return how many records there are, and how many were found, by source and split."""
    seen = pa.table({"record_key": texts.keys, "found": found})
    with database.registered(seen=seen):
        return list(database.table("quality/texts/by_source").to_pylist())


def _examples(texts: LiveTexts, found: _Clusters) -> list[dict[str, Any]]:
    """Return the first clusters, with the first records of each."""
    few = found.number <= _EXAMPLES
    ids = texts.record_ids(found.places[few])
    examples: list[dict[str, Any]] = []
    rows: Iterator[tuple[str, bool, float]] = zip(
        ids, found.survivor[few].tolist(), found.similarity[few].tolist(), strict=True
    )
    for name, survives, similarity in rows:
        if survives:
            examples.append({"survivor": name, "duplicates": []})
        elif len(examples[-1]["duplicates"]) < _EXAMPLES:
            examples[-1]["duplicates"].append({"record_id": name, "similarity": similarity})
    return examples
