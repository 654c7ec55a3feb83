"""Commands of gates and repeated texts: `quality`, `deduplicate` and `decontaminate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from duckplets.cli import output
from duckplets.cli.app import corpus_at, say
from duckplets.cli.verbs import command


@command("corpus.quality:quality", only="dry_run")
def quality(
    corpus: Path,
    why: str | None = None,
    against: str | None = None,
    apply: str | None = None,
    json: bool = False,
    **given: Any,
) -> None:
    """Count what gates accepted and rejected, and judge again.

    Rows are counted by source, gate and rule. With --against the metrics of every source are
    compared with those of one, or of a version: quantiles, and the population stability index,
    with a warning above 0.2. With --apply records that fail are removed in a new version, and
    rejected rows that pass become records of it.

    Args:
        why (RECORD): Explain one row: its record id, or SOURCE:ROW.
        against (SOURCE|VERSION): Compare every metric with those of a source or a version.
        apply (PRESET|FILE): Apply other thresholds to all rows, without reading sources again.

    Example:
        duckplets quality web.duckdb
        duckplets quality web.duckdb --why pages:17
        duckplets quality web.duckdb --against 1
        duckplets quality web.duckdb --apply strict.toml --dry-run
    """
    version = int(against) if against is not None and against.isdigit() else against
    with corpus_at(corpus, read_only=apply is None) as opened:
        found: Any = opened.quality(why, against=version, apply=apply, **given)
    if apply is not None or against is not None:
        say(*str(found).splitlines())
    if apply is not None:
        output.show(found, json=True) if json else output.show_rows(found.changes)
    elif why is not None:
        output.print_document(found if json or len(found) > 1 else found[0])
    elif against is not None:
        output.show_rows(found.rows, json=json)
    else:
        output.show_rows(found.to_pylist(), json=json)
        if not found.num_rows:
            say("no row went through gates: ingest --quality has them")


@command("corpus.quality:deduplicate", only="near action dry_run")
def deduplicate(corpus: Path, json: bool = False, **given: Any) -> None:
    """Find records whose texts are equal or nearly so.

    Of each cluster the record that was ingested first is kept, whatever its split. Clusters are
    in the table clusters. Removing makes a new version; saved runs keep what they have. A removed
    record comes again if its source is ingested again.

    Example:
        duckplets deduplicate faq.duckdb --dry-run
        duckplets deduplicate faq.duckdb --near 0.9 --action mark
    """
    with corpus_at(corpus, read_only=given.get("dry_run", False)) as opened:
        output.show(opened.deduplicate(**given), json=json)


@command(
    "corpus.quality:decontaminate",
    only="text ngram action dry_run card",
    places={"against": "AGAINST"},
)
def decontaminate(corpus: Path, json: bool = False, **given: Any) -> None:
    """Find records that an evaluation set shares text with.

    Texts are compared by n-grams of words. With test, records of train and validation are
    compared with the test split. The result is in the table contaminations. Removing makes a new
    version; saved runs keep what they have.

    Example:
        duckplets decontaminate faq.duckdb test --action remove
        duckplets decontaminate faq.duckdb exam.csv --text question --ngram 8
        duckplets decontaminate faq.duckdb beir/ --ngram 8 --card sets.md
    """
    with corpus_at(corpus, read_only=given.get("dry_run", False)) as opened:
        output.show(opened.decontaminate(**given), json=json)
