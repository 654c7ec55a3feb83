"""Commands that show something take their own options only, and say what they lack."""

import json
import sys

import pytest
from commands import ok, usage
from prebuilt import toy_corpus

import duckplets as dp
from duckplets.mcp import serve


@pytest.fixture
def looked_at(tmp_path):
    path = tmp_path / "it's, a look.duckdb"
    with toy_corpus(path, 20) as corpus:
        corpus.mine()
    return path


def test_without_the_sdk_an_assistant_is_told_in_one_sentence(looked_at, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(dp.errors.ExtensionError, match=r"pip install 'duckplets\[mcp\]'"):
        serve(looked_at)


def test_options_of_one_view_are_not_of_another(looked_at):
    for words in (
        ("status", looked_at, "--run", "default"),
        ("status", looked_at, "--html", "x.html", "--json"),
        ("show", looked_at, "--recipes", "--run", "x"),
        ("show", looked_at, "--samples", "1", "--limit", "3"),
        ("show", looked_at, "--why", "x", "--samples", "3"),
    ):
        assert "--" in usage(*words)
    found = json.loads(ok("show", looked_at, "toy", "--negatives", "--json"))
    assert {row["source"] for row in found} == {"toy"}
    assert json.loads(ok("show", looked_at, "--negatives", "--limit", "1", "--json")) == found[:1]
