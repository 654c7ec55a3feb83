"""A run as plain Python has it: what it drew follows from what was done to it, and in no other way.

It knows nothing of the code. It is told what was done, and judges the whole of what was served:
each source gives all its anchors once before it gives one again, from the step at which a version
joined; shares are within one sample of the weights, since they were set; a source with a cap ends
with its last epoch; and a step that was seen once is the same for ever, unless what was done after
a save is lost and something else is done.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

BATCH = 4
RANKS = (1, 2, 4)
WEIGHTS = ((1, 3), (2, 1))
SOURCES = ("a", "b")


@dataclass(frozen=True)
class Run:
    """Where a run stands: what is not saved is lost by a kill."""

    step: int = 0
    weights: tuple = ()  # (step, weights) of each change
    joins: tuple = ()  # (step, version)
    minings: tuple = ()  # (step, how often it was mined before)
    skipped: tuple = ()
    seen: tuple = ()  # (step, what the batch had)


@dataclass(frozen=True)
class World:
    """A corpus, and a run over it."""

    run: Run = field(default_factory=Run)
    saved: Run | None = None
    ranks: int = 1
    anchors: tuple = ((5, 3),)  # of each source, by version
    mined: int = 0  # how often
    fresh: int = 1  # versions that there were when it was mined last
    pending: tuple = ()  # what was done since the save
    declared: tuple | None = None  # weights; None: in proportion
    phases: tuple = ()  # (step, weights), as the mixture has them
    caps: tuple = ()  # (source, epochs)

    @property
    def key(self) -> tuple:
        """What decides all that may come; what was seen does not."""
        runs = (None if run is None else replace(run, seen=()) for run in (self.run, self.saved))
        return (*runs, self.ranks, self.anchors, self.mined, self.fresh)

    def does(self, what: str) -> bool:
        """Whether something can be done, so that it is no refusal."""
        name, _, number = what.partition(" ")
        if name == "ranks":
            return int(number) != self.ranks
        if name in ("ingest", "mine"):
            return len(self.anchors) < 3 if name == "ingest" else self.mined < 2
        return name != "kill" or self.run != self.saved

    def refuses(self, what: str) -> bool:
        """Whether something is refused: a version and what was mined that differ."""
        stale = what == "join" and len(self.anchors) > max(self.version, self.fresh)
        return stale or (what == "renew" and self.fresh > self.version)

    def after(self, what: str) -> World:
        """Return the world after something was done."""
        name, _, number = what.partition(" ")
        run = self.run
        if name in ("weigh", "renew", "join"):  # other steps may come than before a kill
            run = replace(run, seen=tuple(of for of in run.seen if of[0] < run.step))
        if name == "kill":
            last, seen = self.saved or Run(), run.seen
            if any(each[:5] in ("weigh", "renew") for each in self.pending):  # lost as well
                seen = tuple(of for of in seen if of[0] < last.step)
            return replace(self, run=replace(last, seen=seen), pending=())
        if name in ("take", "skip", "weigh", "renew"):
            return replace(self, run=self._moved(run, name, number), pending=(*self.pending, what))
        world = replace(self, saved=run, pending=())
        if name == "ranks":
            return replace(world, ranks=int(number))
        if name == "ingest":
            count, other = self.anchors[-1]
            return replace(world, anchors=(*self.anchors, (count + 2, other)))
        if name == "mine":
            return replace(world, mined=self.mined + 1, fresh=len(self.anchors))
        if name == "join" and len(self.anchors) > self.version:
            joins = (*(of for of in run.joins if of[0] < run.step), (run.step, len(self.anchors)))
            joined = replace(run, joins=joins, minings=self._mined())
            return replace(world, run=joined, saved=joined)
        return world

    def _moved(self, run: Run, name: str, number: str) -> Run:
        if name == "take":
            return replace(run, step=run.step + 1)
        if name == "skip":
            return replace(run, step=run.step + 1, skipped=(*run.skipped, run.step))
        if name == "weigh":
            earlier = (of for of in run.weights if of[0] < run.step)
            return replace(run, weights=(*earlier, (run.step, WEIGHTS[int(number)])))
        return replace(run, minings=self._mined())

    def _mined(self) -> tuple:
        """Return the minings that a run has drawn from once it takes the newest."""
        run = self.run
        if self.mined == (run.minings[-1][1] if run.minings else 0):
            return run.minings
        return (*(of for of in run.minings if of[0] < run.step), (run.step, self.mined))

    @property
    def version(self) -> int:
        """How many versions of the corpus the run has reached."""
        return self.run.joins[-1][1] if self.run.joins else 1

    def judge(self, served: list[tuple]) -> None:
        """Refuse samples that no such history gives: source, anchor, negative and its mining."""
        run, joins, caps = self.run, dict(self.run.joins), dict(self.caps)
        assert len(served) == run.step * BATCH
        for step, batch in run.seen:
            if step < run.step:
                assert [of[:3] for of in served[step * BATCH :][:BATCH]] == list(batch), step
        changes = {**dict(self.phases), **dict(run.weights)}
        version, weights, epochs = 1, self.declared, dict.fromkeys(SOURCES, Fraction(0))
        for number, (source, anchor, *negative) in enumerate(served):
            step, within = divmod(number, BATCH)
            if negative and negative[1] is not None:
                assert negative[1] == ([0] + [n for at, n in run.minings if at <= step])[-1], step
            if not within and (step == 0 or step in changes or step in joins):
                version, weights = joins.get(step, version), changes.get(step, weights)
                counts = dict(zip(SOURCES, self.anchors[version - 1], strict=True))
                if step == 0 or step in joins:
                    given = {name: [] for name in SOURCES}
                drawn, tally = [], Counter()
            left = [name for name in SOURCES if name not in caps or epochs[name] < caps[name]]
            if drawn != left:  # a source is used up
                drawn, tally = left, Counter()
            assert source in left, (number, source)
            shares = dict(zip(SOURCES, weights or counts.values(), strict=True))
            tally[source] += 1
            for name in left:
                part = Fraction(shares[name], sum(shares[each] for each in left))
                assert abs(tally[name] - part * tally.total()) <= 1, (number, name)
            own, count = given[source], counts[source]
            assert anchor not in own[len(own) // count * count :], (number, anchor)
            assert len(own) < count or anchor in own[:count], (number, anchor)
            own.append(anchor)
            epochs[source] += Fraction(1, count)
