"""Lay out the next segment of a snapshot while an ingest stores its texts.

sections, chunks as they are stored ─→ a file beside the corpus ─once published→ the snapshot

Nothing is read back: the texts are in memory anyway. If the corpus has other texts in the end, for
example because a source failed, the counts differ. Then the segment is made from the tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.artifacts.arrays import ArrayWriter
from duckplets.base.arrays import Floats
from duckplets.base.atomic import aside_of, remove
from duckplets.base.columns import byte_spans, whole
from duckplets.db.database import Database
from duckplets.serving import places
from duckplets.serving.texts import ROLES, Layout, ManifestEntry, served

_BYTES = 16_000_000  # of texts that wait in memory: a small ingest writes no file
_SECTION = ("section_key", "text", "record_key", "role", "token_count")
_CHUNK = (
    *("chunk_key", "section_key", "record_key", "kind", "window_index"),
    *("start", "length", "start_token", "token_count"),
)


class LaidAlong:
    """The texts that a running ingest stores, laid out as a segment of chunks.

    A context manager: its file is removed unless a snapshot took it.

    Args:
        database: The corpus.
        chunking: Fingerprint of its chunks.

    Attributes:
        chunks: Chunks added so far.
    """

    def __init__(self, database: Database, chunking: Mapping[str, Any]) -> None:
        # Beside the folder of readers: whatever is ingested next sweeps both.
        self._folder = aside_of(Path(f"{os.path.realpath(str(database.path))}.parts"), "old")
        self._files = places.FilePlaces(database)
        self._chunking = chunking
        self._waiting: list[tuple[pa.Table, pa.Table, Floats]] = []
        self._size = self.chunks = self._characters = 0
        self._first: int | None = None  # section
        self._opened = ExitStack()
        self._writer: ArrayWriter | None = None
        self._layout: Layout | None = None
        self._is_lost = False

    def __enter__(self) -> LaidAlong:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk takes no rest of a file either
            self._opened.close()
        remove(self._folder)

    def add(self, sections: pa.Table, chunks: pa.Table, trust: Floats) -> None:
        """Add sections with their chunks, in the order of their keys; ``trust`` is by chunk."""
        if not sections.num_rows or self._is_lost:
            return
        if self._first is None:
            self._first = sections["section_key"][0].as_py()
        self.chunks += chunks.num_rows
        self._characters += pc.sum(chunks["length"]).as_py() or 0
        self._size += sections["text"].nbytes
        names = [*_SECTION, *places.COLUMNS]
        names += [places.PLACE] * (places.PLACE in sections.column_names)
        self._waiting.append((sections.select(names), chunks.select(_CHUNK), trust))
        if self._layout is None and self._size < _BYTES:
            return
        try:
            self._lay()
        except OSError:  # a disk without room: what makes the snapshot later says so
            self._is_lost = True
            self._waiting.clear()
            self.__exit__()

    def _lay(self) -> None:
        if self._layout is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer = self._opened.enter_context(ArrayWriter(self._folder, "texts"))
            self._layout = Layout(self._writer)
        for sections, chunks, trust in self._waiting:
            text = whole(sections["text"]).cast(pa.string())
            rows = served(sections, chunks, self._chunking, trust)
            at = np.searchsorted(sections["section_key"].to_numpy(), rows["section_key"])
            spans = byte_spans(text, at, rows["start"], rows["length"])
            roles = pc.index_in(sections["role"], value_set=pa.array(ROLES))
            records = {n: sections[n].to_numpy() for n in ("section_key", "record_key")}
            records["role"] = roles.to_numpy()
            self._layout.add(text, records, rows, spans, self._files.of(sections))
        self._waiting.clear()

    def taken(
        self, folder: Path, low: int, high: int, counts: tuple[int, int, int]
    ) -> ManifestEntry | None:
        """Move it into a snapshot as the segment of a range of section keys; return its entry.

        None if the range has other texts, by the numbers of sections, chunks and characters.
        """
        if self._layout is None or self._writer is None or self._is_lost or self._first is None:
            return None
        found = (self._layout.counts["sections"], self.chunks, self._characters)
        if self._first < low or found != counts:
            return None
        entry = self._layout.written(self._writer, low, high, self._files)
        self._layout = None
        self._opened.close()
        os.replace(self._folder / entry["file"]["name"], folder / entry["file"]["name"])
        return entry
