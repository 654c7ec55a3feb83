"""The verbs about text coming in, and the same from the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import cli, error, files, lines, ok, usage
from effort import often, thorough
from hub_server import Hub

import duckplets as dp

ROOT = Path(__file__).parent.parent.parent
FAQ = ROOT / "examples" / "data" / "faq.csv"
CHATS = ROOT / "examples" / "data" / "chats.jsonl"
SETS = ROOT / "examples" / "data_sets.yaml"
NOISE = "Chapter one\n1234 5678\n| a | b |\n|---|---|\n| 1 | cell |\nThe end"
CLEAN = "Chapter one\na b\n1 cell\nThe end"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DUCKPLETS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def corpus() -> Iterator[dp.Corpus]:
    with dp.Corpus("c.duckdb") as corpus:
        yield corpus


def told(*arguments: str) -> list[dict[str, Any]]:
    """Run a command that prints JSON lines."""
    return lines(ok(*arguments))


def faq() -> dp.CsvSource:
    return dp.CsvSource(FAQ, anchor="question", positive="answer", date="updated", meta="topic")


def prefixes(corpus: dp.Corpus) -> set[str]:
    """Return the keys that are shown before texts, with what stands between them."""
    batch = corpus.sampler("texts", batch_size=64, columns=["text_prefix"]).batch_at(0)
    shown = [line for line in batch["text_prefix"] if line is not None]
    return {part.split("=")[0] for line in shown for part in line[len("meta: ") :].split(" | ")}


# ---- prefixes


def test_a_prefix_is_given_with_an_ingest(corpus: dp.Corpus) -> None:
    corpus.ingest(faq(), prefix="source, topic", progress=False)
    corpus.split()
    assert prefixes(corpus) == {"source", "topic"}
    off = corpus.sampler("texts", batch_size=64, prefixes=False, columns=["text_prefix"])
    assert set(off.batch_at(0)["text_prefix"]) == {None}


def test_a_prefix_is_set_later_and_a_run_keeps_its_own(corpus: dp.Corpus) -> None:
    corpus.ingest(faq(), progress=False)
    corpus.split()
    before = corpus.sampler("texts", batch_size=64, run="before")
    first = before.batch_at(0).to_pydict()
    before.save()
    corpus.set_prefix("faq", dp.Prefix(1.0, [[dp.Field("desk", ["library", "town library"])]]))
    assert corpus.version == 2
    assert prefixes(corpus) == {"desk"}
    assert corpus.resume("before").batch_at(0).to_pydict() == first
    corpus.set_prefix("faq", None)
    assert prefixes(corpus) == set()


def test_a_prefix_of_a_column_that_is_not_there_is_refused(corpus: dp.Corpus) -> None:
    message = r"'tpic' \(did you mean 'topic'\?\)"
    with pytest.raises(dp.SourceError, match=message):
        corpus.ingest(faq(), prefix="source, tpic", progress=False)
    assert corpus.version == 0
    corpus.ingest(faq(), progress=False)
    with pytest.raises(dp.SourceError, match=message):
        corpus.set_prefix("faq", "source, tpic")
    assert corpus.version == 1


def test_prefixes_are_set_of_sources_that_are_there(corpus: dp.Corpus) -> None:
    corpus.ingest(faq(), progress=False)
    with pytest.raises(dp.SourceError, match=r"no source 'fqa' \(did you mean 'faq'\?\)"):
        corpus.set_prefix("fqa", "source")
    with pytest.raises(dp.SourceError, match="give the name of a source"):
        corpus.set_prefix(dp.Prefix(1.0, [[dp.Field("desk", ["library"])]]), "faq")  # type: ignore


# ---- data sets, sizes and weights


def test_data_sets_of_a_file_come_with_their_sizes_and_weights(corpus: dp.Corpus) -> None:
    reports = corpus.ingest_data_sets(SETS, progress=False)
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


def test_nothing_is_read_where_a_file_of_data_sets_is_wrong(corpus: dp.Corpus) -> None:
    Path("sets.yaml").write_text(f"a: {{file_name: {FAQ}, anchor: question}}\nb: {{size: -1}}\n")
    with pytest.raises(dp.SourceError, match="data set 'b': size=-1"):
        corpus.ingest_data_sets("sets.yaml")
    assert corpus.version == 0


@pytest.mark.parametrize("read", [dp.load_data_sets, dp.read_hub_list])
def test_what_is_no_path_is_refused(read: Any) -> None:
    with pytest.raises(dp.SourceError, match="path=None: give the path"):
        read(None)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(corpus: dp.Corpus, weight: float) -> None:
    corpus.ingest(faq(), progress=False)
    with pytest.raises(dp.SamplerError, match="weight="):
        corpus.set_index_controls("faq", weight=weight)


def test_a_read_only_corpus_takes_nothing_in(corpus: dp.Corpus) -> None:
    corpus.close()
    with dp.Corpus("c.duckdb", read_only=True) as shared:
        for verb, arguments in {
            "ingest": [faq()],
            "ingest_data_sets": [SETS],
            "set_prefix": ["faq", None],
            "set_index_controls": ["faq"],
            "denoise": [],
            "remove": ["faq"],
        }.items():
            with pytest.raises(dp.DuckpletsError, match="read-only"):
                getattr(shared, verb)(*arguments)


# ---- clean texts


def test_denoising_keeps_the_other_settings(corpus: dp.Corpus) -> None:
    corpus.chunk(dp.Chunking(max_tokens=5, overlap=(1,)))
    corpus.ingest(dp.MemorySource([{"text": NOISE}], text="text"), progress=False)
    assert corpus.denoise() == 1
    assert corpus.sql("SELECT text FROM section_texts")["text"].to_pylist() == [CLEAN]
    assert corpus.status()["chunking"]["max_tokens"] == 5
    assert corpus.status()["cleaned"]["sections changed"] == 1
    assert corpus.denoise(dp.Denoiser(strip_markdown=False)) == 1
    assert "| a | b |" in corpus.sql("SELECT text FROM section_texts")["text"][0].as_py()


# ---- the command line


def test_the_commands_ingest_what_the_verbs_do() -> None:
    ok(
        "ingest",
        "c.duckdb",
        str(FAQ),
        *["--anchor", "question", "--positive", "answer", "--date", "updated"],
    )
    ok("ingest", "c.duckdb", str(CHATS), *["--converter", "sharegpt", "--on-error", "quarantine"])
    ok("ingest", "p.duckdb", str(FAQ), *["--text", "answer", "--prefix", "source"])
    ok("split", "c.duckdb")
    ok("split", "p.duckdb")
    (first,) = told("sample", "c.duckdb", *["--kind", "messages", "--batch-size", "1"], *MIX)
    assert [m["role"] for m in first["messages"]][-1] == "assistant"
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        (found,) = corpus.sql("SELECT source, reason FROM quarantine").to_pylist()
    assert found["source"] == "chats"
    shown = told("sample", "p.duckdb", *["--kind", "texts", "--batch-size", "64"])
    assert any(row["text"].startswith("meta: source=faq\n") for row in shown)
    bare = told("sample", "p.duckdb", *["--kind", "texts", "--batch-size", "64", "--no-prefixes"])
    assert not any(row["text"].startswith("meta:") for row in bare)


MIX = ("--mixture", "faq=0,chats=1")


def test_a_file_of_data_sets_is_a_source() -> None:
    reports = told("ingest", "c.duckdb", str(SETS), "--json")
    assert [row["source"] for row in reports] == ["chats", "faq"]


def test_texts_are_cleaned_from_the_command_line() -> None:
    Path("noise.jsonl").write_text(json.dumps({"text": NOISE}) + "\n")
    noise = [{"text": NOISE, "more": "12 34"}]
    Path("two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in noise))
    said = ok(
        "ingest", "two.duckdb", "two.jsonl", *["--text", "text", "--context", "more"], "--denoise"
    )
    assert "1 section dropped by denoiser" in said
    ok("ingest", "c.duckdb", "noise.jsonl", "--text", "text", "--denoise")
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        assert corpus.sql("SELECT text FROM section_texts")["text"].to_pylist() == [CLEAN]
    assert "cleaned   1 sections changed" in ok("status", "c.duckdb")
    ok("chunk", "c.duckdb", "--denoise", "--keep-tables")
    ok("chunk", "c.duckdb", "--defaults")
    with dp.Corpus("c.duckdb", read_only=True) as corpus:
        assert corpus.sql("SELECT text FROM section_texts")["text"].to_pylist() == [NOISE]
    assert "--denoise" in usage("chunk", "c.duckdb", "--keep-tables")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    rows = [{"q": f"question {i}", "a": f"answer {i}"} for i in range(40)]
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    with Hub() as hub:
        hub.add("org/one", {"train.jsonl": data})
        hub.add("org/two", {"train.jsonl": data})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def test_a_list_of_data_sets_on_the_hub(hub: Hub) -> None:
    Path("sources.txt").write_text(
        "# ours\nhf://org/one anchor=q positive=a\nhf://org/two text=q\n"
    )
    reports = told("ingest", "c.duckdb", "--list", "sources.txt", "--json")
    assert [(row["source"], row["added"]) for row in reports] == [
        ("org--one", 40),
        ("org--two", 40),
    ]
    again = told("ingest", "c.duckdb", "hf://org/one", "anchor=q", "positive=a", "--json")
    assert [(row["source"], row["added"], row["skipped"]) for row in again] == [("org--one", 0, 40)]
    by_options = told("ingest", "d.duckdb", "hf://org/two", *["--text", "a", "--id", "q", "--json"])
    assert by_options[0]["added"] == 40


def test_what_is_wrong_with_a_line_of_the_hub(hub: Hub) -> None:
    Path("sources.txt").write_text("hf://org/one anchor=q\nhf://org/two txt=q\n")
    said = error("ingest", "c.duckdb", "--list", "sources.txt")
    assert "sources.txt:2" in said
    assert "did you mean 'text'?" in said
    assert "give a SOURCE, or a --list" in usage("ingest", "c.duckdb")
    assert "format=" in error("ingest", "c.duckdb", "hf://org/one", "--format", "csv")
    for given in (["--anchor", "q"], ["--name", "n"], ["--format", "csv"], ["--trust", "1"]):
        assert "says itself" in usage("ingest", "c.duckdb", str(SETS), *given)
        assert "says itself" in usage("ingest", "c.duckdb", "--list", "sources.txt", *given)
    assert files() == {"sources.txt"}


@thorough
def test_an_unfinished_ingest_goes_on_or_is_discarded(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckplets.sources.remote.download._FIRST_WAIT", 0.01)
    monkeypatch.setattr("duckplets.ingest.ingest._ROWS_A_COMMIT", 1000)
    monkeypatch.setattr("duckplets.ingest.ingest._TIMES_A_COMMIT", 0)
    monkeypatch.setattr("duckplets.sources.row_batches.MAX_ROWS", 700)
    line = ("hf://org/one", "anchor=q", "positive=a")
    rows = [{"q": f"q {i}", "a": f"a {i}"} for i in range(often(20_000, less=10_000))]
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    hub.add(
        "org/one", {"train-00000.jsonl": data, "train-00001.jsonl": data[: len(data) // 2 + 99]}
    )
    hub.fail("train-00001", times=99, status=500)
    assert "goes on where it stopped" in error("ingest", "c.duckdb", *line)
    assert "unfinished ingests" in ok("status", "c.duckdb")
    assert "unfinished ingest of org--one" in ok("doctor", "c.duckdb")
    shutil.copy("c.duckdb", "d.duckdb")
    hub.faults.clear()
    went_on = told("ingest", "c.duckdb", *line, "--json")[0]
    anew = told("ingest", "d.duckdb", *line, "--restart", "--json")[0]
    same = ("read", "added", "skipped", "failed", "reasons", "version")
    assert {n: went_on[n] for n in same} == {n: anew[n] for n in same}
    assert "unfinished" not in ok("status", "c.duckdb")
    assert cli("ingest", "c.duckdb", *line).exit_code == 0
