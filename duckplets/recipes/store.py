"""Store recipes with a corpus, and find those that a sampler draws by.

Those given to the sampler; else those stored; else each source's defaults, with the long-section
recipe where a source has sections longer than a window. Text samples take text recipes by the
same rule, or three derived from each triplet recipe.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from duckplets.base.plain import Stored
from duckplets.base.shown import listed
from duckplets.db.database import Database
from duckplets.errors import RecipeError, nearest
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.recipes import (
    TextRecipe,
    TripletRecipe,
    default_recipes,
    derived_text_recipes,
    long_section_recipe,
)

Recipe = TripletRecipe | TextRecipe
LONG_SECTION = "long_section"
_NO_SOURCES = "the corpus has no sources yet; ingest some text first"


@dataclass(frozen=True, slots=True)
class SourceRecipes:
    """What a sampler draws from one source.

    Attributes:
        source: Its name.
        recipes: In order.
        optional: Names of recipes that may find no anchor: those nobody asked for.
    """

    source: str
    recipes: tuple[Recipe, ...]
    optional: frozenset[str] = frozenset()


def add(database: Database, recipe: Recipe) -> bool:
    """Store a recipe under its name; returns whether it was not there yet.

    Raises:
        RecipeError: The name is another recipe's.
    """
    if recipe.name in _names(database):
        if recipe in stored(database):
            return False
        raise RecipeError(
            f"the corpus has another recipe {recipe.name!r} already; remove it first, or give "
            f"another name"
        )
    parts = to_dict(recipe)
    kind = "text" if isinstance(recipe, TextRecipe) else "triplet"
    with database.transaction():
        database.run(
            "recipes/store/add",
            {"name": recipe.name, "kind": kind, "definition": json.dumps(parts)},
        )
    return True


def remove(database: Database, name: str) -> None:
    """Remove a stored recipe."""
    names = _names(database)
    if name not in names:
        raise _unknown(name, names)
    with database.transaction():
        database.run("recipes/store/remove", {"name": name})


def stored(database: Database) -> list[Recipe]:
    """Return the stored recipes by name.

    Raises:
        DamagedFileError: A definition is none.
    """
    found = []
    for name, definition in database.run("recipes/store/list"):
        way = f"Remove it: duckplets recipe remove {database.path} {shlex.quote(name)}"
        place = Stored(database.path, "recipes", f"recipe {name!r}", way)
        parts = place.read("definition", definition, {"kind": str, "name": str})
        with place.making("definition"):
            found.append(from_dict(parts))
    return found


def _names(database: Database) -> list[str]:
    """Return the names of the stored recipes, also of those that are damaged."""
    return [name for name, _ in database.run("recipes/store/list")]


def resolve(
    database: Database,
    given: Sequence[Recipe | str] | None,
    *,
    kind: str,
    split: str,
    version: int,
    max_tokens: int,
    long_sections: bool = True,
    also: Sequence[Recipe] = (),
) -> list[SourceRecipes]:
    """Return the recipes of every source of a version, by name of the source.

    ``also`` may be named where they are not stored any more.

    Raises:
        RecipeError: An unknown or repeated name, or none of the needed kind.
    """
    sources = dict(database.run("recipes/store/sources", {"version": version}))
    known = stored(database)
    chosen = [r for r in known if kind == "texts" or is_triplet(r)]
    if given:  # only then are the defaults needed, whose conditions take a while to parse
        chosen = _named(given, [*also, *known, *_all_defaults(sources)]) or chosen
    resolved = []
    for source, defaults in sources.items():
        if chosen:
            recipes = [r for r in chosen if r.sources is None or source in r.sources]
            optional: frozenset[str] = frozenset()
        else:
            where = {"source": source, "split": split, "version": version}
            extra = _long(database, where | {"max_tokens": max_tokens}) if long_sections else []
            recipes = [*default_recipes(defaults), *extra]
            optional = frozenset(r.name for r in extra)
        found = _of_kind(recipes, kind)
        optional = optional | {
            f"{n}_{s}" for n in optional for s in ("anchor", "positive", "negative")
        }
        resolved.append(SourceRecipes(source, found, optional))
    _check(resolved, chosen, kind, sources)
    return resolved


def _check(
    resolved: list[SourceRecipes],
    chosen: Sequence[Recipe] | None,
    kind: str,
    sources: Iterable[str],
) -> None:
    for recipe in chosen or []:
        for name in recipe.sources or ():
            if name not in sources:
                raise RecipeError(
                    f"recipe {recipe.name!r}: no source {name!r}{nearest(name, sources)}; there "
                    f"are: {listed(sources) or 'none'}"
                )
    for of_source in resolved:
        names = [r.name for r in of_source.recipes]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise RecipeError(f"two recipes are named {sorted(twice)[0]!r}; rename one of them")
    if chosen and not any(of_source.recipes for of_source in resolved):
        raise RecipeError(f"none of the given recipes makes {kind}; give a triplet recipe")


def _of_kind(recipes: Iterable[Recipe], kind: str) -> tuple[Recipe, ...]:
    """Return those that make a kind of sample: for texts, text recipes or else derived ones."""
    recipes = list(recipes)
    triplets = [r for r in recipes if isinstance(r, TripletRecipe)]
    if kind != "texts":
        return tuple(triplets)
    texts: list[Recipe] = [r for r in recipes if isinstance(r, TextRecipe)]
    return tuple(texts or [d for r in triplets for d in derived_text_recipes(r)])


def _named(given: Sequence[Recipe | str], known: list[Recipe]) -> list[Recipe]:
    by_name = {recipe.name: recipe for recipe in known}
    found: list[Recipe] = []
    for recipe in [given] if isinstance(given, str | TripletRecipe | TextRecipe) else given:
        if isinstance(recipe, TripletRecipe | TextRecipe):
            found.append(recipe)
        elif not isinstance(recipe, str):
            raise RecipeError(f"recipes: {recipe!r} is neither a recipe nor the name of one")
        elif recipe in by_name:
            found.append(by_name[recipe])
        else:
            raise _unknown(recipe, by_name)
    return found


def find(database: Database, name: str, version: int) -> Recipe:
    """Return a recipe by name: a stored one, else a default of one of the sources."""
    sources = dict(database.run("recipes/store/sources", {"version": version}))
    known = [*_all_defaults(sources), *stored(database)]
    texts = [d for r in known if isinstance(r, TripletRecipe) for d in derived_text_recipes(r)]
    by_name = {recipe.name: recipe for recipe in [*texts, *known]}
    if name not in by_name:
        if not sources:
            raise RecipeError(f"no recipe {name!r}: {_NO_SOURCES}")
        is_long = bool(database.run("recipes/store/long_sections")[0][0])
        raise _unknown(name, [r.name for r in known if is_long or r.name != LONG_SECTION])
    return by_name[name]


def first_source(database: Database, recipe: Recipe, version: int) -> str:
    """Return the first source a recipe applies to: what is shown when none is named.

    Sources whose defaults include the recipe come before others.
    """
    sources: dict[str, str] = dict(database.run("recipes/store/sources", {"version": version}))
    if not sources:
        raise RecipeError(_NO_SOURCES)
    fitting = [s for s in sources if recipe.sources is None or s in recipe.sources]
    if not fitting:
        raise RecipeError(
            f"recipe {recipe.name!r} is limited to {listed(recipe.sources or ())}, and the "
            f"corpus has only {listed(sources)}"
        )
    own = [s for s in fitting if recipe in default_recipes(sources[s])]
    return (own or fitting)[0]


def check_source(database: Database, source: str, version: int) -> None:
    """Refuse a name that is no source of a version."""
    sources = dict(database.run("recipes/store/sources", {"version": version}))
    if source not in sources:
        raise RecipeError(
            f"no source {source!r}{nearest(source, sources)}; there are: "
            f"{listed(sources) or 'none'}"
        )


def _all_defaults(sources: dict[str, str]) -> list[Recipe]:
    """Return the defaults of all sources, once each."""
    kinds = dict.fromkeys(sources.values())
    found: dict[str, Recipe] = {r.name: r for kind in kinds for r in default_recipes(kind)}
    role = "context"
    found[LONG_SECTION] = long_section_recipe(role)
    return list(found.values())


def _long(database: Database, where: dict[str, object]) -> list[Recipe]:
    """Return the long-section recipe for the role that has long sections, if one has."""
    roles = [role for (role,) in database.run("recipes/store/long_roles", where)]
    return [long_section_recipe(roles[0])] if roles else []


def is_triplet(recipe: Recipe) -> bool:
    """Return whether a recipe makes triplets."""
    return isinstance(recipe, TripletRecipe)


def _unknown(name: str, names: Iterable[str]) -> RecipeError:
    names = list(names)
    return RecipeError(
        f"no recipe {name!r}{nearest(name, names)}; there are: {listed(names) or 'none'}"
    )
