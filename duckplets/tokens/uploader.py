"""Send token shards to an object store as they are made, and note there what is done.

    corpus ─stages→ a folder beside the corpus ─each shard when it is whole→ objects, manifest last

The decision that matters: the store is the truth of what is done. An export asks it for sizes and
for the state that was noted there last, so it goes on from any machine; on this one are only the
spool, and what is being written. An object appears whole or not at all. What an upload has left
that was killed shows nowhere and costs money, so the next export under the prefix takes it back:
one at a time writes there.
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
_WORKERS = 2  # shards that are written at once; each holds itself in memory about thrice
_LARGE = 32 << 20  # tokens; larger shards are written one at a time


class Outbox:
    """Where the files of an export go besides its folder: nowhere.

    Args:
        out: The folder.

    Attributes:
        folder: That the export writes to.
        out: What it is called.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out
        self.out: Path | str = out

    def begin(self) -> None:
        """Look at what is there, under the lock of the folder."""

    def is_whole(
        self, shard: ShardEntry, checksums: Mapping[str, str], *, compare: bool
    ) -> bool | None:
        """Return whether a shard and its summary are as they were written; None without a shard.

        Args:
            shard: As it was noted.
            checksums: What ``checksums`` returned then.
            compare: Whether to look at more than sizes.
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
        except OSError:  # the disk cannot read it any more
            return False

    def checksums(self) -> dict[str, str]:
        """Return what tells files that are done from others, but for what shards say of theirs."""
        return {}

    def send(self, *paths: str) -> None:
        """Send files that are whole, in this order."""

    def clear(self, names: Sequence[str]) -> None:
        """Remove files and folders of these names, in their order."""
        for name in names:
            remove(self.folder / name)

    def written(
        self, spool: Spool, shards: list[Shard], form: ShardForm, engine: Engine
    ) -> Generator[ShardEntry, None, None]:
        """Yield how the manifest names shards, each when it is written and sent, in their order.

        Args:
            spool: Where their texts wait.
            shards: What to write.
            form: Of the files.
            engine: What writes.
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
        """Note that all is written."""


class Sent(Outbox):
    """Sends the files of an export to a store, and keeps the JSON files alone."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(folder)
        self._objects = Objects(address, folder)
        self.out = self._objects.address

    def begin(self) -> None:
        """Take back what killed uploads have left, and go on with what the store has.

        Raises:
            ShardError: There are objects that no export has written.
        """
        objects = self._objects
        if aborted := objects.store.abort_uploads(objects.key("")):
            log.warning("%s: %d unfinished uploads were taken back", self.out, aborted)
        before = self._fingerprint()
        objects.look()
        if before != self._fingerprint():  # the spool here is of another run
            remove(self.folder / SPOOL)
        if objects.there and objects.there.keys().isdisjoint((STATE, MANIFEST)):
            raise ShardError(
                f"{self.out} has {min(objects.there)!r} in it, which no export of shards has "
                f"written; give another prefix"
            )

    def _fingerprint(self) -> str:
        """Return what the state that lies here is of, or nothing."""
        try:
            return str((read_state(self.folder) or {}).get("fingerprint"))
        except (ShardError, DamagedFileError):
            return ""

    def is_whole(
        self, shard: ShardEntry, checksums: Mapping[str, str], *, compare: bool
    ) -> bool | None:
        """Return whether objects are those that were sent, by their sizes and ETags.

        An object is never changed, only replaced, so nothing has to be read.
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
        """Send files; those that are no JSON then go from this machine."""
        for path in paths:
            self._objects.store.put(self.folder / path, self._objects.key(path))
            if path not in DOCUMENTS:
                remove(self.folder / path)

    def clear(self, names: Sequence[str]) -> None:
        """Remove objects, those of a folder together, and what is here."""
        super().clear(names)
        there = self._objects.there
        for name in names:
            gone = [path for path in there if path == name or path.startswith(f"{name}/")]
            self._objects.store.remove(map(self._objects.key, gone))
            for path in gone:
                del there[path]

    def finish(self) -> None:
        """Remove the folder: what was in it is in the store."""
        remove(self.folder)


def outbox_of(out: str | Path, corpus: Path | None) -> Outbox:
    """Return where an export goes: to a folder, or by one beside the corpus to a store."""
    if not is_address(out):
        return Outbox(Path(out))
    corpus = corpus or Path("corpus.duckdb")  # one in memory has no place
    digest = hashlib.sha256(str(out).rstrip("/").encode()).hexdigest()[:12]
    return Sent(str(out), corpus.absolute().with_name(f"{corpus.name}.shards-{digest}"))


class Writing(NamedTuple):
    """What all shards of an export have in common, for the workers of an engine."""

    folder: Path
    spool: Spool
    form: ShardForm


def write_part(job: Writing, shard: Shard) -> ShardEntry:
    """Write a shard on a worker of an engine; see ``write_shard``.

    Raises:
        EngineError: The folder is not one that this worker sees.
    """
    if not job.spool.folder.is_dir():
        raise EngineError(
            f"a worker does not see {job.spool.folder}, where encoded texts wait: shards must be "
            f"written to a folder that all workers share"
        )
    return write_shard(job.folder, job.spool, shard, job.form)
