"""Token shards in an object store: the bytes of a local export, nothing half, read back here."""

import hashlib

import pytest
from commands import ok
from effort import often, thorough
from object_server import client, point_to
from token_shards import digests

import duckplets as dp
from duckplets.tokens import shards
from duckplets.tokens.locations import status
from duckplets.tokens.verify import verify

pytest.importorskip("boto3")
pytest.importorskip("tokenizers")

BUCKET = "tokens"
OUT = f"s3://{BUCKET}/some/shards"
SMALL = {"buckets": (16, 32), "shard_mb": 0.01, "row_group_size": 50}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus, a tokenizer, and the shards of a local export."""
    home = tmp_path_factory.mktemp("stores")
    rows = [
        {"id": n, "a": f"title {n}", "b": "word " * (n % 40) + str(n)}
        for n in range(often(300, less=40))
    ]
    with dp.Corpus(home / "c.duckdb") as corpus:
        corpus.ingest(rows, name="texts", id="id", anchor="a", positive="b")
        corpus.split(train=0.8, validation=0.1, test=0.1, seed=3)
        dp.train_tokenizer(corpus, home / "tokenizer", vocab_size=300)
        corpus.shard(home / "shards", tokenizer=home / "tokenizer", **SMALL)
    return home


@pytest.fixture
def proxy(object_store, monkeypatch, tmp_path):
    point_to(monkeypatch, object_store.port)
    object_store.fault = lambda request: None
    client().create_bucket(Bucket=BUCKET)
    empty()
    object_store.seen.clear()
    return object_store


def empty():
    if there := [{"Key": key} for key in keys()]:
        client().delete_objects(Bucket=BUCKET, Delete={"Objects": there})


def keys():
    listed = client().list_objects_v2(Bucket=BUCKET).get("Contents", ())
    return [each["Key"] for each in listed]


def content(key):
    return bytes(client().get_object(Bucket=BUCKET, Key=key)["Body"].read())


def sharded(made, out=OUT, **options):
    with dp.Corpus(made / "c.duckdb", read_only=True) as corpus:
        return corpus.shard(out, tokenizer=made / "tokenizer", **(SMALL | options))


def digest(data):
    return hashlib.sha256(data).hexdigest()


def of_store():
    found = [key for key in keys() if not key.endswith("export_state.json")]
    return {key.removeprefix("some/shards/"): digest(content(key)) for key in found}


def test_a_store_has_the_bytes_of_a_folder_and_they_are_read_back(proxy, made, tmp_path):
    report = sharded(made)
    assert report.path == OUT
    assert of_store() == digests(made / "shards")
    assert not [file for file in made.iterdir() if "shards-" in file.name]
    found = verify(OUT)
    assert (found.ok, found.shards) == (True, report.shards)
    assert status(OUT)["stage"] == "completed"
    assert sharded(made).made == 0
    with (
        dp.TokenShards(OUT, cache=tmp_path / "here") as remote,
        dp.TokenShards(made / "shards") as local,
    ):
        one = remote.sampler(batch_size=4, seq_length=16, pack=True, epochs=1)
        two = local.sampler(batch_size=4, seq_length=16, pack=True, epochs=1)
        pairs = list(zip(one, two, strict=True))
        assert len(pairs) > 2
        for mine, other in pairs:
            assert (mine["input_ids"] == other["input_ids"]).all()
    proxy.seen.clear()
    dp.TokenShards(OUT, cache=tmp_path / "here").close()
    assert not proxy.asked("GET", ".parquet")
    sharded(made, overwrite=True, seed=1)  # shards of the same sizes, perhaps, and other rows
    with dp.TokenShards(OUT, cache=tmp_path / "here") as again:
        assert len(again.file.offsets) == report.records + 1
    with pytest.raises(dp.errors.ShardError, match="give cache="):
        dp.TokenShards(OUT)


@thorough
def test_the_manifest_comes_last_and_nothing_is_visible_half(proxy, made, monkeypatch):
    """Whatever request the export dies at: no manifest, or all that it lists; then it goes on."""
    monkeypatch.setattr(shards, "_SAVES", 0)
    wanted = digests(made / "shards")
    sharded(made)
    writes = len([each for each in proxy.seen if each.method in ("PUT", "POST")])
    for at in (1, writes // 2, writes - 2, writes - 1):
        empty()
        count = iter(range(10_000))
        proxy.fault = lambda request, at=at, count=count: (
            "403 AccessDenied" if request.method in ("PUT", "POST") and next(count) >= at else None
        )
        with pytest.raises(dp.errors.ShardError, match=r"s3://tokens/some/shards.*no right"):
            sharded(made)
        proxy.fault = lambda request: None
        there = of_store()
        assert there.items() <= wanted.items()
        assert "manifest.json" not in there or there == wanted
        if "manifest.json" not in there:
            with pytest.raises(
                dp.errors.ShardError, match=r"^s3://tokens/some/shards has no manifest\."
            ):
                verify(OUT)
        assert sharded(made).made == 0  # all of them lie beside the corpus
        assert of_store() == wanted


@thorough
def test_what_is_wrong_in_a_store_is_found_and_made_again(proxy, made, tmp_path):
    root = "some/shards/"
    client().put_object(Bucket=BUCKET, Key=f"{root}mine.txt", Body=b"x")
    for overwrite in (False, True):
        with pytest.raises(dp.errors.ShardError, match=r"mine\.txt in it"):
            sharded(made, overwrite=overwrite)
    client().delete_object(Bucket=BUCKET, Key=f"{root}mine.txt")
    sharded(made)
    shard = next(key for key in keys() if key.endswith(".parquet"))
    summary = next(key for key in keys() if key.endswith(".tsv"))
    client().put_object(Bucket=BUCKET, Key=shard, Body=content(shard)[:-1] + b"?")
    client().delete_object(Bucket=BUCKET, Key=summary)
    client().put_object(Bucket=BUCKET, Key=f"{root}train/other.parquet", Body=b"x")
    assert dict(verify(OUT).problems) == {
        shard.removeprefix(root): "damaged",
        summary.removeprefix(root): "missing",
        "train/other.parquet": "unlisted",
    }
    with (
        dp.TokenShards(OUT, cache=tmp_path / "here") as shards,
        pytest.raises(dp.errors.DamagedFileError, match="is not as the manifest says"),
    ):
        shards.sampler(seq_length=8)
    with pytest.raises(dp.errors.ShardError, match=r"train/other\.parquet in it, .* move it away"):
        sharded(made)
    client().delete_object(Bucket=BUCKET, Key=f"{root}train/other.parquet")
    stray = f"{root}train/texts/b0/shard_b0_s77.parquet"
    client().put_object(Bucket=BUCKET, Key=stray, Body=b"x")
    assert sharded(made).made == 1
    assert of_store() == digests(made / "shards")
    assert "as written" in ok("shard", OUT, "--verify")
    with pytest.raises(
        dp.errors.ShardError, match=r"s3://tokens/some/shards has shards of another run"
    ):
        sharded(made, seed=1)


WRONG = [
    ("s3://nowhere/x", None, "there is no bucket 'nowhere'"),
    (OUT, "403 AccessDenied", "no right"),
    ("s3://me:password@tokens/x", None, "no user, password or signature"),
]


def test_what_cannot_be_had_is_one_error_without_secrets(proxy, made, tmp_path):
    for address, fault, said in WRONG:
        proxy.fault = lambda request, fault=fault: fault
        for act in (sharded, verify, dp.TokenShards):
            given = [made, address] if act is sharded else [address]
            more = {"cache": tmp_path / "here"} if act is dp.TokenShards else {}
            with pytest.raises(dp.errors.ShardError, match=said) as caught:
                act(*given, **more)
            assert "password@" not in str(caught.value)
