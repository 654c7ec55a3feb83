"""Words for no value are none in every kind of source; without any they are texts."""

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from effort import some
from source_rows import ALL, every_source, write_csv

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.ingest.preview import preview

ROWS = [
    {"id": "1", "q": "one", "a": "first", "d": "2024-01-01", "m": "N/A"},
    {"id": "2", "q": "two", "a": "N/A", "d": "NaT", "m": "v"},
    {"id": "3", "q": "three", "a": " nan ", "d": "NULL", "m": "w"},
    {"id": "4", "q": "NULL", "a": "fourth", "d": None, "m": "x"},
    {"id": "nan", "q": "five", "a": "fifth", "d": None, "m": "y"},
    {"id": "6", "q": "six", "a": "Null, nan", "d": "NULL", "m": "nan"},
]
MAPPING = {"id": "id", "anchor": "q", "positive": "a", "date": "d", "meta": ["m"]}
WORDS = ("N/A", "nan", "NULL")
OTHERS = ("custom", "tables", "indexed", "reader")
KINDS = some(["csv", *(kind for kind in ALL if kind not in OTHERS)], less=5)


def test_words_for_no_value_are_null_in_any_source(tmp_path):
    plain_sources = every_source(tmp_path, ROWS, KINDS, **MAPPING)
    for kind, source in every_source(tmp_path, ROWS, KINDS, **MAPPING, null_values=WORDS).items():
        rows = preview(source, 6).rows
        skips = [row["skip"] for row in rows]
        assert skips == [None, *["no positive"] * 2, "no anchor", "no id", None], kind
        assert [row["key"] for row in rows[::5]] == ["1", "6"], kind
        plain = preview(plain_sources[kind], 6).rows
        # NaT is no date that could not be read; NULL is one, until it is said to be a word.
        wrong = [row["value"] for row in plain if row["value"] is not None]
        assert [row["skip"] for row in plain] == [None] * 6, kind
        assert wrong == ["NULL", "NULL"], kind


def test_metadata_and_lists_have_no_such_words(tmp_path):
    rows = [{**row, "l": ["x", "NULL", " "]} for row in ROWS[:1]]
    mapping = {**MAPPING, "context": "l", "null_values": "NULL"}
    sections = preview(dp.MemorySource(rows, **mapping)).rows[0]["sections"]
    assert [section["text"] for section in sections] == ["one", "first", "x"]
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        source = dp.MemorySource(ROWS, **MAPPING, null_values=["N/A", "nan"])
        corpus.ingest(source, name="s", progress=False)
        found = corpus.sql("SELECT record_id, meta FROM records ORDER BY record_id").to_pylist()
        assert [dict(row["meta"]) for row in found] == [{}, {"m": "x"}, {}]
        with pytest.raises(SourceError, match="null_values"):  # another mapping
            corpus.ingest(dp.MemorySource(ROWS, **MAPPING), name="s", progress=False)


def test_what_is_no_word_or_cannot_be_one_is_refused(tmp_path):
    for given, told in (
        (None, r"null_values=None: give words, as in \('N/A', 'NULL'\)"),
        ({"N/A": 1}, "give words"),
        ([1], "null_values: 1 is no word"),
        (["a", " "], "null_values: ' ' is no word.*blank is no value anyway"),
    ):
        wrong = given
        with pytest.raises(SourceError, match=told):
            dp.MemorySource(ROWS, **MAPPING, null_values=wrong)
    parquet.write_table(pa.table({"q": ["a"], "l": [["b", "NULL"]]}), tmp_path / "l.parquet")
    source = dp.ParquetSource(tmp_path / "l.parquet", anchor="q", positive="l", null_values="NULL")
    refused = pytest.raises(SourceError, match="'l' has lists, and null_values= words")
    with dp.Corpus(tmp_path / "c.duckdb") as corpus, refused:
        corpus.ingest(source, in_place=True, progress=False)


def test_the_preview_counts_such_words_and_says_the_option(tmp_path):
    path = write_csv(tmp_path / "rows.csv", ROWS)
    (flag,) = preview(dp.CsvSource(path, **MAPPING)).flags
    assert flag == (
        "3 of 12 texts look like no value: N/A (1), NULL (1), nan (1); null_values=['N/A', "
        "'NULL', 'nan'] (--null-values N/A,NULL,nan) takes them for none"
    )
    flags = preview(dp.CsvSource(path, **MAPPING, null_values=WORDS)).flags
    assert flags == ["4 of the first 6 rows cannot become records"]
    line = dp.HubSource("hf://org/name/config/split anchor=q positive=a null_values=N/A,NULL")
    assert line.null_values == ("N/A", "NULL")
