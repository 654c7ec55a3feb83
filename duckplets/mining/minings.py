"""Minings: which negatives were mined for what, and whether they still fit.

A mining is one (recipe, source, split). It is made of the records as they were, of the recipe's
selectors and strategy, and of settings; where one of these has changed since, it is stale. What
took its place supersedes it, and its rows stay for the runs that were pinned to it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from duckplets.db.database import Database
from duckplets.errors import StateMismatchError
from duckplets.ingest.chunks import cleaning
from duckplets.recipes.bm25 import Bm25, bm25_from
from duckplets.recipes.files import to_dict
from duckplets.recipes.recipes import TextRecipe, TripletRecipe

_SELECTING = ("anchor", "positive", "negative", "strategy", "allow_same_anchor_positive")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mining:
    """One finished mining.

    Attributes:
        key: Its number.
        recipe: Name of the recipe.
        source: Name of the source.
        split: The split.
        method: ``bm25``, or ``given`` for scores from elsewhere.
        definition: What of the recipe it follows from.
        settings: Which candidates were kept, and how they are drawn unless the recipe says so.
        terms: How text became terms, as plain values; empty for given scores.
        content: Fingerprint of the records it was made from.
        corpus_version: Version it was made at.
        digest: Fingerprint of its candidates.
        finished_at: UTC.
        report: Counts and quantiles, as plain values.
    """

    key: int
    recipe: str
    source: str
    split: str
    method: str
    definition: dict[str, Any]
    settings: Bm25
    terms: dict[str, Any]
    content: str
    corpus_version: int
    digest: str
    finished_at: datetime
    report: dict[str, Any]


def found(
    database: Database,
    recipe: str | None = None,
    *,
    source: str | None = None,
    split: str | None = None,
) -> list[Mining]:
    """Return the minings that new runs would use, stale ones included, by recipe and pair."""
    parameters = {"recipe": recipe, "source": source, "split": split}
    return [_mining(row) for row in database.run("mining/minings/current", parameters)]


def by_key(database: Database, key: int) -> Mining:
    """Return a finished mining, superseded or not.

    Raises:
        StateMismatchError: There is none of that number.
    """
    rows = database.run("mining/minings/by_key", {"mining": key})
    if not rows:
        raise StateMismatchError(
            f"the negatives this run draws from (mining {key}) are not in {database.path}; it is "
            f"another file, or they were deleted"
        )
    return _mining(rows[0])


def current(
    database: Database,
    recipe: TripletRecipe,
    *,
    source: str,
    split: str,
    version: int,
    allow_stale: bool = False,
) -> Mining:
    """Return the mining that a new run of a recipe draws from.

    Raises:
        StateMismatchError: Nothing was mined, or it is stale and ``allow_stale`` is not given.
    """
    minings = found(database, recipe.name, source=source, split=split)
    what = f"recipe {recipe.name!r}, source {source!r}, split {split!r}"
    way = f"call corpus.mine(), or run: duckplets mine {database.path}"
    if not minings:
        raise StateMismatchError(f"{what}: no negatives have been mined yet; {way}")
    mining = minings[-1]
    reason = stale(database, mining, recipe, version=version)
    if reason and not allow_stale:
        raise StateMismatchError(
            f"{what}: the mined negatives are stale, {reason}; {way} (allow_stale=True draws from "
            f"them all the same)"
        )
    return mining


def key_of(
    database: Database, recipe: TripletRecipe | TextRecipe, *, source: str, split: str
) -> int:
    """Return the number of the mining whose dropped anchors a recipe's pool leaves out, or 0."""
    if not isinstance(recipe, TripletRecipe) or not recipe.mined:
        return 0
    minings = found(database, recipe.name, source=source, split=split)
    return minings[-1].key if minings else 0


def stale(database: Database, mining: Mining, recipe: TripletRecipe | None, *, version: int) -> str:
    """Return why a mining does not fit a version and a recipe any more, or nothing.

    Without a recipe, which the corpus need not know, only the records are looked at.
    """
    if mining.content != content_of(database, mining.source, mining.split, version):
        return (
            f"records have changed, or how they are cleaned, since corpus version "
            f"{mining.corpus_version}"
        )
    if recipe is None:
        return ""
    if mining.definition != definition_of(recipe):
        differ = [n for n in _SELECTING if mining.definition.get(n) != definition_of(recipe).get(n)]
        return f"the recipe has changed: {', '.join(differ)}"
    if isinstance(recipe.by, Bm25) and mining.method == "bm25":
        asked, had = _mined_by(recipe.by).to_dict(), _mined_by(mining.settings).to_dict()
        if asked != had:
            return (
                f"they were mined with {had or 'the defaults'}, the recipe says {asked or 'those'}"
            )
    return ""


def content_of(database: Database, source: str, split: str, version: int) -> str:
    """Return a fingerprint of the texts of a source and split of a version."""
    parameters = {"source": source, "split": split, "version": version}
    records, contents, places = database.run("mining/minings/content", parameters)[0]
    cleaned_by = cleaning(database)
    by = f":{cleaned_by}" if cleaned_by else ""
    return f"{int(records)}:{int(contents):x}:{int(places):x}{by}"


def definition_of(recipe: TripletRecipe) -> dict[str, Any]:
    """Return what of a recipe decides who may be a negative of whom."""
    parts = to_dict(recipe)
    return {name: parts[name] for name in _SELECTING}


def _mined_by(settings: Bm25) -> Bm25:
    """Return the settings with those that act only when drawing at their defaults."""
    return replace(settings, sampling="rotate", rotation=None)


def _mining(row: tuple[Any, ...]) -> Mining:
    (key, recipe, source, split, method, definition, settings, *others) = row
    content, version, digest, finished, report = others
    plain = json.loads(settings)
    return Mining(
        key=int(key),
        recipe=recipe,
        source=source,
        split=split,
        method=method,
        definition=json.loads(definition),
        settings=bm25_from(plain.get("bm25", {})),
        terms=plain.get("terms", {}),
        content=content,
        corpus_version=int(version),
        digest=digest or "",
        finished_at=finished,
        report=json.loads(report) if report else {},
    )
