"""What all tests share: golden files, rewritten with ``pytest --rewrite-golden``, and new files."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import prebuilt
import pytest
from effort import THOROUGH
from object_server import Proxy, proxied, store

from duckplets.db import catalog, database, extensions, files, migrate, sessions
from duckplets.db.database import Database
from duckplets.db.queries import query
from duckplets.errors import ExtensionError
from duckplets.runs import sampler
from duckplets.runs.reader import BatchReader
from duckplets.sources.columns import ArrowColumns, RowColumns

if os.environ.get("DUCKPLETS_BY_ROWS") == "1":  # every value is looked at by itself
    ArrowColumns.column = ArrowColumns.values  # type: ignore[method-assign]
    RowColumns.column = RowColumns.values  # type: ignore[method-assign]

GOLDEN = Path(__file__).parent / "golden"
DEFAULT_AHEAD = 2  # blocks, of Corpus.sampler

Golden = Callable[[str, str], None]

try:
    NO_WHEEL = extensions.wheel_file("fts") and ""
except FileNotFoundError as error:
    NO_WHEEL = f"the extension fts: {error}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the tests get into tests/golden instead of comparing it",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "network: may reach a package index; skipped without one")
    # A shell starts what runs in its background with SIGINT ignored, and that is inherited: tests
    # of Ctrl-C, in this process or in one that they start, would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave out of every garbage collection what stays to the end: modules and tests."""
    gc.freeze()


def _skipping_what_stems() -> Iterator[None]:
    """Skip what needs a stemmer on a DuckDB that the wheel of its extension is not made for."""
    try:
        return (yield)
    except ExtensionError as error:
        if not NO_WHEEL or "extension fts" not in str(error):
            raise
        pytest.skip(NO_WHEEL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    return (yield from _skipping_what_stems())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    return (yield from _skipping_what_stems())


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """A check that a text equals the file ``tests/golden/NAME``: ``golden(name, text)``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"no golden file {name}; write it with: pytest --rewrite-golden"
        # Lines, so that a failure shows the ones that differ.
        assert text.splitlines() == path.read_text(encoding="utf-8").splitlines(), (
            f"differs from tests/golden/{name}; if that is meant: pytest --rewrite-golden"
        )

    return check


@pytest.fixture(scope="session", autouse=True)
def _corpora_are_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    prebuilt.keep_in(tmp_path_factory)


@pytest.fixture(scope="session", autouse=not THOROUGH)
def _one_thread() -> Iterator[None]:
    """Run the corpora of tests on one thread, unless a test says how many.

    A second thread takes twice the time of the first to run the small statements of a test. The
    thorough suite runs with the threads of the machine.
    """
    settings = database._settings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_settings", lambda memory, threads: settings(memory, threads or 1))
        yield


@pytest.fixture(autouse=not THOROUGH)
def _nothing_ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let samplers prepare blocks when they are asked for, unless a test says how many ahead.

    A test takes a few batches: what the default of two blocks prepares behind them, nobody takes.
    Tests of just that, and the thorough suite, have the default.
    """
    ahead = ("test_prefetch", "test_threads", "test_forks", "test_kills")
    if request.path.stem in ahead or "waits_for_no_block" in request.node.name:
        return

    def reader(*arguments: Any, prefetch: int, **named: Any) -> BatchReader:
        return BatchReader(
            *arguments, prefetch=0 if prefetch == DEFAULT_AHEAD else prefetch, **named
        )

    monkeypatch.setattr(sampler, "BatchReader", reader)


@pytest.fixture(autouse=not THOROUGH)
def _files_are_ours(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a file that records our migrations for one that holds nothing else.

    Comparing its catalog takes 17 ms each time a test opens what it has changed. Tests of just
    that, and the thorough suite, compare.
    """
    if request.path.parent.name == "db":
        return
    compared = catalog.check

    def check(connection: duckdb.DuckDBPyConnection, name: str) -> catalog.Checked:
        ((file,),) = connection.execute(query("db/catalog/database")).fetchall()
        try:
            applied = catalog._rows(connection, "db/catalog/applied", file)
            kind, _ = catalog.applied(applied, name)
            placed = catalog._rows(connection, "db/catalog/files", file) if kind == "corpus" else []
        except duckdb.Error:
            return compared(connection, name)
        return catalog.Checked(kind, tuple(placed))

    monkeypatch.setattr(catalog, "check", check)


@pytest.fixture(scope="session")
def object_store() -> Iterator[Proxy]:
    """A store of objects on this machine, behind a proxy that fails when a test says so."""
    with store() as port, proxied(port) as proxy:
        yield proxy


@pytest.fixture
def pools_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this test do not read a pool again that one before them has read."""
    prebuilt.keep_pools(monkeypatch)


@pytest.fixture(autouse=True)
def _pools_once(request: pytest.FixtureRequest) -> None:
    changing = ("test_later_minings", "test_batch_keys", "test_near_apart", "test_labelled_pairs")
    if request.path.parent.name in ("runs", "samples") and request.path.stem not in changing:
        request.getfixturevalue("pools_once")


@pytest.fixture(scope="session")
def new_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An empty file of every kind.

    Of small blocks, unless the suite is thorough: with DuckDB's own of 256 kB five commits of
    forty records took 40 ms and 2.6 MB, not 18 and 0.4.
    """
    folder = tmp_path_factory.mktemp("new")
    found = {kind: folder / f"{kind}.duckdb" for kind in ("corpus", "state", "vectors")}
    for kind, path in found.items():
        if not THOROUGH:
            _make_of_small_blocks(path)
        database = Database.open(path)
        migrate.migrate(database, kind)
        database.close()
    return found


def _make_of_small_blocks(path: Path) -> None:
    with duckdb.connect(config={"default_block_size": "16384"}) as connection:
        storage = sessions._WRITTEN["storage_compatibility_version"]
        connection.execute(f"ATTACH '{path}' AS file (STORAGE_VERSION '{storage}')")


@pytest.fixture(scope="session", autouse=not THOROUGH)
def _readers_share_an_instance() -> Iterator[None]:
    """Let what reads files take a connection of an instance of its limit that is there already.

    To make an instance takes DuckDB 15 ms, a seventh of a small ingest.
    """
    kept: dict[tuple[Any, ...], Database] = {}
    made = Database.reader.__func__

    def reader(cls: type[Database], memory_limit: str | None = None) -> Database:
        which = (os.getpid(), os.getcwd(), memory_limit)
        if which not in kept:
            kept[which] = made(Database, memory_limit)
        return cls(kept[which]._first.another(), None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "reader", classmethod(reader))
        yield
    for opened in kept.values():
        opened.close()


@pytest.fixture(scope="session")
def reader() -> Iterator[Database]:
    """The instance that sources read with, made once."""
    with closing(Database.reader()) as database:
        yield database


@pytest.fixture(autouse=True)
def _files_are_copied(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, new_files: dict[str, Path]
) -> None:
    """Copy new files instead of migrating each, which takes a tenth of a second."""
    if request.path.stem in ("test_migrate", "test_files", "test_kills"):
        return

    def create(path: Path, kind: migrate.Kind) -> None:
        if path.exists():
            return
        files.check_room(files.real_path(path), str(path))
        aside = path.with_name(f".{path.name}.{os.getpid()}.new")
        shutil.copy(new_files[kind], aside)
        aside.rename(path)

    monkeypatch.setattr(migrate, "create", create)
