"""Commands of quality gates and repeated texts: `quality`, `deduplicate` and `decontaminate`."""

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
    **settings: Any,
) -> None:
    """Count accepted and rejected rows, or change thresholds.

    Rows are counted by source, gate and rule. --against compares the metrics of every source with
    one source or version: quantiles, and the population stability index, with a warning above 0.2.
    --apply makes a new version. It removes records that fail, and adds rejected rows that pass.

    Args:
        why (RECORD): Explain the result of one row: SOURCE/ID or SOURCE:ROW.
        against (SOURCE|VERSION): Compare every metric with a source or a version.
        apply (PRESET|FILE): Apply other thresholds to all rows, without reading sources again.

    Example:
        duckplets quality web.duckdb
        duckplets quality web.duckdb --why pages:17
        duckplets quality web.duckdb --against 1
        duckplets quality web.duckdb --apply strict.toml --dry-run
    """
    version = int(against) if against is not None and against.isdigit() else against
    with corpus_at(corpus, read_only=apply is None) as opened:
        found: Any = opened.quality(why, against=version, apply=apply, **settings)
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
            say("no row passed through gates; use ingest --quality")


@command("corpus.quality:deduplicate", only="near action dry_run")
def deduplicate(corpus: Path, json: bool = False, **settings: Any) -> None:
    """Find records with equal or almost equal texts.

    The first ingested record of each cluster stays, in any split. The table clusters lists the
    clusters. Removing records makes a new version; saved runs keep their records. Ingesting the
    source again adds a removed record again.

    Example:
        duckplets deduplicate faq.duckdb --dry-run
        duckplets deduplicate faq.duckdb --near 0.9 --action mark
    """
    with corpus_at(corpus, read_only=settings.get("dry_run", False)) as opened:
        output.show(opened.deduplicate(**settings), json=json)


@command(
    "corpus.quality:decontaminate",
    only="text ngram action dry_run card",
    places={"against": "AGAINST"},
)
def decontaminate(corpus: Path, json: bool = False, **settings: Any) -> None:
    """Find records that share text with an evaluation set.

    Texts are compared by n-grams of words. The word test compares train and validation with the
    test split. The table contaminations lists the result. Removing records makes a new version;
    saved runs keep their records.

    Example:
        duckplets decontaminate faq.duckdb test --action remove
        duckplets decontaminate faq.duckdb exam.csv --text question --ngram 8
        duckplets decontaminate faq.duckdb beir/ --ngram 8 --card sets.md
    """
    with corpus_at(corpus, read_only=settings.get("dry_run", False)) as opened:
        output.show(opened.decontaminate(**settings), json=json)
