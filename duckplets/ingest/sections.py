"""Sections: the texts of new records, stored with their chunks.

    sections (a list for every record) ─→ rows of sections, rows of chunks, originals

The texts of a list have consecutive keys, those that preprocessors dropped included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.db.database import Database
from duckplets.ingest.chunks import append_sections, next_key, sliced
from duckplets.text.chunking import Chunking

__all__ = ["SectionWriter", "sliced"]


@dataclass(slots=True)
class SectionWriter:
    """Appends the sections of new records, and their chunks.

    Attributes:
        database: The corpus, inside a transaction.
        chunking: How sections are cut.
        section_key: The next section's key.
        chunk_key: The next chunk's key.
    """

    database: Database
    chunking: Chunking
    section_key: int
    chunk_key: int

    @classmethod
    def after_the_last(cls, database: Database, chunking: Chunking) -> SectionWriter:
        """Return one that goes on after what is stored."""
        section_key, chunk_key = next_key(database, "section"), next_key(database, "chunk")
        return cls(database, chunking, section_key, chunk_key)

    def append(self, sections: pa.ListArray, record_keys: Any) -> None:
        """Store the sections of records.

        Args:
            sections: Of every record a list of (role, heading, text), as in ``ROW_SCHEMA``, or
                of (role, heading, text, original), as from ``preprocess``.
            record_keys: The records' keys, shape (records,).
        """
        counts = pc.list_value_length(sections).to_numpy(zero_copy_only=False)
        flat = sections.flatten()
        owners = np.repeat(record_keys, counts)
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        columns = {
            "section_key": self.section_key + np.arange(len(flat), dtype=np.int64),
            "record_key": owners,
            "position": np.arange(len(flat), dtype=np.int64) - firsts,
        }
        fields = {field.name: flat.field(field.name) for field in flat.type}
        # Dropped sections use up keys as well, so that they fit in where they come back.
        self.section_key += len(flat)
        self.chunk_key = append_sections(
            self.database, self.chunking, pa.table(columns | fields), self.chunk_key
        )
