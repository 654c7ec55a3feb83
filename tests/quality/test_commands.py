"""The commands `ingest` through gates, and `quality`."""

import json

from commands import cli, error, ok, usage
from described import sources_file
from effort import thorough
from gated_rows import GOOD, written


@thorough
def test_text_is_taken_in_judged_and_told_of(tmp_path):
    corpus, quality = tmp_path / "c.duckdb", tmp_path / "q.toml"
    quality.write_text("language = false\nmin_characters = 60\n")
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    written(first, [{"text": GOOD.format(i), "license": "mit"} for i in range(3)])
    written(
        second, [{"text": GOOD.format(1), "license": "MIT"}, {"text": "short", "license": "gpl"}]
    )
    given = (corpus, first, second, "--text", "text", "--id", "id", "--quality", quality)
    out = ok("ingest", *given, "--where", "text <> 'x'", "--json")
    reports = [json.loads(line) for line in out.splitlines()]
    assert [(r["source"], r["added"], r["skipped"]) for r in reports] == [("a", 3, 0), ("b", 0, 2)]
    again = ok("ingest", *given, "--where", "text <> 'x'", "--json")
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
    would = json.loads(ok("quality", corpus, "--apply", loose, "--dry-run", "--json"))
    assert (would["newly_accepted"], would["dry_run"], would["version"]) == (1, True, 2)
    assert "schema: min_characters" in cli("quality", corpus, "--apply", loose).stderr
    assert json.loads(ok("quality", corpus, "--why", "b/1"))["outcome"] == "accepted"
    usage("quality", corpus, "--why", "b:2", "--against", "a")
    assert "where" in error("ingest", *given, "--where", "role = 'x'")


def test_gates_read_by_the_options_of_ingest_and_a_file_of_sources_by_its_own(tmp_path):
    corpus, sets = tmp_path / "c.duckdb", tmp_path / "sets.yaml"
    (tmp_path / "q.toml").write_text("language = false\nmin_characters = 10\n")
    table = tmp_path / "t.csv"
    lines = [f"q{i};{GOOD.format(i)};2020-01-0{i + 1};g" for i in range(3)]
    table.write_text("\n".join(["ask;answer;day;of", *lines]), encoding="latin-1")
    written(tmp_path / "a.jsonl", [GOOD.format(f"a{i}") for i in range(5)])
    written(tmp_path / "b.jsonl", ["tiny", GOOD.format("a1")])
    strict = {"language": False, "min_characters": 2}
    described = {
        "t": {"path": "t.csv", "anchor": "ask", "positive": "answer", "date": "day", "group": "of"}
        | {"delimiter": ";", "encoding": "latin-1", "trust": 0.9, "quality": "q.toml"},
        "a": {"path": "a.jsonl", "text": "text", "id": "id", "limit": 3, "size": 2},
        "b": {"path": "b.jsonl", "text": "text", "quality": strict},
    }
    sources_file(sets, described)
    out = ok("ingest", corpus, sets, "--quality", tmp_path / "q.toml", "--limit", "9", "--json")
    assert [json.loads(line)["added"] for line in out.splitlines()] == [3, 3, 1]
    assert "two sources have the name 't'" in error("ingest", corpus, sets, sets)
    sources_file(sets, {"a": described["a"] | {"quality": "generel"}})
    assert "generel" in error("ingest", corpus, sets)
    # A corpus that was made for nothing is not left.
    given = ("ingest", tmp_path / "new.duckdb", tmp_path / "a.jsonl", "--text", "text", "--quality")
    assert "generel" in error(*given, "generel")
    ok(*given, "code", "--limit", "0")
    assert not (tmp_path / "new.duckdb").exists()
