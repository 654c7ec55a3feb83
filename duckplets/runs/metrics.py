"""Count the served samples of each source, store losses, and describe batches.

planner ─closed form→ samples;  ─planned since the last count→ tokens, fallbacks, displaced
report_loss ─→ Losses ─save→ table losses of the state file ─resume→ Losses

Counters cover all positions before the position of the run, on all ranks, so every rank has the
same figures. There is one loss for each step and source, the one reported last.
"""

from __future__ import annotations

import logging
import math
import re
import sys
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Array, Floats, Integers
from duckplets.base.sanitize import ShownDict, listed, shown
from duckplets.errors import SamplerError, nearest
from duckplets.samples.batch import Batch

if TYPE_CHECKING:
    from duckplets.runs.reader import BatchReader, FetchesSamples
    from duckplets.runs.sampler import Sampler
    from duckplets.runs.state import Counts
    from duckplets.samples.plan import Planner

log = logging.getLogger("duckplets")

SCHEMA = pa.schema([("step", pa.int64()), ("source", pa.string()), ("loss", pa.float64())])
SAMPLES = pa.schema([("step", pa.int64()), ("position", pa.int64()), ("loss", pa.float64())])

WORST = 32  # losses of samples stored for a step
KNOWN = 4096  # losses of samples stored for all saved steps

_AT_ONCE = 1 << 17  # samples planned at a time for counting
_LONG = 1 << 26  # samples above which the log reports the counting: half a minute
_WORD = re.compile(r"[^\W_]+")  # runs of letters and digits of any script


class SourceCounts:
    """Count tokens, fallbacks and displaced samples by source, on demand."""

    def __init__(self, planner: Planner, fetcher: FetchesSamples) -> None:
        self._planner, self._fetcher = planner, fetcher
        self._alone = Lock()  # two threads would both add the span since the last count
        self._position = 0
        self._counts = np.zeros((len(planner.schedule.sources), 3), np.int64)

    def load(self, counts: Counts) -> None:
        """Continue the counts of a saved run."""
        names = self._planner.schedule.sources
        with self._alone:
            self._position, sources = counts
            self._counts[:] = [sources.get(name, (0, 0, 0)) for name in names]

    def at(self, position: int) -> list[list[int]]:
        """Return the three counts of every source, by number, before a position."""
        with self._alone:
            self._rewind(position)
            uncounted = position - self._position
            if uncounted > _LONG:
                log.info("counting the tokens of %s samples, once", f"{uncounted:,}")
            self._counts += self._counted(self._position, position)
            self._position = position
            return self._counts.tolist()

    def known(self, position: int) -> Counts:
        """Return the counts so far before a position, and forget what lies beyond."""
        with self._alone:
            self._rewind(position)
            names = self._planner.schedule.sources
            return self._position, dict(zip(names, self._counts.tolist(), strict=True))

    def _rewind(self, position: int) -> None:
        if self._position <= position:
            return
        if self._position - position > position:
            self._position, self._counts[:] = 0, 0
        else:
            self._counts -= self._counted(position, self._position)
            self._position = position

    def _counted(self, start: int, stop: int) -> Integers:
        found = np.zeros_like(self._counts)
        for low in range(start, stop, _AT_ONCE):
            with self._fetcher.sound():
                plan = self._planner.plan(low, min(low + _AT_ONCE, stop))
                found += self._fetcher.count(plan, self._planner.sources, len(found))
        return found


class Losses:
    """The losses of a run, 24 bytes each; the file has the losses before step ``first``."""

    def __init__(
        self, known: pa.Table | None = None, first: int = 0, samples: pa.Table | None = None
    ) -> None:
        self._known_samples = SAMPLES.empty_table() if samples is None else samples  # saved
        # by step since the last save: positions and their losses
        self._samples: dict[int, tuple[Integers, Floats]] = {}
        self._steps, self._values = array("q"), array("d")
        self._sources: list[str] = []
        self.first, self._is_unsaved = first, False
        if known is not None:
            self._extend(known)

    def _extend(self, more: pa.Table) -> None:
        self._steps.extend(more["step"].to_pylist())
        self._sources.extend(map(sys.intern, more["source"].to_pylist()))
        self._values.extend(more["loss"].to_pylist())

    def report(self, step: int, losses: Mapping[str, float]) -> None:
        """Record the losses of sources at a step."""
        self.first, self._is_unsaved = min(self.first, step), True
        for name, loss in losses.items():
            self._steps.append(step)
            self._sources.append(sys.intern(str(name)))
            self._values.append(loss)

    def report_samples(self, step: int, position: int, losses: Floats) -> None:
        """Record the highest losses of samples at a step; the first sample has this position."""
        self.first, self._is_unsaved = min(self.first, step), True
        worst = np.argsort(-losses, kind="stable")[:WORST]
        self._samples[step] = position + worst, losses[worst]

    def samples(self, start: int, stop: int) -> pa.Table:
        """Return losses of samples of some steps, the highest first; columns as in ``SAMPLES``."""
        known = self._known_samples
        steps = known["step"].to_numpy()
        again = np.isin(steps, [*self._samples])
        saved = known.filter((steps >= start) & (steps < stop) & ~again)
        new = {step: worst for step, worst in self._samples.items() if start <= step < stop}
        of_steps = np.repeat([*new], [len(at) for at, _ in new.values()])
        nothing = np.zeros(0, np.int64), np.zeros(0)
        columns = map(np.concatenate, zip(nothing, *new.values(), strict=True))
        added = pa.table([of_steps, *columns], SAMPLES.names).cast(SAMPLES)
        order = [("loss", "descending"), ("position", "ascending")]
        return pa.concat_tables([saved, added]).sort_by(order)

    def begin(self, step: int) -> None:
        """Record that the run moves to another step."""
        self.first = min(self.first, step) if self._is_unsaved else step

    def add(self, others: Losses) -> None:
        """Add losses reported elsewhere."""
        self._extend(others.table(0, 1 << 62))
        self._samples |= others._samples
        if not self._known_samples.num_rows:
            self._known_samples = others._known_samples
        if others._is_unsaved:
            self.first, self._is_unsaved = min(self.first, others.first), True

    def written(self, stop: int) -> None:
        """Record that the file has all losses before a step; retain the highest of samples."""
        self.first, self._is_unsaved = stop, False
        self._known_samples = self.samples(0, stop).slice(0, KNOWN)
        self._samples = {step: worst for step, worst in self._samples.items() if step >= stop}

    def table(self, start: int, stop: int) -> pa.Table:
        """Return losses by step and source; columns as in ``SCHEMA``."""
        steps = np.array(self._steps)
        found = np.flatnonzero((start <= steps) & (steps < stop))
        sources = pa.array([self._sources[at] for at in found.tolist()], pa.string())
        rows = pa.table([steps[found], sources, np.array(self._values)[found]], SCHEMA.names)
        each = rows.group_by(SCHEMA.names[:2], use_threads=False)
        last = each.aggregate([("loss", "last")])  # the last report of a step and source counts
        return last.rename_columns(SCHEMA.names).sort_by(
            [("step", "ascending"), ("source", "ascending")]
        )


def checked_losses(losses: Mapping[str, Any], sources: Collection[str]) -> dict[str, float]:
    """Return losses as floats, by source."""
    if not isinstance(losses, Mapping):
        raise SamplerError(
            f"report_loss: {shown(repr(losses))}: give the loss of each source by its name, as in "
            f"{{'web': 2.1}}"
        )
    found = {}
    for name, loss in losses.items():
        source = name if name in sources else str(name).removeprefix("loss/")
        if source not in sources:
            raise SamplerError(
                f"report_loss: no source {shown(repr(name))}{nearest(source, sources)}; there are: "
                f"{listed(sources)}"
            )
        try:
            value = math.nan if isinstance(loss, str | bool) else float(loss)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value):
            raise SamplerError(
                f"report_loss: {source!r}: {shown(repr(loss), 80)} is not a finite number"
            )
        found[source] = value
    return found


def source_skew(
    batch: Batch | Mapping[str, Sequence[str]] | Sequence[str],
    sources: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return how evenly the samples of a batch come from its sources.

    Args:
        batch: A batch (or dict) with the column ``source``, or a list of sources, one a sample.
        sources: Names of all sources; a source without a sample counts too. Default for a
            ``Batch``: the sources that its step draws from.

    Returns:
        ``total`` samples, the number of ``sources``, ``min``, ``max`` and ``mean`` of their
        samples, ``ratio`` of max to min (infinite if one has no sample), and ``shares`` by name,
        the largest first. Without samples all are 0 and ``shares`` is empty.
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


def checked_samples(losses: Any, count: int) -> Floats:
    """Return the losses of a batch's samples as floats."""
    found = _by_sample("report_loss: per_sample", losses, count)
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise SamplerError(f"report_loss: per_sample[{row}]={found[row]} is not a finite number")
    return found.astype(np.float64)


def mean_by_source(sources: Sequence[str], losses: Any) -> dict[str, float]:
    """Return the mean loss of the samples of every source, as ``loss/NAME``."""
    by_source: dict[str, list[float]] = {}
    found = _by_sample("losses", losses, len(sources)).tolist()
    for source, loss in zip(sources, found, strict=True):
        by_source.setdefault(source, []).append(float(loss))
    return {f"loss/{name}": sum(values) / len(values) for name, values in sorted(by_source.items())}


def _by_sample(what: str, losses: Any, count: int) -> Array:
    """Return one number for each sample of a batch; refuse another shape."""
    rows = losses if isinstance(losses, list | tuple) else [losses]
    plain = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    try:
        found = np.array(plain if rows is losses else plain[0])
    except ValueError:  # lists of several lengths
        found = np.array(None)
    if found.dtype.kind not in "iuf" or found.shape != (count,):
        raise SamplerError(
            f"{what}: it has the shape {found.shape} of {found.dtype}, for a batch of {count} "
            f"samples; give one number for each sample (reduction='none')"
        )
    return found


def lexical_similarity(one: str, other: str) -> float:
    """Return the share of words that two texts have in common: |A ∩ B| / |A ∪ B| (Jaccard 1901).

    Words are runs of letters and digits of any script, in lower case. Without words it is 0.
    """
    a, b = (set(_WORD.findall(text.casefold())) for text in (one, other))
    return len(a & b) / len(a | b) if a | b else 0.0


class Metrics(ShownDict):
    """The counters of every source by name: numbers, for any logger."""


def metrics(planner: Planner, reader: BatchReader, position: int) -> Metrics:
    """Return the figures of ``Sampler.metrics`` before a position."""
    counts = reader.counter.at(position)
    samples, epochs = planner.schedule.samples(position), planner.epochs(position)
    numbers = planner.schedule.numbers
    with_fallbacks = {stream.name for stream in planner.streams if stream.has_fallbacks}
    found = Metrics()
    for name in sorted(planner.schedule.drawn):
        tokens, fallbacks, displaced = counts[numbers[name]]
        found[f"data/{name}/samples"] = samples[name]
        found[f"data/{name}/tokens"] = tokens
        found[f"data/{name}/epochs"] = epochs[name]
        if name in with_fallbacks:
            found[f"data/{name}/fallbacks"] = fallbacks
        if planner.newest.displaces:
            found[f"data/{name}/displaced"] = displaced
    return Metrics(found | reader.prefetched)


def loss_by_source(sampler: Sampler, batch: Batch, losses: Any) -> dict[str, float]:
    """Return the mean loss of the samples of every source in a batch, as ``loss/NAME``.

    Args:
        batch: A batch of this run.
        losses: One number for each sample: a list, an array or a tensor of shape (samples,).
    """
    if "source" in batch and not sampler.settings.mixture.columns:
        return mean_by_source(batch["source"], losses)
    names, plan = (
        sampler.planner.schedule.sources,
        sampler.planner.plan(batch.position, batch.position + len(batch)),
    )
    numbers = sampler.planner.sources[plan.streams]
    return mean_by_source([names[number] for number in numbers], losses)


def diagnostics(sampler: Sampler, batch: Batch) -> dict[str, list[Any]]:
    """Return figures on a batch of this run, each a list with one entry for each sample.

    ``anchor_positive_lexical_similarity``, ``anchor_negative_lexical_similarity`` and so on are the
    ``lexical_similarity`` of the served texts, with prefixes. ``proximity`` is 1/distance of the
    windows of anchor and positive in one section, and None for different sections.
    """
    need_texts(sampler, "diagnostics")
    fetcher: Any = sampler.reader.fetcher
    first, slots = fetcher.slots[0], sampler.text_columns
    if sampler.settings.kind == "lists":
        raise SamplerError(
            "diagnostics compare pairs of texts, and this run serves lists; open a run of triplets"
        )
    if first not in slots:
        raise SamplerError(
            f"diagnostics compare texts with the {first}, which columns= left out; this run "
            f"has {', '.join(sampler.settings.columns)}"
        )
    found: dict[str, list[Any]] = {
        f"{first}_{slot}_lexical_similarity": list(
            map(lexical_similarity, batch[first], batch[slot])
        )
        for slot in slots
        if slot != first
    }
    plan = sampler.planner.plan(batch.position, batch.position + len(batch))
    return found | {"proximity": fetcher.proximity(plan)}


def need_texts(sampler: Sampler, feature: str) -> None:
    """Refuse a feature that needs texts for a run over token shards."""
    if sampler.settings.kind == "tokens":
        raise SamplerError(
            f"{feature} needs texts, and this run serves tokens: iterate it, give a Trainer its "
            f"to_hf(), or give PyTorch's DataLoader a duckplets.torch.TokenDataset"
        )
