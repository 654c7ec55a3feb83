"""The cache of shards: under its limit, the longest unused go first, and nothing of others'."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from duckplets.sources.remote.cache import MARKER, HeldShard, ShardCache, default_folder
from effort import often
from hub_data import flat, items, jsonl, point_to, read, rows
from hub_server import Hub

from duckplets.errors import SourceError
from duckplets.sources import row_batches
from duckplets.sources.remote.hub import HubSource


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with Hub() as server:
        point_to(server, monkeypatch, tmp_path / "cache")
        yield server


def hold(cache: ShardCache, name: str, size: int, brought: list[str] | None = None) -> HeldShard:
    def bring(part: Path) -> None:
        (brought if brought is not None else []).append(name)
        part.write_bytes(name.encode()[:1] * size)

    held = cache.hold(name, ".jsonl", size, bring)
    assert held.path.read_bytes() == name.encode()[:1] * size
    return held


def taken(folder: Path) -> int:
    sizes = 0
    for file in folder.glob("*.jsonl*"):
        with contextlib.suppress(FileNotFoundError):  # become a whole one, or gone, meanwhile
            sizes += file.stat().st_size
    return sizes


def age(folder: Path) -> None:
    """Make all shards older, by whole seconds, in the order they were used."""
    for file in folder.glob("*.jsonl*"):
        facts = file.stat()
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns - 10**9))


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 100)
    for name in "abc":
        hold(cache, name, 30).close()
        age(tmp_path)
    hold(cache, "a", 30).close()  # b is the longest unused now
    age(tmp_path)
    hold(cache, "d", 30).close()
    brought: list[str] = []
    for name in "acd":
        hold(cache, name, 30, brought).close()
    assert brought == []
    hold(cache, "b", 30, brought).close()
    assert brought == ["b"]


@pytest.mark.parametrize("seed", range(often(20, less=2)))
def test_it_stays_under_its_limit(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    sizes = {str(n) + "x": draw.randrange(1, 50) for n in range(30)}
    cache = ShardCache(tmp_path, draw.randrange(100, 300))
    held: dict[str, HeldShard] = {}
    for _ in range(200):
        name = draw.choice(list(sizes))
        if len(held) == 2 or name in held:
            held.pop(draw.choice(list(held))).close()
        if name not in held and cache.fits(sizes[name], *(sizes[other] for other in held)):
            held[name] = hold(cache, name, sizes[name])
        assert taken(tmp_path) <= cache.limit
        assert all(shard.path.exists() for shard in held.values())
    for shard in held.values():
        shard.close()


def test_what_is_in_use_stays_and_passing_the_limit_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = ShardCache(tmp_path, 100)
    first = hold(cache, "a", 60)
    assert not caplog.messages
    second = hold(ShardCache(tmp_path, 100), "b", 60)  # as another process would
    (said,) = caplog.messages
    assert "passes its limit of 100 bytes: 60 are in use, and 60 come to them" in said
    assert first.path.read_bytes() == b"a" * 60
    first.close()
    hold(cache, "c", 30).close()
    assert caplog.messages == [said]
    assert not first.path.exists()
    assert second.path.exists()
    second.close()


def test_files_of_others_are_never_deleted(tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 100)
    elsewhere = tmp_path.parent / "elsewhere.bin"
    elsewhere.write_bytes(b"e" * 500)
    (tmp_path / "notes.txt").write_text("n" * 500)
    (tmp_path / ("0" * 40)).mkdir()
    (tmp_path / f"{'1' * 40}.jsonl").symlink_to(elsewhere)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f"{'2' * 40}.jsonl").write_bytes(b"s" * 500)
    before = {path for path in tmp_path.rglob("*") if path.name != MARKER}
    for name in "abcdefgh":
        hold(cache, name, 40).close()
    assert before <= set(tmp_path.rglob("*"))
    assert elsewhere.read_bytes() == b"e" * 500
    assert taken(tmp_path) - 500 <= 100  # the link leads to 500 bytes


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SourceError) as error:
        ShardCache(tmp_path, 100)
    assert str(error.value) == (
        f"{tmp_path} is no cache of shards and not empty; give cache= a folder of its own"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"the cache .*file/cache cannot be used: Not a dir"):
        ShardCache(tmp_path / "file" / "cache", 100)


def test_a_shard_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as error:
        hold(ShardCache(tmp_path, 100), "a", 101)
    assert str(error.value) == (
        "cache_limit=100 is less than a shard of 101 bytes needs; give at least cache_limit=101, "
        "or DUCKPLETS_CACHE_LIMIT=101 for an object store"
    )


def test_an_interrupted_shard_makes_room_too_and_is_no_shard(tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 100)

    def bring(part: Path) -> None:
        part.write_bytes(b"a" * 70)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.hold("a", ".jsonl", 80, bring)
    assert [file.name[40:] for file in tmp_path.glob("*.jsonl*")] == [".jsonl.part"]
    hold(cache, "b", 60).close()
    assert [file.name[40:] for file in tmp_path.glob("*.jsonl*")] == [".jsonl"]


def test_the_folder_is_the_users_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUCKPLETS_CACHE", "/somewhere/else")
    assert default_folder() == Path("/somewhere/else")
    monkeypatch.delenv("DUCKPLETS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setattr("sys.platform", "linux")
    assert default_folder() == Path("/caches/duckplets/hub")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_folder() == Path("/home/someone/.cache/duckplets/hub")


# ---- a data set larger than the cache


SHARDS = {f"train-{i}.jsonl": jsonl(rows(often(200, less=100), i)) for i in range(6)}
LARGEST = max(map(len, SHARDS.values()))


@pytest.mark.parametrize("limit", [LARGEST, 2 * LARGEST, 3 * LARGEST][:: often(1, less=3)])
def test_a_data_set_larger_than_the_limit_is_read_within_it(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(row_batches, "MAX_ROWS", 50)
    monkeypatch.setattr(row_batches, "_CHUNK_ROWS", 25)
    hub.add("org/data", SHARDS)
    whole = read(HubSource("hf://org/data text=question", cache=tmp_path / "large"))
    source = HubSource("hf://org/data text=question", cache=tmp_path / "small", cache_limit=limit)
    found = []
    for item in items(source):
        assert taken(tmp_path / "small") <= limit
        found += [] if not hasattr(item, "num_rows") else flat(item)
    assert found == whole


def test_what_is_in_the_cache_is_not_asked_for_again(hub: Hub, tmp_path: Path) -> None:
    repo = hub.add("org/data", SHARDS)
    source = HubSource("hf://org/data text=question", cache=tmp_path / "c")
    expected = read(source)
    hub.requests.clear()
    assert read(source) == expected
    assert not hub.asked("resolve")
    changed = SHARDS | {"train-3.jsonl": jsonl(rows(200, 77))}
    repo.change(changed)
    assert read(source) != expected
    assert {request.rsplit("/", 1)[1] for request in hub.asked("resolve")} == {"train-3.jsonl"}


def test_a_limit_below_a_shard_is_told(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/data", SHARDS)
    source = HubSource("hf://org/data text=question", cache=tmp_path / "c", cache_limit=2000)
    with pytest.raises(SourceError, match="cache_limit=2000 is less than a shard of"):
        read(source)


def test_files_that_others_name_meanwhile_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing has names; by the time one is looked at, its download may have ended."""
    cache = ShardCache(tmp_path, 100)
    hold(cache, "a", 10).close()
    scandir = os.scandir

    @contextlib.contextmanager
    def late(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        passing = tmp_path / f"{'0' * 40}.feather.part"
        passing.write_bytes(b"x")
        with scandir(folder) as entries:
            found = list(entries)
        passing.unlink()
        assert any(entry.name == passing.name for entry in found)
        yield iter(found)

    monkeypatch.setattr(os, "scandir", late)
    held = hold(cache, "b", 20)
    assert held.path.stat().st_size == 20
    held.close()
