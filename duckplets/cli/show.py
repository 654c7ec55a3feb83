"""The command `show`: records with their sections, samples, recipes or mined negatives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.sanitize import listed, shown
from duckplets.cli import output
from duckplets.cli.app import corpus_at, say
from duckplets.cli.options import command_line
from duckplets.cli.verbs import command

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.recipes import Recipe
    from duckplets.samples.batch import Batch

_DETAILS = ("source", "recipe", "label", "negative_by", "weight")


@command(places={"source": "SOURCE"})
def show(
    corpus: Path,
    source: str | None = None,
    samples: int | None = None,
    negatives: bool = False,
    why: str | None = None,
    recipes: bool = False,
    run: str | None = None,
    limit: int | None = None,
    json: bool = False,
) -> None:
    """Show records, samples, recipes or mined negatives.

    Records come with their sections, and the number of chunks with vectors. Long texts are cut,
    except with --json. --negatives counts candidates of each mining by the settings of recipes.
    --why shows each candidate of one anchor, with its scores. `prepare --recipes` reads the
    output of --recipes.

    Args:
        source: Name of a source. [default: all]
        samples: Show the first N samples of a new run.
        negatives: Count the mined candidates that recipes use and exclude.
        why (RECORD|TEXT): Show each candidate of an anchor, and why it is used or not.
        recipes: Show the stored recipes and the defaults of sources.
        run: Show the next samples of a saved run.
        limit: Show at most N records or candidates. [default: 10 records, every candidate]

    Example:
        duckplets show faq.duckdb faq --limit 3
        duckplets show faq.duckdb --samples 2
        duckplets show faq.duckdb --recipes > recipes.toml
        duckplets show faq.duckdb --negatives
        duckplets show faq.duckdb --why "question 7"
    """
    drawn = samples is not None or run is not None
    views = {"--recipes": recipes, "--negatives": negatives, "--why": why is not None}
    views |= {"--samples or --run": drawn}
    if len(wanted := [name for name, is_wanted in views.items() if is_wanted]) > 1:
        raise typer.BadParameter(f"{wanted[0]} and {wanted[1]}: give one of them")
    if (recipes or drawn) and limit is not None:
        raise typer.BadParameter(f"--limit is for records and negatives: remove {wanted[0]}")
    if (recipes or drawn) and source is not None:
        raise typer.BadParameter(f"SOURCE is for records and negatives: remove {wanted[0]}")
    if samples == 0:
        raise typer.BadParameter("--samples 0: give 1 or more")
    with corpus_at(corpus, read_only=True) as opened:
        if recipes:
            _show_recipes(opened, json=json)
        elif negatives or why is not None:
            found = opened.negatives(why, source=source).slice(0, limit)
            output.show_rows(found.to_pylist(), json=json)
        elif drawn:
            _show_samples(_batches(opened, run, samples or 3), samples or 3, json=json)
        else:
            most = 10 if limit is None else limit
            _show_records(opened, {"source": source, "split": None, "limit": most}, json=json)


def _batches(corpus: Corpus, run: str | None, most: int) -> list[Batch]:
    """Return batches with at least ``most`` samples of a saved or new run."""
    from duckplets.recipes.mined import Negatives
    from duckplets.runs.request import Options

    options = Options(prefetch=0)
    if run is not None:
        sampler = corpus.resume(run, options=options)
    else:
        stale = Negatives(allow_stale=True)
        sampler = corpus.sampler(batch_size=most, negatives=stale, options=options)
    batches: list[Batch] = []
    while most > 0 and (batch := next(sampler, None)) is not None:
        batches.append(batch)
        most -= len(batch)
    if not batches:
        say(f"run {run} is finished")
    return batches


def _show_recipes(corpus: Corpus, *, json: bool) -> None:
    from duckplets.corpus.run_file import recipe_lines
    from duckplets.recipes.files import to_dict

    found = dict.fromkeys(corpus.recipes(), "stored") or _defaults(corpus)
    if json:
        output.print_document(
            [to_dict(recipe) | {"from": origin} for recipe, origin in found.items()]
        )
        return
    for recipe, origin in found.items():
        print(f"# {shown(origin)}", *recipe_lines(recipe), "", sep="\n")  # uncut, for reading again


def _defaults(corpus: Corpus) -> dict[Recipe, str]:
    """Return the stored or default recipes of sources, each with its sources."""
    from duckplets.corpus.recipes import brought_recipes
    from duckplets.db.queries import query
    from duckplets.recipes.recipes import long_section_recipe

    found: dict[Recipe, list[str]] = {}
    for source, recipes in brought_recipes(corpus).items():
        for recipe in recipes:
            found.setdefault(recipe, []).append(source)
    defaults = {recipe: f"defaults of {listed(names)}" for recipe, names in found.items()}
    if corpus.sql(query("recipes/store/long_sections"))["found"][0].as_py():
        long = "default where sections are longer than a window"
        defaults[long_section_recipe("context")] = long
    return defaults


def _show_records(corpus: Corpus, where: dict[str, Any], *, json: bool) -> None:
    from duckplets.db.queries import query
    from duckplets.recipes.store import check_source
    from duckplets.vectors.opened import having

    if (source := where["source"]) is not None:
        check_source(corpus.database, source, corpus.version)
    found = corpus.sql(query("corpus/status/show"), where)
    vectors = having(corpus.path, found["chunks"].combine_chunks())
    found = found.drop_columns("chunks")
    if vectors is not None:
        found = found.append_column("vectors", vectors)
    rows = found.to_pylist()
    if where["limit"] and not rows:
        owner = shown(corpus.path) if source is None else f"source {shown(repr(source))}"
        say(f"{owner} has no records; add some: {command_line('ingest', corpus.path)} FILE")
    elif json:
        output.print_lines(rows)
    else:
        output.show_table(found.column_names, (row.values() for row in rows))


def _show_samples(batches: list[Batch], most: int, *, json: bool) -> None:
    found = [(batch, *each) for batch in batches for each in enumerate(batch[:], batch.position)]
    if json:
        output.print_lines(sample for _, _, sample in found[:most])
        return
    rows = []
    for batch, number, sample in found[:most]:
        columns = [name for name in sample if name in batch.texts or name in _DETAILS]
        rows += [(str(number), name, sample[name]) for name in columns]
    if rows:
        output.show_table(("position", "column", "value"), rows)
