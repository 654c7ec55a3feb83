"""Commands about recipes: `recipe …` keeps them, `sql` shows what they find."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from duckplets.base.sanitize import harmless, listed
from duckplets.cli import bounded, output
from duckplets.cli.app import corpus_at, say
from duckplets.cli.options import command_line
from duckplets.cli.verbs import command
from duckplets.errors import RecipeError, nearest

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.recipes import Recipe
    from duckplets.recipes.recipes import Preset

_SQL_TEXT = re.compile(r"""'((?:[^']|'')*)'|"(?:[^"]|"")*"|--.*""")


@command()
def add_recipes(corpus: Path, file: Path) -> None:
    """Store the recipes of a file: samplers then draw by the stored ones.

    Those that are stored already, just so, are left as they are.

    Args:
        file (FILE.toml): A recipes file.

    Example:
        duckplets recipe add faq.duckdb recipes.toml
    """
    from duckplets.recipes.files import load_recipes

    recipes = load_recipes(file)
    with corpus_at(corpus) as opened:
        stored = {recipe.name: recipe for recipe in opened.recipes()}
        for recipe in recipes:
            if stored.get(recipe.name, recipe) != recipe:
                raise RecipeError(
                    f"the corpus has another recipe {recipe.name!r}, nothing was added; remove "
                    f"it first: {command_line('recipe', 'remove', corpus, recipe.name)}"
                )
        new = [recipe for recipe in recipes if opened.add_recipe(recipe)]
    if known := [recipe.name for recipe in recipes if recipe.name in stored]:
        say(f"stored already: {listed(known)}")
    if new or not known:
        say(f"added {listed(r.name for r in new) or 'nothing: the file has none'}")


@command()
def list_recipes(corpus: Path, preset: Literal["crate"] | None = None) -> None:
    """List the recipes samplers draw by: the stored ones, else the defaults of each source.

    Args:
        preset: Those that a sampler draws by with this preset.

    Example:
        duckplets recipe list faq.duckdb
        duckplets recipe list faq.duckdb --preset crate
    """
    from duckplets.recipes.files import to_dict

    with corpus_at(corpus, read_only=True) as opened:
        found = dict.fromkeys(opened.recipes(), "stored") or _defaults(opened, preset)
    rows = ((r.name, to_dict(r)["kind"], r.weight, r.per, _sources(r), found[r]) for r in found)
    output.show_table(("name", "kind", "weight", "per", "sources", "from"), rows)


@command()
def show(corpus: Path, recipe: str) -> None:
    """Print a recipe, stored or default, in the form of a recipes file.

    Args:
        recipe (RECIPE): Name of a recipe.

    Example:
        duckplets recipe show faq.duckdb anchor_context > recipes.toml
    """
    from duckplets.recipes.files import to_dict

    with corpus_at(corpus, read_only=True) as opened:
        defaults = {**_defaults(opened, "crate"), **_defaults(opened, None)}
        known = {r.name: r for r in [*defaults, *opened.recipes()]}
    if recipe not in known:
        raise RecipeError(
            f"no recipe {recipe!r}{nearest(recipe, known)}; there are: {listed(known) or 'none'}"
        )
    parts = to_dict(known[recipe])
    print(f"[[{parts.pop('kind')}]]")
    for key, value in parts.items():
        print(f"{key} = {_toml(value)}")  # uncut, since it is read again


@command()
def remove(corpus: Path, recipe: str) -> None:
    """Remove a stored recipe; runs that were saved with it keep it.

    Args:
        recipe (RECIPE): Name of a recipe.

    Example:
        duckplets recipe remove faq.duckdb titles
    """
    with corpus_at(corpus) as opened:
        opened.remove_recipe(recipe)
    say(f"removed {recipe}")


@command("corpus.recipes:pool", without={"name"})
def sql(
    corpus: Path,
    recipe: str,
    explain: bool = False,
    rows: bool = False,
    limit: int | None = None,
    **given: Any,
) -> None:
    """Print the statement of a recipe's pool, or its rows.

    It is ready for the duckdb CLI. Plan and rows come from a child process, which may use 4 GB of
    memory and 75 seconds.

    Args:
        recipe (RECIPE): Name of a recipe.
        explain: Print DuckDB's plan of it.
        rows: Print its rows as JSON lines: one an anchor.
        limit: With --rows: print so many at most.

    Example:
        duckplets sql faq.duckdb anchor_context | duckdb -readonly faq.duckdb
        duckplets sql faq.duckdb anchor_context --rows --limit 5
    """
    if limit is not None and not rows:
        raise typer.BadParameter("--limit is about rows: give --rows with it")
    if explain and rows:
        raise typer.BadParameter("give --explain or --rows, not both")
    if not rows and not explain:
        with corpus_at(corpus, read_only=True) as opened:
            print(_harmless_sql(opened.runnable_sql(recipe, **given)), end="")
        return
    made, how = ("recipes:pool_rows", {"limit": limit}) if rows else ("recipes:plan", {})
    sys.stdout.flush()
    for line in bounded.lines(made, corpus, {"name": recipe, **how, **given}):
        sys.stdout.buffer.write(line)


def pool_rows(corpus: Corpus, limit: int | None, **given: Any) -> Iterator[bytes]:
    """Return the rows of a pool as lines of JSON; runs in the child process."""
    rows: Any = corpus.pool(**given)
    return output.json_lines([rows.slice(0, limit)])


def plan(corpus: Corpus, **given: Any) -> Iterator[bytes]:
    """Return DuckDB's plan of a pool as lines; runs in the child process."""
    plans = corpus.sql(" ".join(("EXPLAIN", corpus.runnable_sql(**given))))["explain_value"]
    return (f"{harmless(plan, None)}\n".encode() for plan in plans.to_pylist())


def _defaults(corpus: Corpus, preset: Preset | None) -> dict[Recipe, str]:
    """Return the recipes that sources bring or have by default, each with what has it."""
    from duckplets.db.queries import query
    from duckplets.recipes.recipes import long_section_recipe

    found: dict[Recipe, list[str]] = {}
    for source, recipes in corpus.brought_recipes(preset).items():
        for recipe in recipes:
            found.setdefault(recipe, []).append(source)
    defaults = {recipe: f"defaults of {listed(of)}" for recipe, of in found.items()}
    if corpus.sql(query("recipes/store/long_sections"))["found"][0].as_py():
        long = "default where sections are longer than a window"
        defaults[long_section_recipe("context")] = long
    return defaults


def _sources(recipe: Recipe) -> str:
    return "all" if recipe.sources is None else listed(recipe.sources)


def _toml(value: Any) -> str:
    """Return a value as TOML, whose strings are those of JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    text = json.dumps(value, ensure_ascii=False)
    # eight digits: TOML has no surrogate pairs
    return "".join(s if harmless(s) == s else f"\\U{ord(s):08x}" for s in text)


def _harmless_sql(statement: str) -> str:
    """Return an equivalent statement with control characters escaped."""

    def of(found: re.Match[str]) -> str:
        if found[1] is None or harmless(found[1], None) == found[1]:
            return found[0]
        signs = (f"' || chr({ord(s)}) || '" if harmless(s) != s else s for s in found[1])
        return f"('{''.join(signs)}')"

    return harmless(_SQL_TEXT.sub(of, statement), None)
