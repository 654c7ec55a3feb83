"""Histories of a run, breadth first: kills, saves, ranks, weights, skips, minings, versions."""

import os
import random
import shutil
from dataclasses import replace

import pytest
from effort import THOROUGH, thorough
from planted import plant
from run_model import BATCH, RANKS, WEIGHTS, World

import duckplets as dp
from duckplets.errors import StateMismatchError

EVENTS = [
    *("take", "skip", "kill", "save", "ingest", "join", "mine", "renew", "relabel", "compact"),
    *(f"weigh {number}" for number in range(len(WEIGHTS))),
    *(f"ranks {number}" for number in RANKS),
]
MOST = int(os.environ.get("DUCKPLETS_EVENTS", "4000"))
WALKS, LONG = (40, 12) if THOROUGH else (2, 12)
SPLIT = {"train": 1.0, "validation": 0.0, "test": 0.0}


def rows(source, first, stop):
    return [
        {"id": f"{source}{i}", "q": f"{source} asks {i}", "p": f"{source} says {i} x{i % 3}"}
        for i in range(first, stop)
    ]


def ingest(corpus, source, first, stop):
    corpus.ingest(
        rows(source, first, stop), name=source, anchor="q", positive="p", id="id", progress=False
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("begun")
    with dp.Corpus(folder / "c.duckdb") as corpus:
        ingest(corpus, "b", 0, 3)
        ingest(corpus, "a", 0, 5)
        corpus.split(**SPLIT)
        corpus.mine(terms=dp.Terms(stemmer="none"), depth=1, progress=False)
    return folder


class Ranks:
    """A run on several ranks, in one process."""

    def __init__(self, corpus, world, version=None):
        self.samplers = []
        for rank in range(world.ranks):
            if world.saved is None:
                how = {"rank": rank, "world_size": world.ranks, "batch_size": BATCH // world.ranks}
                self.samplers.append(corpus.sampler(negatives=dp.Negatives(by="bm25"), **how))
            else:
                how = {"rank": rank, "world_size": world.ranks}
                self.samplers.append(corpus.resume(version=version, **how))

    def do(self, what):
        """Do what leaves the files as they are; return the global batch where one is taken."""
        name, _, number = what.partition(" ")
        if name == "take":
            batches = [next(sampler) for sampler in self.samplers]
            pairs = [
                (x.split(), y.split())
                for b in batches
                for x, y in zip(b["anchor"], b["negative"], strict=True)
            ]
            return tuple((a[0], a[0] + a[2], n[0] + n[2]) for a, n in pairs)
        for sampler in self.samplers:
            if name == "skip":
                sampler.skip(1)
            elif name == "weigh":
                sampler.set_weights(dict(zip("ab", WEIGHTS[int(number)], strict=True)))
            else:
                sampler.take_minings()
        return None

    def served(self):
        first = self.samplers[0]
        table = first.served(0, first.position)
        ids = [
            [each.split("/")[-1] for each in table[f"{slot}_record_id"].to_pylist()]
            for slot in ("anchor", "negative")
        ]
        mined = [None] * len(table)
        if "generation" in table.column_names:  # two in each mining, one of each source
            mined = [(number - 1) // 2 for number in table["generation"].to_pylist()]
        return list(zip(table["source"].to_pylist(), *ids, mined, strict=True))


def after(folder, world, what):
    """Do something in a copy of a world's files; return the world after it."""
    name = what.partition(" ")[0]
    then = world.after(what)
    with dp.Corpus(folder / "c.duckdb", read_only=True) as corpus:
        run = Ranks(corpus, world)
        for each in world.pending:
            run.do(each)
        if name in ("take", "skip", "weigh", "renew"):
            batch = run.do(what)
            if batch is not None:
                known = dict(then.run.seen)
                seen = {step: of for step, of in known.items() if step < world.run.step}
                then = replace(
                    then, run=replace(then.run, seen=tuple({**seen, world.run.step: batch}.items()))
                )
        elif name != "kill":
            run.samplers[0].save()
        if name != "kill":
            then.judge(run.served()) if name != "join" else None
    if name in ("ingest", "mine", "relabel", "compact"):
        with dp.Corpus(folder / "c.duckdb") as corpus:
            if name == "ingest":
                ingest(corpus, "a", 0, then.anchors[-1][0])
            elif name == "mine":
                corpus.mine(depth=1 + then.mined, progress=False)
            elif name == "relabel":
                corpus.relabel({"anchor": ["a asks 1"], "text": ["b says 2 x2"], "label": [0.0]})
            else:
                corpus.compact()
    if name == "join":
        with dp.Corpus(folder / "c.duckdb", read_only=True) as corpus:
            Ranks(corpus, replace(world, saved=world.run), "newest").samplers[0].save()
    with dp.Corpus(folder / "c.duckdb", read_only=True) as corpus:
        run = Ranks(corpus, then)
        for each in then.pending:
            run.do(each)
        then.judge(run.served())
    return then


def gone_on(folder, world, what, copy):
    """Do something in a copy of a folder; return the world after it, or None if it is refused."""
    shutil.copytree(folder, copy)
    if not world.refuses(what):
        return after(copy, world, what)
    with pytest.raises(StateMismatchError, match="the mined negatives are stale"):
        after(copy, world, what)
    shutil.rmtree(copy)
    return None


def test_histories_at_random_are_ones_that_the_model_has(begun, tmp_path):
    for seed in range(WALKS):
        draw, folder, world = random.Random(seed), begun, World()
        for number in range(LONG):
            copy = tmp_path / f"{seed}-{number}"
            often = ["take"] * 8 + [each for each in EVENTS if each[:5] in ("weigh", "ranks")] * 2
            what = draw.choice([each for each in EVENTS + often if world.does(each)])
            then = gone_on(folder, world, what, copy)
            folder, world = (folder, world) if then is None else (copy, then)


@thorough
def test_every_history_is_one_that_the_model_has(begun, tmp_path):
    todo, known, done = [(begun, World())], {World().key}, 0
    while todo and done < MOST:
        folder, world = todo.pop(0)
        for what in filter(world.does, EVENTS):
            copy = tmp_path / str(done)
            then, done = gone_on(folder, world, what, copy), done + 1
            if then is None:
                continue
            if then.key in known:
                shutil.rmtree(copy)
            else:
                known.add(then.key)
                todo.append((copy, then))
        if folder is not begun:
            shutil.rmtree(folder)
    print(f"{done} events, {len(known)} states")


# What is planted, and the history that finds it. Others: tests/order/test_every_history.py.
PLANTED = {
    "skip": (
        "duckplets.runs.sampler:Sampler.skip",
        *("steps * self._batch, self", "steps * self.settings.batch_size, self"),
        "ranks 2, skip",
    ),
    "minings": (
        "duckplets.mining.store:stale",
        *("if mining.content != content(database, *where, version):", "if not where:"),
        "ingest, join",
    ),
    "compaction": (
        "duckplets.corpus.compact:_minings",
        *("isinstance(plain, dict | list)", "isinstance(plain, list)"),
        "save, mine, compact",
    ),
    "take_minings": (
        "duckplets.runs.versions:restore_minings",
        *("for step, pins_of in minings:", "for step, pins_of in minings[1:]:"),
        "take, mine, renew, take, save",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_an_error_that_is_planted_is_found(name, begun, tmp_path, monkeypatch):
    place, old, new, history = PLANTED[name]
    *first, last = history.split(", ")
    folder, world = begun, World()
    for number, what in enumerate(first):
        then = gone_on(folder, world, what, tmp_path / str(number))
        folder, world = tmp_path / str(number), then
    gone_on(folder, world, last, tmp_path / "well")
    plant(monkeypatch, place, old, new)
    with pytest.raises((AssertionError, dp.DuckpletsError, pytest.fail.Exception)):
        gone_on(folder, world, last, tmp_path / "planted")
