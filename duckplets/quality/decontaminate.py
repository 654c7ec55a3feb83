"""Find records that share word n-grams with an evaluation set, and mark or remove them."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers
from duckplets.base.checks import integer
from duckplets.base.prefetch import ahead
from duckplets.base.sanitize import Reported, counted, listed, shown
from duckplets.db.database import Database
from duckplets.engine.work import Work
from duckplets.errors import SourceError, nearest
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import need_splits
from duckplets.quality.minhash import ALGORITHM, grams_of
from duckplets.quality.near_dedup import Action, checked_action
from duckplets.quality.texts import LiveTexts, joined
from duckplets.sources.by_path import source_of
from duckplets.sources.custom.protocol import adapted
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.rows import Mark

_MEMORY = "300MB"  # memory for all n-grams; the rest waits on disk
_EXAMPLES = 5
# A suggested n-gram leaves out at most 5 % of the texts, as GPT-3's. Fewer words match by chance.
_REACHED, _FEWEST = 0.05, 5
_STATEMENTS = "quality/decontaminate/forget", "quality/decontaminate/store"
_BEFORE = {"test": ["train", "validation"], "validation": ["train"]}
_FOUND = pa.schema(
    [("place", pa.int64()), ("matches", pa.int64()), ("number", pa.int64()), ("ngram", pa.string())]
)
Numbered = Iterator[tuple[Integers, pa.Array]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecontaminationReport(Reported):
    """What ``decontaminate`` found.

    Attributes:
        against: The evaluation set: a split, a source or a path.
        records: Records that were compared with it.
        contaminated: Those that share an n-gram with it.
        texts: Texts of the evaluation set.
        short: Texts with fewer words than ``ngram``, which match nothing.
        ngrams: Different n-grams of the evaluation set.
        skipped: Rows of the evaluation set without usable text, by reason.
        by_source: For each source and split ``records`` and ``contaminated``.
        examples: The first five records: ``record_id``, ``matches`` (n-grams of it), ``ngram``
            (the first of those) and ``evaluation`` (where the set has it first).
        ngram: Words of an n-gram.
        action: ``mark`` or ``remove``; ``none`` for a dry run.
        version: Of the corpus that was looked at; of a removal the one that it made.
        seconds: Wall time.
        notes: How many texts are too short to be found, and which ``ngram`` reaches more.
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
    notes: list[str] = field(default_factory=list)


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
    evaluation = _evaluation_of(database, version, against, text)
    texts = LiveTexts.of(database, version, **evaluation.judged)
    with closing(Database.scratch()) as scratch, scratch.frugal(_MEMORY):
        words = _note(scratch, evaluation, ngram)
        ngrams = int(scratch.run("quality/decontaminate/count")[0][0])
        if not ngrams:
            raise SourceError(_nothing_in(evaluation, words, ngram))
        found = pa.concat_tables(_matches(scratch, texts, ngram, work)).sort_by("place")
    places = found["place"].to_numpy()
    rows = pa.table(
        {
            "record_key": texts.keys[places],
            "matches": found["matches"],
            "ngram": found["ngram"],
            "evaluation": evaluation.places_of(found["number"].to_numpy()),
        }
    )
    if not dry_run:
        said = {"ngram": ngram, "algorithm": ALGORITHM}
        version = texts.store(
            "decontaminate", _STATEMENTS, places, rows, action, said, against=evaluation.name
        )
    few = rows.slice(0, _EXAMPLES).drop_columns(["record_key"]).to_pylist()
    ids = texts.record_ids(places[:_EXAMPLES])
    return DecontaminationReport(
        against=evaluation.name,
        records=len(texts.keys),
        contaminated=len(places),
        texts=len(words),
        short=int((words < ngram).sum()),
        ngrams=ngrams,
        skipped=evaluation.skipped,
        by_source=texts.by_source(places, "contaminated"),
        examples=[{"record_id": name} | row for name, row in zip(ids, few, strict=True)],
        ngram=ngram,
        action="none" if dry_run else action,
        version=version,
        seconds=round(time.monotonic() - started, 3),
        notes=_too_short(words, ngram),
    )


def _note(scratch: Database, evaluation: _Evaluation, n: int) -> Integers:
    """Store the evaluation set's n-grams; return how many words its texts have."""
    scratch.run("quality/decontaminate/create")
    words = [np.zeros(0, np.int64)]
    for numbers, texts in evaluation.texts():
        grams = grams_of(scratch, texts, n, whole=False)
        words.append(grams.counts)
        owners = np.repeat(numbers, np.diff(grams.starts))
        with scratch.registered(incoming=pa.table({"hash": grams.hashes, "number": owners})):
            scratch.run("quality/decontaminate/add")
    scratch.run("quality/decontaminate/sort")
    return np.concatenate(words)


def _too_short(words: Integers, n: int) -> list[str]:
    """Return how many texts are too short to be found, and an n-gram that finds most of them."""
    short = int((words < n).sum())
    if not short:
        return []
    said = f"{short:,} of {counted(len(words), 'text')} have fewer than {n} words and match nothing"
    fewer = max(int(np.quantile(words, _REACHED)), _FEWEST)
    if fewer < n:
        said += f"; ngram={fewer} leaves out {int((words < fewer).sum()):,}"
    return [said]


def _nothing_in(evaluation: _Evaluation, words: Integers, n: int) -> str:
    if len(words):
        return (
            f"{shown(evaluation.name, 80)}: none of its {counted(len(words), 'text')} has {n} "
            f"words, the longest has {words.max()}: give a smaller ngram="
        )
    why = ", ".join(f"{count:,} {reason}" for reason, count in evaluation.skipped.items())
    return f"{evaluation.name} holds no text to compare with" + (f": {why}" if why else "")


def _matches(scratch: Database, texts: LiveTexts, n: int, work: Work) -> Iterator[pa.Table]:
    """Yield the places of records with their matches: how many, and the first with its text."""
    yield _FOUND.empty_table()
    done = 0
    for places, some in texts.blocks():
        grams = grams_of(texts.database, some, n, whole=False)
        text = np.repeat(np.arange(len(places)), np.diff(grams.starts))
        every = {"text": text, "gram": np.arange(len(text)), "hash": grams.hashes}
        with scratch.registered(incoming=pa.table(every)):
            found = scratch.table("quality/decontaminate/matches")
        yield pa.table(
            {
                "place": places[found["text"].to_numpy()],
                "matches": found["matches"],
                "number": found["number"],
                "ngram": [grams.text(gram) for gram in found["gram"].to_pylist()],
            },
            _FOUND,
        )
        done += len(places)
        work.tell(done, len(texts.keys))


# -- evaluation sets -------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True)
class _Evaluation:
    """What the records are compared with."""

    name: str
    judged: dict[str, Any]
    texts: Callable[[], Numbered]
    places_of: Callable[[Integers], list[str]]
    skipped: dict[str, int] = field(default_factory=dict)


def _evaluation_of(
    database: Database, version: int, against: Any, text: str | Sequence[str] | None
) -> _Evaluation:
    """Return the evaluation set meant by ``against``; see ``Corpus.decontaminate``."""
    columns = [text] if isinstance(text, str) else list(text or ())
    names = [row[0] for row in database.run("recipes/store/sources", {"version": version})]
    if isinstance(against, str) and (against in _BEFORE or against in names):
        if columns:
            raise SourceError(f"text={text!r} is for a file, and {against!r} is of the corpus")
        return _own(database, version, against)
    if isinstance(against, str | PathLike):
        path = os.path.expanduser(against)
        if not ("://" in path or glob.has_magic(path) or os.path.exists(path)):
            raise SourceError(
                f"against={fspath(against)!r} is no file, no source{nearest(path, names)} and "
                f"not 'test' or 'validation'; sources: {listed(names) or 'none'}"
            )
        # A file once per column; without any its error lists the columns.
        found = [source_of(path, text=column) for column in columns] or [source_of(path)]
        return _of_sources(path, found)
    if columns:
        raise SourceError(f"text={text!r} is for a file; a source says itself what its text is")
    source = adapted(against)
    return _of_sources(source.uri or source.default_name(), [source])


def _own(database: Database, version: int, against: str) -> _Evaluation:
    """Return a split of the corpus, or else a source of it."""
    judged: dict[str, Any]
    if against in _BEFORE:
        need_splits(database, f"against={against!r}: ")
        texts = LiveTexts.of(database, version, splits=[against])
        name, judged = f"split {against}", {"splits": _BEFORE[against]}
    else:
        texts = LiveTexts.of(database, version, sources=[against])
        name, judged = f"source {against}", {"without": against}
    return _Evaluation(name=name, judged=judged, texts=texts.blocks, places_of=texts.record_ids)


def _of_sources(name: str, found: Sequence[Any]) -> _Evaluation:
    """Return the texts of sources, numbered in order."""
    rows: list[pa.Table] = []
    skipped: dict[str, int] = {}

    def texts() -> Numbered:
        count = 0
        for batch in _batches(found, skipped):
            rows.append(_where(batch))
            yield np.arange(count, count + batch.num_rows), joined(batch["sections"])
            count += batch.num_rows

    def places_of(numbers: Integers) -> list[str]:
        return [_place(row) for row in pa.concat_tables(rows).take(numbers).to_pylist()]

    return _Evaluation(name=name, judged={}, texts=texts, places_of=places_of, skipped=skipped)


def _batches(found: Sequence[Any], skipped: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sources with text; count the others."""
    for source in found:
        with (
            closing(FileReader.within(Limits())) as reader,
            closing(ahead(source.open(reader).batches)) as items,
        ):
            for batch in items:
                if not isinstance(batch, Mark):
                    for each in pc.value_counts(batch["skip"].drop_null()).to_pylist():
                        reason = each["values"]
                        skipped[reason] = skipped.get(reason, 0) + each["counts"]
                    yield batch.filter(pc.is_null(batch["skip"]))


def _where(batch: pa.RecordBatch) -> pa.Table:
    there, nothing = batch.schema.names, pa.nulls(batch.num_rows)
    file = batch["file"] if "file" in there else nothing
    line = batch["line"] if "line" in there else nothing
    columns = {"row": batch["row"], "line": line.cast(pa.int64()), "file": file.cast(pa.string())}
    return pa.table(columns)


def _place(row: dict[str, Any]) -> str:
    if row["file"] is None:
        return f"row {row['row']}"
    return f"{row['file']}:{row['line']}" if row["line"] else f"{row['file']}, row {row['row']}"
