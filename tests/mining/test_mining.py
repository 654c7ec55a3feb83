"""Mining: exactly match_bm25's ranking under the guards, the same however it is done."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from effort import THOROUGH, often, some, thorough
from mining_oracle import BOTH, STRATEGIES, Oracle, mined, odd_corpus, records, sections, source_of

import duckplets as dp
from duckplets.errors import ReadOnlyError, RecipeError, SplitError, StateMismatchError
from duckplets.mining import bm25_scorer, guards, store


def recipe(**options):
    return dp.TripletRecipe("mined", *BOTH, **{"by": "bm25"} | options)


@pytest.mark.parametrize(("seed", "strategy"), some(enumerate(STRATEGIES), less=2))
def test_negatives_are_the_best_legal_documents(tmp_path, strategy, seed, monkeypatch):
    how, allowed = STRATEGIES[strategy]
    monkeypatch.setattr(guards, "_BLOCK_PAIRS", often(700, less=100))  # several blocks
    count, sources = often(110, less=30), often(2, less=1)
    with odd_corpus(tmp_path / "c.duckdb", count, seed, sources=sources) as corpus:
        corpus.mine(recipe(strategy=how), depth=7, split="train")
        everything = sections(corpus)
        compared = 0
        for source in ("odd0", "odd1")[:sources]:
            oracle = Oracle(everything, source, "train", allowed=allowed)
            oracle.anchors = [
                a for a in oracle.anchors if any(oracle.legal(a, d) for d in oracle.documents)
            ]
            compared += oracle.check(corpus, "mined", depth=7)
        assert compared == len(corpus.sql("FROM candidates")) > count


ANCHORS = often(1000, less=8)  # each costs a match_bm25
RECORDS = often(240, less=60)
KNOBS = {"depth": 9}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    with odd_corpus(tmp_path_factory.mktemp("reference") / "c.duckdb", RECORDS, 9) as corpus:
        corpus.mine(recipe(), split="train", **KNOBS)
        return mined(corpus)


@pytest.mark.parametrize(
    ("threads", "block", "shard"),
    some([(2, often(16, less=8), 7), (1, 5, 50), (8, 3000, 1000)], less=1),
)
def test_threads_blocks_shards_and_interruptions_change_nothing(
    tmp_path, reference, threads, block, shard, monkeypatch
):
    if THOROUGH:  # tests of engines mine by processes, too
        monkeypatch.setattr(bm25_scorer, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(guards, "BLOCK_ANCHORS", block)
    monkeypatch.setattr(bm25_scorer, "BLOCK_ANCHORS", block)
    monkeypatch.setattr(store, "_PART_ROWS", 100)  # some blocks make a part
    done = []

    def stop(now, _):
        done.append(now)
        if block < 100 and len(done) in (3, 4, 9):
            raise KeyboardInterrupt

    how = KNOBS | {"split": "train", "shard_documents": shard, "progress": stop}
    with odd_corpus(tmp_path / "c.duckdb", RECORDS, 9, threads=threads) as corpus:
        found = []
        for _ in range(5):
            try:
                found += corpus.mine(recipe(), **how).pairs
            except KeyboardInterrupt:
                assert not list(tmp_path.glob(".c.*.new.duckdb"))
                assert not corpus.sql("FROM candidates").num_rows
        (pair,) = found
        assert mined(corpus) == reference
        assert sum(pair.outcomes.values()) == pair.anchors
        named = corpus.sql("SELECT unnest(files) AS file FROM minings")["file"].to_pylist()
        folder = tmp_path / "c.candidates"
        assert sorted(named) == sorted(path.name for path in folder.glob("part-*"))
        if block < 100:
            assert pair.resumed > 0
            assert len(named) > 2


def test_scope_shard_searches_the_anchors_own_shard(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", often(240, less=100), 9) as corpus:
        corpus.mine(recipe(), split="train", depth=500)
        whole = {row[4:7:2]: row[7] for row in mined(corpus)}
        report = corpus.mine(recipe(), split="train", depth=500, scope="shard", shard_documents=20)
        kept = {row[4:7:2]: row[7] for row in mined(corpus)}
        assert kept.items() < whole.items()
        shards = -(-report.pairs[0].searched // 20)
        assert shards > 4
        assert len(kept) < 2 * len(whole) / shards


def test_the_corpus_is_only_read_and_two_miners_wait_for_each_other(tmp_path, reference):
    path = tmp_path / "c.duckdb"
    odd_corpus(path, RECORDS, 9).close()
    before = path.read_bytes()

    def mine(corpus):
        return corpus.mine(recipe(), split="train", **KNOBS)

    with dp.Corpus(path, read_only=True) as corpus, dp.Corpus(path, read_only=True) as other:
        run = other.sampler(split="validation", epochs=1)
        next(run)
        with ThreadPoolExecutor(2) as pool:
            reports = [*pool.map(mine, (corpus, other))]
        assert sorted(len(report.pairs) for report in reports) == [0, 1]
        assert mined(corpus) == mined(other) == reference
        assert run.forecast().table.num_rows
        with pytest.raises(ReadOnlyError):
            other.search("fox")
        rows = [{"anchor_id": "odd0/none", "negative_id": "odd0/none", "score": 1.0}]
        with pytest.raises(RecipeError, match="1 unknown anchor"):
            other.add_negatives(rows, name=recipe())
    assert path.read_bytes() == before
    with duckdb.connect(str(path), read_only=True) as plain:
        assert plain.execute("SELECT count(*) FROM candidates").fetchall() == [(0,)]
    dp.Corpus(path).close()  # from now on the file tells of them, too
    with duckdb.connect(str(path), read_only=True) as plain:
        plain.execute("SET VARIABLE corpus_folder = $folder", {"folder": f"{tmp_path}/"})
        (count,) = plain.execute("SELECT count(*) FROM candidates").fetchall()[0]
        assert count == len(reference)


def more():
    return source_of([row | {"id": f"new{i}"} for i, row in enumerate(records(40, 101))])


def test_only_what_is_stale_is_mined_again(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", often(120, less=40), 5, sources=2) as corpus:
        corpus.add_recipe(recipe())
        first = corpus.mine(split="train")
        assert {p.source for p in first.pairs} == {"odd0", "odd1"}
        assert corpus.mine(split="train").pairs == ()
        before = mined(corpus)

        def stale():
            rows = corpus.status()["mining"]
            return {row["source"] for row in rows if row["stale"] and row["split"] == "train"}

        corpus.ingest(more(), name="odd1")
        assert stale() == {"odd1"}
        with pytest.raises(StateMismatchError, match=r"source 'odd1', split 'train'.*stale"):
            corpus.sampler(recipes=["mined"])
        assert {p.source for p in corpus.mine(split="train").pairs} == {"odd1"}
        assert {row for row in before if "odd0" in row} <= set(mined(corpus))
        assert not stale()
        oracle = Oracle(sections(corpus), "odd1", "train")
        assert oracle.check(corpus, "mined", depth=100, sample=ANCHORS) > 100


def test_counts_add_up(tmp_path):
    with odd_corpus(tmp_path / "c.duckdb", often(200, less=100), 6) as corpus:
        by = dp.Negatives(by="bm25", range_min=1, range_max=7, relative_margin=0.05, min_score=0.6)
        corpus.add_recipe(recipe(by=by))
        report = corpus.mine(recipe(by=by), split="train", depth=12)
        (pair,) = report.pairs
        rows = corpus.sql("FROM candidates").to_pylist()
        assert pair.candidates == len(rows)
        cut = ("absolute_margin", "relative_margin", "max_score", "min_score", "range", "kept")
        assert sum(pair.counts[name] for name in cut) == len(rows)
        assert pair.counts["kept"] == len(corpus.sql("FROM negatives")) > 0
        assert min(pair.counts[n] for n in ("relative_margin", "min_score", "range")) > 0
        assert sum(pair.outcomes.values()) == pair.anchors
        assert pair.short == pair.anchors - pair.outcomes["full"] > 0
        deep = corpus.mine(recipe(by=by), split="train", depth=2048).pairs[0]
        guarded = ("same record", "same group", "same text", "strategy")
        assert deep.counts["beyond depth"] == 0 < pair.counts["beyond depth"]
        assert [deep.counts[n] for n in guarded] == [pair.counts[n] for n in guarded]
        assert deep.candidates == pair.candidates + pair.counts["beyond depth"]
        assert corpus.mine(recipe(by=by), split="train", depth=12).pairs == (), "deeper is there"


MISTAKES = [
    (TypeError, r"unexpected keyword argument 'topk'", {"topk": 5}),
    (RecipeError, r"no recipe 'nope'", {"recipe": "nope"}),
    (RecipeError, r"no source 'odd9'.*did you mean 'odd0'", {"source": "odd9"}),
    (SplitError, "split='trian'", {"split": "trian"}),
    (RecipeError, r"depth=4096: give an integer from 1 to 2048", {"depth": 4096}),
    (RecipeError, r"by='dens': give 'bm25'", {"by": "dens"}),
]


def test_mistakes_say_what_to_do(tmp_path):
    path = tmp_path / "c.duckdb"
    with odd_corpus(path, 40, 5) as corpus:
        for kind, message, wrong in MISTAKES:
            with pytest.raises(kind, match=message):
                corpus.mine(**{"recipe": recipe()} | wrong)
        with pytest.raises(StateMismatchError, match=r"no negatives have been mined yet; call"):
            corpus.sampler(recipes=[recipe()])
    path.with_name("c.candidates").write_text("a file")
    with (
        dp.Corpus(path, read_only=True) as corpus,
        pytest.raises(dp.errors.QueryError, match=r"mining cannot write to .*c.candidates"),
    ):
        corpus.mine(recipe())
    with dp.Corpus(tmp_path / "d.duckdb") as corpus:
        corpus.ingest(more(), name="odd0")
        with pytest.raises(SplitError, match=r"duckplets split"):
            corpus.mine(recipe())


WORDNET = Path(__file__).parents[3] / "shared" / "corpora" / "wordnet.parquet"


@thorough
@pytest.mark.skipif(not WORDNET.exists(), reason="the WordNet file is not here")
def test_scores_are_match_bm25s_on_wordnet(tmp_path):
    part = pq.read_table(WORDNET).slice(40_000, often(8_000, less=1_000))
    pq.write_table(part, tmp_path / "some.parquet")
    with dp.Corpus(tmp_path / "w.duckdb") as corpus:
        names = {"anchor": "title", "positive": "definition", "id": "id", "group": "hypernym"}
        source = dp.sources.ParquetSource(tmp_path / "some.parquet", **names)
        corpus.ingest(source, name="wordnet")
        corpus.split(0.8, 0.1, 0.1, seed=42)
        corpus.mine(recipe(), split="train")
        oracle = Oracle(sections(corpus), "wordnet", "train")
        assert oracle.check(corpus, "mined", depth=100, sample=ANCHORS) > 3 * ANCHORS
