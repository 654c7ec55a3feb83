"""``duckplets sample``: samples as JSON lines or in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.cli import jsonlines, output
from duckplets.cli.app import CORPUS, say
from duckplets.cli.inputs import names
from duckplets.errors import StateMismatchError

if TYPE_CHECKING:
    from duckplets.batch import Batch
    from duckplets.corpus import Recipe
    from duckplets.sampler import Sampler


def sample(
    corpus: CORPUS,
    kind: Annotated[
        Literal["triplets", "pairs", "texts"] | None, typer.Option(help="By default triplets.")
    ] = None,
    split: Annotated[
        Literal["train", "validation", "test"] | None, typer.Option(help="By default train.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a batch; 128.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=0, help="Batches to write; 1, or with --epochs all.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=0, help="Where the run ends; by default nowhere.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed, another order; 42.")] = None,
    recipes: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…|FILE.toml", help="Names of recipes, or recipes files."),
    ] = None,
    mixture: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=WEIGHT,…", help="An omitted source weighs 1; 0 is never."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN,…", help="Columns of a sample.")
    ] = None,
    negatives: Annotated[int | None, typer.Option(help="Negatives a triplet; 1.")] = None,
    no_duplicates: Annotated[
        bool, typer.Option("--no-duplicates", help="No text twice in a batch.")
    ] = False,
    no_swap: Annotated[
        bool, typer.Option("--no-swap", help="Anchor and positive never change places.")
    ] = False,
    run: Annotated[str, typer.Option(help="Name of the run, to save or resume.")] = "default",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the run was saved.")
    ] = False,
    tag: Annotated[
        str | None,
        typer.Option(help="Checkpoint to resume from or, without --resume, to save as."),
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Save where the run stands after.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="FILE.jsonl or FILE.parquet; by default stdout."),
    ] = None,
) -> None:
    """Write samples: one JSON object a line on stdout, or a file.

    The corpus is only read. The position is saved once everything is written, and only with
    --save. A run that is resumed keeps its settings.

    Example:
        duckplets sample faq.duckdb --batch-size 64 --steps 100 --save --out first.parquet
        duckplets sample faq.duckdb --resume --steps 100 --save --out second.parquet
    """
    from duckplets.corpus import Corpus

    arguments: dict[str, Any] = {
        "kind": kind,
        "split": split,
        "batch_size": batch_size,
        "epochs": epochs,
        "seed": seed,
        "columns": names(columns),
        "negatives": negatives,
        "no_duplicates": no_duplicates or None,
        "swap": False if no_swap else None,
    }
    given = {name: value for name, value in arguments.items() if value is not None}
    _check(resume=resume, fixed=[*(recipes or []), *(mixture or [])], tag=tag, save=save, out=out)
    with Corpus(corpus, read_only=True) as opened:
        if resume:
            sampler = opened.resume(run, tag, **given)
        else:
            given |= {"recipes": _recipes(recipes), "mixture": _weights(mixture), "run": run}
            sampler = opened.sampler(**given)
            if save:
                _refuse_clash(sampler, corpus, tag)
        batches = _batches(sampler, steps)
        if out is None:
            _print(batches)
        else:
            _write(sampler, batches, out)
        if save:
            path = sampler.save(tag=None if resume else tag)
            say(f"saved run {run} at step {sampler.step} in {path}")


def _check(
    *, resume: bool, fixed: Sequence[str], tag: str | None, save: bool, out: Path | None
) -> None:
    if resume and fixed:
        raise typer.BadParameter("--resume goes on with the run's own --recipes and --mixture")
    if tag is not None and not (resume or save):
        raise typer.BadParameter("--tag names a checkpoint: give --resume or --save with it")
    if out is not None and out.suffix.lower() not in output.SUFFIXES:
        raise typer.BadParameter(f"--out {out}: give FILE.jsonl or FILE.parquet")
    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f"--out {out}: there is no folder {out.parent}")


def _refuse_clash(sampler: Sampler, corpus: Path, tag: str | None) -> None:
    """Refuse a name or a tag that is taken now, not after hours of writing."""
    from duckplets import state

    path, run = state.state_path(corpus), sampler.settings.run
    tags = [cursor["tag"] for cursor in state.cursors(path) if cursor["run"] == run]
    if tag is not None and tag in tags:
        raise StateMismatchError(f"{path} has run {run!r} tagged {tag!r} already; give another tag")
    if tags:
        saved, _ = state.load(path, run, tags[0])
        try:
            state.refuse_mismatch(saved.fingerprint, sampler.settings.fingerprint())
        except StateMismatchError as error:
            raise StateMismatchError(
                f"{path} has another run {run!r}: {error}. Give another --run, or forget that "
                f"one: duckplets cursor reset {corpus} --run {run}"
            ) from None


def _batches(sampler: Sampler, steps: int | None) -> Iterator[Batch]:
    """Return the batches to write: so many, else all of a bounded run, else one."""
    bounded = sampler.settings.epochs is not None or sampler.settings.steps is not None
    if steps is None and not bounded:
        steps = 1
    return islice(sampler, steps)


def _print(batches: Iterator[Batch]) -> None:
    for batch in batches:
        jsonlines.write_rows(batch.table, sys.stdout)
    sys.stdout.flush()


def _write(sampler: Sampler, batches: Iterator[Batch], out: Path) -> None:
    from duckplets.progress import bar

    first = next(batches, None)
    if first is None:
        say(f"no samples to write: {out} is left as it is")
        return
    samples = 0
    with output.tables_to(out) as write, bar(None, sys.stderr) as advance:
        for batch in chain([first], batches):
            write(batch.table)
            samples += len(batch)
            if advance:
                advance(samples, None)
    say(f"wrote {samples:,} samples to {out}, up to step {sampler.step}")


def _recipes(values: Sequence[str] | None) -> list[Recipe | str] | None:
    """Return names as they are, and the recipes of files."""
    from duckplets.recipe_files import load_recipes

    found: list[Recipe | str] = []
    for value in names(values) or []:
        is_file = value.lower().endswith((".toml", ".json"))
        found += load_recipes(value) if is_file else [value]
    return found or None


def _weights(values: Sequence[str] | None) -> dict[str, float] | None:
    weights: dict[str, float] = {}
    for value in names(values) or []:
        source, equals, weight = value.rpartition("=")
        try:
            number = float(weight)
        except ValueError:
            equals = ""
        if not equals or source in weights:
            raise typer.BadParameter(f"--mixture {value}: give SOURCE=WEIGHT, each source once")
        weights[source] = number
    return weights or None
