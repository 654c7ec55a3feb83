"""Shards on disk: one folder, a limit in bytes, the longest unused go first.

    FOLDER/.duckplets-hub-cache   says that the folder is ours
    FOLDER/<40 hex digits>.parquet        a whole shard, by repository and content
    FOLDER/<40 hex digits>.parquet.part   as much of one as has arrived

Only files of these names are ever deleted, and none that a process has open through ``hold``.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from duckplets.errors import SourceError

MARKER = ".duckplets-hub-cache"
LIMIT = 32 * 10**9  # bytes

_SAYS = "Shards of data sets that duckplets has downloaded. It may be deleted at any time.\n"
_OURS = re.compile(r"[0-9a-f]{40}(\.[A-Za-z0-9]{1,10}){0,3}")
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def default_folder() -> Path:
    """Return where shards are kept where the user does not say."""
    if given := os.environ.get("DUCKPLETS_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "duckplets" / "hub"


def size_of(limit: int | str) -> int:
    """Return a limit in bytes.

    Args:
        limit: A number of bytes, or a text such as ``10GB`` or ``512 MiB``.

    Raises:
        SourceError: It is neither.
    """
    wrong = f"cache_limit={limit!r}: give a number of bytes above 0, or a text such as '10GB'"
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)\s*", limit.upper())
        if not found or found[2] not in _UNITS:
            raise SourceError(wrong)
        limit = int(float(found[1]) * _UNITS[found[2]])
    if isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0:
        raise SourceError(wrong)
    return limit


@dataclass(slots=True)
class Held:
    """A shard that stays while it is held.

    Attributes:
        path: Of the shard.
    """

    path: Path
    _file: BinaryIO

    def close(self) -> None:
        """Let it go: it may be deleted from now on."""
        self._file.close()


class ShardCache:
    """The cache's folder, made if it is not there.

    Args:
        folder: For the cache alone.
        limit: Bytes of all the shards in it.

    Raises:
        SourceError: The folder holds other things, or cannot be written.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        try:
            folder.mkdir(parents=True, exist_ok=True)
            marker = folder / MARKER
            if not marker.exists():
                if any(folder.iterdir()) and not marker.exists():
                    raise SourceError(
                        f"{folder} is no cache of shards and not empty; give cache= a folder of "
                        f"its own"
                    )
                marker.write_text(_SAYS, encoding="utf-8")
        except OSError as error:
            raise _unusable(folder, error) from error

    def hold(self, identity: str, suffix: str, size: int, bring: Callable[[Path], None]) -> Held:
        """Return a shard, brought here first where it is not here yet.

        Args:
            identity: What no two shards of different content share.
            suffix: Of the file's name, such as ``.jsonl.gz``: readers go by it.
            size: In bytes, once it is whole.
            bring: Puts the whole shard into the file it is given, which may hold the beginning.
        """
        name = hashlib.sha256(identity.encode()).hexdigest()[:40] + suffix
        path, part = self.folder / name, self.folder / f"{name}.part"
        try:
            while True:
                held = self._open(path, size)
                if held:
                    return held
                with part.open("ab") as own:
                    _lock(own, wait=True)  # another process may be bringing it
                    if self._is_whole(path, size) or not _is_same(own, part):
                        continue
                    self.make_room(size, but=part)
                    bring(part)
                    part.replace(path)
        except OSError as error:
            raise _unusable(self.folder, error) from error

    def fits(self, *sizes: int) -> bool:
        """Return whether shards of some sizes can be here together."""
        return sum(sizes) <= self.limit

    def make_room(self, size: int, but: Path) -> None:
        """Delete the longest unused shards, as far as needed for one of a size.

        Those in use stay. One larger than the limit is refused.
        """
        if size > self.limit:
            raise SourceError(
                f"cache_limit={self.limit} is less than a shard of {size} bytes needs; give at "
                f"least cache_limit={size}"
            )
        files = sorted(self._files(but), key=lambda file: (file[1].st_mtime_ns, file[0]))
        total = sum(facts.st_size for _, facts in files)
        for path, facts in files:
            if total + size <= self.limit:
                break
            if _delete(path):
                total -= facts.st_size

    def _files(self, but: Path) -> list[tuple[Path, os.stat_result]]:
        """Return the files that the cache has written, links and folders not among them."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                is_ours = _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
                if is_ours and entry.name != but.name:
                    found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
        return found

    def _is_whole(self, path: Path, size: int) -> bool:
        return path.is_file() and path.stat().st_size == size

    def _open(self, path: Path, size: int) -> Held | None:
        if not self._is_whole(path, size):
            return None
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        _lock(file, wait=True, shared=True)
        if not _is_same(file, path):  # deleted between the two
            file.close()
            return None
        os.utime(path)
        return Held(path, file)


def _delete(path: Path) -> bool:
    """Delete a file unless it is in use; returns whether it is gone."""
    try:
        with path.open("rb") as file:
            if not _lock(file, wait=False):
                return False
            path.unlink()
    except FileNotFoundError:
        return True
    except PermissionError:  # how Windows says that it is open
        return False
    return True


def _lock(file: BinaryIO, *, wait: bool, shared: bool = False) -> bool:
    """Lock a file until it is closed; returns whether it could be."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows deletes no file that is open
        return True
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, how if wait else how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(file: BinaryIO, path: Path) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _unusable(folder: Path, error: OSError) -> SourceError:
    reason = error.strerror or str(error)
    return SourceError(f"the cache {folder} cannot be used: {reason}; give another as cache=")
