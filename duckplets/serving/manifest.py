"""Say which files make a snapshot, and what of the corpus they were made from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from duckplets.artifacts import array_bundle
from duckplets.artifacts.mapped_arrays import FileEntry, damaged
from duckplets.base.atomic import aside_of
from duckplets.db.database import Database
from duckplets.errors import DuckpletsError, EmptyPoolError
from duckplets.serving import segments

_FORMAT = 2
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """What a snapshot consists of.

    Attributes:
        version: Of the corpus, at which it was made.
        history: Digest of the versions up to that one.
        settings: Digest of how the corpus is split and chunked.
        records: Fingerprint of the records of that version.
        segments: Texts and chunks, by ascending keys.
        bundles: What was kept, the newest last.
    """

    version: int
    history: str
    settings: str
    records: list[int]
    segments: list[segments.SegmentEntry] = field(default_factory=list)
    bundles: list[array_bundle.Bundle] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> SnapshotManifest | None:
        """Return the manifest of a folder; None where there is no snapshot, or an outdated one.

        Raises:
            DamagedFileError: It is not as it was written, or of a later version of duckplets.
        """
        path = folder / MANIFEST
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise damaged(path, error.strerror or str(error)) from error
        try:
            told = json.loads(data)
            digest = told.pop("digest")
            if digest != _digest(told):
                raise ValueError
            made_as = told.pop("format")
            if made_as > _FORMAT:
                raise damaged(path, "a later version of duckplets has made it")
            if made_as < _FORMAT:
                return None
            told["segments"] = [segments.SegmentEntry.of(s) for s in told["segments"]]
            told["bundles"] = [array_bundle.Bundle.of(b) for b in told["bundles"]]
            return cls(**told)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise damaged(path, "it is not as it was written") from error

    def write(self, folder: Path) -> None:
        """Let this manifest take the place of the one in a folder."""
        told = asdict(self) | {"format": _FORMAT}
        path = folder / MANIFEST
        aside = aside_of(path)
        with aside.open("w", encoding="utf-8") as file:
            json.dump(told | {"digest": _digest(told)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)

    @property
    def files(self) -> Iterator[FileEntry]:
        """All files it names."""
        for segment in self.segments:
            yield from segment.files
        for bundle in self.bundles:
            yield from (bundle.arrays, bundle.index)


@contextmanager
def sound(folder: Path | None) -> Iterator[None]:
    """Tell what cannot be where a snapshot is as it was written.

    Args:
        folder: Of the snapshot that numbers are read from; None where there is none.

    Raises:
        DamagedFileError: Numbers of the snapshot lead nowhere.
    """
    if folder is None:
        yield
        return
    try:
        with np.errstate(divide="raise", invalid="raise"):
            yield
    except EmptyPoolError as error:  # what is in a pool can be drawn
        raise damaged(
            folder / MANIFEST, "the pools of the snapshot are of other records"
        ) from error
    except (IndexError, ValueError, ArithmeticError, MemoryError) as error:
        if isinstance(error, DuckpletsError):
            raise
        raise damaged(folder / MANIFEST, "numbers of the snapshot lead nowhere") from error


def is_of(database: Database, folder: Path) -> bool:
    """Whether a snapshot was made of a corpus as it is split and chunked now."""
    manifest = SnapshotManifest.read(folder)
    return (
        manifest is not None
        and manifest.settings == CorpusState.of(database, manifest.version).settings
    )


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CorpusState:
    """What of a corpus a snapshot is checked against.

    Attributes:
        chunks: How many there are.
        history: Digest of the versions up to one.
        settings: Digest of how it is split and chunked.
    """

    chunks: int
    history: str
    settings: str

    @classmethod
    def of(cls, database: Database, version: int) -> CorpusState:
        """Return that of a corpus, as of a version."""
        chunks, history, settings = database.run("serving/state", {"version": version})[0]
        return cls(int(chunks), history or "", settings)
