"""Files of data sets: what they are read from, and all that is wrong with them at once."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from effort import thorough

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.records.data_sets import load_data_sets
from duckplets.records.index_controls import IndexControls
from duckplets.sources.formats.text_file import TextLinesSource

pytestmark = pytest.mark.usefixtures("pools_once")

ALPACA = [
    {"instruction": f"Do {i}.", "input": "" if i % 2 else f" With {i}.", "output": f"Done {i}."}
    for i in range(30)
]
TITLES = [{"title": f"title {i}", "body": f"body {i}"} for i in range(20)]


@pytest.fixture
def folder(tmp_path):
    """A folder with a data set in every form."""
    (tmp_path / "alpaca.json").write_text(json.dumps(ALPACA))
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, TITLES)))
    (tmp_path / "rows.csv").write_text("title,body\n" + "\n".join(f"t {i},b {i}" for i in range(9)))
    table = pa.Table.from_pylist(TITLES)
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    pa.feather.write_feather(table, tmp_path / "rows.arrow")
    (tmp_path / "plain.txt").write_text("first line\r\n\n  \nsecond line\nthird")
    chat = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}
    (tmp_path / "chat.jsonl").write_text(json.dumps(chat))
    return tmp_path


def loaded(folder, text, name="data.yaml"):
    (folder / name).write_text(text)
    return load_data_sets(folder / name)


SEED = """
faq: {file_name: alpaca.json, converter: alpaca, size: 10}
titles:
  file_name: lines.jsonl
  anchor: title
  positive: [body]
  weight: 2.0
  streaming: true
  split: train
chat: {file_name: chat.jsonl}
"""


def test_a_file_in_the_documented_form_becomes_sources_and_an_index(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    data_sets = loaded(folder, SEED.replace("lines.jsonl", "~/line*.jsonl"))
    assert [d.name for d in data_sets] == ["faq", "titles", "chat"]
    controls = [IndexControls(size=10), IndexControls(weight=2.0), IndexControls()]
    assert [d.controls for d in data_sets] == controls
    assert [d.streaming for d in data_sets] == [None, True, None]
    assert data_sets[2].mapping == {"converter": "openai"}, "rows hold messages by default"
    assert data_sets[1].source().in_pieces
    with dp.Corpus(folder / "corpus.duckdb") as corpus:
        corpus.ingest_data_sets(folder / "data.yaml", progress=False)
        found = {row["name"]: row["records"] for row in corpus.sources().to_pylist()}
        assert found == {"faq": 30, "titles": 20, "chat": 1}
        index = corpus.data_index()
        assert index.counts() == {"faq": 10, "titles": 40, "chat": 1}
        batch = next(iter(corpus.read(index, batch_size=100, columns=["source", "text"])))
        texts = {t for s, t in zip(batch["source"], batch["text"], strict=True) if s == "chat"}
        assert texts == {"Hi\n\nHo"}


# Keys of a data set whose other keys are right, and what is said about them.
WRONG = [
    ({"convertor": "alpaca"}, r"unknown key 'convertor' \(did you mean 'converter'"),
    ({"size": -5}, "size=-5: give an integer from 0"),
    ({"size_mode": "last"}, "size_mode='last': give 'first' or 'sample'"),
    ({"weight": -0.5}, "weight=-0.5: give a finite number from 0"),
    ({"seed": 1.5}, "seed=1.5: give an integer"),
    ({"streaming": "maybe"}, "streaming='maybe': give true or false"),
    ({"split": "test"}, "split='test': a file has no splits of its own, only 'train'"),
    ({"format": "parket"}, r"format='parket'.*did you mean 'parquet'"),
    ({"converter": "alpacca"}, r"'alpacca' \(did you mean 'alpaca'"),
    ({"on_error": "ignore"}, "on_error='ignore': give 'raise'"),
    ({"trust": 7}, "trust=7: give a number from 0 to 1"),
    ({"converter": "alpaca", "text": "b"}, "makes the texts itself: leave out text="),
    ({"file_name": "none.json"}, r"file_name='none.json': .*none.json does not exist"),
    ({"file_name": "data.bin"}, r"file_name='data.bin': .bin is no known form"),
    ({"file_name": None}, "give file_name or hf_hub_url; neither is given"),
    ({"hf_hub_url": "org/name"}, "give file_name or hf_hub_url; both are given"),
    ({"hf_hub_url": "name", "file_name": None}, "hf_hub_url='name': write org/name or"),
    ({"hf_hub_url": "o/n", "file_name": None, "format": "csv"}, "format='csv' is for files"),
    ({"hf_hub_url": "o/n", "file_name": None, "split": 3}, "split=3: give the name"),
    ({"encoding": "klingon"}, "encoding='klingon': no text encoding that Python"),
    ({"delimiter": ";"}, "delimiter=';': is for csv files, and these are json"),
    ({"file_name": "rows.csv", "quote": "ab"}, "quote='ab': give one character"),
    (
        {"file_name": "rows.parquet", "encoding": "latin-1"},
        "encoding='latin-1': is for csv and json and text files, and these are parquet",
    ),
    (
        {"hf_hub_url": "o/n", "file_name": None, "encoding": "latin-1"},
        "encoding='latin-1': is for csv and json and text files, and these are the Hub's",
    ),
    ({"file_name": "plain.txt", "text": "a"}, "text: lines of text have no columns"),
    ({"quality": "generel"}, "generel"),
    ({"quality": "no.toml"}, "no.toml"),
    ({"domain": "law"}, "domain='law': give one of general, medical, code"),
    ({"domain": "code", "quality": "c4"}, "beside quality='c4' leave it out"),
    ({"domain": "code", "quality": False}, "quality is off, and domain asks for gates"),
    ({"where": "trust >"}, "not a condition"),
    ({"size_mb": "big"}, "size_mb='big'"),
    ({"limit": -1}, "limit=-1"),
    ({"clean": "well"}, "clean='well': give one of on, off, text, code"),
]


def written(tables):
    """A YAML file of tables; a text that starts with a dot is a number."""
    lines = []
    for name, table in tables.items():
        lines.append(f"{name}:")
        for key, value in table.items():
            bare = isinstance(value, str) and value in (".nan", ".inf")
            lines.append(f"  {key}: {value if bare else json.dumps(value)}")
    return "\n".join(lines)


def test_a_wrong_value_is_refused_with_data_set_key_and_value(folder):
    (folder / "data.bin").write_text("x")
    for table, message in WRONG:
        with pytest.raises(SourceError, match=message) as caught:
            loaded(folder, written({"faq": {"file_name": "alpaca.json"} | table}))
        assert str(caught.value).startswith(f"{folder / 'data.yaml'}: data set 'faq': ")
        assert "\n" not in str(caught.value)


def test_every_line_is_a_record_and_blank_ones_are_counted(tmp_path):
    lines = [b"\xef\xbb\xbfone", b"", b" \t", "two\u2028halves".encode(), b"\xff", b"one", b"last"]
    (tmp_path / "a.txt").write_bytes(b"\r\n".join(lines))
    with dp.Corpus(tmp_path / "corpus.duckdb") as corpus:
        report = corpus.ingest(TextLinesSource(tmp_path / "a.txt", trust=0.7), progress=False)
        assert (report.read, report.added) == (7, 3)
        assert report.reasons["no text"] == 2
        assert report.reasons["invalid UTF-8"] == 1
        texts = corpus.sql("SELECT text FROM sections ORDER BY section_key")["text"].to_pylist()
        assert texts == ["one", "two\u2028halves", "last"]
        (source,) = corpus.sources().to_pylist()
        assert (source["name"], source["defaults"], source["trust"]) == ("a", "text", 0.7)


GOOD = "A plain sentence about the weather and the garden, number {}, long enough."
GATED = """
a: {file_name: a.jsonl, text: text, limit: 2, quality: q.toml}
b: {file_name: b.jsonl, text: text, quality: {language: false}, domain: medical}
c: {file_name: c.jsonl, text: text, quality: off, clean: off, size: 3}
d: {file_name: d.jsonl, text: text, meta: n, where: "meta['n'] = '3'"}
"""


@thorough
def test_gates_of_a_data_set_hold_for_it_alone(tmp_path):
    for name in "abcd":
        lines = [json.dumps({"text": GOOD.format(f"{name}{i}"), "n": i}) for i in range(5)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*lines, '{"text": "short"}']))
    (tmp_path / "q.toml").write_text("language = false\nmin_characters = 1\n")
    found = {each.name: each for each in loaded(tmp_path, GATED)}
    assert found["b"].gates["quality"].preset == "medical"
    assert (found["c"].gates, found["c"].clean) == ({"quality": None}, "off")
    sets = tmp_path / "data.yaml"
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        reports = corpus.ingest_data_sets(sets, progress=False)
        added = {name: report.added for name, report in reports.items()}
        assert added == {"a": 2, "b": 0, "c": 6, "d": 1}
        assert reports["a"].read == 2
    with dp.Corpus(tmp_path / "d.duckdb") as corpus:
        strict = {"quality": {"language": False, "min_characters": 99}, "limit": 4}
        reports = corpus.acquire(sets, progress=False, **strict)
        added = {name: report.added for name, report in reports.items()}
        assert added == {"a": 2, "b": 0, "c": 4, "d": 0}  # its own where; the others of the call
        corpus.normalise()
        for verb in (corpus.acquire, corpus.ingest_data_sets):
            with pytest.raises(SourceError, match=r"'c': clean='off': a corpus cleans .* normalis"):
                verb(sets, progress=False)
        wants = {"text": "text", "file_name": str(tmp_path / "a.jsonl"), "limit": 0}
        for clean in ("on", "text"):
            corpus.ingest_data_sets({"z": wants | {"clean": clean}}, progress=False)
        with pytest.raises(SourceError, match=r"clean='code'.*Normaliser\(code=True\)"):
            corpus.ingest_data_sets({"z": wants | {"clean": "code"}}, progress=False)


def test_text_in_other_encodings_and_with_other_marks(folder):
    (folder / "l.csv").write_bytes("t|b\né|'ü|ö'\n".encode("latin-1"))
    (folder / "q.tsv").write_text('t\tb\n"a\tc"\n')
    (folder / "u.jsonl").write_text('{"t": "é"}\n', "utf-16")
    (folder / "p.txt").write_bytes("é\n".encode("cp1252"))
    text = """
l: {file_name: l.csv, text: b, encoding: latin-1, delimiter: '|', quote: "'"}
q: {file_name: q.tsv, text: t, quote: "", delimiter: tab}
u: {file_name: u.jsonl, text: t, encoding: utf-16}
p: {file_name: p.txt, encoding: cp1252}
"""
    (folder / "data.yaml").write_text(text)
    with dp.Corpus(folder / "corpus.duckdb") as corpus:
        corpus.ingest_data_sets(folder / "data.yaml")
        batch = next(iter(corpus.read(range(4), batch_size=4, columns=["source", "text"])))
    texts = dict(zip(batch["source"], batch["text"], strict=True))
    assert texts == {"l": "ü|ö", "q": '"a', "u": "é", "p": "é"}


def test_a_mapping_says_the_same_as_a_file(folder, monkeypatch):
    tables = {
        "faq": {"file_name": "alpaca.json", "converter": "alpaca", "size": 10},
        "titles": {"file_name": "lines.jsonl", "anchor": "title", "positive": ("body",)},
        "chat": {"file_name": "chat.jsonl"},
    }
    (folder / "data.yaml").write_text(json.dumps(tables))  # which is YAML too
    expected = load_data_sets(folder / "data.yaml")
    tables["chat"]["file_name"] = Path("chat.jsonl")
    tables["titles"]["positive"] = ["body"]
    assert load_data_sets(tables, folder=folder) == expected
    monkeypatch.chdir(folder)
    assert load_data_sets(tables) == expected, "by default paths are those of the process"
