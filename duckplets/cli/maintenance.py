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
    from duckplets.db.database import Database


@command()
def status(
    corpus: Path, html: Path | None = None, run: str | None = None, json: bool = False
) -> None:
    """Show what is in a corpus, as a page too.

    Sources, splits, runs; pools with the anchors that they leave out and why, mined negatives with
    why they are stale; an estimate of samples by source and split. Pools of more than 500,000
    records are not counted.

    The page of --html opens from disk, without a network: figures, plots, samples to leaf through,
    mined negatives, the mixture over steps and what was served, gates with examples; each table
    with the SQL or the call that made it. An earlier page is replaced.

    Args:
        html (FILE.html): Make one HTML page to look at, instead.
        run: With --html: which run. [default: what a new one would draw]

    Example:
        duckplets status faq.duckdb
        duckplets status faq.duckdb --html faq.html --run default
    """
    if html is None and run is not None:
        raise typer.BadParameter("--run is about the page: give --html with it")
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
    """Return whether a file is a page that ``status --html`` wrote."""
    try:
        return b"<footer><p>Made by duckplets " in path.read_bytes()
    except OSError:
        return False


@command(places={"corpus": "CORPUS"})
def doctor(corpus: Path | None = None, migrate: bool = False) -> None:
    """Check the environment and a corpus.

    A state file beside the corpus is checked too.

    Args:
        migrate: First bring the corpus, or a state file, and the state file beside it to the
            schema of this version.

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

    Runs that were saved before go on drawing from it: what they need stays in the file, and the
    rest until `duckplets prepare --compact`.

    Args:
        source (NAME): Name of a source.
        yes: Do not ask; needed where nobody can.

    Example:
        duckplets remove faq.duckdb faq --yes
    """
    from duckplets.runs.state import runs, state_path

    with corpus_at(corpus) as opened:
        there = {row["name"]: row["records"] for row in opened.sources().to_pylist()}
        kept = {row["source"]: row["rows"] for row in opened.unfinished()}
        if source in there or source in kept:
            say(f"{source} has {counted(there.get(source, 0), 'record')}")
            if source in kept:
                rows = counted(kept[source], "row")
                say(f"discarded too, of an unfinished ingest of it: {rows}")
            saved = runs(state_path(opened.path))
            drawing = [run.run for run in saved if source in run.settings.get("sources", ())]
            say(f"saved runs that go on drawing from it, as it was: {listed(drawing) or 'none'}")
            _confirm(f"remove {source} from {corpus}?", yes=yes)
        records = opened.remove(source)  # refuses an unknown name
        gone = counted(records, "record")
        say(f"removed {gone} of {source}; the corpus is at version {opened.version}")
    way = command_line("prepare", corpus, "--compact")
    say(f"what no run needs is still in the file; to free it: {way}")


@command("corpus.maintenance:prepare", only="clean rewrite")
def prepare(corpus: Path, compact: bool = False, recipes: Path | None = None, **given: Any) -> None:
    """Make the snapshot of a corpus, store recipes, or compact it.

    The snapshot lies beside the corpus, in NAME.snapshot; runs are served from it. A run of a
    corpus of more than 200,000 chunks makes it when it is opened. New records are added to it. It
    may be deleted at any time.

    Args:
        compact: First rewrite the corpus without rows that no run of the state file beside it
            needs. A kill leaves the old file or the new one.
        recipes (FILE.toml): Only store the recipes of a file. Samplers then draw by the stored
            recipes.

    Example:
        duckplets prepare faq.duckdb
        duckplets prepare faq.duckdb --recipes recipes.toml
        duckplets prepare faq.duckdb --compact --clean
        duckplets prepare faq.duckdb --rewrite
    """
    from duckplets.corpus.status_text import fit

    if recipes is not None:
        if compact or given:
            raise typer.BadParameter("--recipes only stores recipes: leave other options out")
        with corpus_at(corpus) as opened:
            _store_recipes(opened, recipes)
        return
    if compact:
        with corpus_at(corpus) as opened:
            output.show(opened.compact())
    with corpus_at(corpus, read_only="rewrite" not in given) as opened:
        report = opened.prepare(**given)
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
                f"the corpus has another recipe {recipe.name!r}, nothing was added; remove it "
                f"first: Corpus.remove(recipe={recipe.name!r})"
            )
    new = [recipe.name for recipe in recipes if corpus.add_recipe(recipe)]
    if known := [recipe.name for recipe in recipes if recipe.name in stored]:
        say(f"stored already: {listed(known)}")
    if new or not known:
        say(f"added {listed(new) or 'nothing: the file has none'}")


def _confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal; elsewhere require ``--yes``."""
    if yes:
        return
    if not _can_ask():
        raise typer.BadParameter(f"{question} Nobody can be asked here: give --yes")
    if not typer.confirm(shown(question), err=True):
        raise typer.Exit(1)


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


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
