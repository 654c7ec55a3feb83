"""Read what a corpus is to be clean of: a split or source of its own, a file, a folder of BEIR's.

    against ─what it names→ readings ─blocks→ n-grams, each with the number of its text
    numbers ─places_of→ record ids, or file and row

Texts have numbers only, and where a text stands is looked up for the few that are told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets import sources
from duckplets.base.arrays import Integers
from duckplets.base.prefetch import ahead
from duckplets.base.sanitize import listed, shown
from duckplets.db.database import Database
from duckplets.errors import SourceError, nearest
from duckplets.ingest.splits import need_splits
from duckplets.quality.live_texts import LiveTexts, combined
from duckplets.quality.minhash import Grams
from duckplets.sources.custom.protocol import adapted
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.mapping_record import as_before
from duckplets.sources.paths import inner_suffix, reading
from duckplets.sources.rows import Mark

__all__ = ["Evaluation", "evaluation_of"]

_BEFORE = {"test": ["train", "validation"], "validation": ["train"]}
_FORMS = {
    ".csv": "CsvSource",
    ".tsv": "CsvSource",
    ".tab": "CsvSource",
    ".json": "JsonSource",
    ".jsonl": "JsonSource",
    ".ndjson": "JsonSource",
    ".parquet": "ParquetSource",
    ".arrow": "ArrowSource",
    ".ipc": "ArrowSource",
    ".feather": "ArrowSource",
    **dict.fromkeys((".txt", ".text", ".md", ".markdown", ".rst"), "TextFileSource"),
}
_QUERIES, _DOCUMENTS, _JUDGED = "queries.jsonl", "corpus.jsonl", "qrels"

Blocks = Iterator[tuple[Integers, Grams]]


@dataclass(kw_only=True, slots=True)
class Evaluation:
    """What the records of a corpus are compared with.

    Attributes:
        name: As it is told and stored.
        judged: Which records are compared with it, as ``LiveTexts.of`` takes it.
        blocks: Gives, for n, the n-grams of its texts with the numbers of these.
        places_of: Where texts of some numbers stand.
        skipped: Rows without usable text, by reason, once the blocks were read.
    """

    name: str
    judged: dict[str, Any]
    blocks: Callable[[int], Blocks]
    places_of: Callable[[Integers], list[str]]
    skipped: dict[str, int] = field(default_factory=dict)


def evaluation_of(
    database: Database, version: int, against: Any, text: str | Sequence[str] | None
) -> Evaluation:
    """Return what is meant by ``against``; see ``Corpus.decontaminate``.

    Raises:
        SourceError, SplitError: It names nothing that is there.
    """
    columns = [text] if isinstance(text, str) else list(text or ())
    names = [row[0] for row in database.run("recipes/store/sources", {"version": version})]
    if isinstance(against, str) and (against in _BEFORE or against in names):
        if columns:
            raise SourceError(f"text={text!r} is for a file, and {against!r} is of the corpus")
        return _own(database, version, against)
    if isinstance(against, str | PathLike):
        path = Path(fspath(against)).expanduser()
        if not path.exists():
            raise SourceError(
                f"against={fspath(against)!r} is no file, no source{nearest(str(path), names)} and "
                f"not 'test' or 'validation'; sources: {listed(names) or 'none'}"
            )
        return _Files(_readings_of(path, columns)).evaluation(str(path))
    if columns:
        raise SourceError(f"text={text!r} is for a file; a source says itself what its text is")
    source = adapted(against)
    return _Files([_EvaluationSource(source)]).evaluation(source.uri or source.default_name())


def _own(database: Database, version: int, against: str) -> Evaluation:
    """Return a split of the corpus, or else a source of it."""
    judged: dict[str, Any]
    if against in _BEFORE:
        need_splits(database, f"against={against!r}: ")
        texts = LiveTexts.of(database, version, splits=[against])
        name, judged = f"split {against}", {"splits": _BEFORE[against]}
    else:
        texts = LiveTexts.of(database, version, source=against)
        name, judged = f"source {against}", {"without": against}
    return Evaluation(
        name=name,
        judged=judged,
        blocks=lambda n: iter(texts.blocks(n, whole=False)),
        places_of=texts.record_ids,
    )


# -- files ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _EvaluationSource:
    """A source of evaluation texts, and the keys of those that count; None for all."""

    source: Any
    keys: frozenset[str] | None = None


def _readings_of(path: Path, columns: Sequence[str]) -> list[_EvaluationSource]:
    """Return what reads a path: a file once for every column, a folder as BEIR's or of texts."""
    if path.is_dir():
        if (path / _QUERIES).exists() or (path / _DOCUMENTS).exists():
            if columns:
                raise SourceError(f"{path} is a folder as BEIR has them: leave out text=")
            return _of_beir(path)
        form = "TextFileSource"
    else:
        suffix = inner_suffix(path)
        if suffix not in _FORMS:
            raise SourceError(
                f"{path}: its format cannot be told from {suffix or 'a name without suffix'!r}; "
                f"known are {', '.join(_FORMS)}, or give a source, such as dp.CsvSource(…)"
            )
        form = _FORMS[suffix]
    made = getattr(sources, form)
    if form == "TextFileSource":
        if columns:
            raise SourceError(f"{path} is text, which has no columns: leave out text=")
        return [_EvaluationSource(made(path))]
    # Without a column the source says which ones there are.
    return [_EvaluationSource(made(path, text=column)) for column in columns] or [
        _EvaluationSource(made(path))
    ]


def _of_beir(folder: Path) -> list[_EvaluationSource]:
    """Return queries and documents: those that qrels of the test judge relevant, else all."""
    judged = folder / _JUDGED
    tables = [judged / "test.tsv"] if (judged / "test.tsv").exists() else [*judged.glob("*.tsv")]
    pairs = [pair for table in sorted(tables) for pair in _relevant(table)]
    found = []
    for side, name in enumerate((_QUERIES, _DOCUMENTS)):
        if (folder / name).exists():
            keys = frozenset(pair[side] for pair in pairs) if tables else None
            source = sources.JsonSource(folder / name, id="_id", text="text")
            found.append(_EvaluationSource(source, keys))
    return found


def _relevant(table: Path) -> Iterator[tuple[str, str]]:
    """Yield the queries and documents of a table that belong together."""
    with reading(table):
        lines = table.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        try:
            query, document, score = cells[0], cells[1], float(cells[2])
        except (IndexError, ValueError):
            raise SourceError(
                f"{table}:{number}: {shown(repr(line), 80)}: expected query, document and score, "
                f"with tabs between them"
            ) from None
        if score > 0:
            yield query, document


class _Files:
    """Texts from elsewhere, numbered as they come.

    Args:
        readings: What is read, one after the other.
    """

    def __init__(self, readings: Sequence[_EvaluationSource]) -> None:
        self._readings = readings
        self._rows: list[pa.Table] = []
        self._count = 0
        self._skipped: dict[str, int] = {}

    def evaluation(self, name: str) -> Evaluation:
        """Return what is compared with all records."""
        return Evaluation(
            name=name,
            judged={},
            blocks=self._blocks,
            places_of=self._places_of,
            skipped=self._skipped,
        )

    def _blocks(self, n: int) -> Blocks:
        for each in self._readings:
            with closing(FileReader.within(Limits())) as reader:
                opened = as_before(each.source, {}).open(reader)
                with closing(ahead(opened.batches)) as items:
                    for batch in items:
                        if not isinstance(batch, Mark):
                            yield self._block(batch, each.keys, n)
                for reason, count in opened.rejected().items():
                    self._skipped[reason] = self._skipped.get(reason, 0) + count

    def _block(
        self, batch: pa.RecordBatch, keys: frozenset[str] | None, n: int
    ) -> tuple[Integers, Grams]:
        for counted in pc.value_counts(batch["skip"].drop_null()).to_pylist():
            reason = counted["values"]
            self._skipped[reason] = self._skipped.get(reason, 0) + counted["counts"]
        usable = pc.is_null(batch["skip"])
        if keys is not None:
            usable = pc.and_(usable, pc.is_in(batch["key"], pa.array(sorted(keys), pa.string())))
        batch = batch.filter(usable)
        nothing = pa.nulls(batch.num_rows, pa.int64())
        there = batch.schema.names
        self._rows.append(
            pa.table(
                {
                    "row": batch["row"],
                    "line": batch["line"] if "line" in there else nothing,
                    "file": batch["file"].cast(pa.string())
                    if "file" in there
                    else nothing.cast(pa.string()),
                }
            )
        )
        sections = batch["sections"]
        owner = pc.list_parent_indices(sections)
        flat = sections.flatten()
        kept = pc.not_equal(flat.field("role"), "rejected")
        owner = owner.filter(kept).to_numpy(zero_copy_only=False)
        texts = combined(pa.chunked_array([flat.field("text").filter(kept)]))
        starts = np.searchsorted(owner, np.arange(batch.num_rows + 1))
        numbers = np.arange(self._count, self._count + batch.num_rows)
        self._count += batch.num_rows
        return numbers, Grams.of(texts, starts, n, whole=False)

    def _places_of(self, numbers: Integers) -> list[str]:
        rows = pa.concat_tables(self._rows).take(numbers).to_pylist() if len(numbers) else []
        return [_place(row) for row in rows]


def _place(row: dict[str, Any]) -> str:
    if row["file"] is None:
        return f"row {row['row']}"
    return f"{row['file']}:{row['line']}" if row["line"] else f"{row['file']}, row {row['row']}"
