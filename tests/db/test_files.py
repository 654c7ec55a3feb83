"""Where a corpus may lie, what lies beside it, and who has it open."""

import os
import shutil
import sys
from itertools import product
from pathlib import Path

import pytest
from effort import some, thorough
from prebuilt import copied
from programs import ran

import duckplets as dp
from duckplets import testing
from duckplets.corpus import doctor

ROWS = [{"id": str(i), "q": f"q {i}", "a": f"a {i}"} for i in range(30)]
SOURCE = dp.sources.MemorySource(ROWS, id="id", anchor="q", positive="a")
NOBODY = 2**22 + 1  # no process has this number: Linux ends before


def toy(path):
    copied(path, testing.toy_corpus, 30)
    return path


# ---- names


NOWHERE = {
    ":memory:": "is no path of a file",
    "md:x.duckdb": "is no path of a file",
    "s3://bucket/x.duckdb": "is no path of a file",
    "what?.duckdb": "cuts a path at",
    "x" * 245: "name is too long",
    "x\udc80.duckdb": "not UTF-8",
    "a\0b.duckdb": "leads nowhere",
    "missing/x.duckdb": "its folder .*missing does not exist",
    "there.duckdb/x.duckdb": "its folder .*there.duckdb does not exist",
    "round.duckdb": "leads nowhere",
    "pipe.duckdb": "not a DuckDB file",
    ".": "is a folder",
}


def test_a_path_that_is_none_of_a_corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toy(Path("there.duckdb"))
    Path("round.duckdb").symlink_to("round.duckdb")
    os.mkfifo("pipe.duckdb")
    before = sorted(os.listdir())
    for (name, reason), read_only in product(NOWHERE.items(), (False, True)):
        if len(name) == 245 and read_only:
            reason = "does not exist"
        with pytest.raises(dp.errors.MigrationError, match=reason) as told:
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


@thorough
def test_a_killed_process_leaves_nothing_beside_the_file(tmp_path):
    code = (
        "import os, sys, duckplets as dp; c = dp.Corpus(sys.argv[1]); rows = [{'t': 'x'}] * 300; "
        "c.ingest(dp.sources.MemorySource(rows, text='t'), name='s'); os.kill(os.getpid(), 9)"
    )
    assert ran(sys.executable, "-c", code, tmp_path / "c.duckdb").returncode == -9
    assert os.listdir(tmp_path) == ["c.duckdb"]


def leave_wal(path):
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
    with pytest.raises(
        dp.errors.MigrationError, match=r"c\.duckdb\.wal exists.* delete the \.wal too"
    ):
        dp.Corpus(path)
    wal.unlink()
    with dp.Corpus(toy(path)) as corpus, corpus.sampler(batch_size=4) as sampler:
        (tmp_path / "c.state.duckdb.wal").write_bytes(b"what was saved")
        with pytest.raises(dp.DuckpletsError, match=r"c\.state\.duckdb\.wal exists, with"):
            sampler.save()
        (tmp_path / "c.state.duckdb.wal").unlink()
        assert sampler.save().exists()


def test_a_wal_comes_into_its_own_file_and_is_not_read_beside_another(tmp_path):
    one, own = toy(tmp_path / "one.duckdb"), tmp_path / "own.duckdb"
    with dp.Corpus(own) as corpus:
        corpus.ingest(SOURCE)
    wal = leave_wal(own)
    beside = Path(shutil.copy(wal, tmp_path / "one.duckdb.wal"))
    before = one.read_bytes()
    for read_only in (True, False):
        with pytest.raises(dp.errors.MigrationError, match=r"one\.duckdb\.wal is of another file"):
            dp.Corpus(one, read_only=read_only)
    assert [check.ok for check in doctor.corpus(one)] == [False]
    assert one.read_bytes() == before
    beside.unlink()
    with dp.Corpus(one) as corpus:
        assert corpus.count() == 30
    assert any("own.duckdb.wal" in check.what for check in doctor.corpus(own))
    for read_only in (True, False, True):
        with dp.Corpus(own, read_only=read_only) as corpus:
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


def test_one_process_opens_a_file_twice(tmp_path):
    path = toy(tmp_path / "c.duckdb")
    reading, less = {"read_only": True}, {"memory_limit": "200MB"}
    cases = [
        ({}, {}, True),
        ({}, reading, False),
        ({}, less, False),
        (reading, reading, True),
        (reading, reading | less, True),
        (reading, {}, False),
    ]
    for first, second, works in cases:
        with dp.Corpus(path, **first) as corpus:
            if works:
                with dp.Corpus(path, **second) as other:
                    assert other.count() == corpus.count() == 30
            else:
                with pytest.raises(dp.errors.CorpusLockedError, match="is open in this process"):
                    dp.Corpus(path, **second)
        with dp.Corpus(path, **second) as other:
            assert other.count() == 30


def test_ctrl_c_while_a_file_is_opened_is_ctrl_c(tmp_path, monkeypatch):
    def interrupted(*_):
        raise RuntimeError("Query interrupted")  # as DuckDB has it

    monkeypatch.setattr("duckplets.db.external_files.seal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dp.Corpus(tmp_path / "c.duckdb")


@thorough
def test_a_batch_of_more_than_two_gigabytes_of_text_is_a_typed_error(tmp_path):
    large = "SELECT repeat('x', 1_100_000) AS text FROM range(2048)"
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        with pytest.raises(dp.errors.QueryError, match="maximum total string size"):
            next(corpus.database.stream(large, rows=2048))
        assert next(corpus.database.stream(large, rows=100)).num_rows == 100
