"""Stored vectors: forms of tables, refused rows, and upkeep."""

import itertools
from collections import Counter
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import lines, ok
from effort import often, some, thorough
from prebuilt import prebuilt, toy_corpus
from text_vectors import DIMENSION, filled, texts_of, vectors, windowed

import duckplets as dp
from duckplets.corpus import doctor
from duckplets.db.database import Database
from duckplets.vectors import opened
from duckplets.vectors.store import VectorSet, VectorStore

made = prebuilt(windowed)


def test_every_form_of_a_table_gives_the_same(tmp_path):
    with made(tmp_path / "c.duckdb") as corpus:
        texts = texts_of(corpus)
        matrix = vectors([*texts.values()])
        column = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), DIMENSION)
        by_chunk = pa.table({"chunk_key": list(texts), "vector": column})
        by_text = pa.table({"text": list(texts.values()), "vector": column})
        pq.write_table(by_text, tmp_path / "v.parquet")
        lists = by_chunk["vector"].cast(pa.list_(pa.float64()))
        forms = {
            "table": by_chunk,
            "reader": by_text.to_reader(7),
            "path": tmp_path / "v.parquet",
            "lists": by_chunk.set_column(1, "vector", lists),
            "arrays": {"chunk_key": np.array([*texts]), "vector": matrix},
            "dicts": iter(by_chunk.to_pylist()),
        }
        distinct, first = len(set(texts.values())), None
        for name, form in some(forms.items(), less=3):
            report = corpus.add_vectors(name, form)
            assert (report.read, report.added) == (len(texts), distinct)
            assert report.repeated == len(texts) - distinct
            again = corpus.add_vectors(name, by_chunk)
            assert (again.added, again.commit) == (0, 1)
            found = corpus.vectors(name)
            assert first is None or found.equals(first)
            first = found
        for key, row in zip(*(first[n].to_pylist() for n in ("chunk_key", "vector")), strict=True):
            assert vectors([texts[key]])[0].tolist() == row
        assert len(first) > 90


MANY = often(200, less=30)  # records
V = np.zeros((2, 3), np.float32)
NAN = np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)
TENSORS = pa.table({"chunk_key": [1, 2], "vector": pa.FixedShapeTensorArray.from_numpy_ndarray(V)})
BAD = [
    (
        {"chunk_key": [1, 10**9], "vector": V},
        "row 1: the corpus has no text for chunk_key 1000000000",
    ),
    ({"text": ["a title"] * 2, "vector": V}, "row 0: the corpus has no text for text 'a title'"),
    (
        {"record_id": ["no", "no"], "role": ["anchor"] * 2, "vector": V},
        "row 0: the corpus has no text for record_id",
    ),
    ({"chunk_key": [1, None], "vector": V}, "row 1 has no chunk_key"),
    ({"chunk_key": ["a", "b"], "vector": V}, "chunk_key is of type string"),
    ({"chunk_key": [1, 2], "vector": NAN}, "row 1 has nan as its number 1"),
    ({"chunk_key": [1, 2], "vector": [[1.0], None]}, "row 1 has no vector"),
    ({"chunk_key": [1, 2], "vector": [[1.0], [1.0, 2.0]]}, "1 dimensions, but row 1 has 2"),
    ({"chunk_key": [1, 2], "vector": [[1.0], [None]]}, "row 1 has nan"),
    ({"chunk_key": [1, 2], "vector": ["a", "b"]}, "lists of numbers"),
    (TENSORS, "vector is of type extension.*give lists of numbers"),
    ({"chunk_key": [1, 2]}, "give 'chunk_key' with 'vector' or 'record_id' with 'role' with"),
    ({"vector": V}, "give 'chunk_key'"),
    ({"chunk_key": [1], "text": ["a"], "vector": V[:1]}, "not both"),
    ({"chunk_key": [], "vector": np.zeros((0, 3))}, "no rows"),
    ("no/such.parquet", "cannot be read"),
    (5, "5 is no table"),
]


def test_faults_are_reported_with_their_row_and_nothing_is_stored(tmp_path):
    with toy_corpus(tmp_path / "c.duckdb", MANY) as corpus:
        for table, message in some(BAD, less=8):
            with pytest.raises(dp.errors.VectorError, match=message):
                corpus.add_vectors("default", table)
        assert VectorStore(corpus.path).sets() == []
        corpus.add_vectors("default", {"chunk_key": [1, 2], "vector": V})
        other = {"chunk_key": [3, 2], "vector": V + 1}
        report = corpus.add_vectors("default", other)
        assert (report.added, report.repeated) == (1, 1)
        kept = {row["chunk_key"]: row["vector"][0] for row in corpus.vectors().to_pylist()}
        assert kept == {1: 0, 2: 0, 3: 1}, "what was there first stays"
        wide = {"chunk_key": [4], "vector": np.zeros((1, 4))}
        with pytest.raises(dp.errors.VectorError, match=r"dimension \(stored: 3, given: 4\)"):
            corpus.add_vectors("default", wide)
        with pytest.raises(dp.errors.VectorError, match="dtype"):
            corpus.add_vectors("default", other, dtype="float16")
        with pytest.raises(dp.errors.VectorError, match="finite in float16"):
            corpus.add_vectors("half", {"chunk_key": [4], "vector": V[:1] + 1e6}, dtype="float16")


def test_a_set_is_read_as_of_any_of_its_commits(tmp_path, monkeypatch):
    path, draw = tmp_path / "c.duckdb", np.random.default_rng(1)
    store = VectorStore(path)
    of = VectorSet("default", 4, "float32", {})
    hashes = draw.integers(0, 1 << 64, 3000, np.uint64)
    matrix = draw.random((3000, 4), np.float32)
    ends = [100, 2000, 2100, 2900]
    for number, (low, high) in enumerate(zip([0, *ends], ends, strict=False), start=1):
        assert store.append(of, [(hashes[:high], matrix[:high])]) == high - low
        assert opened.opened(path, "default").vector_set.number == number
    for held, (number, high) in itertools.product([0, 1 << 30], enumerate(ends, start=1)):
        monkeypatch.setattr(opened, "_HELD", held)
        found = opened.opened(path, "default", number)
        rows = found.rows(hashes)
        assert ((rows >= 0) == (np.arange(3000) < high)).all()
        shuffled = draw.permutation(high)
        assert np.array_equal(found.take(rows[shuffled]), matrix[shuffled])
        assert np.array_equal(found.hashes, hashes[:high][found.order])
        assert np.array_equal(found.matrix, matrix[:high])
    assert list(opened.verify_mapped(path)) == []
    monkeypatch.setattr(opened, "_HELD", 0)
    (copy,) = (tmp_path / "c.snapshot" / "vectors").glob("vectors-*")
    copy.write_bytes(b"cut")
    assert np.array_equal(opened.opened(path, "default").matrix, matrix[:2900]), "made anew"
    assert list(opened.verify_mapped(path)) == []


@thorough
def test_compact_removes_vectors_of_lost_texts_and_pinned_runs_continue(tmp_path):
    path = tmp_path / "c.duckdb"
    columns = ["anchor", "anchor_vector", "positive_vector", "negative_vector"]
    records = often(60, less=20)
    with toy_corpus(path, records, sources=("toy", "pinned", "gone")) as corpus:
        store = filled(corpus, commits=3)
        before = store.need("default")
        corpus.remove("gone")
        unbroken = corpus.sampler(columns=columns)
        expected = [next(unbroken).to_pydict() for _ in range(3)]
        unbroken.close()
        with corpus.sampler(columns=columns) as sampler:
            sampler.save()
        corpus.remove("pinned")
        report = corpus.compact()
        assert report.freed["vectors of default"] == 2 * records
        now = store.need("default")
        assert (now.number, now.digest) == (before.number, before.digest)
        assert now.vectors == before.vectors - 2 * records
        resumed = corpus.resume()
        assert [next(resumed).to_pydict() for _ in range(3)] == expected
        resumed.close()
        assert corpus.status()["vectors"][0]["vectors"] == now.vectors
        assert "vectors of default" not in corpus.compact().freed
    checks = [check for check in doctor.corpus(path) if "vectors" in check.what]
    assert checks
    assert all(check.ok for check in checks)


@thorough
def test_show_counts_the_chunks_with_vectors(tmp_path):
    path = tmp_path / "c.duckdb"
    with toy_corpus(path, 4) as corpus:
        corpus.close()
        assert all("vectors" not in row for row in lines(ok("show", path, "--json")))
    with dp.Corpus(path) as corpus:
        filled(corpus)
        filled(corpus, "b")
        corpus.ingest(
            [{"q": "never seen", "a": "nor was this"}], name="late", anchor="q", positive="a"
        )
    told = [row["vectors"] for row in lines(ok("show", path, "--json"))]
    assert Counter(told) == {"b 1 of 1, default 1 of 1": 8, "b 0 of 1, default 0 of 1": 2}


def test_doctor_finds_changed_vectors_and_lost_files(tmp_path):
    path = tmp_path / "c.duckdb"
    with toy_corpus(path, MANY) as corpus:
        store = filled(corpus)
        with corpus.sampler(columns=["anchor_vector"]) as sampler:
            sampler.save()
    with closing(Database.open(store.path)) as database:
        database.rows(
            "UPDATE packed_vectors_1 SET vector = vector[3:] || vector[:2] WHERE rowid = 7"
        )
    assert any(
        "have changed since they were written" in c.what for c in doctor.corpus(path) if not c.ok
    )
    store.path.unlink()
    assert any("pinned to vectors default" in c.what for c in doctor.corpus(path) if not c.ok)
