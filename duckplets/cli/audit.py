"""``duckplets plan`` and ``duckplets served``: ids of what a run will serve, and what it did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckplets.cli import output
from duckplets.cli.app import CORPUS, say
from duckplets.cli.options import (
    ALLOW_DRIFT,
    BATCH_SIZE,
    EPOCHS,
    KIND,
    MIXTURE,
    NEGATIVES,
    NO_DUPLICATES,
    NO_SWAP,
    OUT,
    RECIPES,
    REMAINDER,
    RESUME,
    RUN,
    SEED,
    SPLIT,
    STATE,
    TEMPERATURE,
    WORLD_SIZE,
    command,
    opening,
)
from duckplets.errors import SamplerError

if TYPE_CHECKING:
    import pyarrow as pa

    from duckplets.sampling.sampler import Sampler

_PIECE = 1 << 16  # positions worked out at once, however long the stretch


def plan(
    corpus: CORPUS,
    kind: KIND = None,
    split: SPLIT = None,
    batch_size: BATCH_SIZE = None,
    steps: Annotated[
        int | None, typer.Option(min=0, help="Batches to plan; 1, or with --epochs all.")
    ] = None,
    epochs: EPOCHS = None,
    remainder: REMAINDER = None,
    seed: SEED = None,
    recipes: RECIPES = None,
    mixture: MIXTURE = None,
    temperature: TEMPERATURE = None,
    negatives: NEGATIVES = None,
    no_duplicates: NO_DUPLICATES = False,
    no_swap: NO_SWAP = False,
    world_size: WORLD_SIZE = None,
    run: RUN = "default",
    resume: RESUME = False,
    tag: Annotated[str | None, typer.Option(help="Checkpoint to resume from.")] = None,
    state: STATE = None,
    allow_drift: ALLOW_DRIFT = None,
    out: OUT = None,
) -> None:
    """Print what a run will serve, as ids without texts: a row a sample of all ranks.

    Give what `sample` will be given: options of a new run, or --resume for a saved one. Nothing
    is saved or moved.

    Example:
        duckplets plan faq.duckdb --batch-size 64 --steps 10
        duckplets plan faq.duckdb --resume --steps 10 --out next.parquet
    """
    from duckplets.corpus import Corpus

    for option, given in (("--run", run != "default"), ("--tag", tag), ("--state", state)):
        if given and not resume:
            raise typer.BadParameter(f"{option} is about a saved run: give --resume with it")
    output.check(out)
    how = opening(
        run=run,
        resume=resume,
        tag=tag,
        state=state,
        allow_drift=allow_drift,
        recipes=recipes,
        mixture=mixture,
        temperature=temperature,
        kind=kind,
        split=split,
        batch_size=batch_size,
        epochs=epochs,
        remainder=remainder,
        seed=seed,
        negatives=negatives,
        no_duplicates=no_duplicates or None,
        swap=False if no_swap else None,
        world_size=world_size,
    )
    with Corpus(corpus, read_only=True) as opened:
        sampler = how.open(opened)
        bounded = sampler.settings.epochs is not None or sampler.settings.steps is not None
        _put(_planned(sampler, 1 if steps is None and not bounded else steps), out)


def served(
    corpus: CORPUS,
    start: Annotated[int, typer.Option("--from", min=0, help="The first position.")] = 0,
    stop: Annotated[
        int | None,
        typer.Option("--to", min=0, help="After the last; by default where the run stands."),
    ] = None,
    run: RUN = "default",
    tag: Annotated[str | None, typer.Option(help="Checkpoint instead of the latest save.")] = None,
    state: STATE = None,
    out: OUT = None,
) -> None:
    """Print what a saved run served, as ids without texts: a row a sample of all ranks.

    Batch number t of all ranks is positions t * G to (t + 1) * G, with G samples in it.

    Example:
        duckplets served faq.duckdb --from 6400 --to 6464
        duckplets served faq.duckdb --out served.parquet
    """
    from duckplets.corpus import Corpus

    output.check(out)
    if stop is not None and start > stop:
        raise typer.BadParameter(f"--from {start} --to {stop}: give two in order")
    with Corpus(corpus, read_only=True) as opened:
        sampler = opened.resume(run, tag, state)
        if max(start, stop or 0) > sampler.position:
            shown = command("plan", corpus, "--resume", run=run, tag=tag, state=state)
            raise SamplerError(
                f"position {max(start, stop or 0)}: run {run!r} is saved at position "
                f"{sampler.position} and has served nothing beyond; what it will serve shows: "
                f"{shown}"
            )
        _put(_pieces(sampler, start, sampler.position if stop is None else stop), out)


def _put(tables: Iterator[pa.Table], out: Path | None) -> None:
    samples = output.put(tables, out)
    if out is not None and samples:
        say(f"wrote the ids of {samples:,} samples to {out}")


def _planned(sampler: Sampler, steps: int | None) -> Iterator[pa.Table]:
    """Yield the ids of the next steps, or of all there are, moving on."""
    most = max(1, _PIECE // sampler.settings.global_batch)
    while steps is None or steps:
        count = most if steps is None else min(most, steps)
        table = sampler.plan(count)
        if not table.num_rows:
            return
        yield table
        sampler.move(sampler.position + table.num_rows)
        steps = None if steps is None else steps - count


def _pieces(sampler: Sampler, start: int, stop: int) -> Iterator[pa.Table]:
    for low in range(start, stop, _PIECE):
        yield sampler.served(low, min(low + _PIECE, stop))
