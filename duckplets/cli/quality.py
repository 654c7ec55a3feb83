"""Commands of gates: `acquire` takes text in, `judge` judges it anew, `quality` tells of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from duckplets.base.sanitize import shown
from duckplets.cli import output
from duckplets.cli.app import CORPUS, JSON, existing, in_options, say
from duckplets.cli.inputs import is_data_sets, names
from duckplets.cli.options import ENGINE
from duckplets.cli.rows import SourceOptions, reads_rows
from duckplets.cli.storing import acquire_all, remove_empty
from duckplets.errors import DuckpletsError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus

_QUALITY = "general, code, medical, report, gopher, c4, fineweb, or a TOML file."


@reads_rows
def acquire(
    corpus: CORPUS,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…",
            help="As for ingest: files, globs, folders, s3://…, hf://…, data-set files.",
        ),
    ],
    quality: Annotated[str, typer.Option(metavar="PRESET|FILE.toml", help=_QUALITY)] = "general",
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help='Only rows for which it is true, as in "trust > 0.5".'),
    ] = None,
    size_mb: Annotated[
        float | None,
        typer.Option(metavar="MB", help="Of accepted text of each source, in 10^6 bytes."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Accepted records of each source.")
    ] = None,
    license: Annotated[  # noqa: A002 - it is the option's name
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Only rows with one of these in the column license. Repeat it."
        ),
    ] = None,
    *,
    rows: SourceOptions,
    on_conflict: Annotated[
        Literal["error", "skip"], typer.Option(help="For known ids with new content.")
    ] = "error",
    jsonl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Export all records of the corpus to it at the end."),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard what an unfinished intake has stored.")
    ] = False,
    readers: Annotated[
        int, typer.Option(metavar="N", help="Sources that are read at the same time.")
    ] = 4,
    retries: Annotated[
        int,
        typer.Option(
            metavar="N", help="How often a source that fails by what may pass is read on."
        ),
    ] = 5,
    spool_mb: Annotated[
        float,
        typer.Option(
            metavar="MB", help="Rows of a source that wait for their turn on disk, in 10^6 bytes."
        ),
    ] = 256,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Store the sources after one that fails, too.")
    ] = False,
    engine: ENGINE = None,
    json: JSON = False,
) -> None:
    """Take text in through gates, and note what became of every row and why.

    Several sources are read at the same time, and stored in the order in which they are given: of
    equal texts the first is kept, those of the corpus come before. A source that fails for a while
    is read on; one that fails for good ends the command, and those after it are not stored. What
    was interrupted goes on by the same command; a finished source gives only what was appended to
    it. With --license the column license is kept as metadata. What a data-set file says of
    quality, where, size_mb and limit holds for its data set instead of these options.

    With --jsonl every record of the corpus, those of earlier commands as well, is a line of FILE:
    {"text": …, "meta": why it was kept}. It is written whole when the command ends, also by an
    error or Ctrl-C, in place of what such an export has written before; after a kill the same
    command writes it. Another file that is there stays as it is, and is an error.

    Example:
        duckplets acquire web.duckdb pages.jsonl --text text --quality code --size-mb 50
        duckplets acquire web.duckdb pages.jsonl --name few --text text --quality c4 --limit 9
        duckplets acquire new.duckdb pages.jsonl --text text --jsonl out.jsonl --log-file run.log
    """
    from duckplets.corpus.corpus import Corpus
    from duckplets.quality.settings import Quality

    wanted = Quality.of(quality)
    meta = []
    if license:
        wanted = Quality.of({**wanted.to_dict(), "licenses": names(license)})
        meta = [] if any(map(is_data_sets, sources)) else ["license"]
    found, problems = rows.found(sources, keep_going=keep_going, meta=meta)
    say(*(f"failed: {problem}" for problem in problems))
    arguments = {**rows.arguments, "quality": wanted, "where": where, "size_mb": size_mb}
    arguments |= {"limit": limit, "on_conflict": on_conflict, "restart": restart, "jsonl": jsonl}
    arguments |= {"readers": readers, "retries": retries, "spool_mb": spool_mb}
    arguments["engine"] = engine
    is_new = not corpus.exists()
    with Corpus(corpus) as opened:
        before = opened.acquisitions()["acquisition_id"].to_pylist()
        try:
            arguments["keep_going"] = keep_going
            acquire_all(opened, found, arguments, problems, command=acquire, json=json)
        finally:
            with suppress(DuckpletsError):  # of a corpus that failed nothing can be read
                _summarise(opened, before)
            if is_new:
                remove_empty(opened)


def _summarise(corpus: Corpus, before: list[int]) -> None:
    """Say what the intakes of a command have taken in, but those that had begun before."""
    for row in corpus.acquisitions().to_pylist():
        if row["acquisition_id"] in before or row["ended_at"] is None:
            continue
        seconds = max((row["ended_at"] - row["started_at"]).total_seconds(), 1e-3)
        counts = ", ".join(
            f"{row[name]:,} {name}" for name in ("accepted", "filtered", "rejected", "unreadable")
        )
        share, size = row["accepted"] / max(row["read"], 1), row["accepted_bytes"] / 1e6
        say(
            f"{shown(row['source'])}: {row['read']:,} rows: {counts}; {share:.1%} and "
            f"{size:,.3f} MB accepted, {row['read'] / seconds:,.0f} rows/s"
        )


def judge(
    corpus: CORPUS,
    quality: Annotated[str, typer.Option(metavar="PRESET|FILE.toml", help=_QUALITY)] = "general",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    engine: ENGINE = None,
    json: JSON = False,
) -> None:
    """Apply other thresholds to all that was read, without the sources, as a new version.

    Example:
        duckplets judge web.duckdb --quality strict.toml --dry-run
    """
    from duckplets.corpus.corpus import Corpus

    with Corpus(existing(corpus)) as opened:
        report = opened.judge(quality, dry_run=dry_run, engine=engine)
    say(*(in_options(line, judge) for line in str(report).splitlines()))
    if json:
        output.print_document(asdict(report))
    elif report.changes:
        output.show_columns(("source", "was", "now", "rows"), report.changes)


def quality(
    corpus: CORPUS,
    why: Annotated[
        str | None,
        typer.Option(metavar="RECORD", help="One row: its record id, or SOURCE:ROW."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="SOURCE|VERSION", help="How every metric differs from those of it."),
    ] = None,
    json: JSON = False,
) -> None:
    """Tell what was accepted, filtered and rejected, by source, gate and rule.

    With --against the metrics of every source are compared with those of one, or of a version:
    quantiles, and the population stability index, with a warning above 0.2.

    Example:
        duckplets quality web.duckdb
        duckplets quality web.duckdb --why pages:17
        duckplets quality web.duckdb --against 1
    """
    from duckplets.corpus.corpus import Corpus

    if why is not None and against is not None:
        raise typer.BadParameter("--why and --against are two questions: give one of them")
    with Corpus(existing(corpus), read_only=True) as opened:
        if why is not None:
            rows = opened.why(why)
            output.print_document(rows if json else rows[0] if len(rows) == 1 else rows)
        elif against is not None:
            shifts = opened.shifts(int(against) if against.isdigit() else against)
            say(*str(shifts).splitlines())
            if json:
                output.print_document(shifts.rows)
            else:
                shown_rows = [
                    {**row, "quantiles": _line(row["quantiles"]), "before": _line(row["before"])}
                    for row in shifts.rows
                ]
                output.show_columns(("source", "metric", "quantiles", "before", "psi"), shown_rows)
        else:
            _show_outcomes(opened.outcomes().to_pylist(), json=json)


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
