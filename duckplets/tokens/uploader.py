"""Upload token shards to an object store as they are made, with the export's state.

corpus ─stages→ a folder beside the corpus ─each shard when complete→ objects, manifest last

The decision that matters: the store holds the state. An export reads sizes and the last state from
it, so it continues from any machine; only the spool and the file being written are local. An object
appears whole or not at all. The parts of a killed upload are invisible and cost money, so the next
export under the prefix aborts them: one export writes there at a time.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from duckplets.base.atomic import remove
from duckplets.base.names import inside
from duckplets.base.object_store import is_address
from duckplets.engine.inline import threaded
from duckplets.engine.protocol import Engine, Part
from duckplets.errors import DamagedFileError, EngineError, ShardError
from duckplets.tokens.locations import DOCUMENTS, Objects
from duckplets.tokens.manifest import MANIFEST, STATE, ShardEntry, read_state
from duckplets.tokens.spool import Spool
from duckplets.tokens.write import Shard, ShardForm, digest_of, write_shard

log = logging.getLogger("duckplets")

SPOOL = ".spool"
_WORKERS = 2  # shards written at a time; each takes about three times its size in memory
_LARGE = 32 << 20  # tokens; larger shards are written one at a time


class Outbox:
    """Keep an export's files in its local folder.

    Args:
        out: The folder.

    Attributes:
        folder: The folder written to.
        out: Its name in messages.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out
        self.out: Path | str = out

    def begin(self) -> None:
        """Read what is there, under the folder's lock."""

    def is_whole(
        self, shard: ShardEntry, checksums: Mapping[str, str], *, compare: bool
    ) -> bool | None:
        """Return whether a shard and its summary are intact; None if missing.

        Args:
            shard: Its entry.
            checksums: Earlier result of ``checksums``.
            compare: Whether to compare contents too.
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

    def written(
        self, spool: Spool, shards: list[Shard], form: ShardForm, engine: Engine
    ) -> Generator[ShardEntry, None, None]:
        """Yield the manifest entries of shards in order, each once written and sent.

        Args:
            spool: Their texts.
            shards: The shards to write.
            form: Form of the files.
            engine: Writes them.
        """
        folder = self.folder.absolute()
        job = Writing(folder, Spool(folder / spool.folder.name, spool.parts), form)
        parts = (Part(f"writing shard {each.shard_id}", each) for each in shards)
        largest = max((each.tokens for each in shards), default=0)
        by = threaded(engine, _WORKERS if largest <= _LARGE else 1)
        with closing(by.map(write_part, job, parts)) as entries:
            for entry in entries:
                self.send(entry.path, entry.tsv.path)
                yield entry

    def finish(self) -> None:
        """Finish the export."""


class Sent(Outbox):
    """Upload an export's files to a store, and keep only the JSON files."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(folder)
        self._objects = Objects(address, folder)
        self.out = self._objects.address

    def begin(self) -> None:
        """Abort killed uploads, and continue with the store's state.

        Raises:
            ShardError: There are foreign objects.
        """
        objects = self._objects
        if aborted := objects.store.abort_uploads(objects.key("")):
            log.warning("%s: %d unfinished uploads were taken back", self.out, aborted)
        before = self._fingerprint()
        objects.look()
        if before != self._fingerprint():  # the local spool is of another run
            remove(self.folder / SPOOL)
        if objects.there and objects.there.keys().isdisjoint((STATE, MANIFEST)):
            raise ShardError(
                f"{self.out} has {min(objects.there)!r} in it, which no export of shards has "
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
        """Return whether objects are those sent, by size and ETag.

        Objects are replaced, never modified, so none has to be read.
        """
        there = self._objects.there
        if shard.path not in there:
            return None
        if there[shard.path].size != shard.bytes or shard.tsv.path not in there:
            return False
        paths = (shard.path, shard.tsv.path)
        return not checksums or all(there[each].checksum == checksums.get(each) for each in paths)

    def checksums(self) -> dict[str, str]:
        """Return the ETags of all objects but the JSON files."""
        listed = self._objects.listed()
        return {path: each.checksum for path, each in listed.items() if path not in DOCUMENTS}

    def send(self, *paths: str) -> None:
        """Upload files; local copies of those that are not JSON are removed."""
        for path in paths:
            self._objects.store.put(self.folder / path, self._objects.key(path))
            if path not in DOCUMENTS:
                remove(self.folder / path)

    def clear(self, names: Sequence[str]) -> None:
        """Remove objects, those of a folder together, and local copies."""
        super().clear(names)
        there = self._objects.there
        for name in names:
            gone = [path for path in there if path == name or path.startswith(f"{name}/")]
            self._objects.store.remove(map(self._objects.key, gone))
            for path in gone:
                del there[path]

    def finish(self) -> None:
        """Remove the local folder: the store has everything."""
        remove(self.folder)


def outbox_of(out: str | Path, corpus: Path | None) -> Outbox:
    """Return where an export goes: a folder, or a store by a folder beside the corpus."""
    if not is_address(out):
        return Outbox(Path(out))
    corpus = corpus or Path("corpus.duckdb")  # an in-memory corpus has no folder
    digest = hashlib.sha256(str(out).rstrip("/").encode()).hexdigest()[:12]
    return Sent(str(out), corpus.absolute().with_name(f"{corpus.name}.shards-{digest}"))


class Writing(NamedTuple):
    """What all shards of an export share, for workers."""

    folder: Path
    spool: Spool
    form: ShardForm


def write_part(job: Writing, shard: Shard) -> ShardEntry:
    """Write a shard on a worker; see ``write_shard``.

    Raises:
        EngineError: The worker does not see the folder.
    """
    if not job.spool.folder.is_dir():
        raise EngineError(
            f"a worker does not see {job.spool.folder}, where encoded texts wait: shards must be "
            f"written to a folder that all workers share"
        )
    return write_shard(job.folder, job.spool, shard, job.form)
