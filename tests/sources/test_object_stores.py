"""Sources in an object store: the records of local files, whatever fails on the way, no secret."""

import io
import json
import logging
import random
import time
from contextlib import closing
from functools import cache
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from commands import cli, ok
from described import sources_file
from effort import THOROUGH, often, some, thorough
from local_engine import Shuffled
from object_server import KEY, SECRET, client, point_to
from prebuilt import empty_corpus
from source_rows import rows_of

import duckplets as dp
from duckplets.base import object_store as stores
from duckplets.db.database import Database
from duckplets.ingest import checkpoint, ingest
from duckplets.sources import row_batches

pytest.importorskip("boto3")

COLUMNS = {"id": "id", "anchor": "title", "positive": "body"}
BUCKET = "texts"


@pytest.fixture(scope="module")
def filled(object_store):
    with pytest.MonkeyPatch.context() as patch:
        point_to(patch, object_store.behind)
        client().create_bucket(Bucket=BUCKET)
        for key, content in objects().items():
            client().put_object(Bucket=BUCKET, Key=key, Body=content)
    return object_store


@pytest.fixture
def proxy(filled, monkeypatch, tmp_path):
    """A store through a proxy, with what it holds."""
    point_to(monkeypatch, filled.port)
    filled.fault = lambda request: None
    filled.seen.clear()
    return filled


def rows(first, count=40):
    letters = random.Random(first)
    return [
        {"id": n, "title": f"title {n}", "body": f"body {n} {letters.randbytes(900).hex()}"}
        for n in range(first, first + count)
    ]


@cache
def objects():
    """Two files of every form, with others that are none."""
    found = {"csv/_SUCCESS": b"", "csv/": b"", "csv/.part": b"x", "empty.csv": b""}
    for number, first in enumerate((0, 40)):
        of, stem = rows(first), f"part-{number}"
        table = pa.Table.from_pylist(of)
        lines = "".join(json.dumps(row) + "\n" for row in of).encode()
        parquet, arrow = io.BytesIO(), io.BytesIO()
        pa.parquet.write_table(table, parquet, row_group_size=13)
        pa.feather.write_feather(table, arrow, compression="uncompressed")
        listed = "".join(f"{r['id']},{r['title']},{r['body']}\n" for r in of)
        compressed = pa.compress(lines, "gzip", asbytes=True)
        found |= {
            f"parquet/{stem}.parquet": parquet.getvalue(),
            f"arrow/{stem}.feather": arrow.getvalue(),
            f"csv/deep/{stem}.csv": b"id,title,body\n" + listed.encode(),
            f"lines/{stem}.jsonl.gz": compressed,
            f"json/{stem}.json": json.dumps(of).encode(),
        }
    return found


SOURCES = [
    lambda root: dp.sources.ParquetSource(f"{root}/parquet/*.parquet", **COLUMNS),
    lambda root: dp.sources.ArrowSource(f"{root}/arrow/part-[01].feather", **COLUMNS),
    lambda root: dp.sources.CsvSource(f"{root}/csv/**/*.csv", **COLUMNS),
    lambda root: dp.sources.JsonSource(f"{root}/lines/part-?.jsonl.gz", **COLUMNS),
    lambda root: dp.sources.JsonSource(
        [f"{root}/json/part-0.json", f"{root}/json/part-1.json"], **COLUMNS
    ),
]


def opened(source):
    with closing(Database.reader()) as reader:
        return rows_of(source, reader)


def without_places(found):
    return [{name: value for name, value in row.items() if name != "file"} for row in found]


def some_fault(seed):
    """Every other request or so fails in one of the ways that may pass, never five times on end."""
    dice, good = random.Random(seed), [True]
    faults = ["503", "500 InternalError", "drop", "cut 0", "cut 700", "cut 20000", "slow 1"]

    def fault(request):
        is_body = request.method == "GET" and "range" in request.headers
        good[0] = not is_body or not good[0] or dice.random() < 0.3
        return None if good[0] else dice.choice(faults)

    return fault


# -- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", some(range(len(SOURCES)), less=3))
def test_objects_give_the_rows_of_files_though_every_other_request_fails(
    number, proxy, tmp_path, monkeypatch
):
    monkeypatch.setattr(stores, "_RANGE", 30_000)
    for key, content in objects().items():
        if content:
            (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / key).write_bytes(content)
    local = opened(SOURCES[number](str(tmp_path)))
    for seed in range(20 if THOROUGH else 1):
        proxy.fault = some_fault(number + seed)
        remote = opened(SOURCES[number](f"s3://{BUCKET}"))
        assert without_places(remote) == without_places(local)
        assert len(remote) == 80
        assert {row["file"].partition(f"{BUCKET}/")[0] for row in remote} == {"s3://"}
    ranges = [request for request in proxy.seen if "range" in request.headers]
    assert all("if-match" in request.headers for request in ranges)


def test_a_command_and_a_file_of_data_sets_name_addresses(proxy, tmp_path):
    columns = ("--anchor", "title", "--positive", "body", "--id", "id")
    assert SECRET not in ok("ingest", tmp_path / "c.duckdb", f"s3://{BUCKET}/csv/", *columns)
    one = {"path": f"s3://{BUCKET}/csv/**/*.csv", "anchor": "title", "positive": "body"}
    sources_file(tmp_path / "sets.yaml", {"one": one})
    with dp.Corpus(tmp_path / "c.duckdb") as found:
        assert found.ingest(tmp_path / "sets.yaml")["one"].added == 80
        listed = found.sources().select(["name", "records", "uri"]).to_pylist()
    assert [tuple(row.values()) for row in listed] == [
        ("csv", 80, f"s3://{BUCKET}/csv/"),
        ("one", 80, f"s3://{BUCKET}/csv/**/*.csv"),
    ]


def test_a_listing_is_all_its_pages(proxy, monkeypatch):
    keys = [f"many/{n:05}.jsonl" for n in range(2_500)]

    def pages(**_):
        for low in range(0, len(keys), 1000):
            page = [{"Key": key, "Size": 1, "ETag": '"e"'} for key in keys[low : low + 1000]]
            yield {"Contents": page}

    found = stores.Store(BUCKET, dp.SourceError)
    answers = SimpleNamespace(paginate=pages)
    monkeypatch.setattr(found._client, "get_paginator", lambda _: answers)
    assert [each.path for each in found.listed("many/")] == keys


def test_an_interrupted_ingest_goes_on_and_another_etag_is_another_request(
    proxy, tmp_path, monkeypatch, caplog
):
    caplog.set_level(logging.DEBUG, "duckplets")
    monkeypatch.setattr(row_batches, "MAX_ROWS", often(10, less=40))
    monkeypatch.setattr("duckplets.sources.row_batches._CHUNK_ROWS", 7)
    monkeypatch.setattr(ingest, "_ROWS_A_COMMIT", 20)
    monkeypatch.setattr(ingest, "_TIMES_A_COMMIT", 0)
    source = dp.sources.JsonSource(f"s3://{BUCKET}/json/*.json", **COLUMNS, in_pieces=True)
    with dp.Corpus(tmp_path / "whole.duckdb") as corpus:
        corpus.ingest(source)
        whole = corpus.sql("SELECT * FROM sections ORDER BY ALL").to_pylist()
    fails = lambda request: "403 AccessDenied" if "part-1" in request.path else None  # noqa: E731
    with dp.Corpus(tmp_path / "broken.duckdb") as corpus:
        proxy.fault = fails
        with pytest.raises(dp.SourceError, match=r"part-1\.json: .*no right"):
            corpus.ingest(source)
        assert checkpoint.overview(corpus.database)
        kept = objects()["json/part-0.json"]
        client().put_object(Bucket=BUCKET, Key="json/part-0.json", Body=kept + b" ")
        proxy.fault = some_fault(3)
        with pytest.raises(dp.SourceError, match="restart"):
            corpus.ingest(source)
        client().put_object(Bucket=BUCKET, Key="json/part-0.json", Body=kept)
        report = corpus.ingest(source)
        assert (report.read, report.added) == (80, 80)
        assert corpus.sql("SELECT * FROM sections ORDER BY ALL").to_pylist() == whole
    assert any("authorization" in request.headers for request in proxy.seen)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    for secret in (SECRET, KEY):  # is stored, logged or shown nowhere
        assert not [file for file in files if secret.encode() in file.read_bytes()]
        assert secret not in caplog.text


def test_an_object_that_a_worker_cannot_have_is_read_or_refused_by_who_asks(
    proxy, tmp_path, monkeypatch
):
    key, left = "csv/deep/part-1.csv", [0]

    def fault(request):
        if key not in request.path or not left[0]:
            return None
        left[0] -= 1
        return "403 AccessDenied"

    def elsewhere(times):
        def before(_):
            left[0] = times
            if not times:
                other = objects()[key] + b"9,of,another\n"
                client().put_object(Bucket=BUCKET, Key=key, Body=other)

        return before

    proxy.fault = fault
    source = dp.sources.CsvSource(f"s3://{BUCKET}/csv/**/*.csv", **COLUMNS)
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        for times, said in ((99, "have no right"), (0, "has changed since it was listed")):
            with pytest.raises(dp.SourceError, match=rf"part-1\.csv: .*{said}"):
                corpus.ingest(
                    source, options=dp.IngestOptions(engine=Shuffled(before=elsewhere(times)))
                )
        client().put_object(Bucket=BUCKET, Key=key, Body=objects()[key])
        left[0] = 0
        report = corpus.ingest(
            source, restart=True, options=dp.IngestOptions(engine=Shuffled(before=elsewhere(1)))
        )
        assert report.added == 80
        assert "read by this process, as a worker could not: s3://" in report.notes[-1]


# -- what is refused ------------------------------------------------------------------------------

WRONG = {
    "no bucket": (None, "s3://nowhere/a.csv", "there is no bucket 'nowhere'"),
    "no object": (None, f"s3://{BUCKET}/a.csv", "does not exist; the address of a folder ends"),
    "no match": (None, f"s3://{BUCKET}/*.csv.gz", "matches no object"),
    "nothing in it": (None, f"s3://{BUCKET}/empty.csv", "is empty"),
    "denied": ("403 AccessDenied", "", "the credentials have no right to that"),
    "other keys": ("403 InvalidAccessKeyId", "", "refuses the credentials"),
    "elsewhere": ("301 PermanentRedirect", "", "set AWS_REGION to eu-north-1"),
    "busy": ("503", "", "the store cannot answer now (SlowDown, status 503)"),
    "breaks": ("cut 0", "", "broke off"),
    "ends": ("short 5", "", "by its checksum"),
    "drops": ("drop", "", "broke off|cannot be reached"),
}


PASSING = ("ends", "breaks", "busy", "drops")  # tried again, waiting longer each time


@pytest.mark.parametrize("which", [some(PASSING, less=1), [w for w in WRONG if w not in PASSING]])
def test_what_cannot_be_had_is_one_error_that_names_it(which, proxy):
    for what in which:
        fault, address, said = WRONG[what]
        proxy.fault = lambda request, fault=fault: fault if "range" in request.headers else None
        address = address or f"s3://{BUCKET}/csv/deep/part-0.csv"
        with pytest.raises(dp.SourceError) as caught:
            opened(dp.sources.CsvSource(address, **COLUMNS))
        message = str(caught.value)
        assert any(part in message for part in said.split("|")), message
        assert address in message or what == "no bucket"
        assert "\n" not in message
        assert not {SECRET, KEY} & set(message.split())


@thorough
def test_a_host_that_is_not_there_and_no_credentials_are_said_at_once(proxy, monkeypatch):
    source = dp.sources.CsvSource(f"s3://{BUCKET}/csv/", **COLUMNS)
    begun = time.monotonic()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://user:password@127.0.0.1:1")
    with pytest.raises(dp.SourceError, match=r"127\.0\.0\.1:1 cannot be reached") as caught:
        opened(source)
    assert "password" not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "nowhere")
    with pytest.raises(dp.SourceError, match="no http"):
        opened(source)
    point_to(monkeypatch, proxy.port)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(dp.SourceError, match="there are no credentials for it: set AWS_ACCESS"):
        opened(source)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    with pytest.raises(dp.SourceError, match="mine"):
        opened(source)
    assert time.monotonic() - begun < 30


def test_an_object_that_changes_while_it_is_read_is_refused(proxy, monkeypatch):
    monkeypatch.setattr(stores, "_RANGE", 30_000)
    other = b"x" * len(objects()["csv/deep/part-0.csv"])

    def change(request):
        if request.headers.get("range", "").startswith("bytes=30000-"):
            proxy.fault = lambda request: None
            client().put_object(Bucket=BUCKET, Key="csv/deep/part-0.csv", Body=other)

    proxy.fault = change
    with pytest.raises(dp.SourceError, match=r"part-0\.csv: it has changed since it was listed"):
        opened(dp.sources.CsvSource(f"s3://{BUCKET}/csv/", **COLUMNS))
    before = objects()["csv/deep/part-0.csv"]
    client().put_object(Bucket=BUCKET, Key="csv/deep/part-0.csv", Body=before)


SIGNED = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={KEY}&X-Amz-Signature={SECRET}"


def test_addresses_with_secrets_are_refused_and_not_shown(tmp_path):
    for address in (
        f"s3://{KEY}:{SECRET}@bucket/a.parquet",
        f"s3://bucket/a.parquet?{SIGNED}",
        f"https://bucket.example.org/a.parquet?{SIGNED}",
        f"https://{KEY}:{SECRET}@example.org/a.parquet",
    ):
        for make in (
            dp.sources.ParquetSource,
            dp.sources.CsvSource,
            dp.sources.JsonSource,
            dp.sources.ArrowSource,
        ):
            with pytest.raises(dp.SourceError) as caught:
                make(address, text="t")
            assert SECRET not in str(caught.value)
            assert "set credentials in AWS_*" in str(caught.value)
        result = cli("ingest", tmp_path / "c.duckdb", address, "--text", "t", "--format", "csv")
        assert result.exit_code
        assert SECRET not in result.output
