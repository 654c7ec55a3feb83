"""Histories of a run without files: all of a few events, over small settings, judged by a model."""

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from effort import THOROUGH
from planted import plant
from run_model import BATCH, RANKS, SOURCES, WEIGHTS, World

from duckplets.order.mixture import Event, Mixture, Phase
from duckplets.order.permute import key, ranks_at
from duckplets.order.ranks import RankPart, batch_size_of
from duckplets.runs.settings import schedule_of
from duckplets.runs.state import RunPosition

EVENTS = [
    *("take", "skip", "kill", "save", "ingest", "join"),
    *(f"weigh {number}" for number in range(len(WEIGHTS))),
    *(f"ranks {number}" for number in RANKS),
]
MOST = 7 if THOROUGH else 4
BEGUN = RunPosition(position=0, fingerprint={})
PHASES = ((), ((2, (3, 1)),))
CAPS = ((), (("a", 1),), (("a", 2),))
SETTINGS = [
    World(fresh=99, anchors=(anchors,), declared=declared, phases=phases, caps=caps)
    for anchors, declared, phases, caps in product(((5, 3), (1, 4)), (None, (2, 3)), PHASES, CAPS)
]


@dataclass(frozen=True)
class PureRun:
    """A run by the code: its settings, and where it stands."""

    world: World  # settings, and counts of anchors
    joins: tuple = ()  # (step, version)
    standing: RunPosition = BEGUN
    saved: tuple | None = None  # joins, and a standing as JSON

    @cached_property
    def settings(self):
        versions = []
        for _, version in [(0, 1), *self.joins]:
            weights, counts = self.world.declared, self.world.anchors[version - 1]
            mixture = Mixture(
                "proportional" if weights is None else dict(zip(SOURCES, weights, strict=True)),
                phases=[
                    Phase(at, dict(zip(SOURCES, of, strict=True))) for at, of in self.world.phases
                ],
                max_epochs=dict(self.world.caps),
                lengths=dict(zip(SOURCES, counts, strict=True)),
            )
            versions.append(SimpleNamespace(mixture=mixture, names=[*SOURCES], seed=7))
        joins = [SimpleNamespace(step=step) for step, _ in self.joins]
        run = {"global_batch": BATCH, "samples_per_draw": 1, "batch_by": None}
        return SimpleNamespace(joins=joins, versions=versions, **run)

    @cached_property
    def schedule(self):
        found = schedule_of(self.settings, self.standing.events)
        for part, (_, version) in zip(found.parts, [(0, 1), *self.joins], strict=True):
            for leaf, count in enumerate(self.world.anchors[version - 1]):
                part.learn(leaf, count)
        return found

    def at(self, **changes):
        return replace(self, standing=replace(self.standing, **changes))

    def drawn(self, start, stop):
        """Return sources and anchors of some positions."""
        found = [("", 0)] * (stop - start)
        firsts = [of.first * BATCH for of in self.schedule.parts]
        versions = [1, *(version for _, version in self.joins)]
        for number, part in enumerate(self.schedule.parts):
            low = max(start, firsts[number])
            high = min(stop, *firsts[number + 1 : number + 2], stop)
            if low >= high:
                continue
            begin = part.begin * BATCH
            for share in part.deal(np.arange(low - begin, high - begin)):
                stream = key(7, SOURCES[share.leaf], number)
                count = self.world.anchors[versions[number] - 1][share.leaf]
                anchors, _ = ranks_at(stream, count, share.indexes)
                for at, anchor in zip(share.offsets.tolist(), anchors.tolist(), strict=True):
                    found[low - start + at] = SOURCES[share.leaf], anchor
        return found

    def served(self):
        return self.drawn(0, self.standing.position)

    def kept(self):
        return replace(
            self, saved=(self.joins, json.dumps(self.standing.plain()), self.standing.position)
        )

    def resumed(self, world):
        if self.saved is None:
            return PureRun(world)
        joins, plain, position = self.saved
        standing = RunPosition.of_plain({**json.loads(plain), "position": position})
        return PureRun(world, joins, standing, self.saved)

    def after(self, what, then):
        """Do something; return the run, and what each rank took."""
        name, _, number = what.partition(" ")
        start, world = self.standing.position, self.world
        if name == "take":
            size = batch_size_of(BATCH, then.ranks)
            ranks = [RankPart(size, rank, then.ranks) for rank in range(then.ranks)]
            taken = [each for of in ranks for each in self.drawn(*of.slice(start, of.end(start)))]
            (position,) = {of.after(start) for of in ranks}
            return self.at(position=position), taken
        if name == "skip":
            skipped = (*self.standing.skipped, (start // BATCH, 1))
            return self.at(position=start + BATCH, skipped=skipped), None
        if name == "weigh":
            event = Event(dict(zip(SOURCES, WEIGHTS[int(number)], strict=True)))
            schedule = self.schedule.with_event(start // BATCH, event)
            found = self.at(events=schedule.events)
            found.__dict__["schedule"] = schedule  # goes on without being made again
            return found, None
        if name == "kill":
            return self.resumed(world), None
        if name == "save":
            return self.kept(), None
        world = replace(world, anchors=then.anchors)
        run = self.kept().resumed(world)
        if name == "join" and len(world.anchors) > max(1, *(v for _, v in self.joins), 1):
            step = start // BATCH
            joins = (*(of for of in self.joins if of[0] < step), (step, len(world.anchors)))
            run = replace(run, joins=joins).kept()
        return run, None


@pytest.mark.parametrize("number", range(len(SETTINGS)) if THOROUGH else (0, 5, 14, 23))
def test_every_history_of_a_few_events_is_one_that_the_model_has(number):
    world = SETTINGS[number]
    states = {world.key: (world, PureRun(world), [])}  # with what each has served
    layer, ways, done, histories = {world.key: 1}, {}, 0, 0
    for _ in range(MOST):
        after = Counter()
        for state, paths in layer.items():
            if state not in ways:
                ways[state] = [
                    go_on(*states[state], what, states)
                    for what in EVENTS
                    if states[state][0].does(what)
                ]
                done += len(ways[state])
            for then in ways[state]:
                after[then] += paths
        layer = after
        histories += after.total()
    print(f"{histories} histories, {done} events, {len(states)} states")
    assert histories > 10**6 or not THOROUGH


def go_on(world, run, before, what, states):
    """Do something from a state; return the key of the state after it."""
    then = world.after(what)
    then = replace(then, run=replace(then.run, skipped=()))  # a mark, which changes no draw
    found, taken = run.after(what, then)
    served = found.served()
    shared = min(len(before), len(served))
    if what == "take":
        assert served[shared:] == taken, what
    if what != "kill":
        assert served[:shared] == before, what  # nothing that was drawn is drawn anew
    if then.key in states:
        assert served == states[then.key][2], what  # however it came there
    else:
        then.judge(served)
        states[then.key] = then, found, served
    return then.key


# What is planted, and the setting and the history that finds it.
PLANTED = {
    "order": (
        "duckplets.order.permute:_sorted_ranks",
        *("epochs[0] == epochs[-1] and len(rank) < n", "len(rank) < n"),
        *(6, "take, take, take, take, take"),
    ),
    "ranks": (
        "duckplets.order.ranks:RankPart.slice",
        *("(self.rank, self.rank + 1)", "(self.rank, self.rank + 2)"),
        *(0, "ranks 2, take"),
    ),
    "weights": (
        "duckplets.order.pieces:Pieces._piece",
        *("if not merge and start else", "if not merge and gone else"),
        *(0, "take, weigh 0, take"),
    ),
    "phases": (
        "duckplets.order.schedule:Schedule._set",
        *("if step < change.step <= until", "if step < change.step < 0"),
        *(3, "weigh 0, take, take, take"),
    ),
    "caps": (
        "duckplets.order.pieces:Pieces._caps",
        *("ceil((epochs", "1 + ceil((epochs"),
        *(13, "take, take"),
    ),
    "caps after a join": (
        "duckplets.order.pieces:Pieces._caps",
        *("epochs - self._begun(name)", "epochs"),
        *(1, "take, ingest, join, take, take, take"),
    ),
    "resume": (
        "duckplets.runs.state:RunPosition.of_plain",
        *('state.get("events", [])', 'state.get("events", [])[1:]'),
        *(0, "weigh 0, take, save, kill"),
    ),
    "joins": (
        "duckplets.runs.settings:schedule_of_part",
        *("if step < stop", "if begin <= step < stop"),
        *(0, "weigh 0, take, ingest, join, take"),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_an_error_that_is_planted_is_found(name, monkeypatch):
    place, old, new, number, history = PLANTED[name]
    follow(SETTINGS[number], history)
    plant(monkeypatch, place, old, new)
    with pytest.raises(AssertionError):
        follow(SETTINGS[number], history)


def follow(world, history):
    states = {world.key: (world, PureRun(world), [])}
    at = world.key
    for what in history.split(", "):
        assert what in EVENTS
        at = go_on(*states[at], what, states)
