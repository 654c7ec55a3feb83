"""Write minings into a corpus block by block, and read them by recipe, source and split.

A mining is one (recipe, source, split). It is made of the records as they were, of the recipe's
selectors and strategy, and of settings; where one of these has changed since, it is stale. What
took its place supersedes it, and its rows stay for the runs that were pinned to it.

Every block is written in one transaction, so a mining that was interrupted, killed even, goes on
where it was: the anchors that are there are those that were done. Only when it is finished does
it take the place of an earlier one.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from duckplets.base.documents import StoredJson
from duckplets.base.settings import from_plain, to_plain
from duckplets.db.database import Database
from duckplets.errors import DamagedFileError, RecipeError, StateMismatchError
from duckplets.ingest import records
from duckplets.ingest.chunks import content_of
from duckplets.ingest.splits import checked_split
from duckplets.mining.report import PairReport
from duckplets.pools.compile import CompiledPool, compile_pool
from duckplets.pools.read import labels_of
from duckplets.recipes import store as recipe_store
from duckplets.recipes.bm25 import Bm25
from duckplets.recipes.files import to_dict
from duckplets.recipes.recipes import Preset, TextRecipe, TripletRecipe, checked_preset

Recipe = recipe_store.Recipe

QUANTILES = ("0 %", "5 %", "25 %", "50 %", "75 %", "95 %", "100 %")
_SETTINGS = {"bm25?": dict, "terms?": dict}
_REPORT = {"counts?": {str: range(1 << 63)}, "seconds?": float}
_DRAWING = {  # what of a recipe does not decide who may be a negative of whom
    *("kind", "name", "by", "negatives_from", "when_short", "weight", "share", "instruction"),
    *("per", "sources"),
}


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
        terms: How text became terms, as plain values; empty for external scores.
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
    return [_mining(database, row) for row in database.run("mining/store/current", parameters)]


def mined_for(database: Database, split: str) -> set[tuple[str, str]]:
    """Return the recipes and sources that negatives were mined or given for in a split."""
    every = {"recipe": None, "source": None, "split": split}
    return {(row[1], row[2]) for row in database.run("mining/store/current", every)}


def as_drawn(recipe: Recipe, source: str, there: Collection[tuple[str, str]]) -> Recipe:
    """Return a recipe by ``bm25`` if it leaves that open and negatives were mined for it.

    Args:
        recipe: The recipe.
        source: Name of a source.
        there: What ``mined_for`` found in the split.
    """
    if not isinstance(recipe, TripletRecipe) or (recipe.name, source) not in there:
        return recipe
    return replace(recipe, by="bm25") if recipe.by is None and recipe.minable else recipe


def by_key(database: Database, key: int) -> Mining:
    """Return a finished mining, superseded or not.

    Raises:
        StateMismatchError: There is none of that number.
    """
    rows = database.run("mining/store/by_key", {"mining": key})
    if not rows:
        raise StateMismatchError(
            f"the negatives this run draws from (mining {key}) are not in {database.path}; it is "
            f"another file, or they were deleted"
        )
    return _mining(database, rows[0])


def current(
    database: Database,
    recipe: TripletRecipe,
    *,
    source: str,
    split: str,
    version: int,
    allow_stale: bool = False,
    instead: str = "",
) -> Mining:
    """Return the mining that a new run of a recipe draws from.

    ``instead`` is what else can be done about a stale one than to mine again, for the error.

    Raises:
        StateMismatchError: Nothing was mined, or it is stale and ``allow_stale`` is not given.
    """
    minings = found(database, recipe.name, source=source, split=split)
    what = f"recipe {recipe.name!r}, source {source!r}, split {split!r}"
    way = f"call corpus.mine({recipe.name!r}), or run: {mine_command(database, recipe.name)}"
    if not minings:
        raise StateMismatchError(f"{what}: no negatives have been mined yet; {way}")
    mining = minings[-1]
    reason = stale(database, mining, recipe, version=version)
    if reason and not allow_stale:
        raise StateMismatchError(f"{what}: the mined negatives are stale, {reason}; {way}{instead}")
    return mining


def mine_command(database: Database, recipe: str) -> str:
    """Return the command that mines the negatives of a recipe."""
    return shlex.join(["duckplets", "mine", str(database.path), recipe])


def key_of(
    database: Database, recipe: TripletRecipe | TextRecipe, *, source: str, split: str
) -> int:
    """Return the number of the mining whose dropped anchors a recipe's pool leaves out, or 0."""
    if not isinstance(recipe, TripletRecipe) or not recipe.mined:
        return 0
    minings = found(database, recipe.name, source=source, split=split)
    return minings[-1].key if minings else 0


def stale(database: Database, mining: Mining, recipe: TripletRecipe | None, *, version: int) -> str:
    """Return why a mining does not fit a version and a recipe any more, or an empty text.

    Without a recipe, which the corpus need not know, only the records are looked at.
    """
    if mining.content != content_of(database, mining.source, mining.split, version):
        return (
            f"records have changed, or how they are cleaned, since corpus version "
            f"{mining.corpus_version}"
        )
    if recipe is None:
        return ""
    was, now = mining.definition, definition_of(recipe)
    if differ := [name for name in now | was if was.get(name) != now.get(name)]:
        return f"the recipe has changed: {', '.join(differ)}"
    if isinstance(recipe.by, Bm25) and mining.method == "bm25":
        asked, had = (
            to_plain(_mined_by(by), defaults=False) for by in (recipe.by, mining.settings)
        )
        if asked != had:
            return (
                f"they were mined with {had or 'the defaults'}, the recipe says {asked or 'those'}"
            )
    return ""


def named_pool(
    database: Database,
    name: str,
    source: str | None,
    split: str,
    preset: Preset | None = None,
) -> CompiledPool:
    """Compile the pool that a sampler draws a stored or default recipe from; see ``Corpus.pool``.

    Args:
        database: The corpus.
        name: Of the recipe.
        source: Name of a source; by default the first that the recipe applies to.
        split: The split.
        preset: Whose defaults are meant.

    Raises:
        RecipeError, SplitError: There is no such recipe, source or split.
    """
    version = records.current_version(database)
    if source is not None:
        recipe_store.check_source(database, source, version)
    recipe = recipe_store.find(database, name, version, source, checked_preset(preset))
    if source is None:
        source = recipe_store.first_source(database, recipe, version)
    recipe = as_drawn(recipe, source, mined_for(database, checked_split(split)))
    mining = key_of(database, recipe, source=source, split=split)
    labels = labels_of(database, version).get(source)
    where: dict[str, Any] = {"source": source, "split": split, "version": version}
    return compile_pool(recipe, **where, mining=mining, labels=labels)


def definition_of(recipe: TripletRecipe) -> dict[str, Any]:
    """Return what of a recipe decides who may be a negative of whom."""
    return {name: value for name, value in to_dict(recipe).items() if name not in _DRAWING}


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a new mining is for and made with.

    Attributes:
        recipe: The recipe.
        source: Name of the source.
        split: The split.
        version: Corpus version.
        method: ``bm25`` or ``given``.
        settings: As plain values: ``bm25``, and ``terms`` where text was made into terms.
        anchors: Sections of anchors.
        searched: Documents that may be negatives.
    """

    recipe: TripletRecipe
    source: str
    split: str
    version: int
    method: str
    settings: dict[str, Any]
    anchors: int
    searched: int


class OpenMining:
    """A mining that is being written: begun or continued, block by block, finished.

    Args:
        database: The corpus, open for writing.
        target: What it is for.
        fresh: Begin anew, even if there is one that can be continued.

    Attributes:
        key: Its number.
        done: Anchors that an interrupted one had done.
        counts: Candidates by filter, so far.
        seconds: Time it took so far.
    """

    def __init__(self, database: Database, target: Target, *, fresh: bool = False) -> None:
        self._database, self._target = database, target
        self.done = 0
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        where = {"recipe": target.recipe.name, "source": target.source, "split": target.split}
        content = content_of(database, target.source, target.split, target.version)
        made_of = {
            "method": target.method,
            "definition": definition_of(target.recipe),
            "settings": target.settings,
            "content": content,
            "anchors": target.anchors,
        }
        for key, method, definition, settings, *others in database.run(
            "mining/store/unfinished", where
        ):
            found_content, anchors, report, done = others
            try:
                plain = _Plain(database, key, definition, settings, report)
                found = (method, plain.definition, plain.settings, found_content, anchors)
                if found == tuple(made_of.values()) and not fresh:
                    self.key, self.done = int(key), int(done)
                    self.counts.update(plain.report.get("counts", {}))
                    self.seconds = plain.report.get("seconds", 0.0)
                    return
            except DamagedFileError:
                pass  # it is begun anew
            self._forget(int(key))
        stored = made_of | {n: json.dumps(made_of[n]) for n in ("definition", "settings")}
        with database.transaction():
            rows = database.run("mining/store/begin", where | stored | {"version": target.version})
        self.key = int(rows[0][0])

    def append(self, anchors: pa.Table, negatives: pa.Table, counts: Mapping[str, int]) -> None:
        """Store the rows of a block: all of them, or none if interrupted.

        Args:
            anchors: The columns of ``mined_anchors`` but for the key, by anchor section.
            negatives: The columns of ``mined_negatives`` but for the key, by anchor and rank.
            counts: What became of the candidates of these anchors.
        """
        key = {"mining": self.key}
        with self._database.transaction():
            with self._database.registered(new_anchors=anchors, new_negatives=negatives):
                self._database.run("mining/store/append_anchors", key)
                self._database.run("mining/store/append_negatives", key)
            self.counts.update(counts)
            self._database.run("mining/store/note", key | {"report": json.dumps(self._report())})

    def finish(self) -> PairReport:
        """Put the mining in the place of the earlier one, and return its report."""
        key = {"mining": self.key}
        columns = self._database.table("mining/store/quantiles", key).to_pylist()[0]
        quantiles = {
            name: dict(zip(QUANTILES, values, strict=True)) if values else {}
            for name, values in columns.items()
        }
        numbers = [int(n) for n in self._database.run("mining/store/digest", key)[0]]
        digest = ":".join(f"{n:x}" for n in numbers)
        report = self._report() | {"candidates": numbers[0], "quantiles": quantiles}
        report["searched"] = self._target.searched
        searched_by = self._target.method == "bm25"
        report["unranked"] = self._database.run("mining/store/unranked", key)[0][0] * searched_by
        with self._database.transaction():
            self._database.run(
                "mining/store/finish", key | {"digest": digest, "report": json.dumps(report)}
            )
            self._database.run("mining/store/supersede", key)
        return PairReport(
            recipe=self._target.recipe.name,
            source=self._target.source,
            split=self._target.split,
            mining=self.key,
            anchors=self._target.anchors,
            outcomes=dict(self._database.run("mining/store/outcomes", key)),
            resumed=self.done,
            **report,
        )

    def _report(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "seconds": round(self.seconds, 3)}

    def _forget(self, key: int) -> None:
        with self._database.transaction():
            for statement in ("forget_anchors", "forget_negatives", "forget"):
                self._database.run(f"mining/store/{statement}", {"mining": key})


def _mined_by(settings: Bm25) -> Bm25:
    """Return the settings with those that act only when drawing at their defaults."""
    return replace(settings, sampling="rotate", rotation=None)


class _Plain:
    """What a mining stores as JSON.

    Raises:
        DamagedFileError: It is none, or of another shape.
    """

    def __init__(
        self, database: Database, key: int, definition: Any, settings: Any, report: Any
    ) -> None:
        way = (
            f"Mine it again: duckplets mine {database.path}; a run that draws from it needs an "
            f"earlier copy of the file"
        )
        self._place = StoredJson(database.path, "minings", f"mining {key}", way)
        self.definition: dict[str, Any] = self._place.read("definition", definition, dict)
        self.settings: dict[str, Any] = self._place.read("settings", settings, _SETTINGS)
        self.report: dict[str, Any] = {}
        if report is not None:
            self.report = self._place.read("report", report, _REPORT)

    def bm25(self) -> Bm25:
        """Return which candidates were kept."""
        with self._place.making("settings"):
            return from_plain(Bm25, self.settings.get("bm25", {}), RecipeError, "bm25")


def _mining(database: Database, row: tuple[Any, ...]) -> Mining:
    (key, recipe, source, split, method, definition, settings, *others) = row
    content, version, digest, finished, report = others
    plain = _Plain(database, key, definition, settings, report)
    return Mining(
        key=int(key),
        recipe=recipe,
        source=source,
        split=split,
        method=method,
        definition=plain.definition,
        settings=plain.bm25(),
        terms=plain.settings.get("terms", {}),
        content=content,
        corpus_version=int(version),
        digest=digest or "",
        finished_at=finished,
        report=plain.report,
    )
