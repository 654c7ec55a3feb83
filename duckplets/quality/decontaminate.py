"""Find records that share n-grams of words with an evaluation set, and mark or remove them.

    evaluation texts ─n-grams→ hashes, each with its first text (scratch) ─slices→ sorted arrays
    records ─blocks→ n-grams ─binary search→ how many are there, and the first of them

The decision that matters: the n-grams of the evaluation set are held a slice of 8 million at a
time, and the records are read once for each. So memory is bounded whatever the two sizes, and with
any ordinary evaluation set there is one slice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Integers, Words
from duckplets.base.checks import integer
from duckplets.base.sanitize import Reported, counted, shown
from duckplets.db.database import Database
from duckplets.engine.work import Work
from duckplets.errors import SourceError
from duckplets.ingest.records import current_version
from duckplets.quality.evaluation import Evaluation, evaluation_of
from duckplets.quality.live_texts import LiveTexts
from duckplets.quality.minhash import ALGORITHM
from duckplets.quality.near_dedup import Action, by_source, checked_action, remove

_SLICE = 1 << 23  # n-grams of the evaluation set that are looked for at once
_MEMORY = "300MB"  # of all of them: what is more waits on disk
_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class DecontaminationReport(Reported):
    """What ``decontaminate`` found.

    Attributes:
        against: The evaluation set: a split, a source or a path.
        records: Records that were compared with it.
        contaminated: Those that share an n-gram with it.
        texts: Texts of the evaluation set.
        short: Those of them with fewer words than an n-gram has: nothing can match them.
        ngrams: Different n-grams of the evaluation set.
        skipped: Rows of the evaluation set without usable text, by reason.
        by_source: For each source and split ``records`` and ``contaminated``.
        examples: The first five records: ``record_id``, ``matches`` (n-grams of it), ``ngram``
            (the first of those) and ``evaluation`` (where the set has it first).
        ngram: Words of an n-gram.
        action: ``mark`` or ``remove``; ``none`` for a dry run.
        version: Of the corpus that was looked at; of a removal the one that it made.
        seconds: Wall time.
    """

    against: str
    records: int
    contaminated: int
    texts: int
    short: int
    ngrams: int
    skipped: dict[str, int]
    by_source: list[dict[str, Any]]
    examples: list[dict[str, Any]] = field(default_factory=list)
    ngram: int
    action: str
    version: int
    seconds: float

    def __str__(self) -> str:
        """Say in plain lines what was found, and what became of it."""
        done = {"none": "nothing is stored", "mark": "marked", "remove": "removed"}[self.action]
        lines = [
            f"{counted(self.records, 'record')} compared with {shown(self.against)} "
            f"({counted(self.texts, 'text')}, {counted(self.ngrams, 'n-gram')} of {self.ngram} "
            f"words): {self.contaminated:,} contaminated, {done} "
            f"(version {self.version}, {self.seconds:g} s)"
        ]
        if self.short:
            lines.append(
                f"  {counted(self.short, 'text')} of it too short: fewer than {self.ngram} words "
                f"match nothing"
            )
        lines += [
            f"  left out of it: {count:,} {shown(why)}" for why, count in self.skipped.items()
        ]
        for row in self.by_source:
            place = shown(row["source"]) + (f", {row['split']}" if row["split"] else "")
            lines.append(
                f"  {place}: {row['contaminated']:,} of {counted(row['records'], 'record')}"
            )
        lines += [
            f"  {shown(e['record_id'], 80)}: {counted(e['matches'], 'n-gram')}, the first in "
            f"{shown(e['evaluation'])}: {shown(e['ngram'])}"
            for e in self.examples
        ]
        return "\n".join(lines)

    __repr__ = __str__


def decontaminate(
    database: Database,
    against: Any,
    *,
    text: str | Sequence[str] | None,
    ngram: int,
    action: Action,
    dry_run: bool,
    work: Work,
) -> DecontaminationReport:
    """Find records that share n-grams with an evaluation set; see ``Corpus.decontaminate``."""
    started = time.monotonic()
    checked_action(action)
    ngram = integer("ngram", ngram, 1, 1000)
    version = current_version(database)
    evaluation = evaluation_of(database, version, against, text)
    texts = LiveTexts.of(database, version, **evaluation.judged)
    with closing(Database.scratch()) as scratch, scratch.frugal(_MEMORY):
        known = _note(scratch, evaluation, ngram)
        if not known.ngrams:
            raise SourceError(_nothing_in(evaluation, known, ngram))
        matches = _Matches(texts, ngram)
        for hashes, numbers in known.slices(scratch):
            matches.find(hashes, numbers, work)
    places = np.flatnonzero(matches.count)
    rows = pa.table(
        {
            "record_key": texts.keys[places],
            "matches": matches.count[places],
            "ngram": [matches.ngram[place] for place in places.tolist()],
            "evaluation": evaluation.places_of(matches.number[places]),
        }
    )
    if not dry_run:
        version = _store(database, texts, evaluation, places, rows, action, version, ngram)
    few = rows.slice(0, _EXAMPLES)
    ids = texts.record_ids(places[:_EXAMPLES])
    return DecontaminationReport(
        against=evaluation.name,
        records=len(texts),
        contaminated=len(places),
        texts=known.texts,
        short=known.short,
        ngrams=known.ngrams,
        skipped=dict(evaluation.skipped),
        by_source=[
            {"source": r["source"], "split": r["split"]}
            | {"records": r["records"], "contaminated": r["found"]}
            for r in by_source(database, texts, matches.count > 0)
        ],
        examples=[
            {"record_id": name, **{n: row[n] for n in ("matches", "ngram", "evaluation")}}
            for name, row in zip(ids, few.to_pylist(), strict=True)
        ],
        ngram=ngram,
        action="none" if dry_run else action,
        version=version,
        seconds=round(time.monotonic() - started, 3),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """How much an evaluation set holds: texts, those too short, and different n-grams."""

    texts: int
    short: int
    ngrams: int

    def slices(self, scratch: Database) -> Iterator[tuple[Words, Integers]]:
        """Yield n-grams in ascending order, with the number of the first text that has each."""
        for low in range(0, self.ngrams, _SLICE):
            table = scratch.table("quality/decontaminate/slice", {"low": low, "high": low + _SLICE})
            yield table["hash"].to_numpy(), table["number"].to_numpy()


def _note(scratch: Database, evaluation: Evaluation, n: int) -> _Known:
    """Fill the table of the evaluation set's n-grams."""
    scratch.run("quality/decontaminate/create")
    texts = short = 0
    for numbers, grams in evaluation.blocks(n):
        counts = np.diff(grams.starts)
        texts += len(counts)
        short += int((counts == 0).sum())
        rows = pa.table({"hash": grams.hashes(), "number": np.repeat(numbers, counts)})
        with scratch.registered(incoming=rows):
            scratch.run("quality/decontaminate/add")
    scratch.run("quality/decontaminate/sort")
    return _Known(texts, short, int(scratch.run("quality/decontaminate/count")[0][0]))


def _nothing_in(evaluation: Evaluation, known: _Known, n: int) -> str:
    if known.texts:
        return (
            f"{evaluation.name}: none of its {counted(known.texts, 'text')} has {n} words; give a "
            f"smaller ngram={n}"
        )
    why = ", ".join(f"{count:,} {reason}" for reason, count in evaluation.skipped.items())
    return f"{evaluation.name} holds no text to compare with" + (f": {why}" if why else "")


class _Matches:
    """What of each record is in the evaluation set, as far as was looked.

    Attributes:
        count: N-grams of it that are; int64[n], by place.
        first: Which n-gram is the first of them.
        number: The text of the evaluation set that has that one first.
        ngram: That one, where there is any.
    """

    def __init__(self, texts: LiveTexts, n: int) -> None:
        self._texts = texts
        self._n = n
        self.count = np.zeros(len(texts), np.int64)
        self.first = np.full(len(texts), np.iinfo(np.int64).max)
        self.number = np.zeros(len(texts), np.int64)
        self.ngram: dict[int, str] = {}

    def find(self, hashes: Words, numbers: Integers, work: Work) -> None:
        """Look for a slice of the evaluation set's n-grams in all records."""
        done = 0
        for places, grams in self._texts.blocks(self._n, whole=False):
            ours = grams.hashes()
            at = np.minimum(np.searchsorted(hashes, ours), len(hashes) - 1)
            hits = np.flatnonzero(hashes[at] == ours)
            owner = np.searchsorted(grams.starts, hits, side="right") - 1
            self.count[places] += np.bincount(owner, minlength=len(places))
            leads = hits[np.diff(owner, prepend=-1) != 0]  # the first of each record
            of = owner[np.diff(owner, prepend=-1) != 0]
            for gram, text in zip(leads.tolist(), of.tolist(), strict=True):
                place, nth = int(places[text]), gram - int(grams.starts[text])
                if nth < self.first[place]:
                    self.first[place], self.number[place] = nth, numbers[at[gram]]
                    self.ngram[place] = grams.text(gram)
            done += len(places)
            work.tell(done, len(self._texts))


def _store(
    database: Database,
    texts: LiveTexts,
    evaluation: Evaluation,
    places: Integers,
    rows: pa.Table,
    action: Action,
    version: int,
    ngram: int,
) -> int:
    """Store what was found, and remove it if asked to; return the version it is of."""
    said = {"ngram": ngram, "algorithm": ALGORITHM}
    with database.transaction():
        if action == "remove" and len(places):
            version += 1
            against = {"against": evaluation.name}
            remove(database, texts, places, version, "decontaminate", against | said)
        given: dict[str, Any] = {"version": version, "against": evaluation.name}
        with database.registered(incoming=rows):
            if action == "mark":
                database.run("quality/decontaminate/forget", given)
            given |= {"action": action, "settings": json.dumps(said)}
            database.run("quality/decontaminate/store", given)
    return version
