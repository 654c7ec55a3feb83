"""Where a corpus may lie, what lies beside it, and who has it open."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from effort import some, thorough
from prebuilt import copied
from programs import ran

import duckplets as dp
from duckplets import testing
from duckplets.corpus import doctor

ROWS = [{"id": str(i), "q": f"q {i}", "a": f"a {i}"} for i in range(30)]
SOURCE = dp.MemorySource(ROWS, id="id", anchor="q", positive="a")
NOBODY = 2**22 + 1  # no process has this number: Linux ends before


def toy(path: Path) -> Path:
    copied(path, testing.toy_corpus, 30)
    return path


# ---- names


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (":memory:", "is no path of a file"),
        ("md:x.duckdb", "is no path of a file"),
        ("s3://bucket/x.duckdb", "is no path of a file"),
        ("what?.duckdb", "cuts a path at"),
        ("x" * 245, "name is too long"),
        ("x\udc80.duckdb", "not UTF-8"),
        ("a\0b.duckdb", "leads nowhere"),
        ("missing/x.duckdb", "its folder .*missing does not exist"),
        ("there.duckdb/x.duckdb", "its folder .*there.duckdb does not exist"),
        ("round.duckdb", "leads nowhere"),
        ("pipe.duckdb", "not a DuckDB file"),
        (".", "is a folder"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_path_that_is_none_of_a_corpus(tmp_path, monkeypatch, name, reason, read_only):
    monkeypatch.chdir(tmp_path)
    toy(Path("there.duckdb"))
    Path("round.duckdb").symlink_to("round.duckdb")
    os.mkfifo("pipe.duckdb")
    before = sorted(os.listdir())
    if len(name) == 245 and read_only:
        reason = "does not exist"
    with pytest.raises(dp.MigrationError, match=reason) as told:
        dp.Corpus(name, read_only=read_only)
    assert str(told.value).isprintable()
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    "name", some(['it\'s "é" $x\n.duckdb', "a\nb.duckdb", "x" * 200, "no suffix"], less=1)
)
def test_odd_names_and_links_keep_what_is_stored(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with dp.Corpus(name) as corpus:
        corpus.ingest(SOURCE)
    Path("link.duckdb").symlink_to(tmp_path / name)
    with dp.Corpus(name, read_only=True) as corpus, dp.Corpus("link.duckdb", read_only=True) as o:
        assert corpus.count() == o.count() == len(ROWS)
    with dp.Corpus("link.duckdb") as corpus:
        assert corpus.ingest(SOURCE).skipped == len(ROWS)
    assert Path("link.duckdb").is_symlink()
    assert sorted(os.listdir()) == sorted([name, "link.duckdb"])


# ---- what was committed and is not in the file

KILLED = """
import os, sys, duckplets as dp
corpus = dp.Corpus(sys.argv[1])
corpus.ingest(dp.MemorySource([{"t": f"text {i}"} for i in range(300)], text="t"), name="s")
os.kill(os.getpid(), 9)
"""


@thorough
def test_a_killed_process_leaves_nothing_beside_the_file(tmp_path):
    path = tmp_path / "c.duckdb"
    assert ran(sys.executable, "-c", KILLED, path).returncode == -9
    assert os.listdir(tmp_path) == ["c.duckdb"]
    path.unlink()
    with dp.Corpus(path) as corpus:
        assert corpus.count() == 0


def leave_wal(path: Path) -> Path:
    """Leave what a killed duckdb CLI leaves beside a corpus: a row more, in the WAL only."""
    code = (
        "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); "
        "c.execute(\"INSERT INTO _internal.settings VALUES ('left', '1')\"); os._exit(9)"
    )
    assert ran(sys.executable, "-c", code, path).returncode == 9
    wal = path.with_name(f"{path.name}.wal")
    assert wal.stat().st_size
    return wal


def test_no_file_is_made_where_a_wal_lies(tmp_path):
    path = tmp_path / "c.duckdb"
    wal = tmp_path / "c.duckdb.wal"
    wal.write_bytes(b"what was committed")
    with pytest.raises(dp.MigrationError, match=r"c\.duckdb\.wal is: .* delete this one too"):
        dp.Corpus(path)
    wal.unlink()
    with testing.toy_corpus(path, 30) as corpus, corpus.sampler(batch_size=4) as sampler:
        (tmp_path / "c.state.duckdb.wal").write_bytes(b"what was saved")
        with pytest.raises(dp.DuckpletsError, match=r"c\.state\.duckdb\.wal is: "):
            sampler.save()
        (tmp_path / "c.state.duckdb.wal").unlink()
        assert sampler.save().exists()


@pytest.mark.parametrize("read_only", some([False, True], less=1))
def test_a_wal_of_another_file_is_not_read(tmp_path, read_only):
    one, other = toy(tmp_path / "one.duckdb"), tmp_path / "other.duckdb"
    with dp.Corpus(other) as corpus:
        corpus.ingest(SOURCE)
    wal = leave_wal(other)
    shutil.move(wal, tmp_path / "one.duckdb.wal")
    before = one.read_bytes()
    with pytest.raises(dp.MigrationError, match=r"one\.duckdb\.wal is of another file"):
        dp.Corpus(one, read_only=read_only)
    assert [check.ok for check in doctor.corpus(one)] == [False]
    assert one.read_bytes() == before
    (tmp_path / "one.duckdb.wal").unlink()
    with dp.Corpus(one) as corpus:
        assert corpus.count() == 30


def test_a_wal_of_its_own_comes_into_the_file(tmp_path):
    path = toy(tmp_path / "c.duckdb")
    wal = leave_wal(path)
    assert any("c.duckdb.wal" in check.what for check in doctor.corpus(path))
    for read_only in (True, False, True):
        with dp.Corpus(path, read_only=read_only) as corpus:
            assert corpus.sql("FROM _internal.settings WHERE name = 'left'").num_rows == 1
    assert not wal.exists()


# ---- what dead processes left


def test_the_next_opening_for_writing_sweeps(tmp_path):
    path = toy(tmp_path / "c.duckdb")
    alive, name = os.getppid(), "c.duckdb"
    new = [f".{stem}.{NOBODY}-12.new.duckdb" for stem in ("c", "c.state")]
    swept = [f"{name}.{NOBODY}.tmp", *new, *(f"{left}.wal" for left in new)]
    kept = [
        f"{name}.{alive}.tmp",
        f".c.{alive}-12.new.duckdb",
        f".c.state.{alive}-12.new.duckdb",
        f".d.state.{NOBODY}-12.new.duckdb",
        f"{name}.tmp",
        f"x{name}.{NOBODY}.tmp",
    ]
    for left in (*swept, *kept):
        (tmp_path / left).mkdir() if left.endswith("tmp") else (tmp_path / left).touch()
    (tmp_path / swept[0] / "spilled").touch()
    dp.Corpus(path, read_only=True).close()
    assert len(os.listdir(tmp_path)) == 1 + len(swept) + len(kept)
    dp.Corpus(path).close()
    assert sorted(os.listdir(tmp_path)) == sorted([name, *kept])


# ---- who has it open


@pytest.mark.parametrize(
    ("first", "second", "works"),
    [
        ({}, {}, True),
        ({}, {"read_only": True}, False),
        ({}, {"memory_limit": "200MB"}, False),
        ({"read_only": True}, {"read_only": True}, True),
        ({"read_only": True}, {"read_only": True, "memory_limit": "200MB"}, True),
        ({"read_only": True}, {}, False),
    ],
)
def test_one_process_opens_a_file_twice(tmp_path, first, second, works):
    path = toy(tmp_path / "c.duckdb")
    with dp.Corpus(path, **first) as corpus:  # type: ignore[arg-type]
        if works:
            with dp.Corpus(path, **second) as other:  # type: ignore[arg-type]
                assert other.count() == corpus.count() == 30
        else:
            with pytest.raises(dp.CorpusLockedError, match="is open in this process"):
                dp.Corpus(path, **second)  # type: ignore[arg-type]
    with dp.Corpus(path, **second) as other:  # type: ignore[arg-type]
        assert other.count() == 30
