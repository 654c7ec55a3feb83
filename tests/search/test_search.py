"""Search: scores and order, scopes, snippets, the command line, and plain SQL without Python."""

import json
import math
import random
import re
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from commands import error, ok
from effort import often, some, thorough
from peers import ODD_WORDS, odd_texts, peer
from programs import ran, said

import duckplets as dp
from duckplets.errors import QueryError, RecipeError, SamplerError, SplitError
from duckplets.search import index
from duckplets.search.analyzer import Vocabulary
from duckplets.search.analyzer_settings import Terms
from duckplets.search.index import index as build_index
from duckplets.search.search import search

COLUMNS = ["record_id", "score", "text", "source", "split", "section", "role", "snippet"]


def ingest(corpus, texts, name):
    rows = [
        {"id": f"{i}", "title": f"title {i % 7}", "body": text}
        for i, text in enumerate(texts)
        if text.strip()
    ]
    corpus.ingest(rows, name=name, id="id", anchor="title", positive="body")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Two sources, two splits, odd texts, many of them repeated."""
    path = tmp_path_factory.mktemp("search") / "c.duckdb"
    with dp.Corpus(path) as corpus:
        for seed, name in enumerate(("left", "right")):
            ingest(corpus, [*odd_texts(often(100, less=40), seed), "title 3", "title 4"], name)
        corpus.split(0.7, 0.3, 0)
        index.refresh(corpus.database)
    return path


@pytest.fixture(scope="module")
def corpus(path):
    return dp.Corpus(path, read_only=True)


@pytest.fixture
def copy(path, tmp_path):
    shutil.copy(path, tmp_path / "c.duckdb")
    return dp.Corpus(tmp_path / "c.duckdb")


def sections(corpus, **scope):
    """Texts in a scope by record id and position."""
    where = " AND ".join(["TRUE", *(f"{name} = '{value}'" for name, value in scope.items())])
    rows = corpus.sql(f"SELECT record_id, position, text FROM section_texts WHERE {where}")
    return {(row["record_id"], row["position"]): row["text"] for row in rows.to_pylist()}


@pytest.mark.parametrize(
    "scope",
    some(
        [{}, {"source": "left"}, {"split": "train"}, {"source": "right", "split": "validation"}],
        less=2,
    ),
)
def test_scores_are_those_of_match_bm25_and_equals_come_by_id(corpus, scope):
    texts = sections(corpus, **scope)
    reference = peer(dict(enumerate(texts.values())), Terms())
    keys = list(texts)
    draw = random.Random(0)
    for _ in range(often(12, less=2)):
        asked = " ".join(draw.choices(ODD_WORDS, k=draw.choice([1, 3, 8]))) + " title title"
        expected = {keys[i]: score for i, score in reference.scores(asked).items()}
        found = search(corpus.database, asked, len(texts), **scope).to_pylist()
        got = {(row["record_id"], row["section"]): row["score"] for row in found}
        assert got.keys() == expected.keys()
        assert all(math.isclose(got[key], expected[key], rel_tol=1e-9) for key in got)
        order = [(-row["score"], row["record_id"], row["section"]) for row in found]
        assert order == sorted(order)
        assert all(row["text"] == texts[row["record_id"], row["section"]] for row in found)


@thorough
def test_threads_change_no_bit(path, corpus):
    asked = "fox running title the 42 日本語"
    expected = search(corpus.database, asked, 1000)["score"].to_pylist()
    for threads in (1, 8):
        # A read-only file can be open twice in a process only with the same settings.
        code = (
            "import sys; from pathlib import Path\n"
            "from duckplets.db.database import Database\n"
            "from duckplets.search.search import search\n"
            f"database = Database.open(Path({str(path)!r}), read_only=True, threads={threads})\n"
            f"found = search(database, {asked!r}, 1000)['score'].to_pylist()\n"
            "print(' '.join(score.hex() for score in found))"
        )
        assert said("-c", code).split() == [score.hex() for score in expected]


def test_any_text_may_be_searched(corpus):
    words = ["", " \n", '"(', "🦊", "...", "unheardof", "\\", "$k", "%", "\0"]
    for asked in ["'; DROP TABLE records; --", *words]:
        found = search(corpus.database, asked)
        assert found.column_names == COLUMNS
        assert found.num_rows == 0, asked


def test_indexes_of_the_scope_are_built_first(copy):
    database = copy.database
    ingest(copy, ["a fresh fox", "another fresh fox", "fresh"] * 5, "third")
    unfit = index.stale(database)
    assert {pair[0] for pair in unfit} == {"third"}
    copy.close()
    with dp.Corpus(copy.path, read_only=True) as opened:
        with pytest.raises(QueryError, match=rf"'third'.*duckplets search {copy.path}"):
            search(opened.database, "fox")
        assert search(opened.database, "fox", source="left").num_rows == 10
    with dp.Corpus(copy.path) as opened:
        database = opened.database
        search(database, "fox", source="left")
        assert index.stale(database) == unfit
        search(database, "fox", source="third", split="train")
        assert index.stale(database) == [pair for pair in unfit if pair[1] != "train"]
        assert search(database, "fresh", 100).num_rows == 15
        opened.remove("third")
        assert search(database, "fresh").num_rows == 0


def test_wrong_names_are_refused_with_the_nearest(corpus, tmp_path):
    with pytest.raises(RecipeError, match=r"no source 'lef' \(did you mean 'left'\?\)"):
        search(corpus.database, "fox", source="lef")
    with pytest.raises(SplitError, match="split='trian'"):
        search(corpus.database, "fox", split="trian")
    with pytest.raises(SamplerError, match="text=None"):
        search(corpus.database, None)
    with dp.Corpus(tmp_path / "new.duckdb") as new:
        ingest(new, ["fox"], "a")
        with pytest.raises(SplitError, match="duckplets split"):
            search(new.database, "fox")


def test_snippets_are_whole_words_around_the_first_match(corpus):
    vocabulary = Vocabulary(Terms())
    vocabulary.read(pa.array(["running fox cafe"]))
    vocabulary.fix()
    seen = 0
    for row in search(corpus.database, "running fox cafe", 300).to_pylist():
        shown = row["snippet"].removeprefix("… ").removesuffix(" …")
        words = row["text"].split()
        assert shown.removesuffix("…") in " ".join(words)
        assert (vocabulary.read(pa.array([shown])).key >= 0).any() or shown.endswith("…")
        assert len(row["snippet"]) <= 204 or len(shown.split()) == 1 or "…" in shown
        seen += row["snippet"] != " ".join(words)
    assert seen > 10


DUCKDB = Path(sys.executable).with_name("duckdb")


def duckdb(path, statement):
    """Run a statement in the real duckdb CLI."""
    run = ran(str(DUCKDB), "-readonly", "-json", str(path), typed=statement)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout or "[]")


SCOPES = [{}, {"source": "right", "split": "train"}, {"source": "left"}, {"split": "train"}]


@pytest.mark.skipif(not DUCKDB.exists(), reason="no duckdb CLI here")
def test_the_duckdb_cli_searches_without_an_extension(path, corpus):
    corpus.close()
    for scope in some(SCOPES, less=2):
        given = "".join(f", {name} := '{value}'" for name, value in scope.items())
        for text in ("FOX-rún: 3", "the foxes", "s", "running\tfox fox"):
            found = duckdb(path, f"FROM search('{text}', k := 1000{given})")
            with dp.Corpus(path, read_only=True) as opened:
                expected = search(opened.database, text, 1000, **scope)
            assert found == expected.select(["record_id", "score", "text"]).to_pylist(), text
    (whole,) = duckdb(path, "SELECT count(*) AS n FROM search('run fox 3 fox')")
    assert whole["n"] == 10
    run = ran(str(DUCKDB), "-readonly", str(path), "FROM search('fox', source := 'nowhere')")
    assert "no full-text index of this source and split; build it: duckplets search" in run.stderr


@pytest.mark.skipif(not DUCKDB.exists(), reason="no duckdb CLI here")
def test_a_word_that_occurs_nowhere_takes_its_longest_stored_prefix(tmp_path):
    path = tmp_path / "c.duckdb"
    with dp.Corpus(path) as corpus:
        rows = [{"id": "film", "text": "a film of the sea"}, {"id": "fil", "text": "fil and sea"}]
        corpus.ingest(rows, name="s", id="id", text="text")
        corpus.split()
        build_index(corpus, dp.Terms(stemmer="none", stop_words=["of", "filmo"]), progress=False)
    found = {
        word: [row["record_id"] for row in duckdb(path, f"FROM search('{word}')")]
        for word in ("films", "filmography", "filx", "fi", "seas", "offal", "quay", "", "of")
    }
    film, fil = ["s/film"], ["s/fil"]
    both = ["s/film", "s/fil"]
    assert {word: sorted(ids) for word, ids in found.items()} == {
        "films": film, "filmography": film, "filx": fil, "fi": [], "seas": sorted(both),
        "offal": [], "quay": [], "": [], "of": [],
    }  # fmt: skip


def test_search_prints_a_table_or_json(path, tmp_path):
    table = ok("search", path, "running foxes", "--k", "3")
    assert re.match(r"score +record +split +role +text\n", table)
    assert len(table.splitlines()) == 4
    found = json.loads(ok("search", path, "running foxes", "--k", "3", "--json"))
    with dp.Corpus(path, read_only=True) as opened:
        assert found == search(opened.database, "running foxes", 3).to_pylist()
    assert all(row["record_id"] in table for row in found)
    scope = ("--source", "left")
    found = json.loads(ok("search", path, "fox", *scope, "--json"))
    assert {row["source"] for row in found} == {"left"}
    assert json.loads(ok("search", path, "unheardof", "--json")) == []
    assert "k=0" in error("search", path, "fox", "--k", "0")
    assert "does not exist" in error("search", tmp_path / "none.duckdb", "fox")
    assert not (tmp_path / "none.duckdb").exists()
