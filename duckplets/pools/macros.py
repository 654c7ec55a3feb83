"""Store a table macro for each recipe, so that any DuckDB answers: ``FROM pools.RECIPE('faq')``.

    recipes, sources, labels ─facts→ made: statements by name ─what differs→ the file

``pools.RECIPE`` has the anchors of a pool, ``left_out.RECIPE`` the others with reasons. Both follow
from these facts alone. A transaction that changes a fact writes the macros, too, and opening a
corpus compares them. So nobody can store another statement under the name of a recipe.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache, reduce
from typing import Any

from duckplets.base.sanitize import shown
from duckplets.db import catalog
from duckplets.db.database import Database
from duckplets.db.queries import bound, identifier, literal, query, with_parameters
from duckplets.errors import DuckpletsError
from duckplets.pools.compile import Labels, Part, compile_pool
from duckplets.recipes import store as recipe_store
from duckplets.recipes.recipes import Recipe, TripletRecipe

Facts = tuple[tuple[Any, ...], ...]
Macros = dict[tuple[str, str], str]  # statements by schema and name

_VALUES = {
    "source": "of_source",
    "split": "of_split",
    "version": "_internal.version_at(at_version)",
    "negatives": "at_least",
}
_COMMENTS = {
    "pools": "The pool of recipe {}, a row an anchor: record_key, record_id, anchors (keys of its "
    "chunks), anchor (text of the first)",
    "left_out": "The anchors of recipe {} that are in no pool, a row a chunk: record_id, anchor "
    "(its text), reason",
}
_PARAMETERS = (
    ". Parameters: of_source, of_split, at_version (NULL: the newest), at_least (negatives)"
)
_PLACE = re.compile(r"\bof_(?:name|recipe|others|scorer)\b")


@contextmanager
def following(database: Database) -> Iterator[None]:
    """Write the macros that follow from what a transaction changes, before it ends."""
    before = database.run("pools/macros/state")
    yield
    if (after := database.run("pools/macros/state")) == before:
        return
    known, facts = database.kept.get("macros", (None, ()))
    if known != before:
        with closing(database.cursor()) as outside:  # where nothing has changed yet
            facts = facts_of(outside)
    new = facts_of(database)
    database.kept["macros"] = after, new
    if new == facts or (made := _made(new)) is None:
        return  # where a definition is damaged: its removal writes all macros
    if (stood := _made(facts)) is None:
        names = database.run("pools/macros/names")
        stood = dict.fromkeys(names, "")
    for name in stood.keys() - made.keys():
        database.rows(_filled("drop", of_name=identifier(*name)))
    write(database, {name: text for name, text in made.items() if stood.get(name) != text})


def write(database: Database, macros: Macros | None = None) -> None:
    """Write macros, by default all that the corpus should have."""
    if macros is None:
        macros = _made(facts_of(database)) or {}
    for (schema, name), text in macros.items():
        of_name = identifier(schema, name)
        comment = _COMMENTS[schema].format(shown(name, 80)) + _PARAMETERS
        database.rows(_filled("create", of_name=of_name, of_recipe=text))
        database.rows(bound(_filled("comment", of_name=of_name), {"text": comment}))


def check(database: Database) -> None:
    """Refuse a corpus whose macros do not follow from its recipes."""
    checked = database.checked
    if checked is None or checked.macros is None:
        return
    if (made := _made(facts_of(database))) is not None:
        statement = query("pools/macros/printed")
        printed = {
            ("MACRO TABLE", *name): frozenset(database.rows(bound(statement, {"text": text}))[0])
            for name, text in made.items()
        }
        catalog.check_macros(str(database.path), checked.macros, printed)
    checked.macros = None


def facts_of(database: Database) -> Facts:
    """Return all that the macros of a corpus follow from."""
    return tuple(database.run("pools/macros/facts"))


@lru_cache(maxsize=8)
def _made(facts: Facts) -> Macros | None:
    """Return the macros that follow from facts; None where a definition is damaged."""
    rows = defaultdict[str, list[tuple[Any, ...]]](list)
    for what, *row in facts:
        rows[what].append(tuple(row))
    pools = defaultdict[str, dict[Recipe, list[str]]](dict)
    theirs = {documents for _, documents, _ in rows["documents"]}
    try:
        brought = [(*row, None, False, row[0] in theirs) for row in rows["source"]]
        sources = recipe_store.offered(brought, None)
        for source, offers in sources.items():
            for recipe in offers.recipes():
                pools[recipe.name].setdefault(recipe.of_pool(), []).append(source)
        for recipe in recipe_store.parsed([row[:2] for row in rows["recipe"]], None):
            pools[recipe.name] = {recipe.of_pool(): list(recipe.sources or {*sources} - theirs)}
    except DuckpletsError:
        return None
    sources = {name: of for name, of in sources.items() if not of.are_documents}
    made: Macros = {}
    for name, recipes in pools.items():
        parts: tuple[Part, ...] = ("pool", "left_out")
        for schema, part in zip(_COMMENTS, parts, strict=True):
            if part == "pool" or all(isinstance(of, TripletRecipe) for of in recipes):
                text = _statement(part, recipes, rows, sources.keys())
                if part == "left_out":
                    text = _filled(part, of_recipe=f"(\n{text}\n)")
                made[schema, name] = text
    return made


def _statement(
    part: Part,
    recipes: Mapping[Recipe, list[str]],
    rows: Mapping[str, Sequence[tuple[Any, ...]]],
    sources: Collection[str],
) -> str:
    """Return the statement of a part of the recipes of one name, for their sources."""
    kinds = {name: kind for name, kind, _ in rows["labels"]}
    texts, documents = defaultdict[str, list[str]](list), {s: d for s, d, _ in rows["documents"]}
    how: dict[str, Any] = {"source": "", "split": "", "version": 0}
    how["relabelled"] = bool(rows["relabelled"])
    for recipe, names in recipes.items():
        by_documents = defaultdict[str | None, list[str]](list)
        for name in names:
            by_documents[documents.get(name)].append(name)
        for of, alike in by_documents.items():
            if of is not None and getattr(recipe, "negatives_from", "") == "split":
                continue  # refused where it is opened
            for labels, some in _by_labels(alike, kinds).items():
                pool = compile_pool(recipe, **how, labels=labels, documents=of)
                values = _VALUES | ({} if of is None else {"documents": literal(of)})
                if isinstance(recipe, TripletRecipe) and (asked := recipe.consistent):
                    newest = _filled("newest", of_scorer=literal(asked.scorer))
                    least = "NULL" if asked.min_score is None else repr(asked.min_score)
                    values |= {
                        "generation": newest,
                        "within": str(asked.within),
                        "min_score": least,
                    }
                texts[with_parameters(pool.sql(part), values)] += some
    statements = [
        text
        if {*some}.issuperset(sources)
        else bound(_filled("of_some", of_recipe=f"(\n{text}\n)"), {"sources": sorted(some)})
        for text, some in texts.items()
    ]
    return reduce(lambda one, other: _filled("either", of_recipe=one, of_others=other), statements)


def _by_labels(names: list[str], kinds: Mapping[str, Labels]) -> dict[Labels | None, list[str]]:
    """Return sources by how their labels affect a pool; no labels may count as any kind."""
    graded = [name for name in names if kinds.get(name) == "graded"]
    others = [name for name in names if kinds.get(name) != "graded"]
    is_labelled = any(name in kinds for name in others)
    if graded and not is_labelled:
        return {"graded": names}
    found: dict[Labels | None, list[str]] = {"binary" if is_labelled else None: others}
    return found | ({"graded": graded} if graded else {})


def _filled(name: str, **texts: str) -> str:
    """Return a statement with texts in the places of names, without comments."""
    lines = (line for line in query(f"pools/macros/{name}").splitlines() if line[:2] != "--")
    return _PLACE.sub(lambda found: texts.get(found[0], found[0]), "\n".join(lines))
