"""The verbs about text coming in, and the same from the command line."""

from pathlib import Path

import pytest
from commands import error, files, lines, ok, usage
from described import sources_file

import duckplets as dp

ROOT = Path(__file__).parent.parent.parent
FAQ = ROOT / "examples" / "data" / "faq.csv"
CHATS = ROOT / "examples" / "data" / "chats.jsonl"
SETS = ROOT / "examples" / "sources.yaml"


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def corpus():
    with dp.Corpus("c.duckdb") as corpus:
        yield corpus


def told(*arguments):
    """Run a command that prints JSON lines."""
    return lines(ok(*arguments))


def faq():
    return dp.sources.CsvSource(
        FAQ, anchor="question", positive="answer", date="updated", meta="topic"
    )


def prefixes(corpus):
    """Return the keys that are shown before texts, with what stands between them."""
    batch = corpus.sampler("texts", batch_size=64, columns=["text_prefix"]).batch_at(0)
    shown = [line for line in batch["text_prefix"] if line is not None]
    return {part.split("=")[0] for line in shown for part in line[len("meta: ") :].split(" | ")}


def test_a_prefix_is_set_later_and_a_run_keeps_its_own(corpus):
    corpus.ingest(faq(), progress=False, options=dp.IngestOptions(prefix="source, topic"))
    corpus.split()
    assert prefixes(corpus) == {"source", "topic"}
    before = corpus.sampler("texts", batch_size=64, run="before")
    first = before.batch_at(0).to_pydict()
    before.save()
    corpus.set_prefix("faq", dp.Prefix(1.0, [[dp.Field("desk", ["library", "town library"])]]))
    assert corpus.version == 2
    assert prefixes(corpus) == {"desk"}
    assert corpus.resume("before").batch_at(0).to_pydict() == first
    corpus.set_prefix("faq", None)
    assert prefixes(corpus) == set()


def test_wrong_arguments_are_refused_and_change_nothing(corpus):
    sources_file("sets.yaml", {"a": {"path": FAQ, "anchor": "question"}, "b": {"size": -1}})
    corpus.ingest(faq(), progress=False)
    field = dp.Prefix(1.0, [[dp.Field("desk", ["library"])]])
    wrong = [
        (
            lambda: corpus.ingest(faq(), options=dp.IngestOptions(prefix="source, tpic")),
            r"'tpic' \(did you mean 'topic'\?\)",
        ),
        (lambda: corpus.set_prefix("faq", "source, tpic"), r"'tpic' \(did you mean 'topic'\?\)"),
        (lambda: corpus.set_prefix("fqa", "source"), r"no source 'fqa' \(did you mean 'faq'\?\)"),
        (lambda: corpus.set_prefix(field, "faq"), "give the name of a source"),
        (lambda: corpus.ingest("sets.yaml"), "source 'b': size=-1"),
        (lambda: corpus.ingest("none.toml"), "there is no such file"),
    ]
    for call, message in wrong:
        with pytest.raises(dp.SourceError, match=message):
            call()
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(dp.SamplerError, match="weight="):
            corpus.set_index_controls("faq", weight=weight)
    assert corpus.version == 1


def test_data_sets_of_a_file_come_with_their_sizes_and_weights(corpus):
    reports = corpus.ingest(SETS, progress=False)
    assert {name: (r.read, r.added) for name, r in reports.items()} == {
        "chats": (12, 11),
        "faq": (60, 60),
    }
    index = corpus.data_index()
    assert index.counts() == {"chats": 22, "faq": 20}
    ids = [i for batch in corpus.read(index, batch_size=8) for i in batch["record_id"]]
    assert len(ids) == 42
    assert len(set(ids)) == 31
    corpus.set_index_controls("faq", size=5, weight=2.0)
    corpus.set_index_controls("chats", weight=0)
    assert corpus.data_index().counts() == {"chats": 0, "faq": 10}
    corpus.set_index_controls("faq")
    assert corpus.data_index().counts() == {"chats": 0, "faq": 60}


def test_the_commands_ingest_what_the_verbs_do():
    columns = ("--anchor", "question", "--positive", "answer", "--date", "updated")
    ok("ingest", "c.duckdb", str(FAQ), *columns)
    with dp.Corpus("c.duckdb") as corpus:
        corpus.set_prefix("faq", "source")
    ok("ingest", "c.duckdb", str(CHATS), *["--converter", "sharegpt", "--on-error", "quarantine"])
    ok("split", "c.duckdb")
    messages = ("--kind", "messages", "--batch-size", "1", "--mixture", "faq=0,chats=1")
    (first,) = told("sample", "c.duckdb", *messages)
    assert [m["role"] for m in first["messages"]][-1] == "assistant"
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        (found,) = corpus.sql("SELECT source, reason FROM quarantine").to_pylist()
    assert found["source"] == "chats"
    texts = ("--kind", "texts", "--batch-size", "64")
    shown = told("sample", "c.duckdb", *texts)
    assert any(row["text"].startswith("meta: source=faq\n") for row in shown)
    bare = told("sample", "c.duckdb", *texts, "--set", "prefixes=false")
    assert not any(row["text"].startswith("meta:") for row in bare)


def test_what_does_not_go_with_files_that_say_it_themselves():
    assert "SOURCE" in usage("ingest", "c.duckdb")
    assert "format=" in error("ingest", "c.duckdb", "hf://org/one", "--format", "csv")
    for given in (["--anchor", "q"], ["--name", "n"], ["--format", "csv"]):
        said = " ".join(usage("ingest", "c.duckdb", str(SETS), *given).split())
        assert "has the names, formats and columns of its sources" in said
    assert files() == set()
