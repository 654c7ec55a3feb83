"""`duckplets status --watch`: the page of a run, beside one that trains, and at no cost to it."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from itertools import islice

import pytest
from commands import error, ok, usage
from effort import often, some, thorough
from prebuilt import toy_corpus
from programs import PATHS, python
from token_shards import lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.cli.watch import RunStatus, page
from duckplets.runs import state
from duckplets.runs.settings import saved_settings, schedule_of

MIXTURE = dp.Mixture(
    {"a": 0.6, "b": 0.3, "c": 0.1}, phases=[dp.Phase(40, {"a": 0.1, "c": 0.8}, lr_scale=0.5)]
)
LEFT = b"\x1b[?1049l"  # the alternate screen
CURSOR = b"\x1b[?25h"


@pytest.fixture
def corpus(tmp_path, pools_once):
    toy_corpus(tmp_path / "toy.duckdb", 30, sources=("a", "b", "c")).close()
    with dp.Corpus(tmp_path / "toy.duckdb", read_only=True) as opened:
        yield opened


def trained(corpus, **arguments):
    """A run of 24 steps with two saves, of which the last is tagged."""
    sampler = corpus.sampler(mixture=MIXTURE, batch_size=8, preset="crate", **arguments)
    for steps, tag in ((10, None), (14, "half")):
        for batch in islice(sampler, steps):
            sampler.report_loss({"a": 2.5 - batch.step / 100, "c": 1.0})
        sampler.metrics()
        sampler.save(tag)
    return sampler


def seen(path, run="default", tag=None):
    saved = state.load(path, run, tag)
    schedule = schedule_of(saved_settings(saved), saved.events)
    (row,) = [r for r in state.cursors(path) if r["run"] == run and r["tag"] == tag]
    return RunStatus(saved, schedule, row["saved_at"], [])


# ---- figures


@pytest.mark.parametrize("kind", some(["triplets", "pairs", "texts"], less=1))
def test_samples_of_sources_are_those_that_were_served(corpus, kind):
    sampler = corpus.sampler(kind, mixture=MIXTURE, batch_size=7)
    for steps in (0, 1, 39, 20):
        for _ in islice(sampler, steps):
            pass
        if steps == 39:
            sampler.set_weights({"b": 3.0})
        metrics = sampler.metrics()
        found = seen(sampler.save())
        rows = found.sources()
        assert {row["source"] for row in rows} == {"a", "b", "c"}
        for row in rows:
            assert row["samples"] == metrics[f"data/{row['source']}/samples"]
            assert row["tokens"] == metrics[f"data/{row['source']}/tokens"]
            assert row["declared"] == sampler._planner.schedule.shares(sampler.step)[row["source"]]
            assert row["share"] == row["samples"] / max(sampler.position, 1)
        assert (found.saved.step, found.saved.position) == (sampler.step, sampler.position)
    assert "these shares since step 40, learning rate × 0.5" in "\n".join(page(found, 3))


def test_a_run_of_many_sources_without_an_end_in_sight(corpus, monkeypatch):
    trained(corpus, steps=1 << 50)
    found = seen(state.state_path(corpus.path), tag="half")
    losses = {row["source"]: row["loss"] for row in found.sources()}
    assert losses == {"a": 2.5 - 0.23, "b": None, "c": 1.0}
    assert "up to step 23" in "".join(page(found, 3))
    assert found.rate() is None
    many = [row | {"source": f"{row['source']}{i}"} for row in found.sources() for i in range(2000)]
    monkeypatch.setattr(RunStatus, "sources", lambda _: many)
    monkeypatch.setattr(RunStatus, "rate", lambda _: 1e-6)
    printed = page(found, 20)
    assert "more than a century to go" in "".join(printed)
    assert printed[-1] == "and 5,980 more sources"
    assert len(printed) <= 32


# ---- the page


def test_a_page_for_a_log(corpus, golden):
    trained(corpus, steps=1000)
    text = ok("status", "--watch", corpus.path, "--once")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert " steps/s, " in text
    text = re.sub(r"[\d-]{10} [\d:]{8} UTC, [\d:]+ ago", "TIME", text)
    golden("watch.txt", re.sub(r"(rate +).*\n", r"\1RATE\n", text))


def test_names_are_not_taken_for_markup(tmp_path):
    with toy_corpus(tmp_path / "toy.duckdb", 12, sources=("[red]x", ":smile:")) as corpus:
        sampler = corpus.sampler(batch_size=8, run="[bold]r")
        next(sampler)
        sampler.save("[blink]")
    text = ok("status", "--watch", corpus.path, "--once", "--run", "[bold]r")
    for name in ("[bold]r: ", "tag [blink]\n", "\n[red]x  ", "\n:smile:  "):
        assert name in text


# ---- what is not there, or of something else


def test_what_cannot_be_watched_is_said(corpus, tmp_path, monkeypatch):
    assert "does not exist" in error("status", "--watch", corpus.path, "--once")
    assert "does not exist" in error("status", "--watch", tmp_path / "no.duckdb", "--once")
    path = trained(corpus).save()
    assert "no run 'defalt' (did you mean 'default'?)" in error(
        "status", "--watch", corpus.path, "--once", "--run", "defalt"
    )
    assert "give --once" in usage("status", "--watch", corpus.path)
    path.write_bytes(path.read_bytes()[:5000])
    monkeypatch.undo()  # a process reads it first
    assert "toy.state.duckdb" in error("status", "--watch", corpus.path, "--once")
    path.write_text("none")
    assert "is not a DuckDB file" in error("status", "--watch", corpus.path, "--once")


def test_runs_over_token_shards_are_watched_by_their_folder(tmp_path, corpus):
    texts = {name: numbered(lengths_of(30, seed)) for seed, name in enumerate(("web", "code"))}
    folder = write_shards(tmp_path / "shards", {"train": texts})
    for by_bucket in (False, True):
        with dp.TokenShards(folder) as shards:
            sampler = shards.sampler(
                mixture={"web": 3, "code": 1},
                seq_length=16,
                by_bucket=by_bucket,
                run=f"r{by_bucket}",
            )
            for batch in islice(sampler, 9):
                sampler.report_loss({"web": batch.step})
            metrics = sampler.metrics()
            sampler.save()
        text = ok("status", "--watch", folder, "--once", "--run", f"r{by_bucket}")
        for name in ("web", "code"):
            row = next(line for line in text.splitlines() if line.startswith(name))
            assert f" {metrics[f'data/{name}/samples']} " in row
            tokens = metrics[f"data/{name}/tokens"]
            assert f" {tokens:,} " in row or "k" in row
        assert f"losses     the last of each source, up to step {batch.step}" in text
    beside = folder.with_name("shards.state.duckdb")
    told = error("status", "--watch", corpus.path, "--once", "--run", "rTrue", "--state", beside)
    assert "is over a folder of token shards" in told
    path = trained(corpus).save()
    assert "over a corpus file" in error("status", "--watch", folder, "--once", "--state", path)


# ---- beside a run


class Terminal:
    """A terminal in which a command runs, with what it has written so far."""

    def __init__(self, columns, *command):
        self.output = b""
        self._own, other = pty.openpty()
        self._other = other
        self.resize(columns)
        environment = {**os.environ, "PYTHONPATH": PATHS, "TERM": "xterm"}
        environment.pop("COLUMNS", None)
        self.running = subprocess.Popen(
            [sys.executable, "-m", "duckplets.cli", *map(str, command)],
            stdin=other,
            stdout=other,
            stderr=other,
            env=environment,
            start_new_session=True,
        )

    def resize(self, columns):
        fcntl.ioctl(self._other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def until(self, found, seconds=120):
        """Read until something is found in what is written from now on."""
        start, deadline = len(self.output), time.monotonic() + seconds
        while not found(self.output[start:]):
            assert time.monotonic() < deadline, self.output[start:][-3000:]
            if select.select([self._own], [], [], 0.2)[0]:
                self.output += os.read(self._own, 1 << 16)
        return self.output[start:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.running.kill()
        self.running.wait()
        os.close(self._own)
        os.close(self._other)


TRAINING = """
import json, sys, time
import duckplets as dp

saves = []
with dp.Corpus(sys.argv[1], read_only=True) as corpus:
    sampler = corpus.sampler(batch_size=8, steps=1_000_000)
    print("open", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        batch = next(sampler)
        sampler.report_loss({"a": 1 / (batch.step + 1)})
        begun = time.monotonic()
        sampler.save()
        saves.append(time.monotonic() - begun)
        time.sleep(0.3)
print(json.dumps([sampler.step, max(saves)]))
"""


@thorough
def test_a_run_is_watched_while_it_trains(corpus):
    """From before its first save to Ctrl-C, in 80 and in 200 columns; its saves wait for nobody."""
    corpus.close()
    seconds = often(60, less=2)
    with (
        python(
            "-c", TRAINING, corpus.path, seconds, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as training,
        Terminal(80, "status", "--watch", corpus.path) as terminal,
    ):
        assert training.stdout.readline() == "open\n"
        terminal.until(lambda told: b"waiting for run 'default' to be saved" in told)
        training.stdin.write("\n")
        training.stdin.flush()
        terminal.until(lambda told: re.search(rb"step +\d+ of 1,000,000", told))
        narrow = terminal.until(lambda told: told.count(b"last save") > 2).decode(errors="replace")
        terminal.resize(200)
        out, _ = training.communicate(timeout=240)
        steps, longest = json.loads(out)
        last = f"step       {steps:,} of 1,000,000"
        wide = terminal.until(lambda told: last.encode() in told and b"loss" in told).decode(
            errors="replace"
        )
        terminal.running.send_signal(signal.SIGINT)
        terminal.until(lambda told: b"interrupted" in told)
        assert terminal.running.wait(60) == 130
    assert max(map(len, re.split(r"\x1b\[[\d;?]*\w", narrow))) <= 80
    assert "│ declared" in wide
    assert terminal.output.count(LEFT) == 1
    assert terminal.output.rindex(CURSOR) > terminal.output.rindex(b"last save")
    assert longest < 10, "a save that waits for a lock gives up then"
