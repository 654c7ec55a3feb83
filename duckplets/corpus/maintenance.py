"""Prepare the snapshot of a corpus, from which runs are served."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duckplets.base.progress import Progress
from duckplets.base.sanitize import Reported
from duckplets.base.stages import stage
from duckplets.corpus.runs import sampler
from duckplets.db.writes import CorpusFile
from duckplets.engine import opened
from duckplets.errors import DuckpletsError, ReadOnlyError, SourceError
from duckplets.ingest import splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.runs import state as states


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareReport(Reported):
    """The snapshot that ``prepare`` made.

    Attributes:
        folder: The snapshot's folder.
        version: Version of the corpus.
        sections: Number of sections in it.
        chunks: Number of chunks in it.
        splits: Splits whose default pools it holds.
        left_out: Splits whose pools it does not hold, and why.
        bytes: Bytes of all its files.
        freed: Bytes that ``clean`` removed.
        rewritten: Bytes of texts that ``rewrite`` stored in files of the corpus.
        memory_available: Bytes of memory available; None if unknown.
        reads_per_s: Texts per second that its disk gives, measured if it exceeds the memory.
        seconds: Wall time.
    """

    folder: Path
    version: int
    sections: int
    chunks: int
    splits: tuple[str, ...]
    left_out: dict[str, str]
    bytes: int
    freed: int
    rewritten: int
    memory_available: int | None
    reads_per_s: int | None
    seconds: float


@stage("remove from")
def remove(
    corpus: CorpusFile,
    /,
    source: str | None = None,
    *,
    recipe: str | None = None,
    vectors: str | None = None,
) -> int:
    """Remove a source from the newest version, a stored recipe, or a set of vectors.

    Runs pinned to earlier versions keep drawing from a source; runs pinned to vectors end. Rows of
    an unfinished ingest of the source are discarded and counted, too.

    Returns:
        How many records, recipes or vectors were removed.

    Raises:
        SourceError, RecipeError, VectorError: There is none of that name.
    """
    from duckplets.ingest import checkpoint
    from duckplets.recipes import store as recipe_store
    from duckplets.vectors.store import VectorStore

    if sum(name is not None for name in (source, recipe, vectors)) != 1:
        raise SourceError("remove: give the name of a source, or recipe=, or vectors=")
    if vectors is not None:
        return VectorStore(corpus.path).remove(vectors)
    with corpus.database.changing(f"remove a {'recipe' if source is None else 'source'} from"):
        if recipe is None:
            return checkpoint.remove(corpus.database, source or "")
        recipe_store.remove(corpus.database, recipe)
        return 1


@stage("prepare")
def prepare(
    corpus: CorpusFile,
    /,
    *,
    clean: bool = False,
    rewrite: bool = False,
    state: str | Path | Sequence[str | Path] = (),
    engine: Any = None,
    progress: Progress | bool | None = None,
) -> PrepareReport:
    """Make the snapshot from which runs are served, ``NAME.snapshot/`` beside the corpus.

    It holds texts, chunks and default pools; what has come since is added. Delete it at will.

    Args:
        clean: Remove files that neither the newest version nor a saved run needs.
        rewrite: First store the texts of compressed files left in place in ``NAME.texts/``, next to
            the corpus. Runs read them there, and the corpus no longer needs these files.
        state (FILE,…): State files of such runs, or one, other than the one beside the corpus.
        engine: The engine that finds chunks in texts, as for ``mine``; this process reads and
            writes.
        progress: Called with sections done; True for a bar, None for one on a terminal.

    Raises:
        ReadOnlyError: The folder cannot be written, or ``rewrite`` and the corpus is read-only.
        ChangedFileError: ``rewrite``, and a file left in place has changed.
    """
    from duckplets.corpus.snapshots import fit
    from duckplets.ingest import checkpoint, text_files
    from duckplets.serving import snapshot
    from duckplets.vectors import opened as vectors

    started, database, version = time.monotonic(), corpus.database, corpus.version
    folder, chunking = snapshot.folder_of(corpus.path), chunking_of(database)
    files = states.state_paths(corpus.path, state)
    before, rewritten = _sizes(folder), 0
    if rewrite:
        with database.changing("rewrite texts of"):
            checkpoint.sweep(database)
            if keys := text_files.copied(database):
                snapshot.forget(database)  # it has a copy of these texts
                rewritten = text_files.rewrite(database, keys)
    try:
        with opened(engine) as by:
            if clean and folder.exists():
                snapshot.clean(database, None)
            snapshot.prepare(database, version, chunking, progress=progress, engine=by)
        drawable, left_out = _pools(corpus)
        if clean:
            runs = [run for path in files for run in states.runs(path)]
            snapshot.clean(database, {version for run in runs for version in run.versions})
            vectors.clean(corpus.path)
        made = snapshot.prepare(database, version, chunking, progress=False)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ReadOnlyError(
            f"no snapshot can be written to {folder}: {reason}; make room or let this user write "
            f"there, or open samplers with dp.Options(snapshot=FOLDER)"
        ) from error
    return PrepareReport(
        folder=folder,
        **fit(folder, made.manifest),
        version=version,
        sections=sum(segment["sections"] for segment in made.manifest.segments["chunks"]),
        chunks=sum(segment["chunks"] for segment in made.manifest.segments["chunks"]),
        splits=tuple(drawable),
        left_out=left_out,
        bytes=made.manifest.size,
        freed=sum(before[path] for path in before.keys() - _sizes(folder).keys()) if clean else 0,
        rewritten=rewritten,
        seconds=round(time.monotonic() - started, 3),
    )


def _sizes(folder: Path) -> dict[Path, int]:
    """Return the files of a folder with their sizes."""
    return {p: p.stat().st_size for p in folder.rglob("*") if p.is_file()}


def _pools(corpus: CorpusFile) -> tuple[list[str], dict[str, str]]:
    """Store the pools of a default run over each split."""
    named, left_out = list[str](), dict[str, str]()
    if splits.current_splits(corpus.database) is not None:
        for split in splits.SPLITS:
            try:
                sampler(corpus, split=split).close()
                named.append(split)
            except DuckpletsError as error:
                left_out[split] = str(error)
    return named, left_out
