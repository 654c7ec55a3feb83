"""The command `show`: records with their sections, samples of a run, or mined negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.base.sanitize import shown
from duckplets.cli import completion, output
from duckplets.cli.app import CORPUS, JSON, corpus_at, say
from duckplets.cli.options import STATE, command
from duckplets.cli.verbs import option

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.samples.batch import Batch

_DETAILS = ("source", "recipe", "label", "negative_by", "weight")


def show(
    corpus: CORPUS,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="Name of a source. [default: all]",
            autocompletion=completion.sources,
        ),
    ] = None,
    split: Annotated[
        Literal["train", "validation", "test"] | None,
        option("Records of one split. [default: all; of samples train]"),
    ] = None,
    limit: Annotated[
        int | None, option("Show so many records at most. [default: 10]", min=0)
    ] = None,
    samples: Annotated[
        int | None, option("Show so many samples instead, the first of a new run.", min=1)
    ] = None,
    run: Annotated[
        str | None,
        option("Samples that a saved run serves next.", "NAME", autocompletion=completion.runs),
    ] = None,
    state: STATE = None,
    negatives: Annotated[
        bool, typer.Option("--negatives", help="Show what policies leave of mined candidates.")
    ] = False,
    why: Annotated[
        str | None,
        option("Show each candidate of an anchor, and what cut it.", "RECORD|TEXT"),
    ] = None,
    recipe: Annotated[
        str | None,
        option("Negatives of one recipe.", "NAME", autocompletion=completion.recipes),
    ] = None,
    by: Annotated[str | None, option("Negatives by one scorer.", "bm25|NAME")] = None,
    json: JSON = False,
) -> None:
    """Show records, samples, or mined negatives and what cut them.

    Records come with their sections; where there are vectors: how many chunks of each section have
    one. Long texts are cut, but with --json. Negatives are counted by the policies of recipes, for
    every mining; or each candidate of one anchor is shown, with its scores.

    Example:
        duckplets show faq.duckdb faq --limit 3
        duckplets show faq.duckdb --samples 2
        duckplets show faq.duckdb --negatives
        duckplets show faq.duckdb --why "question 7"
    """
    if negatives or why is not None:
        if samples is not None or run is not None or limit is not None:
            raise typer.BadParameter("--negatives, --why: leave --samples, --run and --limit out")
        where = {"recipe": recipe, "source": source, "split": split, "by": by}
        with corpus_at(corpus, read_only=True) as opened:
            _show_negatives(opened.negatives(why, **where).to_pylist(), json=json)
        return
    if recipe is not None or by is not None:
        raise typer.BadParameter("--recipe and --by are of --negatives or --why")
    drawn = samples is not None or run is not None
    if drawn and (source is not None or limit is not None):
        raise typer.BadParameter("SOURCE and --limit are about records: leave --samples, --run out")
    if run is not None and split is not None:
        raise typer.BadParameter("--split: a saved run has its own")
    if state is not None and run is None:
        raise typer.BadParameter("--state is about a saved run: give --run with it")
    with corpus_at(corpus, read_only=True) as opened:
        if not drawn:
            _show_records(opened, source, split, 10 if limit is None else limit, json=json)
            return
        if run is not None:
            sampler = opened.resume(run, state=state, prefetch=0)
        else:
            how: dict[str, Any] = {"split": split or "train", "batch_size": samples or 1}
            sampler = opened.sampler(**how, prefetch=0, allow_stale=True)
        batch = next(sampler, None)
    if batch is None:
        say(f"run {run} has come to its end")
    else:
        _show_samples(batch, samples or 3, json=json)


def _show_records(
    corpus: Corpus, source: str | None, split: str | None, limit: int, *, json: bool
) -> None:
    from duckplets.db.queries import query
    from duckplets.errors import SourceError, nearest
    from duckplets.vectors.opened import having

    known = corpus.sql(query("corpus/status/known_sources"))["name"].to_pylist()
    if source is not None and source not in known:
        raise SourceError(
            f"no source {source!r}{nearest(source, known)}; there are: {', '.join(known) or 'none'}"
        )
    where = {"source": source, "split": split, "limit": limit}
    found = corpus.sql(query("corpus/status/show"), where)
    vectors = having(corpus.path, found["chunks"].combine_chunks())
    found = found.drop_columns("chunks")
    if vectors is not None:
        found = found.append_column("vectors", vectors)
    if limit and not found.num_rows:
        say(_why_none(corpus, source, split))
    elif json:
        output.write_rows(found, output.stdout())
    else:
        output.show_columns(found.column_names, found.to_pylist())


def _show_negatives(rows: list[dict[str, Any]], *, json: bool) -> None:
    from duckplets.search.search import beginning

    if json:
        output.print_document(rows)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    cells = ([_cell(row.get(name)) for name in columns] for row in rows)
    for row in rows:
        if "text" in row:
            row["text"] = beginning(row["text"])
    output.show_table(tuple(columns), cells)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def _why_none(corpus: Corpus, source: str | None, split: str | None) -> str:
    """Return why there is no record to show, and what to do."""
    from duckplets.db.queries import query

    rows = corpus.sql(query("corpus/status/records_by_split"), {"source": source}).to_pylist()
    there = {row["split"]: row["records"] for row in rows}
    if not there:
        whose = shown(corpus.path) if source is None else f"source {shown(repr(source))}"
        return f"{whose} has no records; add some: {command('ingest', corpus.path)} FILE"
    if set(there) == {None}:
        return (
            f"the corpus has no splits yet; run: {command('split', corpus.path)}; without --split "
            f"all records are shown"
        )
    counts = (f"{name or 'no split'} {records:,}" for name, records in there.items())
    return f"no record of split {split}; there are: {', '.join(counts)}"


def _show_samples(batch: Batch, most: int, *, json: bool) -> None:
    if json:
        output.print_lines(batch[:most])
        return
    rows = []
    for number, sample in enumerate(batch[:most], batch.position):
        columns = [name for name in sample if name in batch.texts or name in _DETAILS]
        rows += [(str(number), name, sample[name]) for name in columns]
    output.show_table(("position", "column", "value"), rows)
