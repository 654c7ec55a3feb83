"""Find records that share word n-grams with an evaluation set, and mark or remove them."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version as version_of
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers
from duckplets.base.atomic import written_aside
from duckplets.base.checks import integer
from duckplets.base.markdown import code, plain, table
from duckplets.base.prefetch import ahead
from duckplets.base.sanitize import Reported, counted, listed, shown
from duckplets.db.database import Database
from duckplets.engine.work import Work
from duckplets.errors import QualityError, SourceError, nearest
from duckplets.ingest.records import current_version
from duckplets.ingest.splits import need_splits
from duckplets.quality.minhash import ALGORITHM, grams_of
from duckplets.quality.near_dedup import Action, checked_action
from duckplets.quality.texts import LiveTexts, joined
from duckplets.sources.by_path import source_of
from duckplets.sources.collection import evaluation_sets
from duckplets.sources.custom import adapted
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.rows import Mark

_MEMORY = "300MB"  # memory for all n-grams; the others are on disk
_EXAMPLES = 5
# A suggested n-gram is too long for at most 5 % of the texts, as in GPT-3. Fewer words match by
# chance.
_REACHED, _FEWEST = 0.05, 5
_STATEMENTS = "quality/decontaminate/forget", "quality/decontaminate/store"
_BEFORE = {"test": ["train", "validation"], "validation": ["train"]}
_FOUND = pa.schema(
    [("place", pa.int64()), ("matches", pa.int64()), ("number", pa.int64()), ("ngram", pa.string())]
)
Numbered = Iterator[tuple[Integers, pa.Array]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecontaminationReport(Reported):
    """The result of ``decontaminate``.

    Attributes:
        against: The evaluation set: a split, a source or a path.
        records: Number of records that were compared with it.
        contaminated: Number of records that share an n-gram with it.
        texts: Number of texts in the evaluation set.
        short: Number of texts with fewer words than ``ngram``. They match nothing.
        ngrams: Number of distinct n-grams in the evaluation set.
        skipped: Rows of the evaluation set without usable text, by reason.
        sets: Each set that was checked: ``set``, ``split``, ``texts``, ``short``, the number of
            records that match it (``contaminated``) and of their n-grams (``matches``).
        by_source: For each source and split ``records`` and ``contaminated``.
        examples: The first five records: ``record_id``, ``matches`` (its shared n-grams),
            ``ngram`` (the first of them) and ``evaluation`` (where the set first has it).
        ngram: Words of an n-gram.
        action: ``mark`` or ``remove``; ``none`` for a dry run.
        version: Version of the corpus that was compared; after a removal, the new version.
        seconds: Wall time.
        notes: How many texts are too short to match, and an ``ngram`` that covers more of them.
    """

    against: str
    records: int
    contaminated: int
    texts: int
    short: int
    ngrams: int
    skipped: dict[str, int]
    sets: list[dict[str, Any]]
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
    card: str | Path | None = None,
    work: Work,
) -> DecontaminationReport:
    """Find records that share n-grams with an evaluation set; see ``Corpus.decontaminate``."""
    started = time.monotonic()
    checked_action(action)
    ngram = integer("ngram", ngram, 1, 1000)
    version = current_version(database)
    if card is not None and not Path(card).expanduser().parent.is_dir():
        raise QualityError(f"card={shown(card)!r}: there is no such folder; create it first")
    evaluation = _evaluation_of(database, version, against, text)
    texts = LiveTexts.of(database, version, **evaluation.compared)
    with closing(Database.scratch()) as scratch, scratch.frugal(_MEMORY):
        words = _store_ngrams(scratch, evaluation, ngram)
        ngrams = int(scratch.run("quality/decontaminate/count")[0][0])
        if not ngrams:
            raise SourceError(_nothing_in(evaluation, words, ngram))
        counts = np.zeros((len(evaluation.sets), 2), np.int64)
        found = pa.concat_tables(_matches(scratch, texts, ngram, counts, work)).sort_by("place")
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
        settings = {"ngram": ngram, "algorithm": ALGORITHM}
        version = texts.store(
            "decontaminate", _STATEMENTS, places, rows, action, settings, against=evaluation.name
        )
    examples = rows.slice(0, _EXAMPLES).drop_columns(["record_key"]).to_pylist()
    ids = texts.record_ids(places[:_EXAMPLES])
    report = DecontaminationReport(
        against=evaluation.name,
        records=len(texts.keys),
        contaminated=len(places),
        texts=len(words),
        short=int((words < ngram).sum()),
        ngrams=ngrams,
        skipped=evaluation.skipped,
        sets=_counted(evaluation, words, ngram, counts),
        by_source=texts.by_source(places, "contaminated"),
        examples=[{"record_id": name} | row for name, row in zip(ids, examples, strict=True)],
        ngram=ngram,
        action="none" if dry_run else action,
        version=version,
        seconds=round(time.monotonic() - started, 3),
        notes=_too_short(words, ngram),
    )
    if card is not None:
        _write_card(Path(card).expanduser(), Path(str(database.path)).name, report)
    return report


def _store_ngrams(scratch: Database, evaluation: _Evaluation, n: int) -> Integers:
    """Store the n-grams of the evaluation set; return the number of words of each text."""
    scratch.run("quality/decontaminate/create")
    words = [np.zeros(0, np.int64)]
    for numbers, texts in evaluation.texts():
        grams = grams_of(scratch, texts, n, whole=False)
        words.append(grams.counts)
        owners = np.repeat(numbers, np.diff(grams.starts))
        sets = evaluation.set_of(owners)
        rows = {"hash": grams.hashes, "number": owners, "evaluation": sets}
        with scratch.registered(incoming=pa.table(rows)):
            scratch.run("quality/decontaminate/add")
    scratch.run("quality/decontaminate/sort")
    return np.concatenate(words)


def _counted(
    evaluation: _Evaluation, words: Integers, n: int, counts: Integers
) -> list[dict[str, Any]]:
    """Return the counts of each set."""
    sets = evaluation.set_of(np.arange(len(words)))
    texts = np.bincount(sets, minlength=len(counts))
    short = np.bincount(sets[words < n], minlength=len(counts))
    names = ("set", "split", "texts", "short", "contaminated", "matches")
    rows = zip(evaluation.sets, texts.tolist(), short.tolist(), counts.tolist(), strict=True)
    return [
        dict(zip(names, (*name, total, too_short, *found), strict=True))
        for name, total, too_short, found in rows
    ]


def _write_card(path: Path, corpus: str, report: DecontaminationReport) -> None:
    """Write the sets that were checked, the n-grams, and the counts of shared records."""
    action = {"remove": "removed", "mark": "marked"}.get(report.action, "not changed")
    lines = [
        "# Records that share text with evaluation sets",
        "",
        f"{counted(report.records, 'record')} of {code(corpus)}, version {report.version}, were "
        f"compared with {counted(len(report.sets), 'set')} by n-grams of {report.ngram} words. "
        f"{report.contaminated:,} of them share an n-gram, and were {action}. Made by duckplets "
        f"{version_of('duckplets')}.",
        "",
        "## Sets",
        "",
        *table(report.sets, len(report.sets)),
        "",
        "## Records by source and split",
        "",
        *table(report.by_source, len(report.by_source)),
        *(f"\n{plain(note)}" for note in report.notes),
    ]
    try:
        with written_aside(path) as file:
            file.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise QualityError(f"{shown(path)} cannot be written: {error.strerror}") from error


def _too_short(words: Integers, n: int) -> list[str]:
    """Return how many texts are too short to match, and an n-gram that covers most of them."""
    short = int((words < n).sum())
    if not short:
        return []
    note = f"{short:,} of {counted(len(words), 'text')} have fewer than {n} words and match nothing"
    fewer = max(int(np.quantile(words, _REACHED)), _FEWEST)
    if fewer < n:
        note += f"; ngram={fewer} leaves out {int((words < fewer).sum()):,}"
    return [note]


def _nothing_in(evaluation: _Evaluation, words: Integers, n: int) -> str:
    if len(words):
        return (
            f"{shown(evaluation.name, 80)}: none of its {counted(len(words), 'text')} has {n} "
            f"words, the longest has {words.max()}: give a smaller ngram="
        )
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in evaluation.skipped.items())
    return f"{evaluation.name} has no text to compare with" + (f": {reasons}" if reasons else "")


def _matches(
    scratch: Database, texts: LiveTexts, n: int, counts: Integers, work: Work
) -> Iterator[pa.Table]:
    """Yield the places of records with their matches, and add to the counts of each set."""
    yield _FOUND.empty_table()
    done = 0
    for places, block in texts.blocks():
        grams = grams_of(texts.database, block, n, whole=False)
        text = np.repeat(np.arange(len(places)), np.diff(grams.starts))
        rows = {"text": text, "gram": np.arange(len(text)), "hash": grams.hashes}
        with scratch.registered(incoming=pa.table(rows)):
            found = scratch.table("quality/decontaminate/matches")
            for set_number, *set_counts in scratch.run("quality/decontaminate/by_set"):
                counts[set_number] += set_counts
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
    """The texts that records are compared with."""

    name: str
    compared: dict[str, Any]  # which records are compared, as arguments of ``LiveTexts.of``
    texts: Callable[[], Numbered]
    places_of: Callable[[Integers], list[str]]
    skipped: dict[str, int] = field(default_factory=dict)
    sets: list[tuple[str, str | None]] = field(default_factory=list)  # each with its split
    starts: list[int] = field(default_factory=list)  # number of the first text of each set

    def set_of(self, numbers: Integers) -> Integers:
        """Return the set of each text."""
        found: Integers = np.searchsorted(np.array(self.starts or [0]), numbers, side="right") - 1
        return found


def _evaluation_of(
    database: Database, version: int, against: Any, text: str | Sequence[str] | None
) -> _Evaluation:
    """Return the evaluation set that ``against`` names; see ``Corpus.decontaminate``."""
    columns = [text] if isinstance(text, str) else list(text or ())
    names = [row[0] for row in database.run("recipes/store/sources", {"version": version})]
    if isinstance(against, str) and (against in _BEFORE or against in names):
        if columns:
            raise SourceError(
                f"text={text!r} is for a file, and {against!r} is in the corpus: omit text="
            )
        return _in_corpus(database, version, against)
    if isinstance(against, str | PathLike):
        path = os.path.expanduser(against)
        if not ("://" in path or glob.has_magic(path) or os.path.exists(path)):
            raise SourceError(
                f"against={fspath(against)!r} is no file, no source{nearest(path, names)}: "
                f"give a path, 'test', 'validation' or a source ({listed(names) or 'none'})"
            )
        if os.path.isdir(path) and (sets := evaluation_sets(Path(path), Limits())):
            if columns:
                raise SourceError(
                    f"text={text!r} is for a file, and {shown(path, 80)} is a BEIR folder: omit it"
                )
            names = [(name, split) for name, split, _ in sets]
            return _of_sources(path, [queries for *_, queries in sets], names)
        # A file once per column; without any its error lists the columns.
        found = [source_of(path, text=column) for column in columns] or [source_of(path)]
        return _of_sources(path, found)
    if columns:
        raise SourceError(f"text={text!r} is for a file; a source names its own text: omit text=")
    source = adapted(against)
    return _of_sources(source.uri or source.default_name(), [source])


def texts_against(path: Path) -> Iterator[pa.Array]:
    """Yield the queries of a BEIR folder, or the column ``text`` of a file."""
    sets = evaluation_sets(path, Limits()) if path.is_dir() else ()
    found: list[Any] = [queries for *_, queries in sets] or [source_of(path, text="text")]
    for _, texts in _of_sources(str(path), found).texts():
        yield texts


def _in_corpus(database: Database, version: int, against: str) -> _Evaluation:
    """Return a split or a source of the corpus."""
    compared: dict[str, Any]
    if against in _BEFORE:
        need_splits(database, f"against={against!r}: ")
        texts = LiveTexts.of(database, version, splits=[against])
        name, compared = f"split {against}", {"splits": _BEFORE[against]}
    else:
        texts = LiveTexts.of(database, version, sources=[against])
        name, compared = f"source {against}", {"without": against}
    return _Evaluation(
        name=name,
        compared=compared,
        texts=texts.blocks,
        places_of=texts.record_ids,
        sets=[(against, None)],
    )


def _of_sources(
    name: str, found: Sequence[Any], sets: list[tuple[str, str | None]] | None = None
) -> _Evaluation:
    """Return the texts of sources, numbered in order; without ``sets`` all are one set."""
    rows: list[pa.Table] = []
    skipped: dict[str, int] = {}

    def texts() -> Numbered:
        count = 0
        for source in found:
            if sets is not None:
                made.starts.append(count)
            for batch in _batches(source, skipped):
                rows.append(_row_places(batch))
                yield np.arange(count, count + batch.num_rows), joined(batch["sections"])
                count += batch.num_rows

    def places_of(numbers: Integers) -> list[str]:
        return [_place(row) for row in pa.concat_tables(rows).take(numbers).to_pylist()]

    made = _Evaluation(name=name, compared={}, texts=texts, places_of=places_of, skipped=skipped)
    made.sets = sets or [(name, None)]
    return made


def _batches(source: Any, skipped: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a source with text; count the others."""
    with (
        closing(FileReader.within(Limits())) as reader,
        closing(ahead(source.open(reader).batches)) as items,
    ):
        for batch in items:
            if not isinstance(batch, Mark):
                for row in pc.value_counts(batch["skip"].drop_null()).to_pylist():
                    skipped[row["values"]] = skipped.get(row["values"], 0) + row["counts"]
                yield batch.filter(pc.is_null(batch["skip"]))


def _row_places(batch: pa.RecordBatch) -> pa.Table:
    """Return the row number, the line and the file of each row."""
    columns = {"row": batch["row"]}
    for name, kind in (("line", pa.int64()), ("file", pa.string())):
        is_known = name in batch.schema.names
        columns[name] = (batch[name] if is_known else pa.nulls(batch.num_rows)).cast(kind)
    return pa.table(columns)


def _place(row: dict[str, Any]) -> str:
    if row["file"] is None:
        return f"row {row['row']}"
    return f"{row['file']}:{row['line']}" if row["line"] else f"{row['file']}, row {row['row']}"
