"""What is logged: to stderr and to a file that rotates, without texts and without secrets."""

import io
import logging
import re
from pathlib import Path

import pytest
from commands import cli, error
from effort import thorough
from gated_rows import GOOD, written
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.base.progress import bar
from duckplets.base.sanitize import without_secrets
from duckplets.cli import logs

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?:DEBUG|INFO|WARNING|ERROR) duckplets[\w.]* "
    r"MainProcess\[\d+\] MainThread \w+\.py:\d+ \S.*"
)


def test_text_is_taken_in_with_lines_a_log_and_a_summary(tmp_path):
    corpus, log = tmp_path / "c.duckdb", tmp_path / "run.log"
    quality = tmp_path / "q.toml"
    quality.write_text("language = false\n")
    for name in "ab":
        written(tmp_path / f"{name}.jsonl", [f"{GOOD} {name}".format(i) for i in range(4)] + ["no"])
    sources = [tmp_path / f"{name}.jsonl" for name in "ab"]
    given = (corpus, *sources, "--text", "text", "--id", "id", "--quality", quality)
    told = cli("ingest", *given, "--log-file", log)
    assert told.exit_code == 0, told.stderr
    assert "a: 5 rows read: 4 added, 1 skipped, 0 failed" in told.stderr
    assert "intake of b makes version 2, up to row 5" in told.stderr
    lines = log.read_text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert any(".quality.intake.QualityGates " in line and " INFO " in line for line in lines)
    assert "weather" not in log.read_text()
    failed = cli("ingest", *given[:-1], "none.toml", "--log-file", log)
    assert failed.exit_code == 1
    *stages, said = failed.stderr.splitlines()
    assert said.startswith("error: ")
    assert "none.toml" in said
    assert not any(line.startswith("error") for line in stages)
    assert log.read_text().count("ERROR duckplets") == 1
    assert "ended by QualityError at " in log.read_text()
    quiet = cli("ingest", *given)
    assert "intake of" not in quiet.stderr
    assert logging.getLogger("duckplets").level == logging.NOTSET
    for wrong in (corpus, sources[0], tmp_path / "no" / "x.log", tmp_path):
        before = wrong.read_bytes() if wrong.is_file() else None
        assert "log_file" in error("ingest", *given, "--log-file", wrong)
        assert before is None or wrong.read_bytes() == before


def test_a_log_rotates_and_one_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(logs, "_BYTES", 2_000)
    log, path = logging.getLogger("duckplets.x.Y"), tmp_path / "run.log"
    with logs.logged(path):
        for number in range(200):
            log.info("line %d\nof %s\x1b[2J", number, "https://me:pass@example.org/x?token=abc")
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["run.log", *(f"run.log.{i}" for i in range(1, 6))]
    assert all(each.stat().st_size <= 2_000 for each in tmp_path.iterdir())
    told = path.read_text()
    assert "pass" not in told
    assert "abc" not in told
    assert "\x1b" not in told
    assert all(LINE.fullmatch(line) for line in told.splitlines())
    with logs.logged(path):
        monkeypatch.setattr(logs._LogFile, "shouldRollover", lambda *_: 1 / 0)
        log.info("one")
        log.info("two")
    assert caplog.text.count("run.log cannot be written any more: division by zero") == 1


def test_secrets_are_taken_out_as_far_as_they_can_be_told():
    for text, clean in {
        "https://user:pw@host/path": "https://host/path",
        "hf://data/set token=abc123, x": "hf://data/set token=…, x",
        "s3://b/k?X-Amz-Signature=00ff&a=1": "s3://b/k?X-Amz-Signature=…&a=1",
        "with hf_abcdefghijklmnopqrstuvwxyz0123 in it": "with hf_… in it",
        "SECRET (api_key 'x', password = 'p w')": "SECRET (api_key 'x', password = …)",
        "tokens and secrets are words": "tokens and secrets are words",
    }.items():
        assert without_secrets(text) == clean


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_tells_rate_acceptance_and_size(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    with bar(None, stream, note=lambda: "80.0% accepted, 1.2 MB") as advance:
        assert advance is not None
        advance(10, 20)
    assert "/s, 80.0% accepted, 1.2 MB" in stream.getvalue()


# Commands with what their end counts, after a corpus c.duckdb of 12 pairs.
STAGES = {
    "split c.duckdb --train 1 --reassign": r"split c\.duckdb: .* train 12",
    "sample c.duckdb --batch-size 4 --steps 2": r"write samples: : 8$",
    "ingest c.duckdb more.jsonl --text t": r"ingest c\.duckdb: .*added 3, ",
    "ingest c.duckdb more.jsonl --name m --text t --limit 99": r"ingest c.duckdb: .*read",
    "mine c.duckdb anchor_context": r"mine negatives in c\.duckdb: .*anchors 12, ",
    "export c.duckdb out.jsonl --format sentence-transformers": (
        r"export negatives of c\.duckdb: .*rows 116, anchors 12, "
    ),
    "prepare c.duckdb": r"prepare c\.duckdb: .*sections 30, chunks \d+, ",
    "deduplicate c.duckdb --dry-run": r"deduplicate c\.duckdb: .*clusters 3",
    "decontaminate c.duckdb more.jsonl --text t --ngram 3": r"decontaminate c\.duckdb: ",
    "quality c.duckdb --apply c4 --dry-run": r"judge the texts of c\.duckdb: ",
    "status c.duckdb --html page.html": r"report on c\.duckdb: ",
    "remove c.duckdb toy --yes": r"remove from c\.duckdb: : 12$",
    "prepare c.duckdb --compact": r"compact c\.duckdb: .*before [\d,]+, after ",
}


@thorough
def test_every_long_command_logs_its_stages_with_counts():
    toy_corpus(Path("c.duckdb"), 12).close()
    Path("more.jsonl").write_text("".join(f'{{"t": "one {i} of many"}}\n' for i in range(3)))
    for number, (typed, end) in enumerate(STAGES.items()):
        log = Path(f"{number}.log")
        told = cli(*typed.split(), "--log-file", log)
        assert told.exit_code == 0, told.stderr
        lines = log.read_text().splitlines()
        assert all(LINE.fullmatch(line) for line in lines)
        begun = [line for line in lines if line.endswith(": begins")]
        assert begun, typed
        done = end.replace(": ", r": done in \d+\.\d{3} s", 1)
        assert any(re.search(done, line) for line in lines), lines
        assert "of many" not in log.read_text()


def test_verbs_log_to_whoever_listens(tmp_path, caplog):
    caplog.set_level(logging.INFO, "duckplets")
    path = tmp_path / "c.duckdb"
    with toy_corpus(path, 12) as corpus:
        caplog.clear()
        corpus.split(1, 0, 0, reassign=True)
        with pytest.raises(dp.errors.SplitError):
            corpus.split(2, 0, 0)
    found = [re.sub(r"[\d.]+ s", "T", record.getMessage()) for record in caplog.records]
    assert found == [
        f"split {path}: begins",
        f"split {path}: done in T: train 12",
        f"split {path}: begins",
        f"split {path}: ended by SplitError after T",
    ]
    assert {record.levelname for record in caplog.records} == {"INFO"}
    assert {record.filename for record in caplog.records} == {Path(__file__).name}
