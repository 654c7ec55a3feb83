"""Commands of gates and repeated texts: `quality`, `deduplicate` and `decontaminate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from duckplets.cli import output
from duckplets.cli.app import corpus_at, say
from duckplets.cli.verbs import command


@command("corpus.quality:judge", without={"quality"})
def quality(
    corpus: Path,
    why: str | None = None,
    against: str | None = None,
    apply: str | None = None,
    json: bool = False,
    **given: Any,
) -> None:
    """Tell what gates accepted and rejected, and judge anew.

    Rows are counted by source, gate and rule. With --against the metrics of every source are
    compared with those of one, or of a version: quantiles, and the population stability index,
    with a warning above 0.2. With --apply records that fail are removed in a new version, and
    rejected rows that pass become records of it.

    Args:
        why (RECORD): One row: its record id, or SOURCE:ROW.
        against (SOURCE|VERSION): Compare every metric with those of a source or a version.
        apply (PRESET|FILE): Apply other thresholds to all that was read, without the sources.

    Example:
        duckplets quality web.duckdb
        duckplets quality web.duckdb --why pages:17
        duckplets quality web.duckdb --against 1
        duckplets quality web.duckdb --apply strict.toml --dry-run
    """
    if sum(value is not None for value in (why, against, apply)) > 1:
        raise typer.BadParameter("--why, --against and --apply are three: give one of them")
    if apply is None and given:
        raise typer.BadParameter("--dry-run and --engine are about --apply: give it with them")
    with corpus_at(corpus, read_only=apply is None) as opened:
        if apply is not None:
            report = opened.judge(apply, **given)
            say(*str(report).splitlines())
            if json:
                output.show(report, json=True)
            else:
                output.show_rows(report.changes)
        elif why is not None:
            rows = opened.why(why)
            output.print_document(rows if json else rows[0] if len(rows) == 1 else rows)
        elif against is not None:
            shifts = opened.shifts(int(against) if against.isdigit() else against)
            say(*str(shifts).splitlines())
            output.show_rows(shifts.rows, json=json)
        else:
            rows = opened.outcomes().to_pylist()
            output.show_rows(rows, json=json)
            if not rows:
                say("no row went through gates: ingest --quality has them")


@command("corpus.quality:deduplicate")
def deduplicate(corpus: Path, json: bool = False, **given: Any) -> None:
    """Find records whose texts are equal or nearly so.

    Of each cluster the record that was ingested first is kept, whatever its split. Clusters are
    in the table clusters. Removing makes a new version; saved runs keep
    what they have. What was removed comes again if its source is ingested again.

    Example:
        duckplets deduplicate faq.duckdb --dry-run
        duckplets deduplicate faq.duckdb --near 0.9 --action mark
    """
    with corpus_at(corpus, read_only=given.get("dry_run", False)) as opened:
        output.show(opened.deduplicate(**given), json=json)


@command("corpus.quality:decontaminate", places={"against": "AGAINST"})
def decontaminate(corpus: Path, json: bool = False, **given: Any) -> None:
    """Find records that an evaluation set shares text with.

    Texts are compared by n-grams of words. With test, records of train and validation are
    compared with the test split. What was found is in the table contaminations. Removing makes
    a new version; saved runs keep what they have.

    Example:
        duckplets decontaminate faq.duckdb test --action remove
        duckplets decontaminate faq.duckdb exam.csv --text question --ngram 8
    """
    with corpus_at(corpus, read_only=given.get("dry_run", False)) as opened:
        output.show(opened.decontaminate(**given), json=json)
