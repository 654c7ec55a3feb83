"""The commands `acquire`, `judge` and `quality`."""

from __future__ import annotations

import json
from pathlib import Path

from commands import cli, error, ok, usage
from gated_rows import GOOD, LONG, written


def test_text_is_taken_in_judged_and_told_of(tmp_path: Path) -> None:
    corpus, quality = tmp_path / "c.duckdb", tmp_path / "q.toml"
    quality.write_text("language = false\nmin_characters = 60\n")
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    written(first, [{"text": GOOD.format(i), "license": "mit"} for i in range(3)])
    written(
        second, [{"text": GOOD.format(1), "license": "MIT"}, {"text": "short", "license": "gpl"}]
    )
    given = (corpus, first, second, "--text", "text", "--id", "id", "--quality", quality)
    out = ok("acquire", *given, "--license", "mit", "--where", "text <> 'x'", "--json")
    reports = [json.loads(line) for line in out.splitlines()]
    assert [(r["source"], r["added"], r["skipped"]) for r in reports] == [("a", 3, 0), ("b", 0, 2)]
    again = ok("acquire", *given, "--license", "mit", "--where", "text <> 'x'", "--json")
    assert [json.loads(line)["read"] for line in again.splitlines()] == [0, 0]
    told = json.loads(ok("quality", corpus, "--json"))
    assert [(r["source"], r["outcome"], r["rule"], r["rows"]) for r in told] == [
        ("a", "accepted", None, 3),
        ("b", "rejected", "same text", 1),
        ("b", "rejected", "min_characters", 1),
    ]
    assert "same text" in ok("quality", corpus)
    assert json.loads(ok("quality", corpus, "--why", "b:2"))["text"] == "short"
    assert "no row 'b:9'" in error("quality", corpus, "--why", "b:9")
    assert "psi" in ok("quality", corpus, "--against", "1")
    loose = tmp_path / "loose.toml"
    loose.write_text("language = false\nmin_characters = 1\n")
    would = json.loads(ok("judge", corpus, "--quality", loose, "--dry-run", "--json"))
    assert (would["accepted"], would["dry_run"], would["version"]) == (1, True, 2)
    assert "→" in cli("judge", corpus, "--quality", loose).stderr
    assert json.loads(ok("quality", corpus, "--why", "b/1"))["outcome"] == "accepted"
    usage("quality", corpus, "--why", "b:2", "--against", "a")
    assert "--size-mb -1" in error("acquire", *given, "--size-mb", "-1")
    assert "--where" in error("acquire", *given, "--where", "role = 'x'")


def test_a_corpus_that_was_made_for_nothing_is_not_left(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    written(path, [LONG])
    assert "generel" in error(
        "acquire", tmp_path / "c.duckdb", path, "--text", "text", "--quality", "generel"
    )
    ok(
        "acquire",
        tmp_path / "c.duckdb",
        path,
        "--text",
        "text",
        "--quality",
        "code",
        "--limit",
        "0",
    )
    assert not (tmp_path / "c.duckdb").exists()
