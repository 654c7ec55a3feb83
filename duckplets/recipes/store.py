"""Store recipes with a corpus, and find those that a sampler draws by.

Those given to the sampler; else those stored; else those that a source brought; else its defaults,
with the long-section recipe where it has sections longer than a window. Text samples take text
recipes by the same rule, or one that is derived from the triplet recipes of a source.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from duckplets.base.plain import StoredJson
from duckplets.base.sanitize import listed
from duckplets.db.database import Database
from duckplets.errors import RecipeError, nearest
from duckplets.recipes.defaults import (
    TEXTS,
    Preset,
    default_recipes,
    derived_text_recipe,
    long_section_recipe,
)
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.recipes.selectors import Role

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


@dataclass(frozen=True, slots=True)
class SourceDefaults:
    """What a source offers where nobody says what is drawn from it.

    Attributes:
        defaults: What its rows are like; see ``default_recipes``.
        own: Recipes that it brought, which take the place of defaults.
        weight: Its weight in the mixture that the corpus declares, or None.
        controlled: Whether index controls were set for it.
    """

    defaults: str
    own: tuple[Recipe, ...] = ()
    weight: float | None = None
    controlled: bool = False

    def recipes(self, preset: Preset | None = None) -> tuple[Recipe, ...]:
        """Return those that it brought, else the defaults, without the one of long sections."""
        return self.own or default_recipes(self.defaults, preset)

    def known(self, preset: Preset | None = None) -> list[Recipe]:
        """Return those that may be named: also what only a preset draws unasked."""
        drawn = {recipe.name: recipe for recipe in self.recipes(preset)}
        return [drawn.get(recipe.name, recipe) for recipe in self.recipes("crate")]

    def of_kind(self, recipes: Iterable[Recipe], kind: str) -> tuple[Recipe, ...]:
        """Return those that make a kind of sample: of texts, text recipes or else a derived one."""
        recipes = list(recipes)
        triplets = [r for r in recipes if isinstance(r, TripletRecipe)]
        texts = [r for r in recipes if isinstance(r, TextRecipe)]
        if kind != "texts":
            return tuple(triplets)
        if not texts and triplets:
            texts = [derived_text_recipe(triplets, titles=self.defaults != "documents")]
        return tuple(texts)


def sources_of(database: Database, version: int) -> dict[str, SourceDefaults]:
    """Return the sources of a version by name, with what each offers.

    Raises:
        DamagedFileError: A definition of a recipe is none.
    """
    found = {}
    rows = database.run("recipes/store/brought", {"version": version})
    for name, defaults, recipes, weight, controlled in rows:
        way = "Read the source again, or put back an earlier copy of the file."
        place = StoredJson(database.path, "sources", f"source {name!r}", way)
        definitions = place.read("recipes", recipes or "[]", [{"kind": str, "name": str}])
        with place.making("recipes"):
            own = tuple(map(from_dict, definitions))
            found[name] = SourceDefaults(defaults, own, weight, controlled)
    return found


def brought(source: object, name: str) -> str | None:
    """Return the recipes of a user's source, its attribute ``recipes``, as JSON; None without it.

    Raises:
        RecipeError: They are no recipes, or two have one name.
    """
    inner = getattr(source, "source", source)  # a custom source holds the user's own
    recipes = getattr(inner, "recipes", None)
    if recipes is None:
        return None
    where = f"source {name!r}: recipes"
    if not isinstance(recipes, list | tuple):
        raise RecipeError(f"{where}={recipes!r}: give a list of recipes")
    if wrong := [r for r in recipes if not isinstance(r, TripletRecipe | TextRecipe)]:
        raise RecipeError(
            f"{where}: {wrong[0]!r} is no recipe; give TripletRecipe(…) or TextRecipe(…)"
        )
    names = [recipe.name for recipe in recipes]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise RecipeError(f"{where}: two are named {twice[0]!r}; rename one of them")
    return json.dumps([to_dict(recipe) for recipe in recipes])


def add(database: Database, recipe: Recipe) -> bool:
    """Store a recipe under its name; returns whether it was not there yet.

    Raises:
        RecipeError: The name is another recipe's.
    """
    if database.run("recipes/store/named", {"name": recipe.name}):
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
        place = StoredJson(database.path, "recipes", f"recipe {name!r}", way)
        parts = place.read("definition", definition, {"kind": str, "name": str})
        with place.making("definition"):
            found.append(from_dict(parts))
    return found


def names(database: Database, version: int) -> list[str]:
    """Return the names of all recipes that may be asked for: stored, brought or default ones."""
    brought = (r.name for of in sources_of(database, version).values() for r in of.known())
    is_long = bool(database.run("recipes/store/long_sections")[0][0])
    own = [LONG_SECTION] if is_long else []
    return list(dict.fromkeys([*_names(database), *brought, *own]))


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
    preset: Preset | None = None,
    also: Sequence[Recipe] = (),
) -> list[SourceRecipes]:
    """Return the recipes of every source of a version, by name of the source.

    ``also`` may be named where they are not stored any more. Defaults are those of the preset.

    Raises:
        RecipeError: An unknown or repeated name, or none of the needed kind.
    """
    sources = sources_of(database, version)
    known = stored(database)
    chosen = [r for r in known if kind == "texts" or is_triplet(r)]
    if given:  # only then are the defaults needed, whose conditions take a while to parse
        chosen = _named(given, [*also, *known, *_all_brought(sources, preset)]) or chosen
    long_roles: dict[str, Role] = {}
    if not chosen and long_sections and kind != "texts" and _has_longer(database, max_tokens):
        where = {"split": split, "version": version, "max_tokens": max_tokens}
        long_roles = dict(database.run("recipes/store/long_roles", where))
    resolved, of_source = [], _by_source(chosen)
    for source, brought in sources.items():
        recipes: Sequence[Recipe] = of_source(source)
        extra: list[Recipe] = []
        if not chosen:
            if source in long_roles and not brought.own:
                extra = [long_section_recipe(long_roles[source])]
            recipes = [*brought.recipes(preset), *extra]
        optional = frozenset(r.name for r in extra)
        resolved.append(SourceRecipes(source, brought.of_kind(recipes, kind), optional))
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


def find(
    database: Database,
    name: str,
    version: int,
    source: str | None = None,
    preset: Preset | None = None,
) -> Recipe:
    """Return a recipe by name: a stored one, else one that sources bring, else the derived texts.

    Args:
        database: The corpus.
        name: Of the recipe.
        version: Of the corpus.
        source: Whose recipe is meant where sources differ; by default that of the first.
        preset: Whose defaults are meant.
    """
    sources = sources_of(database, version)
    of_corpus = stored(database)
    brought = sources.get(source or "") or next(iter(sources.values()), None)
    own = brought.known(preset) if brought else []
    known = [*_all_brought(sources, preset), *own, *of_corpus]
    by_name = {recipe.name: recipe for recipe in known}
    if name == TEXTS not in by_name and brought is not None:
        told = [r for r in of_corpus if not source or r.sources is None or source in r.sources]
        return brought.of_kind(told or brought.recipes(), "texts")[0]
    if name not in by_name:
        if not sources:
            raise RecipeError(f"no recipe {name!r}: {_NO_SOURCES}")
        is_long = bool(database.run("recipes/store/long_sections")[0][0])
        names = [r.name for r in known if is_long or r.name != LONG_SECTION]
        raise _unknown(name, [*names, TEXTS])
    return by_name[name]


def first_source(database: Database, recipe: Recipe, version: int) -> str:
    """Return the first source a recipe applies to: what is shown when none is named.

    Sources that bring the recipe, or have it by default, come before others.
    """
    sources = sources_of(database, version)
    if not sources:
        raise RecipeError(_NO_SOURCES)
    fitting = [s for s in sources if recipe.sources is None or s in recipe.sources]
    if not fitting:
        raise RecipeError(
            f"recipe {recipe.name!r} is limited to {listed(recipe.sources or ())}, and the "
            f"corpus has only {listed(sources)}"
        )
    own = [s for s in fitting if recipe in [*sources[s].known(), *sources[s].recipes("crate")]]
    return (own or fitting)[0]


def check_source(database: Database, source: str, version: int) -> None:
    """Refuse a name that is no source of a version."""
    sources = sources_of(database, version)
    if source not in sources:
        raise RecipeError(
            f"no source {source!r}{nearest(source, sources)}; there are: "
            f"{listed(sources) or 'none'}"
        )


def _all_brought(sources: Mapping[str, SourceDefaults], preset: Preset | None) -> list[Recipe]:
    """Return what all sources bring or have by default, of each name once."""
    found = {r.name: r for brought in sources.values() for r in brought.known(preset)}
    found.setdefault(LONG_SECTION, long_section_recipe("context"))
    return list(found.values())


def _by_source(recipes: Sequence[Recipe]) -> Callable[[str], list[Recipe]]:
    """Return what gives the recipes that apply to a source, in their order."""
    every = [(i, recipe) for i, recipe in enumerate(recipes) if recipe.sources is None]
    limited: dict[str, list[tuple[int, Recipe]]] = {}
    for i, recipe in enumerate(recipes):
        for source in recipe.sources or ():
            limited.setdefault(source, []).append((i, recipe))

    def of_source(source: str) -> list[Recipe]:
        found = sorted([*every, *limited.get(source, [])], key=lambda numbered: numbered[0])
        return [recipe for _, recipe in found]

    return of_source


def _has_longer(database: Database, max_tokens: int) -> bool:
    """Whether some section has more tokens; that is known without reading them all."""
    return bool(database.run("recipes/store/has_longer", {"max_tokens": max_tokens})[0][0])


def is_triplet(recipe: Recipe) -> bool:
    """Return whether a recipe makes triplets."""
    return isinstance(recipe, TripletRecipe)


def _unknown(name: str, names: Iterable[str]) -> RecipeError:
    names = list(dict.fromkeys(names))
    return RecipeError(
        f"no recipe {name!r}{nearest(name, names)}; there are: {listed(names) or 'none'}"
    )
