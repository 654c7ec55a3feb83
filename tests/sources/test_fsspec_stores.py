"""Sources in the stores of Google and Azure, by fsspec: the records of local files, and no other.

Google's is an emulator from PyPI. Azure has none there: its addresses are tried on fsspec's memory.
"""

import logging
import socket
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest
from source_rows import rows_of

import duckplets as dp
from duckplets.base.object_store import StoredObject
from duckplets.db.database import Database
from duckplets.sources.remote import stores

fsspec = pytest.importorskip("fsspec")

COLUMNS = {"id": "id", "anchor": "title", "positive": "body"}
SECRET = "c2VjcmV0IG9mIHRoZSB0ZXN0cw=="


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Tagged(fsspec.get_filesystem_class("memory")):
    """Files in memory with an ETag each."""

    def info(self, path, **kwargs):
        found = super().info(path, **kwargs)
        name = str(found["name"]).lstrip("/")
        return {**found, "name": name, "etag": str(found.get("created"))}

    def find(self, path, **kwargs):
        return {name.lstrip("/"): self.info(name) for name in super().find(path)}


@pytest.fixture(scope="module")
def google():
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    pytest.importorskip("gcsfs")
    logging.getLogger("gcp_storage_emulator").setLevel(logging.ERROR)
    port = free_port()
    server = emulator.create_server("127.0.0.1", port, in_memory=True, default_bucket="texts")
    server.start()
    yield {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}", "NO_GCE_CHECK": "true"}
    server.stop()


@pytest.fixture(params=["gs", "memory"])
def root(request, monkeypatch, tmp_path):
    """The address of a bucket with files that lie under the test's folder too."""
    scheme = {"memory": "abfs"}.get(request.param, request.param)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    if request.param == "memory":
        kind = stores._KINDS["abfs"]._replace(module=__name__, name="Tagged")
        monkeypatch.setitem(stores._KINDS, "abfs", kind)
    else:
        for name, value in request.getfixturevalue("google").items():
            monkeypatch.setenv(name, value)
    files = filesystem(scheme)
    if request.param != "gs" and not files.exists("texts"):
        files.mkdir("texts")
    for name, content in contents(tmp_path).items():
        put(scheme, name, content)
    return f"{scheme}://texts"


def filesystem(scheme):
    return stores.store_of(scheme, "texts")._files


def put(scheme, key, content):
    filesystem(scheme).pipe_file(f"texts/{key}", content)


def contents(folder):
    """Write the same rows in several formats; return what is in the files."""
    for part in range(2):
        rows = [
            {"id": n, "title": f"title {n}", "body": f"body {n}" * 99} for n in (part, part + 2)
        ]
        listed = "".join(f"{r['id']},{r['title']},{r['body']}\n" for r in rows)
        for name in ("parquet", "csv/deep"):
            (folder / "files" / name).mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(pa.Table.from_pylist(rows), folder / f"files/parquet/{part}.parquet")
        (folder / f"files/csv/deep/{part}.csv").write_text(f"id,title,body\n{listed}")
    (folder / "files/csv/_notes.csv").write_text("not data")
    each = (file for file in (folder / "files").rglob("*") if file.is_file())
    return {file.relative_to(folder / "files").as_posix(): file.read_bytes() for file in each}


def records(source):
    with closing(Database.reader()) as reader:
        return [row | {"file": None} for row in rows_of(source, reader)]


MADE = [
    lambda root: dp.sources.ParquetSource(f"{root}/parquet/*.parquet", **COLUMNS),
    lambda root: dp.sources.CsvSource(
        [f"{root}/csv/deep/0.csv", f"{root}/csv/deep/1.csv"], **COLUMNS
    ),
    lambda root: dp.sources.CsvSource(f"{root}/csv/**/[0-9].csv", **COLUMNS),
]


def test_objects_give_the_records_of_files(root, tmp_path):
    for make in MADE:
        found = records(make(root))
        assert found == records(make(str(tmp_path / "files")))
        assert len(found) == 4
    assert (
        len(records(dp.sources.CsvSource(f"{root}/csv/", **COLUMNS))) == 4
    )  # but for what is hidden
    for address, said in {
        f"{root}/none.csv": "does not exist; the address of a folder ends with /",
        f"{root}/*.zip.csv": "matches no object",
        f"{root}/empty/": "is a folder without objects",
        f"{root.rpartition('/')[0]}/nowhere/a.csv": "does not exist",
    }.items():
        with pytest.raises(dp.SourceError) as caught:
            records(dp.sources.CsvSource(address, **COLUMNS))
        assert address in str(caught.value)
        assert said in str(caught.value)


def test_an_object_that_changes_before_or_while_it_is_read_is_refused(root, tmp_path, monkeypatch):
    scheme = root.partition(":")[0]
    store = stores.store_of(scheme, "texts")
    (found,) = store.listed("csv/deep/0.csv", 1)
    store.fetch(found, tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == (tmp_path / "files/csv/deep/0.csv").read_bytes()
    put(scheme, found.path, b"x" * found.size)
    with pytest.raises(dp.SourceError, match=r"csv/deep/0\.csv: (it has changed|there is no such)"):
        store.fetch(found, tmp_path / "here")
    monkeypatch.setattr(stores, "_RANGE", 50)
    (found,) = store.listed("csv/deep/1.csv", 1)
    whole, left = store._files.cat_file, [3]

    def changing(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0:
            put(scheme, found.path, b"y" * found.size)
        return whole(*args, **kwargs)

    monkeypatch.setattr(store._files, "cat_file", changing)
    with pytest.raises(dp.SourceError, match=r"csv/deep/1\.csv: (it has changed|there is no such)"):
        store.fetch(found, tmp_path / "here")


class Failing:
    """A filesystem that fails in one way."""

    def __init__(self, error):
        self.error = error

    def info(self, *_, **__):
        raise self.error

    find = cat_file = info


class HttpError(Exception):
    """Of a status, as the errors of gcsfs are."""

    def __init__(self, code):
        super().__init__(f"https://example.org/?sig={SECRET}")
        self.code = code


def test_what_a_store_answers_is_told_without_secrets(monkeypatch, tmp_path):
    for error, said, passes in (
        (PermissionError(SECRET), "have no right to that; set AZURE_STORAGE", False),
        (HttpError(403), "have no right to that", False),
        (HttpError(503), "cannot answer now (status 503)", True),
        (HttpError(400), "refuses that (HttpError, status 400)", False),
        (FileNotFoundError(SECRET), "no such object or bucket", False),
        (ValueError(SECRET), "there are no credentials for it: set AZURE_STORAGE", False),
        (ConnectionError(SECRET), "cannot be reached (ConnectionError)", True),
    ):
        monkeypatch.setattr(stores, "_filesystem", lambda *_, error=error: Failing(error))
        found = StoredObject("texts", "a.csv", 9, "1", "az")
        with pytest.raises(dp.SourceError) as caught:
            stores.store_of("az", "texts").fetch(found, tmp_path / "here")
        assert said in str(caught.value)
        assert str(caught.value).startswith("az://texts/a.csv: ")
        assert SECRET not in str(caught.value)
        assert isinstance(caught.value, dp.errors.PassingError) == passes
    for address in ("az://texts/a.csv?sv=1&sig=abc", "gs://key:abc@texts/a.csv"):
        with pytest.raises(dp.SourceError, match="no user, password or signature") as caught:
            dp.sources.CsvSource(address, **COLUMNS)
        assert "abc" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is full")
def test_a_disk_that_is_full_is_no_failure_of_the_store(monkeypatch):
    whole = SimpleNamespace(cat_file=lambda name, start, end: bytes(end - start))
    monkeypatch.setattr(stores, "_filesystem", lambda *_: whole)
    found = StoredObject("texts", "a.csv", 1 << 20, "1", "az")
    with pytest.raises(dp.SourceError, match=r"a\.csv: it cannot be kept here: No space") as caught:
        stores.store_of("az", "texts").fetch(found, Path("/dev/full"))
    assert not isinstance(caught.value, dp.errors.PassingError)  # another try would fail as well


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, tmp_path):
    for package in ("gcsfs", "gcsfs.core", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)
    for scheme, extra in {"gs": "gs", "az": "az", "abfs": "az"}.items():
        with pytest.raises(dp.errors.ExtensionError, match=rf"pip install 'duckplets\[{extra}\]'"):
            dp.sources.CsvSource(f"{scheme}://texts/a.csv", **COLUMNS).settings()
    with pytest.raises(
        dp.errors.ShardError, match=r"give a folder or s3://bucket/prefix for shards"
    ):
        dp.TokenShards("gs://texts/shards", cache=tmp_path)
