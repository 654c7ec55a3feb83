"""The command `show`: records with their sections, samples of a run, or mined negatives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from duckplets.base.sanitize import shown
from duckplets.cli import output
from duckplets.cli.app import corpus_at, say
from duckplets.cli.options import command_line
from duckplets.cli.verbs import command

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.samples.batch import Batch

_DETAILS = ("source", "recipe", "label", "negative_by", "weight")


@command(places={"source": "SOURCE"})
def show(
    corpus: Path,
    source: str | None = None,
    split: Literal["train", "validation", "test"] | None = None,
    limit: int | None = None,
    samples: int | None = None,
    run: str | None = None,
    state: Path | None = None,
    negatives: bool = False,
    why: str | None = None,
    recipe: str | None = None,
    by: str | None = None,
    json: bool = False,
) -> None:
    """Show records, samples, or mined negatives and what cut them.

    Records come with their sections; where there are vectors: how many chunks of each section have
    one. Long texts are cut, but with --json. Negatives are counted by the policies of recipes, for
    every mining; or each candidate of one anchor is shown, with its scores.

    Args:
        source: Name of a source. [default: all]
        split: Records of one split. [default: all; of samples train]
        limit: Show so many records at most. [default: 10]
        samples: Show so many samples instead, the first of a new run.
        run: Samples that a saved run serves next.
        negatives: Show what policies leave of mined candidates.
        why (RECORD|TEXT): Show each candidate of an anchor, and what cut it.
        recipe: Negatives of one recipe.
        by (bm25|NAME): Negatives by one scorer.

    Example:
        duckplets show faq.duckdb faq --limit 3
        duckplets show faq.duckdb --samples 2
        duckplets show faq.duckdb --negatives
        duckplets show faq.duckdb --why "question 7"
    """
    from duckplets.recipes.mined import Negatives
    from duckplets.runs.request import Options

    if negatives or why is not None:
        if samples is not None or run is not None or limit is not None:
            raise typer.BadParameter("--negatives, --why: leave --samples, --run and --limit out")
        asked, where = Negatives(by=by), {"recipe": recipe, "source": source, "split": split}
        with corpus_at(corpus, read_only=True) as opened:
            rows = opened.negatives(why, negatives=asked, **where).to_pylist()
        output.show_rows(rows, json=json)
        return
    if recipe is not None or by is not None:
        raise typer.BadParameter("--recipe and --by are of --negatives or --why")
    if samples == 0:
        raise typer.BadParameter("--samples 0: give one at least")
    drawn = samples is not None or run is not None
    if drawn and (source is not None or limit is not None):
        raise typer.BadParameter("SOURCE and --limit are about records: leave --samples, --run out")
    if run is not None and split is not None:
        raise typer.BadParameter("--split: a saved run has its own")
    if state is not None and run is None:
        raise typer.BadParameter("--state is about a saved run: give --run with it")
    with corpus_at(corpus, read_only=True) as opened:
        if not drawn:
            most = 10 if limit is None else limit
            _show_records(opened, {"source": source, "split": split, "limit": most}, json=json)
            return
        if run is not None:
            sampler = opened.resume(run, state=state, options=Options(prefetch=0))
        else:
            how: dict[str, Any] = {"split": split or "train", "batch_size": samples or 1}
            how["negatives"] = Negatives(allow_stale=True)
            sampler = opened.sampler(**how, options=Options(prefetch=0))
        batches, left = [], samples or 3
        while left > 0 and (batch := next(sampler, None)) is not None:
            batches.append(batch)
            left -= len(batch)
    if not batches:
        say(f"run {run} has come to its end")
    _show_samples(batches, samples or 3, json=json)


def check_source(corpus: Corpus, source: str | None) -> None:
    """Refuse the name of a source that is not there."""
    from duckplets.errors import SourceError, nearest

    known = corpus.sources()["name"].to_pylist()
    if source is not None and source not in known:
        raise SourceError(
            f"no source {source!r}{nearest(source, known)}; there are: {', '.join(known) or 'none'}"
        )


def _show_records(corpus: Corpus, where: dict[str, Any], *, json: bool) -> None:
    from duckplets.db.queries import query
    from duckplets.vectors.opened import having

    check_source(corpus, source := where["source"])
    found = corpus.sql(query("corpus/status/show"), where)
    vectors = having(corpus.path, found["chunks"].combine_chunks())
    found = found.drop_columns("chunks")
    if vectors is not None:
        found = found.append_column("vectors", vectors)
    rows = found.to_pylist()
    if where["limit"] and not rows:
        say(_why_none(corpus, source, where["split"]))
    elif json:
        output.print_lines(rows)
    else:
        output.show_table(found.column_names, (row.values() for row in rows))


def _why_none(corpus: Corpus, source: str | None, split: str | None) -> str:
    """Return why there is no record to show, and what to do."""
    from duckplets.db.queries import query

    rows = corpus.sql(query("corpus/status/records_by_split"), {"source": source}).to_pylist()
    there = {row["split"]: row["records"] for row in rows}
    if not there:
        whose = shown(corpus.path) if source is None else f"source {shown(repr(source))}"
        return f"{whose} has no records; add some: {command_line('ingest', corpus.path)} FILE"
    if set(there) == {None}:
        return (
            f"the corpus has no splits yet; run: {command_line('split', corpus.path)}; without "
            f"--split all records are shown"
        )
    counts = (f"{name or 'no split'} {records:,}" for name, records in there.items())
    return f"no record of split {split}; there are: {', '.join(counts)}"


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
