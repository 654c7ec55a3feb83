"""Looking after a corpus from the shell: what is not named stays, and removing asks first."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, error, lines, ok, usage
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.cli import maintenance
from duckplets.corpus import status as corpus_status
from duckplets.ingest.chunks import current_chunking
from duckplets.search.index import terms_of

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture
def toy(in_folder):
    toy_corpus(Path("toy.duckdb"), 40, sources=("toy", "other")).close()
    return "toy.duckdb"


def settings(path):
    with dp.Corpus(path, read_only=True) as corpus:
        return current_chunking(corpus.database)


def test_chunk_keeps_settings_that_are_not_named(toy):
    with dp.Corpus(toy) as corpus:
        corpus.chunk(max_tokens=20, overlap=(2, 4), denoise=True)
        first = current_chunking(corpus.database)
        corpus.chunk(summary_weight=0.5)
        assert current_chunking(corpus.database) == replace(first, summary_weight=0.5)
        corpus.chunk(max_tokens=8)  # the summary follows, for nobody has chosen it
        found = current_chunking(corpus.database)
        assert (found.overlap, found.summary_tokens) == ((2, 4), 4)
        corpus.chunk(summary_tokens=3)
        corpus.chunk(max_tokens=12, denoise=dp.plugins.Denoiser(strip_markdown=False))
        found = current_chunking(corpus.database)
        assert (found.max_tokens, found.overlap, found.summary_tokens) == (12, (2, 4), 3)
        assert found.preprocessors == (dp.plugins.Denoiser(strip_markdown=False),)
        corpus.chunk(normalise="code")
        cleaners = (*found.preprocessors, dp.plugins.Normaliser(code=True))
        assert current_chunking(corpus.database).preprocessors == cleaners
        for wrong in ({"max_token": 3}, {"denoise": 3}, {"normalise": "words"}):
            with pytest.raises(dp.errors.ChunkingError):
                corpus.chunk(**wrong)
        with pytest.raises(dp.errors.ChunkingError, match=r"give it to Chunking\("):
            corpus.chunk(dp.Chunking(), max_tokens=3)
        corpus.chunk(dp.Chunking(max_tokens=30))
        assert current_chunking(corpus.database) == dp.Chunking(max_tokens=30)


def test_a_new_corpus_is_cut_as_its_first_ingest_says(toy):
    Path("rows.jsonl").write_text('{"t": "one two three"}\n')
    ok("ingest", "new.duckdb", "rows.jsonl", "--text", "t", "--max-tokens", "2")
    assert settings("new.duckdb") == dp.Chunking(max_tokens=2)
    ok("ingest", "new.duckdb", "rows.jsonl", "--text", "t", "--max-tokens", "2")
    said = error("ingest", "new.duckdb", "rows.jsonl", "--text", "t", "--max-tokens", "3")
    assert "call Corpus.chunk(max_tokens=3)" in said


def test_terms_that_are_not_named_stay(toy):
    with dp.Corpus(toy) as corpus:
        corpus.mine(terms=dp.Terms(stop_words=["river"]), source="toy", split="test")
    ok("mine", toy, "--stemmer", "none", "--source", "toy", "--split", "test")
    with dp.Corpus(toy, read_only=True) as corpus:
        assert terms_of(corpus.database) == dp.Terms(stemmer="none", stop_words=["river"])


def test_split_says_what_is_shared_and_what_was_not_named(toy):
    told = cli("split", toy, "--train", "0.5", "--reassign")
    assert "asked 50/25/25, got 50/25/25" in told.stderr
    assert "validation: 0 of " in told.stderr
    rows = [json.dumps({"i": str(i), "t": f"text {i % 9}"}) + "\n" for i in range(60)]
    Path("rows.jsonl").write_text("".join(rows))
    ok("ingest", toy, "rows.jsonl", "--id", "i", "--text", "t")
    told = cli("split", toy, "--train", "0.5")
    assert "anchors are anchors of train too (" in told.stderr
    assert "--keep-together text --reassign" in told.stderr
    assert "anchors of train too (" in ok("status", toy)
    told = cli("split", toy, "--train", "0.5", "--keep-together", "text", "--reassign")
    assert "test: 0 of " in told.stderr
    assert json.loads(ok("status", toy, "--json"))["shared_anchors"]["test"]["shared"] == 0


def test_remove_asks_says_who_draws_and_removes(toy, monkeypatch):
    with dp.Corpus(toy) as corpus, corpus.sampler(batch_size=4, run="tuesday") as sampler:
        next(sampler)
        sampler.save()
    assert "add --yes" in usage("remove", toy, "toy")
    monkeypatch.setattr(maintenance, "_can_ask", lambda: True)
    refused = cli("remove", toy, "toy", stdin="n\n")
    assert refused.exit_code == 1
    assert "toy has 40 records" in refused.stderr
    assert "continue to draw from it: tuesday" in refused.stderr
    assert [row["name"] for row in json.loads(ok("status", toy, "--json"))["sources"]] == [
        *("other", "toy")
    ]
    assert cli("remove", toy, "toy", stdin="").exit_code == 130  # Ctrl-C and Ctrl-D
    agreed = cli("remove", toy, "toy", stdin="y\n")
    assert "removed 40 records of toy; the corpus is at version 3" in agreed.stderr
    assert "duckplets prepare toy.duckdb --compact" in agreed.stderr
    assert "did you mean 'other'" in error("remove", toy, "othe", "--yes")
    ok("remove", toy, "other", "--yes")
    assert json.loads(ok("status", toy, "--json"))["sources"] == []


def test_pools_of_many_records_are_counted_when_somebody_asks(toy, monkeypatch):
    whole = json.loads(ok("status", toy, "--json"))
    assert (len(whole["pools"]), whole["uncounted"]) == (6, [])
    monkeypatch.setattr(corpus_status, "_LARGE", 20)
    found = json.loads(ok("status", toy, "--json"))
    assert found == whole | {
        "pools": [], "shared_anchors": {}, "capacity": [], "uncounted": ["shared_anchors", "pools"]
    }  # fmt: skip
    assert "call Corpus.status(pools=True)" in ok("status", toy)
    with dp.Corpus(toy, read_only=True) as corpus:
        assert corpus.status(pools=True)["pools"] == whole["pools"]


def test_show_shows_records_and_samples(toy):
    rows = lines(ok("show", toy, "other", "--limit", "3", "--json"))
    assert [row["record_id"] for row in rows] == [f"other/r{i}" for i in (0, 0, 1, 1, 2, 2)]
    assert {row["role"] for row in rows} == {"anchor", "context"}
    assert rows[0]["text"] in ok("show", toy, "other", "--limit", "1")
    with dp.Corpus(toy, read_only=True) as corpus:
        with corpus.sampler(batch_size=4, run="mine", seed=3) as sampler:
            next(sampler)
            sampler.save()
            expected = next(sampler).to_pylist() + next(sampler).to_pylist()
        first = next(corpus.sampler(batch_size=2)).to_pylist()
    for _ in range(2):  # nothing has moved
        assert lines(ok("show", toy, "--run", "mine", "--samples", "7", "--json")) == expected[:7]
    assert lines(ok("show", toy, "--samples", "2", "--json")) == first
    told = ok("show", toy, "--run", "mine")
    assert expected[2]["anchor"] in told
    assert "did you mean 'other'" in error("show", toy, "othr")
    usage("show", toy, "toy", "--samples", "1")


def test_show_says_why_there_is_nothing_to_show():
    path = "c.duckdb"

    def said(*arguments):
        shown = cli("show", path, *arguments)
        assert (shown.exit_code, shown.stdout) == (0, "")
        return shown.stderr

    ok("ingest", path, "-", "--name", "s", "--text", "t", stdin='{"t": "text"}\n')
    with dp.Corpus(path) as corpus:
        corpus.remove("s")
    assert said() == f"{path} has no records; add some: duckplets ingest {path} FILE\n"


def test_prepare_rewrites_texts_left_in_place(tmp_path):
    rows = [{"q": f"question {n}", "a": f"the answer to it, {n}"} for n in range(60)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", compression="zstd")
    corpus = tmp_path / "c.duckdb"
    mapping = ("--anchor", "q", "--positive", "a", "--in-place")
    assert cli("ingest", corpus, tmp_path / "a.parquet", *mapping).exit_code == 0
    assert cli("split", corpus).exit_code == 0
    result = cli("prepare", corpus, "--rewrite")
    assert result.exit_code == 0, result.stderr
    assert "the texts lie in c.texts beside the corpus: copy and move both" in result.stderr
    (tmp_path / "a.parquet").unlink()
    again = cli("prepare", corpus, "--rewrite")
    assert (again.exit_code, "c.texts" in again.stderr) == (0, False)
    assert "the answer to it, " in ok("show", corpus)
