"""Find where a run drew some texts: the order run backwards, and the samples found planned.

text ─SQL→ hashes of windows ─pools→ anchors that draw them ─index_of→ draws ─deal→ positions
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.base.columns import column, text_column
from duckplets.base.progress import Progress, bar
from duckplets.base.sanitize import counted
from duckplets.errors import SamplerError
from duckplets.order.permute import index_of
from duckplets.quality.decontaminate import texts_against

if TYPE_CHECKING:
    from duckplets.pools.arrays import PoolNegatives
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.candidates import Candidates
    from duckplets.samples.plan import PartPlanner, Plan, Planner
    from duckplets.samples.stream import Stream

_PIECE = 1 << 16  # positions planned, or looked at, at a time


def drawn(
    sampler: Sampler,
    texts: Sequence[str],
    *,
    every: bool = False,
    progress: Progress | bool | None = None,
) -> pa.Table:
    """Return where a run has drawn texts so far, a row for each time.

    A text is found as a window, or as a section that differs only in case, accents and white space.
    Anchors, positives, mined and given negatives are found by the order run backwards; negatives
    that were drawn at random need ``every``.

    Args:
        sampler: The run.
        texts: The texts.
        every: Plan every sample again, and find random negatives as well.
        progress: Called with samples done and their number; True or False for a bar on stderr or
            none. Default: a bar if stderr is a terminal.

    Returns:
        Columns ``text`` (its number, from 0), ``step``, ``position``, ``source``, ``recipe`` and
        ``column``, the one of the batch that has it; by position.

    Raises:
        SamplerError: The run is over token shards.
    """
    if (database := sampler.database) is None:
        raise SamplerError("drawn: a run over token shards has texts of other files")
    whole = [text.encode("utf-8", "replace").decode() for text in texts]  # half surrogates
    asked = pa.table({"number": np.arange(len(texts)), "text": pa.array(whole, pa.string())})
    with database.registered(asked=asked):
        found = database.table("proof/texts/hashes")
    of_texts = found["number"].to_numpy(), found["text_hash"].to_numpy()
    planner, wanted = sampler.planner, np.unique(of_texts[1])
    every = every or any(part.needs_all for part in planner.parts)
    rows = [_found(sampler, planner.plan(0, 0), of_texts)]
    with bar(progress if every else False, sys.stderr, "samples") as report:
        for positions in _positions(planner, wanted, sampler.position, every=every):
            rows.append(_found(sampler, planner.plan_at(positions), of_texts))
            if report is not None:
                report(int(positions[-1]) + 1, sampler.position)
    return pa.concat_tables(rows)


def summary(rows: pa.Table, texts: int, *, every: bool) -> str:
    """Return in words how often and where texts were drawn."""
    seen = len(set(rows["text"].to_pylist()))
    found = f"{seen:,} of {counted(texts, 'text')} drawn"
    if rows.num_rows:
        steps = rows["step"].to_numpy()
        columns = Counter(rows["column"].to_pylist())
        where = f"steps {steps.min():,} to {steps.max():,}"
        if steps.min() == steps.max():
            where = f"step {steps.min():,}"
        found += (
            f", {counted(rows.num_rows, 'time')} in {where}: "
            f"{', '.join(f'{times:,} as {name}' for name, times in columns.most_common())}"
        )
    return found + ("" if every else "; random negatives were not searched: --all")


def texts_of(path: Path) -> list[str]:
    """Return the texts of a file: its lines, the queries of a BEIR folder, or a column ``text``."""
    if path.suffix == ".txt":
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if line.strip()]
    return [text for batch in texts_against(path) for text in batch.to_pylist()]


def _positions(planner: Planner, wanted: Words, stop: int, *, every: bool) -> Iterator[Integers]:
    """Yield positions where the texts may have been drawn, ascending."""
    for part in planner.parts:
        first, last = part.first, min(part.stop, stop)
        units = [_units(stream, wanted) for stream in part.streams]
        for low in range(first, last, _PIECE):
            high = min(low + _PIECE, last)
            positions = np.arange(low, high)
            if not every:
                positions = low + np.flatnonzero(_drawn(part, units, low, high))
            if len(positions):
                yield positions


def _drawn(part: PartPlanner, units: Sequence[Integers], low: int, high: int) -> Flags:
    """Return at which positions of a span a part draws one of some anchors of each stream."""
    per_draw, found = part.samples_per_draw, np.zeros(high - low, bool)
    first, last = (at - part.origin for at in (low, high))
    counts = part.samples(first) // per_draw, -(-part.samples(last) // per_draw)
    asked = {}
    for number, (start, stop) in enumerate(zip(*(ends.tolist() for ends in counts), strict=True)):
        if start < stop and len(units[number]):
            asked[number] = _draws(part.streams[number], units[number], start, stop)
    if not any(map(len, asked.values())):
        return found
    numbers = np.arange(first // per_draw, -(-last // per_draw))
    for number, offsets, own in part.dealt(part.schedule, numbers):
        if number in asked:
            draws = numbers[offsets[np.isin(own, asked[number])]] * per_draw - first
            at = (draws[:, None] + np.arange(per_draw)).reshape(-1)
            found[at[(at >= 0) & (at < len(found))]] = True
    return found


def _draws(stream: Stream, units: Integers, start: int, stop: int) -> Integers:
    """Return which draws of a stream, from one to before another, are of some anchors."""
    if stream.keyed is not None or stream.stairs is not None:
        draws = np.arange(start, stop)
        return draws[np.isin(stream.places_at(draws)[0], units)]
    if stream.units is not None:
        units = np.flatnonzero(np.isin(stream.units, units))
    size = len(stream)
    epochs = np.arange(start // size, -(-stop // size))
    pairs = np.tile(units, len(epochs)), np.repeat(epochs, len(units))
    draws = index_of(stream.purpose("order"), size, *pairs)
    return draws[(draws >= start) & (draws < stop)]


def _units(stream: Stream, wanted: Words) -> Integers:
    """Return the anchors that may draw one of some texts, without random negatives."""
    pool, anchors = stream.pool, stream.pool.anchors
    chunks = np.isin(anchors.hashes, wanted)
    if (negatives := pool.negatives) is not None:
        at = np.flatnonzero(np.isin(negatives.hashes, wanted))
        if negatives.own and len(at):
            own = np.searchsorted(negatives.starts, at, side="right") - 1
            chunks |= np.isin(anchors.classes, _classes(negatives, own))
        for candidates in stream.candidates if len(at) else ():
            chunks |= _candidates(candidates, at)
    found = np.logical_or.reduceat(chunks, anchors.starts[:-1]) if len(anchors) else chunks
    if (positives := pool.positives) is not None and not pool.compiled.own_positive:
        sums = np.concatenate([[0], np.cumsum(np.isin(positives.hashes, wanted))])
        found |= sums[positives.starts + positives.counts] > sums[positives.starts]
    return np.flatnonzero(found)


def _classes(negatives: PoolNegatives, units: Integers) -> Integers:
    """Return the classes of anchors that may draw from some units."""
    order = np.argsort(negatives.lows, kind="stable")  # each unit is in one range: of its record
    ranges = order[np.searchsorted(negatives.lows[order], units, side="right") - 1]
    return np.searchsorted(negatives.firsts, np.unique(ranges), side="right") - 1


def _candidates(candidates: Candidates, chunks: Integers) -> Flags:
    """Return which anchor chunks have one of some chunks of negatives as a candidate."""
    documents = candidates.documents
    at = chunks
    if documents.chunks is not None:
        at = np.flatnonzero(np.isin(documents.chunks, chunks))
    numbers = np.unique(np.searchsorted(documents.firsts, at, side="right") - 1)
    found = np.flatnonzero(np.isin(candidates.numbers, numbers))
    rows = np.searchsorted(candidates.starts, found, side="right") - 1
    chosen: Flags = np.isin(candidates.rows, rows)
    return chosen


def _found(sampler: Sampler, plan: Plan, of_texts: tuple[Integers, Words]) -> pa.Table:
    """Return the rows of a plan whose samples have one of the texts."""
    numbers, hashes = of_texts
    names = sampler.reader.fetcher.slots
    drawn = plan.hashes[: len(plan.chunks)].T
    there = np.isin(drawn, hashes)
    if (present := plan.present) is not None:
        there &= present.T
    samples, slots = np.nonzero(there)
    order = np.argsort(hashes, kind="stable")
    low, high = (
        np.searchsorted(hashes[order], drawn[samples, slots], side=side)
        for side in ("left", "right")
    )
    times = high - low  # a window may be of several texts
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    samples, slots = np.repeat(samples, times), np.repeat(slots, times)
    streams, positions = sampler.planner.streams, plan.positions[samples]
    number = column(plan.streams[samples])
    return pa.table(
        {
            "text": numbers[order][np.repeat(low, times) + within],
            "step": positions // sampler.settings.global_batch,
            "position": positions,
            "source": text_column([stream.source for stream in streams]).take(number),
            "recipe": text_column([stream.recipe.name for stream in streams]).take(number),
            "column": text_column(names).take(column(np.minimum(slots, len(names) - 1))),
        }
    )
