"""A commit that a kill ended in the middle of a block: the file is mended, and nothing else is."""

from __future__ import annotations

import random
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from effort import often
from prebuilt import empty_corpus
from programs import python

import duckplets as dp
from duckplets import doctor
from duckplets.db import sessions, torn
from duckplets.db.files import wal_of

FIRST, BLOCK, PAGE = 3 * 4096, 1 << 18, 4096  # of a DuckDB file
SIZES = [40, 3_000]  # records of a commit; DuckDB by itself leaves the larger one out of the WAL


def rows(count: int) -> dp.MemorySource:
    found = [{"id": str(i), "t": f"text {i} {'x' * 50}"} for i in range(count)]
    return dp.MemorySource(found, text="t", id="id")


def texts(path: Path, **how: Any) -> list[tuple[Any, ...]]:
    with dp.Corpus(path, **how) as corpus:
        return corpus.sql("FROM section_texts ORDER BY ALL").to_pylist()


@pytest.fixture(scope="module", params=SIZES)
def halves(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a file before a commit, the same whose checkpoint lacks its header, WAL and texts."""
    path = tmp_path_factory.mktemp("halves") / "c.duckdb"
    with empty_corpus(path) as corpus:  # parts of metadata that are used, and parts that are free
        corpus.ingest(rows(1), name="before", progress=False)
    before = path.read_bytes()
    corpus = dp.Corpus(path)
    corpus._database._session.connection.execute(
        "SET debug_checkpoint_abort = 'after_free_list_write'"
    )
    with pytest.raises(dp.QueryError, match="checkpoint_abort"):
        corpus.ingest(rows(request.param), name="new", progress=False)
    corpus.close()
    after, wal = path.read_bytes(), wal_of(path).read_bytes()
    expected = texts(path)
    assert len(expected) > request.param
    return before, after, wal, expected


def torn_at(halves: Any, path: Path, cut: int) -> bytes:
    """Put a file there whose block of metadata was written up to a byte; return its bytes."""
    before, after, wal, _ = halves
    path.write_bytes(after[:cut] + before[cut : FIRST + BLOCK] + after[FIRST + BLOCK :])
    wal_of(path).write_bytes(wal)
    return path.read_bytes()


def test_a_block_of_which_a_part_was_written_is_mended(
    halves: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, after, _, expected = halves
    pages = range(FIRST, FIRST + BLOCK, PAGE)  # of the block of metadata
    _, *cuts = [at for at in pages if before[at : at + PAGE] != after[at : at + PAGE]]
    mended = 0
    for cut in random.Random(3).sample(cuts, often(len(cuts), less=3)):
        path = tmp_path / f"{cut}.duckdb"
        torn_at(halves, path, cut)
        caplog.clear()
        assert texts(path, read_only=bool(cut // PAGE % 2)) == expected
        mended += "mended after a kill" in caplog.text
        assert wal_of(path).exists() == bool(cut // PAGE % 2)
        assert texts(path) == expected
        assert not wal_of(path).exists()
    assert mended
    torn_at(halves, path, FIRST + 4 * PAGE)
    assert all(check.ok for check in doctor.corpus(path))


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(FIRST + 5_000)
        bit = file.read(1)[0] ^ 4
        file.seek(FIRST + 5_000)
        file.write(bytes([bit]))


@pytest.mark.parametrize("left", ["no WAL", "no mark", "an old mark"])
def test_what_no_kill_explains_is_damaged(halves: Any, tmp_path: Path, left: str) -> None:
    before, after, wal, _ = halves
    path = tmp_path / "c.duckdb"
    path.write_bytes(before)
    if left == "no mark":
        wal_of(path).write_bytes(wal[: torn._MARK.search(wal).start() - 16])
    elif left == "an old mark":
        path.write_bytes(after)
        wal_of(path).write_bytes(wal)
        with path.open("rb") as file:
            assert torn._begun(wal_of(path)) != torn._header(file)[1]
        known = torn._begun(wal_of(path)).to_bytes(8, "little")
        page = bytearray(path.read_bytes()[PAGE : 2 * PAGE])
        page[8:24] = (1 << 40).to_bytes(8, "little") + known
        page[:8] = torn._checksums(bytes(page))[1].to_bytes(8, "little")
        path.write_bytes(after[:PAGE] + page + after[2 * PAGE :])
    flip(path)
    found = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(dp.DamagedFileError, match=r"c\.duckdb is damaged: .*checksum.* copy"):
            dp.Corpus(path, read_only=read_only)
    [check] = [check for check in doctor.corpus(path) if not check.ok]
    assert "is damaged" in check.what
    assert path.read_bytes() == found


def test_where_nothing_may_be_written_the_message_says_what_to_do(
    halves: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.duckdb"
    found = torn_at(halves, path, FIRST + 4 * PAGE)

    def opened(self: Path, mode: str = "r", *, real: Any = Path.open) -> Any:
        if "+" in mode:
            raise PermissionError
        return real(self, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(dp.DamagedFileError, match="open the file once where it may be written"):
            dp.Corpus(path, read_only=True)
        [check] = doctor.corpus(path)
        assert "Nothing is lost" in check.what
        assert not check.ok
    assert path.read_bytes() == found
    assert texts(path, read_only=True) == halves[-1]


def test_a_file_that_somebody_has_is_left_alone(
    halves: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one of another process nor one of this: looking into it would give up its lock."""
    path = tmp_path / "c.duckdb"
    found = torn_at(halves, path, FIRST + 4 * PAGE)
    lock = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX)"
    with python("-c", f"{lock}; print('has it', flush=True); input()", path, stdin=PIPE) as other:
        assert other.stdout.readline() == "has it\n"
        with pytest.raises(dp.CorpusLockedError):
            dp.Corpus(path)
        assert path.read_bytes() == found
    looked: list[int] = []
    with dp.Corpus(path):
        monkeypatch.setattr(torn, "mend", lambda *_: looked.append(1))
        sessions.mend(path, "c")
        assert not looked
    sessions.mend(path, "c")
    assert looked
