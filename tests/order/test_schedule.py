"""Schedules: every draw is dealt once, in each source's own order, through all changes of weights.

What is in force at a step is worked out here a second time, in fractions and step by step, and
every draw of random plans is held to it.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from dealing import stretch
from effort import often
from hypothesis import given, settings
from hypothesis import strategies as st

from duckplets.order.apportion import exact_shares
from duckplets.order.mixture import Anneal, Event, Mixture, Phase
from duckplets.order.schedule import Schedule

NAMES = ["delta", "alpha", "echo", "bravo", "charlie", "foxtrot", "golf"]
WEIGHTS = st.sampled_from([0, 0, 1, 1.009, 0.1, 3, 1e-6, 7.5])


@dataclass(frozen=True)
class Case:
    """A plan of weights: what a schedule is made of."""

    mixture: Mixture
    sources: list[str]
    seed: int = 1
    batch: int = 8
    samples_per_draw: int = 1
    events: dict[int, Event] = field(default_factory=dict)

    def schedule(self, events=None):
        return Schedule(
            self.mixture,
            self.sources,
            seed=self.seed,
            batch=self.batch,
            samples_per_draw=self.samples_per_draw,
            events=self.events if events is None else events,
        )

    def change_before(self, step):
        """Return when the weights in force were set, which, and the ramp they begin if any."""
        mixture, names = self.mixture, self.sources
        declared = {name: float(w) for name, w in mixture.declared(names).items()}
        found = {0: (declared, None)}
        for phase in mixture.phases:
            found[phase.start_step] = declared | dict(phase.weights), None
        anneal = mixture.anneal
        if anneal is not None:
            if anneal.end_step is not None:
                found[anneal.start_step] = declared, anneal
            end = anneal.start_step if anneal.end_step is None else anneal.end_step
            found[end] = declared | dict(anneal.weights), None
        for at, event in self.events.items():
            found[at] = declared | dict(event.weights), None
        begin = max(at for at in found if at <= step)
        return begin, *found[begin]

    def parts(self, step):
        """Return the part of every source, by name, in force at a step."""
        begin, weights, ramp = self.change_before(step)
        here = self._normal(weights, begin)
        if ramp is None or ramp.end_step is None:
            return here
        way = (step - begin + Fraction(1, 2)) / (ramp.end_step - begin)  # of the stair's middle
        there = self._normal(weights | dict(ramp.weights), begin)
        return [a + (b - a) * way for a, b in zip(here, there, strict=True)]

    def _normal(self, weights, step):
        ordered = [weights[name] for name in sorted(self.sources)]
        set_so_far = [self.events[at].temperature for at in sorted(self.events) if at <= step]
        temperature = [self.mixture.temperature, *(t for t in set_so_far if t is not None)][-1]
        shares = exact_shares(ordered, temperature)
        return [Fraction(share, sum(shares)) for share in shares]

    def step_of(self, draw):
        return draw * self.samples_per_draw // self.batch


def weights_of(names, declared):
    found = st.dictionaries(st.sampled_from(names), WEIGHTS, max_size=len(names))
    return found.filter(lambda w: any((dict.fromkeys(names, 1.0) | declared | w).values()))


@st.composite
def cases(draw, *, most=30):
    """Plans of weights with changes at all steps up to ``most``."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    declared = draw(weights_of(names, {}))
    told = weights_of(names, declared)
    temperatures = st.sampled_from([None, None, 1, 2.5])
    steps = st.integers(0, most)
    kind = draw(st.sampled_from(["plain", "phases", "phases", "anneal", "ramp", "ramp"]))
    phases = []
    anneal = None
    if kind == "phases":
        phases = [Phase(s, draw(told)) for s in sorted(draw(st.sets(steps, max_size=5)))]
    elif kind != "plain":
        start = draw(steps)
        end = start + draw(st.integers(1, most)) if kind == "ramp" else None
        anneal = Anneal(start, draw(told), end)
    return Case(
        Mixture(declared, draw(st.sampled_from([1, 1, 2, 0.5])), phases, anneal, omitted=1),
        draw(st.permutations(names)),
        seed=draw(st.integers(0, 99)),
        batch=draw(st.sampled_from([1, 2, 3, 5, 7, 8, 24])),
        samples_per_draw=draw(st.sampled_from([1, 1, 2, 3, 4])),
        events=draw(st.dictionaries(steps, st.builds(Event, told, temperatures), max_size=4)),
    )


def runs_on(leaf, index, first):
    """Check that every source goes on from where it was, without gap or repeat."""
    for i in set(leaf.tolist()):
        here = index[leaf == i]
        begin = first.get(i, 0)
        assert here.tolist() == list(range(begin, begin + len(here)))


EXAMPLES = settings(max_examples=often(150, less=10), deadline=None)


@EXAMPLES
@given(cases(), st.lists(st.integers(0, 600), max_size=6), st.randoms(use_true_random=False))
def test_every_source_goes_on_in_its_own_order(case, cuts, shuffled):
    """Whatever pieces it is asked for in, and counts are those of the walk."""
    leaf, index = stretch(case.schedule(), 0, 600)
    runs_on(leaf, index, {})
    schedule, asked = case.schedule(), case.schedule()
    spans = list(pairwise(sorted({0, 600, *cuts})))
    shuffled.shuffle(spans)
    for low, high in spans:
        found = stretch(schedule, low, high)
        assert found[0].tolist() == leaf[low:high].tolist()
        assert found[1].tolist() == index[low:high].tolist()
    draws = [*range(0, 601, 37), 600, 1, 599]
    for i, dealt in enumerate(zip(*map(asked.dealt, draws), strict=True)):
        counts = [0, *np.cumsum(leaf == i).tolist()]
        assert [*dealt] == [counts[draw] for draw in draws]


@settings(max_examples=often(60, less=6), deadline=None)
@given(cases(), st.sampled_from([10**9, 10**12, 10**9 + 1, 10**12 + 7]))
def test_far_draws_are_dealt_without_walking(case, position):
    # The last changes are far out as well.
    step = case.step_of(position)
    case = replace(
        case, events=case.events | {step - 10: Event({}), step: Event({case.sources[0]: 2})}
    )
    schedule = case.schedule()
    start, stop = position - 300, position + 300
    leaf, index = stretch(schedule, start, stop)
    first, last = schedule.dealt(start), schedule.dealt(stop)
    assert sum(first) == start
    runs_on(leaf, index, dict(enumerate(first)))
    assert last == [count + int((leaf == i).sum()) for i, count in enumerate(first)]


@EXAMPLES
@given(cases())
def test_every_prefix_is_fair_since_the_weights_were_set(case):
    schedule, sources = case.schedule(), len(case.sources)
    steps = case.step_of(np.arange(70 * case.batch // case.samples_per_draw))
    leaf, _ = stretch(schedule, 0, len(steps))
    parts = np.array([[float(p) for p in case.parts(s)] for s in range(steps[-1] + 1)])[steps]
    got = (leaf[:, None] == np.arange(sources)).astype(float)
    assert parts[np.arange(len(leaf)), leaf].all(), "a source of weight 0 was drawn from"
    begins = np.array([case.change_before(s)[0] for s in range(steps[-1] + 1)])[steps]
    for begin in set(begins.tolist()):
        here = begins == begin
        off = np.cumsum(got[here] - parts[here], axis=0)
        assert (np.abs(off) < bound_of(case, begin)).all(), begin


def bound_of(case, step):
    if case.change_before(step)[2] is not None:
        return 2 * (math.ceil(math.log2(max(len(case.sources), 2))) + 1)
    some = sum(part > 0 for part in case.parts(step))
    return 1 if some <= 2 else math.ceil(math.log2(some)) + 1


def test_other_weights_at_the_same_step_keep_the_temperature_set_there():
    schedule = Schedule(Mixture({"a": 1, "b": 16}), ["a", "b"], seed=1, batch=4)
    schedule = schedule.with_event(5, Event({"a": 16, "b": 1}, 2))
    again = schedule.with_event(5, Event({"a": 1, "b": 16}))
    assert again.in_force(5).temperature == 2
    assert again.parts(5, 6) == [0.2, 0.8]
    later = again.with_event(9, Event({"a": 1}))
    assert later.in_force(9).temperature == 2
