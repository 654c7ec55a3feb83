"""Derive from a corpus, once for all processes, what sampling reads: ``NAME.snapshot/`` beside it.

    corpus ─segments─→ texts and chunks  ─┐
    opened runs ─kept─→ pools, candidates ┴─ manifest.json ─checked, mapped→ Served

The corpus stays the only truth. A manifest names the files that belong together, and takes the
place of the one before in one step, so a snapshot is complete or absent whatever happens. It is
valid for a version if it was made at that version or a later one of the same history, and neither
splits nor chunks were made anew since. One process writes at a time; the others wait.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duckplets.artifacts import array_bundle
from duckplets.artifacts.mapped_arrays import damaged, digest_of, need_own, remove_unnamed
from duckplets.base.atomic import sweep
from duckplets.base.locks import lock
from duckplets.base.names import inside
from duckplets.base.progress import Progress, bar
from duckplets.base.sanitize import shown
from duckplets.db import external_files, files
from duckplets.db.database import Database
from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine
from duckplets.engine.work import Work
from duckplets.errors import DamagedFileError, ReadOnlyError
from duckplets.ingest import records
from duckplets.ingest.checkpoint import UNPUBLISHED
from duckplets.serving import segments
from duckplets.serving.manifest import MANIFEST, CorpusState, SnapshotManifest
from duckplets.serving.texts import ChunkTexts

log = logging.getLogger("duckplets")

LARGE = 200_000  # chunks: corpora with more are served from a snapshot
_HELD = 100_000_000  # characters: smaller ones with more as well
_LOCK, VECTORS = "lock", "vectors"


def folder_of(path: Path) -> Path:
    """Return where the snapshot of a corpus lies."""
    return path.with_suffix(files.SNAPSHOT)


class Snapshot:
    """A snapshot that is opened for a version of a corpus.

    Args:
        folder: Where it lies.
        manifest: What it consists of.

    Attributes:
        texts: Of all chunks and sections.
    """

    def __init__(self, folder: Path, manifest: SnapshotManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.texts = ChunkTexts([segments.opened(folder, entry) for entry in manifest.segments])
        self._opened: list[array_bundle.Opened] = []
        self._left = list(manifest.bundles)

    def find(self, keys: Collection[str]) -> dict[str, array_bundle.Opened]:
        """Return of those of the keys that are kept, from where to get each."""
        wanted, found = set(keys), {}
        for number in range(len(self._opened) + len(self._left)):
            if not wanted:
                break
            if number == len(self._opened):
                self._opened.append(array_bundle.Opened(self.folder, self._left.pop()))
            there = wanted & self._opened[number].keys
            found.update(dict.fromkeys(there, self._opened[number]))
            wanted -= there
        return found

    def keep(self, version: int, objects: Mapping[str, Any]) -> str | None:
        """Keep objects by their keys; return why they could not be, or None."""
        try:
            with _alone(self.folder):
                now = SnapshotManifest.read(self.folder)
                if now is None or not _goes_on(now, self.manifest):
                    return "the snapshot was made anew meanwhile"
                bundle = array_bundle.write(self.folder, version, objects)
                now.bundles.append(bundle)
                now.write(self.folder)
                _sweep(self.folder, now)
        except (OSError, DamagedFileError, ReadOnlyError) as error:
            return getattr(error, "strerror", None) or str(error)
        self._opened.insert(0, array_bundle.Opened(self.folder, bundle))
        return None


def _goes_on(now: SnapshotManifest, before: SnapshotManifest) -> bool:
    return now.settings == before.settings and now.version >= before.version


@dataclass(frozen=True, slots=True)
class Served:
    """From where a run is served: a snapshot, texts held in memory, or the corpus itself.

    Attributes:
        snapshot: The one that it is served from, or None.
        held: Whether all texts are to be held in memory.
        notes: What a user should know of that.
    """

    snapshot: Snapshot | None = None
    held: bool = False
    notes: list[str] = field(default_factory=list)

    def texts(self, database: Database, chunking: Mapping[str, Any]) -> ChunkTexts | None:
        """Return the texts of all chunks; None where they are read block by block."""
        if self.snapshot is not None:
            return self.snapshot.texts
        return ChunkTexts([segments.held(database, chunking)]) if self.held else None


def serve(
    database: Database, version: int, chunking: Mapping[str, Any], *, snapshot: bool = True
) -> Served:
    """Return from where a run of a version is served.

    A snapshot that is there and valid is taken; a corpus with more than 200,000 chunks, or 100
    million characters, gets one; a smaller one is held in memory.

    Args:
        database: The corpus.
        version: That of the run.
        chunking: Fingerprint of the chunks.
        snapshot: Whether a snapshot may be used and made.

    Raises:
        ChangedFileError: A file that texts were left in is not as it was.
    """
    external_files.check(database)
    state = CorpusState.of(database, version)
    is_small = state.chunks <= LARGE and database.run("serving/characters")[0][0] <= _HELD
    if not snapshot or database.path is None:
        return Served(held=is_small)
    try:
        found, notes = opened(database, version, state), []
        if found is None and not is_small:
            found = prepare(database, version, chunking)
            size = sum(file.size for file in found.manifest.files)
            notes.append(
                f"the snapshot {shown(found.folder)} was brought up to date ({size:,} bytes), from "
                f"which later runs open at once; it may be deleted"
            )
    except (OSError, DamagedFileError, ReadOnlyError) as error:
        if is_small:
            return Served(held=True)
        why = getattr(error, "strerror", None) or str(error)
        note = (
            f"no snapshot can be used, so texts are read from the corpus itself, which takes "
            f"longer: {shown(why, 400)}"
        )
        return Served(notes=[note])
    return Served(found, held=found is None, notes=notes)


def opened(database: Database, version: int, state: CorpusState | None = None) -> Snapshot | None:
    """Open the snapshot of a corpus for a version; None if none is there that is valid for it.

    Raises:
        DamagedFileError: It is there, and not as it was written.
    """
    folder = folder_of(Path(str(database.path)))
    for again in (True, False):
        manifest = SnapshotManifest.read(folder)
        if manifest is None or not _is_valid(database, manifest, version, state):
            return None
        try:
            return Snapshot(folder, manifest)
        except DamagedFileError:
            # Who made the next one may have removed a file that this one names.
            if not again or SnapshotManifest.read(folder) == manifest:
                raise
    return None


def mapped_texts(database: Database, version: int) -> ChunkTexts | None:
    """Return the texts of a snapshot that is there and valid for a version, or None."""
    if database.path is None:
        return None
    try:
        found = opened(database, version)
    except DamagedFileError as error:
        log.warning("texts are read from the corpus itself, which takes longer: %s", error)
        return None
    return None if found is None else found.texts


def _is_valid(
    database: Database, manifest: SnapshotManifest, version: int, state: CorpusState | None = None
) -> bool:
    """Whether a snapshot holds all of a version."""
    if manifest.version < version:
        return False
    if state is None or manifest.version != version:
        state = CorpusState.of(database, manifest.version)
    return manifest.settings == state.settings and manifest.history == state.history


def fingerprint(database: Database, version: int) -> list[int]:
    """Return what tells the records of a version from others, from a snapshot if one has it."""
    with suppress(DamagedFileError):
        manifest = SnapshotManifest.read(folder_of(Path(str(database.path))))
        if manifest and manifest.version == version and _is_valid(database, manifest, version):
            return manifest.records
    return records.fingerprint(database, version)


def prepare(
    database: Database,
    version: int,
    chunking: Mapping[str, Any],
    *,
    progress: Progress | bool | None = None,
    engine: Engine = INLINE,
) -> Snapshot:
    """Make the snapshot of a corpus at a version, or add to one what has come since.

    Args:
        database: The corpus.
        version: The newest.
        chunking: Fingerprint of the chunks.
        progress: Called with sections done; True for a bar, None for one on a terminal.
        engine: What finds chunks in texts.

    Raises:
        OSError: It cannot be written.
        ReadOnlyError: Its folder holds somebody else's files.
        DamagedFileError: It could not be read afterwards.
        ChangedFileError: A file that texts were left in is not as it was.
    """
    external_files.check(database)
    folder = folder_of(Path(str(database.path)))
    folder.mkdir(exist_ok=True)
    with _alone(folder):
        try:
            before = SnapshotManifest.read(folder)
        except DamagedFileError:
            before = None
        if before is None or not _is_valid(database, before, version):
            _build(database, folder, before, version, chunking, progress, engine)
    found = opened(database, version)
    if found is None:
        raise damaged(folder / MANIFEST, "the corpus was changed meanwhile")
    return found


def _build(
    database: Database,
    folder: Path,
    before: SnapshotManifest | None,
    version: int,
    chunking: Mapping[str, Any],
    progress: Progress | bool | None,
    engine: Engine,
) -> None:
    state = CorpusState.of(database, version)
    found = records.fingerprint(database, version)
    manifest = SnapshotManifest(version, state.history, state.settings, found)
    if before is not None and before.version <= version:
        then = CorpusState.of(database, before.version)
        if before.settings == then.settings and before.history == then.history:
            manifest.segments.extend(_unchanged(database, before.segments))
            manifest.bundles.extend(before.bundles)
    high = int(database.run("serving/ends", {"unpublished": UNPUBLISHED})[0][0])
    low = manifest.segments[-1].high + 1 if manifest.segments else 0
    count = _sections(database, low, high)
    # A segment takes in its neighbours while they are small, so there are never many.
    while manifest.segments and manifest.segments[-1].sections <= 2 * count:
        neighbour = manifest.segments.pop()
        low, count = neighbour.low, count + neighbour.sections
    if count:
        with bar(progress, sys.stderr, "sections of the snapshot") as call:
            told = None if call is None else _of_all(call, count)
            entry = segments.written(database, chunking, folder, low, high, Work(engine, told))
        manifest.segments.append(entry)
    manifest.write(folder)
    _sweep(folder, manifest)


def _of_all(call: Progress, count: int) -> Callable[[int, int | None], None]:
    return lambda done, _: call(done, count)


def _unchanged(
    database: Database, before: list[segments.SegmentEntry]
) -> Iterator[segments.SegmentEntry]:
    """Yield the segments up to one of which sections are gone."""
    for segment in before:
        if _sections(database, segment.low, segment.high) != segment.sections:
            return
        yield segment


def _sections(database: Database, low: int, high: int) -> int:
    return int(database.run("serving/count_sections", {"low": low, "high": high})[0][0])


def forget_gone(database: Database) -> None:
    """Let a snapshot be made anew that has sections which are in the corpus no more."""
    folder = folder_of(Path(str(database.path)))
    with _alone(folder), suppress(DamagedFileError):
        manifest = SnapshotManifest.read(folder)
        if manifest and list(_unchanged(database, manifest.segments)) != manifest.segments:
            (folder / MANIFEST).unlink()


def clean(folder: Path, pinned: Collection[int]) -> None:
    """Remove what neither the newest version needs nor one that runs are pinned to."""
    with _alone(folder):
        manifest = SnapshotManifest.read(folder)
        if manifest is None:
            return
        needed = {manifest.version, *pinned}
        kept_on = [bundle for bundle in manifest.bundles if bundle.version in needed]
        if len(kept_on) < len(manifest.bundles):
            manifest.bundles[:] = kept_on
            manifest.write(folder)
        _sweep(folder, manifest)


def _sweep(folder: Path, manifest: SnapshotManifest) -> None:
    """Remove the files of a folder that its manifest does not name, and nobody else's."""
    sweep(folder / MANIFEST)
    remove_unnamed(folder, {file.name for file in manifest.files})


def check_own(folder: Path) -> None:
    """Refuse a folder that holds somebody else's files, and no manifest.

    Raises:
        ReadOnlyError: It does.
    """
    if not (folder / MANIFEST).exists():
        need_own(folder, (_LOCK, VECTORS), "a snapshot")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process writes in a folder, and let none do so meanwhile.

    Raises:
        ReadOnlyError: It holds somebody else's files, and no manifest.
    """
    check_own(folder)
    with (folder / _LOCK).open("ab") as file:
        if not lock(file, wait=False):
            log.warning("waiting for another process, which makes the snapshot in %s", folder)
            lock(file, wait=True)
        yield


def overview(database: Database, version: int) -> dict[str, Any] | None:
    """Return what is known of the snapshot of a corpus, for people; None where there is none."""
    folder = folder_of(Path(str(database.path)))
    try:
        manifest = SnapshotManifest.read(folder)
        if manifest is None:
            return None
        valid = _is_valid(database, manifest, version)
    except DamagedFileError as error:
        return {"folder": str(folder), "damaged": str(error)}
    size = sum(file.size for file in manifest.files)
    files = sum(1 for _ in manifest.files)
    return {
        "folder": str(folder),
        "version": manifest.version,
        "current": valid,
        "files": files,
        "bytes": size,
    }


def verify(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the bytes of a snapshot.

    Raises:
        DamagedFileError: Its manifest is not as it was written.
    """
    manifest = SnapshotManifest.read(folder)
    for file in () if manifest is None else manifest.files:
        path = folder / file.name
        try:
            inside(folder, file.name, DamagedFileError)
            if path.stat().st_size != file.size or digest_of(path) != file.digest:
                yield f"{path} is not as it was written"
        except DamagedFileError as error:
            yield str(error)
        except OSError as error:
            yield f"{path}: {error.strerror or error}"
