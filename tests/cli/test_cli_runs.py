"""Sampling, planning and looking back from the command line."""

import json
import re
import shlex
from collections import Counter
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli, error, files, lines, ok, talk

import duckplets as dp
from duckplets.cli import runs as runs_command
from duckplets.db.migrate import create, migrations
from duckplets.runs.sampler import Sampler

pytestmark = pytest.mark.usefixtures("pools_once")

# What `runs` prints of a sample; a batch has it all but the step.
IDS = ["position", "source", "recipe", "swapped"] + [
    f"{slot}_{what}"
    for slot in ("anchor", "positive", "negative")
    for what in ("record_id", "section", "window")
]
COLUMNS = ["--columns", ",".join(IDS)]


def samples(*arguments):
    """Return what ``sample`` writes, with the columns that identify a sample."""
    return lines(ok("sample", *arguments, *COLUMNS))


def ids(*arguments, batch):
    """Return what ``runs`` prints, without the steps, which have to be right."""
    rows = lines(ok("runs", arguments[0], "default", *arguments[1:]))
    for row in rows:
        assert row["step"] == row["position"] // batch
    more = ("step", "displaced")  # which samples have no column for
    return [{name: row[name] for name in row if name not in more} for row in rows]


# ---- sample


def test_samples_are_those_of_python(toy):
    columns = "anchor,anchor_meta,anchor_date,swapped,negative_1,negative_2"
    pairs = {"split": "test", "batch_size": 3, "seed": 5, "steps": 2}
    pairs["mixture"] = {"a": 3.0, "b": 1.0}
    triplets = {
        "no_duplicates": True,
        "columns": columns.split(","),
        "negatives": 2,
        "options": dp.Options(swap=False),
    }
    for kind, given, typed in (
        ("pairs", pairs, "--split test --batch-size 3 --seed 5 --steps 2 --mixture a=3,b=1"),
        (
            *("triplets", {**triplets, "recipes": ["anchor_context"], "batch_size": 20}),
            f"--negatives 2 --no-duplicates true --recipes anchor_context --columns {columns} "
            "--batch-size 20",
        ),
    ):
        with dp.Corpus(toy, read_only=True) as corpus:
            batches = islice(corpus.sampler(kind, **given), given.get("steps", 1))
            tables = pa.concat_tables(batch.table for batch in batches)
            expected = tables.to_pylist(maps_as_pydicts="strict")
        found = lines(ok("sample", toy, "--kind", kind, *typed.split()))
        assert found == json.loads(json.dumps(expected, default=str))


def test_files_hold_what_stdout_would(toy):
    typed = ["sample", toy, "--batch-size", "7", "--steps", "5"]
    typed += ["--columns", "anchor,anchor_meta"]
    expected = lines(ok(*typed))
    for name in ("out.jsonl", "out.parquet"):
        Path(name).write_text("what was there before")
        result = cli(*typed, "--out", name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert f"replaced the earlier {name}" in result.stderr
        assert f"wrote 35 samples to {name}" in result.stderr
    assert lines(Path("out.jsonl").read_text(encoding="utf-8")) == expected
    assert pq.read_metadata(name).num_row_groups == 1
    assert pq.read_table(name).to_pylist(maps_as_pydicts="strict") == expected
    assert samples(toy, "--epochs", "1", "--steps", f"{10**30}") == samples(toy, "--epochs", "1")
    result = cli("sample", toy, "--steps", "0", "--out", name)
    assert talk(result.stderr) == f"no samples to write: {name} is unchanged\n"
    assert files() == {toy, "out.jsonl", "out.parquet"}


def test_a_failure_leaves_the_old_file(toy, monkeypatch):
    taken = Sampler.__next__

    def fail_later(self):
        if self.step == 2:
            raise OSError(28, "No space left on device")
        return taken(self)

    monkeypatch.setattr(Sampler, "__next__", fail_later)
    for name in ("out.jsonl", "out.parquet"):
        Path(name).write_text("what was there before")
        said = error("sample", toy, "--steps", "5", "--save", "--out", name)
        assert said == f"error: {name}: No space left on device\n"
        assert Path(name).read_text() == "what was there before"
    assert files() == {toy, "out.jsonl", "out.parquet"}


def test_tags_and_runs(toy):
    ok("sample", toy, "--batch-size", "2", "--run", "r", "--save", "--tag", "one")
    ok("sample", toy, "--batch-size", "2", "--run", "r", "--save", "--steps", "3")
    later = lines(ok("sample", toy, "--run", "r", "--resume"))
    tagged = lines(ok("sample", toy, "--run", "r", "--resume", "--tag", "one", "--steps", "3"))
    assert tagged[-2:] == later
    by_key = ("sample", toy, "--run", "r", "--resume", "--set", "tag=one", "--steps", "3")
    assert lines(ok(*by_key)) == tagged
    assert "tags: one" in error("sample", toy, "--run", "r", "--resume", "--tag", "two")
    drift = error("sample", toy, "--run", "r", "--resume", "--batch-size", "3")
    assert "batch_size (saved: 2, now: 3)" in drift
    clash = cli("sample", toy, "--run", "r", "--batch-size", "2", "--seed", "1", "--save")
    assert (clash.exit_code, clash.stdout) == (1, "")  # before anything is written
    assert "another run 'r': the saved run does not fit: seed (saved: 42, now: 1)" in clash.stderr
    assert "has a save tagged 'one' of run 'r' already" in error(
        *("sample", toy, "--run", "r", "--batch-size", "2", "--save", "--tag", "one")
    )
    assert len(ok("runs", toy).splitlines()) == 3
    assert len(json.loads(ok("runs", toy, "--json"))) == 2
    forgot = cli("runs", toy, "r", "--to", "2", "--reset").stderr
    assert forgot == "deleted 1 checkpoint of run r after step 2\n"
    forgotten = json.loads(ok("runs", toy, "r", "--reset", "--json"))
    assert forgotten == {"run": "r", "after": None, "checkpoints": 1}
    assert len(ok("runs", toy).splitlines()) == 1


def test_a_run_that_could_not_be_saved_is_refused_before_anything_is_written(toy, monkeypatch):
    before = Path(toy).read_bytes()
    Path(toy).chmod(0o400)
    ok("sample", toy, "--save")
    assert Path(toy).read_bytes() == before
    monkeypatch.setattr("duckplets.db.migrate.unwritable", lambda path: "the folder is closed")
    result = cli("sample", toy, "--save")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot be saved in toy.state.duckdb: the folder is closed" in result.stderr
    assert len(lines(ok("sample", toy))) == 128


# ---- ranks, and what is written beside the samples


def test_a_run_is_resumed_by_ranks_of_which_the_first_saves(toy):
    expected = samples(toy, "--batch-size", "12", "--steps", "4")
    assert samples(toy, "--batch-size", "12", "--steps", "2", "--save") == expected[:24]
    found = []
    for rank in "10":
        ranked = ["--rank", rank, "--world-size", "2", "--steps", "2", "--save"]
        result = cli("sample", toy, "--resume", *ranked, *COLUMNS)
        assert result.exit_code == 0, result.stderr
        told = "saved run default at step 4" if rank == "0" else f"rank {rank} of 2: rank 0 saves"
        assert told in result.stderr
        found += lines(result.stdout)
    assert sorted(found, key=lambda row: int(row["position"])) == expected[24:]
    with dp.resume(toy) as resumed:
        metrics = resumed.metrics()
    counts = Counter(row["source"] for row in expected)  # from the start of the run, of all ranks
    assert {name: metrics[f"data/{name}/samples"] for name in "ab"} == counts
    assert "world sizes that would do: 1, 2, 3, 4, 6, 12" in error(
        *("sample", toy, "--resume", "--world-size", "5")
    )


def test_a_state_file_elsewhere(toy):
    Path("d").mkdir()
    elsewhere = ["--set", "state=d/s.duckdb"]
    unbroken = samples(toy, "--batch-size", "4", "--steps", "2")
    said = talk(cli("sample", toy, "--batch-size", "4", "--save", *elsewhere).stderr)
    assert said == f"saved run default at step 1 in {Path('d/s.duckdb').absolute()}\n"
    assert files() == {toy, "d"}
    assert samples(toy, "--resume", *elsewhere) == unbroken[4:]
    clash = error("sample", toy, "--seed", "1", "--save", *elsewhere)
    assert "d/s.duckdb has another run 'default'" in clash
    assert "forget that run: duckplets runs" in clash


def test_an_old_state_file_is_migrated_by_the_command_its_error_names(toy, monkeypatch):
    create(Path("s.duckdb"), "state")
    later = (9001, "9001_later.sql", "COMMENT ON TABLE saves IS 'Saves';")
    for module in ("migrate", "catalog"):
        known = f"duckplets.db.{module}.migrations"
        monkeypatch.setattr(known, lambda kind: [*migrations(kind), later])
    said = error("sample", toy, "--resume", "--set", "state=s.duckdb")
    assert "duckplets doctor --migrate" in said
    assert ok("doctor", "s.duckdb", "--migrate").startswith("s.duckdb: applied 9001_")


# ---- drift


def test_a_drift_that_cannot_be_saved_is_refused_before_anything_is_written(toy):
    ok("sample", toy, "--batch-size", "4", "--save")
    drifting = [toy, "--resume", "--seed", "7", "--set", "allow_drift=seed", "--save"]
    ok("sample", *drifting, "--out", "x.jsonl")  # only the latest save is of the old order
    ok("sample", toy, "--seed", "7", "--batch-size", "4", "--save", "--tag", "one")
    result = cli("sample", toy, "--resume", "--seed", "8", "--set", "allow_drift=seed", "--save")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "has another run 'default': the saved run does not fit: seed" in result.stderr


# ---- plan


def test_a_plan_is_what_is_sampled_then(toy, monkeypatch):
    options = [
        "--batch-size",
        "6",
        "--seed",
        "3",
        "--mixture",
        "a=2,b=1",
        "--no-duplicates",
        "true",
    ]
    options += ["--set", "swap=false", "--split", "validation", "--recipes", "anchor_context"]
    first = samples(toy, *options, "--steps", "1", "--save")
    assert ids(toy, batch=6) == first
    monkeypatch.setattr(runs_command, "_PIECE", 5)
    left = ids(toy, "--next", "3", batch=6)
    assert len(left) == 18
    assert samples(toy, "--resume", "--steps", "3") == left  # nothing has moved


# ---- served


def test_what_was_served_is_what_was_sampled(toy):
    yielded = samples(toy, "--batch-size", "5", "--steps", "3", "--save", "--tag", "one")
    for tag in (["--tag", "one"], []):
        yielded += samples(toy, "--resume", *tag, "--steps", "2", "--save")
    assert ids(toy, batch=5) == yielded
    assert ids(toy, "--from", "1", "--to", "4", batch=5) == yielded[5:20]
    nothing = cli("runs", toy, "default", "--from", "4", "--to", "4")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert talk(nothing.stderr) == "no sample to print: run default is saved at step 7\n"
    result = cli("runs", toy, "default", "--to", "2", "--out", "x.parquet")
    assert (result.exit_code, result.stdout) == (0, "")
    assert talk(result.stderr) == "wrote the ids of 10 samples to x.parquet\n"
    rows = lines(ok("runs", toy, "default", "--to", "2"))
    assert pq.read_table("x.parquet").to_pylist() == rows
    said = error("runs", toy, "default", "--to", "99")
    assert "--to 99: run 'default' is saved at step 7" in said
    shown = re.search(r"duckplets (runs .*)\n", said)
    assert shown is not None
    assert len(lines(ok(*shlex.split(shown[1])))) == 5
