"""The commands `ingest` through gates, and `quality`."""

import json

from commands import cli, error, ok, usage
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
    out = ok("ingest", *given, "--license", "mit", "--where", "text <> 'x'", "--json")
    reports = [json.loads(line) for line in out.splitlines()]
    assert [(r["source"], r["added"], r["skipped"]) for r in reports] == [("a", 3, 0), ("b", 0, 2)]
    again = ok("ingest", *given, "--license", "mit", "--where", "text <> 'x'", "--json")
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
    assert "size_mb=-1" in error("ingest", *given, "--size-mb", "-1")
    assert "where" in error("ingest", *given, "--where", "role = 'x'")


def test_gates_read_by_the_options_of_ingest_and_data_sets_by_their_own(tmp_path):
    corpus, sets = tmp_path / "c.duckdb", tmp_path / "sets.yaml"
    (tmp_path / "q.toml").write_text("language = false\nmin_characters = 10\n")
    table = tmp_path / "t.csv"
    lines = [f"q{i};{GOOD.format(i)};2020-01-0{i + 1};g" for i in range(3)]
    table.write_text("\n".join(["ask;answer;day;of", *lines]), encoding="latin-1")
    given = ("--anchor", "ask", "--positive", "answer", "--date", "day", "--group", "of")
    given += ("--delimiter", ";", "--encoding", "latin-1", "--trust", "0.9")
    given += ("--quality", tmp_path / "q.toml")
    went_on = cli("ingest", corpus, table, "/nowhere.csv", *given, "--json", "--keep-going")
    assert (went_on.exit_code, json.loads(went_on.stdout)["added"]) == (1, 3)
    assert "/nowhere.csv does not exist" in went_on.stderr
    written(tmp_path / "a.jsonl", [GOOD.format(f"a{i}") for i in range(5)])
    written(tmp_path / "b.jsonl", ["tiny", GOOD.format("a1")])
    sets.write_text(
        "a: {file_name: a.jsonl, text: text, id: id, limit: 3, size: 2}\n"
        "b: {file_name: b.jsonl, text: text, quality: {language: false, min_characters: 2}}\n"
    )
    more = ("--quality", tmp_path / "q.toml", "--limit", "9", "--readers", "1", "--retries", "0")
    out = ok("ingest", corpus, sets, *more, "--json")
    assert [json.loads(line)["added"] for line in out.splitlines()] == [3, 1]
    assert "two sources would be 'a'" in error(
        "ingest", corpus, sets, tmp_path / "a.jsonl", "--limit", "9"
    )
    none = ("ingest", corpus, sets, "--readers", "0")
    assert "readers=0: give a whole number" in error(*none, "--limit", "9")
    sets.write_text("a: {file_name: a.jsonl, text: text, domain: law}\n")
    assert "domain='law'" in error("ingest", corpus, sets)
    # A corpus that was made for nothing is not left.
    given = ("ingest", tmp_path / "new.duckdb", tmp_path / "a.jsonl", "--text", "text", "--quality")
    assert "generel" in error(*given, "generel")
    ok(*given, "code", "--limit", "0")
    assert not (tmp_path / "new.duckdb").exists()
