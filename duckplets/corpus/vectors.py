"""Turn texts into numbers: vectors in a file beside the corpus, tokens in a folder of shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from duckplets.base.stages import stage
from duckplets.engine.work import working

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.base.progress import Progress
    from duckplets.corpus.corpus import Corpus
    from duckplets.vectors.add import AddedVectors
    from duckplets.vectors.embed import Dtype, EmbedReport


@stage("embed the texts of")
def embed(
    corpus: Corpus,
    /,
    model: Any,
    name: str = "default",
    *,
    split: str | None = None,
    batch_size: int = 256,
    retries: int = 2,
    max_failures: float = 0.05,
    dtype: Dtype = "float32",
    prompts: Mapping[str, str] | None = None,
    normalise: bool = False,
    made_by: str | Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
) -> EmbedReport:
    """Give a vector to every chunk's text that has none yet, in the file beside the corpus.

    Stopped, interrupted or killed, it goes on where it was when it is called again: what is
    committed stays, and no text is embedded twice. Texts come so that each split has its
    share of what is done. The corpus itself is only read.

    Args:
        model: A function of a list of texts that returns their vectors, (texts, dimension),
            as an array, a tensor or lists; an object with such an ``encode``; or the name or
            folder of a sentence-transformers model, or ``module:function``.
        name: Of the set. A corpus may have several, side by side.
        split: Texts that this split has; by default all.
        batch_size: Texts of a call, at most. They are of about one length.
        retries: How often a call that fails is made again. Then it is halved, until the
            texts that fail are alone; they are kept with the reason in ``vector_failures``,
            and tried again when this is called again.
        max_failures: When more than this share of the last 200 texts fail, it stops.
        dtype: Of the numbers that are kept: ``float32`` or ``float16``.
        prompts: What stands before texts of a role (``anchor``, ``context``, ``rejected``).
            A text in several roles has the prompt of the first in this order.
        normalise: Whether to divide every vector by its length.
        made_by: What the set is tied to in the place of the function's qualified name. Of a
            sentence-transformers model that is its name, a digest of its weights and its
            longest text. Prompts and whether vectors are normalised belong to it.
        progress: Called with texts done and their number; True or False for a bar on stderr
            or none, by default a bar if stderr is a terminal.

    Raises:
        VectorError: An argument is wrong, the set is there and was made by something else,
            another process embeds it, or too many texts fail; what was done is kept.
        SplitError: There is no such split, or there are no splits yet.
        ExtensionError: A model is named, and sentence-transformers is missing.
    """
    from duckplets.vectors import embed

    with working(None, progress, "texts", rate=True) as work:
        return embed.embed(
            corpus.database,
            model,
            name,
            split=split,
            batch_size=batch_size,
            retries=retries,
            max_failures=max_failures,
            dtype=dtype,
            prompts=prompts,
            normalise=normalise,
            made_by=made_by,
            work=work,
        )


@stage("add vectors to")
def add_vectors(
    corpus: Corpus,
    /,
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

    with working(None, progress, "vectors") as work:
        return add.add_vectors(
            corpus.database,
            corpus.path,
            name,
            table,
            on_conflict=on_conflict,
            dtype=dtype,
            work=work,
        )


def vectors(corpus: Corpus, /, name: str = "default") -> pa.Table:
    """Return the vectors of a set, one row for each chunk of the newest version that has one.

    Columns: ``chunk_key``, ``record_id``, ``role``, ``text_hash`` and ``vector``, a fixed-size
    list; by ``chunk_key``. Equal texts have equal vectors. It holds all of them in memory.

    Raises:
        VectorError: There is no such set.
    """
    from duckplets.vectors import add

    return add.table_of(corpus.database, corpus.path, name)


def remove_vectors(corpus: Corpus, /, name: str) -> int:
    """Remove a set of vectors, and return how many it had; runs that are pinned to it end.

    Raises:
        VectorError: There is none of that name.
    """
    from duckplets.vectors.store import VectorStore

    return VectorStore(corpus.path).remove(name)
