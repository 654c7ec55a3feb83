"""Store sections and cut them into chunks: spans of a section with the hash of their text.

The arithmetic of tokens and windows is in ``text.windows``; here it becomes rows. Ingest chunks
what it appends; ``chunk`` with other settings does the whole corpus again in one transaction,
batch by batch. With other preprocessors sections are rebuilt from their original texts.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.base.columns import whole
from duckplets.base.documents import StoredJson
from duckplets.base.sanitize import shown
from duckplets.db.database import Database
from duckplets.db.external_files import ANY_TIME, INSIDE
from duckplets.db.writes import CorpusFile, changes
from duckplets.errors import ChunkingError
from duckplets.ingest import checkpoint
from duckplets.text import chunkers
from duckplets.text.accents import odd_spaces, unaccented
from duckplets.text.chunkers import Chunker
from duckplets.text.chunking import MOST, Chunking
from duckplets.text.preprocessors import REGISTRY, Preprocessor
from duckplets.text.windows import Windows, windows, windows_of

if TYPE_CHECKING:
    from duckplets.ingest.text_files import TextFiles

_SECTIONS = 16_384  # sections a batch
_CALLED = 2_048  # sections a batch, if each may have thousands of spans
_RECORDS = 4_096  # records a batch, if sections are rebuilt
_IN_NO_FILE = {"file_key": pa.int32(), "file_row": pa.int64(), "item": pa.int32()}
_STEP = 16_384  # rows of an Arrow slice: DuckDB scans slices in parallel
_SETTINGS: dict[str, Any] = {
    "max_tokens": range(1, MOST + 1),
    "summary_tokens": range(MOST + 1),
    "summary_weight": float,
    "weight_floor": float,
    "position_weight": str,
    "overlap": [range(MOST + 1)],
    "tokenizer": (None, {"path": str, "sha256": str}),
    "preprocessors?": [{"name": str}],
    "chunker?": {"name": str, "version": str},
}
_CLEANING = ("preprocessors", "denoise", "normalise")
_FINGERPRINT = _SETTINGS | {"tokenizer": (None, str)}


def current_chunking(database: Database) -> Chunking:
    """Return the settings of the chunks; the defaults before the first ``chunk``."""
    settings = _settings(database)
    settings.pop("fingerprint", None)
    return Chunking.from_json(settings)


def changed_chunking(database: Database, fields: Mapping[str, Any]) -> Chunking:
    """Return the settings of the chunks with some changed.

    The length of a summary follows the length of a window, unless it was chosen.
    """
    settings = _settings(database)
    settings.pop("fingerprint", None)
    if settings:
        usual = 0 if "chunker" in settings else Chunking.summary_of(settings["max_tokens"])
        if settings["summary_tokens"] == usual:
            del settings["summary_tokens"]
    cleaning = {name: fields[name] for name in _CLEANING if name in fields}
    cut = {name: fields[name] for name in fields if name not in _CLEANING}
    if "preprocessors" in cleaning:
        settings["preprocessors"] = ()
    return replace(Chunking.from_json(settings | cut), **cleaning)


def fingerprint(database: Database) -> dict[str, Any]:
    """Return what identifies the stored chunks: settings, and the tokenizer's checksum then."""
    settings = _settings(database)
    return dict(settings["fingerprint"] if settings else _usual())


@cache
def _usual() -> dict[str, Any]:
    """Return the identity of chunks with default settings."""
    return Chunking().fingerprint()


def _settings(database: Database) -> dict[str, Any]:
    rows = database.run("ingest/chunks/get_settings")
    if not rows:
        return {}
    place = StoredJson(database.path, "settings", "chunking")
    return dict(place.read("value", rows[0][0], _SETTINGS | {"fingerprint": _FINGERPRINT}))


def cleaning(database: Database) -> str:
    """Return a hash of the preprocessors applied to texts; empty without any."""
    found = fingerprint(database).get("preprocessors")
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] if found else ""


def content_of(database: Database, source: str, split: str, version: int) -> str:
    """Return a fingerprint of the records of a source and split, and of their cleaning."""
    return contents_of(database, source, split, version)[source, split]


def contents_of(
    database: Database, source: str | None, split: str | None, version: int
) -> Mapping[tuple[str, str], str]:
    """Return that fingerprint by source and split, for one or all."""
    cleaned_by = cleaning(database)
    by = f":{cleaned_by}" if cleaned_by else ""
    found = defaultdict(lambda: f"0:0:0{by}")
    parameters = {"source": source, "split": split, "version": version}
    for name, of_split, *figures in database.run("ingest/records/contents", parameters):
        records, contents, places = map(int, figures)
        found[name, of_split] = f"{records}:{contents:x}:{places:x}{by}"
    return found


def cleaned(database: Database) -> dict[str, int]:
    """Return what preprocessors did to the records of the newest version, as counts."""
    changed, dropped, emptied = database.run("ingest/sections/cleaned")[0]
    return {
        "sections changed": changed,
        "sections dropped": dropped,
        "records without sections": emptied,
    }


def next_keys(database: Database) -> dict[str, int]:
    """Return the next ``record``, ``section`` and ``chunk`` keys, by one statement."""
    keys: dict[str, int] = database.table("ingest/chunks/next_keys").to_pylist()[0]
    return keys


@changes("chunk")
def chunk(corpus: CorpusFile, /, chunking: Chunking | None = None, **fields: Any) -> int:
    """Cut the corpus into chunks with other settings; return how many sections were cut again.

    Ingest cuts new records, so this is needed only to change settings. A record that
    preprocessors leave nothing of stays, without sections.

    Args:
        chunking: All settings. Without preprocessors texts are again as they came.
        fields: Fields of ``Chunking`` to change, such as ``max_tokens=256`` or ``denoise=True``;
            all others keep their value.

    Raises:
        ChunkingError: A setting is wrong, a preprocessor or chunker is not registered or
            failed, or preprocessors change while an ingest is unfinished.
    """
    if chunking is not None and fields:
        raise ChunkingError(f"{min(fields)}=: give it to Chunking(…), or leave Chunking(…) out")
    found = changed_chunking(corpus.database, fields) if fields else chunking or Chunking()
    return _chunked(corpus.database, found)


def _chunked(database: Database, chunking: Chunking) -> int:
    # Not current_chunking, which refuses a changed or missing tokenizer file.
    before, after = fingerprint(database), chunking.fingerprint()
    if before == after and chunking.tokenizer is None:
        return 0
    if isinstance(chunking.chunker, Chunker):  # refuses unregistered functions
        chunkers.REGISTRY.find(chunking.chunker.name, chunking.chunker.version)
    anew = before.get("preprocessors") != after.get("preprocessors")
    if anew:
        for preprocessor in chunking.preprocessors:
            if isinstance(preprocessor, Preprocessor):
                REGISTRY.find(preprocessor.name, preprocessor.version)
        _refuse_unfinished(database)
        _refuse_placed(database)
    recount = chunking.tokenizer is not None or before["tokenizer"] is not None
    with database.transaction():
        settings = chunking.to_json() | {"fingerprint": after}
        database.run("ingest/chunks/set_settings", {"value": json.dumps(settings)})
        database.run("ingest/records/rearranged")
        if before == after:
            return 0  # the tokenizer file may have moved
        if anew:
            return _store_anew(database, chunking)
        first_key = next_keys(database)["chunk"]
        database.run("ingest/chunks/clear")
        done, low = 0, 1
        limit = _SECTIONS if chunking.chunker is None else min(_SECTIONS, _CALLED)
        while True:
            last = database.run("ingest/chunks/last", {"low": low, "limit": limit})[0][0]
            if last is None:
                return done
            sections = database.table("ingest/chunks/sections", {"low": low, "high": last})
            low = int(last) + 1
            place = _label(database, sections)
            tokens, chunks = _cut(sections, chunking, first_key, place)
            counted = pa.table({"section_key": sections["section_key"], "token_count": tokens})
            with database.registered(new_chunks=chunks, counted=counted):
                database.run("ingest/chunks/append")
                if recount:
                    database.run("ingest/chunks/set_token_counts")
            first_key += chunks.num_rows
            done += sections.num_rows


def _refuse_unfinished(database: Database) -> None:
    """Refuse to change the cleaning while an ingest is half done."""
    checkpoint.sweep(database)
    for found in checkpoint.ingests(database):
        raise ChunkingError(
            f"source {found.name!r} has an unfinished ingest; finish it, or discard it by "
            f"removing the source, before texts are cleaned otherwise"
        )


def _refuse_placed(database: Database) -> None:
    """Refuse to clean texts that stay in their files."""
    for path, _, modified, _ in database.run("db/external_files/files"):
        if modified == ANY_TIME:
            continue
        raise ChunkingError(
            f"texts were left in {shown(path)}, and preprocessors make others of them: ingest the "
            f"source without in_place=True (--in-place) to have its texts cleaned"
        )


def append_sections(
    database: Database,
    chunking: Chunking,
    rows: pa.Table,
    first_key: int,
    stored: Callable[[pa.Table, pa.Table], None] | None = None,
    texts: TextFiles | None = None,
) -> int:
    """Store sections with their chunks, numbered from a key; return the next chunk key.

    A dropped section has a null text: only its ``original`` is stored. ``stored`` is called with
    the sections and chunks. ``texts`` decides which texts lie in files.
    """
    originals = None
    if "original" in rows.column_names:
        originals = rows.filter(rows["original"].is_valid()).drop_columns("text")
        rows = rows.drop_columns("original")
        if rows["text"].null_count:
            rows = rows.filter(rows["text"].is_valid())
    tokens, chunks = _cut(rows, chunking, first_key, _label(database, rows))
    for name, values in texts.add(rows).items() if texts is not None else ():
        rows = rows.append_column(name, values)
    if "file_key" not in rows.column_names:
        for name, kind in _IN_NO_FILE.items():
            rows = rows.append_column(name, pa.nulls(rows.num_rows, kind))
    rows = rows.append_column("token_count", pa.array(tokens))
    plain = whole(rows["text"])
    rows = rows.append_column("plain", unaccented(plain))
    rows = rows.append_column("odd_spaces", odd_spaces(plain))
    with database.registered(new_sections=sliced(rows), new_chunks=sliced(chunks)):
        database.run("ingest/records/append_sections")
        database.run("ingest/chunks/append")
    if stored is not None:
        stored(rows, chunks)
    if originals is not None and originals.num_rows:
        with database.registered(new_originals=sliced(originals)):
            database.run("ingest/sections/append_originals")
    return first_key + int(chunks.num_rows)


def sliced(table: pa.Table) -> pa.Table:
    """Return a table in slices that several threads can scan."""
    return pa.Table.from_batches(table.to_batches(max_chunksize=_STEP), schema=table.schema)


def _cut(
    sections: pa.Table, chunking: Chunking, first_key: int, place: Callable[[int], str]
) -> tuple[Any, pa.Table]:
    """Return the token count of every section, and the chunks with their texts."""
    texts = whole(sections["text"])
    if isinstance(chunking.chunker, Chunker):
        spans = chunkers.spans_of(texts, chunking.chunker, place)
        tokens, found = windows_of(texts, spans, chunking)
    else:
        tokens, found = windows(texts, chunking)
    columns = {
        "chunk_key": np.arange(first_key, first_key + len(found.section), dtype=np.int64),
        "section_key": sections["section_key"].to_numpy()[found.section],
        "record_key": sections["record_key"].to_numpy()[found.section],
        "kind": _kinds().take(pa.array(found.summary.astype(np.int8))),
        "window_index": found.window_index,
        "overlap": found.overlap,
        "start": found.start,
        "length": found.length,
        "start_token": found.start_token,
        "token_count": found.token_count,
        "text": _texts(texts, found, whole=chunking.chunker is None),
    }
    return tokens, pa.table(columns)


@cache
def _kinds() -> pa.Array:
    """Return the kinds of chunks; converting a list would import pandas where installed."""
    return pa.array(["window", "summary"])


def _store_anew(database: Database, chunking: Chunking) -> int:
    """Clean all sections from their originals and store them with chunks; return their number."""
    from duckplets.ingest import sections_view
    from duckplets.ingest.preprocess import clean
    from duckplets.ingest.text_files import TextFiles

    keys = next_keys(database)
    done, first_key, last_record = 0, keys["chunk"], keys["record"] - 1
    texts = TextFiles(database, INSIDE)
    reader = database.cursor()  # outside of this transaction: it sees the state before
    try:
        database.run("ingest/chunks/clear")
        database.run("ingest/sections/clear")
        for rows in _as_they_came(reader, last_record):
            found = clean(rows["text"], chunking.preprocessors, _label(database, rows))
            columns = {name: rows[name] for name in rows.schema.names}
            columns |= {"text": found.text, "original": found.original}
            table = pa.table(columns)
            first_key = append_sections(database, chunking, table, first_key, texts=texts)
            done += rows.num_rows
        texts.close()
        sections_view.forget_unused(database)
    finally:
        texts.drop()
        reader.close()
    return done


def _as_they_came(reader: Database, last_record: int) -> Iterator[pa.RecordBatch]:
    """Yield all original sections by record and position, each with its key."""
    key = 0
    for low in range(1, last_record + 1, _RECORDS):
        span = {"low": low, "high": low + _RECORDS - 1}
        table = reader.table("ingest/sections/originals", span).combine_chunks()
        if table.num_rows:
            keys = _keys(table["section_key"].fill_null(0).to_numpy(), key)
            key = int(keys[-1])
            yield table.set_column(0, "section_key", pa.array(keys)).to_batches()[0]


def _keys(keys: Any, before: int) -> Any:
    """Return the keys of sections; dropped ones, 0 so far, continue from the last."""
    index = np.arange(len(keys))
    known = np.maximum.accumulate(np.where(keys > 0, index, -1))
    return np.where(known < 0, before, keys[known]) + index - known


def _label(database: Database, rows: pa.RecordBatch | pa.Table) -> Callable[[int], str]:
    """Return a function that names a section by index, for errors."""

    def label(at: int) -> str:
        key = rows["record_key"][at].as_py()
        record_id = database.run("ingest/sections/record_id", {"record_key": key})[0][0]
        return f"record {record_id}, section {rows['position'][at]}"

    return label


def _texts(texts: pa.Array, found: Windows, *, whole: bool) -> pa.Array:
    """Return the text of every chunk.

    Sections that are one window, usually nearly all, are used as they are. Others are sliced as
    Python strings one section at a time, so long sections are not copied per window.
    """
    texts = texts.fill_null("")
    sections, first, count = np.unique(found.section, return_index=True, return_counts=True)
    cut = (count > 1) | (not whole)
    several = np.repeat(cut, count)
    short = texts.take(pa.array(found.section[~several]))
    if not several.any():
        return short
    slices: list[str] = []
    for section, low, windows_in in zip(
        sections[cut].tolist(), first[cut], count[cut], strict=True
    ):
        text = texts[section].as_py()
        spans = slice(low, low + windows_in)
        starts, lengths = found.start[spans].tolist(), found.length[spans].tolist()
        slices += [text[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    both = pa.concat_arrays([short, pa.array(slices, short.type)])
    place = np.empty(len(several), dtype=np.int64)
    place[~several] = np.arange(len(short))
    place[several] = len(short) + np.arange(len(slices))
    return both.take(pa.array(place))
