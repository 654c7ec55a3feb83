"""A driver that is killed, and the command line: what goes on, and what a user reads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from commands import cli, ok
from effort import THOROUGH
from programs import python
from test_engine_work import corpus_of, mine, told

import duckplets as dp

DRIVER = """
import sys
import duckplets as dp

with dp.Corpus(sys.argv[1]) as corpus:
    print("ready", flush=True)
    corpus.mine(["anchor_context"], depth=5, engine="local:2", progress=lambda *_: print("more"))
"""


@pytest.mark.skipif(not THOROUGH, reason="takes a minute: DUCKPLETS_THOROUGH=1")
def test_a_driver_that_was_killed_goes_on(tmp_path: Path) -> None:
    with corpus_of(tmp_path / "whole.duckdb", 8_000, 8) as corpus:
        mine(corpus, None)
        wanted = told(corpus)
    corpus_of(tmp_path / "c.duckdb", 8_000, 8).close()
    for seconds in (0.0, 2.0, 5.0):
        with python("-c", DRIVER, tmp_path / "c.duckdb") as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "ready\n"
            time.sleep(seconds)
            driver.kill()
            driver.wait()
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        mine(corpus, "local:2")
        assert told(corpus) == wanted


def test_the_command_line_takes_an_engine(tmp_path: Path) -> None:
    corpus_of(tmp_path / "c.duckdb", 40, 1).close()
    path = str(tmp_path / "c.duckdb")
    for command in (["mine", path], ["quality", path, "--apply", "c4"], ["deduplicate", path]):
        wrong = cli(*command, "--engine", "ray://x")
        assert wrong.exit_code == 1, wrong.output
        assert (
            "--engine 'ray://x': give" in wrong.output or "engine='ray://x': give" in wrong.output
        )
    refused = cli("deduplicate", path, "--equal", "--engine", "local:1")
    assert "compares digests in this process" in refused.output
    assert "--engine" in ok("mine", "--help")
