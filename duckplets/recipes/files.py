"""Turn recipes into plain dicts and back, and read TOML files of them.

A run file, or a file of recipes, has ``[[recipe]]`` tables with the fields of recipes::

    [[recipe]]
    name = "title_body"
    anchor = { role = "anchor" }
    positive = { role = "context" }
    negative = { role = "context", where = "meta['lang'] = 'en'" }
    strategy = { sql = "negative.meta['topic'] = anchor.meta['topic']" }  # or "other_record"
    by = { bm25 = { range_max = 8 } }            # or "bm25", or "random"; default: the sampler's
    weight = 0.7
    share = "anchors"                            # default: its share is its weight

    [[recipe]]
    name = "bodies"                              # a recipe of texts has a selector
    selector = { position = 1 }                  # role, position, any_section = true; or a list
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from duckplets.base.documents import read_document
from duckplets.base.settings import checked, from_plain, to_plain
from duckplets.errors import RecipeError, nearest
from duckplets.recipes.mined import Mined
from duckplets.recipes.recipes import Recipe, TextRecipe, TripletRecipe, check_names

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["from_dict", "load_recipes", "to_dict"]

_MADE = {"triplet": TripletRecipe, "text": TextRecipe}
_KEYS = ("recipe", "version", "run", "mixture", "negatives", "options")  # of a run file


def load_recipes(path: str | PathLike[str]) -> list[Recipe]:
    """Read the recipes of a TOML file, in its order.

    Raises:
        RecipeError: The file is missing, unreadable or wrong; the message names the file, the
            recipe and the key.
    """
    file = Path(path)
    content = read_document(file, "TOML", RecipeError)
    try:
        recipes = [from_dict(table) for table in _tables(content)]
        check_names(recipes)
    except RecipeError as error:
        raise RecipeError(f"{file}: {error}") from error
    return recipes


def to_dict(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as JSON or TOML values, without None."""
    kind = "triplet" if isinstance(recipe, TripletRecipe) else "text"
    plain = {"kind": kind, **to_plain(recipe)}
    by = getattr(recipe, "by", None)
    return plain | {"by": by.to_dict()} if isinstance(by, Mined) else plain


def from_dict(d: Mapping[str, Any]) -> Recipe:
    """Return a recipe from ``to_dict``, or from a table of a recipes file."""
    if not isinstance(d, Mapping):
        raise RecipeError(f"a recipe must be a table of keys and values, not {d!r}")
    what = f"recipe {d.get('name')!r}"
    usual = "text" if "selector" in d else "triplet"
    kind = checked("kind", d.get("kind", usual), Literal["triplet", "text"], RecipeError, what)
    values = {name: value for name, value in d.items() if name != "kind"}
    if isinstance(by := d.get("by"), Mapping):
        values["by"] = Mined.from_dict(by, what)
    made: type[Recipe] = _MADE[kind]
    return from_plain(made, values, RecipeError, what)


def _tables(content: Mapping[str, Any]) -> list[Any]:
    for key in content:
        if key in _MADE:
            raise RecipeError(f"[[{key}]] is now [[recipe]]; recipes of texts have a selector")
        if key not in _KEYS:
            raise RecipeError(f"unknown key {key!r}{nearest(key, _KEYS)}; write [[recipe]]")
    tables = content.get("recipe", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise RecipeError("recipe must be a list of tables: write [[recipe]], not [recipe]")
    return tables
