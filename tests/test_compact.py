"""Compacting: what goes, what stays, and that whoever draws from it sees no difference."""

import random
import resource
from dataclasses import replace

import pytest
from effort import often, thorough
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.search.index import index as build_index
from duckplets.testing import toy_records

# What compacting wrote has other bytes, so its pools are read anew.
pytestmark = pytest.mark.usefixtures("pools_once")

MINED = dp.TripletRecipe(
    "mined",
    dp.role("anchor"),
    dp.role("context"),
    dp.role("context"),
    by=dp.Negatives(by="bm25", range_max=4),
)
PLAIN = dp.TripletRecipe("plain", dp.role("anchor"), dp.role("context"), dp.role("context"))
COLUMNS = ["anchor", "positive", "negative", "negative_by", "weight", "anchor_record_id"]


def source(seed, low, high):
    records = toy_records(high, seed=seed)[low:]
    return dp.sources.MemorySource(
        records, anchor="title", positive="body", id="id", date="date", meta=["topic"]
    )


def drawn(sampler):
    """Batches from the beginning of a run, and where it stands."""
    return [sampler.batch_at(step).to_pydict() for step in (0, 1, 7)] + [next(sampler).to_pydict()]


def tables(corpus):
    """Every row of every table, but for what says when the file was made."""
    found = {}
    for name in corpus.sql("SELECT table_name FROM duckdb_tables()")["table_name"].to_pylist():
        if name not in ("schema_migrations", "settings"):
            found[name] = corpus.sql(f'SELECT * FROM "{name}"').to_pylist()
    return found


@pytest.mark.parametrize("seed", range(often(10, less=1)))
def test_runs_and_new_samplers_draw_the_same_after_it(tmp_path, seed):
    draw, path, elsewhere = random.Random(seed), tmp_path / "c.duckdb", tmp_path / "other.duckdb"
    before = {}
    with toy_corpus(path, often(60, less=30), sources=("toy", "gone")) as corpus:
        corpus.add_recipe(replace(MINED, sources=("toy",)))
        corpus.add_recipe(PLAIN)
        build_index(corpus, dp.Terms(stemmer="none"), source="toy", split="train", progress=False)
        for n in (1, 2, 3):
            corpus.mine(source="toy", split="train")
            state = {"options": dp.Options(state=elsewhere)} if n == 1 else {}
            if n != 2:  # whose records and minings nobody needs
                with corpus.sampler(batch_size=4, run=f"r{n}", columns=COLUMNS, **state) as run:
                    next(run)
                    run.save()
                    before[f"r{n}"] = drawn(run)
            low = draw.randrange(10)
            corpus.ingest(source(n + 1, low, low + 20), name="toy", on_conflict="replace")
            if n == 2:
                corpus.remove("gone")
        corpus.mine(source="toy", split="train")
        with corpus.sampler(batch_size=4, seed=5, columns=COLUMNS) as run:
            before["new"] = drawn(run)
        kept = tables(corpus)
        status = corpus.status()
        keys = corpus.database.run("ingest/chunks/next_keys")
        size = path.stat().st_size
        report = corpus.compact(state=elsewhere)
        assert (report.before, report.after) == (size, path.stat().st_size)
        runs = ("r1", "r3")
        assert report.runs == runs
        assert report.freed["records"] > 0 < report.freed["minings"]
        for name, rows in tables(corpus).items():
            if name in kept:
                told = name.removeprefix("stored_")
                assert len(kept[name]) - len(rows) == report.freed.get(told, 0)
                left = iter(kept[name])
                assert all(row in left for row in rows), name  # the same, in the same order
        assert corpus.database.run("ingest/chunks/next_keys") == keys
        for sizes in (status, now := corpus.status()):
            assert sizes.pop("bytes")["corpus"]
        assert now == status
        for name in runs:
            state = {"state": elsewhere} if name == "r1" else {}
            with corpus.resume(name, **state) as run:
                assert drawn(run) == before[name]
        with corpus.sampler(batch_size=4, seed=5, columns=COLUMNS) as run:
            assert drawn(run) == before["new"]
        # Without the other state file what its run needs goes, and it says so.
        assert corpus.compact().freed["records"] > 0
        with pytest.raises(dp.StateMismatchError, match="records"):
            corpus.resume("r1", state=elsewhere)
    assert {file.name for file in tmp_path.iterdir()} == {
        *("c.duckdb", "c.candidates", "c.state.duckdb", "other.duckdb")
    }


def test_nothing_goes_where_nothing_was_removed(tmp_path):
    prefix = "topic, source"
    with toy_corpus(tmp_path / "c.duckdb", 40) as corpus:
        chats = [
            {"messages": [{"role": r, "content": f"{r} {i}"} for r in ("user", "assistant")]}
            for i in range(20)
        ]
        bad = [*chats, {"messages": 5}]
        corpus.ingest(bad, name="talk", converter="openai", on_error="quarantine")
        corpus.set_prefix("toy", prefix)
        corpus.set_index_controls("toy", size=5)
        corpus.add_recipe(MINED)
        corpus.relabel({"anchor": ["a"], "document_id": ["b/1"], "verdict": ["ambiguous"]})
        corpus.chunk(denoise=True)
        build_index(corpus, dp.Terms(stemmer="none"), source="toy", split="test", progress=False)
        corpus.mine(source="toy", split="test")
        corpus.deduplicate(0.2, ngram=1, rows=1, action="mark")
        corpus.decontaminate("talk", ngram=1)
        before = tables(corpus)
        settings = corpus.sql("FROM settings WHERE name <> 'keys' ORDER BY ALL").to_pylist()
        assert {name for name, rows in before.items() if not rows} <= {
            *("unfinished_ingests", "placed_files", "record_prefixes"),
            *("section_originals", "acquisitions", "judgements", "measurings"),
            *("record_hashes", "rejected_rows"),
        }
        assert corpus.compact().freed == {}
        assert tables(corpus) == before
        after = corpus.sql("FROM settings WHERE name <> 'keys' ORDER BY ALL").to_pylist()
        assert after == settings
        build_index(
            corpus, dp.Terms(stemmer="none", stop_words=["a"]), split="test", progress=False
        )
        numbers = corpus.sql("SELECT index_key FROM text_indexes")["index_key"].to_pylist()
        assert not {row["index_key"] for row in before["text_indexes"]} & {*numbers}


PAGE = 60  # two are more than is committed at once


class Pages:
    """A source that stops at its third page, the first time."""

    name = "pages"
    stops = True

    def batches(self, cursor):
        for page in range(cursor or 0, 4):
            if page == 2 and self.stops:
                raise RuntimeError("the net is down")
            yield [{"id": f"{page}-{i}", "text": f"{page} {i}"} for i in range(PAGE)], page + 1


def test_an_unfinished_ingest_goes_on_after_it(tmp_path, monkeypatch):
    monkeypatch.setattr("duckplets.sources.row_batches.MAX_ROWS", 30)
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 100)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    pages = Pages()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        with pytest.raises(dp.SourceError):
            corpus.ingest(pages)
        stored = corpus.unfinished()
        assert stored[0]["rows"] > 0
        assert corpus.compact().freed == {}
        assert corpus.unfinished() == stored
        pages.stops = False
        assert corpus.ingest(pages).added == 4 * PAGE


@thorough
def test_it_is_refused_where_others_have_the_file(tmp_path):
    path = tmp_path / "c.duckdb"
    with toy_corpus(path, 30, sources=("a", "b")) as corpus:
        corpus.remove("b")
        content = path.read_bytes()
        with (
            corpus.sampler(batch_size=4),
            pytest.raises(dp.errors.CorpusLockedError, match="samplers, readers or other Corpus"),
        ):
            corpus.compact()
        with dp.Corpus(path), pytest.raises(dp.errors.CorpusLockedError, match="1 more times"):
            corpus.compact()
        with pytest.raises(dp.StateMismatchError, match="does not exist"):
            corpus.compact(state=[tmp_path / "none.duckdb"])
        assert path.read_bytes() == content
        assert corpus.count() == 30
        corpus.compact()
    with dp.Corpus(path, read_only=True) as corpus:
        with pytest.raises(dp.errors.ReadOnlyError, match="cannot compact"):
            corpus.compact()
        assert corpus.count() == 30


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "c.duckdb"
    texts = [{"id": str(i), "text": random.Random(i).randbytes(400).hex()} for i in range(1_500)]
    with toy_corpus(path, 30) as corpus:
        corpus.ingest(texts, name="big", id="id", text="text")
        corpus.remove("toy")
        content = path.read_bytes()
        path.chmod(0o640)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, limits[1]))
        try:
            with pytest.raises(dp.DuckpletsError):
                corpus.compact()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        assert path.read_bytes() == content
        assert corpus.count() == 1_500
        assert corpus.compact().freed["records"] == 30
        assert path.stat().st_mode & 0o777 == 0o640
        assert corpus.count() == 1_500


KEYS = {
    "records": "record_key",
    "sections": "section_key",
    "chunks": "chunk_key",
    "sources": "source_id",
}


@thorough
def test_keys_are_not_given_out_again(tmp_path):
    with toy_corpus(tmp_path / "c.duckdb", 30, sources=("a", "b")) as corpus:
        corpus.add_recipe(MINED)
        build_index(corpus, dp.Terms(stemmer="none"), source="b", split="test", progress=False)
        corpus.mine(source="b", split="test")
        used = {
            table: set(corpus.sql(f"SELECT {key} FROM {table}")[key].to_pylist())
            for table, key in KEYS.items()
        }
        corpus.remove("b")
        for _ in range(2):  # what the first one noted, the second passes on
            corpus.compact()
        corpus.ingest(source(9, 0, 30), name="c")
        corpus.mine(source="c", split="test")
        for table, key in KEYS.items():
            new = corpus.sql(f"SELECT {key} FROM {table}")[key].to_pylist()
            assert min({*new} - used[table]) > max(used[table]), table
        assert corpus.sql("SELECT count(*) AS n FROM records")["n"][0].as_py() == 60
        assert corpus.version == 4
