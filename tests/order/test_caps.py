"""Sources that end after some epochs: dealt as said, from anywhere, whatever else changes."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from dealing import dealt, stretch
from effort import often

from duckplets.errors import MixtureError
from duckplets.order.mixture import Anneal, Event, Mixture, Phase
from duckplets.order.permute import ranks_at
from duckplets.order.schedule import RunSchedule, Schedule
from duckplets.order.tapes import SourceTape, StreamTape

NAMES = "abcde"


class Case:
    """A random plan with caps, and schedules of it that know nothing yet."""

    def __init__(self, seed):
        draw = self.draw = np.random.default_rng(seed)
        self.sizes = {name: int(draw.integers(1, 60)) for name in NAMES}
        self.caps = {name: int(draw.integers(1, 4)) for name in "abcd" if draw.random() < 0.7}
        kind, changes = int(draw.integers(4)), {}
        if kind == 1:
            steps = sorted(draw.choice(60, 3, replace=False).tolist())
            changes["phases"] = [Phase(step, self.weights()) for step in steps]
        elif kind == 2:
            changes["anneal"] = Anneal(5, self.weights(), 5 + int(draw.integers(1, 90)))
        self.unit = "tokens" if seed % 2 else "samples"
        self.mixture = Mixture(
            self.weights(), max_epochs=self.caps, unit=self.unit, temperature=1.5, **changes
        )
        self.events = {int(s): Event(self.weights()) for s in draw.integers(0, 70, kind % 3)}
        self.batch, self.per_draw = int(draw.integers(1, 9)) * 6, int(draw.choice([1, 1, 2, 3]))
        self.by = "recipe" if draw.random() < 0.3 else None
        self.tokens = {n: 1 + draw.integers(0, 40, size) for n, size in self.sizes.items()}

    def weights(self):
        found = {n: float(w) for n, w in zip("abcd", self.draw.lognormal(0, 1, 4), strict=True)}
        return {n: 0.0 if self.draw.random() < 0.2 else w for n, w in found.items()} | {"e": 1.0}

    def schedule(self, mixture=None, events=None):
        made = Schedule(
            mixture or self.mixture,
            [*NAMES],
            seed=3,
            batch=self.batch,
            samples_per_draw=self.per_draw,
            events=self.events if events is None else events,
            batch_by=self.by,
        )
        for leaf, (name, size) in enumerate(self.sizes.items()):
            made.learn(leaf, size)
            if made.tapes is not None:
                tape = StreamTape(size, self.reader(name), lambda n, of=name: n * self.all(of))
                made.tapes[leaf] = SourceTape([tape], One(), made.together)
        return made

    def all(self, name):
        return int(self.tokens[name].sum())

    def reader(self, name):
        return lambda index: self.tokens[name][ranks_at(1, self.sizes[name], index)[0]][None]


class One:
    """Recipes of a source: one."""

    def parts(self):
        return [1.0]

    def counts(self, index):
        return [index]

    def deal(self, index):
        from duckplets.order.apportion import Share

        yield Share(0, np.arange(len(index)), index)


@pytest.mark.parametrize("seed", range(often(400, less=60)))
def test_a_source_ends_with_its_last_epoch_and_the_others_share_what_it_had(seed):
    case = Case(seed)
    draws = 90 * case.batch // case.per_draw
    whole = case.schedule()
    leaves, indexes = stretch(whole, 0, draws)
    together, ends = whole.together, {}
    for leaf, name in enumerate(NAMES):
        (at,) = np.nonzero(leaves == leaf)
        assert indexes[at].tolist() == [*range(len(at))]  # in its own order, without a gap
        if name in case.caps:
            due = -(-case.caps[name] * case.sizes[name] // together) * together
            assert len(at) <= due
            if len(at) == due:
                ends[name] = int(at[-1]) + 1
    assert {n: d for n, d in whole.ends.items() if d <= draws} == ends
    assert whole.out is None
    # shares between ends are those of the sources that are left
    for name, end in ends.items():
        step = -(-end * case.per_draw // case.batch)
        assert name not in whole.names_at(step)
        assert not whole.parts(step, step + 1)[NAMES.index(name)]
        assert step in whole.changes
    for _ in range(5):
        some = np.unique(case.draw.integers(case.draw.integers(draws), draws, 20))
        found = dealt(case.schedule(), some)
        assert found[0].tolist() == leaves[some].tolist()
        assert found[1].tolist() == indexes[some].tolist()
        at = int(some[0])
        again = case.schedule()
        if change := whole.last_change(at):  # as a saved run goes on
            again.know(change)
        assert again.dealt(at) == [int((leaves[:at] == leaf).sum()) for leaf in range(len(NAMES))]
        assert dealt(again, some)[0].tolist() == leaves[some].tolist()
        assert dealt(again, np.arange(0, 40))[0].tolist() == leaves[:40].tolist()
    # weights that are set on the way change nothing before
    step = int(case.draw.integers(10, 60))
    later = whole.with_event(step, Event({"a": 3.0, "e": 2.0}))
    first = later.first_draw(step)
    assert stretch(later, 0, draws)[0][:first].tolist() == leaves[:first].tolist()
    assert (changed := later.first_change(whole)) is None or changed >= first * case.per_draw


@pytest.mark.parametrize("seed", range(often(100, less=20)))
def test_another_cap_changes_nothing_before_it_is_reached(seed):
    case = Case(seed)
    most = {name: int(case.draw.integers(1, 5)) for name in case.caps}
    one, other = case.schedule(), case.schedule(replace(case.mixture, max_epochs=most))
    draws = 90 * case.batch // case.per_draw
    mine, theirs = stretch(one, 0, draws)[0], stretch(other, 0, draws)[0]
    differ = np.flatnonzero(mine != theirs)
    changed = one.first_change(other)
    assert changed == other.first_change(one)
    assert (changed is None) == (most == case.caps) or not len(differ)
    if len(differ):
        assert changed <= differ[0] * case.per_draw


def test_shares_of_tokens_keep_their_bound_after_each_end():
    rest = 0
    for seed in range(1, 41, 2):
        case = Case(seed)
        case.mixture = replace(case.mixture, phases=(), anneal=None)
        case.events, case.by = {}, None
        whole = case.schedule()
        draws = 60 * case.batch // case.per_draw
        leaves, indexes = stretch(whole, 0, draws)
        tokens = np.zeros(draws, np.int64)
        for leaf, name in enumerate(NAMES):
            (at,) = np.nonzero(leaves == leaf)
            tokens[at] = case.reader(name)(indexes[at])[0] if len(at) else 0
        edges = [0, *sorted({d for d in whole.ends.values() if d < draws}), draws]
        for low, high in pairwise(edges):
            step = -(-low * case.per_draw // case.batch)
            parts, own = whole.parts(step, step + 1), tokens[low:high]
            for leaf, part in enumerate(parts):
                of = np.where(leaves[low:high] == leaf, own, 0).cumsum()
                if whole.position(low) == step * case.batch or high > low + case.batch:
                    assert np.abs(of - part * own.cumsum()).max() <= 1.7 * 40
                    rest += 1
    assert rest > 50


def test_a_run_ends_when_the_first_or_all_sources_are_used_up():
    for seed in range(40):
        case = Case(seed)
        case.mixture = replace(case.mixture, weights={n: 1.0 + i for i, n in enumerate(NAMES)})
        case.mixture = replace(case.mixture, phases=(), anneal=None)
        case.events = {}
        used = {}
        leaves, _ = stretch(case.schedule(), 0, 4000)
        for leaf, name in enumerate(NAMES):
            due = case.caps.get(name, 1) * case.sizes[name]
            together = case.batch // case.per_draw if case.by else 1
            (at,) = np.nonzero(leaves == leaf)
            used[name] = (int(at[-(-due // together) * together - 1]) + 1) * case.per_draw
        for stop, of in (("first", min), ("all", max)):
            run = RunSchedule([case.schedule(replace(case.mixture, stop=stop))])
            assert run.used_up == of(used.values())
    run = RunSchedule([case.schedule(replace(case.mixture, weights={"a": 1, "b": 1}))])
    assert run.used_up is None
    capped = Mixture({"a": 1, "b": 1}, max_epochs={"a": 1, "b": 2})
    out = case.schedule(capped)
    due = case.sizes["a"] + 2 * case.sizes["b"]
    assert out.together > 1 or out.out == due
    with pytest.raises(MixtureError, match=r"max_epochs: at step \d+ every source .* is used up"):
        dealt(out, np.arange(out.out, out.out + 9))
    event = {3: Event({"a": 1.0, **dict.fromkeys("bcde", 0.0)})}
    never = case.schedule(Mixture(dict.fromkeys(NAMES, 1.0), stop="all"), event)
    with pytest.raises(MixtureError, match=r"stop='all': source '.' is never used up"):
        assert RunSchedule([never]).used_up


def test_epochs_before_a_join_count_as_far_as_they_went():
    for unit in ("samples", "tokens"):
        case = Case(1 if unit == "tokens" else 0)
        case.mixture = Mixture(dict.fromkeys(NAMES, 1.0), max_epochs={"a": 8, "b": 1}, unit=unit)
        case.events, case.by, case.per_draw = {}, None, 1
        case.sizes |= {"a": 40, "b": 10}
        case.tokens |= {"a": np.full(40, 5), "b": np.full(10, 5)}
        first = case.schedule()
        case.sizes |= {"a": 50}
        case.tokens["a"] = np.full(50, 7)
        step = -(-300 // case.batch)
        begun = first.dealt(step * case.batch)
        later = case.schedule()
        later.begin = later.first = step
        run = RunSchedule([first, later])
        leaves, _ = stretch(later, 0, 6000)
        assert (leaves == 1).sum() == 0  # b had its epoch
        assert (leaves == 0).sum() == 50 * 8 - begun[0] * 50 // 40
        assert run.ends["b"] < step * case.batch < run.ends["a"]
