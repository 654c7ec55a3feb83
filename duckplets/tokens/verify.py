"""Verify a folder of token shards in one pass over its files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
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
    """What was found in a folder of token shards.

    Attributes:
        path: The folder, or its address in a store.
        shards: That the manifest lists.
        bytes: That were read.
        seconds: That it took.
        problems: What is wrong, a sentence each, by file: ``damaged``, ``missing``, ``unlisted``,
            or of ``another run``.
    """

    path: Path | str
    shards: int
    bytes: int
    seconds: float
    problems: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@stage("verify")
def verify(out: str | Path, *, progress: Progress | bool | None = None) -> VerifyReport:
    """Compare every file of a folder of token shards with its manifest, and look for others.

    Args:
        out: The folder, or its address, ``s3://bucket/prefix``.
        progress: Called with bytes read and their number; True for a bar, None for one on a
            terminal.

    Returns:
        Also what is wrong: a file that is damaged or missing, a shard that no manifest lists, a
        manifest of another run.

    Raises:
        ShardError: There is no manifest.
        DamagedFileError: The manifest itself, or the state, is not as it was written.
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
    """Return the bytes read, and what is wrong by file."""
    expected, there = dict(_expected(manifest)), place.sizes()
    problems = [(path, "missing") for path in (*expected, MIXTURES) if path not in there]
    total, done = sum(there.get(path, 0) for path in expected), 0
    with bar(progress, sys.stderr, "bytes", rate=True) as advance:
        for path in (path for path in expected if path in there):
            if not place.has(path, expected[path]):
                problems.append((path, "damaged"))
            done += there[path]
            if advance is not None:
                advance(done, total)
    unlisted = (path for path in there if path.endswith(ENDINGS) and path not in expected)
    return total, [*problems, *((path, "unlisted") for path in unlisted)]


def _expected(manifest: ShardManifest) -> Iterator[tuple[str, str]]:
    yield manifest.tokenizer.path, manifest.tokenizer.sha256
    for each in manifest.shards:
        yield from each.files
