"""Without a token file: the same tokens from row groups, within memory, and damage is named."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from effort import often, some
from token_shards import lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.tokens import arrays, local, memmap
from duckplets.tokens.decode import digest_of
from duckplets.tokens.manifest import ShardManifest
from duckplets.tokens.memmap import TokenFile
from duckplets.tokens.row_groups import RowGroups

TEXTS = {"alpha": numbered(lengths_of(300, 1)), "bravo": numbered(lengths_of(90, 2))}
ROWS = often(12, less=5)  # asked for at once
SHARD = "train/alpha/b1/shard_b1_s0.parquet"
HOW: dict[str, Any] = {"pack": True, "seq_length": 24, "batch_size": 4, "seed": 3}
LOCAL = "read from the row groups of .*; rows come in a local order"


@pytest.fixture(autouse=True)
def small_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_BLOCK", 200)
    monkeypatch.setattr(local, "_REGIONS", 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(tmp_path_factory.mktemp("tokens") / "out", {"train": TEXTS})


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))


def rows_of(sampler: Any, steps: int) -> list[Any]:
    return [
        (b["source"], b["row"].tolist(), b["input_ids"].tolist()) for b in islice(sampler, steps)
    ]


# ---- the same tokens


@pytest.mark.parametrize("most", some([1, 3_000, 1 << 20], less=2))
def test_any_places_have_the_tokens_that_the_token_file_has(made: Path, most: int) -> None:
    manifest, generator = ShardManifest.read(made), np.random.default_rng(most)
    file, groups = TokenFile.of(made, manifest), RowGroups(made, manifest, most)
    largest = int(4 * np.diff(groups._begins).max())
    assert (groups.offsets == file.offsets).all()
    for width in (1, 5, 40, 700):
        starts = generator.integers(0, len(file) + 1, ROWS)
        for lengths in (np.full(ROWS, width), generator.integers(0, width + 1, ROWS)):
            sizes = np.minimum(lengths, len(file) - starts)
            found = groups.take(starts, sizes, width, -1)
            assert (found == file.take(starts, sizes, width, -1)).all()
            for start, size, row in zip(
                starts.tolist(), sizes.tolist(), found.tolist(), strict=True
            ):
                assert row == [*file.tokens[start : start + size].tolist(), *[-1] * (width - size)]
            assert groups.nbytes == sum(kept.nbytes for kept in groups._kept.values())
            assert groups.nbytes <= max(most, largest)
    with pytest.raises(dp.DamagedFileError, match="lead nowhere"):
        groups.take(np.array([len(file)]), np.array([1]), 1, 0)


def test_a_run_keeps_no_more_than_it_may_and_decodes_few_tokens_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {name: numbered(lengths_of(900, seed)) for seed, name in enumerate(("one", "two"))}
    folder = write_shards(tmp_path / "out", {"train": texts}, rows_a_shard=400)
    shards, decoded = dp.TokenShards(folder, cache=False), list[int]()
    run = shards.sampler(**HOW, epochs=1)
    file, read = shards.file, RowGroups._decoded
    assert isinstance(file, RowGroups)
    file.most = 12_000
    assert 4 * len(file) > 4 * file.most
    monkeypatch.setattr(
        RowGroups, "_decoded", lambda self, group: decoded.append(group) or read(self, group)
    )
    for step in range(run.epoch_length // 4):  # each read for itself
        run.batch_at(step)
        assert 0 < file.nbytes <= file.most
    assert np.diff(file._begins)[decoded].sum() < 3 * len(file)


def test_those_that_are_kept_are_taken_before_others_are_decoded(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, decoded = RowGroups(made, ShardManifest.read(made), 1 << 20), list[int]()
    groups.most = int(groups._begins[-1]) * 2  # half of them
    read = RowGroups._decoded
    monkeypatch.setattr(
        RowGroups, "_decoded", lambda self, group: decoded.append(group) or read(self, group)
    )
    begins = groups._begins[:-1]
    for _ in range(3):
        before = set(groups._kept)
        decoded.clear()
        groups.take(begins, np.ones(len(begins), np.int64), 1, 0)
        assert sorted({*decoded, *before}) == list(range(len(begins)))
        assert len(decoded) == len(begins) - len(before)


@pytest.mark.parametrize("at_once", some([7, 64], less=1))
def test_token_arrays_are_read_in_parts(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_AT_ONCE", at_once)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "one.npy", np.arange(3001, dtype="uint16"))
    np.save(tmp_path / "data" / "rows.npy", np.arange(21 * 9, dtype="int64").reshape(21, 9))
    state = tmp_path / "s.duckdb"
    run = dp.TokenShards(tmp_path / "data", cache=False).sampler(**HOW, eos=None, state=state)
    run.save()
    found = rows_of(run, 60)
    assert rows_of(dp.TokenShards(tmp_path / "data").resume(state=state), 60) == found
    assert sorted({t for _, _, ids in found for row in ids for t in row})[-1] == 3000


# ---- where there is no room


def test_without_room_a_run_has_a_local_order_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        fill_disk(patch)
        run = dp.TokenShards(folder).sampler(**HOW)
        found = rows_of(run, 40)
    run.move(0)
    run.save()
    assert {path.name for path in folder.parent.iterdir()} == {"out", "out.state.duckdb"}
    for said in ("MB left. It takes .* MB; give cache=", LOCAL):
        assert len([r for r in caplog.records if _matches(said, r.getMessage())]) == 1
    assert "rows come in a local order" in run.describe()
    with dp.resume(folder) as resumed:  # there is room by now
        assert rows_of(resumed, 40) == found
        assert "rows come in a local order" in resumed.describe()
    assert folder.with_name("out.tokens").exists()
    alone = dp.TokenShards(folder).sampler(**HOW)
    assert "local" not in alone.describe()
    assert rows_of(alone, 40) != found
    with pytest.raises(dp.StateMismatchError, match="local"):
        alone.save()


def _matches(pattern: str, text: str) -> bool:
    import re

    return re.search(pattern, text) is not None


def test_a_run_over_all_rows_goes_on_as_it_was_and_says_that_it_is_slow(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = dp.TokenShards(folder).sampler(**HOW)
    run.save()
    expected = rows_of(run, 40)
    folder.with_name("out.tokens").unlink()
    fill_disk(monkeypatch)
    shards = dp.TokenShards(folder)
    assert isinstance(shards.file, RowGroups)
    shards.file.most = 4_000
    assert rows_of(shards.resume(), 40) == expected
    assert "order over all rows that the run has" in caplog.text
    assert "decoded again and again; give memory_mb=" in caplog.text


def _read_only(*_: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("cache", [None, "elsewhere", "file/below"])
def test_where_nothing_can_be_written_it_reads_all_the_same(
    folder: Path, cache: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    if cache != "file/below":
        monkeypatch.setattr(memmap, "in_turn", _read_only)
    given = None if cache is None else tmp_path / cache
    run = dp.TokenShards(folder, cache=given).sampler(**HOW)
    expected = rows_of(dp.TokenShards(folder, cache=False).sampler(**HOW), 10)
    assert rows_of(run, 10) == expected


def test_ranks_have_to_be_told_to_have_the_same_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = dp.TokenShards(folder, cache=False).sampler(**HOW)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(dp.ShardError, match="give cache=False to all of them"):
            dp.TokenShards(folder).sampler(**HOW, world_size=2)
    halves = [
        dp.TokenShards(folder, cache=False, memory_mb=1 + rank).sampler(
            **{**HOW, "batch_size": 2}, world_size=2, rank=rank
        )
        for rank in (0, 1)
    ]
    for batch in islice(alone, 30):
        parts = [next(half)["row"].tolist() for half in halves]
        assert parts[0] + parts[1] == batch["row"].tolist()
    with pytest.raises(dp.SamplerError, match="memory_mb=0"):
        dp.TokenShards(folder, memory_mb=0)


# ---- damage


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = pytest.mark.parametrize(
    "damage", [_flipped, Path.unlink, lambda path: path.write_bytes(b"")]
)


@DAMAGES
def test_a_shard_that_is_not_as_listed_is_named(folder: Path, damage: Any) -> None:
    damage(folder / SHARD)
    with pytest.raises(dp.DamagedFileError, match=SHARD):
        list(dp.TokenShards(folder, cache=False).sampler(**HOW, epochs=1))


@DAMAGES
def test_a_shard_that_is_damaged_meanwhile_is_named(folder: Path, damage: Any) -> None:
    run = dp.TokenShards(folder, cache=False).sampler(**HOW, epochs=1)
    damage(folder / SHARD)
    with pytest.raises(dp.DamagedFileError, match=SHARD):
        list(run)


@pytest.mark.parametrize("wrong", ["lengths", "sum", "ids"])
def test_a_shard_that_contradicts_itself_is_named(folder: Path, wrong: str) -> None:
    path = folder / SHARD
    table = pq.read_table(path)
    meta, tokens = table["meta"].combine_chunks(), table["tokens"].combine_chunks()
    counts = meta.field("token_count").to_numpy().copy()
    counts[0] += 1
    counts[1] -= wrong == "lengths"
    if wrong == "ids":
        tokens = pa.ListArray.from_arrays(tokens.offsets, pc.subtract(tokens.values, 10_000))
    else:
        fields = [meta.field(0), meta.field(1), pa.array(counts)]
        meta = pa.StructArray.from_arrays(fields, fields=list(meta.type))
    columns = {"text": table["text"], "tokens": tokens, "meta": meta}
    pq.write_table(pa.table(columns), path, row_group_size=20)
    manifest = ShardManifest.read(folder)
    with path.open("rb") as file:
        digest = digest_of(file, path.stat().st_size, "sha256")
    shards = [
        replace(shard, bytes=path.stat().st_size, sha256=digest) if shard.path == SHARD else shard
        for shard in manifest.shards
    ]
    replace(manifest, shards=shards).write(folder)
    with pytest.raises(dp.DamagedFileError, match=SHARD):
        list(dp.TokenShards(folder, cache=False).sampler(**HOW, epochs=1))
