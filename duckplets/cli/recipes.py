"""Commands about recipes: `recipe …` keeps them, `sql` shows what they find."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckplets.base.sanitize import harmless, listed
from duckplets.cli import completion, output
from duckplets.cli.app import CORPUS, corpus_at, say
from duckplets.cli.options import PRESET, command
from duckplets.cli.verbs import of_verb, option
from duckplets.errors import RecipeError, nearest

if TYPE_CHECKING:
    from duckplets.corpus.corpus import Corpus
    from duckplets.corpus.recipes import Recipe
    from duckplets.recipes.recipes import Preset

RECIPE = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="Name of a recipe.", autocompletion=completion.recipes),
]
_ONLY_NAMED = "drawn when named, or by --preset crate"
_SQL_TEXT = re.compile(r"""'((?:[^']|'')*)'|"(?:[^"]|"")*"|--.*""")


def add_recipes(
    corpus: CORPUS,
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="A recipes file.")],
) -> None:
    """Store the recipes of a file: samplers then draw by the stored ones.

    Those that are stored already, just so, are left as they are.

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
                    f"it first: {command('recipe', 'remove', corpus, recipe.name)}"
                )
        new = [recipe for recipe in recipes if opened.add_recipe(recipe)]
    if known := [recipe.name for recipe in recipes if recipe.name in stored]:
        say(f"stored already: {listed(known)}")
    if new or not known:
        say(f"added {listed(r.name for r in new) or 'nothing: the file has none'}")


def list_recipes(corpus: CORPUS, preset: PRESET = None) -> None:
    """List the recipes samplers draw by: the stored ones, else the defaults of each source.

    Below come those that are drawn only when they are named, or by --preset crate.

    Example:
        duckplets recipe list faq.duckdb
        duckplets recipe list faq.duckdb --preset crate
    """
    from duckplets.recipes.files import to_dict

    with corpus_at(corpus, read_only=True) as opened:
        stored = [(recipe, "stored") for recipe in opened.recipes()]
        drawn = stored or _defaults(opened, preset)
        known = {recipe.name for recipe, _ in drawn}
        named = [(r, _ONLY_NAMED) for r, _ in _defaults(opened, "crate") if r.name not in known]
        found = [*drawn, *(named if not stored else [])]
    rows = ((r.name, to_dict(r)["kind"], r.weight, r.per, _sources(r), of) for r, of in found)
    output.show_table(("name", "kind", "weight", "per", "sources", "from"), rows)


def show(corpus: CORPUS, name: RECIPE, preset: PRESET = None) -> None:
    """Print a recipe, stored or default, in the form of a recipes file.

    Example:
        duckplets recipe show faq.duckdb anchor_context > recipes.toml
    """
    from duckplets.recipes.files import to_dict

    with corpus_at(corpus, read_only=True) as opened:
        drawn = _defaults(opened, "crate") + _defaults(opened, preset)
        known = {r.name: r for r in [*(r for r, _ in drawn), *opened.recipes()]}
    if name not in known:
        raise RecipeError(
            f"no recipe {name!r}{nearest(name, known)}; there are: {listed(known) or 'none'}"
        )
    parts = to_dict(known[name])
    print(f"[[{parts.pop('kind')}]]")
    for key, value in parts.items():
        print(f"{key} = {_toml(value)}")  # uncut, since it is read again


def remove(corpus: CORPUS, name: RECIPE) -> None:
    """Remove a stored recipe; runs that were saved with it keep it.

    Example:
        duckplets recipe remove faq.duckdb titles
    """
    with corpus_at(corpus) as opened:
        opened.remove_recipe(name)
    say(f"removed {name}")


@of_verb("corpus.recipes:pool", name=RECIPE)
def sql(
    corpus: CORPUS,
    explain: Annotated[bool, typer.Option("--explain", help="Print DuckDB's plan of it.")] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="Print its rows as JSON lines: one an anchor.")
    ] = False,
    limit: Annotated[int | None, option("With --rows: print so many at most.", min=0)] = None,
    **given: Any,
) -> None:
    """Print the statement of a recipe's pool, or its rows.

    It is ready for the duckdb CLI.

    Example:
        duckplets sql faq.duckdb anchor_context | duckdb -readonly faq.duckdb
        duckplets sql faq.duckdb anchor_context --rows --limit 5
    """
    if limit is not None and not rows:
        raise typer.BadParameter("--limit is about rows: give --rows with it")
    with corpus_at(corpus, read_only=True) as opened:
        if rows:
            found = opened.pool(**given)
            output.write_rows(found.slice(0, limit), output.stdout())
            return
        statement = opened.runnable_sql(**given)
        if not explain:
            print(_harmless_sql(statement), end="")
            return
        for plan in opened.sql(" ".join(("EXPLAIN", statement)))["explain_value"].to_pylist():
            print(harmless(plan, None))


def _defaults(corpus: Corpus, preset: Preset | None) -> list[tuple[Recipe, str]]:
    """Return the recipes of the sources, once each, with their origin."""
    from duckplets.db.queries import query
    from duckplets.recipes.recipes import default_recipes, long_section_recipe

    found: dict[tuple[str, Recipe], list[str]] = {}
    sources = corpus.sql(query("corpus/status/known_sources")).to_pylist()
    kinds = {source["name"]: source["defaults"] for source in sources}
    for source, recipes in corpus.brought_recipes(preset).items():
        usual = default_recipes(kinds[source], preset)
        whose = "defaults of" if tuple(recipes) == usual else "of"
        for recipe in recipes:
            found.setdefault((whose, recipe), []).append(source)
    defaults = [(recipe, f"{whose} {listed(of)}") for (whose, recipe), of in found.items()]
    if corpus.sql(query("recipes/store/long_sections"))["found"][0].as_py():
        long = long_section_recipe("context")
        defaults.append((long, "default where sections are longer than a window"))
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
