"""Commands that inspect and maintain corpora: `status`, `remove`, `prepare`, `doctor`."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from duckplets.base.sanitize import counted, listed, shown
from duckplets.cli import output
from duckplets.cli.app import corpus_at, existing, say, tell
from duckplets.cli.options import command_line
from duckplets.cli.verbs import command
from duckplets.errors import QueryError, RecipeError

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.db.catalog import Kind


@command()
def status(
    corpus: Path, html: Path | None = None, run: str | None = None, json: bool = False
) -> None:
    """Show the contents of a corpus, as text or as a page.

    The text lists sources, splits and runs. Pools are listed with the reasons of excluded anchors,
    mined negatives with the reasons why they are stale. An estimate counts samples by source and
    split. Pools of more than 500,000 records are not counted.

    The page of --html opens from disk, without a network. It shows figures, plots, samples, mined
    negatives, the mixture over steps, served samples, and gates with examples. Each table has the
    SQL or the call that made it. The command replaces an earlier page.

    Args:
        html (FILE.html): Write one HTML page instead of text.
        run: With --html: the run to show. [default: a new run]

    Example:
        duckplets status faq.duckdb
        duckplets status faq.duckdb --html faq.html --run default
    """
    if html is None and run is not None:
        raise typer.BadParameter("--run is an option of the page: add --html")
    if html is not None and json:
        raise typer.BadParameter("give --html or --json, not both")
    with corpus_at(corpus, read_only=True) as opened:
        if html is not None:
            page = opened.report(html, run=run, overwrite=_is_page(html))
            tables = sum(len(section["tables"]) for section in page.data["sections"])
            tell(f"{html}: {counted(tables, 'table')}, {html.stat().st_size:,} bytes")
            return
        found = opened.status()
    if json:
        output.print_document(found)
    else:
        tell(*str(found).split("\n"))


def _is_page(path: Path) -> bool:
    try:
        return b"<footer><p>Made by duckplets " in path.read_bytes()
    except OSError:
        return False


@command(places={"corpus": "CORPUS"})
def doctor(corpus: Path | None = None, migrate: bool = False) -> None:
    """Check the environment and a corpus.

    The command also checks the state file next to the corpus.

    Args:
        migrate: First update the schema of the corpus and the state file next to it, or of a state
            file alone, to this version.

    Example:
        duckplets doctor faq.duckdb
        duckplets doctor faq.duckdb --migrate
    """
    from duckplets.corpus import doctor as checks
    from duckplets.runs.state import state_path

    if migrate:
        if corpus is None:
            raise typer.BadParameter("--migrate: give the file")
        if _migrate(existing(corpus)) == "state":
            return
        if state_path(corpus).exists():
            _migrate(state_path(corpus))
    problems = 0
    found = checks.environment()
    for check in [*found, *(checks.corpus(corpus) if corpus is not None else ())]:
        problems += not check.ok
        tell(f"{'ok      ' if check.ok else 'problem '} {check.what}")
    if problems:
        say(f"error: {counted(problems, 'problem')} found")
        raise typer.Exit(1)


@command()
def remove(corpus: Path, source: str, yes: bool = False) -> None:
    """Remove a source from the newest version of a corpus.

    Earlier saved runs continue to draw from it. Its rows stay in the file; `duckplets prepare
    --compact` removes rows that no run needs.

    Args:
        source (NAME): Name of a source.
        yes: Do not ask. Required outside a terminal.

    Example:
        duckplets remove faq.duckdb faq --yes
    """
    from duckplets.runs.state import runs, state_path

    with corpus_at(corpus) as opened:
        records = {row["name"]: row["records"] for row in opened.sources().to_pylist()}
        unfinished = {row["source"]: row["rows"] for row in opened.unfinished()}
        if source in records or source in unfinished:
            say(f"{source} has {counted(records.get(source, 0), 'record')}")
            if source in unfinished:
                say(f"also discarded: {counted(unfinished[source], 'row')} of an unfinished ingest")
            saved = runs(state_path(opened.path))
            drawing = [run.run for run in saved if source in run.settings.get("sources", ())]
            say(f"saved runs that continue to draw from it: {listed(drawing) or 'none'}")
            _confirm(f"remove {source} from {corpus}?", yes=yes)
        removed = counted(opened.remove(source), "record")  # refuses an unknown name
        say(f"removed {removed} of {source}; the corpus is at version {opened.version}")
    way = command_line("prepare", corpus, "--compact")
    say(f"rows that no run needs are still in the file; to remove them: {way}")


@command("corpus.maintenance:prepare", only="clean rewrite")
def prepare(
    corpus: Path, compact: bool = False, recipes: Path | None = None, **settings: Any
) -> None:
    """Build the snapshot of a corpus, store recipes, or compact it.

    The snapshot is the folder NAME.snapshot next to the corpus. Runs read texts from it. A run of
    a corpus of more than 200,000 chunks builds it when it is opened. New records are added to it.
    You can delete it at any time.

    Args:
        compact: First rewrite the corpus without rows that no run of the state file next to it
            needs. If the process is killed, the old or the new file remains.
        recipes (FILE.toml): Store the recipes of a file, and do nothing more. Samplers then use the
            stored recipes.

    Example:
        duckplets prepare faq.duckdb
        duckplets prepare faq.duckdb --recipes recipes.toml
        duckplets prepare faq.duckdb --compact --clean
        duckplets prepare faq.duckdb --rewrite
    """
    from duckplets.corpus.status_text import fit

    if recipes is not None:
        if compact or settings:
            raise typer.BadParameter("--recipes only stores recipes: remove the other options")
        with corpus_at(corpus) as opened:
            _store_recipes(opened, recipes)
        return
    if compact:
        with corpus_at(corpus) as opened:
            output.show(opened.compact())
    with corpus_at(corpus, read_only="rewrite" not in settings) as opened:
        report = opened.prepare(**settings)
    output.show(report)
    if report.rewritten:
        folder = f"{corpus.name.removesuffix('.duckdb')}.texts"
        say(f"the texts lie in {folder} beside the corpus: copy and move both")
    say(fit(report.bytes, report.memory_available, report.reads_per_s))


def _store_recipes(corpus: Corpus, file: Path) -> None:
    """Store the recipes of a file; equal ones may be stored already."""
    from duckplets.recipes.files import load_recipes

    recipes = load_recipes(file)
    stored = {recipe.name: recipe for recipe in corpus.recipes()}
    for recipe in recipes:
        if stored.get(recipe.name, recipe) != recipe:
            raise RecipeError(
                f"the corpus has another recipe {recipe.name!r}, so none was added; remove it "
                f"first: Corpus.remove(recipe={recipe.name!r})"
            )
    new = [recipe.name for recipe in recipes if corpus.add_recipe(recipe)]
    if known := [recipe.name for recipe in recipes if recipe.name in stored]:
        say(f"stored already: {listed(known)}")
    if new or not known:
        say(f"added {listed(new) or 'no recipe: the file has none'}")


def _confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal; elsewhere require ``--yes``."""
    if yes:
        return
    if not _can_ask():
        raise typer.BadParameter(f"{question} This is no terminal: add --yes")
    if not typer.confirm(shown(question), err=True):
        raise typer.Exit(1)


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _migrate(path: Path) -> Kind:
    from duckplets.db.database import Database
    from duckplets.db.migrate import migrate as apply

    with closing(Database.open(path)) as database:
        try:
            kinds = {row[2] for row in database.run("db/migrate/applied")}
        except QueryError:  # a foreign file, which migrate refuses
            kinds = set()
        kind: Kind = "state" if kinds == {"state"} else "corpus"
        done = apply(database, kind)
    tell(f"{path}: {'applied ' + ', '.join(done) if done else 'up to date'}")
    return kind
