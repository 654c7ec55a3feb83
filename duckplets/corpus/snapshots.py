"""Say what is known of the snapshot of a corpus, for people."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from duckplets.artifacts.arrays import ArrayFile
from duckplets.artifacts.folder import FileEntry
from duckplets.artifacts.read_ahead import reads_per_second
from duckplets.base import memory
from duckplets.db.database import Database
from duckplets.errors import DamagedFileError
from duckplets.serving.snapshot import SnapshotManifest, folder_of


def overview(database: Database, version: int) -> dict[str, Any] | None:
    """Return what is known of the snapshot of a corpus, for people; None where there is none."""
    folder = folder_of(Path(str(database.path)))
    try:
        manifest = SnapshotManifest.read(folder)
        if manifest is None:
            return None
        valid = all(manifest.serves(database, version, of) for of in manifest.segments)
    except DamagedFileError as error:
        return {"folder": str(folder), "damaged": str(error)}
    return {
        "folder": str(folder),
        "version": manifest.version,
        "current": valid,
        "bytes": manifest.size,
        **fit(folder, manifest),
    }


def fit(folder: Path, manifest: SnapshotManifest) -> dict[str, Any]:
    """Return the memory a snapshot could fill, and the reads/s of its disk if it is too little."""
    every = chain(*manifest.segments.values())
    room, of = memory.available(), max(every, key=lambda of: of["file"]["size"], default=None)
    rate = None
    if of is not None and room is not None and manifest.size > room:
        file = ArrayFile(folder, FileEntry(**of["file"]))
        rate = reads_per_second(file, file.buffer.size // 2)
    return {"memory_available": room, "reads_per_s": rate and round(rate)}
