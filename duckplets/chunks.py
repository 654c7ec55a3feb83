"""Chunks: windows onto every section, kept as spans with the hash of their text.

The arithmetic of tokens and windows is in ``windows``; this stage turns it into rows. Ingest
chunks what it appends; ``chunk`` with other settings does the whole corpus again, section
batch by section batch, in one transaction.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from duckplets.chunking import Chunking
from duckplets.database import Database
from duckplets.windows import Windows, windows

_SECTIONS = 16_384  # sections a batch
_KINDS = pa.array(["window", "summary"])


def current_chunking(database: Database) -> Chunking:
    """Return the settings the corpus is chunked with; the defaults before the first ``chunk``."""
    rows = database.run("chunks/get_settings")
    settings = json.loads(rows[0][0]) if rows else {}
    settings.pop("fingerprint", None)
    return Chunking.from_json(settings)


def fingerprint(database: Database) -> dict[str, Any]:
    """Return what identifies the stored chunks: settings and the tokenizer's checksum then."""
    rows = database.run("chunks/get_settings")
    if not rows:
        return Chunking().fingerprint()
    found: dict[str, Any] = json.loads(rows[0][0])["fingerprint"]
    return found


def next_key(database: Database, table: Literal["record", "section", "chunk"]) -> int:
    """Return the first unused key of a table."""
    keys = database.table("chunks/next_keys")
    return int(keys[table][0].as_py())


def chunk(database: Database, chunking: Chunking) -> int:
    """Chunk the corpus with these settings; returns how many sections were done again.

    Nothing is done when they are the current ones: then every section has its chunks.
    """
    # Not current_chunking: that refuses a tokenizer file that has changed, or is gone.
    before, after = fingerprint(database), chunking.fingerprint()
    if before == after and chunking.tokenizer is None:
        return 0
    recount = chunking.tokenizer is not None or before["tokenizer"] is not None
    with database.transaction():
        settings = chunking.to_json() | {"fingerprint": after}
        database.run("chunks/set_settings", {"value": json.dumps(settings)})
        if before == after:
            return 0  # the tokenizer file may have moved
        first_key = next_key(database, "chunk")
        database.run("chunks/clear")
        done = last = 0
        while True:
            sections = database.table("chunks/sections", {"after": last, "limit": _SECTIONS})
            if sections.num_rows == 0:
                return done
            last = int(sections["section_key"][-1].as_py())
            first_key = _append(database, sections, chunking, first_key, recount=recount)
            done += sections.num_rows


def chunk_table(
    texts: pa.Array, section_keys: Any, record_keys: Any, *, chunking: Chunking, first_key: int
) -> tuple[Any, pa.Table]:
    """Return the token count of every text and its chunks as rows, with their own texts."""
    tokens, found = windows(texts, chunking)
    columns = {
        "chunk_key": np.arange(first_key, first_key + len(found.section), dtype=np.int64),
        "section_key": section_keys[found.section],
        "record_key": record_keys[found.section],
        "kind": _KINDS.take(pa.array(found.summary.astype(np.int8))),
        "window_index": found.window_index,
        "overlap": found.overlap,
        "start": found.start,
        "length": found.length,
        "start_token": found.start_token,
        "token_count": found.token_count,
        "text": _texts(texts, found),
    }
    return tokens, pa.table(columns)


def _append(
    database: Database,
    sections: pa.Table,
    chunking: Chunking,
    first_key: int,
    *,
    recount: bool,
) -> int:
    """Chunk a batch of stored sections; returns the next unused key."""
    keys = sections["section_key"].to_numpy()
    tokens, chunks = chunk_table(
        sections["text"].combine_chunks(),
        keys,
        sections["record_key"].to_numpy(),
        chunking=chunking,
        first_key=first_key,
    )
    counted = pa.table({"section_key": keys, "token_count": tokens})
    with database.registered(new_chunks=chunks, counted=counted):
        database.run("chunks/append")
        if recount:
            database.run("chunks/set_token_counts")
    return first_key + int(chunks.num_rows)


def _texts(texts: pa.Array, found: Windows) -> pa.Array:
    """Return the text of every chunk.

    Sections of one window, nearly all as a rule, are taken as they are. The others are sliced
    as Python strings, one section at a time, so that long sections are not copied per window.
    """
    texts = texts.fill_null("")
    sections, first, count = np.unique(found.section, return_index=True, return_counts=True)
    several = np.repeat(count > 1, count)
    short = texts.take(pa.array(found.section[~several]))
    if not several.any():
        return short
    slices: list[str] = []
    for section, low, windows_of in zip(
        sections[count > 1].tolist(), first[count > 1], count[count > 1], strict=True
    ):
        text = texts[section].as_py()
        spans = slice(low, low + windows_of)
        starts, lengths = found.start[spans].tolist(), found.length[spans].tolist()
        slices += [text[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    both = pa.concat_arrays([short, pa.array(slices, short.type)])
    place = np.empty(len(several), dtype=np.int64)
    place[~several] = np.arange(len(short))
    place[several] = len(short) + np.arange(len(slices))
    return both.take(pa.array(place))
