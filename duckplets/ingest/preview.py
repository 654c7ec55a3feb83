"""Preview the first records of a source without storing anything."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.prefetch import ahead
from duckplets.base.sanitize import Reported, counted, shown
from duckplets.base.settings import Bounds, checked
from duckplets.errors import SourceError
from duckplets.sources import Mark
from duckplets.sources.custom import adapted
from duckplets.sources.limits import FileReader, Limits
from duckplets.sources.mapping import OnError, check_on_error, described, note_of, overriding
from duckplets.text.characters import bytes_of
from duckplets.text.chunking import Chunking
from duckplets.text.words import with_long_runs

_LOOKED_AT = 1_000  # rows examined
_LOOKED_AT_BYTES = 16 << 20  # bytes of their texts examined for long runs
_MOST = 1_000
_SHOWN = 100  # characters shown of a text
_FEW = 20  # rows from which equal texts mean something
_SHORT = 1_000  # bytes
_LABEL = 30  # longest label, in characters
_LABELS = 10
_LOOK = "look: "
_NULLS = {"n/a", "#n/a", "na", "<na>", "nan", "null", "none", "nil"}  # of missing values
_WITHOUT_RUNS = "NOT regexp_matches(text, '[!-~]{500}')"
_COLUMNS = ("row", "key", "date", "file", "line", "skip", "value", "sections")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Preview(Reported):
    """The first records of a source.

    Attributes:
        rows: The first rows, as dictionaries: ``row`` (its number), ``key``, ``date``,
            ``sections`` (each with ``role``, ``heading`` and ``text``), ``skip`` (why it is no
            record, or None), ``value`` (the unreadable value), ``file`` and ``line``.
        flags: Sentences on texts that look wrong.
        notes: Sentences on the texts of records.
        looked_at: Number of rows that ``flags`` are about.
    """

    rows: list[dict[str, Any]]
    flags: list[str]
    notes: list[str]
    looked_at: int

    def __str__(self) -> str:
        """Show the records, a line a section, with the first characters of its text."""
        lines = [*self.notes]
        for row in self.rows:
            value = "" if row["value"] is None else f": {shown(repr(row['value']), 60)}"
            why = f": no record, {shown(row['skip'])}{value}" if row["skip"] else ""
            day = f" ({row['date']})" if row["date"] is not None else ""
            lines.append(f"row {row['row']}{day}{why}")
            lines += [
                f"  {section['role']} ({shown(section['heading'], 40)}): {_start(section['text'])}"
                for section in (row["sections"] or [] if not row["skip"] else [])
            ]
        return "\n".join(lines + [f"{_LOOK}{flag}" for flag in self.flags])

    __repr__ = __str__


def preview(
    source: Any, n: int = 5, *, on_error: OnError | None = None, limits: Limits | None = None
) -> Preview:
    """Return the first records that a source would become; nothing is stored.

    The first thousand rows decide whether texts look like JSON, are all the same, look like labels,
    or like words for no value (N/A, nan, NULL), which ``null_values=`` names.

    Args:
        source: As for ``Corpus.ingest``; an iterator of records is used up.
        n: How many rows to return, from 1 to 1,000.
        on_error: As for ``Corpus.ingest``.
        limits: As for ``Corpus.ingest``.

    Raises:
        SourceError: The source cannot be read.
    """
    checked("n", n, Annotated[int, Bounds(1, _MOST)], SourceError)
    check_on_error(on_error)
    read = overriding(adapted(source), on_error)
    rows: list[dict[str, Any]] = []
    with closing(FileReader.within(limits or Limits())) as reader:
        opened = read.open(reader)
        with closing(ahead(opened.batches)) as items:
            for batch in items:
                if isinstance(batch, Mark):
                    continue
                part = batch.slice(0, _LOOKED_AT - len(rows))
                names = [name for name in _COLUMNS if name in part.schema.names]
                nothing = dict.fromkeys(_COLUMNS)
                rows += [nothing | row for row in part.select(names).to_pylist()]
                if len(rows) >= _LOOKED_AT:
                    break
    reading = described(read)
    notes = [note for note in (note_of(reading) if reading is not None else "",) if note]
    looks = (note for note in opened.notes() if note.startswith(_LOOK))
    texts = [s["text"] for row in rows if row["skip"] is None for s in row["sections"] or []]
    flags = [*_flags(rows), *_of_runs(pa.array(texts, pa.string()), Chunking().max_tokens)]
    flags += [note.removeprefix(_LOOK) for note in looks]
    return Preview(rows=rows[:n], flags=flags, notes=notes, looked_at=len(rows))


def _start(text: str | None) -> str:
    whole = text or ""
    more = f"… ({len(whole):,} characters)" if len(whole) > _SHOWN else ""
    return shown(whole[:_SHOWN]) + more


def flags_of(batch: pa.RecordBatch, most: int) -> list[str]:
    """Return what looks wrong about the first texts of a batch; of long ones only runs."""
    first = batch.slice(0, _LOOKED_AT)
    sections = pc.list_flatten(first.filter(pc.is_null(first["skip"]))["sections"])
    texts = pc.struct_field(sections, "text")
    short = sections.filter(pc.less(pc.binary_length(texts), _SHORT)).to_pylist()
    return _flags([{"skip": None, "sections": short}]) + _of_runs(texts, most)


def _of_runs(texts: pa.Array, most: int) -> list[str]:
    """Report texts with a run of letters that no space parts, and the option against them."""
    sizes = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    some = np.flatnonzero(np.cumsum(sizes) <= _LOOKED_AT_BYTES)
    texts = texts.take(some[sizes[some] > most])
    long = int(with_long_runs(*bytes_of(texts), most).sum())
    if not long:
        return []
    return [
        f"{long:,} of {len(some):,} texts have more than {most:,} tokens without a space, as "
        f"base64 and minified code do; where={_WITHOUT_RUNS!r} (--where) leaves them out"
    ]


def _flags(rows: list[dict[str, Any]]) -> list[str]:
    """Return what looks wrong about texts, by role and heading."""
    texts: dict[str, list[str]] = defaultdict(list)
    bad = 0
    for row in rows:
        bad += row["skip"] is not None
        for section in (row["sections"] or []) if row["skip"] is None else []:
            texts[f"{section['role']} ({shown(section['heading'], 40)})"].append(section["text"])
    found = [flag for name, group in texts.items() for flag in _of_texts(name, group)]
    found += _of_nulls([text for group in texts.values() for text in group])
    if bad:
        found.append(f"{bad:,} of the first {counted(len(rows), 'row')} cannot become records")
    return found


def _of_texts(name: str, texts: list[str]) -> list[str]:
    found = []
    json_like = [text for text in texts if _is_json(text)]
    if json_like:
        some = f"{len(json_like):,} of {len(texts):,}"
        found.append(f"{name}: {some} texts are JSON, such as {_start(json_like[0])}")
    different = list(dict.fromkeys(texts))
    if len(texts) >= _FEW and len(different) == 1:
        found.append(f"{name}: all {len(texts):,} texts are the same: {_start(texts[0])}")
    elif len(texts) >= _FEW and len(different) <= min(_LABELS, len(texts) // 4):
        if max(map(len, different)) <= _LABEL:
            few = ", ".join(_start(text) for text in different)
            found.append(f"{name}: only {len(different)} different texts, as of labels: {few}")
    elif len(texts) >= _FEW and all(_is_number(text) for text in texts):
        found.append(f"{name}: all {len(texts):,} texts are numbers, such as {_start(texts[0])}")
    return found


def _of_nulls(texts: list[str]) -> list[str]:
    """Report texts that look like missing values, and the option for them."""
    short = Counter(text.strip() for text in texts if len(text) <= _LABEL)
    words = {word: n for word, n in sorted(short.items()) if word.casefold() in _NULLS}
    if not words:
        return []
    each = ", ".join(f"{word} ({n:,})" for word, n in words.items())
    listed_words = ", ".join(map(repr, words))
    return [
        f"{sum(words.values()):,} of {len(texts):,} texts look like no value: {each}; "
        f"null_values=[{listed_words}] takes them for none"
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("[", "{"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
