"""Folders of token shards, local or in an object store: sizes, digests, copies.

s3://bucket/prefix ─ranges→ digests      ─what is missing→ CACHE/…/NAME, a local folder

The decision that matters: only comparisons read a store in place. Rows of a batch lie anywhere and
record ids in any shard, so runs read a local mirror.
"""

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
from duckplets.base.object_store import Store, StoredObject, address_of, is_address
from duckplets.errors import DamagedFileError, ShardError
from duckplets.tokens.manifest import (
    MANIFEST,
    MIXTURES,
    STATE,
    TOKENIZER,
    ShardManifest,
    read_state,
)
from duckplets.tokens.write import digest_of

log = logging.getLogger("duckplets")

DOCUMENTS = (STATE, TOKENIZER, MIXTURES, MANIFEST)  # in the order they are written


class Objects:
    """A folder of shards in an object store.

    Args:
        address: ``s3://bucket/prefix``.

    Attributes:
        address: Its address without a trailing slash.
        there: Objects by path in the folder.
        documents: A local folder with the JSON files.

    Raises:
        ShardError: The store cannot be reached.
    """

    def __init__(self, address: str, documents: Path) -> None:
        scheme, bucket, key = address_of(address, ShardError)
        if scheme != "s3":
            raise ShardError(f"{address}: shards go to a folder or to s3://bucket/prefix")
        self._prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
        self.address = f"s3://{bucket}/{self._prefix}".rstrip("/")
        self.store, self.documents = Store(bucket, ShardError), documents
        self.there: dict[str, StoredObject] = {}

    def look(self) -> None:
        """List the objects and download the JSON files."""
        self.there = self.listed()
        for name in DOCUMENTS:
            remove(self.documents / name)
            if name in self.there:
                self.bring(name, self.documents / name)

    def listed(self) -> dict[str, StoredObject]:
        """Return the objects by path in the folder."""
        listed = self.store.listed(self._prefix)
        return {each.path[len(self._prefix) :]: each for each in listed}

    def bring(self, path: str, to: Path) -> None:
        """Download a file."""
        aside = aside_of(to)
        remove(aside)
        try:
            self.store.fetch(self.there[path], aside)
            os.replace(aside, to)
        finally:
            remove(aside)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files by path."""
        return {path: each.size for path, each in self.there.items()}

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file."""
        digest = hashlib.sha256()
        for block in self.store.read(self.there[path]):
            digest.update(block)
        return digest.hexdigest()

    def key(self, path: str) -> str:
        """Return the key of a file."""
        return self._prefix + path


class Folder:
    """A local folder of shards.

    Args:
        path: The folder.

    Attributes:
        documents: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.documents = path

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files that are not hidden, by path.

        Files in hidden folders, such as the spool of an export, are hidden too; shards never are.
        """
        found = {}
        for parent, folders, files in os.walk(self.documents):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for name in files:
                path = Path(parent) / name
                if not name.startswith(".") and path.is_file():
                    found[path.relative_to(self.documents).as_posix()] = path.stat().st_size
        return found

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file."""
        return digest_of(inside(self.documents, path, DamagedFileError))


@contextmanager
def opened(out: str | Path) -> Iterator[Folder | Objects]:
    """Open a folder of shards, local or in a store, with local copies of its JSON files."""
    if not is_address(out):
        yield Folder(Path(out))
        return
    with TemporaryDirectory(prefix="duckplets-") as folder:
        objects = Objects(str(out), Path(folder))
        objects.look()
        try:
            yield objects
        except (ShardError, DamagedFileError) as error:
            raise type(error)(str(error).replace(folder, objects.address)) from error


def status(folder: str | Path) -> dict[str, Any]:
    """Return the progress of an export: stage, counters, completed shards.

    Raises:
        ShardError: There is no export.
        DamagedFileError: Its state file is damaged.
    """
    with opened(folder) as place:
        state = read_state(place.documents)
    if state is None:
        raise ShardError(f"{folder} has no {STATE}: no export of shards was begun there")
    shards = [each.shard_id for each in state["completed_shards"]]
    found = {key: state[key] for key in ("stage", "counters", "last_updated", "fingerprint")}
    buckets = sorted({each.rpartition("/")[0] for each in shards})
    return found | {"completed_buckets": buckets, "completed_shards": shards}


def mirror(address: str, cache: str | Path | None) -> Path:
    """Return a local folder with the shards of one in a store, downloading what is missing.

    Each file is compared with the manifest on arrival; present files are not downloaded again.

    Args:
        address: ``s3://bucket/prefix``.
        cache: A folder with room for the shards and their decoded tokens.

    Raises:
        ShardError: ``cache`` is missing, or the shards cannot be read.
        DamagedFileError: A shard differs from the manifest.
    """
    if cache is None:
        raise ShardError(f"{address}: shards in a store are read from this machine: give cache=")
    with opened(address) as place:
        if not isinstance(place, Objects):
            raise ShardError(f"{address} is no address")
        manifest = ShardManifest.read(place.documents)
        digest = hashlib.sha256(place.address.encode()).hexdigest()[:12]
        name = quoted(place.address.rpartition("/")[2])
        folder = inside(Path(cache), f"{digest}/{name}", ShardError)
        files = {shard.path: inside(folder, shard.path, ShardError) for shard in manifest.shards}
        waiting = f"waiting for another process, which brings {place.address}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with alone(folder.with_name(".lock"), lambda: log.warning(waiting)):
                is_of_it = _fingerprint(folder) == manifest.fingerprint
                for shard in manifest.shards:
                    file = files[shard.path]
                    is_there = file.is_file() and file.stat().st_size == shard.bytes
                    if not is_there or not (is_of_it or digest_of(file) == shard.sha256):
                        _bring(place, shard.path, file, shard.sha256)
                for name in DOCUMENTS:
                    if name in place.there:
                        place.bring(name, folder / name)
        except OSError as error:
            why = error.strerror or str(error)
            raise ShardError(
                f"cache={str(cache)!r}: {place.address} cannot be brought there: {why}"
            ) from error
    return folder


def _fingerprint(folder: Path) -> str:
    """Return the run of the shards in a mirror, or nothing if it is incomplete."""
    try:
        return ShardManifest.read(folder).fingerprint
    except (ShardError, DamagedFileError):
        return ""


def _bring(place: Objects, path: str, file: Path, sha256: str) -> None:
    if path not in place.there:
        raise DamagedFileError(f"{place.address}/{path} is not there, and the manifest lists it")
    file.parent.mkdir(parents=True, exist_ok=True)
    sweep(file)
    place.bring(path, file)
    if digest_of(file) != sha256:
        remove(file)
        raise DamagedFileError(f"{place.address}/{path} is not as the manifest says; export anew")
