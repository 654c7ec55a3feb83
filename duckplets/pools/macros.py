"""Store a table macro for each recipe, so that any DuckDB answers: ``FROM pools.RECIPE('faq')``.

    recipes, sources, labels ─facts→ statements by name ─differences→ the file

``pools.RECIPE`` has the anchors of a pool, ``left_out.RECIPE`` the others with reasons. These facts
alone determine both. A transaction that changes a fact writes the macros, and opening a corpus
compares them. So nobody can store another statement under the name of a recipe.
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
    """Write the macros that a transaction changes, before it ends."""
    before = database.run("pools/macros/state")
    yield
    if (after := database.run("pools/macros/state")) == before:
        return
    known, facts = database.kept.get("macros", (None, ()))
    if known != before:
        with closing(database.cursor()) as outside:  # it does not see this transaction
            facts = facts_of(outside)
    new = facts_of(database)
    database.kept["macros"] = after, new
    if new == facts or (wanted := _macros(new)) is None:
        return  # a definition is damaged: its removal will write all macros
    if (stored := _macros(facts)) is None:
        stored = dict.fromkeys(database.run("pools/macros/names"), "")
    for name in stored.keys() - wanted.keys():
        database.rows(_filled("drop", of_name=identifier(*name)))
    write(database, {name: text for name, text in wanted.items() if stored.get(name) != text})


def write(database: Database, macros: Macros | None = None) -> None:
    """Write macros, by default all macros of the corpus."""
    if macros is None:
        macros = _macros(facts_of(database)) or {}
    for (schema, name), text in macros.items():
        of_name = identifier(schema, name)
        comment = _COMMENTS[schema].format(shown(name, 80)) + _PARAMETERS
        database.rows(_filled("create", of_name=of_name, of_recipe=text))
        database.rows(bound(_filled("comment", of_name=of_name), {"text": comment}))


def check(database: Database) -> None:
    """Refuse a corpus whose macros differ from its recipes."""
    checked = database.checked
    if checked is None or checked.macros is None:
        return
    if (wanted := _macros(facts_of(database))) is not None:
        statement = query("pools/macros/printed")
        printed = {
            ("MACRO TABLE", *name): frozenset(database.rows(bound(statement, {"text": text}))[0])
            for name, text in wanted.items()
        }
        catalog.check_macros(str(database.path), checked.macros, printed)
    checked.macros = None


def facts_of(database: Database) -> Facts:
    """Return the facts that determine the macros of a corpus."""
    return tuple(database.run("pools/macros/facts"))


@lru_cache(maxsize=8)
def _macros(facts: Facts) -> Macros | None:
    """Return the macros of some facts; None if a definition is damaged."""
    rows = defaultdict[str, list[tuple[Any, ...]]](list)
    for kind, *row in facts:
        rows[kind].append(tuple(row))
    pools = defaultdict[str, dict[Recipe, list[str]]](dict)
    documents = {name for _, name, _ in rows["documents"]}
    try:
        stored = [(*row, None, False, row[0] in documents) for row in rows["source"]]
        sources = recipe_store.offered(stored, None)
        for source, offers in sources.items():
            for recipe in offers.recipes():
                pools[recipe.name].setdefault(recipe.of_pool(), []).append(source)
        for recipe in recipe_store.parsed([row[:2] for row in rows["recipe"]], None):
            pools[recipe.name] = {recipe.of_pool(): list(recipe.sources or {*sources} - documents)}
    except DuckpletsError:
        return None
    sources = {name: offers for name, offers in sources.items() if not offers.are_documents}
    macros: Macros = {}
    for name, recipes in pools.items():
        macros["pools", name] = _statement("pool", recipes, rows, sources.keys())
        if all(isinstance(recipe, TripletRecipe) for recipe in recipes):
            text = _statement("left_out", recipes, rows, sources.keys())
            macros["left_out", name] = _filled("left_out", of_recipe=f"(\n{text}\n)")
    return macros


def _statement(
    part: Part,
    recipes: Mapping[Recipe, list[str]],
    rows: Mapping[str, Sequence[tuple[Any, ...]]],
    sources: Collection[str],
) -> str:
    """Return the statement of a part of the recipes of one name, for their sources."""
    kinds = {name: kind for name, kind, _ in rows["labels"]}
    texts, documents = defaultdict[str, list[str]](list), {s: d for s, d, _ in rows["documents"]}
    where: dict[str, Any] = {"source": "", "split": "", "version": 0}
    where["relabelled"] = bool(rows["relabelled"])
    for recipe, names in recipes.items():
        by_documents = defaultdict[str | None, list[str]](list)
        for name in names:
            by_documents[documents.get(name)].append(name)
        for theirs, group in by_documents.items():
            if theirs is not None and getattr(recipe, "negatives_from", "") == "split":
                continue  # a run refuses it
            for labels, some in _by_labels(group, kinds).items():
                pool = compile_pool(recipe, **where, labels=labels, documents=theirs)
                values = _VALUES | ({} if theirs is None else {"documents": literal(theirs)})
                if isinstance(recipe, TripletRecipe) and (rule := recipe.consistent):
                    least = "NULL" if rule.min_score is None else repr(rule.min_score)
                    values |= {
                        "generation": _filled("newest", of_scorer=literal(rule.scorer)),
                        "within": str(rule.within),
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
    """Group sources by the effect of their labels on a pool; no labels may count as any kind."""
    graded = [name for name in names if kinds.get(name) == "graded"]
    others = [name for name in names if kinds.get(name) != "graded"]
    is_labelled = any(name in kinds for name in others)
    if graded and not is_labelled:
        return {"graded": names}
    groups: dict[Labels | None, list[str]] = {"binary" if is_labelled else None: others}
    return groups | ({"graded": graded} if graded else {})


def _filled(name: str, **texts: str) -> str:
    """Return a statement with names replaced by texts, without comments."""
    lines = (line for line in query(f"pools/macros/{name}").splitlines() if line[:2] != "--")
    return _PLACE.sub(lambda found: texts.get(found[0], found[0]), "\n".join(lines))
