"""Recipes files: TOML, or the same tables as JSON.

A file holds ``[[triplet]]`` and ``[[text]]`` tables whose keys are the fields of the recipes::

    [[triplet]]
    name = "title_body"
    anchor = "role:anchor"                       # or a table, as below
    positive = { role = "context" }
    negative = { role = "context", where = "meta['lang'] = 'en'" }
    strategy = { sql = "negative.meta['topic'] = anchor.meta['topic']" }  # or "other_record"
    weight = 0.7

    [[text]]
    name = "bodies"
    selector = { position = 1 }                  # role, position, any_section = true, near_date

JSON may also be a list of what ``to_dict`` makes, each with its ``kind``.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.errors import RecipeError, nearest
from duckplets.recipes import TextRecipe, TripletRecipe, from_dict

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["load_recipes"]

_KINDS = ("triplet", "text")


def load_recipes(path: str | PathLike[str]) -> list[TripletRecipe | TextRecipe]:
    """Read the recipes of a file: JSON if it ends in ``.json``, else TOML.

    Triplet recipes come first, then text recipes, each in the order of the file (a JSON list
    keeps its own order).

    Raises:
        RecipeError: The file is missing, unreadable or wrong; the message names the file, the
            recipe and the key.
    """
    file = Path(path)
    try:
        recipes = [from_dict(table) for table in _tables(_parsed(file))]
        _check_names(recipes)
    except RecipeError as error:
        raise RecipeError(f"{file}: {error}") from error
    return recipes


def _parsed(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8-sig")  # editors on Windows write a mark in front
        return json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except FileNotFoundError as error:
        raise RecipeError("there is no such file") from error
    except OSError as error:
        raise RecipeError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"not UTF-8: byte {error.start}") from error
    except RecursionError as error:
        raise RecipeError("nested too deeply") from error
    except ValueError as error:  # both parsers' own errors, and numbers too long for Python
        raise RecipeError(f"not {_format(file)}: {error}") from error


def _format(file: Path) -> str:
    return "JSON" if file.suffix.lower() == ".json" else "TOML"


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
