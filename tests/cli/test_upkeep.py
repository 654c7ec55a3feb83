"""Looking after a corpus from the shell: what is not named stays, and removing asks first."""

import json
from pathlib import Path

import pytest
from commands import cli, error, lines, ok, usage
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.cli import maintenance
from duckplets.corpus import status as corpus_status

pytestmark = pytest.mark.usefixtures("pools_once")


@pytest.fixture
def toy(in_folder):
    toy_corpus(Path("toy.duckdb"), 40, sources=("toy", "other")).close()
    return "toy.duckdb"


def chunking(path):
    with dp.Corpus(path, read_only=True) as corpus:
        return dict(corpus.chunking().fingerprint())


def test_chunk_keeps_what_is_not_named(toy):
    ok("chunk", toy, "--max-tokens", "20", "--overlap", "2,4", "--denoise")
    first = chunking(toy)
    told = cli("chunk", toy, "--summary-weight", "0.5").stderr
    assert "overlap=[2, 4], summary_tokens=10, summary_weight=0.5" in told
    assert chunking(toy) == first | {"summary_weight": 0.5}
    ok("chunk", toy, "--max-tokens", "8")  # the summary follows, for nobody has chosen it
    assert (chunking(toy)["overlap"], chunking(toy)["summary_tokens"]) == ([2, 4], 4)
    ok("chunk", toy, "--summary-tokens", "3")
    ok("chunk", toy, "--max-tokens", "12", "--denoise", "--keep-tables")
    assert chunking(toy)["summary_tokens"] == 3
    with dp.Corpus(toy, read_only=True) as corpus:
        found = corpus.chunking()
        assert (found.max_tokens, found.overlap) == (12, (2, 4))
        assert found.preprocessors == (dp.Denoiser(strip_markdown=False),)
        assert corpus.chunking(overlap=(1,)).overlap == (1,)
    ok("chunk", toy, "--defaults", "--max-tokens", "30")
    assert chunking(toy) == dp.Chunking(max_tokens=30).fingerprint()


def test_terms_that_are_not_named_stay(toy):
    Path("stop.txt").write_text("river\nstone\n")
    told = cli("mine", toy, "--stemmer", "none", "--stop-words", "stop.txt")
    assert "terms: stemmer none, stop words 2" in told.stderr
    told = cli("mine", toy, "--stop-words", "none")
    assert "stemmer none, stop words 0" in told.stderr
    with dp.Corpus(toy, read_only=True) as corpus:
        assert corpus.terms() == dp.Terms(stemmer="none")


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
    assert "give --yes" in usage("remove", toy, "toy")
    monkeypatch.setattr(maintenance, "_can_ask", lambda: True)
    refused = cli("remove", toy, "toy", stdin="n\n")
    assert refused.exit_code == 1
    assert "toy has 40 records" in refused.stderr
    assert "go on drawing from it, as it was: tuesday" in refused.stderr
    assert [row["name"] for row in json.loads(ok("status", toy, "--json"))["sources"]] == [
        *("other", "toy")
    ]
    assert cli("remove", toy, "toy", stdin="").exit_code == 130  # Ctrl-C and Ctrl-D
    agreed = cli("remove", toy, "toy", stdin="y\n")
    assert "removed 40 records of toy; the corpus is at version 3" in agreed.stderr
    assert "duckplets compact toy.duckdb" in agreed.stderr
    assert "did you mean 'other'" in error("remove", toy, "othe", "--yes")
    ok("remove", toy, "other", "--yes")
    assert json.loads(ok("status", toy, "--json"))["sources"] == []


def test_pools_of_many_records_are_counted_when_somebody_asks(toy, monkeypatch):
    whole = json.loads(ok("status", toy, "--json"))
    assert (len(whole["pools"]), whole["uncounted"]) == (6, [])
    monkeypatch.setattr(corpus_status, "_LARGE", 20)
    found = json.loads(ok("status", toy, "--json"))
    assert found == whole | {
        "pools": [], "shared_anchors": {}, "uncounted": ["shared_anchors", "pools"]
    }  # fmt: skip
    assert "give --pools" in ok("status", toy)
    assert json.loads(ok("status", toy, "--json", "--pools")) == whole


def test_show_shows_records_and_samples(toy):
    rows = lines(ok("show", toy, "other", "--limit", "3", "--json"))
    assert [row["record_id"] for row in rows] == [f"other/r{i}" for i in (0, 0, 1, 1, 2, 2)]
    assert {row["role"] for row in rows} == {"anchor", "context"}
    assert {row["split"] for row in lines(ok("show", toy, "--split", "test", "--json"))} == {"test"}
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
    for wrong in (["toy", "--samples", "1"], ["--run", "mine", "--split", "test"]):
        usage("show", toy, *wrong)
    usage("show", toy, "--state", "x.duckdb")


def test_show_says_why_there_is_nothing_to_show():
    path = "c.duckdb"

    def said(*arguments):
        shown = cli("show", path, *arguments)
        assert (shown.exit_code, shown.stdout) == (0, "")
        return shown.stderr

    ok("ingest", path, "-", "--name", "s", "--text", "t", stdin='{"t": "text"}\n')
    told = said("--split", "test", "--json")
    assert f"the corpus has no splits yet; run: duckplets split {path}; without" in told
    with dp.Corpus(path) as corpus:
        corpus.split(1, 0, 0)
    assert said("--split", "test") == "no record of split test; there are: train 1\n"
    with dp.Corpus(path) as corpus:
        corpus.remove("s")
    assert said() == f"{path} has no records; add some: duckplets ingest {path} FILE\n"
