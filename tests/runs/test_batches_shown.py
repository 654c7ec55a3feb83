"""A batch and a corpus as a person meets them: rows, data frames, and what a notebook shows."""

import sys
from collections.abc import Mapping

import pyarrow as pa
import pytest
from hostile import HOSTILE, check_html
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.samples.batch import Batch


def batch(rows):
    columns = {
        "anchor": [f"a {i}" for i in range(rows)],
        "negative_2": [f"{i} {HOSTILE}" for i in range(rows)],
        "weight": [i / 4 for i in range(rows)],
    }
    return Batch(pa.table(columns), 3, 40)


def test_samples_are_rows():
    rows = batch(5).to_pylist()
    found = batch(5)
    assert list(found) == rows
    assert [found[i] for i in range(-5, 5)] == rows + rows
    for low in (None, 0, 2, -2, 9):
        for step in (None, 2, -1):
            assert found[low::step] == rows[low::step]
            assert found[:low:step] == rows[:low:step]
    assert found.texts == ["anchor", "negative_2"]
    with pytest.raises(IndexError, match="5; this batch has 5 samples"):
        found[5]
    with pytest.raises(IndexError):
        batch(0)[0]
    with pytest.raises(KeyError, match="'anchors'; this batch has anchor"):
        found["anchors"]


def test_columns_are_read_as_in_a_dict():
    found = batch(5)
    columns = found.to_pydict()
    assert dict(found) == dict(**found) == dict(found.items()) == columns
    assert found.keys() == list(columns)
    assert found.values() == list(columns.values())
    assert found.get("anchor") == found["anchor"] == columns["anchor"]
    assert (found.get("text"), found.get("text", 7), "text" in found) == (None, 7, False)
    assert len(found) == 5 != len(columns)
    assert not isinstance(found, Mapping)  # trainers make new ones of those, by their keys


def test_a_batch_is_shown_with_its_first_texts():
    told = repr(batch(2))
    assert told.startswith("Batch(step=3, position=40, samples=2, first: anchor='a 0', negative_2=")
    assert "\x1b" not in told
    assert repr(batch(0)) == "Batch(step=3, position=40, samples=0)"
    check_html(batch(9)._repr_html_(), "a 0", "a 4", "<script>alert(1)</script>", "9 samples")
    assert "a 5" not in batch(9)._repr_html_()


def test_a_data_frame_where_pandas_is_there(monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = batch(3).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("records") == batch(3).to_pylist()
    for name in [name for name in sys.modules if name.split(".")[0] == "pandas"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(dp.errors.ExtensionError, match="pip install pandas"):
        batch(3).to_pandas()


def test_a_corpus_is_shown_with_its_counts_and_first_texts(tmp_path):
    path = tmp_path / "c.duckdb"
    with toy_corpus(path, 30) as corpus:
        corpus.ingest([{"text": HOSTILE}], name="<b>", text="text")
        told = f"<Corpus({str(path)!r}): version 2, records: <b> 1, toy 30>"
        assert repr(corpus) == told
        check_html(corpus._repr_html_(), "<b>", "30", "<script>", "version 2")
        with corpus.sampler("texts", batch_size=2, run="<i>") as sampler:
            check_html(sampler._repr_html_(), "<b>", "<i>", "position=0")
        corpus.remove("toy")
        for i in range(5):
            corpus.ingest([{"text": "t"}], name=f"s{i}", text="text")
        assert "s3 1 and 1 more sources>" in repr(corpus)
    assert repr(corpus) == f"Corpus({str(path)!r})"
