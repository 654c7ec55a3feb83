"""``duckplets status``, ``duckplets capacity`` and ``duckplets doctor``: nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from duckplets.cli import jsonlines, tables
from duckplets.cli.app import CORPUS, JSON, say


def status(corpus: CORPUS, json: JSON = False) -> None:
    """Show what is in a corpus: sources, splits, pools, mined negatives, saved runs.

    Pools come with what they leave out and why, mined negatives with why they are stale.

    Example:
        duckplets status faq.duckdb
    """
    from duckplets.corpus import Corpus

    with Corpus(corpus, read_only=True) as opened:
        found = opened.status()
    if json:
        jsonlines.print_document(found)
    else:
        _show_status(found)


def capacity(corpus: CORPUS, json: JSON = False) -> None:
    """Estimate from counts alone how many samples each source and split can give.

    Example:
        duckplets capacity faq.duckdb
    """
    from duckplets.corpus import Corpus

    with Corpus(corpus, read_only=True) as opened:
        found = opened.capacity()
    if json:
        jsonlines.print_document(_whole(found.to_pylist()))
    else:
        tables.show_dicts(found.column_names, _whole(found.to_pylist()))


def doctor(
    corpus: Annotated[
        Path | None, typer.Argument(metavar="[CORPUS]", help="A corpus file to check as well.")
    ] = None,
) -> None:
    """Check the environment and, if one is given, a corpus with its state file.

    Example:
        duckplets doctor faq.duckdb
    """
    from duckplets import doctor as checks

    problems = 0
    found = checks.environment()
    for check in [*found, *(checks.corpus(corpus) if corpus is not None else ())]:
        problems += not check.ok
        print(f"{'ok      ' if check.ok else 'problem '} {check.what}")
    if problems:
        say(f"error: {problems} problem{'' if problems == 1 else 's'} found")
        raise typer.Exit(1)


def _show_status(found: dict[str, Any]) -> None:
    splits, chunking = found["splits"], found["chunking"]
    print(f"corpus    {found['path']}, version {found['version']}")
    print(f"splits    {_settings(splits) if splits else 'none yet; run: duckplets split …'}")
    print(f"chunks    {_settings(chunking)}")
    if any(found["cleaned"].values()):
        print(f"cleaned   {tables.counts(found['cleaned'])}")
    print(f"recipes   {', '.join(found['recipes']) or 'none stored; the defaults of each source'}")
    counts = ("name", "kind", "trust", "records", "sections", "chunks", "tokens")
    tables.show_dicts(counts, found["sources"], title="\nsources")
    if found["unfinished"]:
        kept = ("source", "uri", "rows", "saved_at")
        tables.show_dicts(kept, found["unfinished"], title="\nunfinished ingests")
    if splits:
        tables.show_dicts(
            ("source", "split", "records"), found["records"], title="\nrecords by split"
        )
        rows = (
            (p["source"], p["split"], p["recipe"], p["anchors"], tables.counts(p["left_out"]))
            for p in found["pools"]
            if p["anchors"] or p["left_out"]
        )
        tables.show(("source", "split", "recipe", "anchors", "left out"), rows, title="\npools")
        if found["mining"]:
            mined = ("recipe", "source", "split", "method", "anchors", "negatives", "stale")
            tables.show_dicts(mined, found["mining"], title="\nmined negatives")
    if found["runs"]:
        columns = ("run", "tag", "kind", "corpus_version", "position", "step", "epoch", "saved_at")
        tables.show_dicts(columns, found["runs"], title="\nsaved runs")
    else:
        print("\nno saved run")


def _settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def _whole(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with DuckDB's wide integers, which Arrow has as decimals, as integers."""
    return [
        {name: value if isinstance(value, str | None) else int(value) for name, value in r.items()}
        for r in rows
    ]
