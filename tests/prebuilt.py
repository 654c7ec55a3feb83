"""Corpora, and pools of theirs, made once a session: a copy, opened, takes a tenth of making it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import pytest

import duckplets as dp
from duckplets import testing
from duckplets.runs import opening

P = ParamSpec("P")
Build = Callable[Concatenate[Path, P], dp.Corpus]

_FOLDER: Path | None = None  # where those of this session lie, for all its processes


def keep_in(session: pytest.TempPathFactory) -> None:
    """Keep what is made in a folder of the session, which its processes share."""
    global _FOLDER
    own = session.getbasetemp()
    shared = own.parent if own.name.startswith("popen-") else own  # of a worker
    _FOLDER = shared / "prebuilt"
    _FOLDER.mkdir(exist_ok=True)


def prebuilt(build: Build[P]) -> Build[P]:
    """Make a function that fills a new corpus at a path do so once for the same arguments.

    What it makes depends on its arguments only, and they on their ``repr``. Every call gives a
    corpus of its own, open for writing, at the path asked for.
    """

    @wraps(build)
    def opened(path: Path, /, *args: P.args, **options: P.kwargs) -> dp.Corpus:
        copied(path, build, *args, **options)
        return dp.Corpus(path)

    return opened


def copied(path: Path, build: Build[P], *args: P.args, **options: P.kwargs) -> None:
    """Put what a function fills at a path, made now or earlier in this session."""
    made = kept(build, *args, **options)
    shutil.copyfile(made, path)
    for beside, copy in zip(_beside(made, "runs"), _beside(path), strict=True):
        if beside.is_dir():
            shutil.copytree(beside, copy)
        elif beside.exists():
            shutil.copyfile(beside, copy)


def _beside(path: Path, runs: str = "state.duckdb") -> list[Path]:
    """Return where candidates and saved runs lie: not those that a test saves of what is kept."""
    path = Path(path)  # some tests stand in a folder, and name a file
    return [path.with_name(f"{path.stem}.{what}") for what in ("candidates", "texts", runs)]


def kept(build: Build[P], *args: P.args, **options: P.kwargs) -> Path:
    """Return the file that a function fills, for reading only: all tests share it."""
    assert _FOLDER is not None
    what = f"{build.__module__}.{build.__qualname__}{args}{sorted(options.items())}"
    name = hashlib.sha256(what.encode()).hexdigest()[:16]
    path = _FOLDER / f"{name}.duckdb"
    if not path.exists():
        aside = _FOLDER / f"{name}.{os.getpid()}.duckdb"
        build(aside, *args, **options).close()
        for made, beside in zip(_beside(aside), _beside(path, "runs"), strict=True):
            if made.exists() and not beside.exists():
                made.rename(beside)
        aside.replace(path)  # two processes may make the same; either will do
    return path


def reading(build: Build[P], /, *args: P.args, **options: P.kwargs) -> Any:
    """Return a fixture: what a function fills, opened once a module, for reading only."""

    @pytest.fixture(scope="module")
    def opened() -> Iterator[dp.Corpus]:
        path = kept(getattr(build, "__wrapped__", build), *args, **options)
        with dp.Corpus(path, read_only=True) as corpus:
            yield corpus

    return opened


def copying(build: Build[P], /, *args: P.args, **options: P.kwargs) -> Any:
    """Return a fixture: what a function fills, as ``c.duckdb`` in a test's own folder."""

    @pytest.fixture
    def opened(tmp_path: Path) -> Iterator[dp.Corpus]:
        copied(tmp_path / "c.duckdb", getattr(build, "__wrapped__", build), *args, **options)
        with dp.Corpus(tmp_path / "c.duckdb") as corpus:
            yield corpus

    return opened


toy_corpus = prebuilt(testing.toy_corpus)
empty_corpus = prebuilt(dp.Corpus)


# ---- pools

_SETTINGS = (
    *("kind", "split", "recipes", "optional", "sources", "seed", "negatives", "no_duplicates"),
    *("negatives", "batch_by", "in_batch", "swap"),
)
_PINNED = ("corpus_version", "records", "splits", "chunking", "candidates", "index")
_OF_MIXTURE = ("columns", "values", "order_by", "stairs", "order_epochs")
_streams: dict[str, Any] = {}


def keep_pools(patch: pytest.MonkeyPatch) -> None:
    """Read each pool once for the same bytes of a corpus: it is most of what opening a run costs.

    For tests that open many runs and are of what comes after reading.
    """
    patch.setattr(opening, "open_streams", partial(_read_once, opening.open_streams))


def _read_once(
    read: Any, database: Any, vectors: Any, snapshot: Any, settings: Any, sources: Collection[str]
) -> Any:
    what = [getattr(settings, name) for name in (*_SETTINGS, *_PINNED)]
    what += [getattr(settings.mixture, name) for name in _OF_MIXTURE]
    key = f"{_contents(Path(database.path))} {what} {sorted(sources)} {vectors} {snapshot}"
    if key not in _streams:
        _streams[key] = read(database, vectors, snapshot, settings, sources)
    return _streams[key]


def _contents(path: Path) -> str:
    """Return what a corpus holds: its bytes, and those of what was committed since."""
    files = [path, path.with_name(f"{path.name}.wal")]
    told = [(f.resolve(), f.stat()) for f in files if f.exists()]
    return " ".join(_digest(file, stat.st_mtime_ns, stat.st_size) for file, stat in told)


@cache
def _digest(file: Path, changed: int, size: int) -> str:
    return hashlib.blake2b(file.read_bytes()).hexdigest()
