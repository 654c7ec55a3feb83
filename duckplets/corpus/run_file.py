"""Read and write runs as files: ``run.toml``, with the keys of ``Corpus.sampler``.

run.toml ─┐
--set ────┼→ tables of plain values ─made→ arguments of Corpus.sampler ─written→ run.toml
options ──┘

``keys`` is the one table of names, kinds and meanings: errors, help and written files follow it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any

from duckplets.base.docstrings import documented_arguments
from duckplets.base.documents import read_document
from duckplets.base.sanitize import harmless, listed
from duckplets.base.settings import from_plain, to_plain, value_shown
from duckplets.corpus.runs import sampler
from duckplets.errors import DuckpletsError, MixtureError, SamplerError, nearest
from duckplets.order.mixture import Mixture
from duckplets.recipes.files import from_dict, to_dict
from duckplets.recipes.mined import Negatives
from duckplets.recipes.recipes import Recipe
from duckplets.runs.request import Options, RunRequest, options_of

Tables = dict[str, dict[str, Any]]

_VERSION = 1
_CLASSES: dict[str, Any] = {
    "run": RunRequest,
    "mixture": Mixture,
    "negatives": Negatives,
    "options": Options,
}
_SHORT = ("mixture", "negatives")  # tables that [run] may hold as one value
_OLD = {"apart": "in_batch_margin", "pairs": "kind", "vectors": "missing_vectors"}
_WIDTH = 100


@dataclass(frozen=True)
class Key:
    """A key of a run: its table, its meaning and its default."""

    table: str
    name: str
    default: Any
    meaning: str


@cache
def keys() -> dict[str, Key]:
    """Return all keys of a run by name; no name is in two tables."""
    found = dict[str, Key]()
    for table, made in _CLASSES.items():
        texts = documented_arguments(sampler if table == "run" else made)
        defaults = {
            field.name: None if field.default is MISSING else field.default
            for field in fields(made)
        }
        for name, (_, text) in texts.items():
            if name not in ("mixture", "negatives", "options", "lengths", "values"):
                own = "run" if name == "preset" else table
                found[name] = Key(own, name, defaults[name], text.replace("``", ""))
    return found


def load_run(path: str | Path) -> dict[str, Any]:
    """Read the arguments of ``Corpus.sampler`` from a TOML file.

        version = 1

        [run]
        kind = "triplets"
        batch_size = 64

        [mixture]
        weights = { faq = 0.7, manual = 0.3 }

        [negatives]
        num = 4
        relative_margin = 0.05

        [options]
        remainder = "drop"

        [[recipe]]
        name = "same_topic"
        anchor = { role = "anchor" }
        positive = { role = "context" }
        negative = { role = "context" }
        strategy = { sql = "negative.meta['topic'] = anchor.meta['topic']" }

    ``duckplets forecast CORPUS --write run.toml`` writes a file with every key and its meaning.

    Args:
        path: The file.

    Returns:
        Arguments of ``Corpus.sampler``: ``corpus.sampler(**dp.load_run("run.toml"))``.

    Raises:
        SamplerError: The file cannot be read, or a table, key or value is wrong; names the key.
        MixtureError, RecipeError: As of ``Mixture`` and of recipes.
    """
    tables = read_tables(path)
    with _naming(path):
        return made(tables)


def read_tables(path: str | Path) -> Tables:
    """Return the checked tables of a run file."""
    with _naming(path):
        return _tables(read_document(Path(path), "TOML", SamplerError))


@contextmanager
def _naming(path: str | Path, only: str | None = None) -> Iterator[None]:
    """Let errors begin with the path of the file; if ``only`` is given, pass over others."""
    try:
        yield
    except DuckpletsError as error:
        if only in (None, str(error)):
            is_named = str(error).startswith(f"{path}: ")
            raise error if is_named else type(error)(f"{path}: {error}") from None


def no_tables() -> Tables:
    """Return the tables of a run without any setting."""
    return {name: {} for name in _CLASSES}


def _tables(content: Mapping[str, Any]) -> Tables:
    tables = no_tables()
    for name, value in content.items():
        if name == "version":
            if (value is not _VERSION and value != _VERSION) or isinstance(value, bool):
                raise SamplerError(
                    f"version = {value_shown(value)}: this duckplets reads version = {_VERSION}"
                )
        elif name == "recipe":
            if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
                raise SamplerError("recipe: write a list of tables, [[recipe]]")
            tables["recipe"] = {"tables": value}
        elif name not in (known := [*_CLASSES, "recipe"]):
            raise SamplerError(f"[{name}]: no such table{nearest(name, known) or _listed(known)}")
        elif not isinstance(value, dict):
            raise SamplerError(f"{name} = {value_shown(value)}: write a table, [{name}]")
        else:
            tables[name] = dict(value)
    for name in _CLASSES:
        for key in tables[name]:
            if not (name == "run" and key in _SHORT):
                key_of(key, name)
    for name in {*_SHORT} & tables["run"].keys():
        if tables[name]:
            raise SamplerError(f"{name} in [run] and the table [{name}]: give one of them")
        put(tables, name, tables["run"].pop(name))
    return tables


def key_of(name: str, table: str | None = None) -> Key:
    """Return a key; refuse one that is unknown, or belongs to another table."""
    found = keys().get(name)
    if found is not None and table in (None, found.table):
        return found
    where = f"[{table}] " if table else ""
    if found is not None:
        raise SamplerError(f"{where}{name}: it is a key of [{found.table}]; write it there")
    if other := keys().get(_OLD.get(name, "")):
        raise SamplerError(f"{where}{name}: give {other.name} of [{other.table}] instead")
    names = [key.name for key in keys().values() if table in (None, key.table)]
    close = nearest(name, names) or nearest(name, keys())
    raise SamplerError(f"{where}{value_shown(name)}: no such key{close or _listed(names)}")


def _listed(known: Iterable[str]) -> str:
    return f"; there are {listed(known, 10)}"


def put(tables: Tables, name: str, value: Any) -> None:
    """Put the value of a table or of a key in its place, over the former one."""
    if name in _SHORT:
        if isinstance(value, str) and name == "mixture" and Path(value).suffix:
            tables["mixture"] = Mixture.from_toml(value).to_dict()
        elif isinstance(value, Mapping) and (name == "negatives" or "weights" in value):
            tables[name] = dict(value)
        elif name == "mixture":
            tables[name] = {"weights": value}
        else:
            tables[name]["num"] = value
        return
    tables[key_of(name).table][name] = value


def with_sets(tables: Tables, given: Iterable[str]) -> dict[str, Any]:
    """Put ``KEY=VALUE`` texts into tables; return settings of a resumed run, which are no keys."""
    others = dict[str, Any]()
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise SamplerError(f"--set {text}: give KEY=VALUE, such as remainder=drop")
        try:
            read = tomllib.loads(f"value = {value}")["value"]
        except (tomllib.TOMLDecodeError, KeyError):
            read = value
        table, _, inner = name.rpartition(".")
        if name in ("allow_drift", "version", "tag"):
            if isinstance(read, str):
                others[name] = read.split(",") if name == "allow_drift" else read
            else:
                others[name] = value if name == "tag" else read
        elif table:
            key_of(inner, table)
            tables[table][inner] = read
        else:
            put(tables, name, read)
    return others


def opened(tables: Tables, path: Path | None, *, is_partial: bool = False) -> dict[str, Any]:
    """Return the arguments of tables; an error of the file alone begins with its path."""
    try:
        return made(tables, is_partial=is_partial)
    except DuckpletsError as error:
        if path is not None:
            with _naming(path, str(error)):
                made(read_tables(path), is_partial=is_partial)
        raise


def made(tables: Tables, *, is_partial: bool = False) -> dict[str, Any]:
    """Return the arguments that tables describe; ``is_partial``: changes of a saved run."""
    found = dict(tables["run"])
    if "preset" in found:
        tables = {**tables, "options": {**tables["options"], "preset": found.pop("preset")}}
    if tables["mixture"]:
        found["mixture"] = from_plain(Mixture, tables["mixture"], MixtureError, "mixture")
    if tables["negatives"]:
        given = tables["negatives"]
        found["negatives"] = (
            given if is_partial else from_plain(Negatives, given, SamplerError, "negatives")
        )
    if tables["options"]:
        found["options"] = options_of(tables["options"])
    if own := tables.get("recipe", {}).get("tables"):
        found["recipes"] = [*found.get("recipes", ()), *map(from_dict, own)]
    checked = {name: value for name, value in found.items() if name != "negatives"}
    RunRequest(**checked)
    return found


def written(arguments: Mapping[str, Any]) -> str:
    """Return a run file with every key, its value and its meaning."""
    request = RunRequest(**arguments)
    return "\n".join(_lines(request)) + "\n"


def brief(arguments: Mapping[str, Any], comments: Iterable[str]) -> str:
    """Return a run file with the given keys alone, under comments."""
    recipes, tables = arguments.get("recipes", ()), no_tables()
    tables["run"] = {n: to_plain(v) for n, v in arguments.items() if n not in (*tables, "recipes")}
    if named := [recipe for recipe in recipes if isinstance(recipe, str)]:
        tables["run"]["recipes"] = named
    tables |= {n: to_plain(v, defaults=False) for n, v in arguments.items() if n in tables}
    lines = [*(f"# {comment}" for comment in comments), f"version = {_VERSION}"]
    for name in (name for name, values in tables.items() if values):
        lines += ["", f"[{name}]", *(f"{key} = {_toml(of)}" for key, of in tables[name].items())]
    for recipe in (of for of in recipes if not isinstance(of, str)):
        lines += ["", *recipe_lines(recipe)]
    return "\n".join(lines) + "\n"


def _lines(request: RunRequest) -> Iterator[str]:
    yield f"version = {_VERSION}"
    recipes = request.recipes or ()
    own = [recipe for recipe in recipes if not isinstance(recipe, str)]
    for table in _CLASSES:
        of: Any = request if table == "run" else getattr(request, table)
        off = "# " if of is None else ""
        yield from ("", f"{off}[{table}]")
        for key in (key for key in keys().values() if key.table == table):
            yield from wrap(
                f"{key.name}: {key.meaning}",
                _WIDTH - 2,
                initial_indent="# ",
                subsequent_indent="#   ",
            )
            source = request.options if key.name == "preset" else of
            value = key.default if of is None else getattr(source, key.name)
            if key.name == "recipes":
                value = [name for name in recipes if isinstance(name, str)] or None
            unset = value is None or (value == () and key.name == "phases")
            yield f"# {key.name} =" if unset else f"{off}{key.name} = {_toml(to_plain(value))}"
    for recipe in own:
        yield from ("", *recipe_lines(recipe))


def recipe_lines(recipe: Recipe) -> Iterator[str]:
    """Yield a recipe as lines of a file."""
    yield "[[recipe]]"
    yield from (
        f"{name} = {_toml(value)}" for name, value in to_dict(recipe).items() if name != "kind"
    )


def _toml(value: Any) -> str:
    """Return a plain value in TOML; strings are written as in JSON."""
    if isinstance(value, Mapping):
        names = {n: n if n.isidentifier() and n.isascii() else _toml(n) for n in value}
        pairs = (f"{names[n]} = {_toml(v)}" for n, v in value.items() if v is not None)
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    text = json.dumps(value, ensure_ascii=False)
    # eight digits: TOML has no surrogate pairs
    return "".join(of if harmless(of) == of else f"\\U{ord(of):08x}" for of in text)
