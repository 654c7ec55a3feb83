"""Write the card of a data set: its contents, its origin, and the settings to make it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from duckplets.base.markdown import code, fenced, plain, table
from duckplets.base.sanitize import counted, tallied
from duckplets.db.database import Database, engine_version
from duckplets.db.writes import CorpusFile
from duckplets.mining.policy import negatives as policies
from duckplets.mining.store import Minings
from duckplets.order.permute import ORDER_VERSION
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.files import to_dict
from duckplets.recipes.recipes import TextRecipe, TripletRecipe
from duckplets.runs.settings import plain_of

if TYPE_CHECKING:
    from duckplets.export import ExportReport
    from duckplets.runs.sampler import Sampler

_FRONT = ("---", "tags:", "- duckplets", "- sentence-transformers", "---")  # for the hub


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of a data set and their origin."""

    kind: str  # of its rows, in words
    split: str
    rows: int
    version: int  # of the corpus
    recipes: Mapping[str, Sequence[Any]]  # by source
    made: dict[str, Any]  # the arguments, or the settings of the run, as JSON values
    counts: Sequence[Mapping[str, Any]]  # of candidates by policy, or of samples by source
    left_out: Mapping[str, int] = field(default_factory=dict)  # anchors by reason
    notes: str = ""  # the description of a run


def exported_from(
    corpus: CorpusFile, report: ExportReport, arguments: Mapping[str, Any]
) -> Contents:
    """Return the contents of an export of negatives."""
    database, split, recipe = corpus.database, arguments["split"], arguments.get("recipe")
    if recipe is None or isinstance(recipe, str):
        source = arguments.get("source")
        recipe = recipe_store.find(database, report.recipe, corpus.version, source)
    minings = Minings(database)
    recipes = {source: [minings.as_drawn(recipe, source, split)] for source in report.sources}
    made = {name: value for name, value in arguments.items() if name not in ("recipe", "progress")}
    counts: list[dict[str, Any]] = []
    if report.negatives and isinstance(recipe, TripletRecipe):
        found = minings.drawn_by(recipe, split=split)
        guards = {(mining.source, mining.scorer): mining.counts for mining in found}
        negatives = arguments.get("negatives")
        rows = policies(corpus, negatives=negatives, recipe=recipe, split=split).to_pylist()
        counts = [
            {key: n for key, n in row.items() if not key.startswith(("positives", "within"))}
            | guards[row["source"], row["scorer"]]
            for row in rows
            if row["source"] in recipes
        ]
    return Contents(
        kind="mined negatives" if counts else "pairs",
        split=split,
        rows=report.rows,
        version=corpus.version,
        recipes=recipes,
        made=made | {"recipe": report.recipe},
        counts=counts,
        left_out=report.left_out,
    )


def drawn_from(sampler: Sampler, start: int, rows: int) -> Contents:
    """Return the contents of a run from ``start`` to its current position."""
    newest = sampler.settings.versions[-1]
    made = {"positions": [start, sampler.position], "order_version": ORDER_VERSION}
    metrics: dict[str, dict[str, Any]] = {}
    for name, value in sampler.metrics().items():
        source, _, metric = name.removeprefix("data/").rpartition("/")
        if name.startswith("data/"):
            metrics.setdefault(source, {"source": source})[metric] = value
    return Contents(
        kind=sampler.settings.kind,
        split=newest.split,
        rows=rows,
        version=newest.corpus_version,
        recipes=newest.recipes,
        made=made | plain_of(sampler.settings),
        counts=list(metrics.values()),
        notes=sampler.describe(),
    )


def card(corpus: CorpusFile, title: str, contents: Contents) -> str:
    """Return the text of a card, with its metadata in front."""
    database, sources = corpus.database, sorted(contents.recipes)
    where = {"sources": sources, "version": contents.version}
    licences = database.table("export/card/licences", where).to_pylist()
    personal = database.table("export/card/personal_data", where).to_pylist()
    pools = _pools(database, contents)
    seen = {row["source"] for row in personal}
    unseen = [source for source in sources if source not in seen]
    unlicensed = any(row["licence"] is None for row in licences)
    lines = [
        *(*_FRONT, "", f"# {plain(title)}", ""),
        f"{counted(contents.rows, 'row')} of {contents.kind}, split {contents.split}, made by "
        f"duckplets {version_of('duckplets')} with DuckDB {engine_version()} from version "
        f"{contents.version} of a corpus.",
        *_section("Counts of guards and cuts", table(contents.counts)),
        *([f"\nExcluded anchors: {plain(tallied(contents.left_out))}."] * bool(contents.left_out)),
        *_section("Licences", table(licences)),
        *(["\nNULL: the source has no column `license`, or it was not stored."] * unlicensed),
        *_section("Personal data", table(personal)),
        *([f"\nNo gate searched for it in {', '.join(map(code, unseen))}."] * bool(unseen)),
        *_section("Settings", fenced(_json(contents.made), "json")),
        *(["", *fenced(contents.notes, "text")] if contents.notes else []),
        "\n## Recipes",
    ]
    for name in dict.fromkeys(pool.recipe.name for pool in pools):
        first, *others = (pool for pool in pools if pool.recipe.name == name)
        also = [code(pool.parameters["source"]) for pool in others]
        lines += [
            f"\n### {code(name)}\n",
            *fenced(_json(to_dict(first.recipe)), "json"),
            f"\nIts pool in source {code(first.parameters['source'])}"
            + (f"; also in {', '.join(also)}:" if also else ":"),
            "",
            *fenced(first.runnable(), "sql"),
        ]
    return "\n".join(lines) + "\n"


def _pools(database: Database, contents: Contents) -> list[CompiledPool]:
    labels, minings = labels_of(database, contents.version), Minings(database)
    where: dict[str, Any] = {"split": contents.split, "version": contents.version}
    return [
        compile_pool(
            recipe,
            ranked=minings.ranks_of(recipe, source=source, **where, allow_stale=True),
            source=source,
            **where,
            **labels.of(source),
        )
        for source, recipes in sorted(contents.recipes.items())
        for recipe in recipes
        if isinstance(recipe, TripletRecipe | TextRecipe)
    ]


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", *([""] if lines else []), *lines]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)
