"""Folders of token shards, local or in an object store.

An export writes to a local folder. For a store that lies beside the corpus, and each shard is sent
when it is whole and then removed, the manifest last. The store holds the state, so an export goes
on from any machine. The parts of a killed upload are invisible and cost money, so the next export
under the prefix aborts them: one export writes there at a time. Runs read a local mirror.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from duckplets.base.atomic import aside_of, remove, sweep
from duckplets.base.locks import alone
from duckplets.base.names import inside, quoted
from duckplets.base.object_store import Store, StoredObject, address_of, is_address
from duckplets.errors import DamagedFileError, ShardError
from duckplets.tokens.manifest import (
    MANIFEST,
    MIXTURES,
    STATE,
    TOKENIZER,
    ShardEntry,
    ShardManifest,
    read_state,
)
from duckplets.tokens.write import digest_of

log = logging.getLogger("duckplets")

SPOOL = ".spool"
DOCUMENTS = (STATE, TOKENIZER, MIXTURES, MANIFEST)  # in the order they are written


class ShardFolder:
    """A local folder of shards; ``name`` is what messages call it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name: Path | str = folder

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files that are not hidden, by path.

        Files in hidden folders, such as the spool of an export, are hidden too; shards never are.
        """
        found = {}
        for parent, folders, files in os.walk(self.folder):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for name in files:
                path = Path(parent) / name
                if not name.startswith(".") and path.is_file():
                    found[path.relative_to(self.folder).as_posix()] = path.stat().st_size
        return found

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file."""
        return digest_of(inside(self.folder, path, DamagedFileError))

    # -- for an export ------------------------------------------------------------------------

    def begin(self) -> None:
        """Look at what is there, under the folder's lock."""

    def is_whole(
        self, shard: ShardEntry, checksums: Mapping[str, str], *, compare: bool
    ) -> bool | None:
        """Return whether a shard and its summary are intact; None if missing.

        ``checksums`` are those noted when the export was finished; without ``compare`` sizes do.
        """
        file, summary = (
            inside(self.folder, path, ShardError) for path in (shard.path, shard.tsv.path)
        )
        if not file.is_file():
            return None
        try:
            if file.stat().st_size != shard.bytes or not summary.is_file():
                return False
            return not compare or (
                digest_of(file) == shard.sha256 and digest_of(summary) == shard.tsv.sha256
            )
        except OSError:  # unreadable
            return False

    def checksums(self) -> dict[str, str]:
        """Return checksums of finished files that are not in shard entries."""
        return {}

    def send(self, *paths: str) -> None:
        """Send complete files, in this order."""

    def clear(self, names: Sequence[str]) -> None:
        """Remove files and folders by name, in this order."""
        for name in names:
            remove(self.folder / name)

    def finish(self) -> None:
        """Finish the export."""


class ShardStore(ShardFolder):
    """Shards below a prefix of an object store; ``folder`` holds local copies of the JSON files."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(folder)
        scheme, bucket, key = address_of(address, ShardError)
        if scheme != "s3":
            raise ShardError(f"{address}: shards go to a folder or to s3://bucket/prefix")
        self._prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
        self.name = f"s3://{bucket}/{self._prefix}".rstrip("/")
        self._store = Store(bucket, ShardError)
        self.there: dict[str, StoredObject] = {}

    def look(self) -> None:
        """List the objects and download the JSON files."""
        self.there = self._listed()
        for name in DOCUMENTS:
            remove(self.folder / name)
            if name in self.there:
                self.bring(name, self.folder / name)

    def _listed(self) -> dict[str, StoredObject]:
        listed = self._store.listed(self._prefix)
        return {each.path.removeprefix(self._prefix): each for each in listed}

    def bring(self, path: str, to: Path) -> None:
        """Download a file."""
        aside = aside_of(to)
        remove(aside)
        try:
            self._store.fetch(self.there[path], aside)
            os.replace(aside, to)
        finally:
            remove(aside)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all objects by path."""
        return {path: each.size for path, each in self.there.items()}

    def digest(self, path: str) -> str:
        """Return the SHA-256 of an object."""
        digest = hashlib.sha256()
        for block in self._store.read(self.there[path]):
            digest.update(block)
        return digest.hexdigest()

    def begin(self) -> None:
        """Abort killed uploads, and continue with the store's state."""
        if aborted := self._store.abort_uploads(self._prefix):
            log.warning("%s: %d unfinished uploads were taken back", self.name, aborted)
        before = self._fingerprint()
        self.look()
        if before != self._fingerprint():  # the local spool is of another run
            remove(self.folder / SPOOL)
        if self.there and self.there.keys().isdisjoint((STATE, MANIFEST)):
            raise ShardError(
                f"{self.name} has {min(self.there)!r} in it, which no export of shards has "
                f"written; give another prefix"
            )

    def _fingerprint(self) -> str:
        """Return the run of the local state, or nothing."""
        try:
            return str((read_state(self.folder) or {}).get("fingerprint"))
        except (ShardError, DamagedFileError):
            return ""

    def is_whole(
        self, shard: ShardEntry, checksums: Mapping[str, str], *, compare: bool
    ) -> bool | None:
        """Compare objects by size and ETag: they are replaced, never modified."""
        if shard.path not in self.there:
            return None
        if self.there[shard.path].size != shard.bytes or shard.tsv.path not in self.there:
            return False
        paths = (shard.path, shard.tsv.path)
        return not checksums or all(self.there[n].checksum == checksums.get(n) for n in paths)

    def checksums(self) -> dict[str, str]:
        """Return the ETags of all objects but the JSON files."""
        listed = self._listed().items()
        return {path: each.checksum for path, each in listed if path not in DOCUMENTS}

    def send(self, *paths: str) -> None:
        """Upload files; local copies of those that are not JSON are removed."""
        for path in paths:
            self._store.put(self.folder / path, self._prefix + path)
            if path not in DOCUMENTS:
                remove(self.folder / path)

    def clear(self, names: Sequence[str]) -> None:
        """Remove objects, those of a folder together, and local copies."""
        super().clear(names)
        for name in names:
            gone = [path for path in self.there if path == name or path.startswith(f"{name}/")]
            self._store.remove(self._prefix + path for path in gone)
            for path in gone:
                del self.there[path]

    def finish(self) -> None:
        """Remove the local folder: the store has everything."""
        remove(self.folder)


def target_of(out: str | Path, corpus: Path) -> ShardFolder:
    """Return where an export goes: a folder, or a store by a folder beside the corpus."""
    if not is_address(out):
        return ShardFolder(Path(out))
    digest = hashlib.sha256(str(out).rstrip("/").encode()).hexdigest()[:12]
    return ShardStore(str(out), corpus.absolute().with_name(f"{corpus.name}.shards-{digest}"))


# -- reading --------------------------------------------------------------------------------------


@contextmanager
def opened(out: str | Path) -> Iterator[ShardFolder]:
    """Open a folder of shards, local or in a store, with local copies of its JSON files."""
    if not is_address(out):
        yield ShardFolder(Path(out))
        return
    with _opened_store(str(out)) as store:
        yield store


@contextmanager
def _opened_store(address: str) -> Iterator[ShardStore]:
    with TemporaryDirectory(prefix="duckplets-") as folder:
        store = ShardStore(address, Path(folder))
        store.look()
        try:
            yield store
        except (ShardError, DamagedFileError) as error:
            raise type(error)(str(error).replace(folder, str(store.name))) from error


def status(folder: str | Path) -> dict[str, Any]:
    """Return the progress of an export: stage, counters, completed shards.

    Raises:
        ShardError: There is no export.
        DamagedFileError: Its state file is damaged.
    """
    with opened(folder) as place:
        state = read_state(place.folder)
    if state is None:
        raise ShardError(f"{folder} has no {STATE}: no export of shards was begun there")
    shards = [each.shard_id for each in state["completed_shards"]]
    found = {key: state[key] for key in ("stage", "counters", "last_updated", "fingerprint")}
    buckets = sorted({each.rpartition("/")[0] for each in shards})
    return found | {"completed_buckets": buckets, "completed_shards": shards}


def mirror(address: str, cache: str | Path | None) -> Path:
    """Return a local folder with the shards of one in a store, downloading what is missing.

    Each file is compared with the manifest on arrival; present files are not downloaded again.
    """
    if cache is None:
        raise ShardError(f"{address}: shards in a store are read from this machine: give cache=")
    with _opened_store(address) as store:
        manifest = ShardManifest.read(store.folder)
        where = str(store.name)
        digest = hashlib.sha256(where.encode()).hexdigest()[:12]
        folder = inside(Path(cache), f"{digest}/{quoted(where.rpartition('/')[2])}", ShardError)
        files = {shard.path: inside(folder, shard.path, ShardError) for shard in manifest.shards}
        waiting = f"waiting for another process, which brings {where}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with alone(folder.with_name(".lock"), lambda: log.warning(waiting)):
                is_of_it = _fingerprint_in(folder) == manifest.fingerprint
                for shard in manifest.shards:
                    file = files[shard.path]
                    is_there = file.is_file() and file.stat().st_size == shard.bytes
                    if not is_there or not (is_of_it or digest_of(file) == shard.sha256):
                        _bring(store, shard, file)
                for name in DOCUMENTS:
                    if name in store.there:
                        store.bring(name, folder / name)
        except OSError as error:
            why = error.strerror or str(error)
            raise ShardError(
                f"cache={str(cache)!r}: {where} cannot be brought there: {why}"
            ) from error
    return folder


def _fingerprint_in(folder: Path) -> str:
    """Return the run of the shards in a mirror, or nothing if it is incomplete."""
    try:
        return ShardManifest.read(folder).fingerprint
    except (ShardError, DamagedFileError):
        return ""


def _bring(store: ShardStore, shard: ShardEntry, file: Path) -> None:
    where = f"{store.name}/{shard.path}"
    if shard.path not in store.there:
        raise DamagedFileError(f"{where} is not there, and the manifest lists it")
    file.parent.mkdir(parents=True, exist_ok=True)
    sweep(file)
    store.bring(shard.path, file)
    if digest_of(file) != shard.sha256:
        remove(file)
        raise DamagedFileError(f"{where} is not as the manifest says; export anew")
