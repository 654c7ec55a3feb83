"""Make the snapshot of a corpus before any run needs it: texts, chunks, and the default pools."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.base.progress import Progress
from duckplets.errors import DuckpletsError, ReadOnlyError, StateMismatchError
from duckplets.ingest import splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.sampling import state
from duckplets.serving import snapshot
from duckplets.vectors import mapped_sets
from duckplets.vectors.store import VectorStore

if TYPE_CHECKING:
    from duckplets.corpus import Corpus
    from duckplets.db.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareReport:
    """What ``prepare`` did.

    Attributes:
        folder: Where the snapshot lies.
        version: Of the corpus.
        sections: How many it holds.
        chunks: How many it holds.
        splits: Those whose default pools it keeps.
        left_out: Splits whose pools it does not keep, and why.
        bytes: Of all its files.
        freed: Bytes that ``clean`` has removed.
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
    seconds: float


def prepare(
    corpus: Corpus,
    database: Database,
    states: Sequence[Path],
    progress: Progress | bool | None,
    *,
    clean: bool,
) -> PrepareReport:
    """Make or complete the snapshot of a corpus; see ``Corpus.prepare``."""
    started = time.monotonic()
    folder = snapshot.folder_of(corpus.path)
    for path in states[1:]:
        if not path.exists():
            raise StateMismatchError(f"state={str(path)!r} does not exist")
    chunking, version = chunking_of(database), corpus.version
    before = _sizes(folder)
    try:
        if clean and folder.exists():
            snapshot.forget_gone(database)
        snapshot.prepare(database, version, chunking, progress=progress)
        kept, left_out = _pools(corpus, database)
        pinned = {
            version for path in states for run in state.runs(path) for version in run.versions
        }
        if clean:
            snapshot.clean(folder, pinned)
            mapped_sets.clean(corpus.path, VectorStore(corpus.path).sets())
        made = snapshot.prepare(database, version, chunking, progress=False)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ReadOnlyError(
            f"no snapshot can be written to {folder}: {reason}; make room or let this user write "
            f"there, or open samplers with snapshot=False"
        ) from error
    return PrepareReport(
        folder=folder,
        version=version,
        sections=sum(segment.sections for segment in made.manifest.segments),
        chunks=sum(segment.count for segment in made.manifest.segments),
        splits=tuple(kept),
        left_out=left_out,
        bytes=sum(file.size for file in made.manifest.files),
        freed=sum(before[path] for path in before.keys() - _sizes(folder).keys()) if clean else 0,
        seconds=round(time.monotonic() - started, 3),
    )


def _sizes(folder: Path) -> dict[Path, int]:
    """Return the files of a folder with their bytes."""
    return {p: p.stat().st_size for p in folder.rglob("*") if p.is_file()}


def _pools(corpus: Corpus, database: Database) -> tuple[list[str], dict[str, str]]:
    """Keep the pools of a default run over each split."""
    kept, left_out = [], {}
    if splits.current_splits(database) is not None:
        for split in splits.SPLITS:
            try:
                corpus.sampler(split=split).close()
                kept.append(split)
            except DuckpletsError as error:
                left_out[split] = str(error)
    return kept, left_out
