"""Check the environment, and a corpus with its state file, for ``duckplets doctor``.

Each statement in ``sql/corpus/doctor`` counts violations of one promise of the schema; 0 is right.
The file is opened read-only.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.base.sanitize import Reported, counted
from duckplets.errors import DuckpletsError

if TYPE_CHECKING:
    from duckplets.db.database import Database

# Packages with what to install; those of extras may be missing.
_REQUIRED = dict.fromkeys(
    ("duckdb", "pyarrow", "numpy", "sqlglot", "threadpoolctl", "typer", "rich"), "duckplets"
)
_EXTRAS = {
    "duckdb-extension-fts": "'duckplets[fts]', for stemming and BM25 without a network",
    "tokenizers": "'duckplets[tokenizers]', for windows that are exact in a model's tokens",
}

# Statement: what is promised, what is counted.
_PROMISES = {
    "lost_records": ("every record has a source", "records without their source"),
    "lost_sections": ("every section has a record", "sections without their record"),
    "lost_chunks": ("every chunk has a section", "chunks without their section"),
    "wrong_spans": ("every chunk lies within its section", "chunks outside their section's text"),
    "unchunked_sections": ("every section is cut into windows", "sections without windows"),
    "wrong_token_counts": ("token counts fit", "sections with wrong token counts"),
    "unsplit_records": ("every record has a split, if there are splits", "records without a split"),
    "repeated_splits": ("no record has two splits", "records with several splits"),
    "repeated_ids": ("ids of records are unique", "ids that several records have"),
    "uncommitted_records": ("every record is of a committed version", "records of no version"),
}


@dataclass(frozen=True, slots=True)
class CheckResult(Reported):
    """The result of one check.

    Attributes:
        ok: Whether it passed.
        what: The finding, in one line.
    """

    ok: bool
    what: str


def environment() -> Iterator[CheckResult]:
    """Yield checks of the installed packages."""
    yield CheckResult(True, f"Python {platform.python_version()}, {platform.platform()}")
    yield CheckResult(True, f"duckplets {_installed('duckplets') or 'from a checkout'}")
    for package, what in (_REQUIRED | _EXTRAS).items():
        found = _installed(package)
        said = found or f"not installed; pip install {what}"
        yield CheckResult(bool(found) or package in _EXTRAS, f"{package} {said}")
    if _installed("duckdb"):
        from duckplets.db.extensions import fts_found

        yield CheckResult(True, f"DuckDB's extension fts: {fts_found()}")


def corpus(path: Path) -> Iterator[CheckResult]:
    """Yield the checks of a corpus file and its state file."""
    from duckplets.db import migrate
    from duckplets.db.database import Database
    from duckplets.db.files import real_path, wal_of
    from duckplets.ingest import checkpoint, records
    from duckplets.pools import macros
    from duckplets.runs import state

    try:
        with closing(Database.open(path, read_only=True)) as database:
            migrate.check(database, "corpus")
            macros.check(database)
            version_of = records.current_version(database)
            yield CheckResult(True, f"{path}: schema is current, corpus version {version_of}")
            if (wal := wal_of(real_path(path))).exists():
                yield CheckResult(
                    True,
                    f"{wal}: what was committed and is not in the file yet; a copy of the file "
                    f"alone lacks it, and the next opening for writing takes it in",
                )
            yield from _promises(database)
            for found in checkpoint.overview(database):
                rows = counted(found["rows"], "row")
                what = f"unfinished ingest of {found['source']}: {rows} so far"
                yield CheckResult(True, f"{what}; the same ingest goes on from there")
    except DuckpletsError as error:
        yield CheckResult(False, str(error))
        return
    yield from _artifacts(path)
    yield from _vectors(path)
    yield from _state(state.state_path(path), version_of)


def _artifacts(path: Path) -> Iterator[CheckResult]:
    """Verify the bytes of the snapshot and of mined candidates, where there are any."""
    from duckplets.mining.store import folder_at
    from duckplets.serving import snapshot

    folder, candidates = snapshot.folder_of(path), folder_at(path)
    if folder.exists():
        way = f"nothing is lost: delete {folder}, and the next run makes it again"
        yield from _verified(folder, snapshot.verify(folder), way)
    if any(candidates.manifests()):
        way = f"put a copy in its place, or mine them again: duckplets mine {path}"
        yield from _verified(candidates.path, candidates.verify(), way)


def _verified(folder: Path, problems: Iterable[str], way: str) -> Iterator[CheckResult]:
    try:
        found = list(problems)
    except DuckpletsError as error:
        found = [str(error)]
    yield from (CheckResult(False, f"{problem}; {way}") for problem in found)
    if not found:
        yield CheckResult(True, f"{folder}: every byte is as it was written")


def _vectors(path: Path) -> Iterator[CheckResult]:
    """Verify vectors against the digests of their commits, and report missing ones."""
    from duckplets.runs import state
    from duckplets.vectors.opened import verify_mapped
    from duckplets.vectors.store import VectorStore

    store = VectorStore(path)
    try:
        sets = {each.name: each for each in store.sets()}
        for problem in (*store.verify(), *verify_mapped(path)):
            yield CheckResult(
                False, f"{store.path}: {problem}; replace it by a copy, or make the vectors again"
            )
        for of in sets.values():
            what = f"vectors {of.name!r}: {of.vectors:,} of {of.dimension} dimensions"
            yield CheckResult(True, f"{store.path}: {what}, last commit {of.number}")
        for run in state.runs(state.state_path(path)):
            lacking = sorted({*run.settings.get("vectors", {}).get("sets", {})} - sets.keys())
            if lacking:
                yield CheckResult(
                    False,
                    f"run {run.run!r} is pinned to vectors {', '.join(lacking)}, which are not in "
                    f"{store.path}; put the file back",
                )
    except DuckpletsError as error:
        yield CheckResult(False, str(error))


def _promises(database: Database) -> Iterator[CheckResult]:
    from duckplets.db import external_files

    changed = list(external_files.changed(database).values())
    yield from (CheckResult(False, message) for message in changed)
    for statement, (promise, broken) in _PROMISES.items():
        if changed and statement == "wrong_spans":  # needs to read texts
            continue
        count = int(database.run(f"corpus/doctor/{statement}")[0][0])
        yield CheckResult(count == 0, f"{count:,} {broken}" if count else promise)


def _state(path: Path, corpus_version: int) -> Iterator[CheckResult]:
    from duckplets.runs import state

    if not path.exists():
        yield CheckResult(True, f"{path}: not there yet, no run was saved")
        return
    try:
        cursors = state.cursors(path)
    except DuckpletsError as error:
        yield CheckResult(False, str(error))
        return
    runs = {row["run"]: row["corpus_version"] for row in cursors}
    yield CheckResult(True, f"{path}: schema is current, saved runs: {len(runs):,}")
    for run, pinned in runs.items():
        if pinned > corpus_version:
            yield CheckResult(
                False, f"run {run} is of corpus version {pinned}; this is {corpus_version}"
            )


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
