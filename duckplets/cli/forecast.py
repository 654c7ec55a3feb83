"""The command `forecast`: predict the samples of a run, or the effect of another mixture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from duckplets.base.sanitize import percent
from duckplets.cli import output
from duckplets.cli.app import corpus_at, say, tell
from duckplets.cli.options import NOT_HERE, mixture_of, opening
from duckplets.cli.verbs import command
from duckplets.errors import MixtureError, SamplerError

if TYPE_CHECKING:
    from duckplets.order.mixture import Mixture
    from duckplets.runs.sampler import Sampler
    from duckplets.samples.fetch import Fetcher


@command(opening, "corpus.runs:sampler", without=NOT_HERE)
def forecast(
    corpus: Path,
    steps: int | None = None,
    against: list[str] | None = None,
    write: Path | None = None,
    json: bool = False,
    **settings: Any,
) -> None:
    """Predict the samples of a run, or the effect of a mixture.

    The forecast uses counts alone: shares, samples, visits of each anchor, warnings. Use the same
    options as in `sample`. A saved run (--resume) is predicted from its step 0. Each row is a
    recipe of a source between two changes of shares. Tokens are expected values, from mean lengths.
    To compare with another mixture, --against prints the shares before and after, and the first
    changed step. Both include weights set during the run, as a resumed `sample` with this mixture
    does.

    Args:
        steps: Predict the first N steps. [default: to the end, or an epoch of the last phase]
        against (SOURCE=WEIGHT,…|FILE.toml): Print the changes by this mixture instead.
        write (FILE.toml): Write a file of this run for --config, with the value and meaning of
            every key.

    Example:
        duckplets forecast faq.duckdb --epochs 3
        duckplets forecast faq.duckdb --mixture mixture.toml --batch-size 256 --steps 100000 --json
        duckplets forecast faq.duckdb --resume --against new.toml
        duckplets forecast faq.duckdb --batch-size 64 --negatives 4 --write run.toml
    """
    how = opening(**settings)
    if write is not None and how.resume:
        raise typer.BadParameter("--write is for new runs: remove --resume")
    with corpus_at(corpus, read_only=True) as opened:
        sampler = how.open(opened)
        found = sampler.forecast(steps)
        say(*(f"note: {note}" for note in sampler.notes if note not in found.warnings))
        if write is not None:
            _write(write, {"run": how.run, **how.arguments})
        other = mixture_of(against or (), name="--against")
        if other is not None:
            _show_difference(_difference(sampler, other), json=json)
        elif json:
            facts = {"title": found.title, "warnings": found.warnings, "ends": [*found.ends]}
            output.print_document(facts | {"rows": found.table.to_pylist()})
        else:
            tell(*str(found).split("\n"))


def _write(path: Path, arguments: Mapping[str, Any]) -> None:
    from duckplets.corpus.run_file import written

    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(written(arguments))
    except OSError as error:
        raise SamplerError(
            f"--write {path}: {error.strerror}; give the path of a new file"
        ) from error
    say(f"wrote every key of this run to {path}: duckplets sample CORPUS --config {path}")


def _difference(sampler: Sampler, mixture: Mixture) -> dict[str, Any]:
    """Return the changes of a run by another mixture, as plain values."""
    from duckplets.base.checks import MAX_POSITION
    from duckplets.runs.pool_loading import with_lengths
    from duckplets.runs.settings import schedule_of
    from duckplets.runs.versions import planner_of
    from duckplets.samples.token_counts import measured

    before, settings = sampler.planner.schedule, sampler.settings
    if mixture.columns != settings.mixture.columns:
        columns = ", ".join(settings.mixture.columns) or "sources"
        raise MixtureError(f"--against: the run has shares of {columns}; give shares of the same")
    mixture = replace(mixture, values=settings.mixture.values)
    mixture.check(settings.names)
    sampler.open_sources(schedule_of(replace(settings, mixture=mixture), before.events))
    parts = [part for part in sampler.planner.parts if part.minings is None]
    each, fetcher = [part.streams for part in parts], cast("Fetcher", sampler.reader.fetcher)
    if mixture.unit == "tokens":
        each = [measured(streams, fetcher.tokens_of) for streams in each]
    made = with_lengths(replace(settings, mixture=mixture), each[-1])
    after, batch = schedule_of(made, before.events), settings.global_batch
    for streams, schedule in zip(each, after.parts, strict=True):  # adds epochs and tokens to it
        planner_of(made, streams, schedule, graded=False)
    is_ordered_alike = all(
        getattr(mixture, name) == getattr(settings.mixture, name)
        for name in ("order_by", "stairs", "order_epochs")
    )
    changed = sampler.first_change(after) if is_ordered_alike else 0
    is_altered = changed <= MAX_POSITION
    steps = sorted({*before.changes, *after.changes})
    rows, scales = list[dict[str, Any]](), list[dict[str, Any]]()
    for start, stop in zip(steps, [*steps[1:], None], strict=True):
        ends = (start, start if stop is None else stop - 1)
        old, new = ([schedule.shares(at) for at in ends] for schedule in (before, after))
        for name in before.sources:
            shares = {"before": [at[name] for at in old], "after": [at[name] for at in new]}
            if shares["before"] != shares["after"]:
                rows.append({"start": start, "stop": stop, "source": name, **shares})
    for step in sorted({0, *steps}):
        scale, other = (schedule.mixture.lr_scale(step) for schedule in (before, after))
        if scale != other:
            scales.append({"start_step": step, "before": scale, "after": other})
    is_ended = settings.epochs is not None and before.planned != after.planned
    ended, ends_now = before.ends, after.ends
    return {
        "first_step": changed // batch if is_altered else None,
        "first_position": changed if is_altered else None,
        "end_may_move": is_ended or before.used_up != after.used_up,
        "used_up": [
            {"source": name, "before": ended.get(name), "after": ends_now.get(name)}
            for name in before.sources
            if ended.get(name) != ends_now.get(name)
        ],
        "shares": rows,
        "lr_scale": scales,
    }


def _show_difference(found: Mapping[str, Any], *, json: bool) -> None:
    if json:
        output.print_document(found)
        return
    rows = [
        (row["start"], row["source"], _shares(row["before"]), _shares(row["after"]))
        for row in found["shares"]
    ]
    if rows:
        output.show_table(["from step", "source", "before", "after"], rows)
    tell(*_remarks(found))


def _remarks(found: Mapping[str, Any]) -> Iterator[str]:
    step = found["first_step"]
    for row in found["lr_scale"]:
        yield f"lr_scale from step {row['start_step']:,}: {row['before']:g}, {row['after']:g}"
    for row in found["used_up"]:
        ends = ("none" if row[key] is None else f"{row[key]:,}" for key in ("after", "before"))
        yield "{!r} is used up at position {} instead of {}".format(row["source"], *ends)
    if step is None:
        yield "only lr_scale changes" if found["lr_scale"] else "nothing changes"
    elif found["first_position"] == 0:
        yield "samples differ from step 0"
    else:
        yield f"nothing changes before step {step:,} (position {found['first_position']:,})"
    if found["end_may_move"]:
        yield "the run ends after epochs; other sources or shares may move its end"


def _shares(ends: list[float]) -> str:
    """Return the first and last share of a row, or one if they are equal."""
    first, last = map(percent, ends)
    return first if first == last else f"{first} to {last}"
