"""Turn recipes into plain dicts and back, and read files of them, in TOML or JSON.

A file holds ``[[triplet]]`` and ``[[text]]`` tables whose keys are the fields of the recipes::

    [[triplet]]
    name = "title_body"
    anchor = "role:anchor"                       # or a table, as below
    positive = { role = "context" }
    negative = { role = "context", where = "meta['lang'] = 'en'" }
    strategy = { sql = "negative.meta['topic'] = anchor.meta['topic']" }  # or "other_record"
    by = { bm25 = { top_k = 16 } }               # or "bm25", or "random"; else the sampler's
    weight = 0.7
    share = "anchors"                            # or left out: its share is its weight

    [[text]]
    name = "bodies"
    selector = { position = 1 }                  # role, position, any_section = true; or a list

JSON may also be a list of what ``to_dict`` makes, each with its ``kind``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from duckplets.base.documents import DocumentLimits, Form, read_document
from duckplets.errors import RecipeError, nearest
from duckplets.recipes.bm25 import Bm25, bm25_from
from duckplets.recipes.recipes import SqlStrategy, TextRecipe, TripletRecipe
from duckplets.recipes.selectors import ARGUMENTS, Selector, SelectorKind, check_choice

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["from_dict", "load_recipes", "to_dict"]

_KINDS = ("triplet", "text")


def load_recipes(
    path: str | PathLike[str], *, limits: DocumentLimits | None = None
) -> list[TripletRecipe | TextRecipe]:
    """Read the recipes of a file: JSON if it ends in ``.json``, else TOML.

    Triplet recipes come first, then text recipes, each in the order of the file (a JSON list
    keeps its own order).

    Args:
        path: Of the file.
        limits: How large it may be; by default as large as a file of recipes ever is.

    Raises:
        RecipeError: The file is missing, unreadable or wrong; the message names the file, the
            recipe and the key.
    """
    file = Path(path)
    form: Form = "JSON" if file.suffix.lower() == ".json" else "TOML"
    content = read_document(file, form, RecipeError, limits)
    try:
        recipes = [from_dict(table) for table in _tables(content)]
        _check_names(recipes)
    except RecipeError as error:
        raise RecipeError(f"{file}: {error}") from error
    return recipes


def to_dict(recipe: TripletRecipe | TextRecipe) -> dict[str, Any]:
    """Return a recipe as plain values fit for JSON and TOML; what is None is left out."""
    plain: dict[str, Any] = {"kind": "triplet" if isinstance(recipe, TripletRecipe) else "text"}
    for field in fields(recipe):
        value = getattr(recipe, field.name)
        if isinstance(value, Selector):
            plain[field.name] = _selector_to_dict(value)
        elif isinstance(value, SqlStrategy):
            plain[field.name] = {"sql": value.condition}
        elif isinstance(value, Bm25):
            plain[field.name] = {"bm25": value.to_dict()}
        elif field.name == "selector":
            plain[field.name] = [_selector_to_dict(selector) for selector in value]
        elif value is not None:
            plain[field.name] = list(value) if isinstance(value, tuple) else value
    return plain


def from_dict(d: Mapping[str, Any]) -> TripletRecipe | TextRecipe:
    """Return the recipe of a dict: what ``to_dict`` made, or a table of a recipes file.

    Raises:
        RecipeError: A key is unknown or missing, or a value is wrong; the message names both.
    """
    if not isinstance(d, Mapping):
        raise RecipeError(f"a recipe must be a table of keys and values, not {d!r}")
    what = f"recipe {d.get('name')!r}"
    check_choice(f"{what}: kind", d.get("kind"), ("triplet", "text"))
    made = TripletRecipe if d["kind"] == "triplet" else TextRecipe
    known = {field.name: field.default is MISSING for field in fields(made)}
    _check_keys(what, d, ["kind", *known])
    for name, required in known.items():
        if required and name not in d:
            raise RecipeError(f"{what}: {name} is missing")
    values = {}
    for key, value in d.items():
        try:
            values[key] = _from_plain(key, value)
        except RecipeError as error:
            raise RecipeError(f"{what}: {key}: {error}") from error
    del values["kind"]
    return made(**values)


def _from_plain(key: str, value: Any) -> Any:
    if key == "selector" and isinstance(value, list):
        return tuple(map(_selector_from, value))
    if key in ("anchor", "positive", "negative", "selector"):
        return _selector_from(value)
    if key == "strategy" and isinstance(value, Mapping):
        _check_keys("table", value, ["sql"])
        return SqlStrategy(value.get("sql", ""))
    if key == "by" and isinstance(value, Mapping):
        _check_keys("table", value, ["bm25"])
        settings = value.get("bm25")
        if not isinstance(settings, Mapping):
            raise RecipeError(f"write {{ bm25 = {{ top_k = 16 }} }} or 'bm25', not {value!r}")
        return bm25_from(settings)
    return value


def _selector_to_dict(selector: Selector) -> dict[str, Any]:
    argument = ARGUMENTS.get(selector.kind)
    plain: dict[str, Any] = {selector.kind: getattr(selector, argument) if argument else True}
    return plain if selector.where is None else {**plain, "where": selector.where}


def _selector_from(value: Any) -> Selector:
    """Read ``{role = "anchor", where = "…"}`` or, in short, ``"role:anchor"``."""
    if isinstance(value, str):
        kind, colon, text = value.partition(":")
        whole = text.removeprefix("-").isdecimal() and len(text) < 20
        value = {kind: (int(text) if whole else text) if colon else kind == "any_section"}
    if not isinstance(value, Mapping):
        raise RecipeError(f'write {{ role = "anchor" }} or "role:anchor", not {value!r}')
    _check_keys("selector", value, [*get_args(SelectorKind), "where"])
    kinds = [key for key in value if key != "where"]
    if len(kinds) != 1:
        raise RecipeError(f"one of {', '.join(get_args(SelectorKind))} is wanted, not {value!r}")
    kind = kinds[0]
    if kind == "any_section" and value[kind] is not True:
        raise RecipeError(f"any_section is true or left out, not {value[kind]!r}")
    argument = {ARGUMENTS[kind]: value[kind]} if kind in ARGUMENTS else {}
    return Selector(kind, where=value.get("where"), **argument)


def _check_keys(what: str, found: Mapping[str, Any], known: list[str]) -> None:
    for key in found:
        if key not in known:
            hint = nearest(str(key), known)
            raise RecipeError(f"{what}: unknown key {key!r}{hint}; keys: {', '.join(known)}")


def _tables(content: Any) -> list[Any]:
    """Return the tables of a file in order, each with its kind."""
    if isinstance(content, list):
        return content
    if not isinstance(content, dict):
        raise RecipeError(f"[[triplet]] and [[text]] tables are wanted, not {content!r}")
    tables = []
    for key in content:
        if key not in _KINDS:
            hint = nearest(key, _KINDS)
            raise RecipeError(f"unknown key {key!r}{hint}; tables: [[triplet]], [[text]]")
    for kind in _KINDS:
        entries = content.get(kind, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise RecipeError(f"{kind} must be a list of tables: write [[{kind}]], not [{kind}]")
        for entry in entries:
            if entry.get("kind", kind) != kind:
                raise RecipeError(f"kind {entry['kind']!r} in [[{kind}]]: leave it out")
            tables.append({"kind": kind, **entry})
    return tables


def _check_names(recipes: list[TripletRecipe | TextRecipe]) -> None:
    seen: set[str] = set()
    for recipe in recipes:
        if recipe.name in seen:
            raise RecipeError(f"recipe {recipe.name!r} is there twice; names must differ")
        seen.add(recipe.name)
