"""Read and write folders of token shards, local or in an object store."""

# An export for a store is written next to the corpus first, and then uploaded, the manifest last.

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from duckplets.base.atomic import aside_of, remove, sweep
from duckplets.base.locks import alone
from duckplets.base.names import inside, quoted
from duckplets.base.object_store import Store, address_of, is_address
from duckplets.errors import DamagedFileError, ShardError
from duckplets.ingest.splits import SPLITS
from duckplets.tokens.manifest import (
    DOCUMENTS,
    MANIFEST,
    MIXTURES,
    STATE,
    TOKENIZER,
    ShardManifest,
    is_of_export,
    read_state,
)
from duckplets.tokens.write import digest_of

log = logging.getLogger("duckplets")


SPOOL = ".spool"  # encoded texts of an export, until their shards are written


class ShardFolder:
    """A local folder of shards; ``name`` is its name in messages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name: Path | str = folder

    def begin(self, fingerprint: str) -> None:
        """Put the JSON files of an earlier call into the folder."""

    def clear(self) -> None:
        """Remove all files of an export, the manifest first and the state last."""
        for name in (MANIFEST, MIXTURES, TOKENIZER, SPOOL, *SPLITS, STATE):
            remove(self.folder / name)

    def send(self, manifest: ShardManifest) -> None:
        """Put the shards into their final place."""

    def finish(self) -> None:
        """Put the JSON files next to the shards."""

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files that are not hidden, by path."""
        found = {}
        for parent, folders, files in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in files:
                path = Path(parent) / name
                if not name.startswith(".") and path.is_file():
                    found[path.relative_to(self.folder).as_posix()] = path.stat().st_size
        return found

    def written(self) -> dict[str, int]:
        """Return the sizes of all files of an export, also of files not yet uploaded."""
        return self.sizes()

    def has(self, path: str, sha256: str) -> bool:
        """Return whether a file exists and has a digest."""
        try:
            return digest_of(inside(self.folder, path, DamagedFileError)) == sha256
        except (OSError, DamagedFileError):  # missing, unreadable, or a link out of the folder
            return False

    def remove(self, path: str) -> None:
        """Remove a file, or a link in its place."""
        folder, _, name = path.rpartition("/")
        remove(inside(self.folder, folder, ShardError) / name)


class ShardStore(ShardFolder):
    """Shards below a prefix of an object store; ``folder`` has local copies of the JSON files."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(folder)
        scheme, bucket, key = address_of(address, ShardError)
        if scheme != "s3":
            raise ShardError(f"{address}: give a folder or s3://bucket/prefix for shards")
        self._prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
        self.name = f"s3://{bucket}/{self._prefix}".rstrip("/")
        self._store = Store(bucket, ShardError)
        listed = self._store.listed(self._prefix)
        self.objects = {item.path.removeprefix(self._prefix): item for item in listed}

    def download(self, *paths: str) -> None:
        """Download the files that the store has."""
        for path in paths:
            if path in self.objects:
                file = inside(self.folder, path, ShardError)
                file.parent.mkdir(parents=True, exist_ok=True)
                sweep(file)
                aside = aside_of(file)
                try:
                    self._store.fetch(self.objects[path], aside)
                    os.replace(aside, file)
                finally:
                    remove(aside)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all objects by path."""
        return {path: item.size for path, item in self.objects.items()}

    def has(self, path: str, sha256: str) -> bool:
        """Return whether the local file, or the object if there is none, has a digest."""
        if path not in self.objects or (self.folder / path).exists():
            return super().has(path, sha256)
        digest = hashlib.sha256()
        for block in self._store.read(self.objects[path]):
            digest.update(block)
        return digest.hexdigest() == sha256

    def remove(self, path: str) -> None:
        """Delete an object, and its local file."""
        super().remove(path)
        if self.objects.pop(path, None) is not None:
            self._store.remove([self._prefix + path])

    def begin(self, fingerprint: str) -> None:
        """Download the JSON files; remove local files of another run."""
        try:
            is_ours = (read_state(self.folder) or {}).get("fingerprint") == fingerprint
        except (ShardError, DamagedFileError):
            is_ours = False
        if not is_ours:
            super().clear()
        self.download(*DOCUMENTS)

    def written(self) -> dict[str, int]:
        """Return the sizes of all files and objects of an export."""
        return super().sizes() | self.sizes()

    def send(self, manifest: ShardManifest) -> None:
        """Upload the shards that the store does not have, after the state that lists them."""
        files = [path for shard in manifest.shards for path in (shard.path, shard.tsv)]
        local, stored = super().sizes(), self.sizes()
        missing = [path for path in files if path in local and local[path] != stored.get(path)]
        if missing or MANIFEST not in self.objects:
            self._put(STATE, *missing)

    def finish(self) -> None:
        """Upload the JSON files, the manifest last, and remove the local folder."""
        self._put(*DOCUMENTS)
        remove(self.folder)

    def _put(self, *paths: str) -> None:
        for path in paths:
            self._store.put(self.folder / path, self._prefix + path)

    def clear(self) -> None:
        """Delete all files of an export, the manifest first."""
        ours = sorted(filter(is_of_export, self.objects), key=lambda path: path != MANIFEST)
        self._store.remove(self._prefix + path for path in ours)
        self.objects = {}
        super().clear()


def target_of(out: str | Path, corpus: Path) -> ShardFolder:
    """Return the target of an export: a folder, or a store with a folder next to the corpus."""
    if not is_address(out):
        return ShardFolder(Path(out))
    digest = hashlib.sha256(str(out).rstrip("/").encode()).hexdigest()[:12]
    return ShardStore(str(out), corpus.absolute().with_name(f"{corpus.name}.shards-{digest}"))


@contextmanager
def opened(out: str | Path) -> Iterator[ShardFolder]:
    """Open a folder of shards, local or in a store, with local copies of its JSON files."""
    if not is_address(out):
        yield ShardFolder(Path(out))
        return
    with TemporaryDirectory(prefix="duckplets-") as folder:
        store = ShardStore(str(out), Path(folder))
        store.download(*DOCUMENTS)
        try:
            yield store
        except (ShardError, DamagedFileError) as error:
            raise type(error)(str(error).replace(folder, str(store.name))) from error


def status(folder: str | Path) -> dict[str, Any]:
    """Return the progress of an export: stage, counters, completed shards.

    Raises:
        ShardError: The folder has no export.
        DamagedFileError: The state file is damaged.
    """
    with opened(folder) as place:
        state = read_state(place.folder)
    if state is None:
        raise ShardError(f"{folder} has no {STATE}: give the folder of an export of shards")
    shards = [shard.shard_id for shard in state["completed_shards"]]
    found = {key: state[key] for key in ("stage", "counters", "last_updated", "fingerprint")}
    buckets = sorted({name.rpartition("/")[0] for name in shards})
    return found | {"completed_buckets": buckets, "completed_shards": shards}


def mirror(address: str, cache: str | Path | None) -> Path:
    """Return a local folder with the shards of a store; download missing files."""
    if cache is None:
        raise ShardError(f"{address}: shards in a store need a local folder: give cache=")
    with opened(address) as place:
        manifest, where = ShardManifest.read(place.folder), str(place.name)
    digest = hashlib.sha256(where.encode()).hexdigest()[:12]
    folder = inside(Path(cache), f"{digest}/{quoted(where.rpartition('/')[2])}", ShardError)
    waiting = f"waiting for another process, which downloads {where}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder.with_name(".lock"), lambda: log.warning(waiting)):
            if _fingerprint_in(folder) != manifest.fingerprint:
                remove(folder)
            store = ShardStore(address, folder)
            sizes = ShardFolder(folder).sizes()
            missing = [s.path for s in manifest.shards if sizes.get(s.path) != s.bytes]
            for path in missing:
                if path not in store.objects:
                    raise DamagedFileError(
                        f"{where}/{path} is missing, and the manifest lists it: export again"
                    )
            store.download(*DOCUMENTS, *missing)
    except OSError as error:
        why = error.strerror or str(error)
        raise ShardError(f"cache={str(cache)!r}: {where} cannot be stored there: {why}") from error
    return folder


def _fingerprint_in(folder: Path) -> str:
    """Return the fingerprint of the shards in a folder, or "" for none."""
    try:
        return ShardManifest.read(folder).fingerprint
    except (ShardError, DamagedFileError):
        return ""
