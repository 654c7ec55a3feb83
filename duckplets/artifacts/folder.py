"""Read, write and check a folder of derived files and the manifests that name them.

files, under new names ─→ NAME.json, with their sizes and digests

A manifest replaces its predecessor in one step, so all files that it names are complete. Files
never change: a process that has mapped one keeps it after a replacement. One process writes at a
time. The sweep removes files that no manifest names, if this module made their names.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duckplets.base.atomic import sweep, written_aside
from duckplets.base.locks import lock
from duckplets.base.names import inside
from duckplets.errors import DamagedFileError, ReadOnlyError

log = logging.getLogger("duckplets")

_STEP = 1 << 20  # bytes hashed at a time
_LOCK = "lock"
_FILE = re.compile(r"[a-z]+-[0-9a-f]{32}\.(npy|json|parquet)")
_ASIDE = re.compile(r"\.\w+\.\d+-\d+\.new\.json")  # a manifest being written, see ``aside_of``


@dataclass(frozen=True, slots=True)
class FileEntry:
    """An entry of a manifest for a file: name in the folder, size in bytes, digest."""

    name: str
    size: int
    digest: str

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """Return the entry of a finished file."""
        return cls(path.name, path.stat().st_size, digest_of(path))


class ArtifactFolder:
    """A folder of derived files."""

    def __init__(
        self, path: Path, what: str, manifests: str, version: int, also: tuple[str, ...] = ()
    ) -> None:
        self.path = path
        self._what, self._manifests, self._version = what, re.compile(manifests), version
        self._also = {_LOCK, *also}

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the content of a manifest; None if missing or of an earlier version."""
        self._refuse_link()
        path = self.path / name
        try:
            written = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise damaged(path, error.strerror or str(error)) from error
        try:
            whole = json.loads(written)
            version, content = whole["format"], whole["content"]
            if whole["digest"] != _digest(version, content):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged(path, "it is not as it was written") from error
        if version > self._version:
            raise damaged(path, "a later version of duckplets wrote it")
        return dict(content) if version == self._version else None

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace a manifest; files in its content are dicts of ``FileEntry``."""
        whole = {
            "format": self._version,
            "digest": _digest(self._version, content),
            "content": content,
        }
        with written_aside(self.path / name) as file:
            file.write(json.dumps(whole).encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder for writing."""
        self.check_own()
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _LOCK).open("ab") as file:
            if not lock(file, wait=False):
                log.warning(
                    "waiting for another process, which writes %s in %s", self._what, self.path
                )
                lock(file, wait=True)
            yield

    def check_own(self) -> None:
        """Refuse a folder with foreign files and no manifest."""
        self._refuse_link()
        if not self.path.is_dir() or any(self.manifests()):
            return
        for name in sorted(os.listdir(self.path)):
            if name not in self._also and not _FILE.fullmatch(name) and not _ASIDE.fullmatch(name):
                raise ReadOnlyError(
                    f"{self.path} has {name!r} in it, which is not of {self._what}, and no "
                    f"manifest; move that file to another folder"
                )

    def manifests(self) -> Iterator[str]:
        """Yield the names of all manifests in the folder."""
        self._refuse_link()
        if self.path.is_dir():
            yield from (n for n in sorted(os.listdir(self.path)) if self._manifests.fullmatch(n))

    def _refuse_link(self) -> None:
        """Refuse a folder that is a link: a link from outside may lead to any folder."""
        if self.path.is_symlink():
            raise DamagedFileError(
                f"{self.path} is a link, and may lead anywhere; replace it by the folder, or "
                f"remove the link, and the folder is created again"
            )

    def sweep(self) -> None:
        """Remove files of this module that no manifest names."""
        named = set()
        for manifest in self.manifests():
            sweep(self.path / manifest)
            with suppress(DamagedFileError):
                named |= {file.name for file in files_of(self.read(manifest))}
        for path in self.path.iterdir():
            if _FILE.fullmatch(path.name) and path.name not in named:
                with suppress(OSError):  # Windows cannot delete a mapped file
                    path.unlink()

    def verify(self) -> Iterator[str]:
        """Yield a sentence for every difference between the files and their manifests."""
        for manifest in self.manifests():
            try:
                files = list(files_of(self.read(manifest)))
            except DamagedFileError as error:
                yield str(error)
                continue
            for file in files:
                try:
                    if FileEntry.of(inside(self.path, file.name, DamagedFileError)) != file:
                        yield f"{self.path / file.name} is not as it was written"
                except DamagedFileError as error:
                    yield str(error)
                except OSError as error:
                    yield f"{self.path / file.name}: {error.strerror or error}"


def files_of(content: Any) -> Iterator[FileEntry]:
    """Yield the entries of all files that a manifest names, at any depth."""
    if isinstance(content, dict) and content.keys() == {"name", "size", "digest"}:
        yield FileEntry(**content)
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from files_of(part)


def _digest(version: int, content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([version, content], sort_keys=True).encode()).hexdigest()


def new_path(folder: Path, kind: str, suffix: str) -> Path:
    """Return an unused path in a folder; ``kind`` is a word of lower-case letters."""
    return folder / f"{kind}-{uuid.uuid4().hex}{suffix}"


def damaged(path: Path | None, why: str) -> DamagedFileError:
    """Return the error for a damaged file, or for damaged arrays in memory (None)."""
    if path is None:
        return DamagedFileError(f"memory: {why}")
    return DamagedFileError(
        f"{path}: {why}. Delete the folder {path.parent}: it is built again from the corpus, which "
        f"is not damaged"
    )


def digest_of(path: Path) -> str:
    """Return the digest of a file."""
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while part := file.read(_STEP):
            found.update(part)
    return found.hexdigest()
