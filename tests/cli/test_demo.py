from __future__ import annotations

from pathlib import Path

import pytest
from effort import often
from programs import said

from duckplets.cli.demo import docstrings, topics, walk
from duckplets.corpus.corpus import Corpus


def test_topics_have_a_title_and_a_text() -> None:
    found = topics()
    assert len(found) > 50
    assert len({row["topic"] for row in found}) == len(found)
    for row in found:
        assert row["title"]
        assert "\n" not in row["title"]
        assert row["text"]
        assert row["text"][0] not in "*=-~"


def test_docstrings_are_of_public_names_and_show_no_addresses() -> None:
    found = docstrings()
    assert len(found) > 1000
    names = [row["name"] for row in found]
    assert names == sorted(set(names))
    for row in found:
        assert row["doc"]
        assert row["signature"].startswith(row["name"])
        assert row["name"].startswith(f"{row['module']}.")
        assert not row["name"].rpartition(".")[2].startswith("_")
        assert " at 0x" not in row["signature"]


def test_the_text_is_the_same_in_every_process() -> None:
    code = "from duckplets.cli.demo import docstrings, topics; print([topics(), docstrings()])"
    runs = [
        said("-W", "error", "-X", "utf8", "-c", code, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def test_the_walk_resumes_with_the_batch_of_the_unbroken_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    fewer = docstrings()[:: often(1, less=16)]
    topical = topics()[:: often(1, less=8)]
    monkeypatch.setattr("duckplets.cli.demo.docstrings", lambda: fewer)
    monkeypatch.setattr("duckplets.cli.demo.topics", lambda: topical)
    found = walk(tmp_path / "demo.duckdb", told.append)
    assert found.equal
    assert found.step == 1
    assert found.resumed.step == found.unbroken.step == 1
    assert found.reports["topics"].added == len(topical)
    assert found.reports["docstrings"].added == len(fewer)
    stages = ["ingest", "ingest", "split", "mine", "sample", "save", "resume"]
    assert found.mined.candidates > 6 * len(fewer)
    assert "bm25" in found.batch["negative_by"]
    assert [line.partition(":")[0] for line in told if line[0] != " "] == stages
    described = [line for line in told if line[0] == " "]
    assert any("anchor_context" in line and "negatives mined" in line for line in described)
    assert any("swap off" in line for line in described)
    with Corpus(tmp_path / "demo.duckdb", read_only=True) as corpus:
        assert corpus.sources()["name"].to_pylist() == ["docstrings", "topics"]
        assert sum(found.splits.values()) == sum(corpus.sources()["records"].to_pylist())
