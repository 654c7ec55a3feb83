"""Ingest sources that a command was given, and say what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.sanitize import counted, shown
from duckplets.cli import output
from duckplets.cli.app import as_written, in_options, say
from duckplets.cli.inputs import FoundSource
from duckplets.errors import DuckpletsError, SourceError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.ingest.records import IngestReport


def store(
    corpus: Corpus,
    found: Sequence[FoundSource],
    arguments: dict[str, Any],
    problems: list[str],
    *,
    command: Callable[..., None],
    json: bool,
    keep_going: bool,
) -> None:
    """Ingest sources one after the other; those before one that fails are stored, and said so."""
    reports: list[tuple[str, IngestReport]] = []
    try:
        for each in found:
            try:
                reports.append((each.name, _ingested(corpus, each, arguments)))
                told = f"{shown(each.name)}: {reports[-1][1]}"
                say(*(in_options(line, command) for line in told.splitlines()))
            except DuckpletsError as error:
                if not keep_going:
                    raise
                problems.append(f"{each.where}: {error}")
                say(f"failed: {problems[-1]}")
    except KeyboardInterrupt:
        output.say_kept(corpus.unfinished())
        raise
    finally:
        output.show_ingested(reports, json=json)
    if problems:
        say(f"{counted(len(reports), 'source')} stored, {len(problems):,} failed")
        raise typer.Exit(1)


def acquire_all(
    corpus: Corpus,
    found: Sequence[FoundSource],
    arguments: dict[str, Any],
    problems: list[str],
    *,
    command: Callable[..., None],
    json: bool,
) -> None:
    """Acquire sources side by side; those before one that fails are stored, and said so."""
    reports: list[tuple[str, IngestReport]] = []

    def each(name: str, report: IngestReport | DuckpletsError) -> None:
        if isinstance(report, DuckpletsError):
            problems.append(str(report))
            say(f"failed: {in_options(problems[-1], command)}")
        else:
            reports.append((name, report))
            told = f"{shown(name)}: {report}"
            say(*(in_options(line, command) for line in told.splitlines()))

    from duckplets.ingest.concurrent import Beside

    # Its errors are about options, whatever the sources are.
    Beside(**{name: arguments[name] for name in ("readers", "retries", "spool_mb")})
    wanted = [(one.name, one.data_set or one.source) for one in found]
    try:
        for name, _ in wanted:
            if [other for other, _ in wanted].count(name) > 1:
                raise SourceError(f"two sources would be {name!r}: acquire them one at a time")
        with as_written() if any(one.data_set for one in found) else nullcontext():
            corpus.acquire(dict(wanted), each=each, **arguments)
    except KeyboardInterrupt:
        output.say_kept(corpus.unfinished())
        raise
    except DuckpletsError:
        if not arguments["keep_going"] or not problems:  # else each was said
            raise
    finally:
        output.show_ingested(reports, json=json)
    if problems:
        say(f"{counted(len(reports), 'source')} stored, {len(problems):,} failed")
        raise typer.Exit(1)


def _ingested(corpus: Corpus, found: FoundSource, arguments: dict[str, Any]) -> IngestReport:
    with as_written() if found.data_set else nullcontext():
        own = {}
        if found.data_set:
            from duckplets.records.data_set_gates import check_cleaning

            check_cleaning([(found.name, found.data_set.clean)], corpus.chunking())
            own = found.data_set.gates
        report = corpus.ingest(found.source, name=found.name, **arguments, **own)
        if found.data_set and found.name in corpus.sources()["name"].to_pylist():
            corpus.set_index_controls(found.name, **asdict(found.data_set.controls))
        return report


def remove_empty(corpus: Corpus) -> None:
    """Remove a file that was made for what then failed, while nobody else can have it open."""
    if corpus.version == 0 and not corpus.unfinished():
        corpus.path.unlink(missing_ok=True)
