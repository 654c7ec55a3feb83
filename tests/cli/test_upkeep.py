"""Looking after a corpus from the shell: what is not named stays, and removing asks first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import cli, error, ok, usage
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.cli import upkeep


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    toy_corpus(Path("toy.duckdb"), 40, sources=("toy", "other")).close()
    return "toy.duckdb"


def chunking(path: str) -> dict[str, object]:
    return dict(json.loads(ok("status", path, "--json"))["chunking"])


def test_chunk_keeps_what_is_not_named(toy: str) -> None:
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
        with pytest.raises(dp.ChunkingError, match=r"unknown chunking setting 'overlaps'"):
            corpus.chunking(overlaps=(1,))
    ok("chunk", toy, "--defaults", "--max-tokens", "30")
    assert chunking(toy) == dp.Chunking(max_tokens=30).fingerprint()


def test_index_keeps_what_is_not_named(toy: str) -> None:
    Path("stop.txt").write_text("river\nstone\n")
    told = cli("index", toy, "--stemmer", "none", "--stop-words", "stop.txt")
    assert "terms: stemmer none, stop words 2" in told.stderr
    assert "stemmer none, stop words 0" in cli("index", toy, "--stop-words", "none").stderr
    ok("index", toy, "--stop-words", "stop.txt", "--source", "toy")
    with dp.Corpus(toy, read_only=True) as corpus:
        assert corpus.terms("toy") == dp.Terms(stemmer="none", stop_words=("river", "stone"))
        assert corpus.terms() == corpus.terms("other") == dp.Terms(stemmer="none")


def test_split_says_what_is_shared_and_what_was_not_named(toy: str) -> None:
    told = cli("split", toy, "--train", "0.5", "--reassign")
    assert "shares: train 0.5, validation 0.25, test 0.25" in told.stderr
    assert "validation: 0 of " in told.stderr
    ok(
        "ingest",
        toy,
        write([{"i": str(i), "t": f"text {i % 9}"} for i in range(60)]),
        "--id",
        "i",
        "--text",
        "t",
    )
    told = cli("split", toy, "--train", "0.5")
    assert "anchors are anchors of train too (" in told.stderr
    assert "--keep-together text --reassign" in told.stderr
    assert "anchors of train too (" in ok("status", toy)
    told = cli("split", toy, "--train", "0.5", "--keep-together", "text", "--reassign")
    assert "test: 0 of " in told.stderr
    assert json.loads(ok("status", toy, "--json"))["shared_anchors"]["test"]["shared"] == 0


def write(rows: list[dict[str, str]]) -> str:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "rows.jsonl"


def test_remove_asks_says_who_draws_and_removes(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with dp.Corpus(toy) as corpus, corpus.sampler(batch_size=4, run="tuesday") as sampler:
        next(sampler)
        sampler.save()
    assert "give --yes" in usage("remove", toy, "toy")
    monkeypatch.setattr(upkeep, "_can_ask", lambda: True)
    refused = cli("remove", toy, "toy", stdin="n\n")
    assert refused.exit_code == 1
    assert "toy has 40 records" in refused.stderr
    assert "go on drawing from it, as it was: tuesday" in refused.stderr
    assert [row["name"] for row in json.loads(ok("status", toy, "--json"))["sources"]] == [
        *("other", "toy")
    ]
    agreed = cli("remove", toy, "toy", stdin="y\n")
    assert "removed 40 records of toy; the corpus is at version 3" in agreed.stderr
    assert "duckplets compact toy.duckdb" in agreed.stderr
    assert "did you mean 'other'" in error("remove", toy, "othe", "--yes")
    ok("remove", toy, "other", "--yes")
    assert json.loads(ok("status", toy, "--json"))["sources"] == []
