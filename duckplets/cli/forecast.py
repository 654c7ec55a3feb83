"""The command `forecast`: say what a run will draw, without drawing it."""

from __future__ import annotations

from typing import Annotated

import typer

from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, in_options, say, tell
from duckplets.cli.options import (
    ALLOW_DRIFT,
    BATCH_SIZE,
    BY,
    EMPTY,
    EPOCHS,
    KIND,
    MIXTURE,
    NEGATIVES,
    NO_DUPLICATE_NEGATIVES,
    NO_DUPLICATES,
    NO_SWAP,
    RECIPES,
    REMAINDER,
    RESUME,
    RUN,
    SEED,
    SPLIT,
    STATE,
    TEMPERATURE,
    WORLD_SIZE,
    apart,
    opening,
)


def forecast(
    corpus: CORPUS,
    kind: KIND = None,
    split: SPLIT = None,
    batch_size: BATCH_SIZE = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=0, help="From step 0; by default to the end, or an epoch of the last phase."
        ),
    ] = None,
    epochs: EPOCHS = None,
    remainder: REMAINDER = None,
    seed: SEED = None,
    recipes: RECIPES = None,
    mixture: MIXTURE = None,
    temperature: TEMPERATURE = None,
    negatives: NEGATIVES = None,
    empty: EMPTY = None,
    by: BY = None,
    no_duplicates: NO_DUPLICATES = False,
    no_duplicate_negatives: NO_DUPLICATE_NEGATIVES = False,
    no_swap: NO_SWAP = False,
    world_size: WORLD_SIZE = None,
    run: RUN = "default",
    resume: RESUME = False,
    tag: Annotated[str | None, typer.Option(help="Checkpoint to resume from.")] = None,
    state: STATE = None,
    allow_drift: ALLOW_DRIFT = None,
    json: JSON = False,
) -> None:
    """Print what a run draws, from counts alone: shares, samples, visits an anchor, warnings.

    Give what `sample` will be given: options of a new run, or --resume for a saved one, which is
    forecast from its step 0. A row is a recipe of a source between two changes of shares. Tokens
    are an expectation, exact over whole epochs where nothing is drawn at random.

    Example:
        duckplets forecast faq.duckdb --epochs 3
        duckplets forecast faq.duckdb --mixture mixture.toml --batch-size 256 --steps 100000 --json
    """
    from duckplets.corpus import Corpus

    for option, given in (("--run", run != "default"), ("--tag", tag), ("--state", state)):
        if given and not resume:
            raise typer.BadParameter(f"{option} is about a saved run: give --resume with it")
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
        empty=empty,
        by=by,
        no_duplicates=apart(texts=no_duplicates, negatives=no_duplicate_negatives),
        swap=False if no_swap else None,
        world_size=world_size,
    )
    with Corpus(corpus, read_only=True) as opened:
        sampler = how.open(opened)
        found = sampler.forecast(steps)
        warned = {in_options(warning, forecast) for warning in found.warnings}
        notes = [in_options(note, forecast) for note in sampler.notes]
        say(*(f"note: {note}" for note in notes if note not in warned))
        if json:
            rows = found.table.to_pylist()
            told = {"title": found.title, "exact": found.exact, "warnings": found.warnings}
            output.print_document(told | {"rows": rows})
        else:
            tell(*(in_options(line, forecast) for line in str(found).split("\n")))
