"""Derive what sampling reads from a corpus, once for all processes: ``NAME.snapshot/``."""

# A snapshot is valid for a version if it is of that or a later one of the same history, and splits
# and chunks were not made again. The texts of a small corpus are in memory instead.

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from duckplets.artifacts.arrays import Bundle, MappedFile, write_bundle
from duckplets.artifacts.folder import ArtifactFolder, damaged, files_of
from duckplets.base.progress import Progress, bar
from duckplets.base.sanitize import shown
from duckplets.db import external_files, files
from duckplets.db.database import Database
from duckplets.engine.inline import INLINE
from duckplets.engine.protocol import Engine
from duckplets.engine.work import Work
from duckplets.errors import DamagedFileError, DuckpletsError, EmptyPoolError, ReadOnlyError
from duckplets.ingest import records
from duckplets.serving import texts
from duckplets.serving.along import LaidAlong
from duckplets.serving.texts import ChunkTexts, Contents, ManifestEntry, StoredTexts

LARGE = 200_000  # chunks above which a corpus is served from a snapshot
_HELD = 100_000_000  # characters above which a smaller corpus is, too
BUILDING = "500MB"  # memory of DuckDB, besides some 300 MB
_FORMAT = 6
MANIFEST, VECTORS = "manifest.json", "vectors"


def folder_of(path: Path) -> Path:
    """Return the folder of a corpus's snapshot."""
    return files.next_to(path, files.SNAPSHOT)


def _folder_of(database: Database) -> Path:
    return folder_of(Path(str(database.path)))


def _folder(path: Path) -> ArtifactFolder:
    return ArtifactFolder(path, "a snapshot", r"manifest\.json", _FORMAT, (VECTORS,))


def check_own(path: Path) -> None:
    """Refuse a folder with foreign files and no manifest."""
    _folder(path).check_own()


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """The files of a snapshot, and the corpus they were made from."""

    version: int  # corpus version at which it was made
    history: str  # digest of the versions up to it
    settings: str  # digest of splits and chunking
    records: list[int]  # fingerprint of the records of that version
    # For both contents: entries for ``texts.opened``, by ascending keys.
    segments: dict[Contents, list[ManifestEntry]] = field(default_factory=dict)
    # Stored pools, the newest last: files and ``version`` of each.
    bundles: list[ManifestEntry] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> SnapshotManifest | None:
        """Return the manifest of a folder; None without a snapshot, or with an outdated one."""
        content = _folder(folder).read(MANIFEST)
        try:
            return None if content is None else cls(**content)
        except TypeError as error:
            raise damaged(folder / MANIFEST, "it is not as it was written") from error

    def write(self, folder: Path) -> None:
        """Replace the manifest of a folder, and sweep what it does not name."""
        _folder(folder).write(MANIFEST, {name: getattr(self, name) for name in self.__slots__})
        _folder(folder).sweep()

    def is_of(self, database: Database) -> bool:
        """Return whether the snapshot has the history and settings of a corpus at its version."""
        state = CorpusState.of(database, self.version)
        return bool(state == (self.history, self.settings))

    def serves(self, database: Database, version: int, contents: Contents) -> bool:
        """Return whether the snapshot has all contents of a version of a corpus."""
        return self.version >= version and contents in self.segments and self.is_of(database)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in files_of([self.segments, self.bundles]))


class CorpusState(NamedTuple):
    """Digests of the corpus's history and settings, which a snapshot must have."""

    history: str
    settings: str

    @classmethod
    def of(cls, database: Database, version: int) -> CorpusState:
        """Return the state of a corpus, as of a version."""
        return cls(*database.run("serving/state", {"version": version})[0])


class Snapshot:
    """A snapshot opened for a version of a corpus."""

    def __init__(
        self, folder: Path, manifest: SnapshotManifest, contents: Contents, corpus: Path
    ) -> None:
        self.folder, self.manifest = folder, manifest
        mapped: dict[str, MappedFile] = {}
        try:
            each = manifest.segments[contents]
            self.texts = ChunkTexts([texts.opened(folder, s, corpus, mapped) for s in each])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DuckpletsError):
                raise
            raise damaged(folder / MANIFEST, "it is not as it was written") from error
        self._opened: list[Bundle] = []
        self._left = list(manifest.bundles)

    def find(self, keys: Collection[str]) -> dict[str, Bundle]:
        """Return the bundle that holds each key; missing keys are left out."""
        wanted, found, number = set(keys), dict[str, Bundle](), 0
        while wanted and number < len(self._opened) + len(self._left):
            if number == len(self._opened):
                self._opened.append(Bundle(self.folder, self._left.pop()))
            there = wanted.intersection(self._opened[number].keys)
            found.update(dict.fromkeys(there, self._opened[number]))
            wanted -= there
            number += 1
        return found

    def keep(self, version: int, objects: Mapping[str, Any]) -> str | None:
        """Store objects by key; return why that failed, or None."""
        try:
            with _folder(self.folder).locked():
                now = SnapshotManifest.read(self.folder)
                is_same = now and now.settings == self.manifest.settings
                if now is None or not is_same or now.version < self.manifest.version:
                    return "another process made the snapshot again"
                entry = write_bundle(self.folder, objects) | {"version": version}
                now.bundles.append(entry)
                now.write(self.folder)
        except (OSError, DamagedFileError, ReadOnlyError) as error:
            return getattr(error, "strerror", None) or str(error)
        self._opened.insert(0, Bundle(self.folder, entry))
        return None


def serve(
    database: Database,
    version: int,
    contents: Contents,
    chunking: Mapping[str, Any],
    folder: Path | None = None,
) -> tuple[Snapshot | None, list[str]]:
    """Return the snapshot a run is served from, and notes; None if it is served from memory."""
    external_files.check(database)
    path, notes = folder or _folder_of(database), []
    try:
        if (found := opened(database, version, contents, path)) is not None:
            return found, []
    except (OSError, DamagedFileError) as error:
        notes.append(f"the snapshot is made again: {shown(error, 400)}")
    chunks, characters = StoredTexts(database, contents).size()
    if chunks <= LARGE and characters <= _HELD:
        return None, []
    try:
        found = prepare(database, version, chunking, contents=contents, folder=path)
    except (OSError, ReadOnlyError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ReadOnlyError(
            f"the snapshot that a corpus of this size is served from cannot be written to "
            f"{shown(path)}: {shown(why, 400)}. It takes about {characters * 1.2 / 1e6:,.0f} MB: "
            f"name a folder that has the room with snapshot="
        ) from error
    notes.append(
        f"the snapshot {shown(path)} was updated ({found.manifest.size:,} bytes), from "
        f"which later runs open at once; it may be deleted"
    )
    return found, notes


def texts_of(
    snapshot: Snapshot | None, database: Database, contents: Contents, chunking: Mapping[str, Any]
) -> ChunkTexts:
    """Return all chunks or conversations with their texts, from a snapshot or from memory."""
    if snapshot is not None:
        return snapshot.texts
    return ChunkTexts([StoredTexts(database, contents, chunking).held()])


def opened(
    database: Database, version: int, contents: Contents = "chunks", folder: Path | None = None
) -> Snapshot | None:
    """Open a corpus's snapshot for a version; None without a valid one."""
    path = folder or _folder_of(database)
    for again in (True, False):
        manifest = SnapshotManifest.read(path)
        if manifest is None or not manifest.serves(database, version, contents):
            return None
        try:
            return Snapshot(path, manifest, contents, Path(str(database.path)))
        except DamagedFileError:
            # a newer snapshot's writer may have removed a file of this one
            if not again or SnapshotManifest.read(path) == manifest:
                raise
    return None


def fingerprint(database: Database, version: int) -> list[int]:
    """Return the fingerprint of a version's records, from a snapshot if one has it."""
    with suppress(DamagedFileError):
        manifest = SnapshotManifest.read(_folder_of(database))
        if manifest and manifest.version == version and manifest.is_of(database):
            return manifest.records
    return records.fingerprint(database, version)


def is_of(database: Database, folder: Path) -> bool:
    """Return whether a snapshot matches a corpus as it is split and chunked now."""
    manifest = SnapshotManifest.read(folder)
    if manifest is None:
        return False
    return manifest.settings == CorpusState.of(database, manifest.version).settings


def prepare(
    database: Database,
    version: int,
    chunking: Mapping[str, Any],
    *,
    contents: Contents = "chunks",
    folder: Path | None = None,
    progress: Progress | bool | None = None,
    engine: Engine = INLINE,
    along: LaidAlong | None = None,
) -> Snapshot:
    """Build the snapshot of the newest version, or add what came since.

    ``along`` has what an ingest laid out, which is the last segment if nothing else is new.
    """
    external_files.check(database)
    path = folder or _folder_of(database)
    with _folder(path).locked():
        try:
            found, before = opened(database, version, contents, path), SnapshotManifest.read(path)
        except DamagedFileError:
            found = before = None
        if found is None:
            with database.frugal(BUILDING):
                stored = StoredTexts(database, contents, chunking)
                _build(stored, version, path, before, progress, engine, along)
                database.shed()  # pools, which are compiled next, take as much again
    found = opened(database, version, contents, path)
    if found is None:
        raise damaged(path / MANIFEST, "the corpus was changed meanwhile")
    return found


def _build(
    stored: StoredTexts,
    version: int,
    folder: Path,
    before: SnapshotManifest | None,
    progress: Progress | bool | None,
    engine: Engine,
    along: LaidAlong | None,
) -> None:
    """Write a manifest with all segments missing in the previous one."""
    database = stored.database
    state = CorpusState.of(database, version)
    made = SnapshotManifest(version, *state, records.fingerprint(database, version))
    if before is not None and before.version <= version and before.is_of(database):
        made.bundles.extend(before.bundles)
    else:
        before = None
    for contents in {stored.contents, *(before.segments if before else ())}:
        each = replace(stored, contents=contents)
        segments = made.segments[contents] = _unchanged(each, before) if before else []
        high, low = each.last(), segments[-1]["high"] + 1 if segments else 0
        count, *_ = each.count(low, high)
        # segments absorb small neighbours, so there are never many
        while segments and segments[-1]["sections"] <= 2 * count:
            neighbour = segments.pop()
            low, count = neighbour["low"], count + neighbour["sections"]
        if not count:
            continue
        found = None
        if along is not None and contents == "chunks":
            found = along.taken(folder, low, high, each.count(low, high))
        if found is None:
            with bar(progress, sys.stderr, "sections of the snapshot") as call:
                found = each.written(folder, low, high, Work(engine, call))
        segments.append(found)
    made.write(folder)


def _unchanged(stored: StoredTexts, before: SnapshotManifest) -> list[ManifestEntry]:
    """Return the segments before the first one with removed sections."""

    def is_whole(segment: ManifestEntry) -> bool:
        sections, *_ = stored.count(segment["low"], segment["high"])
        return bool(sections == segment["sections"])

    return list(takewhile(is_whole, before.segments.get(stored.contents, [])))


def clean(database: Database, pinned: Collection[int] | None) -> None:
    """Remove pools of versions other than the newest and the pinned ones; None: keep all."""
    path = _folder_of(database)
    with _folder(path).locked(), suppress(DamagedFileError):
        manifest = SnapshotManifest.read(path)
        if manifest is None:
            return
        kinds = manifest.segments.items()
        if any(_unchanged(StoredTexts(database, kind), manifest) != had for kind, had in kinds):
            (path / MANIFEST).unlink()
        elif pinned is not None:
            needed = {manifest.version, *pinned}
            manifest.bundles[:] = [b for b in manifest.bundles if b["version"] in needed]
            manifest.write(path)


def forget(database: Database) -> None:
    """Remove the snapshot: the next one is made of all texts."""
    folder = _folder_of(database)
    if folder.exists():
        with _folder(folder).locked():
            (folder / MANIFEST).unlink(missing_ok=True)


def verify(folder: Path) -> Iterator[str]:
    """Yield differences between a snapshot's bytes and its manifest."""
    return _folder(folder).verify()


@contextmanager
def sound(folder: Path | None) -> Iterator[None]:
    """Turn index errors into DamagedFileError; ``None`` means memory."""
    if folder is None:
        yield
        return
    try:
        with np.errstate(divide="raise", invalid="raise"):
            yield
    except EmptyPoolError as error:  # everything in a pool can be drawn
        reason = "the pools of the snapshot are of other records"
        raise damaged(folder / MANIFEST, reason) from error
    except (IndexError, ValueError, ArithmeticError, MemoryError) as error:
        if isinstance(error, DuckpletsError):
            raise
        raise damaged(folder / MANIFEST, "numbers of the snapshot lead nowhere") from error
