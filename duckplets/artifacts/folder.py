"""A folder of files that can always be made anew, and the manifests that name them.

    files, under names that no other ever has ─→ NAME.json, with their sizes and digests

A manifest takes the place of the one before in one step, so what it names is complete or absent
whatever happens. A file is never changed: who has mapped it goes on with it whatever takes its
place. One process writes at a time. Only what no manifest names is swept away, and only files
whose names were made here.
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

_STEP = 1 << 20  # bytes that are read at once for a digest
_LOCK = "lock"
_FILE = re.compile(r"[a-z]+-[0-9a-f]{32}\.(npy|json)")
_ASIDE = re.compile(r"\.\w+\.\d+-\d+\.new\.json")  # a manifest on its way, see ``aside_of``


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as a manifest names it: its name in the folder, its bytes, and their digest."""

    name: str
    size: int
    digest: str

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """Describe a file that is written."""
        return cls(path.name, path.stat().st_size, digest_of(path))


class ArtifactFolder:
    """A folder of such files.

    Args:
        path: Need not be there.
        what: It holds, with its article, for messages.
        manifests: Pattern of the names of manifests in it.
        version: Of the format; a manifest of another one is as good as none.
        also: Names of what else may lie in it.
    """

    def __init__(
        self, path: Path, what: str, manifests: str, version: int, also: tuple[str, ...] = ()
    ) -> None:
        self.path = path
        self._what, self._manifests, self._version = what, re.compile(manifests), version
        self._also = {_LOCK, *also}

    def read(self, name: str) -> dict[str, Any] | None:
        """Return what a manifest says; None where there is none, or one of an earlier version.

        Raises:
            DamagedFileError: It is not as it was written, or of a later version.
        """
        path = self.path / name
        try:
            written = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise damaged(path, error.strerror or str(error)) from error
        try:
            whole = json.loads(written)
            version, told = whole["format"], whole["content"]
            if whole["digest"] != _digest(version, told):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged(path, "it is not as it was written") from error
        if version > self._version:
            raise damaged(path, "a later version of duckplets has made it")
        return dict(told) if version == self._version else None

    def write(self, name: str, told: Mapping[str, Any]) -> None:
        """Put a manifest in the place of the one before; files in it are dicts of ``FileEntry``."""
        whole = {"format": self._version, "digest": _digest(self._version, told), "content": told}
        with written_aside(self.path / name) as file:
            file.write(json.dumps(whole).encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process writes here, and let none do so meanwhile.

        Raises:
            ReadOnlyError: The folder holds somebody else's files, and no manifest.
        """
        self.check_own()
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _LOCK).open("ab") as file:
            if not lock(file, wait=False):
                log.warning(
                    "waiting for another process, which makes %s in %s", self._what, self.path
                )
                lock(file, wait=True)
            yield

    def check_own(self) -> None:
        """Refuse a folder that holds other things than were written here, and no manifest."""
        if not self.path.is_dir() or any(self.manifests()):
            return
        for name in sorted(os.listdir(self.path)):
            if name not in self._also and not _FILE.fullmatch(name) and not _ASIDE.fullmatch(name):
                raise ReadOnlyError(
                    f"{self.path} has {name!r} in it, which is not of {self._what}, and no "
                    f"manifest of one; move that elsewhere, and it is made here"
                )

    def manifests(self) -> Iterator[str]:
        """Yield the names of all manifests that are there."""
        if self.path.is_dir():
            yield from (n for n in sorted(os.listdir(self.path)) if self._manifests.fullmatch(n))

    def sweep(self) -> None:
        """Remove the files that no manifest names, but nobody else's."""
        named = set()
        for manifest in self.manifests():
            sweep(self.path / manifest)
            with suppress(DamagedFileError):
                named |= {file.name for file in files_of(self.read(manifest))}
        for path in self.path.iterdir():
            if _FILE.fullmatch(path.name) and path.name not in named:
                with suppress(OSError):  # Windows keeps what somebody has mapped
                    path.unlink()

    def verify(self) -> Iterator[str]:
        """Yield what is wrong with the bytes of manifests and the files they name."""
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


def files_of(told: Any) -> Iterator[FileEntry]:
    """Yield all files that a manifest names, wherever in it."""
    if isinstance(told, dict) and told.keys() == {"name", "size", "digest"}:
        yield FileEntry(**told)
    elif isinstance(told, dict | list):
        for part in told.values() if isinstance(told, dict) else told:
            yield from files_of(part)


def _digest(version: int, told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([version, told], sort_keys=True).encode()).hexdigest()


def new_path(folder: Path, kind: str, suffix: str) -> Path:
    """Return a path in a folder that no file has had yet; ``kind`` is a word of small letters."""
    return folder / f"{kind}-{uuid.uuid4().hex}{suffix}"


def damaged(path: Path | None, why: str) -> DamagedFileError:
    """Return the error for a file that is not as it was written; None stands for memory."""
    if path is None:
        return DamagedFileError(f"memory: {why}")
    return DamagedFileError(
        f"{path}: {why}. It can always be made anew: delete the folder {path.parent}; the corpus "
        f"itself is not concerned"
    )


def digest_of(path: Path) -> str:
    """Return the digest of all bytes of a file."""
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while part := file.read(_STEP):
            found.update(part)
    return found.hexdigest()
