"""A run as plain Python has it: what it drew follows from what was done to it, and in no other way.

It knows nothing of the code. It is told what was done, and judges the whole of what was served:
each source gives all its anchors once before it gives one again, from the step at which a version
joined; shares are within one sample of the weights, since they were set; and a step that was seen
once is the same for ever, unless what was done after a save is lost and something else is done.
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
    minings: tuple = ()  # steps
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
    taken: int = 0  # how many of these the run knows
    pending: tuple = ()  # what was done since the save

    @property
    def key(self) -> tuple:
        """What decides all that may come; what was seen does not."""
        runs = (None if run is None else replace(run, seen=()) for run in (self.run, self.saved))
        return (*runs, self.ranks, self.anchors, self.mined, self.fresh, self.taken)

    def does(self, what: str) -> bool:
        """Whether something can be done, so that it is no refusal."""
        name, _, number = what.partition(" ")
        if name == "ranks":
            return int(number) != self.ranks
        if name in ("ingest", "mine"):
            return len(self.anchors) < 3 if name == "ingest" else self.mined < 2
        return name != "kill" or self.run != self.saved

    def refuses(self, what: str) -> bool:
        """Whether something is refused: a version that is newer than what was mined."""
        return what == "join" and len(self.anchors) > max(self.version, self.fresh)

    def after(self, what: str) -> World:
        """Return the world after something was done."""
        name, _, number = what.partition(" ")
        run = self.run
        if name == "kill":
            last = self.saved or Run()
            return replace(self, run=replace(last, seen=run.seen), pending=())
        if name in ("take", "skip", "weigh", "renew"):
            return replace(self, run=self._moved(name, number), pending=(*self.pending, what))
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
            joined = replace(run, joins=joins)
            return replace(world, run=joined, saved=joined, taken=self.mined)
        return world

    def _moved(self, name: str, number: str) -> Run:
        run = self.run
        if name == "take":
            return replace(run, step=run.step + 1)
        if name == "skip":
            return replace(run, step=run.step + 1, skipped=(*run.skipped, run.step))
        if name == "weigh":
            earlier = (of for of in run.weights if of[0] < run.step)
            return replace(run, weights=(*earlier, (run.step, WEIGHTS[int(number)])))
        return run

    @property
    def version(self) -> int:
        """How many versions of the corpus the run has reached."""
        return self.run.joins[-1][1] if self.run.joins else 1

    def judge(self, served: list[tuple[str, str]]) -> None:
        """Refuse samples, each a source and an anchor, that no such history gives."""
        run = self.run
        assert len(served) == run.step * BATCH
        for step, batch in run.seen:
            if step < run.step:
                assert served[step * BATCH : (step + 1) * BATCH] == list(batch), step
        begins = [(0, 1), *run.joins]
        for (begin, version), (end, _) in zip(begins, [*begins[1:], (run.step, 0)], strict=True):
            part = served[begin * BATCH : end * BATCH]
            for source, count in zip(SOURCES, self.anchors[version - 1], strict=True):
                own = [anchor for name, anchor in part if name == source]
                for first in range(0, len(own), count):
                    epoch = own[first : first + count]
                    assert len(set(epoch)) == len(epoch), (source, first)
                if len(own) >= 2 * count:
                    assert set(own[:count]) == set(own[count : 2 * count])
            self._judge_shares(part, begin, end, self.anchors[version - 1])

    def _judge_shares(self, part: list, begin: int, end: int, counts: tuple) -> None:
        before = [of for of in self.run.weights if of[0] <= begin]
        changes = [of for of in self.run.weights if begin < of[0] < end]
        now = before[-1][1] if before else counts
        stops = [*(step for step, _ in changes), end]
        for low, stop, weights in zip(
            [begin, *stops], stops, [now, *(w for _, w in changes)], strict=False
        ):
            tally = Counter()
            for number, (source, _) in enumerate(
                part[(low - begin) * BATCH : (stop - begin) * BATCH], 1
            ):
                tally[source] += 1
                for name, weight in zip(SOURCES, weights, strict=True):
                    assert abs(tally[name] - Fraction(weight, sum(weights)) * number) <= 1, (
                        low,
                        number,
                    )
