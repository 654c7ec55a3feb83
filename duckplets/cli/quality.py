"""Commands of gates and repeated texts: `quality`, `deduplicate` and `decontaminate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.sanitize import shown
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, corpus_at, say
from duckplets.cli.verbs import of_verb, option

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.quality.judge import JudgeReport


@of_verb("corpus.quality:judge", without={"quality"})
def quality(
    corpus: CORPUS,
    why: Annotated[str | None, option("One row: its record id, or SOURCE:ROW.", "RECORD")] = None,
    against: Annotated[
        str | None,
        option("Compare every metric with those of a source or a version.", "SOURCE|VERSION"),
    ] = None,
    apply: Annotated[
        str | None,
        option("Apply other thresholds to all that was read, without the sources.", "PRESET|FILE"),
    ] = None,
    json: JSON = False,
    **given: Any,
) -> None:
    """Tell what gates accepted and rejected, and judge anew.

    Rows are counted by source, gate and rule. With --against the metrics of every source are
    compared with those of one, or of a version: quantiles, and the population stability index,
    with a warning above 0.2. With --apply records that fail are removed in a new version, and
    rejected rows that pass become records of it.

    Example:
        duckplets quality web.duckdb
        duckplets quality web.duckdb --why pages:17
        duckplets quality web.duckdb --against 1
        duckplets quality web.duckdb --apply strict.toml --dry-run
    """
    if sum(value is not None for value in (why, against, apply)) > 1:
        raise typer.BadParameter("--why, --against and --apply are three: give one of them")
    if apply is None and (given["dry_run"] or "engine" in given):
        raise typer.BadParameter("--dry-run and --engine are about --apply: give it with them")
    with corpus_at(corpus, read_only=apply is None) as opened:
        if apply is not None:
            _show_judged(opened.judge(apply, **given), json=json)
        elif why is not None:
            rows = opened.why(why)
            output.print_document(rows if json else rows[0] if len(rows) == 1 else rows)
        elif against is not None:
            _show_shifts(opened, int(against) if against.isdigit() else against, json=json)
        else:
            _show_outcomes(opened.outcomes().to_pylist(), json=json)


def _show_judged(report: JudgeReport, *, json: bool) -> None:
    say(*str(report).splitlines())
    if json:
        output.show(report, json=True)
    elif report.changes:
        output.show_columns(("source", "was", "now", "rows"), report.changes)


def _show_shifts(corpus: Corpus, against: str | int, *, json: bool) -> None:
    shifts = corpus.shifts(against)
    say(*str(shifts).splitlines())
    if json:
        output.print_document(shifts.rows)
        return
    rows = [
        {**row, "quantiles": _line(row["quantiles"]), "before": _line(row["before"])}
        for row in shifts.rows
    ]
    output.show_columns(("source", "metric", "quantiles", "before", "psi"), rows)


def _show_outcomes(rows: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        output.print_document(rows)
        return
    for row in rows:
        row["examples"] = ", ".join(map(str, row["examples"]))
        row |= {name: shown(row[name] or "-") for name in ("gate", "rule")}
    output.show_columns(("source", "outcome", "gate", "rule", "rows", "examples"), rows)


def _line(values: list[float]) -> str:
    return " / ".join(f"{value:.4g}" for value in values)


@of_verb("corpus.quality:deduplicate", without={"near"})
def deduplicate(
    corpus: CORPUS,
    near: Annotated[
        float | None, option("Least Jaccard similarity of two texts, up to 1. [default: 0.85]")
    ] = None,
    equal: Annotated[bool, typer.Option("--equal", help="Equal texts only.")] = False,
    json: JSON = False,
    **given: Any,
) -> None:
    """Find records whose texts are equal or nearly so.

    Of each cluster the record that was ingested first is kept, whatever its split. Clusters are
    in the table clusters. Removing makes a new version; saved runs keep
    what they have. What was removed comes again if its source is ingested again.

    Example:
        duckplets deduplicate faq.duckdb --dry-run
        duckplets deduplicate faq.duckdb --near 0.9 --action mark
    """
    if equal and near is not None:
        raise typer.BadParameter("--equal is for equal texts only: leave out --near")
    with corpus_at(corpus, read_only=given["dry_run"]) as opened:
        least = None if equal else 0.85 if near is None else near
        output.show(opened.deduplicate(least, **given), json=json)


@of_verb("corpus.quality:decontaminate", places={"against": "AGAINST"})
def decontaminate(corpus: CORPUS, json: JSON = False, **given: Any) -> None:
    """Find records that an evaluation set shares text with.

    Texts are compared by n-grams of words. With test, records of train and validation are
    compared with the test split. What was found is in the table contaminations. Removing makes
    a new version; saved runs keep what they have.

    Example:
        duckplets decontaminate faq.duckdb test --action remove
        duckplets decontaminate faq.duckdb exam.csv --text question --ngram 8
    """
    with corpus_at(corpus, read_only=given["dry_run"]) as opened:
        output.show(opened.decontaminate(**given), json=json)
