"""Damaged files: DuckDB may die of them, and no process of ours does."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from effort import often, some
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.db import probe
from duckplets.runs import state

HEADERS, BLOCK = 3 * 4096, 1 << 18  # of a DuckDB file
KINDS = ["swap", "swap", "swap", "flip", "cut", "zero"]


def read(path: Path) -> str:
    """Return what became of reading a state file; this very process dies if it may."""
    try:
        state.cursors(path)
        state.load(path, "default", "t1")
    except dp.DuckpletsError as error:
        return f"{type(error).__name__} {error}"
    return "read"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    with toy_corpus(folder / "c.duckdb", 20) as corpus:
        sampler = corpus.sampler(batch_size=4, prefetch=0)
        for step in range(2):
            next(sampler)
            sampler.save(tag=f"t{step}")
        return sampler.save()


@pytest.fixture
def path(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(saved, tmp_path))


def damaged(data: bytes, draw: random.Random, kind: str) -> bytes:
    made, count = bytearray(data), (len(data) - HEADERS) // BLOCK
    if kind == "swap":  # one valid block in the place of another
        one, other = (HEADERS + BLOCK * n for n in draw.sample(range(count), 2))
        made[other : other + BLOCK] = data[one : one + BLOCK]
    elif kind == "flip":
        for _ in range(draw.randint(1, 5)):
            made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
    elif kind == "cut":
        del made[draw.randrange(len(made)) :]
    else:
        at = draw.randrange(len(made) - 4096)
        made[at : at + 4096] = bytes(4096)
    return bytes(made)


@pytest.mark.parametrize("first", some(range(0, 300, 30), less=1))
def test_no_damaged_state_file_ends_a_process(path: Path, tmp_path: Path, first: int) -> None:
    data, told = path.read_bytes(), []
    for i in range(first, first + often(30, less=1)):
        file = tmp_path / f"{i}.state.duckdb"
        file.write_bytes(damaged(data, random.Random(i), KINDS[i % len(KINDS)]))
        told.append(read(file))
    errors = {"MigrationError", "DamagedFileError", "QueryError"}
    assert {line.split()[0] for line in told} <= {"read", *errors}
    assert all("is damaged" in line for line in told if "DuckDB dies of reading it" in line)


def test_a_file_is_read_once_by_another_process(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    run = probe.subprocess.run
    monkeypatch.setattr(probe.subprocess, "run", lambda *a, **k: started.append(1) or run(*a, **k))
    for _ in range(2):
        assert len(state.cursors(path)) == 3
    assert len(started) == 1
    state.reset(path, "default")
    state.cursors(path)
    assert len(started) == 1


PROGRAMS = {
    "import os; os.abort()": r"is damaged: DuckDB dies of reading it \(SIGABRT\)",
    "import os; os._exit(77)": r"dies of reading it \(exit code 77\)",
    "print('a block\\nis odd'); raise SystemExit(1)": "is damaged: a block",
    "import time; time.sleep(60)": "did not end within 0.3 seconds",
}


@pytest.mark.parametrize("code", PROGRAMS)
def test_how_a_file_kills_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    program = tmp_path / "dies.py"
    program.write_text(code)
    path = tmp_path / "c.state.duckdb"
    path.write_bytes(b"12345678DUCK")
    monkeypatch.setattr(probe, "__file__", str(program))
    monkeypatch.setattr(state, "_PATIENCE", 0.3 if "sleep" in code else 60)
    with pytest.raises(dp.MigrationError, match=PROGRAMS[code]):
        state.cursors(path)
    if "odd" in code:
        (check,) = doctor.corpus(path)
        assert not check.ok
        assert "is damaged: a block" in check.what


def test_what_cannot_be_started_is_no_damage(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for executable in ("", str(tmp_path / "none")):
        monkeypatch.setattr(probe.sys, "executable", executable)
        probe._whole.clear()
        assert state.cursors(path)
    (tmp_path / "x.duckdb").write_bytes(b"12345678DUCK" + bytes(10_000))
    with pytest.raises(dp.DuckpletsError):
        state.cursors(tmp_path / "x.duckdb")
