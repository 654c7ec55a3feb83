"""The commands `sample`, which writes samples, and `served`, which prints their ids."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.checks import MAX_POSITION
from duckplets.base.sanitize import counted
from duckplets.base.stages import stage
from duckplets.cli import output
from duckplets.cli.app import corpus_at, say
from duckplets.cli.options import (
    NOT_HERE,
    RunOptions,
    command_line,
    introduce,
    opening,
)
from duckplets.cli.verbs import command
from duckplets.errors import SamplerError

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.runs.sampler import Sampler

_PIECE = 1 << 16  # positions computed at a time


@command(opening, "corpus.runs:sampler", without=NOT_HERE)
def sample(
    corpus: Path,
    steps: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    columns: list[str] | None = None,
    tag: str | None = None,
    save: bool = False,
    out: str | None = None,
    **given: Any,
) -> None:
    """Write samples as JSON lines or Parquet.

    One JSON object a line on stdout, or a file. The corpus is only read. The position is saved
    once everything is written, and only with --save. A run that is resumed keeps its settings.

    Every rank gets the same options but for --rank, and rank 0 saves for all. Where they resume
    the save that it replaces, start rank 0 last, or let them resume a --tag.

    Args:
        steps: Batches to write. [default: 1, or with --epochs all]
        rank: Which of the ranks this is, from 0. [default: 0]
        world_size: Number of ranks that share each global batch, in slices by rank. [default: 1]
        columns (NAME,…): Columns of a batch, such as anchor,positive,anchor_vector:default.
        tag: Checkpoint to resume from or, without --resume, to save as.
        save: Save where the run stands then; rank 0 does it.
        out (FILE|hf://USER/NAME): FILE.jsonl, FILE.parquet, or a data set on the Hub, made
            private. [default: stdout]

    Example:
        duckplets sample faq.duckdb --batch-size 64 --steps 100 --save --out first.parquet
        duckplets sample faq.duckdb --resume --steps 100 --save --out second.parquet
        duckplets sample faq.duckdb --mixture mixture.toml --steps 100
        duckplets sample faq.duckdb --rank 1 --world-size 4 --steps 100 --out rank1.jsonl
        duckplets sample faq.duckdb --columns anchor,anchor_vector --set missing_vectors=null
        duckplets sample faq.duckdb --config run.toml --set seed=7 --steps 100
        duckplets sample faq.duckdb --batch-size 64 --steps 100 --out hf://me/faq-triplets
    """
    how = opening(tag=tag, rank=rank, world_size=world_size, columns=columns, **given)
    if how.tag is not None and not (how.resume or save):
        raise typer.BadParameter("--tag is about a save: give --resume or --save with it")
    repo = out if out is not None and out.startswith("hf://") else None
    path = None if out is None or repo else Path(out)
    output.check(path)
    with corpus_at(corpus, read_only=True) as opened:
        sampler = how.open(opened, save=save)
        if save and not sampler.settings.rank:
            sampler.refuse_save(tag=None if how.resume else how.tag)
        introduce(sampler)
        bounded = sampler.settings.epochs is not None or sampler.settings.steps is not None
        wanted = 1 if steps is None and not bounded else steps
        if repo is None:
            _write(sampler, wanted, path)
        else:
            say(*str(opened.push(repo, sampler, steps=wanted)).split("\n"))
        if save:
            _save(sampler, how)


@command(opening, "corpus.runs:sampler", without=NOT_HERE)
def served(
    corpus: Path,
    start: int = 0,
    stop: int | None = None,
    step: str | None = None,
    upcoming: int | None = None,
    worst: int | None = None,
    out: Path | None = None,
    **given: Any,
) -> None:
    """Print the ids of what a saved run served or will serve.

    Rows are ids without texts, one a sample of all ranks. Batch number t of all ranks is positions
    t * G to (t + 1) * G, with G samples in it. With --next and options of a new run it is what
    `sample` would write with them. Nothing is saved or moved.

    Args:
        start (--from N): The first position.
        stop (--to N): The position after the last. [default: where the run stands]
        step (N|N:M): Print step N, or the steps N to M-1, instead of positions.
        upcoming (--next N): Print what is served in the next N steps.
        worst (N): Print the N samples with the highest losses.
        out: FILE.jsonl or FILE.parquet. [default: stdout]

    Example:
        duckplets served faq.duckdb --from 6400 --to 6464
        duckplets served faq.duckdb --step 100
        duckplets served faq.duckdb --step 100:110 --out steps.jsonl
        duckplets served faq.duckdb --out served.parquet
        duckplets served faq.duckdb --next 10
        duckplets served faq.duckdb --worst 20
        duckplets served faq.duckdb --batch-size 64 --next 10
    """
    how = opening(**given)
    output.check(out)
    is_new = how.is_new
    if upcoming is None and is_new:
        raise typer.BadParameter("a new run has served nothing: give --next with its options")
    steps = None if step is None else _steps(step)
    if steps and (start or stop is not None or upcoming is not None or worst is not None):
        raise typer.BadParameter(
            "--step says which samples: leave out --from, --to, --next, --worst"
        )
    if upcoming is not None and (start or stop is not None):
        raise typer.BadParameter("--next is counted from where the run stands: leave --from out")
    if worst is not None and (start or stop is not None or upcoming is not None or is_new):
        raise typer.BadParameter("--worst is of all that a saved run was told: give it alone")
    if stop is not None and start > stop:
        raise typer.BadParameter(f"--from {start} --to {stop}: give two in order")
    with corpus_at(corpus, read_only=True) as opened:
        sampler = how.open(opened) if is_new else replace(how, resume=True).open(opened)
        if worst is not None:
            tables = iter([sampler.worst(worst)])
        elif upcoming is not None:
            introduce(sampler)
            tables = _planned(sampler, upcoming)
        else:
            position, batch = sampler.position, sampler.settings.global_batch
            if steps:
                start, stop = (of * batch for of in steps)
                if stop < position + batch:  # the last step may be short
                    stop = min(stop, position)
            last = max(start, position if stop is None else stop)
            if last > position:
                state = None if how.state is None else f"state={how.state}"
                asked = ("served", corpus, "--next", "1")
                next_one = command_line(*asked, run=how.run, tag=how.tag, set=state)
                what = f"step {steps[1] - 1}" if steps else f"position {last}"
                raise SamplerError(
                    f"{what}: run {how.run!r} is saved at position {position} and has served "
                    f"nothing beyond; what it will serve shows: {next_one}"
                )
            tables = _pieces(sampler, start, last)
        samples = output.put(tables, out)
    if out is not None and samples:
        say(f"wrote the ids of {counted(samples, 'sample')} to {out}")


def _steps(text: str) -> tuple[int, int]:
    """Return the first of the steps N or N:M, and the one after the last."""
    first, colon, last = text.partition(":")
    if len(text) < 40 and first.isdecimal() and (last.isdecimal() or not colon):
        low = int(first)
        high = int(last) if colon else low + 1
        if low < high <= MAX_POSITION:
            return low, high
    raise typer.BadParameter(f"--step {text}: give a step, such as 7, or steps, such as 7:12")


@stage("write samples")
def _write(sampler: Sampler, steps: int | None, out: Path | None) -> int:
    most = None if steps is None else min(steps, sys.maxsize)
    samples = output.put((batch.table for batch in islice(sampler, most)), out)
    if out is not None and samples:
        say(f"wrote {counted(samples, 'sample')} to {out}, up to step {sampler.step}")
    return samples


def _save(sampler: Sampler, how: RunOptions) -> None:
    settings = sampler.settings
    if settings.rank:
        say(f"rank {settings.rank} of {settings.world_size}: rank 0 saves the run for all")
        return
    path = sampler.save(tag=None if how.resume else how.tag)
    say(f"saved run {settings.run} at step {sampler.step} in {path}")


def _planned(sampler: Sampler, steps: int) -> Iterator[pa.Table]:
    """Yield the ids of the next steps, moving the sampler."""
    most = max(1, _PIECE // sampler.settings.global_batch)
    while steps:
        count = min(most, steps)
        table = sampler.plan(count)
        if not table.num_rows:
            return
        yield table
        sampler.move(sampler.position + table.num_rows)
        steps -= count


def _pieces(sampler: Sampler, start: int, stop: int) -> Iterator[pa.Table]:
    for low in range(start, stop, _PIECE):
        yield sampler.served(low, min(low + _PIECE, stop))
