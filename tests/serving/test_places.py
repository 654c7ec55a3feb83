"""Texts left in files that can be read at random are read there, and are what they were."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

import duckplets as dp
from duckplets.artifacts import read_ahead
from duckplets.artifacts.read_ahead import ReadAhead
from duckplets.serving import places, snapshot
from duckplets.sources.formats import parquet_places

CHUNKS = """
SELECT chunk_key, substring(text, start + 1, length) AS text
FROM chunks JOIN sections USING (section_key) ORDER BY chunk_key
"""
WORDS = ["river", "stone", "lamp", "", "élan", "水", "x\u0301", "\n"]
KINDS = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
MAPPING = {"anchor": "title", "positive": ["body", "items"], "id": "id"}


def table(rng: random.Random, count: int, first: int = 0) -> pa.Table:
    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.choice([1, 3, 9, 60])))

    rows = [
        {
            "id": f"k{first + number}",
            "title": f"{number} {text()}",
            "body": rng.choice([text(), None]),
            "items": [text() for _ in range(rng.randint(0, 2))],
        }
        for number in range(count)
    ]
    kinds = [("title", rng.choice(KINDS)), ("body", rng.choice(KINDS))]
    lists = ("items", pa.list_(pa.string()))
    return pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), *kinds, lists]))


WRITERS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "none", "none", "zstd", "snappy"]),
        "use_dictionary": st.sampled_from([False, False, ["body"], True]),
        "row_group_size": st.sampled_from([1, 7, 1000]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "max_rows_per_page": st.sampled_from([1, 5, 100_000]),
        "write_statistics": st.booleans(),
        "write_page_index": st.booleans(),
        "write_page_checksum": st.booleans(),
    }
)


def served(corpus: dp.Corpus) -> snapshot.Snapshot:
    found = snapshot.opened(corpus.database, corpus.version)
    assert found is not None
    return found


def check(corpus: dp.Corpus, draw: random.Random) -> list[dict[str, Any]]:
    """Compare every text, by chunk and by record, with the statements'; return the segments."""
    found = served(corpus)
    wanted = corpus.sql(CHUNKS)
    keys = wanted["chunk_key"].to_numpy()
    order = np.array(draw.sample(range(len(keys)), len(keys)))
    spans = found.texts.spans(keys[order])
    texts = wanted["text"].combine_chunks()
    assert spans.take(slice(None)).equals(texts.take(pa.array(order)))
    ahead = spans.read_ahead(ReadAhead())
    assert ahead.take(np.arange(len(keys))).equals(texts.take(pa.array(order)))
    records = corpus.sql("SELECT DISTINCT record_key FROM sections ORDER BY 1")["record_key"]
    request, _, of_records = found.texts.of_records(records.to_numpy())
    told = corpus.sql("SELECT text FROM sections ORDER BY section_key")["text"].combine_chunks()
    assert of_records.take(slice(None)).equals(told)
    assert (np.diff(request) >= 0).all()
    return found.manifest.segments["chunks"]


@settings(max_examples=often(60, less=3), deadline=None)
@given(seed=st.integers(0, 2**32), writers=st.lists(WRITERS, min_size=1, max_size=3))
def test_every_text_is_the_statements_wherever_it_lies(tmp_path_factory, seed, writers):
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("c")
    chunking = {"max_tokens": 9, "overlap": (2,)} if seed % 2 else {}
    with dp.Corpus(folder / "c.duckdb") as corpus, pytest.MonkeyPatch.context() as patched:
        patched.setattr(read_ahead, "cold_share", lambda *_: float(seed % 3 > 0))
        corpus.chunk(**chunking)
        inside = dp.sources.MemorySource([{"id": "m", "text": "inside"}], text="text", id="id")
        corpus.ingest(inside, name="inside", progress=False)
        corpus.split()
        for number, writer in enumerate(writers):
            pq.write_table(table(rng, 20, 20 * number), folder / f"{number}.parquet", **writer)
        file = dp.sources.ParquetSource(folder / "*.parquet", **MAPPING)
        how = dp.IngestOptions(in_place=True, prepare=bool(seed % 5))
        corpus.ingest(file, name="files", progress=False, options=how)
        corpus.prepare()
        segments = check(corpus, rng)
        plain = [w["compression"] == "none" and w["use_dictionary"] is not True for w in writers]
        files = [file for segment in segments for file in segment["files"]]
        assert len(files) == sum(plain)
        shutil.rmtree(snapshot.folder_of(corpus.path))
        patched.setattr(places, "_MOST", 1)
        corpus.prepare()
        assert sum(len(of["files"]) for of in check(corpus, rng)) == min(1, sum(plain))


def plain_corpus(folder: Path, *, count: int = 40) -> tuple[dp.Corpus, Path, dp.sources.Source]:
    path = folder / "texts.parquet"
    pq.write_table(table(random.Random(1), count), path, compression="none", use_dictionary=False)
    corpus = dp.Corpus(folder / "c.duckdb")
    source = dp.sources.ParquetSource(path, **MAPPING)
    corpus.split()
    options = dp.IngestOptions(in_place=True, prepare=True)
    corpus.ingest(source, name="files", progress=False, options=options)
    return corpus, path, source


def drawn(corpus: dp.Corpus) -> list[Any]:
    with corpus.sampler(batch_size=4, steps=5, options=dp.Options(empty="skip")) as sampler:
        return [batch["anchor"] for batch in sampler]


def test_a_file_that_is_another_is_refused_and_read_anew(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshot, "LARGE", 10)
    corpus, path, source = plain_corpus(tmp_path)
    with corpus:
        before, data = drawn(corpus), path.read_bytes()
        for other in (bytes(len(data)), data[:-1], data[: len(data) // 2]):
            path.unlink()  # what is mapped stays as it is
            path.write_bytes(other)
            with pytest.raises(dp.errors.ChangedFileError, match=r"texts\.parquet has changed"):
                drawn(corpus)
        rows = table(random.Random(2), 40)
        pq.write_table(rows, path, compression="none", use_dictionary=False)
        corpus.ingest(
            *(source,),
            name="files",
            remap=True,
            progress=False,
            options=dp.IngestOptions(in_place=True),
        )
        corpus.prepare()
        assert check(corpus, random.Random(3))[-1]["files"]
        assert drawn(corpus) != before
        texts = {row["title"] for row in rows.to_pylist()}
        assert all(text in texts for batch in drawn(corpus) for text in batch)


def test_what_footers_and_headers_say_is_not_trusted(tmp_path: Path, monkeypatch: Any) -> None:
    """Whatever a header says, every text is what it was, from the file or from a copy."""
    corpus, path, _ = plain_corpus(tmp_path)
    rng, header = random.Random(5), parquet_places._header
    whole = memoryview(path.read_bytes())
    with corpus:
        assert check(corpus, rng)[0]["files"]
        for number in range(often(60, less=6)):

            def lying(data: memoryview, at: int) -> tuple[dict[int, Any], int]:
                found, end = header(data, at)
                field = rng.choice([2, 3, 5])
                if rng.random() < 0.5:
                    return found, end + rng.choice([-4, 1, 30, 10**6])
                if field == 5:
                    found[5][rng.choice([1, 2])] = rng.choice([-1, 0, 3, 10**9])
                else:
                    found[field] += rng.choice([-(10**6), -1, 4, 10**12])
                return found, end

            monkeypatch.setattr(parquet_places, "_header", lying)
            shutil.rmtree(snapshot.folder_of(corpus.path))
            if number % 4 == 3:  # the places of other texts
                monkeypatch.setattr(parquet_places, "_header", header)
                monkeypatch.setattr(
                    parquet_places,
                    "places_of",
                    lambda f, g, *_: np.full(f.metadata.row_group(g).num_rows, 99),
                )
            corpus.prepare()
            monkeypatch.undo()
            check(corpus, rng)
    for _ in range(often(4000, less=400)):  # bytes that are no header lead nowhere
        data = memoryview(rng.randbytes(rng.randint(0, 40)) + b"\xff" * rng.randint(0, 40))
        try:
            header(data, 0)
        except (IndexError, ValueError, RecursionError):
            continue
    assert header(whole, pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset)


def test_places_are_where_arrow_has_the_values(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.parquet", random.Random(4)
    for version in ("1.0", "2.0"):
        made = table(rng, 700)
        pq.write_table(
            made, path, compression="none", use_dictionary=False, data_page_version=version
        )
        file, data = pq.ParquetFile(path), pa.py_buffer(path.read_bytes())
        for name in ("title", "body"):
            column = parquet_places.column_of(file, name)
            assert column is not None
            assert parquet_places.is_plain(file, 0, column)
            found = parquet_places.places_of(file, 0, column, data)
            for at, text in zip(found.tolist(), made[name].to_pylist(), strict=True):
                size = -1 if text is None else len(text.encode())
                assert (
                    at == -1 if text is None else data[at : at + size].to_pybytes() == text.encode()
                )
        assert parquet_places.column_of(file, "items") is None
        items = made["items"].combine_chunks().flatten()
        copied = parquet_places.copied_bytes(file, ["title", "items"])
        assert copied >= pc.sum(pc.binary_length(items)).as_py()
