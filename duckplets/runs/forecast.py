"""Forecast the samples of a run, and warn of oddities, from counts alone.

Schedule, Planner ─closed form→ shares and samples at changes ─┬→ Forecast, describe, warnings
                                                               └→ difference (``--against``)

All figures cover all ranks from step 0 on, at any position of the run, with weights set during it.
Nothing is drawn, except with ``no_duplicates=True``: only a plan shows which samples fit in no
batch, so some blocks are planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from duckplets.base.checks import MAX_POSITION
from duckplets.base.sanitize import aligned, counted, figure, html_lines, listed, percent, shown
from duckplets.mining import near
from duckplets.pools import batch_keys
from duckplets.samples.plan import SINGLE

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture
    from duckplets.order.schedule import RunSchedule
    from duckplets.report.plots import Plot
    from duckplets.runs.reader import BatchReader, FetchesSamples
    from duckplets.runs.settings import RunSettings
    from duckplets.samples.plan import PartPlanner, Planner
    from duckplets.samples.stream import Stream

Unused: TypeAlias = tuple[str, str, int]  # source, recipe, anchors of a mining

NAME = 40  # characters of a printed name
NAMES = 10  # names listed in a sentence
_ROWS = 60  # rows of a printed table
_STREAMS = 20  # lines of a short description
_RATIO = 10  # ratio of visits above which streams of a source are reported
_MIXED = 0.25  # share of samples in mixed batches above which a stream is reported
_PLANNED = 1 << 17  # samples planned for a run without duplicates
_LARGEST_BLOCK = 1 << 22  # samples above which nothing is planned

SCHEMA = pa.schema(
    [
        *(("phase", pa.int32()), ("start_step", pa.int64())),
        *(("source", pa.string()), ("recipe", pa.string())),
        *(("share", pa.float64()), ("anchors", pa.int64()), ("samples", pa.int64())),
        *(("tokens", pa.int64()), ("visits", pa.float64()), ("negatives", pa.string())),
        *(("fallback_anchors", pa.int64()), ("shared_questions", pa.int64()), ("swap", pa.bool_())),
    ]
)
_WORDS = {"equal": "equal", "proportional": "in proportion to {}"}
_TOO_FEW = {
    "mined": "mined negatives than a sample needs, and use random ones instead",
    "given": "ready negatives than a sample needs, and use random ones instead",
    "random": "legal negatives in their source than a sample needs, and draw from all sources",
}
_CELLS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "from step": ("start_step", "{:,}".format),
    "source": ("source", lambda name: shown(name, NAME)),
    "value": ("value", lambda name: shown(name, NAME)),
    "recipe": ("recipe", lambda name: shown(name, NAME)),
    "share": ("share", percent),
    "anchors": ("anchors", "{:,}".format),
    "samples": ("samples", "{:,}".format),
    "visits": ("visits", figure),
    "tokens": ("tokens", "{:,}".format),
    "negatives": ("negatives", lambda negatives: negatives or "-"),
    "fall back": ("fallback_anchors", "{:,}".format),
}


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The forecast of a run: a row for every stream between two changes of shares.

    ``print`` shows it as a table with its warnings, a notebook as HTML.

    Attributes:
        table: Arrow. ``phase`` of the mixture, from 0. ``start_step`` of these shares; an anneal
            and weights set during the run also start shares. ``share`` of all samples of these
            steps, or of all tokens if they are the mixture's unit; the mean for an anneal.
            ``anchors`` of the stream. ``samples`` of all ranks; a pair counts as one. ``tokens``
            expected in all their texts, without prefixes. ``visits`` to each anchor.
            ``negatives``: ``random``, ``mined``, ``given`` (with the rows), ``same_record``, or
            null for texts. ``fallback_anchors``: anchors with fewer mined or given negatives than a
            sample needs, or fewer in their source with ``negatives_from="split"``.
            ``shared_questions``: anchors that share a question with other records, and draw none
            of its answers. ``swap``: whether anchor and positive change places in half of the
            samples. If later ones joined, ``version`` and ``generation`` of candidates: a stream
            has a row of each. ``value``, if shares are of the values of a column.
        warnings: Likely mistakes, a sentence each.
        title: Split, size and epochs of the forecast, in words.
        ends: Step and position at which sources are used up, a sentence each.
    """

    table: pa.Table
    warnings: list[str]
    title: str
    ends: Sequence[str] = ()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        rows = self.table.slice(0, _ROWS).to_pylist()
        shows = {head: how for head, how in _CELLS.items() if how[0] in self.table.column_names}
        cells = [[shown_as(row[name]) for name, shown_as in shows.values()] for row in rows]
        lines = [self.title, *(f"  {line}" for line in aligned([[*shows], *cells]))]
        lines += self.ends
        if len(self) > _ROWS:
            lines.append(f"and {len(self) - _ROWS:,} more rows, in .table")
        shared = {(row["source"], row["recipe"]): row["shared_questions"] for row in rows}
        lines += [_shared_words(*names, count) for names, count in shared.items() if count]
        if rows and rows[0]["negatives"] is not None:
            lines.append(swap_words(rows[0]["swap"]))
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def plot(self) -> Plot:
        """Plot the stacked share of each source over the steps, with phases; for a notebook."""
        from duckplets.report.plots import stacked_shares

        return stacked_shares(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_lines(str(self))


def forecast(
    settings: RunSettings, reader: BatchReader, unused: Iterable[Unused], steps: int | None
) -> Forecast:
    """Return the forecast of a run's first steps; see ``Sampler.forecast``."""
    planner, batch = reader.planner, settings.global_batch
    changes = planner.schedule.changes
    end = MAX_POSITION if reader.end is None else reader.end
    if steps is not None:
        end = min(steps * batch, end)
    elif reader.end is None:
        end = min(max(changes) * batch + planner.epoch_length, end)
    tables = []
    for part in planner.parts:
        stop = min(part.stop, end)
        if own := [step for step in part.schedule.changes if step * batch < stop]:
            tables.append(_table(planner, part, reader.fetcher, own, stop))
    epochs = figure(end / planner.epoch_length)
    unit = "row" if settings.kind == "tokens" else settings.kind.removesuffix("s").replace("_", " ")
    return Forecast(
        table=pa.concat_tables(tables) if tables else SCHEMA.empty_table(),
        warnings=[
            *warnings(settings, planner, unused),
            *_used_up(settings, planner, end),
            *_not_reached(settings, planner, end),
            *(_displaced(planner, end) if planner.newest.displaces else ()),
        ],
        title=f"{counted(end, unit)} of {settings.split}: "
        f"{counted(-(-end // batch), 'batch', 'batches')} of {batch:,}, {epochs} "
        f"{'epoch' if epochs == '1' else 'epochs'} of {planner.epoch_length:,}",
        ends=[*_ends(planner, 0, end)],
    )


def _ends(planner: Planner, start: int, end: int) -> Iterator[str]:
    """Yield the sources used up between two positions, and the end of the run by that."""
    schedule, batch = planner.schedule, planner.schedule.batch
    for name, at in schedule.ends.items():
        if start <= at < end:
            epochs = counted(schedule.mixture.max_epochs[name], "epoch")
            kind = "value" if schedule.mixture.columns else "source"
            yield (
                f"{kind} {shown(repr(name), NAME)} is used up at step {at // batch:,} (position "
                f"{at:,}), after {epochs}: its share goes to the others"
            )
    if (last := schedule.used_up) is not None:
        which = "the first source is" if schedule.mixture.stop == "first" else "all sources are"
        yield f"the run ends at step {last // batch:,} (position {last:,}), where {which} used up"


def _table(
    planner: Planner, part: PartPlanner, fetcher: FetchesSamples, changes: Sequence[int], stop: int
) -> pa.Table:
    """Return the samples of every stream of a part between changes of shares, in closed form."""
    streams, per_draw, swaps = part.streams, planner.samples_per_draw, planner.newest.swaps
    size, rows, batch = len(streams), len(streams) * len(changes), planner.schedule.batch
    upto = [part.samples(at - part.origin) for at in (*(c * batch for c in changes), stop)]
    samples = np.diff(np.array(upto), axis=0).reshape(rows)
    spans = pairwise([*changes, -(-stop // batch)])
    shares = np.array([part.shares(*span) for span in spans]).reshape(rows)
    anchors = np.array([len(stream) for stream in streams] * len(changes), np.int64)
    means = [fetcher.mean_tokens(stream, per_draw, swaps=swaps) for stream in streams]
    phases = [planner.schedule.mixture.phase(step) for step in changes]

    def of_streams(value: Callable[[Stream], Any]) -> list[Any]:
        return [value(stream) for stream in streams] * len(changes)

    columns = {
        "phase": np.repeat(np.array(phases, np.int32), size),
        "start_step": np.repeat(np.array(changes, np.int64), size),
        "source": of_streams(lambda stream: stream.source),
        "recipe": of_streams(lambda stream: stream.recipe.name),
        "share": shares,
        "anchors": anchors,
        "samples": samples,
        "tokens": np.rint(samples * np.array(means * len(changes))).astype(np.int64),
        "visits": samples / per_draw / anchors,
        "negatives": of_streams(lambda stream: stream.negatives_from),
        "fallback_anchors": of_streams(lambda stream: stream.fallback_anchors),
        "shared_questions": of_streams(lambda stream: stream.shared_questions),
        "swap": [swaps] * rows,
    }
    table = pa.table(columns, schema=SCHEMA)
    if planner.schedule.mixture.columns:
        table = table.append_column("value", pa.array(of_streams(attrgetter("value"))))
    for name in ("version", "generation") if len(planner.parts) > 1 else ():
        table = table.append_column(name, pa.array(of_streams(attrgetter(name)), pa.int64()))
    return table


def described(settings: RunSettings, planner: Planner, step: int) -> Iterator[str]:
    """Yield lines that describe a run from a step on."""
    schedule = planner.schedule
    yield (
        f"{settings.kind} of split {settings.split}, run {shown(repr(settings.run), NAME)}: "
        f"batches of {settings.global_batch:,}, epochs of "
        f"{counted(planner.epoch_length, 'sample')}{_shares_words(schedule, step)}"
    )
    yield from share_words(settings, schedule.mixture)
    part, rows = planner.at(step * settings.global_batch), []
    span = step, step + 1
    each = zip(part.streams, part.shares(*span), part.sample_shares(*span), strict=True)
    for stream, share, of_samples in [*each][:_STREAMS]:
        visits = figure(of_samples * planner.epoch_length / planner.samples_per_draw / len(stream))
        rows.append(
            [
                *(shown(name, NAME) for name in dict.fromkeys([stream.source, stream.name])),
                shown(stream.recipe.name, NAME),
                percent(share),
                counted(len(stream), "anchor"),
                f"{visits} visit{'s' * (visits != '1')} an epoch",
                _negatives(stream),
            ]
        )
    yield from (f"  {line}" for line in aligned(rows))
    if len(part.streams) > _STREAMS:
        yield f"  and {len(part.streams) - _STREAMS:,} more recipes of sources, in forecast()"
    for stream in part.streams[:_STREAMS]:
        if stream.shared_questions:
            yield _shared_words(stream.source, stream.recipe.name, stream.shared_questions)
        name = shown(f"{stream.source}, {stream.recipe.name}", NAME)
        if (counts := stream.filtered) is not None:
            pairs, anchors = counts.consistent_pairs, counts.consistent_anchors
            yield (
                f"consistent ({counts.by}): {counts.pairs - pairs:,} of "
                f"{counted(counts.pairs, 'pair')} and {counts.anchors - anchors:,} of "
                f"{counted(counts.anchors, 'anchor')} of {name} are left out"
            )
        for one in stream.candidates:
            mean = figure(float(one.counts[one.rows].mean()))
            yield f"an anchor of {name} has {mean} candidates of {one.scorer} on average"
    yield from (
        f"from step {join.step:,} on: corpus version {join.corpus_version}, every recipe of a "
        f"source in a new epoch"
        for join in settings.joins
    )
    for taken in planner.parts:
        if taken.minings is not None:
            keys = sorted({one.generation for one in taken.streams if one.generation is not None})
            first = taken.first // schedule.batch
            yield f"from step {first:,} on: negatives of mining {listed(keys)}; epochs continue"
    if settings.batch_by:
        mixed, _ = schedule.at(step).mixed(step)
        yield from batch_keys.in_words(settings.batch_by, part.streams[:_STREAMS], mixed)
    if settings.no_duplicates:
        yield near.in_words(settings.no_duplicates, settings.in_batch)
    yield from _ends(planner, step * settings.global_batch, MAX_POSITION)
    later = [f"{at:,}" for at in schedule.changes if at > step]
    if later:
        yield f"other shares from step {listed(later, NAMES)} on"
    if part.streams[0].negatives_from is not None:
        yield swap_words(planner.newest.swaps)


def share_words(settings: RunSettings, mixture: Mixture) -> Iterator[str]:
    """Yield the unit, the columns and the order of shares, where they are not the usual ones."""
    if mixture.unit == "tokens":
        tokenizer = settings.chunking.get("tokenizer")
        by = f"the corpus's tokenizer, {tokenizer[:12]}" if tokenizer else "words"
        counts = "the text" if settings.kind in SINGLE else "anchor and positive"
        yield f"shares are of tokens ({by}): a sample counts the tokens of {counts}"
    if mixture.columns:
        yield f"shares are of the values of {' and '.join(mixture.columns)}"
    if mixture.order_by is not None:
        epochs = counted(mixture.order_epochs, "epoch")
        yield f"{epochs} by {mixture.order_by}, the least first, in {mixture.stairs} stairs"


def _shares_words(schedule: RunSchedule, step: int) -> str:
    """Return the shares of sources at a step in words; empty for a single one."""
    weights = schedule.mixture.weights
    if len(schedule.sources) == 1:
        return ""
    at = schedule.at(step)
    is_word = isinstance(weights, str) and not at.is_overridden(step)
    unit = "tokens" if schedule.mixture.unit == "tokens" else "anchors"
    words = _WORDS[str(weights)].format(unit) if is_word else "as given"
    temperature = at.in_force(step).temperature
    return f", shares {words}" + f" (temperature {temperature:g})" * (temperature != 1)


def _negatives(stream: Stream) -> str:
    found, count = stream.negatives_from, stream.fallback_anchors
    if found is None:
        return ""
    if stream.is_given:
        return "grades as given" if stream.graded else "labels as given"
    compiled, negatives = stream.pool.compiled, stream.pool.negatives
    if compiled.documents and negatives is not None:
        found += f" among {counted(len(negatives.starts) - 1, 'document')}"
    if not count:
        return f"negatives {found}"
    others = "all sources" if found == "random" else "random ones"
    return f"negatives {found}, for {counted(count, 'anchor')} {others}"


def warnings(settings: RunSettings, planner: Planner, unused: Iterable[Unused]) -> Iterator[str]:
    """Yield oddities of a run that do not depend on its length."""
    schedule = planner.schedule
    yield from oddities(planner.newest)
    drawn = schedule.drawn
    undrawn = [name for name in settings.names if name not in drawn]
    yield from omitted(schedule.mixture, undrawn)
    yield from unused_negatives(unused)
    yield from unreached(planner)
    if settings.batch_by:
        yield from _too_small(planner.newest, settings.batch_by)
    for stream in planner.newest.streams if settings.batch_by else ():
        if stream.keyed is not None and stream.keyed.mixed > _MIXED * len(stream):
            yield (
                f"source {stream.source!r}, recipe {stream.recipe.name!r}: "
                f"{percent(stream.keyed.mixed / len(stream))} of the samples are in batches of "
                f"mixed keys, since their keys do not fill batches; use larger keys, or smaller "
                f"batches"
            )
    for number in np.flatnonzero(planner.newest.recipe_parts()).tolist():
        stream = planner.newest.streams[number]
        if stream.fallback_anchors:
            yield (
                f"source {stream.source!r}, recipe {stream.recipe.name!r}: "
                f"{percent(stream.fallback_anchors / len(stream))} of the anchors "
                f"({stream.fallback_anchors:,} of {len(stream):,}) have fewer "
                f"{_TOO_FEW[stream.negatives_from or '']}"
            )


def _too_small(part: PartPlanner, by: str) -> Iterator[str]:
    """Yield sources that fill no batch of their own."""
    schedule = part.schedule
    for step in schedule.changes:
        share, mixed = schedule.mixed(step)
        names = schedule.names_at(step)
        few = mixed or {name for name in names if part.length_of(name) < schedule.batch}
        if not few or len(names) == 1:
            continue
        then = "are in batches of several sources" if share else "come more than once in a batch"
        yield (
            f"batch_by={by!r}: sources with too few anchors for a batch of {schedule.batch:,} "
            f"({listed(map(repr, sorted(few)), NAMES)}): these anchors {then}; lower batch_size"
        )
        return


def _not_reached(settings: RunSettings, planner: Planner, end: int) -> Iterator[str]:
    """Yield the samples that whole batches leave out of the epochs of a proportional run."""
    schedule = planner.schedule
    epochs, rest = divmod(end, planner.epoch_length)
    by = settings.batch_by
    if by in (None, "source") or rest or len(planner.parts) > 1 or len(schedule.changes) > 1:
        return
    mixture = schedule.mixture
    if (mixture.weights, mixture.temperature, mixture.unit) != ("proportional", 1, "samples"):
        return
    samples = planner.schedule.samples(end)
    remaining = {name: epochs * planner.newest.length_of(name) - n for name, n in samples.items()}
    if words := [f"{n:,} of {name!r}" for name, n in remaining.items() if n > 0]:
        yield (
            f"batch_by={by!r} deals whole batches to sources, so at the end of "
            f"{counted(epochs, 'epoch')} these samples are still due: {listed(words, NAMES)}"
        )


def unreached(planner: Planner) -> Iterator[str]:
    """Yield for every join the number of anchors that the epochs before it do not reach."""
    for part, after in pairwise(planner.parts):
        if after.minings is not None:
            continue
        samples = part.samples(part.stop - part.origin) // planner.samples_per_draw
        remaining = sum(
            -int(n) % len(stream) for n, stream in zip(samples, part.streams, strict=True)
        )
        if remaining:
            yield (
                f"{remaining:,} of {counted(sum(map(len, part.streams)), 'anchor')} are not "
                f"reached in the epochs that end at step {part.stop // planner.schedule.batch:,}"
            )


def oddities(planner: PartPlanner) -> Iterator[str]:
    """Yield notes on anchors that were not mined, uneven visits, and mixed labels."""
    for stream in planner.streams:
        for candidates in stream.candidates:
            if candidates.not_mined:
                yield (
                    f"source {stream.source!r}, recipe {stream.recipe.name!r}: "
                    f"{candidates.scorer} has not mined {candidates.not_mined:,} of "
                    f"{len(candidates.sections):,} anchor sections; mine them: "
                    f"corpus.mine({stream.recipe.name!r})"
                )
    rates = planner.recipe_parts() / np.array([*map(len, planner.streams)])
    for source in dict.fromkeys(planner.sources.tolist()):
        of_source = np.flatnonzero((planner.sources == source) & (rates > 0))
        if not len(of_source):
            continue
        least = of_source[np.argmin(rates[of_source])]
        other = planner.streams[least]
        for number in of_source[rates[of_source] > _RATIO * rates[least]]:
            stream = planner.streams[number]
            yield (
                f"source {stream.source!r}: recipe {stream.recipe.name!r} comes to each of its "
                f"{len(stream):,} anchors {figure(rates[number] / rates[least])} times as often as "
                f"recipe {other.recipe.name!r} to each of its {len(other):,}; give it less weight="
            )
    if not planner.is_graded:
        return
    graded = dict.fromkeys(s.source for s in planner.streams if s.graded)
    others = dict.fromkeys(s.source for s in planner.streams if s.source not in graded)
    if graded and others:
        yield (
            f"labels are floats, since {listed(map(repr, graded), NAMES)} has grades; 1 and 0 of "
            f"{listed(map(repr, others), NAMES)} become 1.0 and 0.0"
        )


def omitted(mixture: Mixture, sources: Sequence[str]) -> Iterator[str]:
    """Yield the sources that a mixture leaves out by not naming them."""
    if isinstance(mixture.weights, str) or mixture.omitted:
        return
    named = mixture.named | {name for name in sources if mixture.is_null(name)}
    if excluded := [repr(name) for name in sources if name not in named]:
        yield (
            f"the mixture does not name {listed(excluded, NAMES)}: nothing is drawn from there; "
            f"omitted=1 gives such sources a weight"
        )


def unused_negatives(minings: Iterable[Unused]) -> Iterator[str]:
    """Yield notes on mined negatives that a run does not use."""
    for source, recipe, anchors in minings:
        yield (
            f"source {source!r}, recipe {recipe!r} draws at random, and the mined negatives of "
            f"{anchors:,} anchors are not used: they were mined after this run was opened; a new "
            f"run uses them"
        )


def _used_up(settings: RunSettings, planner: Planner, end: int) -> Iterator[str]:
    """Yield the sources with more epochs before the end than requested."""
    schedule = planner.schedule
    expected = float(settings.epochs or 1)
    if schedule.mixture.weights == "proportional":  # all start over, and evenly
        expected = max(expected, end / planner.epoch_length)
    # the largest error of shares: as much for each change; later minings change no shares
    changes = len(schedule.changes) - sum(part.minings is not None for part in planner.parts)
    found, bound = [], (ceil(log2(len(schedule.sources))) + 1) * changes
    for name, times in planner.epochs(end).items():
        length = planner.newest.length_of(name)
        slack = max(0.1 * length, bound)
        if name in schedule.mixture.max_epochs:
            continue
        if times * length > expected * length + slack:
            found.append(f"{name!r} ({figure(times)} times)")
    if found:
        step = -(-end // settings.global_batch)
        yield f"used up before step {step:,}, and started again: {listed(found, NAMES)}"


def _displaced(planner: Planner, end: int) -> Iterator[str]:
    """Yield the sources of samples that fit in no batch of their block, from the first blocks."""
    if planner.block(0)[1] > _LARGEST_BLOCK:
        return
    planned, size = min(end, _PLANNED), len(planner.schedule.sources)
    gave = planner.plan(0, planned).displaced
    gave = np.zeros(0, np.int64) if gave is None else gave[gave >= 0]
    displaced = np.bincount(planner.sources[gave], minlength=size) * (end / max(planned, 1))
    words = [
        f"{counted(round(several), 'sample')} of {name!r} ({percent(several / max(due, 1))})"
        for several, (name, due) in zip(
            displaced, planner.schedule.samples(end).items(), strict=True
        )
        if several
    ]
    if words:
        more = "" if planned == end else f", estimated from {planned:,} samples"
        yield (
            f"{listed(words, NAMES)} fit into no batch of their block, and others take "
            f"their positions (displaced{more})"
        )


def _shared_words(source: str, recipe: str, count: int) -> str:
    return (
        f"source {shown(source, NAME)}, recipe {shown(recipe, NAME)}: {counted(count, 'anchor')} "
        f"share a question with other records, and draw none of its answers as a negative"
    )


def swap_words(swaps: bool) -> str:
    """Return whether anchor and positive are swapped, in words."""
    on = "swap on: anchor and positive change places in half of the samples"
    return on if swaps else "swap off: anchor and positive stay in their places"


def phase_words(schedule: RunSchedule, step: int) -> str:
    """Return phase, factor and shares of a step in words."""
    mixture, shares = schedule.mixture, schedule.shares(step)
    parts = listed(f"{name} {percent(share)}" for name, share in shares.items() if share)
    return f"phase={mixture.phase(step)}, lr_scale={mixture.lr_scale(step):g}, shares: {parts}"
