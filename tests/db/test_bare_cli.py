"""The duckdb CLI on a corpus, without this package: from any folder, with or without candidates."""

import contextlib
import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prebuilt import toy_corpus
from programs import ran

import duckplets as dp
from duckplets.search.index import index as build_index

DUCKDB = Path(sys.executable).with_name("duckdb")
pytestmark = pytest.mark.skipif(not DUCKDB.exists(), reason="no duckdb CLI here")


def duckdb(path, *statements, cwd):
    run = ran(str(DUCKDB), "-readonly", "-json", str(path), *statements, cwd=cwd)
    return json.loads(run.stdout or "[]") if run.returncode == 0 else run.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus with candidates, and with texts that were left in Parquet files."""
    path = tmp_path_factory.mktemp("of it") / "look.duckdb"
    rows = [{"q": f"left here {i}", "a": f"the answer to it {i}"} for i in range(9)]
    pq.write_table(pa.Table.from_pylist(rows), path.with_name("left.parquet"))
    with contextlib.chdir(path.parent), toy_corpus(path, 30) as opened:
        build_index(opened, dp.Terms(stemmer="none"), progress=False)
        opened.mine(split="train")
        place = dp.sources.ParquetSource("left.parquet", anchor="q", positive="a")
        opened.ingest(place, name="left", options=dp.IngestOptions(in_place=True))
    return path


@pytest.fixture
def corpus(made, tmp_path, monkeypatch):
    """The same in a folder of a test's own, which it stands in."""
    monkeypatch.chdir(shutil.copytree(made.parent, tmp_path / "of it"))
    return tmp_path / "of it" / made.name


ASKED = {
    "SELECT count(*) AS n FROM hard_negatives WHERE negative IS NOT NULL": 100,
    "SELECT count(*) AS n FROM candidates": 100,
    "SELECT count(anchor) AS n FROM pools.anchor_context('left')": 3,
    "SELECT count(*) AS n FROM pairs WHERE source = 'left'": 4,
    "SELECT count(*) AS n FROM search('river')": 1,
}


def test_it_answers_from_any_folder(corpus, tmp_path):
    places = {corpus: "/", corpus.name: corpus.parent, f"./of it/../of it/{corpus.name}": tmp_path}
    for given, cwd in places.items():
        for statement, least in ASKED.items():
            assert duckdb(given, statement, cwd=cwd)[0]["n"] >= least, (given, statement)


def test_an_attached_corpus_asks_for_its_folder_in_one_sentence(corpus):
    attach = f"ATTACH '{corpus}' AS c (READ_ONLY); USE c;"
    for statement in [*ASKED][:4]:
        run = ran(str(DUCKDB), "-json", "-c", f"{attach} {statement}", cwd="/")
        assert "SET VARIABLE corpus_folder = '/path/of/its/folder/'" in run.stderr, statement
        folder = f"SET VARIABLE corpus_folder = '{corpus.parent}/';"
        run = ran(str(DUCKDB), "-json", "-c", f"{attach} {folder} {statement}", cwd="/")
        assert json.loads(run.stdout)[0]["n"] >= ASKED[statement]


def test_without_the_folder_of_candidates_there_are_no_rows(corpus):
    shutil.rmtree(corpus.with_name("look.candidates"))
    asked = "SELECT count(*) AS n FROM hard_negatives"
    with dp.Corpus(corpus, read_only=True) as opened:
        assert opened.sql(asked)["n"].to_pylist() == [0]
    assert "look.candidates/part-" in duckdb(corpus, asked, cwd="/")  # DuckDB names the file
    dp.Corpus(corpus).close()
    assert duckdb(corpus, asked, cwd="/") == [{"n": 0}]


def test_all_tables_are_few(corpus):
    found = duckdb(corpus, "FROM (SHOW ALL TABLES) SELECT schema, name", cwd="/")
    assert len([row for row in found if row["schema"] != "_internal"]) <= 30


def test_the_views_with_texts(corpus):
    with dp.Corpus(corpus, read_only=True) as opened:
        expected = opened.sql(
            "SELECT DISTINCT record_id, anchor, positive FROM pairs WHERE source = 'left'"
        ).to_pylist()
    assert sorted(expected, key=lambda row: row["anchor"]) == [
        {"record_id": row["record_id"], "anchor": f"left here {i}",
         "positive": f"the answer to it {i}"}
        for i, row in enumerate(sorted(expected, key=lambda row: row["anchor"]))
    ]  # fmt: skip
