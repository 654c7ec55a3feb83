"""Folders of token shards, local or in an object store."""

# An export for a store lies beside the corpus until all shards are there; the manifest goes last.

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
    """A local folder of shards; ``name`` is what messages call it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name: Path | str = folder

    def begin(self, fingerprint: str) -> None:
        """Make the JSON files of an earlier call readable in the folder."""

    def clear(self) -> None:
        """Remove what an export has written: the manifest first, the state last."""
        for name in (MANIFEST, MIXTURES, TOKENIZER, SPOOL, *SPLITS, STATE):
            remove(self.folder / name)

    def send(self, manifest: ShardManifest) -> None:
        """Put the shards where they belong."""

    def finish(self) -> None:
        """Put the JSON files beside the shards."""

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files that are not hidden, by path."""
        found = {}
        for parent, folders, files in os.walk(self.folder):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for name in files:
                path = Path(parent) / name
                if not name.startswith(".") and path.is_file():
                    found[path.relative_to(self.folder).as_posix()] = path.stat().st_size
        return found

    def written(self) -> dict[str, int]:
        """Return the sizes of all files of an export, also those still to be sent."""
        return self.sizes()

    def has(self, path: str, sha256: str) -> bool:
        """Return whether a file is as it was written."""
        try:
            return digest_of(inside(self.folder, path, DamagedFileError)) == sha256
        except (OSError, DamagedFileError):  # missing, unreadable, or a link out of the folder
            return False

    def remove(self, path: str) -> None:
        """Remove a file, or the link that stands for it."""
        folder, _, name = path.rpartition("/")
        remove(inside(self.folder, folder, ShardError) / name)


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
        listed = self._store.listed(self._prefix)
        self.there = {each.path.removeprefix(self._prefix): each for each in listed}

    def bring(self, *paths: str) -> None:
        """Download those of the files that are there."""
        for path in paths:
            if path in self.there:
                file = inside(self.folder, path, ShardError)
                file.parent.mkdir(parents=True, exist_ok=True)
                sweep(file)
                aside = aside_of(file)
                try:
                    self._store.fetch(self.there[path], aside)
                    os.replace(aside, file)
                finally:
                    remove(aside)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all objects by path."""
        return {path: each.size for path, each in self.there.items()}

    def has(self, path: str, sha256: str) -> bool:
        """Return whether a file that waits here, or else an object, is as it was written."""
        if path not in self.there or (self.folder / path).exists():
            return super().has(path, sha256)
        digest = hashlib.sha256()
        for block in self._store.read(self.there[path]):
            digest.update(block)
        return digest.hexdigest() == sha256

    def remove(self, path: str) -> None:
        """Delete an object, and what waits here in its place."""
        super().remove(path)
        if self.there.pop(path, None) is not None:
            self._store.remove([self._prefix + path])

    def begin(self, fingerprint: str) -> None:
        """Bring the JSON files; what waits here to be sent is removed if it is of another run."""
        try:
            is_ours = (read_state(self.folder) or {}).get("fingerprint") == fingerprint
        except (ShardError, DamagedFileError):
            is_ours = False
        if not is_ours:
            super().clear()
        self.bring(*DOCUMENTS)

    def written(self) -> dict[str, int]:
        """Return the sizes of all files and objects of an export."""
        return super().sizes() | self.sizes()

    def send(self, manifest: ShardManifest) -> None:
        """Upload the shards that the store does not have, after the state that lists them."""
        files = [path for each in manifest.shards for path in (each.path, each.tsv)]
        here, there = super().sizes(), self.sizes()
        missing = [path for path in files if path in here and here[path] != there.get(path)]
        if missing or MANIFEST not in self.there:
            self._put(STATE, *missing)

    def finish(self) -> None:
        """Upload the JSON files, the manifest last, and remove the copy."""
        self._put(*DOCUMENTS)
        remove(self.folder)

    def _put(self, *paths: str) -> None:
        for path in paths:
            self._store.put(self.folder / path, self._prefix + path)

    def clear(self) -> None:
        """Delete what an export has written, the manifest first."""
        ours = sorted(filter(is_of_export, self.there), key=lambda path: path != MANIFEST)
        self._store.remove(self._prefix + path for path in ours)
        self.there = {}
        super().clear()


def target_of(out: str | Path, corpus: Path) -> ShardFolder:
    """Return where an export goes: a folder, or a store by a folder beside the corpus."""
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
        store.bring(*DOCUMENTS)
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
    """Return a local folder with the shards of one in a store, downloading what is missing."""
    if cache is None:
        raise ShardError(f"{address}: shards in a store are read from this machine: give cache=")
    with opened(address) as place:
        manifest, where = ShardManifest.read(place.folder), str(place.name)
    digest = hashlib.sha256(where.encode()).hexdigest()[:12]
    folder = inside(Path(cache), f"{digest}/{quoted(where.rpartition('/')[2])}", ShardError)
    waiting = f"waiting for another process, which brings {where}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder.with_name(".lock"), lambda: log.warning(waiting)):
            if _fingerprint_in(folder) != manifest.fingerprint:
                remove(folder)
            store = ShardStore(address, folder)
            there = ShardFolder(folder).sizes()
            wanted = [each for each in manifest.shards if there.get(each.path) != each.bytes]
            for path in (each.path for each in wanted):
                if path not in store.there:
                    raise DamagedFileError(f"{where}/{path} is missing, and the manifest lists it")
            store.bring(*DOCUMENTS, *(each.path for each in wanted))
    except OSError as error:
        why = error.strerror or str(error)
        raise ShardError(f"cache={str(cache)!r}: {where} cannot be brought there: {why}") from error
    return folder


def _fingerprint_in(folder: Path) -> str:
    """Return the run of the shards in a mirror, or nothing."""
    try:
        return ShardManifest.read(folder).fingerprint
    except (ShardError, DamagedFileError):
        return ""
