"""Take vectors of texts in, hand them out, and remove them: the verbs of a corpus about vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from duckplets.db.database import Database

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.base.progress import Progress
    from duckplets.vectors.add import AddedVectors


class TextVectors:
    """The part of ``Corpus`` that keeps vectors of its texts, in a file of their own beside it."""

    _database: Database
    path: Path

    def add_vectors(
        self,
        name: str,
        table: Any,
        *,
        on_conflict: Literal["error", "skip"] = "error",
        dtype: Literal["float32", "float16"] = "float32",
        progress: Progress | bool | None = None,
    ) -> AddedVectors:
        """Keep vectors that were made elsewhere, by the texts they are of, whole or not at all.

        They go into ``NAME.vectors.duckdb`` beside the corpus, which may itself be open to read
        only. A vector is that of one text, and all chunks with that text share it.

        Args:
            name: Of the set; all its vectors are of one dimension and from this verb.
            table: An Arrow table or reader of batches, the path of a Parquet file, a
                ``datasets.Dataset``, or a mapping of names to NumPy arrays or lists. Its column
                ``vector`` has lists of numbers or rows of a 2-D array. Which text each is of says
                ``chunk_key``; or ``record_id`` and ``role``, and ``position`` where a record has
                several sections of a role; or ``text``, the bare text of a chunk.
            on_conflict: What becomes of a text that has another vector already, or that comes
                twice with two: an ``error``, or the one there was first stays (``skip``).
            dtype: In which the numbers are kept.
            progress: Called with rows done; True for a bar, None for one on a terminal.

        Raises:
            VectorError: A row names no text of the corpus, or a section of several chunks; its
                vector is null, of another dimension, or has a number that is not finite; or it
                conflicts. It names the row, from 0, and nothing of this call is kept.
        """
        from duckplets.vectors import add

        return add.add_vectors(
            self._database,
            self.path,
            name,
            table,
            on_conflict=on_conflict,
            dtype=dtype,
            progress=progress,
        )

    def vectors(self, name: str = "default") -> pa.Table:
        """Return the vectors of a set, one row for each chunk of the newest version that has one.

        Columns: ``chunk_key``, ``record_id``, ``role``, ``text_hash`` and ``vector``, a fixed-size
        list; by ``chunk_key``. Equal texts have equal vectors. It holds all of them in memory.

        Raises:
            VectorError: There is no such set.
        """
        from duckplets.vectors import add

        return add.table_of(self._database, self.path, name)

    def remove_vectors(self, name: str) -> int:
        """Remove a set of vectors, and return how many it had; runs that are pinned to it end.

        Raises:
            VectorError: There is none of that name.
        """
        from duckplets.vectors.store import VectorStore

        return VectorStore(self.path).remove(name)
