"""Count what a run has served of each source, and measure how a batch looks.

Counters add up what was taken, not what was prepared. All ranks count the whole global batch, so
that every rank has the same figures and a state fits any number of ranks.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from duckplets.base.arrays import Integers
from duckplets.base.sanitize import ShownDict, listed
from duckplets.errors import SamplerError, StateMismatchError
from duckplets.order.mixture import Mixture
from duckplets.order.ranks import RankPart
from duckplets.runs.forecast import percent
from duckplets.samples.batch import Batch, SampleTally

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.planned import Plan

log = logging.getLogger("duckplets")

_RUNS = 64
_AT_ONCE = 1 << 17  # samples planned at once, to be counted
_MANY = 1 << 62  # no count comes to that
_WORD = re.compile(r"[^\W_]+")  # runs of letters and digits of any script


class Counters:
    """Count what was taken of every source since the start of a run: as a tally has it.

    Args:
        sources: Names of the sources, as a tally numbers them.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = list(sources)
        self._counts = np.zeros((len(sources), 4), dtype=np.int64)
        self._open: tuple[SampleTally, int, int] | None = None

    def take(self, tally: SampleTally, low: int, high: int) -> None:
        """Count samples ``low … high-1`` of a tally; added up when somebody asks."""
        if self._open is not None and self._open[0] is tally and self._open[2] == low:
            low = self._open[1]
        else:
            self._add_up()
        self._open = tally, low, high

    def add(self, tally: SampleTally) -> None:
        """Count all samples of a tally."""
        self._counts += self._counted(tally)

    def counts(self, without: Iterable[SampleTally] = ()) -> dict[str, list[int]]:
        """Return the counts of every source of which something was taken or displaced.

        They are samples, tokens, negatives that stood in for such as lacked, and samples that gave
        their position to another; the last two are left out where they are 0.

        Args:
            without: Leave out what these count.
        """
        self._add_up()
        left = self._counts - sum(map(self._counted, without))
        rows = zip(self._sources, np.maximum(left, 0).tolist(), strict=True)
        return {
            name: row if row[3] else row[:3] if row[2] else row[:2]
            for name, row in rows
            if row[0] or row[3]
        }

    def load(self, counts: Mapping[str, Sequence[int]]) -> None:
        """Go on from the counts of a saved run.

        Raises:
            StateMismatchError: They are no counts.
        """
        self._open = None
        self._counts[:] = 0
        for i, name in enumerate(self._sources):
            found = list(counts.get(name, ()))
            if len(found) > 4 or not all(isinstance(n, int) and 0 <= n < _MANY for n in found):
                raise StateMismatchError(f"the saved counts of source {name!r} are damaged")
            self._counts[i, : len(found)] = found

    def _add_up(self) -> None:
        if self._open is None:
            return
        (tally, low, high), self._open = self._open, None
        self._counts += self._counted(tally, low, high)

    def _counted(self, tally: SampleTally, low: int = 0, high: int | None = None) -> Integers:
        """Return the counts of every source, of shape (sources, 4)."""
        sources, found = tally.sources[low:high], np.zeros_like(self._counts)
        found[:, 0] = np.bincount(sources, minlength=len(self._sources))
        # As integers: bincount adds weights up as floats.
        np.add.at(found[:, 1], sources, tally.tokens[low:high])
        np.add.at(found[:, 2], sources, tally.fallbacks[low:high])
        gave = tally.displaced[low:high]
        np.add.at(found[:, 3], gave[gave >= 0], 1)
        return found


class Uncounted:
    """Batches that were taken and are to be counted when somebody asks: runs of them.

    A rank that plans its own samples only does not know what the others took; to plan that as well
    takes half a microsecond a sample.

    Args:
        part: Of the reader that takes them.
    """

    def __init__(self, part: RankPart) -> None:
        self._part = part
        self._runs: list[tuple[int, int, int]] = []  # begin of the first and the last, its end

    def take(self, start: int, stop: int) -> None:
        """Note a batch of all ranks."""
        first = start
        if self._runs and self._runs[-1][1:] == self._before(start):
            first = self._runs.pop()[0]
        self._runs.append((first, start, stop))

    def _before(self, start: int) -> tuple[int, int]:
        last = start - self._part.stride
        return last, last + self._part.batch

    @property
    def are_many(self) -> bool:
        """Whether it is time to count them, so scattered are they."""
        return len(self._runs) > _RUNS

    @property
    def stop(self) -> int:
        """Where the last of them ends."""
        return max((stop for _, _, stop in self._runs), default=0)

    def clear(self) -> None:
        """Forget them all."""
        self._runs = []

    def positions(self) -> Iterator[Integers]:
        """Yield the positions of all ranks in them, some at a time, and forget them."""
        runs, self._runs = self._runs, []
        step = max(1, _AT_ONCE // self._part.batch) * self._part.stride
        for first, _, stop in runs:
            for low in range(first, stop, step):
                yield self._part.shared(low, min(low + step, stop))


class PhaseLog:
    """Write one line to the log when a run is resumed, or comes into another phase of its mixture.

    Args:
        mixture: Whose phases.
        shares: Returns the shares of all sources at a step.
        quiet: Write nothing: several ranks would write the same.
    """

    def __init__(
        self, mixture: Mixture, shares: Callable[[int], Mapping[str, float]], *, quiet: bool = False
    ) -> None:
        self._mixture = mixture
        self._shares = shares
        self._phase = 0
        self.quiet = quiet

    def resume(self, step: int) -> None:
        """Note that a run goes on at a step: the phase of the one before is known already."""
        self._phase = self._mixture.phase(step - 1) if step else 0
        if step and not self.quiet:
            log.info("Resumed at step %d: %s", step, self._told(step - 1))

    def take(self, step: int) -> None:
        """Note that the batch of a step was taken."""
        phase = self._mixture.phase(step)
        if phase == self._phase:
            return
        self._phase = phase
        if not self.quiet:
            log.info("Phase transition at step %d: %s", step, self._told(step))

    def _told(self, step: int) -> str:
        """Return phase, factor and shares of a step in words."""
        mixture, shares = self._mixture, self._shares(step)
        parts = listed(f"{name} {percent(share)}" for name, share in shares.items() if share)
        return f"phase={mixture.phase(step)}, lr_scale={mixture.lr_scale(step):g}, shares: {parts}"


def source_skew(
    batch: Batch | Mapping[str, Sequence[str]] | Sequence[str],
    sources: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return how evenly the samples of a batch come from its sources.

    Args:
        batch: A batch (or dict) with the column ``source``, or a list of sources, one a sample.
        sources: Names of the sources there are, which count also where they have no sample; by
            default, of a ``Batch``, those that its step draws from.

    Returns:
        ``total`` samples, how many ``sources``, ``min``, ``max`` and ``mean`` of their samples,
        ``ratio`` of max to min (infinite where one has none), and ``shares`` by name, the largest
        first. For no samples all are 0 and ``shares`` is empty.
    """
    known = batch.sources if sources is None and isinstance(batch, Batch) else sources or ()
    counts = Counter(dict.fromkeys(known, 0))
    counts.update(batch["source"] if isinstance(batch, Batch | Mapping) else batch)
    total, values = counts.total(), counts.values()
    if not total:
        names = ("total", "sources", "min", "max", "mean", "ratio")
        return dict.fromkeys(names, 0) | {"shares": {}}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {
        "total": total,
        "sources": len(counts),
        "min": min(values),
        "max": max(values),
        "mean": total / len(counts),
        "ratio": max(values) / min(values) if min(values) else math.inf,
        "shares": {name: count / total for name, count in ordered},
    }


def mean_by_source(sources: Sequence[str], losses: Any) -> dict[str, float]:
    """Return ``loss/NAME``: the mean of the losses of every source's samples.

    Args:
        sources: One a sample.
        losses: One number a sample: a list, an array or a tensor of shape (samples,).

    Raises:
        SamplerError: There are more or fewer losses than samples.
    """
    found = losses.tolist() if hasattr(losses, "tolist") else list(losses)
    flat = isinstance(found, list) and not any(isinstance(loss, list) for loss in found)
    if not flat or len(found) != len(sources):
        shape = f"{len(found)}" if flat else "others than"
        raise SamplerError(
            f"losses: {shape} for a batch of {len(sources)} samples; give one number a sample "
            f"(reduction='none')"
        )
    by_source: dict[str, list[float]] = {}
    for source, loss in zip(sources, found, strict=True):
        by_source.setdefault(source, []).append(float(loss))
    return {f"loss/{name}": sum(of) / len(of) for name, of in sorted(by_source.items())}


def lexical_similarity(one: str, other: str) -> float:
    """Return the share of words that two texts have in common: |A ∩ B| / |A ∪ B| (Jaccard 1901).

    Words are runs of letters and digits of any script, in lower case. 0 if there is none.
    """
    a, b = (set(_WORD.findall(text.casefold())) for text in (one, other))
    return len(a & b) / len(a | b) if a | b else 0.0


def similarities(batch: Batch, slots: Sequence[str]) -> dict[str, list[float]]:
    """Return ``ANCHOR_SLOT_lexical_similarity`` of the first slot with every other."""
    anchors = batch[slots[0]]
    return {
        f"{slots[0]}_{slot}_lexical_similarity": [
            lexical_similarity(one, other) for one, other in zip(anchors, batch[slot], strict=True)
        ]
        for slot in slots[1:]
    }


class Metrics(ShownDict):
    """What was taken of every source, by name: numbers, for any logger."""


def metrics(sampler: Sampler) -> dict[str, float]:
    """Return what was taken of every source, and how long blocks were waited for.

    Since the start of the run, by all ranks: ``data/NAME/samples``, ``data/NAME/tokens`` of all
    their texts, prefixes not counted (of messages those of the record's sections), and
    ``data/NAME/epochs``: samples to the number of its anchors. Where some negatives can lack,
    ``data/NAME/fallbacks``: those drawn at random for want of mined ones, of other records for
    want of the anchor's own, or of all sources of the split for want of enough in their own.
    With ``no_duplicates=True``, ``data/NAME/displaced``: samples that fit in no batch and gave
    their positions to others.

    Of this sampler since it was opened: ``prefetch/blocks_ready``, prepared and not begun;
    ``prefetch/waits``, how often a block was not ready when it was needed, as the first one;
    and ``prefetch/seconds_waited`` for these. Where they grow with the steps, training waits
    for data.
    """
    counts = sampler._reader.counters.counts()
    streams = sampler._planner.streams
    telling = {stream.source for stream in streams if stream.tells}
    found = Metrics()
    for name in sorted(sampler._planner.schedule.drawn):
        samples, tokens, fallbacks, displaced = [*counts.get(name, ()), *[0] * 4][:4]
        found[f"data/{name}/samples"] = samples
        found[f"data/{name}/tokens"] = tokens
        found[f"data/{name}/epochs"] = sampler._planner.epochs_of(name, samples)
        if name in telling:
            found[f"data/{name}/fallbacks"] = fallbacks
        if sampler._planner.distinct_batch:
            found[f"data/{name}/displaced"] = displaced
    found |= {f"prefetch/{name}": of for name, of in sampler._reader.prefetched.items()}
    return found


def loss_by_source(sampler: Sampler, batch: Batch, losses: Any) -> dict[str, float]:
    """Return ``loss/NAME``: the mean loss of the samples of every source in a batch.

    Args:
        batch: Of this run, as it was taken.
        losses: One number a sample: a list, an array or a tensor of shape (samples,).
    """
    if "source" in batch:
        return mean_by_source(batch["source"], losses)
    names = sampler._planner.schedule.sources
    numbers = sampler._planner.sources[_plan_of(sampler, batch).streams]
    return mean_by_source([names[number] for number in numbers], losses)


def diagnostics(sampler: Sampler, batch: Batch) -> dict[str, list[Any]]:
    """Return figures on the samples of a batch of this run, a list with one entry a sample.

    ``anchor_positive_lexical_similarity``, ``anchor_negative_lexical_similarity`` and so on
    (``lexical_similarity`` of the texts as they were served, prefixes included), and
    ``proximity``: 1/distance of the windows of anchor and positive where both are of one
    section, else None.
    """
    first, slots = sampler._reader.fetcher.slots[0], sampler.text_columns
    if first not in slots:
        raise SamplerError(
            f"diagnostics compare texts with the {first}, which columns= left out; this run "
            f"has {', '.join(sampler._settings.columns)}"
        )
    near = sampler._reader.fetcher.proximity(_plan_of(sampler, batch))
    ordered = [first, *(slot for slot in slots if slot != first)]
    return {**similarities(batch, ordered), "proximity": near}


def _plan_of(sampler: Sampler, batch: Batch) -> Plan:
    return sampler._planner.plan(batch.position, batch.position + len(batch))
