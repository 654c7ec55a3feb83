"""Folders of token arrays: every token once in packed rows, and what is no such folder is named."""

from __future__ import annotations

import random
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import often

import duckplets as dp
from duckplets.tokens import arrays

PACKED: dict[str, Any] = {"pack": True, "eos": None}


def tokens(size: int, kind: str) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 250, size).astype(kind)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sources: one in several files and types, one with a text a row."""
    (tmp_path / "data" / "web").mkdir(parents=True)
    (tmp_path / "data" / "code").mkdir()
    for number, kind in enumerate(("uint16", "<i4", ">i8", "uint8")):
        np.save(tmp_path / "data" / "web" / f"part{number}.npy", tokens(301 + number, kind))
    np.save(tmp_path / "data" / "code" / "rows.npy", tokens(21 * 9, "uint64").reshape(21, 9))
    return tmp_path / "data"


@pytest.mark.parametrize("at_once", [7, 9, 64, 1 << 20])
def test_an_epoch_has_every_token_once_in_order(
    folder: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_AT_ONCE", at_once)
    with dp.TokenShards(folder) as shards:
        shards.file.check()
        assert shards.sources() == ["code", "web"]
        for source in shards.sources():
            files = sorted((folder / source).iterdir())
            laid = np.concatenate([np.load(file).reshape(-1) for file in files]).astype(int)
            rows: dict[int, list[int]] = {}
            begins: set[int] = set()
            width = 16
            how = {
                **PACKED,
                "mixture": {"code": 0, "web": 0, source: 1},
                "seq_length": width,
                "epochs": 1,
            }
            for batch in shards.sampler(**how):
                for number, ids, mask, positions in zip(
                    batch["row"].tolist(),
                    batch["input_ids"],
                    batch["attention_mask"],
                    batch["position_ids"],
                    strict=True,
                ):
                    rows[number] = ids[mask == 1].tolist()
                    assert not ids[mask == 0].any()
                    at = np.flatnonzero((positions == 0) & (mask == 1)) + number * width
                    begins |= set(at.tolist())
            assert list(chain(*(rows[n] for n in range(len(rows))))) == laid.tolist()
            sizes = [[9] * 21 if source == "code" else np.load(f).size for f in files]
            starts = np.cumsum(np.concatenate([[0], *map(np.atleast_1d, sizes)]))[:-1]
            assert begins == {*starts.tolist(), *range(0, len(laid), width)}


def test_a_folder_of_files_is_one_source_and_runs_are_those_of_shards(folder: Path) -> None:
    how = {**PACKED, "seq_length": 8, "batch_size": 4}
    with dp.TokenShards(folder / "web") as shards:
        assert shards.sources() == ["web"]
        assert "4 texts, 1,210 tokens" in repr(shards)
        whole = shards.sampler(**how, steps=10)
        batches = [batch["row"].tolist() for batch in whole]
        with shards.sampler(**how, steps=10) as sampler:
            for _ in range(4):
                next(sampler)
            sampler.save()
        assert set(whole.served(0, 4)["record_ids"].to_pylist()[0]) <= {
            f"part{number}.npy" for number in range(4)
        }
    with dp.resume(folder / "web") as resumed:
        assert [batch["row"].tolist() for batch in resumed] == batches[4:]
    np.save(folder / "web" / "part0.npy", tokens(300, "uint16"))
    with pytest.raises(dp.StateMismatchError):
        dp.resume(folder / "web")


def test_texts_of_rows_are_named_by_their_number(folder: Path) -> None:
    with dp.TokenShards(folder) as shards:
        run = shards.sampler(
            **PACKED, mixture={"code": 1, "web": 0}, seq_length=18, epochs=1, batch_size=1
        )
        rows = [batch["row"].tolist()[0] for batch in run]
        named = run.served(0, len(rows))["record_ids"].to_pylist()
    for row, names in zip(rows, named, strict=True):
        expected = [f"code/rows.npy#{n}" for n in (2 * row, 2 * row + 1) if n < 21]
        assert names == expected


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "give pack=True, eos=None"),
        ({"pack": True}, "eos='</s>': token arrays do not say where texts end"),
        ({**PACKED, "by_bucket": True}, "by_bucket=True: token arrays do not say"),
    ],
)
def test_rows_that_arrays_do_not_tell_are_refused(
    folder: Path, how: dict[str, Any], told: str
) -> None:
    with dp.TokenShards(folder) as shards, pytest.raises(dp.SamplerError, match=told):
        shards.sampler(**how)


WRONG: list[tuple[str, Any, str]] = [
    ("float", np.ones(3), "float64 of shape"),
    ("bool", np.ones(3, bool), "token arrays are of integers"),
    ("text", np.array(["a"]), "token arrays are of integers"),
    ("scalar", np.array(3), r"of shape \(\)"),
    ("cube", np.ones((2, 2, 2), int), "in one dimension, or in two"),
    ("empty", np.zeros(0, int), "has no tokens; remove it"),
    ("columns", np.asfortranarray(np.ones((3, 2), int)), "np.ascontiguousarray"),
]


@pytest.mark.parametrize(("name", "array", "told"), WRONG, ids=[case[0] for case in WRONG])
def test_other_arrays_are_refused_by_name(tmp_path: Path, name: str, array: Any, told: str) -> None:
    np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(dp.ShardError, match=rf"{name}\.npy has .*{told}|{told}"):
        dp.TokenShards(tmp_path)


@pytest.mark.parametrize(
    ("kind", "wrong", "at"), [("int32", -1, 0), ("uint32", 1 << 31, 70), ("int64", 1 << 40, 99)]
)
def test_numbers_that_are_no_ids_are_told_with_their_place(
    tmp_path: Path, kind: str, wrong: int, at: int
) -> None:
    ids = np.arange(100).astype(kind)
    ids[at] = wrong
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", ids)
    with pytest.raises(dp.ShardError, match=rf"a\.npy has {wrong} at place {at}, which is no tok"):
        _ = dp.TokenShards(tmp_path / "in").file
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


class _Opened:
    """What unpickling calls."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("loaded"),))


def test_what_is_pickled_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "a.npy", np.array([_Opened()], object), allow_pickle=True)
    with pytest.raises(dp.DamagedFileError, match=r"a\.npy is no \.npy file of numbers"):
        dp.TokenShards(tmp_path)
    assert not Path("loaded").exists()


def test_files_that_are_not_whole_are_found(tmp_path: Path) -> None:
    path, generator = tmp_path / "a.npy", random.Random(4)
    np.save(path, np.arange(50))
    whole = path.read_bytes()
    for size in (0, 5, 9, 40, 127, 128, len(whole) - 1, *generator.sample(range(len(whole)), 5)):
        path.write_bytes(whole[:size])
        with pytest.raises((dp.DamagedFileError, dp.ShardError), match=r"a\.npy"):
            dp.TokenShards(tmp_path)
    path.write_bytes(whole + whole)
    with pytest.raises(dp.DamagedFileError, match="goes on after the array"):
        dp.TokenShards(tmp_path)
    for _ in range(often(2000, less=60)):
        at = generator.randrange(128)
        path.write_bytes(whole[:at] + bytes([generator.randrange(256)]) + whole[at + 1 :])
        try:
            assert dp.TokenShards(tmp_path).manifest.shards[0].records > 0
        except (dp.DamagedFileError, dp.ShardError):
            continue


def test_files_that_say_too_little_are_refused_by_name(folder: Path) -> None:
    (folder / "web" / "old.bin").write_bytes(bytes(8))
    with pytest.raises(dp.ShardError, match=r"web/old\.bin.*not say of what type its numbers are"):
        dp.TokenShards(folder)
    (folder / "web" / "old.bin").unlink()
    for number, name in zip(count(), ("top.npy", "web/odd\n.npy"), strict=False):
        np.save(folder / name, np.arange(3))
        told = "which is of none; move it" if not number else "no plain text; rename it"
        with pytest.raises(dp.ShardError, match=told):
            dp.TokenShards(folder)
        (folder / name).unlink()


def test_an_array_that_changes_while_its_folder_is_open_is_found(folder: Path) -> None:
    with dp.TokenShards(folder) as shards:
        np.save(folder / "web" / "part0.npy", tokens(5, "uint16"))
        with pytest.raises(dp.DamagedFileError, match="has changed since the folder was opened"):
            _ = shards.file
