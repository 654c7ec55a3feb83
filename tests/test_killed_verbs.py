"""Killed (kill -9) in every verb that writes, one to three processes at once on one corpus.

Each child opens the corpus, does something and closes it, again and again, and tells what it
begins and what is done; whoever finds it open elsewhere says so and goes on. After the kill the
corpus opens, holds what was done, and nothing else lies beside it. The children come from the
nursery of ``test_kills``.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from itertools import count

import pytest
import test_kills
from effort import THOROUGH, kills, often
from prebuilt import toy_corpus
from programs import python
from test_kills import Child, sound, tell

import duckplets as dp
from duckplets.corpus.corpus import Corpus
from duckplets.search.index import index as build_index

ROUNDS = kills(60, less=1)
ROWS = 20
MINED = dp.TripletRecipe(
    "mined",
    dp.role("anchor"),
    dp.role("context"),
    dp.role("context"),
    by=dp.Negatives(by="bm25", range_max=4),
)


class Pages:
    """A source that is committed page by page."""

    def __init__(self, name):
        self.name = name

    def batches(self, cursor):
        for page in range(int(cursor or 0), 4):
            rows = [{"id": f"{page}-{i}", "text": f"{self.name} {page} {i}"} for i in range(5)]
            yield rows, str(page + 1)


def rows(name):
    found = [{"id": str(i), "title": f"{name} {i}", "body": f"about {i}"} for i in range(ROWS)]
    return dp.sources.MemorySource(found, id="id", anchor="title", positive="body")


def chunking(name):
    return dp.Chunking(max_tokens=4 + len(name) % 9, overlap=(1,), summary_tokens=2)


def exported(corpus):
    out = corpus.path.with_name("exported.jsonl")
    corpus.export(out, "flagembedding", recipe=MINED, overwrite=True)


def written(corpus):
    assert corpus.export(corpus.path.with_name("written.jsonl"), "jsonl", overwrite=True) >= 0


def saved(corpus, name):
    with corpus.sampler(run=name, batch_size=4) as sampler:
        next(sampler)
        sampler.save()
        sampler.save(tag=name)


# What is done by one opening after the other.
INGEST = lambda c, name: c.ingest(rows(name), name=name, progress=False)  # noqa: E731
VERBS = {
    "ingest": [INGEST],
    "pages": [lambda c, name: c.ingest(Pages(name))],
    "remove": [INGEST, lambda c, name: (tell("removing", name), c.remove(name))],
    "compact": [lambda c, name: c.compact()],
    "recipe": [lambda c, name: c.add_recipe(dp.TextRecipe(name, dp.any_section()))],
    "split": [lambda c, name: c.split(seed=len(name), reassign=True)],
    "chunk": [lambda c, name: c.chunk(chunking(name))],
    "prefix": [lambda c, name: c.set_prefix("toy", "source" if len(name) % 2 else None)],
    "mine": [
        lambda c, name: build_index(c, dp.Terms(stemmer="none")),
        lambda c, name: c.mine(MINED, source="toy"),
    ],
    "save": [saved],
    "export": [lambda c, name: exported(c)],
    "jsonl": [lambda c, name: written(c)],
}


def verbs(path, seed):
    """Do one thing after the other."""
    draw = random.Random(seed)
    tell("ready")
    for number in count():
        verb = draw.choice([*VERBS])
        name = f"{verb}-{os.getpid()}-{number}"
        tell("begun", verb, name)
        try:
            for step in VERBS[verb]:
                with Corpus(path, read_only=verb == "save") as corpus:
                    step(corpus, name)
        except (dp.errors.CorpusLockedError, dp.StateMismatchError):
            tell("locked", verb, name)
            time.sleep(0.02)
        else:
            tell("done", verb, name)


test_kills.JOBS["verbs"] = verbs


# ---- in the tests


@pytest.fixture(scope="module")
def nurseries():
    with ExitStack() as stack:
        yield [
            stack.enter_context(python(__file__, stdin=subprocess.PIPE, stderr=None))
            for _ in range(often(3, less=2))
        ]


def expected(told):
    """Return what must be there, and what must not, of each kind."""
    found = {"source": set(), "gone": set(), "recipe": set(), "tag": set()}
    kinds = {"ingest": "source", "pages": "source", "remove": "gone", "recipe": "recipe"}
    for line in told:
        if line.startswith("done "):
            _, verb, name = line.split()
            if kind := kinds.get(verb, "tag" if verb == "save" else None):
                found[kind].add(name)
    return found


def check(path, told, is_in_form):
    """Check that a corpus holds what was done, and that nothing else lies beside it."""
    wanted = expected(told)
    with dp.Corpus(path) as corpus:
        sizes = {row["name"]: row["records"] for row in corpus.sources().to_pylist()}
        assert {name: sizes.get(name) for name in wanted["source"]} == dict.fromkeys(
            wanted["source"], ROWS
        )
        assert all(not sizes.get(name) for name in wanted["gone"])
        assert wanted["recipe"] <= {recipe.name for recipe in corpus.recipes()}
        tags = {row["tag"] for row in corpus.status()["runs"]}
        assert wanted["tag"] <= tags
        assert set(sizes.values()) <= {0, ROWS, 60}
    if is_in_form:
        sound(path)
    # The next save takes in what a killed one had committed.
    known = {"c.duckdb", "c.state.duckdb", "c.state.duckdb.wal", "exported.jsonl"}
    known |= {"c.candidates", "written.jsonl"}
    left = set(os.listdir(path.parent)) - known
    assert not {name for name in left if not name.startswith((".exported.", ".written."))}, left
    for name in {"exported.jsonl", "written.jsonl"} & {*os.listdir(path.parent)}:
        lines = path.with_name(name).read_text(encoding="utf-8").splitlines(keepends=True)
        assert all(json.loads(line) and line.endswith("\n") for line in lines), "it is whole"


def test_killed_in_any_verb_nothing_done_is_lost(nurseries, tmp_path):
    draw = random.Random(7)
    seen = Counter()
    done = set()
    for number in range(4 * ROUNDS):  # of which a busy machine may need more
        if number >= ROUNDS and (done == VERBS.keys() or not THOROUGH):
            break
        if number % 20 == 0:  # files that stay small, so that rounds stay short
            told = []
            folder = tmp_path / str(number)
            folder.mkdir()
            path = folder / "c.duckdb"
            with toy_corpus(path, 60) as corpus:
                build_index(corpus, dp.Terms(stemmer="none"))
                corpus.mine(MINED)
        children = [
            Child(nursery, "verbs", path, draw.getrandbits(32))
            for nursery in nurseries[number % len(nurseries) :]
        ]
        for child in children:
            assert child.first() == "ready"
            child.has_done_one()
        time.sleep(draw.uniform(0.02, often(2, less=1)))
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
        for child in children:
            told += child.end()
            assert child.code == -signal.SIGKILL, child.told
        seen.update(" ".join(line.split()[:2]) for line in told)
        check(path, told, is_in_form=number % 10 == often(9, less=0))
        done = {what.removeprefix("done ") for what in seen if what.startswith("done ")}
    assert not THOROUGH or done == VERBS.keys(), seen


if __name__ == "__main__":
    test_kills.nursery()
