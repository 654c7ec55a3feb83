"""Commands that inspect and maintain corpora: `status` and `cursor` to `compact`, `doctor`."""

from __future__ import annotations

import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.sanitize import counted, listed, shown
from duckplets.cli import output
from duckplets.cli.app import corpus_at, existing, say, tell
from duckplets.cli.options import command_line
from duckplets.cli.verbs import command
from duckplets.errors import QueryError, StateMismatchError

if TYPE_CHECKING:
    from duckplets.db.catalog import Kind
    from duckplets.db.database import Database


@command("corpus.status:status")
def status(
    corpus: Path,
    html: Path | None = None,
    run: str | None = None,
    mixture: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
    **given: Any,
) -> None:
    """Show what is in a corpus, as a page too.

    Sources, splits, runs; pools with what they leave out and why, mined negatives with why they
    are stale. Those of more than 500,000 records are counted if asked for, with --pools.

    The page of --html opens from disk, without a network: figures, plots, samples to leaf through,
    mined negatives, the mixture over steps and what was served, gates with examples; each table
    with the SQL or the call that made it.

    Args:
        html (FILE.html): Make one HTML page to look at, instead.
        run: With --html: which run. [default: what a new one would draw]
        mixture (FILE.toml): With --html: this mixture, not the declared one.
        overwrite: With --html: replace the page.

    Example:
        duckplets status faq.duckdb
        duckplets status faq.duckdb --html faq.html --run default
    """
    of_page = {"--run": run, "--mixture": mixture, "--overwrite": overwrite}
    of_others = {"--json": json, "--pools": given} if html else of_page
    if misplaced := [name for name, is_given in of_others.items() if is_given]:
        raise typer.BadParameter(
            f"{misplaced[0]}: --html takes --run, --mixture and --overwrite; without it there are "
            f"--json and --pools"
        )
    if html is not None:
        with corpus_at(corpus, read_only=True) as opened:
            page = opened.report(html, run=run, mixture=mixture, overwrite=overwrite)
        tables = sum(len(section["tables"]) for section in page.data["sections"])
        tell(f"{html}: {counted(tables, 'table')}, {html.stat().st_size:,} bytes")
        return
    with corpus_at(corpus, read_only=True) as opened:
        found = opened.status(**given)
    if json:
        output.print_document(found)
    else:
        tell(*str(found).split("\n"))


@command()
def capacity(corpus: Path, json: bool = False) -> None:
    """Estimate how many samples each source and split has.

    It is an estimate from counts alone.

    Example:
        duckplets capacity faq.duckdb
    """
    with corpus_at(corpus, read_only=True) as opened:
        found = opened.capacity().to_pylist()
    # DuckDB's wide integers are decimals in Arrow
    rows = [{n: int(v) if isinstance(v, Decimal) else v for n, v in r.items()} for r in found]
    output.show_rows(rows, json=json)


@command(places={"corpus": "CORPUS"})
def doctor(corpus: Path | None = None) -> None:
    """Check the environment and a corpus.

    A state file beside the corpus is checked too.

    Example:
        duckplets doctor faq.duckdb
    """
    from duckplets.corpus import doctor as checks

    problems = 0
    found = checks.environment()
    for check in [*found, *(checks.corpus(corpus) if corpus is not None else ())]:
        problems += not check.ok
        tell(f"{'ok      ' if check.ok else 'problem '} {check.what}")
    if problems:
        say(f"error: {counted(problems, 'problem')} found")
        raise typer.Exit(1)


@command()
def list_cursors(corpus: Path, state: Path | None = None) -> None:
    """List where the saved runs of a corpus stand.

    Example:
        duckplets cursor list faq.duckdb
    """
    from duckplets.corpus.status_text import cursor_lines
    from duckplets.runs.state import cursors

    tell(*cursor_lines(cursors(_state_path(corpus, state))))


@command("runs.state:reset", without={"path"})
def reset(corpus: Path, state: Path | None = None, **given: Any) -> None:
    """Forget a saved run and its checkpoints, so that its name is free.

    Example:
        duckplets cursor reset faq.duckdb --run default --after 5000
        duckplets cursor reset faq.duckdb --run default
    """
    from duckplets.runs.state import reset as forget

    removed = counted(forget(_state_path(corpus, state), **given), "cursor")
    if (after := given.get("after")) is None:
        say(f"forgot run {given['run']} and its {removed}")
    else:
        say(f"forgot {removed} of run {given['run']} beyond step {after:,}")


@command()
def remove(corpus: Path, source: str, yes: bool = False) -> None:
    """Remove a source from the newest version of a corpus.

    Runs that were saved before go on drawing from it: what they need stays in the file, and the
    rest until `duckplets compact`.

    Args:
        source (NAME): Name of a source.
        yes: Do not ask; needed where nobody can.

    Example:
        duckplets remove faq.duckdb faq --yes
    """
    from duckplets.runs.state import runs

    with corpus_at(corpus) as opened:
        there = {row["name"]: row["records"] for row in opened.sources().to_pylist()}
        kept = {row["source"]: row["rows"] for row in opened.unfinished()}
        if source in there or source in kept:
            say(f"{source} has {counted(there.get(source, 0), 'record')}")
            if source in kept:
                rows = counted(kept[source], "row")
                say(f"discarded too, of an unfinished ingest of it: {rows}")
            saved = runs(opened.state_path())
            drawing = [run.run for run in saved if source in run.settings.get("sources", ())]
            say(f"saved runs that go on drawing from it, as it was: {listed(drawing) or 'none'}")
            _confirm(f"remove {source} from {corpus}?", yes=yes)
        records = opened.remove(source)  # refuses an unknown name
        gone = counted(records, "record")
        say(f"removed {gone} of {source}; the corpus is at version {opened.version}")
    say(f"what no run needs is still in the file; to free it: {command_line('compact', corpus)}")


@command("corpus.compact:compact")
def compact(corpus: Path, **given: Any) -> None:
    """Rewrite a corpus without what no run needs any more.

    Runs of the state file beside it go on; others only if their --state is given. It needs the
    room of the result. Killed at any instant, it leaves the old file or the new one.

    Example:
        duckplets compact faq.duckdb
    """
    with corpus_at(corpus) as opened:
        report = opened.compact(**given)
    output.show(report)


@command("corpus.maintenance:prepare")
def prepare(corpus: Path, **given: Any) -> None:
    """Make the snapshot of a corpus that runs are served from.

    It lies beside the corpus, in NAME.snapshot. It is made by itself for a corpus of more than
    200,000 chunks when a run is first opened. Only what has come since is added. It may be
    deleted at any time.

    Example:
        duckplets prepare faq.duckdb
        duckplets prepare faq.duckdb --clean
    """
    from duckplets.corpus.status_text import fit

    with corpus_at(corpus, read_only=True) as opened:
        report = opened.prepare(**given)
    output.show(report)
    say(fit(report.bytes, report.memory_available, report.reads_per_s))


@command()
def migrate(file: Path) -> None:
    """Bring a corpus and its state file to this schema.

    Args:
        file (FILE): A corpus file, or a state file kept elsewhere.

    Example:
        duckplets migrate faq.duckdb
    """
    from duckplets.runs.state import state_path

    if _migrate(existing(file)) == "corpus" and state_path(file).exists():
        _migrate(state_path(file))


def _confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal; elsewhere require ``--yes``.

    Raises:
        typer.Exit: The answer is no.
        typer.BadParameter: There is no terminal to ask on.
    """
    if yes:
        return
    if not _can_ask():
        raise typer.BadParameter(f"{question} Nobody can be asked here: give --yes")
    if not typer.confirm(shown(question), err=True):
        raise typer.Exit(1)


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _state_path(corpus: Path, given: Path | None) -> Path:
    from duckplets.runs.state import state_path

    beside = state_path(existing(corpus))
    if given is not None and not given.exists():
        raise StateMismatchError(f"no run is saved: {given} does not exist")
    return given or beside


def _migrate(path: Path) -> Kind:
    from duckplets.db.database import Database
    from duckplets.db.migrate import migrate as apply

    with closing(Database.open(path)) as database:
        kind = _kind(database)
        done = apply(database, kind)
    tell(f"{path}: {'applied ' + ', '.join(done) if done else 'up to date'}")
    return kind


def _kind(database: Database) -> Kind:
    """Return the kind of a file; foreign ones count as corpora, which are then refused."""
    try:
        kinds = {row[2] for row in database.run("db/migrate/applied")}
    except QueryError:
        return "corpus"
    return "state" if kinds == {"state"} else "corpus"
