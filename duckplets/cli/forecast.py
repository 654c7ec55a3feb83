"""The command `forecast`: what a run will draw, or what another mixture changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, corpus_at, say, tell
from duckplets.cli.options import mixture_of, names_run, opening
from duckplets.cli.verbs import option

if TYPE_CHECKING:
    from duckplets.runs.forecast import Forecast


@names_run()
def forecast(
    corpus: CORPUS,
    steps: Annotated[
        int | None,
        option(
            "So many steps, from step 0. [default: to the end, or an epoch of the last phase]",
            min=0,
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        option(
            "Print instead what this mixture alters: as for --mixture, weights or FILE.toml.",
            "MIXTURE",
        ),
    ] = None,
    json: JSON = False,
    **given: Any,
) -> None:
    """Print what a run will draw, or what a mixture alters.

    From counts alone: shares, samples, visits an anchor, warnings. Give what `sample` will be
    given: options of a new run, or --resume for a saved one, which is forecast from its step 0. A
    row is a recipe of a source between two changes of shares. Tokens are an expectation, by the
    means of what is drawn from. With --against: shares before and after, and the first step whose
    samples differ; weights that were set during a run are part of both, so `sample --resume
    --mixture` would take it from there.

    Example:
        duckplets forecast faq.duckdb --epochs 3
        duckplets forecast faq.duckdb --mixture mixture.toml --batch-size 256 --steps 100000 --json
        duckplets forecast faq.duckdb --resume --against new.toml
    """
    from duckplets.runs.forecast import difference

    how = opening(**given)
    how.need_saved()
    with corpus_at(corpus, read_only=True) as opened:
        sampler = how.open(opened)
        found = sampler.forecast(steps)
        say(*(f"note: {note}" for note in sampler.notes if note not in found.warnings))
        other = mixture_of(against, None, "--against")
        if other is not None:
            _show_difference(difference(sampler, other), json=json)
        else:
            _show(found, json=json)


def _show(found: Forecast, *, json: bool) -> None:
    if json:
        told = {"title": found.title, "warnings": found.warnings}
        output.print_document(told | {"rows": found.table.to_pylist()})
    else:
        tell(*str(found).split("\n"))


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
    """Yield the lines below the shares."""
    step = found["first_step"]
    for row in found["lr_scale"]:
        yield f"lr_scale from step {row['start_step']:,}: {row['before']:g}, {row['after']:g}"
    if step is None:
        yield "nothing changes" + ", but lr_scale" * bool(found["lr_scale"])
    elif found["first_position"] == 0:
        yield "samples are others from step 0 on"
    else:
        yield f"nothing changes before step {step:,} (position {found['first_position']:,})"
    if found["end_may_move"]:
        yield (
            "but the run ends after a number of epochs, and other sources make up an epoch: its "
            "end may move"
        )


def _shares(ends: list[float]) -> str:
    """Return the first and last share of a row, or one if they are equal."""
    from duckplets.runs.forecast import percent

    one, other = map(percent, ends)
    return one if one == other else f"{one} to {other}"
