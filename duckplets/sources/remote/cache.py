"""Keep files from elsewhere in one folder, under a limit in bytes: the longest unused go first.

    FOLDER/.duckplets-hub-cache   says that the folder is ours
    FOLDER/<40 hex digits>.parquet        a whole shard, by repository and content
    FOLDER/<40 hex digits>.parquet.part   as much of one as has arrived

Only files of these names are ever deleted, and none that a process has open through ``hold``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from duckplets.base.locks import lock
from duckplets.base.sanitize import shown
from duckplets.errors import SourceError

_LOG = logging.getLogger("duckplets")

MARKER = ".duckplets-hub-cache"
LIMIT = 32 * 10**9  # bytes

_SAYS = "Shards of data sets that duckplets has downloaded. It may be deleted at any time.\n"
_COMPRESSED = (".gz", ".zst")
_SUFFIX = re.compile(r"(\.[a-z0-9]{1,10}){0,2}")
_OURS = re.compile(rf"[0-9a-f]{{40}}{_SUFFIX.pattern}(\.part)?")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(I)?B|B)?\s*", re.IGNORECASE)


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


def default_cache() -> ShardCache:
    """Return the cache of what object stores have, as the environment says."""
    return ShardCache(default_folder(), size_of(os.environ.get("DUCKPLETS_CACHE_LIMIT", LIMIT)))


def size_of(limit: int | str) -> int:
    """Return a limit in bytes.

    Args:
        limit: A number of bytes, or a text such as ``10GB`` or ``512 MiB``.

    Raises:
        SourceError: It is neither.
    """
    given = limit
    if isinstance(limit, str) and (found := _SIZE.fullmatch(limit)):
        unit = (1024 if found[3] else 1000) ** " KMGT".index((found[2] or " ").upper())
        limit = int(float(found[1]) * unit)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0:
        raise SourceError(
            f"cache_limit={given!r}: give a number of bytes above 0, or a text such as '10GB'"
        )
    return limit


class Remote(Protocol):
    """A file that lies elsewhere."""

    @property
    def path(self) -> str:
        """Within what it is of; its suffix says what it holds."""

    @property
    def size(self) -> int:
        """In bytes."""

    @property
    def checksum(self) -> str:
        """What another content does not have."""


F = TypeVar("F", bound=Remote)


def suffix_of(path: str) -> str:
    """Return the end of a file's name that says what it is, such as ``.jsonl.gz``."""
    parts = path.rsplit("/", 1)[-1].lower().split(".")
    count = 2 if len(parts) > 2 and f".{parts[-1]}" in _COMPRESSED else 1
    found = "." + ".".join(parts[-count:]) if len(parts) > count else ""
    return found if _SUFFIX.fullmatch(found) else ""  # it comes from outside, and becomes a name


@dataclass(slots=True)
class HeldShard:
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
            if any(folder.iterdir()) and not marker.exists():
                raise SourceError(
                    f"{folder} is no cache of shards and not empty; give cache= a folder of its own"
                )
            if not marker.exists():
                marker.write_text(_SAYS, encoding="utf-8")
        except OSError as error:
            raise _unusable(folder, error) from error

    def hold(
        self, identity: str, suffix: str, size: int, bring: Callable[[Path], None]
    ) -> HeldShard:
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
            while not (held := self._open(path, size)):
                with part.open("ab") as own:
                    lock(own, wait=True)  # another process may be bringing it
                    if _is_same(own, part) and not _is_whole(path, size):
                        self._make_room(size, but=part)
                        bring(part)
                        part.replace(path)
        except OSError as error:
            raise _unusable(self.folder, error) from error
        return held

    def fits(self, *sizes: int) -> bool:
        """Return whether shards of some sizes can be here together."""
        return sum(sizes) <= self.limit

    def _make_room(self, size: int, but: Path) -> None:
        """Delete the longest unused shards not in use, as far as needed for one of a size."""
        if size > self.limit:
            raise SourceError(
                f"cache_limit={self.limit} is less than a shard of {size} bytes needs; give at "
                f"least cache_limit={size}, or DUCKPLETS_CACHE_LIMIT={size} for an object store"
            )
        files = sorted(self._files(but), key=lambda file: (file[1].st_mtime_ns, file[0]))
        total = sum(facts.st_size for _, facts in files)
        for path, facts in files:
            if total + size <= self.limit:
                break
            if _delete(path):
                total -= facts.st_size
        if total + size > self.limit:
            _LOG.warning(
                "the cache %s passes its limit of %d bytes: %d are in use, and %d come to them",
                *(shown(self.folder), self.limit, total, size),
            )

    def _files(self, but: Path) -> list[tuple[Path, os.stat_result]]:
        """Return the files that the cache has written, links and folders not among them."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if not _OURS.fullmatch(entry.name) or entry.name == but.name:
                    continue
                with suppress(FileNotFoundError):  # whoever brought it has given it its name
                    if entry.is_file(follow_symlinks=False):
                        found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
        return found

    def _open(self, path: Path, size: int) -> HeldShard | None:
        """Open a shard that is whole; None where it is not, or was deleted meanwhile."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        lock(file, wait=True, shared=True)
        if not _is_same(file, path) or not _is_whole(path, size):
            file.close()
            return None
        os.utime(path)
        return HeldShard(path, file)


def arrivals(
    cache: ShardCache,
    origin: str,
    files: Sequence[F],
    fetch: Callable[[F, Path], None],
    stop: threading.Event,
) -> Generator[tuple[F, HeldShard], None, None]:
    """Yield files from elsewhere, each held in the cache until the next is asked for.

    The next is brought while one is read, or after that if they cannot be in the cache together.
    Closing breaks off a download; what has arrived stays, and the next time it goes on there.

    Args:
        cache: Where they are brought to.
        origin: What they are of: their paths are unique in it.
        files: Of it, in order.
        fetch: Brings a file whole to a path, going on with what is there of it already.
        stop: Set at the end: then ``fetch`` is to return or to raise.

    Raises:
        SourceError: A file cannot be had.
    """

    def bring(file: F) -> HeldShard:
        identity = "\n".join([origin, file.path, file.checksum])
        suffix, size = suffix_of(file.path), file.size
        return cache.hold(identity, suffix, size, lambda part: fetch(file, part))

    coming: Future[HeldShard] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="duckplets-arrivals") as thread:
        try:
            for file, following in zip(files, [*files[1:], None], strict=True):
                coming = coming or thread.submit(bring, file)
                held, coming = coming.result(), None
                if following and cache.fits(file.size, following.size):
                    coming = thread.submit(bring, following)
                with closing(held):
                    yield file, held
        finally:
            stop.set()
            if coming is not None:
                coming.add_done_callback(_close)  # nobody will read it


def _close(done: Future[HeldShard]) -> None:
    if not done.cancelled() and done.exception() is None:
        done.result().close()


def _delete(path: Path) -> bool:
    """Delete a file unless it is in use; returns whether it is gone."""
    try:
        with path.open("rb") as file:
            if not lock(file, wait=False):
                return False
            path.unlink()
    except FileNotFoundError:
        return True
    except PermissionError:  # how Windows says that it is open
        return False
    return True


def _is_whole(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _is_same(file: BinaryIO, path: Path) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _unusable(folder: Path, error: OSError) -> SourceError:
    reason = error.strerror or str(error)
    return SourceError(
        f"the cache {folder} cannot be used: {reason}; give another as cache= or DUCKPLETS_CACHE"
    )
