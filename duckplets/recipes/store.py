"""Store recipes in a corpus, and find the recipes of a sampler.

The first of these that exist apply: recipes of the sampler, stored recipes, a source's own recipes,
and its defaults. Sections longer than a window add the long-section recipe to the defaults. Text
samples use text recipes by the same rule, or a recipe derived from a source's triplet recipes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from duckplets.base.documents import StoredJson
from duckplets.base.sanitize import listed, shown
from duckplets.db.database import Database
from duckplets.errors import RecipeError, nearest
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.recipes import (
    LONG_SECTION,
    TEXTS,
    Preset,
    Role,
    TextRecipe,
    TripletRecipe,
    check_case,
    check_names,
    default_names,
    default_recipes,
    derived_text_recipe,
    long_section_recipe,
)
from duckplets.recipes.recipes import Recipe as Recipe

_NO_SOURCES = "the corpus has no sources yet; ingest some text first"


@dataclass(frozen=True, slots=True)
class SourceRecipes:
    """The recipes of a source for a sampler; ``optional`` ones may find no anchor."""

    source: str
    recipes: tuple[Recipe, ...]
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceDefaults:
    """The own or default recipes of a source."""

    defaults: str  # kind of its rows; see ``default_recipes``
    own: tuple[Recipe, ...] = ()  # its own recipes, instead of defaults
    weight: float | None = None  # weight in the declared mixture of the corpus
    controlled: bool = False  # whether it has index controls
    are_documents: bool = False  # whether its records are the documents of other sources

    def recipes(self, preset: Preset | None = None) -> tuple[Recipe, ...]:
        """Return its own recipes or the defaults, without the long-section recipe."""
        return self.own or (() if self.are_documents else default_recipes(self.defaults, preset))

    def known(self, preset: Preset | None = None) -> list[Recipe]:
        """Return the recipes that may be named, including those only a preset draws."""
        drawn = {recipe.name: recipe for recipe in self.recipes(preset)}
        return [drawn.get(recipe.name, recipe) for recipe in self.recipes("crate")]

    def of_kind(self, recipes: Iterable[Recipe], kind: str) -> tuple[Recipe, ...]:
        """Return the recipes for a kind of sample; for texts, text recipes or a derived one."""
        recipes = list(recipes)
        triplets = [r for r in recipes if isinstance(r, TripletRecipe)]
        texts = [r for r in recipes if isinstance(r, TextRecipe)]
        if kind != "texts":
            return tuple(triplets)
        if not texts and self.are_documents:
            triplets = triplets or list(default_recipes("text"))
        if not texts and triplets:
            texts = [derived_text_recipe(triplets, titles=self.defaults != "documents")]
        return tuple(texts)


def sources_of(database: Database, version: int) -> dict[str, SourceDefaults]:
    """Return the sources of a version by name, with their defaults."""
    return offered(database.run("recipes/store/offered", {"version": version}), database.path)


def offered(rows: Iterable[tuple[Any, ...]], path: Path | None) -> dict[str, SourceDefaults]:
    """Return sources by name from rows of a corpus."""
    found = {}
    for name, defaults, recipes, weight, controlled, are_documents in rows:
        way = "Read the source again, or put back an earlier copy of the file."
        place = StoredJson(path, "sources", f"source {name!r}", way)
        definitions = place.read("recipes", recipes or "[]", [dict])
        with place.making("recipes"):
            own = tuple(map(from_dict, definitions))
            found[name] = SourceDefaults(defaults, own, weight, controlled, are_documents)
    return found


def provided(database: Database, source: object, name: str) -> str | None:
    """Return the attribute ``recipes`` of a user's source as JSON, or None."""
    inner = getattr(source, "source", source)  # a custom source wraps the user's own
    recipes = getattr(inner, "recipes", None)
    if recipes is None:
        return None
    where = f"source {name!r}: recipes"
    if not isinstance(recipes, list | tuple):
        raise RecipeError(f"{where}={recipes!r}: give a list of recipes")
    for recipe in recipes:
        if not isinstance(recipe, Recipe):
            raise RecipeError(
                f"{where}: {recipe!r} is not a recipe; give TripletRecipe(…) or TextRecipe(…)"
            )
    try:
        check_names(recipes)
    except RecipeError as error:
        raise RecipeError(f"{where}: {error}") from None
    names = [*_stored_names(database), *default_names()]
    rows = database.run("recipes/store/of_others", {"name": name})
    for other, has in offered(((*row, None, False, False) for row in rows), database.path).items():
        names += [theirs.name for theirs in has.own]
        for recipe, theirs in product(recipes, has.own):
            if recipe.name == theirs.name and recipe.of_pool() != theirs.of_pool():
                raise RecipeError(
                    f"sources {shown(repr(name), 40)} and {shown(repr(other), 40)} have different "
                    f"recipes {shown(repr(recipe.name), 40)}; rename one of them: "
                    f"{_difference(recipe, theirs)}"
                )
    for recipe in recipes:
        check_case(recipe.name, names)
    return json.dumps([to_dict(recipe) for recipe in recipes])


def _difference(one: Recipe, other: Recipe) -> str:
    """Return the first field in which two recipes differ."""
    first, second = to_dict(one.of_pool()), to_dict(other.of_pool())
    differing = (key for key in first | second if first.get(key) != second.get(key))
    key = next(differing, "")
    return f"{key}={shown(first.get(key), 30)} and {shown(second.get(key), 30)}"


def add(database: Database, recipe: Recipe, version: int) -> bool:
    """Store a recipe; return whether it was new."""
    check_case(recipe.name, [*names(database, version), *default_names()])
    if recipe.name in _stored_names(database):
        if recipe in stored(database):
            return False
        raise RecipeError(
            f"the corpus has another recipe {recipe.name!r} already; remove it first, or give "
            f"another name"
        )
    parts = to_dict(recipe)
    row = {"name": recipe.name, "kind": parts["kind"], "definition": json.dumps(parts)}
    with database.transaction():
        database.run("recipes/store/add", row)
    return True


def remove(database: Database, name: str) -> None:
    """Remove a stored recipe, even a damaged one."""
    _check_is_name(name)
    if name not in (known := _stored_names(database)):
        raise _unknown(name, known)
    with database.transaction():
        database.run("recipes/store/remove", {"name": name})


def stored(database: Database) -> list[Recipe]:
    """Return the stored recipes by name."""
    return parsed(database.run("recipes/store/list"), database.path)


def parsed(rows: Iterable[tuple[Any, ...]], path: Path | None) -> list[Recipe]:
    """Return recipes from rows of a corpus."""
    found = []
    for name, definition in rows:
        way = f"Remove it: Corpus({str(path)!r}).remove(recipe={name!r})"
        place = StoredJson(path, "recipes", f"recipe {name!r}", way)
        parts = place.read("definition", definition, dict)
        with place.making("definition"):
            found.append(from_dict(parts))
    return found


def _stored_names(database: Database) -> list[str]:
    return [name for name, _ in database.run("recipes/store/list")]


def resolve(
    database: Database,
    requested: Sequence[Recipe | str] | None,
    *,
    kind: str,
    split: str,
    version: int,
    max_tokens: int,  # tokens of a window
    long_sections: bool = True,
    preset: Preset | None = None,
    also: Sequence[Recipe] = (),  # no longer stored, but may be named
    sources: Mapping[str, SourceDefaults] | None = None,  # sources of the version, if known
) -> list[SourceRecipes]:
    """Return the recipes of every source of a version, by source."""
    sources = sources_of(database, version) if sources is None else sources
    known = stored(database)
    chosen = [r for r in known if kind == "texts" or isinstance(r, TripletRecipe)]
    if requested:
        chosen = _named(requested, lambda: [*also, *known, *_defaults(sources, preset)]) or chosen
    resolved = []
    if not chosen:
        long_roles, most = dict[str, Role](), {"max_tokens": max_tokens}
        looks = long_sections and kind != "texts"
        if looks and database.run("recipes/store/has_longer", most)[0][0]:
            where = {"split": split, "version": version} | most
            long_roles = dict(database.run("recipes/store/long_roles", where))
        for source, offers in sources.items():
            is_plain = source not in long_roles or offers.own or offers.are_documents
            extra = [] if is_plain else [long_section_recipe(long_roles[source])]
            recipes = offers.of_kind([*offers.recipes(preset), *extra], kind)
            resolved.append(SourceRecipes(source, recipes, frozenset(r.name for r in extra)))
    places: dict[str | None, list[int]] = defaultdict(list)
    for place, recipe in enumerate(chosen):
        for name in recipe.sources or (None,):
            if name is not None and name not in sources:
                why = _unknown(name, sources, "source")
                raise RecipeError(f"recipe {recipe.name!r}: {why}")
            places[name].append(place)
    for source, offers in sources.items() if chosen else ():
        of_all = [] if offers.are_documents and kind != "texts" else places[None]
        own = [chosen[place] for place in sorted(places[source] + of_all)]
        resolved.append(SourceRecipes(source, offers.of_kind(own, kind)))
    for found in resolved:
        check_names(found.recipes)
    if chosen and not any(found.recipes for found in resolved):
        raise RecipeError(f"none of the given recipes makes {kind}; give a triplet recipe")
    serves = kind != "texts" or split == "train"  # documents of other sources serve nothing else
    return [
        found
        for found in resolved
        if not sources[found.source].are_documents or (serves and found.recipes)
    ]


def _named(requested: Sequence[Recipe | str], known: Callable[[], list[Recipe]]) -> list[Recipe]:
    requested, found = (
        [requested] if isinstance(requested, str | Recipe) else requested,
        list[Recipe](),
    )
    # Only names need the defaults, whose conditions take a while to parse.
    by_name = (
        {recipe.name: recipe for recipe in known()}
        if any(isinstance(recipe, str) for recipe in requested)
        else {}
    )
    for recipe in requested:
        if isinstance(recipe, str) and recipe not in by_name:
            raise _unknown(recipe, by_name)
        found.append(by_name[recipe] if isinstance(recipe, str) else recipe)
        if not isinstance(found[-1], Recipe):
            raise RecipeError(f"recipes: {recipe!r} is neither a recipe nor the name of one")
    return found


def names(database: Database, version: int) -> list[str]:
    """Return the names of all recipes: stored, of sources, or default."""
    offered = (r.name for one in sources_of(database, version).values() for r in one.known())
    found = dict.fromkeys([*_stored_names(database), *offered])
    if database.run("recipes/store/long_sections")[0][0]:  # some section is longer than a window
        found[LONG_SECTION] = None
    return list(found)


def find(
    database: Database,
    name: str | Recipe,
    version: int,
    source: str | None = None,  # its recipe counts if sources differ; default: the first source
    preset: Preset | None = None,
) -> Recipe:
    """Return a recipe unchanged, or find it by name, also the derived text recipe."""
    if isinstance(name, Recipe):
        return name
    _check_is_name(name)
    sources, of_corpus = sources_of(database, version), stored(database)
    first = next((one for one in sources.values() if not one.are_documents), None)
    meant = sources.get(source or "") or first
    own = meant.known(preset) if meant else []
    by_name = {r.name: r for r in [*_defaults(sources, preset), *own, *of_corpus]}
    if name in by_name:
        return by_name[name]
    if not sources or meant is None:
        raise RecipeError(f"no recipe {name!r}: {_NO_SOURCES}")
    if name == TEXTS:
        fitting = [r for r in of_corpus if not source or r.sources is None or source in r.sources]
        return meant.of_kind(fitting or meant.recipes(), "texts")[0]
    raise _unknown(name, [*by_name, TEXTS])


def first_source(database: Database, recipe: Recipe, version: int) -> str:
    """Return the first source that has a recipe of its own or by default."""
    sources = sources_of(database, version)
    if not sources:
        raise RecipeError(_NO_SOURCES)
    fitting = [s for s in sources if recipe.sources is None or s in recipe.sources]
    if not fitting:
        raise RecipeError(
            f"recipe {recipe.name!r} is limited to {listed(recipe.sources or ())}, and the "
            f"corpus has only {listed(sources)}"
        )
    fitting = [s for s in fitting if not sources[s].are_documents] or fitting
    own = [s for s in fitting if recipe in [*sources[s].known(), *sources[s].recipes("crate")]]
    return (own or fitting)[0]


def check_source(database: Database, source: str, version: int) -> None:
    """Refuse a name that is not a source of a version."""
    if source not in (sources := sources_of(database, version)):
        raise _unknown(source, sources, "source")


def _defaults(sources: Mapping[str, SourceDefaults], preset: Preset | None) -> list[Recipe]:
    """Return the own or default recipes of all sources, one for each name."""
    found = {r.name: r for source in sources.values() for r in source.known(preset)}
    found.setdefault(LONG_SECTION, long_section_recipe("context"))
    return list(found.values())


def _check_is_name(name: object) -> None:
    if not isinstance(name, str):
        raise RecipeError(f"recipe {shown(repr(name), 80)}: give a recipe, or the name of one")


def _unknown(name: str, known: Iterable[str], what: str = "recipe") -> RecipeError:
    known = list(dict.fromkeys(known))
    there = listed(known) or "none"
    return RecipeError(f"no {what} {name!r}{nearest(name, known)}; there are: {there}")
