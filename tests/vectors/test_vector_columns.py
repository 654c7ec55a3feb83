"""Vectors in batches: each belongs to the text in its slot, whatever the kind of run."""

import pickle
import shutil

import numpy as np
import pyarrow as pa
import pytest
from effort import often, some, thorough
from prebuilt import prebuilt, toy_corpus
from text_vectors import DIMENSION, SHARED, Oracle, filled, texts_of, vector, vectors, windowed

import duckplets as dp
from duckplets.artifacts import read_ahead
from duckplets.vectors import opened

# Many runs of the same few corpora.
pytestmark = pytest.mark.usefixtures("pools_once")

made = prebuilt(windowed)
ALL = [f"{slot}{what}" for slot in ("anchor", "positive", "negative") for what in ("", "_vector")]
LONG = dp.TripletRecipe("long", dp.role("context"), dp.role("context"), dp.role("context"))

RUNS = [
    {},
    {"negatives": 3},
    {"no_duplicates": "negatives", "batch_size": 4},
    {"recipes": [LONG], "options": dp.Options(swap=True)},
    {"kind": "labelled_pairs", "negatives": 2},
    {"kind": "texts"},
]


def slots_of(run):
    if run.get("kind") == "texts":
        return ["text"]
    if run.get("kind") == "labelled_pairs":
        return ["anchor", "other"]
    several = [f"negative_{i + 1}" for i in range(run.get("negatives", 1))]
    return ["anchor", "positive", *(several if len(several) > 1 else ["negative"])]


@pytest.mark.parametrize(
    ("run", "mapped"), some([(run, mapped) for mapped in (False, True) for run in RUNS], less=3)
)
def test_every_vector_is_that_of_its_text(tmp_path, run, mapped, monkeypatch):
    """Windows, prefixes, equal texts and replaced records; from memory, and read ahead of files."""
    if mapped:
        monkeypatch.setattr(opened, "_HELD", 0)
        monkeypatch.setattr(read_ahead, "cold_share", lambda *_: 1.0)
    with made(tmp_path / "c.duckdb") as corpus:
        filled(corpus, commits=3)
        oracle, slots = Oracle(corpus), slots_of(run)
        columns = [*slots, *(f"{s}_vector" for s in slots), *oracle.columns(slots)]
        arguments = {"batch_size": 8, "columns": columns, **run}
        with corpus.sampler(**arguments) as sampler:
            for _ in range(often(12, less=6)):
                batch = next(sampler)
                for slot in slots:
                    found = batch.to_numpy(f"{slot}_vector")
                    assert np.array_equal(found, oracle.expected(batch, slot)), slot
    assert (tmp_path / "c.snapshot" / "vectors").exists() == mapped


def test_arrays_are_not_copied_and_batches_travel_alone(tmp_path):
    with made(tmp_path / "c.duckdb") as corpus:
        filled(corpus)
        batch = next(corpus.sampler(columns=ALL, batch_size=8))
        field = batch.table.schema.field("anchor_vector")
        assert field.type == pa.list_(pa.float32(), DIMENSION)
        found = batch.to_numpy("anchor_vector")
        assert found.shape == (8, DIMENSION)
        buffer = batch.table.column("anchor_vector").chunk(0).buffers()[-1]
        assert buffer.address <= found.ctypes.data < buffer.address + buffer.size
        arrays = batch.to_numpy()
        assert list(arrays) == ALL
        assert arrays["anchor"].tolist() == batch["anchor"]
        arrived = pickle.loads(pickle.dumps(batch))
        assert arrived.to_pydict() == batch.to_pydict()
        assert np.array_equal(arrived.to_numpy("anchor_vector"), found)
        assert batch["anchor_vector"] == found.tolist()


@thorough
@pytest.mark.parametrize("missing", ["drop", "null"])
def test_a_run_continues_while_texts_are_embedded(tmp_path, missing):
    """Resumed, it draws what the unbroken run drew, and serves the vectors there were."""
    columns = ["anchor", "anchor_vector", "negative", "negative_vector"]
    with toy_corpus(tmp_path / "c.duckdb") as corpus:
        texts = sorted(set(texts_of(corpus).values()))
        filled(corpus, texts=texts[::2])
        arguments = {
            "columns": columns,
            "batch_size": 16,
            "options": dp.Options(missing_vectors=missing),
        }
        unbroken = corpus.sampler(**arguments)
        expected = [next(unbroken).to_pydict() for _ in range(6)]
        with corpus.sampler(**arguments) as sampler:
            next(sampler)
            sampler.save()
        filled(corpus, texts=texts[1::2])
        resumed = corpus.resume()
        assert [next(resumed).to_pydict() for _ in range(5)] == expected[1:]
        newer = corpus.sampler(columns=columns)
        assert newer.settings.fingerprint()["vectors"]["sets"]["default"] == 2


def test_a_run_refuses_other_vectors(tmp_path):
    with made(tmp_path / "c.duckdb") as corpus:
        store = filled(corpus)
        with corpus.sampler(columns=ALL) as sampler:
            sampler.save()

        def refuses():
            with pytest.raises((dp.errors.VectorError, dp.StateMismatchError), match="default"):
                corpus.resume()

        shutil.move(store.path, tmp_path / "elsewhere")
        refuses()
        shutil.move(tmp_path / "elsewhere", store.path)
        corpus.resume().close()
        assert corpus.remove(vectors="default") > 0
        refuses()
        filled(corpus, texts=[SHARED])
        refuses()


def test_what_is_missing_is_counted_and_refused_left_out_or_null(tmp_path):
    with toy_corpus(tmp_path / "c.duckdb") as corpus:
        texts = sorted(set(texts_of(corpus).values()))
        lacking = set(texts[::4])
        there = set(texts) - lacking
        filled(corpus, texts=there)
        with pytest.raises(dp.errors.VectorError, match=r"\d+ texts of anchors .* duckplets embed"):
            corpus.sampler(columns=ALL)
        with corpus.sampler(
            columns=ALL, batch_size=32, epochs=1, options=dp.Options(missing_vectors="null")
        ) as sampler:
            assert "their vectors are null" in "".join(sampler.notes)
            for batch in sampler:
                for slot in ("anchor", "positive", "negative"):
                    nulls = [text in lacking for text in batch[slot]]
                    assert [found is None for found in batch[f"{slot}_vector"]] == nulls
                    rows = batch.to_numpy(f"{slot}_vector")
                    assert np.isnan(rows).all(axis=1).tolist() == nulls
                    known = [vector(t) for t in batch[slot] if t not in lacking]
                    assert np.array_equal(rows[~np.array(nulls)], np.stack(known))
        with corpus.sampler(
            columns=ALL, batch_size=32, epochs=1, options=dp.Options(missing_vectors="drop")
        ) as sampler:
            assert "they are skipped" in "".join(sampler.notes)
            batches = list(sampler)
        served = {
            text for b in batches for s in ("anchor", "positive", "negative") for text in b[s]
        }
        assert served <= there
        anchors = {text for batch in batches for text in batch["anchor"]}
        assert len(anchors) > 50


def test_a_column_names_its_vectors(tmp_path):
    with toy_corpus(tmp_path / "c.duckdb") as corpus:
        with pytest.raises(dp.errors.VectorError, match="no vectors are named"):
            corpus.sampler(columns=["anchor_vector"])
        filled(corpus, "one")
        filled(corpus, "two")
        with pytest.raises(dp.errors.VectorError, match=r"names no set of vectors.* one, two"):
            corpus.sampler(columns=["anchor_vector"])
        batch = next(corpus.sampler(columns=["anchor", "anchor_vector:one", "anchor_vector:two"]))
        for name in ("one", "two"):
            assert np.array_equal(batch.to_numpy(f"anchor_vector:{name}"), vectors(batch["anchor"]))
        for wrong in ("anchor_vector:", "anchor:one", "text_vector", "meta_vector"):
            with pytest.raises(dp.SamplerError, match="columns"):
                corpus.sampler(columns=[wrong])
        with pytest.raises(dp.SamplerError, match="did you mean 'null'"):
            corpus.sampler(options=dp.Options(missing_vectors="nul"))
