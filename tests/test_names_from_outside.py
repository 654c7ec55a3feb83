"""Names that others wrote: whatever they are, nothing outside of the folder is read or made."""

import json
import os
import random
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from corpora import odd_corpus
from effort import often, some, thorough
from hub_data import jsonl, point_to, read, rows
from hub_server import Hub
from object_server import client
from object_server import point_to as point_to_store
from prebuilt import copied, empty_corpus
from token_shards import lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.artifacts import folder as folders
from duckplets.base.names import inside, quoted
from duckplets.serving import snapshot
from duckplets.sources.remote.hub import HubSource
from duckplets.tokens.documents import fingerprint_of
from duckplets.tokens.manifest import ShardName
from duckplets.tokens.verify import verify

UP = "../../../../outside"
NAMES = [
    *("..", ".", "", "/", "//", "../x", UP, f"train/{UP}", "a/../b", "./train", "train/", "~"),
    *("/etc", "/tmp/outside", "//host/share", "\\\\host\\share", "..\\..\\x", "C:", "C:\\x", "c:x"),
    *("tr\0ain", "\0", "train\n", "train ", " train", "train.", "...", " ", "\t", "\x7f", "\u202e"),
    *("%2e%2e", "%2e%2e%2fx", "..%2f..", "%00", "․․/x", "．．/x", "../x", "‥/x", "..\u200b"),
    *("x" * 256, "é" * 200, "a/" * 3000, "../" * 40 + "tmp/outside", "file:///etc/passwd"),
    *("con", "nul.parquet", "-rf", "$(touch x)", "`x`", "*", "?", "[a]", "{a,b}", "train/*"),
]


def odd_names(count, seed=0):
    """Names, and others put together from pieces of these."""
    draw = random.Random(seed)
    pieces = ["..", ".", "/", "\\", "a", "train", "\0", " ", "%2e", "C:", "․", "~", "b0", "", "é"]
    made = ("".join(draw.choices(pieces, k=draw.randint(1, 8))) for _ in range(count))
    return [*NAMES, *made]


_opened = None  # paths, while somebody looks
_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.listdir")


def _note(event, arguments):
    if _opened is not None and event in _EVENTS and not isinstance(arguments[0], int):
        _opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def watched(around, *allowed):
    """Check that nothing else below a folder is opened, made, changed or removed."""
    global _opened

    def is_allowed(path):
        return any(path.is_relative_to(os.path.realpath(each)) for each in allowed)

    def there():
        found = (path for path in root.rglob("*") if not is_allowed(path) and path.is_file())
        return {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in found}

    root = Path(os.path.realpath(around))
    before, _opened = there(), []
    try:
        yield
    finally:
        opened, _opened = _opened, None
    assert there() == before
    for path in (Path(os.path.realpath(name)) for name in opened if "\0" not in name):
        assert not path.is_relative_to(root) or is_allowed(path) or not path.is_file()


# ---- the function


@pytest.mark.parametrize("seed", range(often(20, less=2)))
def test_a_name_is_below_its_folder_or_an_error(tmp_path, seed):
    folder = tmp_path / "in"
    (folder / "real").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (folder / "link").symlink_to(tmp_path / "out")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "own").symlink_to(folder / "real")
    for name in odd_names(300, seed):
        for full in (name, f"real/{name}", f"link/{name}", f"own/{name}", f"loop/{name}"):
            try:
                path = inside(folder, full, dp.errors.ShardError)
            except dp.errors.ShardError:
                continue
            assert Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
            assert path != folder
    for fine in ("real/a.parquet", "own/b", "new/c/d.tsv", "%2E%2E/x", "a b/ç", ".hidden"):
        assert inside(folder, fine, dp.errors.ShardError) == folder / fine
    for wrong in ("link/x", "link", "real/../x", "/etc", "C:/x", "a\\b", "x" * 256, "real/x ", ""):
        with pytest.raises(dp.errors.ShardError, match=r"through a link|no name of a file"):
            inside(folder, wrong, dp.errors.ShardError)
    (tmp_path / "all").symlink_to(folder)
    assert inside(tmp_path / "all", "real/x", dp.errors.ShardError)


# ---- token shards, here and in a store


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    texts = {"toy": numbered(lengths_of(8, 0))}
    return write_shards(tmp_path_factory.mktemp("names") / "good", {"train": texts})


def renamed(told, field, name):
    """Put a name into a manifest, and make all that follows from it follow."""
    shard = told["shards"][0]
    if field == "split":  # with all that a check against the split itself finds right
        for each in told["shards"]:
            place = {part: each[part] for part in ("source", "bucket", "index")}
            made = ShardName(split=name, **place)
            each |= {"split": name, "shard_id": made.shard_id, "path": made.path}
            each["tsv"]["path"] = made.tsv
        told["splits"] = [name]
    elif field == "source":
        shard["source"] = name
        shard["path"] = f"train/{name}/b{shard['bucket']}/shard_b{shard['bucket']}_s0.parquet"
        shard["shard_id"] = f"train/{name}/b{shard['bucket']}/s0"
        shard["tsv"]["path"] = shard["path"].removesuffix(".parquet") + ".tsv"
    elif field == "tsv":
        shard["tsv"]["path"] = name
    elif field == "tokenizer":
        told["tokenizer"]["path"] = name
    else:
        shard[field] = name


FIELDS = ("split", "source", "path", "tsv", "shard_id", "tokenizer")


def hostile(folder, field, name):
    told = json.loads((folder / "manifest.json").read_text())
    renamed(told, field, name)
    told.pop("digest")
    told["digest"] = fingerprint_of(told)
    return told


@pytest.mark.parametrize("field", FIELDS)
def test_a_manifest_leads_nowhere_else(shards, tmp_path, field):
    folder = tmp_path / "a" / "b" / "c" / "d" / "evil"
    shutil.copytree(shards, folder)
    one = next(shards.rglob("*.parquet"))
    for outside in (tmp_path, folder.parent, folder.parent.parent):  # where such a name would lead
        shutil.copytree(shards / "train", outside / "outside", dirs_exist_ok=True)
        shutil.copy(one, outside / "outside.parquet")
    for name in some(odd_names(40), less=24):
        if field == "source" and quoted(name) == name:  # which is a name as good as any
            continue
        told = hostile(shards, field, name)
        (folder / "manifest.json").write_text(json.dumps(told))
        with watched(tmp_path, folder):
            with pytest.raises(dp.errors.DamagedFileError):
                dp.TokenShards(folder)
            with pytest.raises(dp.errors.DamagedFileError):
                verify(folder)


@pytest.mark.parametrize("what", ["file", "folder", "split"])
def test_links_in_a_folder_of_shards_lead_nowhere_else(shards, tmp_path, what):
    folder, outside = tmp_path / "evil", tmp_path / "outside"
    shutil.copytree(shards, folder)
    file = next(folder.rglob("*.parquet"))
    link = {"file": file, "folder": file.parent, "split": folder / "train"}[what]
    link.rename(outside)
    link.symlink_to(outside)
    with watched(tmp_path, folder, tmp_path / "evil.tokens"):
        with pytest.raises(dp.errors.DamagedFileError, match=r"leads out of .* through a link"):
            dp.TokenShards(folder).sampler(seq_length=8)
        assert not verify(folder).ok
    (tmp_path / "link").symlink_to(folder)  # of the folder as a whole it is one's own business
    shutil.rmtree(folder)
    shutil.copytree(shards, folder)
    dp.TokenShards(tmp_path / "link").sampler(seq_length=8).close()


@thorough
@pytest.mark.parametrize("field", FIELDS)
def test_nothing_of_a_store_is_written_outside_of_the_cache(
    shards, object_store, monkeypatch, tmp_path, field
):
    pytest.importorskip("boto3")
    point_to_store(monkeypatch, object_store.behind)
    client().create_bucket(Bucket="evil")
    cache = tmp_path / "a" / "b" / "cache"
    cache.mkdir(parents=True)
    good = json.loads((shards / "manifest.json").read_text())
    for name in some(NAMES, less=5):
        if field == "source" and quoted(name) == name:  # which is a name as good as any
            continue
        told = hostile(shards, field, name)  # whose files are put where it says that they are
        bodies = {"tokenizer.json": (shards / "tokenizer.json").read_bytes()}
        for each, before in zip(told["shards"], good["shards"], strict=True):
            if 0 < len(each["path"]) < 200 and each["path"].isprintable():
                bodies[each["path"]] = (shards / before["path"]).read_bytes()
        for place, body in {**bodies, "manifest.json": json.dumps(told).encode()}.items():
            client().put_object(Bucket="evil", Key=f"x/{place}", Body=body)
        with watched(tmp_path, cache), pytest.raises(dp.errors.DamagedFileError):
            dp.TokenShards("s3://evil/x", cache=cache)
        assert not list(cache.rglob("*.parquet"))


# ---- what an export notes of itself


def test_the_notes_of_an_export_lead_nowhere_else(tmp_path):
    pytest.importorskip("tokenizers")
    with empty_corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest([{"t": f"text {n}"} for n in range(9)], name="toy", text="t")
        corpus.split(1, 0, 0)
        dp.train_tokenizer(corpus, tmp_path / "tokenizer", vocab_size=300)
        out = tmp_path / "x" / "out"
        out.parent.mkdir()
        how = {"tokenizer": tmp_path / "tokenizer"}
        corpus.shard(out, **how)
        good = json.loads((out / "export_state.json").read_text())
        (out / "manifest.json").unlink()
        for name in some([n for n in NAMES if n], less=6):
            told = json.loads(json.dumps(good))
            told["completed_shards"][0]["path"] = name
            told.pop("digest")
            told["digest"] = fingerprint_of(told)
            (out / "export_state.json").write_text(json.dumps(told))
            with (
                watched(tmp_path, out, tmp_path / "c.duckdb", tmp_path / "tokenizer"),
                pytest.raises(dp.errors.DamagedFileError),
            ):
                corpus.shard(out, **how)
        (out / "export_state.json").write_text(json.dumps(good))
        (tmp_path / "outside").mkdir()
        shutil.rmtree(out / "train")
        (out / "train").symlink_to(tmp_path / "outside")
        with (
            watched(tmp_path, out, tmp_path / "c.duckdb", tmp_path / "tokenizer"),
            pytest.raises(dp.errors.ShardError, match=r"leads out of .* through a link"),
        ):
            corpus.shard(out, **how)


# ---- snapshots


def entries(told):
    """Yield what a manifest says of each file."""
    if isinstance(told, dict) and told.keys() == {"name", "size", "digest"}:
        yield told
    elif isinstance(told, dict | list):
        for part in told.values() if isinstance(told, dict) else told:
            yield from entries(part)


def looked_through(corpus):
    """Open a snapshot and all the pools that it keeps."""
    found = snapshot.opened(corpus.database, corpus.version)
    assert found is not None
    found.find(["a pool that is not there"])


def test_the_manifest_of_a_snapshot_leads_nowhere_else(tmp_path):
    path = tmp_path / "x" / "c.duckdb"
    path.parent.mkdir()
    copied(path, odd_corpus, 30, 1, sources=1)
    folder = snapshot.folder_of(path)
    with dp.Corpus(path, read_only=True) as corpus:
        corpus.prepare()
        good = json.loads((folder / "manifest.json").read_text())
        texts = next(entries(good["content"]["segments"]))["name"]
        for outside in (tmp_path / "outside", tmp_path / "x" / texts):
            shutil.copy(folder / texts, outside)
        places = [
            lambda told: next(entries(told["segments"])),
            lambda told: next(entries(told["bundles"])),
        ]
        for name in some([*odd_names(20), f"../{texts}", f"{texts}/../{texts}"], less=12):
            for place in places:
                told = json.loads(json.dumps(good))
                place(told["content"])["name"] = name
                told["digest"] = folders._digest(told["format"], told["content"])
                (folder / "manifest.json").write_text(json.dumps(told))
                with watched(tmp_path, path.parent):
                    with pytest.raises(dp.errors.DamagedFileError):
                        looked_through(corpus)
                    assert list(snapshot.verify(folder))
        (folder / "manifest.json").write_text(json.dumps(good))
        (folder / texts).unlink()
        (folder / texts).symlink_to(tmp_path / "outside")
        with watched(tmp_path, path.parent):
            with pytest.raises(dp.errors.DamagedFileError, match="through a link"):
                snapshot.opened(corpus.database, corpus.version)
            assert "through a link" in "".join(snapshot.verify(folder))


# ---- hubs and object stores: what lies there becomes no path here


def test_files_of_a_hub_lead_nowhere_else(monkeypatch, tmp_path):
    cache = tmp_path / "a" / "cache"
    names = ["../../x", "/etc/x", "data/..", "a\\..\\b", "C:/x", "%2e%2e/x", "train "]
    with Hub(page=500) as hub:
        point_to(hub, monkeypatch, cache)
        hub.add("org/evil", {f"{name}.jsonl": jsonl(rows(3, 1)) for name in names})
        with watched(tmp_path, cache), suppress(dp.SourceError):
            read(HubSource("hf://org/evil anchor=question positive=answer"))
