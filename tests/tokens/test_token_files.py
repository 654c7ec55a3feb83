"""Token files: complete or absent, made once, and whatever is damaged is found."""

import errno
import random
import shutil
import subprocess
import threading
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from effort import often
from programs import python
from token_shards import EOS, laid_out, lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.base.locks import lock
from duckplets.tokens import memmap
from duckplets.tokens.manifest import ShardManifest
from duckplets.tokens.memmap import TokenFile

TEXTS = {"alpha": numbered(lengths_of(300, 1)), "bravo": numbered(lengths_of(90, 2))}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("tokens") / "out", {"train": TEXTS})


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "out")


def opened(folder, end=EOS):
    return TokenFile.of(folder, ShardManifest.read(folder), end)


def files(folder):
    return {path.name for path in folder.with_name(f"{folder.name}.tokens").iterdir()}


def test_it_has_all_texts_in_their_order_and_is_made_once(folder):
    file = opened(folder)
    expected = [[*texts[n], EOS] for texts in TEXTS.values() for n in laid_out(texts)]
    assert file.tokens.tolist() == list(chain(*expected))
    assert np.diff(file.offsets).tolist() == [len(text) for text in expected]
    assert {path.name for path in folder.parent.iterdir()} == {"out", "out.tokens"}
    size = sum(part.stat().st_size for part in file.path.parent.iterdir())
    assert size < 4 * len(file.tokens) + 8 * len(file.offsets) + 1000
    for end in (None, 7):  # files of their own
        other = opened(folder, end)
        ended = [[*of[:-1], *([end] * (end is not None))] for of in expected]
        assert other.tokens.tolist() == list(chain(*ended))
        assert np.diff(other.offsets).tolist() == [len(text) for text in ended]
    made = file.path.stat().st_mtime_ns
    shutil.rmtree(folder / "train")
    assert opened(folder).path.stat().st_mtime_ns == made
    with dp.TokenShards(folder) as shards:
        assert len(next(shards.sampler(seq_length=8))) == 8
    with pytest.raises(dp.errors.ShardError, match=r"no manifest\.json"):
        dp.TokenShards(folder.parent)


def test_a_file_that_was_cut_off_or_changed_is_found(folder):
    expected = opened(folder).tokens.copy()
    generator = random.Random(3)
    paths = [path for path in folder.with_name("out.tokens").iterdir() if path.name != "lock"]
    for path in sorted(paths):
        whole = path.read_bytes()
        sizes = generator.sample(range(len(whole)), often(60, less=6))
        for size in (0, 1, 8, 23, len(whole) - 1, *sizes):
            path.write_bytes(whole[:size])
            with pytest.raises(dp.errors.DamagedFileError, match="Delete the folder"):
                opened(folder)
        for at in generator.sample(range(len(whole)), often(70, less=8)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
            if not path.name.startswith("tokens"):  # which nobody reads as a whole
                with pytest.raises(dp.errors.DamagedFileError, match="Delete the folder"):
                    opened(folder)
        path.write_bytes(whole)
    assert (opened(folder).tokens == expected).all()
    shutil.rmtree(folder.with_name("out.tokens"))
    assert (opened(folder).tokens == expected).all()


def _flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_where_there_is_no_room_or_a_shard_is_not_as_listed_nothing_is_left(folder, monkeypatch):
    usage = shutil.disk_usage(folder)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
        with pytest.raises(dp.errors.ShardError, match=r"It needs .* MB; give cache="):
            opened(folder)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(memmap, "_fill", full)
        with pytest.raises(dp.errors.ShardError, match="No space left on device"):
            opened(folder)
    for damage in (_flipped, lambda path: path.write_bytes(b""), Path.unlink):
        damage(folder / "train/bravo/b1/shard_b1_s0.parquet")
        with pytest.raises(dp.errors.DamagedFileError, match=r"bravo/b1/shard_b1_s0\.parquet"):
            opened(folder)
        assert files(folder) == {"lock"}


_MAKE = """
import sys
import pyarrow.parquet
from duckplets.tokens.dataset import TokenShards
print("ready", flush=True)
sys.stdin.readline()
print(len(TokenShards(sys.argv[1]).file.tokens), flush=True)
"""


def test_others_wait_for_who_makes_it(folder, caplog):
    found = []
    folder.with_name("out.tokens").mkdir()
    with (folder.with_name("out.tokens") / "lock").open("ab") as held:
        assert lock(held, wait=False)
        waits = threading.Thread(target=lambda: found.append(opened(folder)))
        waits.start()
        until = time.monotonic() + 60
        while "waiting for another process" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
        assert not found
    waits.join(60)
    assert len(found) == 1
    assert "waiting for another process" in caplog.text
    assert len(files(folder)) == 4


def test_killed_at_any_moment_it_is_complete_or_absent(folder):
    expected = opened(folder).tokens.copy()
    generator = random.Random(time.time_ns())
    manifest = folder.with_name("out.tokens") / "manifest.json"
    for _ in range(often(30, less=1)):
        manifest.unlink(missing_ok=True)
        with python("-c", _MAKE, folder, stdin=subprocess.PIPE) as running:
            assert running.stdout.readline() == "ready\n"
            running.stdin.write("\n")
            running.stdin.flush()
            time.sleep(generator.uniform(0, 0.05))  # it takes 0.03 s
            running.kill()
        if manifest.exists():
            assert (opened(folder).tokens == expected).all()
    manifest.unlink(missing_ok=True)
    opened(folder)
    assert len(files(folder)) == 4
