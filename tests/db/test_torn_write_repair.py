"""A commit that a kill ended in the middle of a block: the file is mended, and nothing else is."""

import random
from subprocess import PIPE
from typing import Any, NamedTuple

import duckdb
import pytest
from effort import often, some
from programs import python

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.db import migrate, sessions, torn_write_repair
from duckplets.db.database import Database
from duckplets.db.files import wal_of

PAGE = 4096
# Records of a commit, and bytes of a block. DuckDB itself leaves the larger one out of the WAL.
KINDS = [(40, 1 << 18), (3_000, 1 << 14)]


class Commit(NamedTuple):
    """A file before a commit and without its last write, the header; the WAL; what is stored."""

    before: bytes
    after: bytes
    wal: bytes
    stored: list[Any]
    cuts: list[int]  # ends of pages in blocks of metadata with something new before and after them
    ends: list[int]  # of the blocks that these lie in

    def ended_at(self, n, path):
        """Put the file there as a kill at one of the cuts leaves it, and return its bytes."""
        cut, end = self.cuts[n], self.ends[n]
        path.write_bytes(self.after[:cut] + self.before[cut:end] + self.after[end:])
        wal_of(path).write_bytes(self.wal)
        return path.read_bytes()


def rows(count):
    found = [{"id": str(i), "t": f"text {i} {'x' * 50}"} for i in range(count)]
    return dp.sources.MemorySource(found, text="t", id="id")


def stored(path, **how):
    with dp.Corpus(path, **how) as corpus:
        return corpus.sql("SELECT * FROM section_texts ORDER BY ALL").to_pylist()


@pytest.fixture(scope="module", params=KINDS)
def commit(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("commit") / "c.duckdb"
    records, size = request.param
    with duckdb.connect(config={"default_block_size": str(size)}) as connection:
        storage = sessions._WRITTEN["storage_compatibility_version"]
        connection.execute(f"ATTACH '{path}' AS file (STORAGE_VERSION '{storage}')")
    database = Database.open(path)
    migrate.migrate(database, "corpus")
    database.close()
    with dp.Corpus(path) as corpus:
        corpus.ingest(rows(1), name="before")
    before = path.read_bytes()
    corpus = dp.Corpus(path)
    corpus.database._session.connection.execute(
        "SET debug_checkpoint_abort = 'after_free_list_write'"
    )
    with pytest.raises(dp.errors.QueryError, match="checkpoint_abort"):
        corpus.ingest(rows(records), name="new")
    corpus.close()
    after, wal = path.read_bytes(), wal_of(path).read_bytes()
    with path.open("rb") as file:
        _, catalog, free, blocks, of_a_block = torn_write_repair._header(file)
        assert of_a_block == size
        places = [
            3 * PAGE + n * size for n in torn_write_repair._metadata(file, free, blocks, size)
        ]
    assert torn_write_repair._begun(wal_of(path)) not in (None, catalog)
    cuts, ends = [], []
    for place in places:
        pages = range(place, place + size, PAGE)
        new = [at for at in pages if before[at : at + PAGE] != after[at : at + PAGE]]
        cuts += new[1:]
        ends += [place + size] * len(new[1:])
    found = stored(path)
    assert {row["source"] for row in found} == {"before", "new"}
    assert len(found) == records + 1
    return Commit(before, after, wal, found, cuts, ends)


def test_a_block_of_which_a_part_was_written_is_mended(commit, tmp_path, caplog):
    for n in random.Random(3).sample(range(len(commit.cuts)), often(len(commit.cuts), less=1)):
        path = tmp_path / f"{n}.duckdb"
        commit.ended_at(n, path)
        caplog.clear()
        assert stored(path, read_only=bool(n % 2)) == commit.stored
        assert caplog.text.count("mended after a kill") == 1
        assert stored(path) == commit.stored
        assert not wal_of(path).exists()
    commit.ended_at(0, path)
    assert all(check.ok for check in doctor.corpus(path))


@pytest.mark.parametrize(
    "left", some(["no WAL", "no mark", "a mark that the header knows"], less=2)
)
def test_what_no_kill_explains_is_damaged(commit, tmp_path, left):
    path = tmp_path / "c.duckdb"
    commit.ended_at(0, path)
    mark = torn_write_repair._MARK.search(commit.wal)
    assert mark
    if left == "no WAL":
        wal_of(path).unlink()
    elif left == "no mark":
        wal_of(path).write_bytes(commit.wal[: mark.start() - 16])
    else:
        page = bytearray(commit.after[PAGE : 2 * PAGE])
        page[8:24] = b"".join(
            n.to_bytes(8, "little") for n in (1 << 40, torn_write_repair._begun(wal_of(path)))
        )
        page[:8] = torn_write_repair._checksums(bytes(page))[1].to_bytes(8, "little")
        with path.open("r+b") as file:
            file.seek(PAGE)
            file.write(page)
    found = path.read_bytes()
    # DuckDB finds a wrong checksum, or a chain of metadata that ends too early: by its version.
    why = (
        r"c\.duckdb is damaged: .*(checksum|MetadataReader|metadata pointer|transient block).* copy"
    )
    for read_only in (True, False):
        with pytest.raises(dp.errors.DamagedFileError, match=why):
            dp.Corpus(path, read_only=read_only)
    [check] = [check for check in doctor.corpus(path) if not check.ok]
    assert "is damaged" in check.what
    assert path.read_bytes() == found


def test_a_file_that_somebody_has_is_left_alone(commit, tmp_path, monkeypatch):
    """Neither one of another process nor one of this: looking into it would give up its lock."""
    path = tmp_path / "c.duckdb"
    found = commit.ended_at(0, path)
    lock = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX)"
    with python("-c", f"{lock}; print('has it', flush=True); input()", path, stdin=PIPE) as other:
        assert other.stdout.readline() == "has it\n"
        with pytest.raises(dp.errors.CorpusLockedError):
            dp.Corpus(path)
        assert path.read_bytes() == found
    looked = []
    with dp.Corpus(path, read_only=True):
        monkeypatch.setattr(torn_write_repair, "mend", lambda *_: looked.append(1))
        dp.Corpus(path, read_only=True).close()
        assert not looked
    dp.Corpus(path, read_only=True).close()
    assert looked
