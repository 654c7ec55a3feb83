"""The command `forecast`: say what a run will draw, without drawing it."""

from __future__ import annotations

from typing import Annotated

import typer

from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, in_options, say, tell
from duckplets.cli.options import RunOptions, names_run


@names_run
def forecast(
    corpus: CORPUS,
    how: RunOptions,
    steps: Annotated[
        int | None,
        typer.Option(
            min=0, help="From step 0. [default: to the end, or an epoch of the last phase]"
        ),
    ] = None,
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
    from duckplets.corpus.corpus import Corpus

    how.need_saved()
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
