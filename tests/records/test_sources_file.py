"""Files of sources: what they are read from, and all their mistakes at once."""

import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from described import sources_file
from effort import thorough

import duckplets as dp
from duckplets.errors import SourceError
from duckplets.order.copies import IndexControls
from duckplets.records.sources_file import load_sources
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


SEED = """
version = 1

[[source]]
name = "faq"
path = "alpaca.json"
converter = "alpaca"
size = 10

[[source]]
name = "titles"
path = "~/line*.jsonl"
columns = { anchor = "title", positive = ["body"] }
weight = 2.0
streaming = true
split = "train"

[[source]]
path = "chat.jsonl"
"""


def test_a_file_in_the_documented_form_becomes_sources_and_an_index(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    (folder / "sources.toml").write_text(SEED)
    described = load_sources(folder / "sources.toml")
    assert [d.name for d in described] == ["faq", "titles", "chat"]
    controls = [IndexControls(size=10), IndexControls(weight=2.0), IndexControls()]
    assert [d.controls for d in described] == controls
    assert [d.streaming for d in described] == [None, True, None]
    assert described[2].mapping == {"converter": "openai"}, "rows hold messages by default"
    assert described[1].source().in_pieces
    with dp.Corpus(folder / "corpus.duckdb") as corpus:
        corpus.ingest(folder / "sources.toml")
        found = {row["name"]: row["records"] for row in corpus.sources().to_pylist()}
        assert found == {"faq": 30, "titles": 20, "chat": 1}
        index = corpus.data_index()
        assert index.counts() == {"faq": 10, "titles": 40, "chat": 1}
        batch = next(iter(corpus.read(index, batch_size=100, columns=["source", "text"])))
        texts = {t for s, t in zip(batch["source"], batch["text"], strict=True) if s == "chat"}
        assert texts == {"Hi\n\nHo"}


def test_texts_of_one_source_may_stay_in_its_files(folder):
    tables = {
        "in": {"path": "rows.parquet", "anchor": "title", "positive": "body", "in_place": True},
        "csv": {"path": "rows.csv", "text": "body"},
    }
    with dp.Corpus(folder / "corpus.duckdb") as corpus:
        corpus.ingest(sources_file(folder / "s.yaml", tables))
        assert corpus.status()["in_place"]["files"] == 1


# Keys of a source whose other keys are right, and what is said about them.
WRONG = [
    ({"convertor": "alpaca"}, r"unknown key 'convertor' \(did you mean 'converter'"),
    ({"size": -5}, "size=-5: give an integer from 0"),
    ({"size_mode": "last"}, "size_mode='last': give 'first' or 'sample'"),
    ({"weight": -0.5}, "weight=-0.5: give a finite number from 0"),
    ({"seed": 1.5}, "seed=1.5: give an integer"),
    ({"streaming": "maybe"}, "streaming='maybe': give true or false"),
    ({"split": "test"}, "split='test': a file has only 'train'"),
    ({"format": "parket"}, r"format='parket'.*did you mean 'parquet'"),
    ({"converter": "alpacca"}, r"'alpacca' \(did you mean 'alpaca'"),
    ({"on_error": "ignore"}, "on_error='ignore': give 'raise'"),
    ({"trust": 7}, "trust=7: give a number from 0 to 1"),
    ({"converter": "alpaca", "text": "b"}, "makes the texts itself: leave out text="),
    ({"path": "none.json"}, r"path='none.json': .*none.json does not exist"),
    ({"path": "data.bin"}, r"path='data.bin': .bin is no known form"),
    ({"path": None}, "path=None: give a file, a folder, a glob or hf://org/name"),
    ({"path": "hf://name"}, "path='hf://name': .*write hf://org/name"),
    ({"path": "hf://o/n", "format": "csv"}, "format='csv' is for files"),
    ({"path": "hf://o/n", "split": 3}, "split=3: give the name"),
    ({"in_place": 3}, "in_place=3: give true or false"),
    ({"file_name": "x"}, "unknown key 'file_name'"),
    ({"anchr": "x"}, r"unknown key 'anchr'"),
    ({"encoding": "klingon"}, "encoding='klingon': no text encoding that Python"),
    ({"delimiter": ";"}, "delimiter=';': is for csv files, and these are json"),
    ({"path": "rows.csv", "quote": "ab"}, "quote='ab': give one character"),
    (
        {"path": "rows.parquet", "encoding": "latin-1"},
        "encoding='latin-1': is for csv and json and text files, and these are parquet",
    ),
    (
        {"path": "hf://o/n", "encoding": "latin-1"},
        "encoding='latin-1': is for csv and json and text files, and these are the Hub's",
    ),
    ({"path": "plain.txt", "text": "a"}, "text: lines of text have no columns"),
    ({"quality": "generel"}, "generel"),
    ({"quality": "no.toml"}, "no.toml"),
    ({"where": "trust >"}, "not a condition"),
    ({"size_mb": "big"}, "size_mb='big'"),
    ({"limit": -1}, "limit=-1"),
]


def test_a_wrong_value_is_refused_with_source_key_and_value(folder):
    (folder / "data.bin").write_text("x")
    for table, message in WRONG:
        path = sources_file(folder / "data.yaml", {"faq": {"path": "alpaca.json"} | table})
        with pytest.raises(SourceError, match=message) as caught:
            load_sources(path)
        assert str(caught.value).startswith(f"{folder / 'data.yaml'}: source 'faq': ")
        assert "\n" not in str(caught.value)


WRONG_FILES = {
    "faq = { file_name = 'a.json' }": "describes no source: write [[source]] tables",
    "version = 2\n[[source]]\npath = 'alpaca.json'": "version=2: this duckplets reads version 1",
    "sorce = 1\n[[source]]\npath = 'alpaca.json'": "unknown key 'sorce'",
    "[[source]]\npath = 'alpaca.json'\nanchor = 'q'": "key 'anchor'; write columns = { … }",
    "[[source]]\npath = 'alpaca.json'\nlimit = 3": "key 'limit'; write gates = { … }",
    "[[source]]\npath = 'rows.csv'\ncolumns = { txt = 'q' }": "(did you mean 'text'?)",
    "[[source]]\npath = 'rows.csv'\ncolumns = 3": "give a table of columns, not 3",
}


def test_a_wrong_file_is_refused_with_the_right_form(folder):
    for text, said in WRONG_FILES.items():
        (folder / "sources.toml").write_text(text)
        with pytest.raises(SourceError) as caught:
            load_sources(folder / "sources.toml")
        assert said in str(caught.value), text


def test_every_line_is_a_record_and_blank_ones_are_counted(tmp_path):
    lines = [b"\xef\xbb\xbfone", b"", b" \t", "two\u2028halves".encode(), b"\xff", b"one", b"last"]
    (tmp_path / "a.txt").write_bytes(b"\r\n".join(lines))
    with dp.Corpus(tmp_path / "corpus.duckdb") as corpus:
        report = corpus.ingest(TextLinesSource(tmp_path / "a.txt", trust=0.7))
        assert (report.read, report.added) == (7, 3)
        assert report.reasons["no text"] == 2
        assert report.reasons["invalid UTF-8"] == 1
        texts = corpus.sql("SELECT text FROM sections ORDER BY section_key")["text"].to_pylist()
        assert texts == ["one", "two\u2028halves", "last"]
        (source,) = corpus.sources().to_pylist()
        assert (source["name"], source["defaults"], source["trust"]) == ("a", "text", 0.7)


GOOD = "A plain sentence about the weather and the garden, number {}, long enough."
GATED = {
    "a": {"path": "a.jsonl", "text": "text", "limit": 2, "quality": "q.toml"},
    "b": {"path": "b.jsonl", "text": "text"}
    | {"quality": {"preset": "medical", "language": False}},
    "c": {"path": "c.jsonl", "text": "text", "quality": False, "size": 3},
    "d": {"path": "d.jsonl", "text": "text", "meta": "n", "where": "meta['n'] = '3'"},
}


@thorough
def test_gates_of_a_source_hold_for_it_alone(tmp_path):
    for name in "abcd":
        lines = [json.dumps({"text": GOOD.format(f"{name}{i}"), "n": i}) for i in range(5)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*lines, '{"text": "short"}']))
    (tmp_path / "q.toml").write_text("language = false\nmin_characters = 1\n")
    sets = sources_file(tmp_path / "data.yaml", GATED)
    found = {each.name: each for each in load_sources(sets)}
    assert found["b"].gates["quality"].preset == "medical"
    assert found["c"].gates == {"quality": None}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        reports = corpus.ingest(sets)
        added = {name: report.added for name, report in reports.items()}
        assert added == {"a": 2, "b": 0, "c": 6, "d": 1}
        assert reports["a"].read == 2
    with dp.Corpus(tmp_path / "d.duckdb") as corpus:
        strict = {"quality": {"language": False, "min_characters": 99}, "limit": 4}
        reports = corpus.ingest(sets, **strict)
        added = {name: report.added for name, report in reports.items()}
        assert added == {"a": 2, "b": 0, "c": 4, "d": 0}  # its own where; the others of the call


def test_text_in_other_encodings_and_with_other_marks(folder):
    (folder / "l.csv").write_bytes("t|b\né|'ü|ö'\n".encode("latin-1"))
    (folder / "q.tsv").write_text('t\tb\n"a\tc"\n')
    (folder / "u.jsonl").write_text('{"t": "é"}\n', "utf-16")
    (folder / "p.txt").write_bytes("é\n".encode("cp1252"))
    tables = {
        "l": {"path": "l.csv", "text": "b", "encoding": "latin-1", "delimiter": "|", "quote": "'"},
        "q": {"path": "q.tsv", "text": "t", "quote": "", "delimiter": "tab"},
        "u": {"path": "u.jsonl", "text": "t", "encoding": "utf-16"},
        "p": {"path": "p.txt", "encoding": "cp1252"},
    }
    sources_file(folder / "data.yaml", tables)
    with dp.Corpus(folder / "corpus.duckdb") as corpus:
        corpus.ingest(folder / "data.yaml")
        batch = next(iter(corpus.read(range(4), batch_size=4, columns=["source", "text"])))
    texts = dict(zip(batch["source"], batch["text"], strict=True))
    assert texts == {"l": "ü|ö", "q": '"a', "u": "é", "p": "é"}
