"""Verify a folder of token shards in one pass over its files."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.base.object_store import is_address
from duckplets.base.progress import bar
from duckplets.base.sanitize import Reported
from duckplets.base.stages import stage
from duckplets.tokens.locations import ShardFolder, opened
from duckplets.tokens.manifest import ENDINGS, MANIFEST, MIXTURES, ShardManifest, read_state

if TYPE_CHECKING:
    from duckplets.base.progress import Progress


@dataclass(frozen=True, slots=True)
class VerifyReport(Reported):
    """The result of ``verify``.

    Attributes:
        path: The folder, or its address in a store.
        shards: Number of shards in the manifest.
        bytes: Number of bytes read.
        seconds: Wall time.
        problems: Pairs of a path and its problem: ``damaged``, ``missing``, ``unlisted``, or
            ``of another run``.
    """

    path: Path | str
    shards: int
    bytes: int
    seconds: float
    problems: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


@stage("verify")
def verify(out: str | Path, *, progress: Progress | bool | None = None) -> VerifyReport:
    """Compare every file of a folder of token shards with its manifest.

    Args:
        out: The folder, or its address, ``s3://bucket/prefix``.
        progress: A function that gets the read and the total bytes; True for a bar, None for a bar
            on a terminal.

    Returns:
        The counts, and the problems: damaged or missing files, unlisted shards, or a manifest of
        another run.

    Raises:
        ShardError: There is no manifest.
        DamagedFileError: The manifest or the state is damaged.
    """
    begun = time.monotonic()
    with opened(out) as place:
        manifest = ShardManifest.read(place.folder)
        total, problems = _compared(place, manifest, progress)
        state = read_state(place.folder)
        if state is None or state["fingerprint"] != manifest.fingerprint:
            problems.append((MANIFEST, "of another run"))
    return VerifyReport(
        path=out if is_address(out) else Path(out),
        shards=len(manifest.shards),
        bytes=total,
        seconds=time.monotonic() - begun,
        problems=sorted(problems),
    )


def _compared(
    place: ShardFolder, manifest: ShardManifest, progress: Progress | bool | None
) -> tuple[int, list[tuple[str, str]]]:
    """Return the number of read bytes, and the problems by file."""
    sizes, expected = place.sizes(), {manifest.tokenizer.path: manifest.tokenizer.sha256}
    for shard in manifest.shards:
        expected.update(shard.files)
    problems = [(path, "missing") for path in (*expected, MIXTURES) if path not in sizes]
    total, done = sum(sizes.get(path, 0) for path in expected), 0
    with bar(progress, sys.stderr, "bytes", rate=True) as advance:
        for path in (path for path in expected if path in sizes):
            if not place.has(path, expected[path]):
                problems.append((path, "damaged"))
            done += sizes[path]
            if advance is not None:
                advance(done, total)
    unlisted = (path for path in sizes if path.endswith(ENDINGS) and path not in expected)
    return total, [*problems, *((path, "unlisted") for path in unlisted)]
