"""The command `sample`: write samples."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.sanitize import counted
from duckplets.base.stages import stage
from duckplets.cli import output
from duckplets.cli.app import corpus_at, say
from duckplets.cli.options import NOT_HERE, introduce, opening
from duckplets.cli.verbs import command

if TYPE_CHECKING:
    from duckplets.runs.sampler import Sampler


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
    **options: Any,
) -> None:
    """Write samples as JSON lines or Parquet.

    Write one JSON object a line to stdout, or a file. The corpus is only read. The option --save
    saves the position after all samples are written. A resumed run keeps its settings.

    Give every rank the same options except --rank. Rank 0 saves for all. If other ranks resume the
    save that rank 0 replaces, start rank 0 last, or resume a named checkpoint.

    Args:
        steps: Number of batches to write. [default: 1, or with --epochs all]
        rank: Number of this rank, from 0. [default: 0]
        world_size: Number of ranks that share each global batch, in slices by rank. [default: 1]
        columns (NAME,…): Columns of a batch, such as anchor,positive,anchor_vector:default.
        tag: Name of the checkpoint to resume or, without --resume, to save.
        save: Save the position after the last step; only rank 0 saves.
        out (FILE|hf://USER/NAME): FILE.jsonl, FILE.parquet, or a new private data set on the Hub.
            [default: stdout]

    Example:
        duckplets sample faq.duckdb --batch-size 64 --steps 100 --save --out first.parquet
        duckplets sample faq.duckdb --resume --steps 100 --save --out second.parquet
        duckplets sample faq.duckdb --mixture mixture.toml --steps 100
        duckplets sample faq.duckdb --rank 1 --world-size 4 --steps 100 --out rank1.jsonl
        duckplets sample faq.duckdb --columns anchor,anchor_vector --set missing_vectors=null
        duckplets sample faq.duckdb --config run.toml --set seed=7 --steps 100
        duckplets sample faq.duckdb --batch-size 64 --steps 100 --out hf://me/faq-triplets
    """
    how = opening(rank=rank, world_size=world_size, columns=columns, **options)
    how = how if tag is None else replace(how, tag=tag)
    if how.tag is not None and not (how.resume or save):
        raise typer.BadParameter("--tag names a checkpoint: add --resume or --save")
    repo = out if out is not None and out.startswith("hf://") else None
    path = None if out is None or repo else Path(out)
    output.check(path)
    with corpus_at(corpus, read_only=True) as opened:
        sampler = how.open(opened, save=save)
        run = sampler.settings
        if save and not run.rank:
            sampler.refuse_save(tag=None if how.resume else how.tag)
        introduce(sampler)
        bounded = run.epochs is not None or run.steps is not None
        wanted = 1 if steps is None and not bounded else steps
        if repo is None:
            _write(sampler, wanted, path)
        else:
            say(*str(opened.push(repo, sampler, steps=wanted)).split("\n"))
        if save and run.rank:
            say(f"rank {run.rank} of {run.world_size}: rank 0 saves the run for all")
        elif save:
            file = sampler.save(tag=None if how.resume else how.tag)
            say(f"saved run {run.run} at step {sampler.step} in {file}")


@stage("write samples")
def _write(sampler: Sampler, steps: int | None, out: Path | None) -> int:
    most = None if steps is None else min(steps, sys.maxsize)
    samples = output.put((batch.table for batch in islice(sampler, most)), out)
    if out is not None and samples:
        say(f"wrote {counted(samples, 'sample')} to {out}, up to step {sampler.step}")
    return samples
